//! What a database counted.

use crate::buffer::PoolStats;
use crate::lock::LockStats;
use crate::metrics::WaitsSnapshot;
use crate::redo::RedoStats;
use crate::txn::TxnStats;

/// What a database counted since it was opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineStats {
    /// The buffer pool's counters.
    pub pool: PoolStats,
    /// What the redo log did, and how full it is.
    pub redo: RedoStats,
    /// What transactions did, and how much history there is.
    pub txns: TxnStats,
    /// Row locks and waits for them.
    pub locks: LockStats,
    /// Time waited, per reason.
    pub waits: WaitsSnapshot,
    /// Callbacks that held their slot for the scheduler's [`stall_limit`](flifo_admission::Config::stall_limit) while others queued,
    /// and so lost it: they wait without saying so ([`Session::wait`](crate::Session::wait)), or take long.
    pub stalled_callbacks: u64,
    /// Whether files are read and written past the operating system's page cache. False with
    /// [`direct_io`](crate::EngineConfig::direct_io) asked for: the file system has no such access.
    pub direct_io: bool,
    /// Bytes per page.
    pub page_size: u32,
    /// Data files over which the pages are striped.
    pub data_files: u32,
    /// Bytes of pages in the data files, used or not.
    pub data_bytes: u64,
}
