//! Results of changes: the engine's counters of a round, and retries.

use serde::{Deserialize, Serialize};

/// The embedded engine's counters of a round with changes: differences between its start and a last sample shortly
/// before its end, unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeFigures {
    /// Commits of transactions that had written.
    pub commits_per_s: Option<f64>,
    /// Rollbacks of transactions that had written.
    pub rollbacks: Option<u64>,
    /// Redo written.
    pub redo_bytes_per_s: Option<f64>,
    /// Syncs of the redo log.
    pub log_syncs_per_s: Option<f64>,
    /// Time that a commit waits for the redo log.
    pub log_wait_p50_us: Option<f64>,
    pub log_wait_p99_us: Option<f64>,
    /// Redo since the last checkpoint, at the round's end.
    pub checkpoint_age_bytes: Option<u64>,
    /// The highest share of the redo log's capacity in use; sampled ten times a second.
    pub checkpoint_age_share_max: Option<f64>,
    /// How many times a thread waited for a checkpoint because the log was full: each is a failure.
    pub redo_hard_stops: Option<u64>,
    /// How many times a change was throttled because the log was getting full.
    pub redo_holds: Option<u64>,
    /// Undo records that were not purged, at the round's end.
    pub history_length: Option<u64>,
    /// Waits for row locks.
    pub row_lock_waits: Option<u64>,
    pub row_lock_wait_p50_us: Option<f64>,
    pub row_lock_wait_p99_us: Option<f64>,
    /// Waits that ended because their transaction was a deadlock's victim.
    pub row_lock_deadlocks: Option<u64>,
    /// Pages with changes that were not on disk, at the round's end.
    pub dirty_pages: Option<u64>,
}

/// The engine's counters over one second, and two gauges at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineSecond {
    pub disk_reads_per_s: Option<f64>,
    pub disk_writes_per_s: Option<f64>,
    /// Waits for a free frame of the buffer pool.
    pub free_frame_waits_per_s: Option<f64>,
    pub redo_bytes_per_s: Option<f64>,
    /// Undo records that were purged.
    pub purged_per_s: Option<f64>,
    /// Undo records that were not purged.
    pub history_length: Option<u64>,
    /// Pages with changes that were not on disk.
    pub dirty_pages: Option<u64>,
}

/// Errors after which a statement or a transaction was retried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusalFigures {
    /// All of them.
    pub retries: Option<u64>,
    pub deadlocks: Option<u64>,
    pub lock_wait_timeouts: Option<u64>,
    /// For the embedded engine: another transaction had changed the row since the snapshot.
    pub write_conflicts: Option<u64>,
    /// The plugin's queue timeout, or the server's own limit of time.
    pub statement_timeouts: Option<u64>,
    /// The plugin's queue was full.
    pub queue_full_refusals: Option<u64>,
    pub other_refusals: Option<u64>,
}
