//! What a scheduler counts and times, and how it is shown.
//!
//! | module | holds |
//! |---|---|
//! | `counters` | a session's own counters, and their sums |
//! | `registry` | the sessions that are alive |
//! | `histograms` | shared histograms of time |
//! | `snapshot` | what the embedder sees |
//! | `text` | a snapshot as a block and as a line |
//! | `publish` | a snapshot for the `metrics` facade, if that feature is on |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use histogram::AtomicHistogram;

use crate::config::WaitKind;
use crate::gate::Counts;
use crate::gate::queue::Node;
use crate::gate::word::Word;
use crate::refused::Refused;

mod counters;
mod histograms;
#[cfg(feature = "metrics")]
mod publish;
mod registry;
mod snapshot;
mod text;

pub(crate) use counters::{Counters, add};

pub(crate) use histograms::SAMPLE_EVERY;
pub use histograms::Times;
use histograms::{Histograms, record};
#[cfg(feature = "metrics")]
pub use publish::Publisher;
use registry::Registry;
pub use snapshot::Snapshot;

pub(crate) struct Metrics {
    epoch: Instant,
    /// Time passes for a model checker only when the model says so, or it could not repeat a schedule.
    #[cfg(any(loom, shuttle))]
    pub(crate) clock_ns: AtomicU64,
    registry: Registry,
    histograms: Histograms,
    highest: Highest,
    refused: [AtomicU64; 3],
    stalls_broken: AtomicU64,
    slots_reclaimed: AtomicU64,
}

/// A number that grows whenever a session enters as the policy says, or hands its slot off.
pub(crate) type Progress = u64;

/// The highest T, P and Q. On cache lines of their own: every entry reads one, and hardly anybody writes.
#[derive(Default)]
#[repr(align(128))]
struct Highest {
    running: AtomicU32,
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
            refused: Default::default(),
            stalls_broken: AtomicU64::new(0),
            slots_reclaimed: AtomicU64::new(0),
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
    pub(crate) fn register(&self, node: &Arc<Node>) -> (u64, Arc<Counters>) {
        self.registry.register(node)
    }

    pub(crate) fn unregister(&self, number: u64) {
        self.registry.unregister(number);
    }

    /// How many nodes there are for which `is_so` returns true; called for each session that is alive.
    pub(crate) fn count_nodes(&self, is_so: impl FnMut(&Node) -> bool) -> u32 {
        self.registry.count_nodes(is_so)
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

    pub(crate) fn queued(&self, ns: u64) {
        record(&self.histograms.queued_ns, ns);
    }

    /// A session that has queued for so long resumes a slice that was cut short.
    pub(crate) fn resumed(&self, ns: u64) {
        record(&self.histograms.resumed_ns, ns);
    }

    pub(crate) fn woken_to_running(&self, ns: u64) {
        record(&self.histograms.woken_to_running_ns, ns);
    }

    /// A stay on a slot took so long.
    pub(crate) fn ran(&self, ns: u64) {
        record(&self.histograms.running_ns, ns);
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

    /// Forced entries are no progress of those that queue: one session with wait after wait makes any number of them.
    pub(crate) fn progress(&self) -> Progress {
        let totals = self.registry.totals();
        totals.at_once + totals.by_barging + totals.from_queue + totals.handed_off
    }

    /// Work done so far, and the slots acquired for it. Work is entries, those by ticket on slots that were released included. Of forced
    /// entries those that begin something: they are work whether or not the limit makes them need force.
    pub(crate) fn work_done(&self) -> (u64, u64) {
        let totals = self.registry.totals();
        (totals.begins() + totals.by_ticket, totals.begins())
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
