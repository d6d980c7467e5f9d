//! The engine's counters of what concerns changes, between the two ends of a round.

use std::time::Duration;

use flifo_engine::{EngineStats, WaitReason};

use crate::figures::quantile_us;
use crate::results::ChangeFigures;

/// Redo from the last checkpoint on, bytes.
fn age_bytes(stats: &EngineStats) -> u64 {
    stats.redo.next_lsn.saturating_sub(stats.redo.checkpoint_lsn)
}

/// The checkpoint's age as a share of the redo log's capacity.
pub(super) fn age_share(stats: &EngineStats) -> f64 {
    age_bytes(stats) as f64 / stats.redo.capacity_bytes.max(1) as f64
}

/// What happened between two looks; `age_share_max` is the caller's, who looked in between.
pub(super) fn figures(
    before: &EngineStats,
    after: &EngineStats,
    elapsed: Duration,
    age_share_max: f64,
) -> ChangeFigures {
    let waits = after.waits.since(&before.waits);
    let wait_us = |reason, quantile| quantile_us(waits.waits_ns(reason), quantile);
    let per_s = |now: u64, then: u64| Some((now - then) as f64 / elapsed.as_secs_f64());
    ChangeFigures {
        commits_per_s: per_s(after.txns.commits, before.txns.commits),
        rollbacks: Some(after.txns.rollbacks - before.txns.rollbacks),
        redo_bytes_per_s: per_s(after.redo.next_lsn, before.redo.next_lsn),
        log_syncs_per_s: per_s(after.redo.syncs, before.redo.syncs),
        log_wait_p50_us: wait_us(WaitReason::LogSync, 0.50),
        log_wait_p99_us: wait_us(WaitReason::LogSync, 0.99),
        checkpoint_age_bytes: Some(age_bytes(after)),
        checkpoint_age_share_max: Some(age_share_max.max(age_share(after))),
        redo_hard_stops: Some(after.redo.hard_stops - before.redo.hard_stops),
        redo_holds: Some(waits.count(WaitReason::RedoSpace)),
        history_length: Some(after.txns.history),
        row_lock_waits: Some(after.locks.waits - before.locks.waits),
        row_lock_wait_p50_us: wait_us(WaitReason::RowLock, 0.50),
        row_lock_wait_p99_us: wait_us(WaitReason::RowLock, 0.99),
        row_lock_deadlocks: Some(after.locks.deadlocks - before.locks.deadlocks),
        dirty_pages: Some(after.pool.dirty_pages),
    }
}
