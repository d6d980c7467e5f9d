//! What a scheduler counts and times, and how that is said.
//!
//! | module | holds |
//! |---|---|
//! | `counters` | a session's own counters, and their sums |
//! | `histograms` | shared histograms of time |
//! | `snapshot` | what the embedder sees |
//! | `text` | a snapshot as a block and as a line |
//! | `publish` | a snapshot for the `metrics` facade, if that feature is on |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use histogram::AtomicHistogram;

use crate::core::Counts;
use crate::disk_bound::Places;
use crate::state::State;
use crate::{Refused, WaitKind};

mod counters;
mod histograms;
#[cfg(feature = "metrics")]
mod publish;
mod snapshot;
mod text;

pub(crate) use counters::{Counters, add};
use counters::{Registry, Totals};
pub(crate) use histograms::SAMPLE_EVERY;
pub use histograms::Times;
use histograms::{Histograms, record};
#[cfg(feature = "metrics")]
pub use publish::Publisher;
pub use snapshot::Snapshot;

pub(crate) struct Metrics {
    epoch: Instant,
    /// Time passes for a model checker only when the model says so, or it could not repeat a schedule.
    #[cfg(any(loom, shuttle))]
    pub(crate) clock_ns: AtomicU64,
    registry: Registry,
    histograms: Histograms,
    highest: Highest,
    /// Sessions that poll now (`sleep`), which has no queue to count them.
    polling: AtomicU32,
    refused: [AtomicU64; 3],
    stalls_broken: AtomicU64,
}

/// The highest T, P and Q. On cache lines of their own: every entry reads one, and hardly anybody writes.
#[derive(Default)]
#[repr(align(128))]
struct Highest {
    inside: AtomicU32,
    pending: AtomicU32,
    queued: AtomicU32,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Metrics {
            epoch: Instant::now(),
            #[cfg(any(loom, shuttle))]
            clock_ns: AtomicU64::new(0),
            registry: Registry::default(),
            histograms: Histograms::new(),
            highest: Highest::default(),
            polling: AtomicU32::new(0),
            refused: Default::default(),
            stalls_broken: AtomicU64::new(0),
        }
    }

    /// Time since the scheduler was made, ns.
    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(not(any(loom, shuttle)))]
        return self.epoch.elapsed().as_nanos() as u64;
        #[cfg(any(loom, shuttle))]
        return self.clock_ns.load(Ordering::Relaxed);
    }

    /// When that was, in this scheduler's time; 0 if it was before the scheduler was made.
    pub(crate) fn ns_of(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.epoch).as_nanos().try_into().unwrap_or(u64::MAX)
    }

    /// The inverse of [`Metrics::ns_of`]; `None` for a time beyond all clocks.
    pub(crate) fn instant_of(&self, ns: u64) -> Option<Instant> {
        (ns != u64::MAX).then(|| self.epoch.checked_add(Duration::from_nanos(ns))).flatten()
    }

    /// Counters for a new session, and its number.
    pub(crate) fn register(&self) -> (u64, Arc<Counters>) {
        self.registry.register()
    }

    pub(crate) fn unregister(&self, number: u64) {
        self.registry.unregister(number);
    }

    /// An entry made T what it is in `state`.
    #[inline]
    pub(crate) fn saw_places(&self, state: State) {
        raise(&self.highest.inside, state.places());
    }

    /// A thread that joined the queue made Q what it is in `state`.
    pub(crate) fn saw_queue(&self, state: State) {
        raise(&self.highest.queued, state.queued());
    }

    /// A hand-off made P what it is in `state`.
    pub(crate) fn saw_pending(&self, state: State) {
        raise(&self.highest.pending, state.pending());
    }

    pub(crate) fn queued(&self, ns: u64) {
        record(&self.histograms.queued_ns, ns);
    }

    /// One that has queued for so long goes on with a turn that was cut short.
    pub(crate) fn resumed(&self, ns: u64) {
        record(&self.histograms.resumed_ns, ns);
    }

    pub(crate) fn woken_to_running(&self, ns: u64) {
        record(&self.histograms.woken_to_running_ns, ns);
    }

    pub(crate) fn inside(&self, ns: u64) {
        record(&self.histograms.inside_ns, ns);
    }

    /// A wait of this kind took so long.
    pub(crate) fn waited(&self, kind: WaitKind, ns: u64) {
        record(&self.histograms.wait_ns[kind as usize], ns);
    }

    pub(crate) fn refused(&self, why: Refused) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn broke_stall(&self) {
        self.stalls_broken.fetch_add(1, Ordering::Relaxed);
    }

    /// One more polls; how many do.
    pub(crate) fn polls_begin(&self) -> u32 {
        let polling = self.polling.fetch_add(1, Ordering::Relaxed) + 1;
        raise(&self.highest.queued, polling);
        polling
    }

    /// One less polls; how many still do.
    pub(crate) fn polls_end(&self) -> u32 {
        self.polling.fetch_sub(1, Ordering::Relaxed) - 1
    }

    /// A number that grows whenever a session enters as the policy says, or hands its place on. Forced entries are no progress of
    /// those who queue: one session with wait after wait makes any number of them.
    pub(crate) fn progress(&self) -> u64 {
        let totals = self.registry.totals();
        totals.at_once + totals.by_lifo + totals.from_queue + totals.handed_on
    }

    /// Work done so far, and the places taken for it. Work is entries, those by ticket of places that were left included. Of
    /// forced ones those that begin something, since these are work whether or not the limit makes them need force; the end of
    /// a wait begins nothing.
    pub(crate) fn work_done(&self) -> (u64, u64) {
        let totals = self.registry.totals();
        (totals.places() + totals.by_ticket, totals.places())
    }

    /// Places taken so far, those of them with a wait for a disk, and waits for rows.
    pub(crate) fn reads(&self) -> Places {
        let totals = self.registry.totals();
        Places {
            taken: totals.places(),
            reading: totals.read_from_disk,
            row_waits: totals.row_waits,
            // They are read one after the other.
            row_waiters: totals.row_waits.saturating_sub(totals.row_waits_over),
        }
    }

    /// What the queue counts, and how many wait for disks now, are known elsewhere.
    pub(crate) fn snapshot(&self, now: State, queue: Counts, disk_waits: u32) -> Snapshot {
        let totals: Totals = self.registry.totals();
        let refused = |why: Refused| self.refused[why as usize].load(Ordering::Relaxed);
        Snapshot {
            elapsed: self.epoch.elapsed(),
            policy: now.policy(),
            thread_concurrency: now.limit(),
            refused_by_timeout: refused(Refused::Timeout),
            refused_queue_full: refused(Refused::QueueFull),
            cancelled: refused(Refused::Cancelled),
            stalls_broken: self.stalls_broken.load(Ordering::Relaxed),
            promoted: queue.promoted,
            queued_owing: queue.queued_owing,
            lock_waiters: queue.lock_waiters,
            disk_waits,
            wait_ns: self.histograms.wait_ns.each_ref().map(AtomicHistogram::load),
            entered_at_once: totals.at_once,
            entered_by_ticket: totals.by_ticket,
            entered_by_lifo: totals.by_lifo,
            entered_from_queue: totals.from_queue,
            entered_by_force: totals.by_force,
            handed_on: totals.handed_on,
            anticipated: totals.anticipated,
            inside: now.places(),
            pending: now.pending(),
            queued: now.queued() + self.polling.load(Ordering::Relaxed),
            inside_max: self.highest.inside.load(Ordering::Relaxed),
            pending_max: self.highest.pending.load(Ordering::Relaxed),
            queued_max: self.highest.queued.load(Ordering::Relaxed),
            queued_ns: self.histograms.queued_ns.load(),
            resumed_ns: self.histograms.resumed_ns.load(),
            woken_to_running_ns: self.histograms.woken_to_running_ns.load(),
            inside_ns: self.histograms.inside_ns.load(),
        }
    }
}

/// Raises a maximum. It is read far more often than written, so the common case only loads.
#[inline]
fn raise(max: &AtomicU32, value: u32) {
    if value > max.load(Ordering::Relaxed) {
        max.fetch_max(value, Ordering::Relaxed);
    }
}
