//! A database's counters.

use crate::buffer::{FlushStats, PoolStats};
use crate::lock::LockStats;
use crate::metrics::{WaitReason, WaitsSnapshot};
use crate::redo::RedoStats;
use crate::txn::TxnStats;

/// A database's counters since it was opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineStats {
    /// The buffer pool's counters.
    pub pool: PoolStats,
    /// Pages written, by cause, and the plan of the flushing.
    pub flush: FlushStats,
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

impl EngineStats {
    /// Redo that recovery would read, bytes.
    pub fn checkpoint_age_bytes(&self) -> u64 {
        self.redo.next_lsn.saturating_sub(self.redo.checkpoint_lsn)
    }

    /// The counters that InnoDB has too, under the names of its `INNODB_METRICS` and its status variables, which mean
    /// the same here. Times are in milliseconds, rates per second.
    pub fn innodb_metrics(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let (pool, flush, redo, locks) = (&self.pool, &self.flush, &self.redo, &self.locks);
        [
            ("buffer_flush_sync_waits", flush.sync_waits),
            ("buffer_flush_sync_total_pages", flush.sync_pages),
            ("buffer_flush_adaptive_total_pages", flush.adaptive_pages),
            ("buffer_flush_background_total_pages", flush.background_pages),
            ("buffer_flush_n_to_flush_requested", flush.n_to_flush_requested),
            ("buffer_flush_n_to_flush_by_age", flush.n_to_flush_by_age),
            ("buffer_flush_avg_page_rate", flush.avg_page_rate),
            ("buffer_flush_lsn_avg_rate", flush.lsn_avg_rate),
            ("buffer_LRU_batch_flush_total_pages", flush.lru_pages),
            ("buffer_pool_wait_free", pool.free_frame_waits),
            ("buffer_pool_pages_total", pool.frames),
            ("buffer_pool_pages_dirty", pool.dirty_pages),
            ("buffer_pool_pages_free", pool.free_frames),
            ("buffer_pool_pages_data", pool.frames - pool.free_frames),
            ("buffer_pages_read", pool.reads),
            ("buffer_pages_written", pool.writes),
            ("log_lsn_current", redo.next_lsn),
            ("log_lsn_last_flush", redo.durable_lsn),
            ("log_lsn_last_checkpoint", redo.checkpoint_lsn),
            ("log_lsn_checkpoint_age", self.checkpoint_age_bytes()),
            ("log_checkpoints", redo.checkpoints),
            ("log_waits", redo.buffer_waits),
            ("log_writes", redo.writes),
            ("os_log_fsyncs", redo.syncs),
            ("os_log_bytes_written", redo.written_bytes),
            ("trx_rseg_history_len", self.txns.history),
            ("lock_deadlocks", locks.deadlocks),
            ("lock_timeouts", locks.timeouts),
            ("lock_row_lock_waits", locks.waits),
            ("lock_row_lock_current_waits", locks.waiting),
            ("lock_row_lock_time", self.waits.total_ns(WaitReason::RowLock) / 1_000_000),
        ]
        .into_iter()
    }
}
