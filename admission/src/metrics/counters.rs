//! Counters that belong to a session: it alone writes them, with plain stores, so counting costs no shared
//! cache line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::state::SESSIONS_MAX;

/// A session's counters. Invariant: written by its session only, so a load and a store make an increment. On cache lines of their
/// own: whoever takes a place writes here.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) entered_at_once: AtomicU64,
    /// Those of them on a place that had waited for the session.
    pub(crate) anticipated: AtomicU64,
    pub(crate) entered_by_lifo: AtomicU64,
    pub(crate) entered_from_queue: AtomicU64,
    pub(crate) entered_by_force: AtomicU64,
    /// Those of the former that begin something, and end no wait.
    pub(crate) entered_past_limit: AtomicU64,
    pub(crate) entered_by_ticket: AtomicU64,
    pub(crate) handed_on: AtomicU64,
    /// Places on which there was a wait for a disk.
    pub(crate) read_from_disk: AtomicU64,
    /// Waits for row locks that began, and that are over.
    pub(crate) row_waits: AtomicU64,
    pub(crate) row_waits_over: AtomicU64,
}

impl Counters {
    /// Places taken so far, for whatever begins there; the end of a wait begins nothing.
    pub(crate) fn places(&self) -> u64 {
        let kinds = [
            &self.entered_at_once,
            &self.entered_by_lifo,
            &self.entered_from_queue,
            &self.entered_past_limit,
        ];
        kinds.iter().map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}

/// Adds to a counter that only the calling session writes.
#[inline]
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

/// Sums of counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) at_once: u64,
    pub(super) anticipated: u64,
    pub(super) by_lifo: u64,
    pub(super) from_queue: u64,
    pub(super) by_force: u64,
    pub(super) past_limit: u64,
    pub(super) by_ticket: u64,
    pub(super) handed_on: u64,
    pub(super) read_from_disk: u64,
    pub(super) row_waits: u64,
    pub(super) row_waits_over: u64,
}

impl Totals {
    /// Places taken, for whatever begins there.
    pub(super) fn places(&self) -> u64 {
        self.at_once + self.by_lifo + self.from_queue + self.past_limit
    }

    fn add(&mut self, counters: &Counters) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.at_once += read(&counters.entered_at_once);
        self.anticipated += read(&counters.anticipated);
        self.by_lifo += read(&counters.entered_by_lifo);
        self.from_queue += read(&counters.entered_from_queue);
        self.by_force += read(&counters.entered_by_force);
        self.past_limit += read(&counters.entered_past_limit);
        self.by_ticket += read(&counters.entered_by_ticket);
        self.handed_on += read(&counters.handed_on);
        self.read_from_disk += read(&counters.read_from_disk);
        self.row_waits += read(&counters.row_waits);
        self.row_waits_over += read(&counters.row_waits_over);
    }
}

/// The sessions that are alive, and the sums of those that are gone.
#[derive(Default)]
pub(super) struct Registry(Mutex<Sessions>);

#[derive(Default)]
struct Sessions {
    next: u64,
    live: BTreeMap<u64, Arc<Counters>>,
    gone: Totals,
}

impl Registry {
    /// Counters for a new session, and its number.
    pub(super) fn register(&self) -> (u64, Arc<Counters>) {
        let mut sessions = self.lock();
        assert!((sessions.live.len() as u64) < SESSIONS_MAX, "more than {SESSIONS_MAX} sessions at a time");
        let number = sessions.next;
        sessions.next += 1;
        let counters = Arc::<Counters>::default();
        sessions.live.insert(number, Arc::clone(&counters));
        (number, counters)
    }

    pub(super) fn unregister(&self, number: u64) {
        let mut sessions = self.lock();
        if let Some(counters) = sessions.live.remove(&number) {
            sessions.gone.add(&counters);
        }
    }

    /// The sums over all sessions, alive and gone. They never fall.
    pub(super) fn totals(&self) -> Totals {
        let sessions = self.lock();
        let mut totals = sessions.gone;
        sessions.live.values().for_each(|counters| totals.add(counters));
        totals
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
