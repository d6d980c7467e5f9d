//! Counters that belong to a session: it alone writes them, with plain stores, so counting costs no shared
//! cache line.

use std::sync::atomic::{AtomicU64, Ordering};

/// A session's counters. Invariant: written by its session only, so a load and a store make an increment. On cache lines of their own:
/// every stay on a slot writes here.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// Entries that found a free slot, or took new tickets for theirs.
    pub(crate) at_once: AtomicU64,
    /// Those of them on a slot that was reserved for the session.
    pub(crate) reserved: AtomicU64,
    pub(crate) by_barging: AtomicU64,
    pub(crate) from_queue: AtomicU64,
    pub(crate) forced: AtomicU64,
    /// Those of the former that begin something, and end no wait.
    pub(crate) forced_begins: AtomicU64,
    pub(crate) by_ticket: AtomicU64,
    pub(crate) handed_off: AtomicU64,
    /// Whether the session runs without a slot, because there is no limit: 0 or 1.
    pub(crate) uncounted: AtomicU64,
    /// Whether the session waits for a row lock and has released its slot for it: 0 or 1.
    pub(crate) waits_for_row: AtomicU64,
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
    pub(super) reserved: u64,
    pub(super) by_barging: u64,
    pub(super) from_queue: u64,
    pub(super) forced: u64,
    pub(super) forced_begins: u64,
    pub(super) by_ticket: u64,
    pub(super) handed_off: u64,
    pub(super) uncounted: u64,
    pub(super) waits_for_row: u64,
}

impl Totals {
    /// Slots acquired for whatever begins there; the end of a wait begins nothing.
    pub(super) fn begins(&self) -> u64 {
        self.at_once + self.by_barging + self.from_queue + self.forced_begins
    }

    pub(super) fn add(&mut self, counters: &Counters) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        self.at_once += read(&counters.at_once);
        self.reserved += read(&counters.reserved);
        self.by_barging += read(&counters.by_barging);
        self.from_queue += read(&counters.from_queue);
        self.forced += read(&counters.forced);
        self.forced_begins += read(&counters.forced_begins);
        self.by_ticket += read(&counters.by_ticket);
        self.handed_off += read(&counters.handed_off);
        self.uncounted += read(&counters.uncounted);
        self.waits_for_row += read(&counters.waits_for_row);
    }
}
