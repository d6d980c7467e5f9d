//! A database's counters.

use crate::buffer::PoolStats;
use crate::lock::LockStats;
use crate::metrics::WaitsSnapshot;
use crate::redo::RedoStats;
use crate::txn::TxnStats;

/// A database's counters since it was opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineStats {
    /// The buffer pool's counters.
    pub pool: PoolStats,
    /// The redo log's counters, and its fill level.
    pub redo: RedoStats,
    /// The counters of transactions, and the length of the history.
    pub txns: TxnStats,
    /// Row locks and waits for them.
    pub locks: LockStats,
    /// Time waited, per reason.
    pub waits: WaitsSnapshot,
    /// Callbacks that held their slot for the scheduler's [`stall_limit`](flifo_admission::Config::stall_limit) while
    /// other sessions queued, and so lost it: they wait without [`Session::wait`](crate::Session::wait), or take long.
    pub stalled_callbacks: u64,
    /// Whether files bypass the operating system's page cache. False although
    /// [`direct_io`](crate::EngineConfig::direct_io) is set: the file system does not support O_DIRECT.
    pub direct_io: bool,
    /// Bytes per page.
    pub page_size: u32,
    /// Data files over which the pages are striped.
    pub data_files: u32,
    /// Bytes of pages in the data files, used or not.
    pub data_bytes: u64,
}
