//! What a scheduler counts and times, and how it is shown.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use histogram::AtomicHistogram;

use crate::gate::Counts;
use crate::gate::word::Word;
use crate::refused::Refused;

mod counters;
mod histograms;
mod registry;
mod snapshot;
mod text;

pub(crate) use counters::{Counters, add};
pub use histograms::Times;
pub(crate) use histograms::{Histograms, SAMPLE_EVERY, record};
pub(crate) use registry::Registry;
pub use snapshot::Snapshot;

pub(crate) struct Metrics {
    epoch: Instant,
    /// The time, if a test sets it. For a model checker time passes only so, or it could not repeat a schedule.
    #[cfg(any(test, loom, shuttle))]
    pub(crate) clock_ns: AtomicU64,
    pub(crate) registry: Registry,
    pub(crate) histograms: Histograms,
    highest: Highest,
    refused: [AtomicU64; 3],
    stalls_broken: AtomicU64,
    slots_reclaimed: AtomicU64,
}

/// The highest T, P and Q. On cache lines of their own: every entry reads one, and hardly anybody writes.
#[derive(Default)]
#[repr(align(128))]
struct Highest {
    running: AtomicU32,
    pending: AtomicU32,
    queued: AtomicU32,
}

/// What the adaptive limit knows of the sessions.
pub(crate) struct Work {
    /// Work begun so far: entries, those by ticket on slots that were released included. Of forced entries those that begin something: they
    /// are work whether or not the limit makes them need force.
    pub(crate) begun: u64,
    /// Sessions that run without a slot now, uncounted or after a reclaim.
    pub(crate) without_slot: u32,
    /// Sessions that wait for a row lock now and have released their slots for it.
    pub(crate) waits_for_row: u32,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Metrics {
            epoch: Instant::now(),
            #[cfg(any(test, loom, shuttle))]
            clock_ns: AtomicU64::new(0),
            registry: Registry::default(),
            histograms: Histograms::new(),
            highest: Highest::default(),
            refused: Default::default(),
            stalls_broken: AtomicU64::new(0),
            slots_reclaimed: AtomicU64::new(0),
        }
    }

    /// Time since the scheduler was made, ns.
    pub(crate) fn now_ns(&self) -> u64 {
        #[cfg(any(test, loom, shuttle))]
        if cfg!(any(loom, shuttle)) || self.clock_ns.load(Ordering::Relaxed) != 0 {
            return self.clock_ns.load(Ordering::Relaxed);
        }
        self.epoch.elapsed().as_nanos() as u64
    }

    /// When that was, in this scheduler's time; 0 if it was before the scheduler was made.
    pub(crate) fn ns_of(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.epoch).as_nanos().try_into().unwrap_or(u64::MAX)
    }

    /// The inverse of [`Metrics::ns_of`]; `None` for a time beyond all clocks.
    pub(crate) fn instant_of(&self, ns: u64) -> Option<Instant> {
        (ns != u64::MAX).then(|| self.epoch.checked_add(Duration::from_nanos(ns))).flatten()
    }

    /// Reclaims the slots of the sessions that were seen on one stay for at least `limit_ns` at `now_ns`. Returns how many; the caller
    /// releases each.
    pub(crate) fn reclaim(&self, limit_ns: u64, now_ns: u64) -> u32 {
        let reclaimed = self.registry.reclaim(limit_ns, now_ns);
        self.slots_reclaimed.fetch_add(reclaimed.into(), Ordering::Relaxed);
        reclaimed
    }

    /// An entry made T what it is in `word`.
    #[inline]
    pub(crate) fn saw_slots(&self, word: Word) {
        raise(&self.highest.running, word.slots());
    }

    /// A thread that joined the queue made Q what it is in `word`.
    pub(crate) fn saw_queue(&self, word: Word) {
        raise(&self.highest.queued, word.queued());
    }

    /// A hand-off made P what it is in `word`.
    pub(crate) fn saw_pending(&self, word: Word) {
        raise(&self.highest.pending, word.pending());
    }

    pub(crate) fn refused(&self, why: Refused) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn broke_stall(&self) {
        self.stalls_broken.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that grows whenever a session enters as the policy says, or hands its slot off.
    ///
    /// Forced entries are no progress of those that queue: one session with wait after wait makes any number of them.
    pub(crate) fn progress(&self) -> u64 {
        let totals = self.registry.totals();
        totals.at_once + totals.by_barging + totals.from_queue + totals.handed_off
    }

    pub(crate) fn work(&self) -> Work {
        let totals = self.registry.totals();
        let reclaimed = self.registry.count_nodes(|node| node.hold.is_reclaimed());
        Work {
            begun: totals.begins() + totals.by_ticket,
            without_slot: totals.uncounted as u32 + reclaimed,
            waits_for_row: totals.waits_for_row as u32,
        }
    }

    /// What the queue counts, and how many wait for disks now, are known elsewhere.
    pub(crate) fn snapshot(&self, now: Word, queue: Counts, disk_waits: u32) -> Snapshot {
        let totals = self.registry.totals();
        let refused = |why: Refused| self.refused[why as usize].load(Ordering::Relaxed);
        Snapshot {
            elapsed: self.epoch.elapsed(),
            policy: now.policy(),
            thread_concurrency: now.limit(),
            refused_by_timeout: refused(Refused::Timeout),
            refused_queue_full: refused(Refused::QueueFull),
            cancelled: refused(Refused::Cancelled),
            stalls_broken: self.stalls_broken.load(Ordering::Relaxed),
            slots_reclaimed: self.slots_reclaimed.load(Ordering::Relaxed),
            promoted: queue.promoted,
            queued_with_deficit: queue.with_deficit,
            lock_waiters: queue.lock_waiters,
            disk_waits,
            wait_ns: self.histograms.wait_ns.each_ref().map(AtomicHistogram::load),
            admitted_at_once: totals.at_once,
            admitted_by_ticket: totals.by_ticket,
            admitted_by_barging: totals.by_barging,
            admitted_from_queue: totals.from_queue,
            admitted_by_force: totals.forced,
            handed_off: totals.handed_off,
            reserved: totals.reserved,
            running: now.slots(),
            pending: now.pending(),
            queued: now.queued(),
            running_max: self.highest.running.load(Ordering::Relaxed),
            pending_max: self.highest.pending.load(Ordering::Relaxed),
            queued_max: self.highest.queued.load(Ordering::Relaxed),
            queued_ns: self.histograms.queued_ns.load(),
            resumed_ns: self.histograms.resumed_ns.load(),
            woken_to_running_ns: self.histograms.woken_to_running_ns.load(),
            running_ns: self.histograms.running_ns.load(),
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
