//! A database's counters.

use std::sync::Arc;

use crate::buffer::{BufferPool, FlushStats, PoolStats};
use crate::disk::{Disk, Tablespace};
use crate::lock::LockStats;
use crate::metrics::{WaitReason, Waits, WaitsSnapshot};
use crate::process::Process;
use crate::redo::RedoStats;
use crate::txn::{TxnStats, TxnSystem};

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
            ("log_max_modified_age_async", flush.max_modified_age_async),
            ("log_checkpoints", redo.checkpoints),
            ("log_waits", redo.buffer_waits),
            ("log_writes", redo.writes),
            ("os_log_fsyncs", redo.syncs),
            ("os_log_bytes_written", redo.written_bytes),
            ("trx_rseg_history_len", self.txns.history),
            ("trx_rw_commits", self.txns.commits),
            ("trx_rollbacks", self.txns.rollbacks),
            ("lock_deadlocks", locks.deadlocks),
            ("lock_timeouts", locks.timeouts),
            ("lock_row_lock_waits", locks.waits),
            ("lock_row_lock_current_waits", locks.waiting),
            ("lock_row_lock_time", self.waits.total_ns(WaitReason::RowLock) / 1_000_000),
        ]
        .into_iter()
    }

    /// All counters by name: those of [`EngineStats::innodb_metrics`], and for each wait reason `wait_NAME_count` and
    /// `wait_NAME_ns`, the number and the time of its waits.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let own = [
            ("redo_capacity_bytes", self.redo.capacity_bytes),
            ("redo_hard_stops", self.redo.hard_stops),
            ("trx_purged", self.txns.purged),
        ];
        let waits = WaitReason::ALL.into_iter().flat_map(|reason| {
            let (name, waits) = (reason.name(), &self.waits);
            [
                (format!("wait_{name}_count"), waits.count(reason)),
                (format!("wait_{name}_ns"), waits.total_ns(reason)),
            ]
        });
        let named = self.innodb_metrics().chain(own).map(|(name, number)| (name.to_owned(), number));
        named.chain(waits).collect()
    }
}

/// What counts in an open database.
#[derive(Clone)]
pub(super) struct Sources {
    pub(super) process: Process,
    pub(super) pool: Arc<BufferPool>,
    pub(super) space: Arc<Tablespace>,
    pub(super) txns: Arc<TxnSystem>,
    pub(super) waits: Arc<Waits>,
    pub(super) disk: Arc<dyn Disk>,
}

impl Sources {
    /// The counters so far.
    pub(super) fn stats(&self) -> EngineStats {
        let space = &self.space;
        EngineStats {
            pool: self.pool.stats(),
            flush: self.pool.flush_stats(),
            waits: self.waits.snapshot(),
            stalled_callbacks: self.waits.stalled_callbacks(),
            redo: self.pool.log().stats(),
            txns: self.txns.stats(),
            locks: match self.process.is_current() {
                true => self.txns.locks().stats(),
                false => LockStats::default(),
            },
            direct_io: self.disk.direct_io(),
            page_size: space.page_size() as u32,
            data_files: space.data_files(),
            data_bytes: space.pages() * space.page_size() as u64,
        }
    }
}
