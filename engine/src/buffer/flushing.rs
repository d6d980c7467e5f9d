//! What decides which pages are written: the mode, the plan that cleaners follow, and the counters of all writes.
//!
//! | who writes | why ([`Cause`]) | bound |
//! |---|---|---|
//! | a cleaner | a free frame is needed | none |
//! | a cleaner | the plan: the oldest pages, for their age or because the database is idle | target and quota |
//! | a cleaner, a thread that flushes the pool | a flush of the whole pool, a close | none |
//! | the sequential flusher | its rounds, or a sync flush | see `sequential.rs` |
//!
//! The plan is published by one thread and read by all cleaners. Its parts are independent: a cleaner that sees an old
//! quota beside a new target writes a batch too much or too early, and the controller accounts for it.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::adaptive::{Phase, Plan, SETPOINT};
use super::sequential::ASYNC_AGE;
use crate::page::Lsn;

/// How pages are chosen for writing before a checkpoint needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FlushMode {
    /// A controller keeps the redo log filled to about 70%, at an even rate of writes.
    #[default]
    Adaptive,
    /// As MySQL 5.6 did it, for comparison only: one thread writes instance after instance, and when the log is nearly
    /// full all writers wait until it has been through all of them. Do not use it for data of value: it stalls.
    Sequential,
}

impl FlushMode {
    /// All modes.
    pub const ALL: [FlushMode; 2] = [FlushMode::Adaptive, FlushMode::Sequential];

    /// The name, as options and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            FlushMode::Adaptive => "adaptive",
            FlushMode::Sequential => "sequential",
        }
    }

    /// The share of the redo log's capacity at which flushing holds the age.
    fn age_share(self) -> f64 {
        match self {
            FlushMode::Adaptive => SETPOINT,
            FlushMode::Sequential => ASYNC_AGE,
        }
    }
}

impl fmt::Display for FlushMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FlushMode {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = FlushMode::ALL.into_iter().find(|mode| mode.name() == name);
        named.ok_or_else(|| format!("flush_mode = {name} is not allowed; use adaptive or sequential"))
    }
}

/// The settings of the flushing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushConfig {
    /// How pages are chosen for writing.
    pub mode: FlushMode,
    /// Pages per second that are written while the database is idle.
    pub io_capacity: u32,
    /// Pages per second that are written for their age, at most.
    pub io_capacity_max: u32,
}

impl Default for FlushConfig {
    /// As in MySQL 8.4.
    fn default() -> Self {
        FlushConfig { mode: FlushMode::Adaptive, io_capacity: 10_000, io_capacity_max: 20_000 }
    }
}

/// Counters of page writes since the database was opened, and the present plan.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlushStats {
    /// How many times a statement waited for a sync flush ([`FlushMode::Sequential`]).
    pub sync_waits: u64,
    /// Pages written by sync flushes.
    pub sync_pages: u64,
    /// Pages written for their age.
    pub adaptive_pages: u64,
    /// Pages written because the database was idle.
    pub background_pages: u64,
    /// Pages written so that their frames can be reused.
    pub lru_pages: u64,
    /// Pages written for a flush of the whole pool, such as a close.
    pub requested_pages: u64,
    /// Pages that the present plan lets the cleaners write.
    pub n_to_flush_requested: u64,
    /// Pages that the age of the log alone asks for.
    pub n_to_flush_by_age: u64,
    /// Pages written per second for their age, on average over about a second.
    pub avg_page_rate: u64,
    /// Redo written per second, on average over about a second, bytes.
    pub lsn_avg_rate: u64,
    /// Age of the redo log that flushing holds the log at, bytes: the controller's setpoint, or in
    /// [`FlushMode::Sequential`] the age from which InnoDB flushes asynchronously.
    pub max_modified_age_async: u64,
    /// Pages that became dirty before this LSN are to be written.
    pub target_lsn: u64,
    /// Batches of pages written. With doublewrite, each is written twice.
    pub batches: u64,
    /// Time that these batches took, nanoseconds.
    pub batches_ns: u64,
}

/// Why a batch of pages is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Frames are needed.
    Frames,
    /// The plan says so.
    Plan,
    /// A flush of the whole pool.
    Request,
    /// A sync flush.
    Sync,
}

/// The plan, and the counters.
pub(super) struct Flushing {
    pub(super) config: FlushConfig,
    /// Pages that became dirty before it are written without bounds: a flush of the whole pool waits for them. Grows.
    requested: AtomicU64,
    target: AtomicU64,
    quota: AtomicI64,
    is_background: AtomicU64,
    /// Pages whose writes the plan has caused, begun.
    begun: AtomicU64,
    by_age: AtomicU64,
    granted: AtomicU64,
    page_rate: AtomicU64,
    redo_rate: AtomicU64,
    pub(super) sync_waits: AtomicU64,
    sync_pages: AtomicU64,
    adaptive_pages: AtomicU64,
    background_pages: AtomicU64,
    lru_pages: AtomicU64,
    requested_pages: AtomicU64,
    batches: AtomicU64,
    batches_ns: AtomicU64,
}

/// Relaxed: numbers that guard nothing.
const RELAXED: Ordering = Ordering::Relaxed;

impl Flushing {
    pub(super) fn new(config: FlushConfig) -> Self {
        let zero = || AtomicU64::new(0);
        Flushing {
            config,
            requested: zero(),
            target: zero(),
            quota: AtomicI64::new(0),
            is_background: zero(),
            begun: zero(),
            by_age: zero(),
            granted: zero(),
            page_rate: zero(),
            redo_rate: zero(),
            sync_waits: zero(),
            sync_pages: zero(),
            adaptive_pages: zero(),
            background_pages: zero(),
            lru_pages: zero(),
            requested_pages: zero(),
            batches: zero(),
            batches_ns: zero(),
        }
    }

    /// Pages that became dirty before `lsn` are to be written, whatever the plan says.
    pub(super) fn request(&self, lsn: Lsn) {
        self.requested.fetch_max(lsn.0, RELAXED);
    }

    pub(super) fn requested(&self) -> Lsn {
        Lsn(self.requested.load(RELAXED))
    }

    /// The plan's target, if the plan allows a write now.
    pub(super) fn target(&self) -> Option<Lsn> {
        (self.quota.load(RELAXED) > 0).then(|| Lsn(self.target.load(RELAXED)))
    }

    /// Publishes a plan.
    pub(super) fn publish(&self, plan: &Plan) {
        self.target.store(plan.target.0, RELAXED);
        self.quota.store(plan.quota, RELAXED);
        self.is_background.store(u64::from(plan.phase == Phase::Background), RELAXED);
        self.by_age.store(plan.by_age, RELAXED);
        self.granted.store(plan.quota.max(0) as u64, RELAXED);
        self.page_rate.store(plan.pages_per_s as u64, RELAXED);
        self.redo_rate.store(plan.redo_per_s as u64, RELAXED);
    }

    /// Counts a batch at its begin, before its pages are written.
    pub(super) fn begin_batch(&self, cause: Cause, pages: usize) {
        let counter = match cause {
            Cause::Frames => &self.lru_pages,
            Cause::Request => &self.requested_pages,
            Cause::Sync => &self.sync_pages,
            Cause::Plan => {
                self.quota.fetch_sub(pages as i64, RELAXED);
                self.begun.fetch_add(pages as u64, RELAXED);
                match self.is_background.load(RELAXED) {
                    0 => &self.adaptive_pages,
                    _ => &self.background_pages,
                }
            }
        };
        counter.fetch_add(pages as u64, RELAXED);
    }

    /// Counts a batch at its end.
    pub(super) fn end_batch(&self, took: Duration) {
        self.batches.fetch_add(1, RELAXED);
        self.batches_ns.fetch_add(took.as_nanos() as u64, RELAXED);
    }

    /// Pages whose writes the plan has caused.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(RELAXED)
    }

    /// The counters; `capacity_bytes` is the redo log's.
    pub(super) fn stats(&self, capacity_bytes: u64) -> FlushStats {
        let load = |counter: &AtomicU64| counter.load(RELAXED);
        FlushStats {
            sync_waits: load(&self.sync_waits),
            sync_pages: load(&self.sync_pages),
            adaptive_pages: load(&self.adaptive_pages),
            background_pages: load(&self.background_pages),
            lru_pages: load(&self.lru_pages),
            requested_pages: load(&self.requested_pages),
            n_to_flush_requested: load(&self.granted),
            n_to_flush_by_age: load(&self.by_age),
            avg_page_rate: load(&self.page_rate),
            lsn_avg_rate: load(&self.redo_rate),
            max_modified_age_async: (self.config.mode.age_share() * capacity_bytes as f64) as u64,
            target_lsn: load(&self.target),
            batches: load(&self.batches),
            batches_ns: load(&self.batches_ns),
        }
    }
}
