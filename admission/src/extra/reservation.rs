//! Slot reservation: a slot waits for a session that left within its time slice and is expected back at once.
//!
//! Where clients run on the server's own machine, the client of a session that has just left is about to send its next statement.
//! Handing the slot off at that moment puts one more connection under way, and each has lost its caches when it is back. So while many queue,
//! a session that leaves within its slice keeps its slot until it returns or its slice is over. The idea is anticipatory scheduling (S.
//! Iyer and P. Druschel, SOSP 2001). It slows clients that think or are far away: CPUs idle while slots wait.
//!
//! # Protocol
//!
//! [`Hold`] says `RESERVED`; T counts the slot. The session takes it back by a swap when it returns; the watchdog takes it by a swap
//! when its time is over, and releases it. So one of the two has the slot.
//!
//! - *No slot waits forever.* A session writes `RESERVED` and then looks at the switch; whoever switches reservation off writes the
//!   switch and then looks at all sessions. All of that is sequentially consistent, so one of the two sees the other. While it is
//!   on, each step of the watchdog takes the slots whose time is over, and all of them while a lock holder waits.
//! - *No lost wake-up*: a slot that is taken is released as any other.

use crate::gate::Gate;
use crate::gate::hold::Hold;
use crate::quantum::slice::Slice;
use crate::sync::{AtomicBool, CacheAligned, Ordering, fence_for_models};

/// Slots are reserved while at least this number of sessions queues for each of them. A model has few threads.
const QUEUED_PER_SLOT: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 8 };

/// Whether slots are reserved. On cache lines of its own: every exit reads it.
pub(crate) struct Reservation(CacheAligned<AtomicBool>);

impl Reservation {
    pub(crate) fn new() -> Self {
        Reservation(CacheAligned(AtomicBool::new(false)))
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        // Relaxed: whoever acts upon it looks again.
        self.0.0.load(Ordering::Relaxed)
    }

    /// Switches it. After switching it off, call [`take_expired`] for every session.
    pub(crate) fn set(&self, on: bool) {
        self.0.0.store(on, Ordering::SeqCst);
        fence_for_models();
    }

    /// Until when the slot of a session that leaves shall wait for it, ns; `None`: not at all.
    pub(crate) fn until_ns(
        &self,
        gate: &Gate,
        slice: &Slice,
        holds_locks: bool,
        now_ns: u64,
        quantum_ns: u64,
    ) -> Option<u64> {
        let word = gate.word();
        let may_wait = word.has_slices()
            && !word.is_congested()
            && word.slots() <= word.limit()
            && word.queued() / QUEUED_PER_SLOT >= word.limit()
            && (holds_locks || !gate.first_waits());
        if !may_wait || !slice.leaves_within(now_ns, quantum_ns) {
            return None;
        }
        // No longer than a quantum, also within a transaction: its client may be the one that keeps others waiting.
        Some(slice.ends_ns(quantum_ns).min(slice.left_ns().saturating_add(quantum_ns)))
    }

    /// Leaves the slot to wait. Returns whether it does; otherwise the session still has it.
    pub(crate) fn reserve(&self, hold: &Hold, until_ns: u64) -> bool {
        hold.reserve(until_ns);
        fence_for_models();
        self.0.0.load(Ordering::SeqCst) || !hold.take_reserved()
    }

    /// Takes a session's reserved slot if its time is over at `now_ns`, or `hurry`. Returns whether the caller has it, and releases it.
    pub(crate) fn take_expired(&self, hold: &Hold, now_ns: u64, hurry: bool) -> bool {
        let expired = hurry || !self.is_on();
        hold.reserved_until_ns().is_some_and(|until_ns| expired || now_ns >= until_ns) && hold.take_reserved()
    }
}
