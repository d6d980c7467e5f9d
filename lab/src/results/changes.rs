//! Results of changes: the engine's counters of a round, and retries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The embedded engine's counters of a round with changes: differences between its start and a last sample shortly
/// before its end, unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChangeFigures {
    /// Commits of transactions that wrote, per second.
    pub commits_per_s: Option<f64>,
    /// Rollbacks of transactions that wrote.
    pub rollbacks: Option<u64>,
    /// Redo written, bytes per second.
    pub redo_bytes_per_s: Option<f64>,
    /// Syncs of the redo log per second; several commits can share a sync.
    pub log_syncs_per_s: Option<f64>,
    /// A commit's wait for the redo log, median, microseconds; `null` without waits.
    pub log_wait_p50_us: Option<f64>,
    /// A commit's wait for the redo log, 99th percentile, microseconds.
    pub log_wait_p99_us: Option<f64>,
    /// Redo since the last checkpoint at the last reading, bytes.
    pub checkpoint_age_bytes: Option<u64>,
    /// Highest share of `redo_capacity_bytes` in use, of ten readings a second.
    pub checkpoint_age_share_max: Option<f64>,
    /// Waits for a checkpoint because the log was full; anything but 0 is a failure of the engine.
    pub redo_hard_stops: Option<u64>,
    /// Waits for sync flushes of sequential flushing.
    pub sync_flush_waits: Option<u64>,
    /// Changes that waited for tokens because the log was more than 75% full.
    pub redo_holds: Option<u64>,
    /// Undo records that are not purged, at the last reading.
    pub history_length: Option<u64>,
    /// Waits for row locks that began.
    pub row_lock_waits: Option<u64>,
    /// Length of the waits that ended, median, microseconds.
    pub row_lock_wait_p50_us: Option<f64>,
    /// Length of the waits that ended, 99th percentile, microseconds.
    pub row_lock_wait_p99_us: Option<f64>,
    /// Waits that ended because their transaction was a deadlock's victim.
    pub row_lock_deadlocks: Option<u64>,
    /// Pages with changes that are not on the disk, at the last reading.
    pub dirty_pages: Option<u64>,
}

/// The engine's counters over one second, and two gauges at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct EngineSecond {
    /// Pages read per second.
    pub disk_reads_per_s: Option<f64>,
    /// Pages written per second.
    pub disk_writes_per_s: Option<f64>,
    /// Waits for a free frame of the buffer pool, per second.
    pub free_frame_waits_per_s: Option<f64>,
    /// Redo written, bytes per second.
    pub redo_bytes_per_s: Option<f64>,
    /// Undo records purged per second.
    pub purged_per_s: Option<f64>,
    /// Undo records that are not purged, at the element's end.
    pub history_length: Option<u64>,
    /// Pages with changes that are not on the disk, at the element's end.
    pub dirty_pages: Option<u64>,
}

/// Errors after which a statement or a transaction was retried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RefusalFigures {
    /// All errors after which a statement or a transaction ran again: the sum of the following keys.
    pub retries: Option<u64>,
    /// Error 1213: deadlocks.
    pub deadlocks: Option<u64>,
    /// Error 1205, except refusals by the plugin: timeouts of row locks.
    pub lock_wait_timeouts: Option<u64>,
    /// Changes of a row that another transaction changed since the snapshot (first updater wins); `null` for a
    /// server.
    pub write_conflicts: Option<u64>,
    /// Error 1205 by the plugin's `flifo_queue_timeout`, and 1969 by `max_statement_time`.
    pub statement_timeouts: Option<u64>,
    /// Error 1205 by the plugin's `flifo_max_queue`.
    pub queue_full_refusals: Option<u64>,
    /// Errors 1020 (record changed), 1317 (interrupted) and 3024 (MySQL's statement timeout).
    pub other_refusals: Option<u64>,
}
