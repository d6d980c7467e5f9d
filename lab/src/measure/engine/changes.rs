//! The engine's counters of changes, between the two ends of a round.

use std::time::Duration;

use flifo_engine::{Database, EngineStats, WaitReason};

use crate::measure::scheduler::quantile_us;
use crate::results::{ChangeFigures, EngineSecond, Second};
use crate::support::clock;

/// Redo from the last checkpoint on, bytes.
fn age_bytes(stats: &EngineStats) -> u64 {
    stats.redo.next_lsn.saturating_sub(stats.redo.checkpoint_lsn)
}

/// The checkpoint's age as a share of the redo log's capacity.
fn age_share(stats: &EngineStats) -> f64 {
    age_bytes(stats) as f64 / stats.redo.capacity_bytes.max(1) as f64
}

/// The samples during a window: the checkpoint's age, and each second's counters.
pub(crate) struct ChangeSampler {
    age_share_max: f64,
    next_sample_ns: u64,
    start_ns: u64,
    /// The counters at the last whole second, and their time.
    second: (EngineStats, u64),
    seconds: Vec<EngineSecond>,
}

impl ChangeSampler {
    /// A sample sums up the counters of all threads, so there are no more of them than are needed.
    const APART_NS: u64 = 100_000_000;

    /// From the window's start on, where it is so.
    pub(crate) fn from(start_ns: u64, stats: &EngineStats) -> Self {
        let now_ns = clock::now_ns();
        ChangeSampler {
            age_share_max: age_share(stats),
            next_sample_ns: now_ns + Self::APART_NS,
            start_ns,
            second: (stats.clone(), now_ns),
            seconds: Vec::new(),
        }
    }

    /// ChangeSampler again if it is time to.
    pub(crate) fn sample(&mut self, database: &Database) {
        let now_ns = clock::now_ns();
        let whole = self.whole_seconds(now_ns);
        if now_ns < self.next_sample_ns && whole == self.seconds.len() {
            return;
        }
        self.next_sample_ns = now_ns + Self::APART_NS;
        let stats = database.stats();
        self.age_share_max = self.age_share_max.max(age_share(&stats));
        self.fill(whole, &stats, now_ns);
    }

    /// The last sample, just before the window's end: it counts for the rest of the window's last second.
    pub(crate) fn end(&mut self, stats: &EngineStats, now_ns: u64, window_end_ns: u64) {
        self.age_share_max = self.age_share_max.max(age_share(stats));
        self.fill(self.whole_seconds(window_end_ns), stats, now_ns);
    }

    fn whole_seconds(&self, at_ns: u64) -> usize {
        (at_ns.saturating_sub(self.start_ns) / 1_000_000_000) as usize
    }

    /// Each of the seconds that have ended since has the mean over all of them: if a sample is late, they are several.
    fn fill(&mut self, whole: usize, stats: &EngineStats, now_ns: u64) {
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.second.1));
        if whole > self.seconds.len() && !elapsed.is_zero() {
            self.seconds.resize(whole, engine_second(&self.second.0, stats, elapsed));
            self.second = (stats.clone(), now_ns);
        }
    }

    /// Adds each second's counters to the other samples of that second, if these exist.
    pub(crate) fn note(&mut self, seconds: &mut [Second]) {
        if seconds.len() < self.seconds.len() {
            return;
        }
        for (second, engine) in seconds.iter_mut().zip(self.seconds.drain(..)) {
            second.engine = Some(engine);
        }
    }
}

fn engine_second(before: &EngineStats, after: &EngineStats, elapsed: Duration) -> EngineSecond {
    let per_s = |now: u64, then: u64| Some((now - then) as f64 / elapsed.as_secs_f64());
    EngineSecond {
        disk_reads_per_s: per_s(after.pool.reads, before.pool.reads),
        disk_writes_per_s: per_s(after.pool.writes, before.pool.writes),
        free_frame_waits_per_s: per_s(after.pool.free_frame_waits, before.pool.free_frame_waits),
        redo_bytes_per_s: per_s(after.redo.next_lsn, before.redo.next_lsn),
        purged_per_s: per_s(after.txns.purged, before.txns.purged),
        history_length: Some(after.txns.history),
        dirty_pages: Some(after.pool.dirty_pages),
    }
}

/// What happened between two samples, and the age in between.
pub(crate) fn figures(
    before: &EngineStats,
    after: &EngineStats,
    elapsed: Duration,
    sampler: &ChangeSampler,
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
        checkpoint_age_share_max: Some(sampler.age_share_max),
        redo_hard_stops: Some(after.redo.hard_stops - before.redo.hard_stops),
        sync_flush_waits: Some(after.flush.sync_waits - before.flush.sync_waits),
        redo_holds: Some(waits.count(WaitReason::RedoTokens)),
        history_length: Some(after.txns.history),
        row_lock_waits: Some(after.locks.waits - before.locks.waits),
        row_lock_wait_p50_us: wait_us(WaitReason::RowLock, 0.50),
        row_lock_wait_p99_us: wait_us(WaitReason::RowLock, 0.99),
        row_lock_deadlocks: Some(after.locks.deadlocks - before.locks.deadlocks),
        dirty_pages: Some(after.pool.dirty_pages),
    }
}
