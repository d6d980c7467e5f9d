//! The engine's counters of what concerns changes, between the two ends of a round.

use std::time::Duration;

use flifo_engine::{Database, EngineStats, WaitReason};

use crate::clock;
use crate::figures::quantile_us;
use crate::results::ChangeFigures;

/// Redo from the last checkpoint on, bytes.
fn age_bytes(stats: &EngineStats) -> u64 {
    stats.redo.next_lsn.saturating_sub(stats.redo.checkpoint_lsn)
}

/// The checkpoint's age as a share of the redo log's capacity.
fn age_share(stats: &EngineStats) -> f64 {
    age_bytes(stats) as f64 / stats.redo.capacity_bytes.max(1) as f64
}

/// The highest [`age_share`] of a window.
pub(super) struct Age {
    share_max: f64,
    next_look_ns: u64,
}

impl Age {
    /// A look sums up the counters of all threads, so there are no more of them than are needed.
    const LOOKS_APART_NS: u64 = 100_000_000;

    /// What it is at the window's start.
    pub(super) fn of(stats: &EngineStats) -> Self {
        Age { share_max: age_share(stats), next_look_ns: clock::now_ns() + Self::LOOKS_APART_NS }
    }

    /// Looks again if it is time to.
    pub(super) fn look(&mut self, database: &Database) {
        let now_ns = clock::now_ns();
        if now_ns >= self.next_look_ns {
            self.next_look_ns = now_ns + Self::LOOKS_APART_NS;
            self.share_max = self.share_max.max(age_share(&database.stats()));
        }
    }
}

/// What happened between two looks, and the age in between.
pub(super) fn figures(
    before: &EngineStats,
    after: &EngineStats,
    elapsed: Duration,
    age: &Age,
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
        checkpoint_age_share_max: Some(age.share_max.max(age_share(after))),
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
