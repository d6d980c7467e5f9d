//! What a scheduler counts and times.
//!
//! Counters belong to a session: it alone writes them, with plain stores, so counting costs no shared
//! cache line. Histograms are shared, but only slow paths and one entry in [`SAMPLE_EVERY`] touch them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use histogram::{AtomicHistogram, Histogram};

use crate::state::{SESSIONS_MAX, State};
use crate::{Policy, Refused, WaitKind};

/// One entry in so many has its time inside measured: two clock readings cost more than an entry.
pub(crate) const SAMPLE_EVERY: u32 = 64;

/// Buckets of 3% from 1 ns up to 2^42 ns (73 minutes); a longer time counts as that.
const GROUPING_POWER: u8 = 5;
const MAX_VALUE_POWER: u8 = 42;

/// A session's counters. Invariant: written by its session only, so a load and a store make an increment.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) entered_at_once: AtomicU64,
    pub(crate) entered_by_lifo: AtomicU64,
    pub(crate) entered_from_queue: AtomicU64,
    pub(crate) entered_by_force: AtomicU64,
    pub(crate) entered_by_ticket: AtomicU64,
    pub(crate) handed_on: AtomicU64,
}

/// Adds to a counter that only the calling session writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// Sums of counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Totals {
    at_once: u64,
    by_lifo: u64,
    from_queue: u64,
    by_force: u64,
    by_ticket: u64,
    handed_on: u64,
}

impl Totals {
    fn add(&mut self, counters: &Counters) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.at_once += read(&counters.entered_at_once);
        self.by_lifo += read(&counters.entered_by_lifo);
        self.from_queue += read(&counters.entered_from_queue);
        self.by_force += read(&counters.entered_by_force);
        self.by_ticket += read(&counters.entered_by_ticket);
        self.handed_on += read(&counters.handed_on);
    }
}

/// The sessions that are alive, by number, and the sums of those that are gone.
#[derive(Default)]
struct Registry {
    next: u64,
    live: BTreeMap<u64, Arc<Counters>>,
    gone: Totals,
}

pub(crate) struct Metrics {
    epoch: Instant,
    /// Time passes for a model checker only when the model says so, or it could not repeat a schedule.
    #[cfg(any(loom, shuttle))]
    pub(crate) clock_ns: AtomicU64,
    registry: Mutex<Registry>,
    inside_max: AtomicU32,
    pending_max: AtomicU32,
    queued_max: AtomicU32,
    queued_ns: AtomicHistogram,
    woken_to_running_ns: AtomicHistogram,
    inside_ns: AtomicHistogram,
    wait_ns: [AtomicHistogram; WaitKind::ALL.len()],
    /// Sessions that poll now (`sleep`), which has no queue to count them.
    polling: AtomicU32,
    refused: [AtomicU64; 3],
    stalls_broken: AtomicU64,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let histogram = || {
            AtomicHistogram::new(GROUPING_POWER, MAX_VALUE_POWER)
                .expect("the powers are within the crate's range")
        };
        Metrics {
            epoch: Instant::now(),
            #[cfg(any(loom, shuttle))]
            clock_ns: AtomicU64::new(0),
            registry: Mutex::default(),
            inside_max: AtomicU32::new(0),
            pending_max: AtomicU32::new(0),
            queued_max: AtomicU32::new(0),
            queued_ns: histogram(),
            woken_to_running_ns: histogram(),
            inside_ns: histogram(),
            wait_ns: std::array::from_fn(|_| histogram()),
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
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        assert!((registry.live.len() as u64) < SESSIONS_MAX, "more than {SESSIONS_MAX} sessions at a time");
        let number = registry.next;
        registry.next += 1;
        let counters = Arc::<Counters>::default();
        registry.live.insert(number, Arc::clone(&counters));
        (number, counters)
    }

    pub(crate) fn unregister(&self, number: u64) {
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counters) = registry.live.remove(&number) {
            registry.gone.add(&counters);
        }
    }

    /// An entry made T what it is in `state`.
    #[inline]
    pub(crate) fn saw_places(&self, state: State) {
        raise(&self.inside_max, state.places());
    }

    /// A thread that joined the queue made Q what it is in `state`.
    pub(crate) fn saw_queue(&self, state: State) {
        raise(&self.queued_max, state.queued());
    }

    /// A hand-off made P what it is in `state`.
    pub(crate) fn saw_pending(&self, state: State) {
        raise(&self.pending_max, state.pending());
    }

    pub(crate) fn queued(&self, ns: u64) {
        record(&self.queued_ns, ns);
    }

    pub(crate) fn woken_to_running(&self, ns: u64) {
        record(&self.woken_to_running_ns, ns);
    }

    pub(crate) fn inside(&self, ns: u64) {
        record(&self.inside_ns, ns);
    }

    /// A wait of this kind took so long.
    pub(crate) fn waited(&self, kind: WaitKind, ns: u64) {
        record(&self.wait_ns[kind as usize], ns);
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
        raise(&self.queued_max, polling);
        polling
    }

    /// One less polls; how many still do.
    pub(crate) fn polls_end(&self) -> u32 {
        self.polling.fetch_sub(1, Ordering::Relaxed) - 1
    }

    fn totals(&self) -> Totals {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut totals = registry.gone;
        registry.live.values().for_each(|counters| totals.add(counters));
        totals
    }

    /// A number that grows whenever a session enters or hands its place on.
    pub(crate) fn progress(&self) -> u64 {
        let totals = self.totals();
        totals.at_once + totals.by_lifo + totals.from_queue + totals.by_force + totals.handed_on
    }

    /// `promoted`, and the sessions that wait for row locks and for disks now, are known elsewhere.
    pub(crate) fn snapshot(&self, now: State, promoted: u64, waiting: (u32, u32)) -> Snapshot {
        let totals = self.totals();
        let refused = |why: Refused| self.refused[why as usize].load(Ordering::Relaxed);
        Snapshot {
            policy: now.policy(),
            thread_concurrency: now.limit(),
            refused_by_timeout: refused(Refused::Timeout),
            refused_queue_full: refused(Refused::QueueFull),
            cancelled: refused(Refused::Cancelled),
            stalls_broken: self.stalls_broken.load(Ordering::Relaxed),
            promoted,
            lock_waiters: waiting.0,
            disk_waits: waiting.1,
            wait_ns: self.wait_ns.each_ref().map(AtomicHistogram::load),
            entered_at_once: totals.at_once,
            entered_by_ticket: totals.by_ticket,
            entered_by_lifo: totals.by_lifo,
            entered_from_queue: totals.from_queue,
            entered_by_force: totals.by_force,
            handed_on: totals.handed_on,
            inside: now.places(),
            pending: now.pending(),
            queued: now.queued() + self.polling.load(Ordering::Relaxed),
            inside_max: self.inside_max.load(Ordering::Relaxed),
            pending_max: self.pending_max.load(Ordering::Relaxed),
            queued_max: self.queued_max.load(Ordering::Relaxed),
            queued_ns: self.queued_ns.load(),
            woken_to_running_ns: self.woken_to_running_ns.load(),
            inside_ns: self.inside_ns.load(),
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

fn record(histogram: &AtomicHistogram, ns: u64) {
    histogram
        .increment(ns.min((1 << MAX_VALUE_POWER) - 1))
        .expect("the value was cut to the histogram's range");
}

/// What a scheduler did and what it is doing. Counters and histograms are cumulative since it was made.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The policy now.
    pub policy: Policy,
    /// L: the limit now; 0: none.
    pub thread_concurrency: u32,
    /// Entries that found a free place.
    pub entered_at_once: u64,
    /// Entries on a ticket. Counted when the place is left, or its tickets are renewed.
    pub entered_by_ticket: u64,
    /// Entries of newcomers past the limit, while woken threads did not run yet (`flifo`).
    pub entered_by_lifo: u64,
    /// Entries after queueing (or polling, `sleep`).
    pub entered_from_queue: u64,
    /// Ends of waits: entries that asked nobody.
    pub entered_by_force: u64,
    /// Exits that handed their place to a queued thread.
    pub handed_on: u64,
    /// Entries refused because the queue timeout or the caller's deadline had passed.
    pub refused_by_timeout: u64,
    /// Entries refused because the queue was full.
    pub refused_queue_full: u64,
    /// Entries that were cancelled.
    pub cancelled: u64,
    /// Threads admitted past the limit because nothing moved.
    pub stalls_broken: u64,
    /// Sessions that went before the first class because of their age.
    pub promoted: u64,
    /// Sessions now in waits for row locks that gave up their places.
    pub lock_waiters: u32,
    /// Sessions now in waits for disks that gave up their places.
    pub disk_waits: u32,
    /// T: places out now, to threads running inside or woken to run.
    pub inside: u32,
    /// P: threads woken now that do not run yet.
    pub pending: u32,
    /// Q: threads queued now.
    pub queued: u32,
    /// The highest T since the scheduler was made.
    pub inside_max: u32,
    /// The highest P since the scheduler was made.
    pub pending_max: u32,
    /// The highest Q since the scheduler was made.
    pub queued_max: u32,
    /// Time from joining the queue to running inside, ns, of every entry that queued.
    pub queued_ns: Histogram,
    /// W: time from being handed a place to running, ns, of every hand-off.
    pub woken_to_running_ns: Histogram,
    /// S: time from entering to leaving, ns, of one place in 64.
    pub inside_ns: Histogram,
    /// Time of the outermost waits, ns, by [`WaitKind`].
    pub wait_ns: [Histogram; WaitKind::ALL.len()],
}

impl Snapshot {
    /// What happened after `earlier`, a snapshot of the same scheduler: counters and histograms are
    /// differences; the T, P, Q of now and the maxima stay.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let difference = |now: &Histogram, then: &Histogram| {
            now.wrapping_sub(then).expect("all histograms of this crate have one configuration")
        };
        Snapshot {
            entered_at_once: self.entered_at_once - earlier.entered_at_once,
            entered_by_ticket: self.entered_by_ticket - earlier.entered_by_ticket,
            entered_by_lifo: self.entered_by_lifo - earlier.entered_by_lifo,
            entered_from_queue: self.entered_from_queue - earlier.entered_from_queue,
            entered_by_force: self.entered_by_force - earlier.entered_by_force,
            handed_on: self.handed_on - earlier.handed_on,
            refused_by_timeout: self.refused_by_timeout - earlier.refused_by_timeout,
            refused_queue_full: self.refused_queue_full - earlier.refused_queue_full,
            cancelled: self.cancelled - earlier.cancelled,
            stalls_broken: self.stalls_broken - earlier.stalls_broken,
            promoted: self.promoted - earlier.promoted,
            wait_ns: std::array::from_fn(|kind| difference(&self.wait_ns[kind], &earlier.wait_ns[kind])),
            queued_ns: difference(&self.queued_ns, &earlier.queued_ns),
            woken_to_running_ns: difference(&self.woken_to_running_ns, &earlier.woken_to_running_ns),
            inside_ns: difference(&self.inside_ns, &earlier.inside_ns),
            ..self.clone()
        }
    }
}
