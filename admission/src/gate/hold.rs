//! A session's slot as others see it, so that one of them can take it away.
//!
//! | state | meaning | T counts the slot | who leaves the state |
//! |---|---|---|---|
//! | `FREE` | no slot that can be taken | no, or not published | the session: publishes its slot |
//! | `HELD` | the session runs on a slot | yes | the session: releases it; the watchdog: reclaims it |
//! | `RECLAIMED` | the session runs on, its slot went to another | no | the session: has nothing to release, or may get one back |
//! | `RESERVED` | the session is outside, its slot waits for it | yes | the session: takes it back; the watchdog: releases it |
//!
//! The session publishes a slot after T counts it, and takes it out with a swap before it releases it; another thread takes it with
//! a compare-and-swap and releases it then. So exactly one of the two releases the slot, and T is never too low.
//!
//! The upper bits number the stays, so that an observer can tell a new stay from the one it saw before. Of a reserved slot they say until
//! when it waits.

use crate::sync::{AtomicU64, Ordering};

const STATE_BITS: u32 = 2;
const STATE: u64 = (1 << STATE_BITS) - 1;
const FREE: u64 = 0;
const HELD: u64 = 1;
const RECLAIMED: u64 = 2;
#[cfg(feature = "reservation")]
const RESERVED: u64 = 3;

/// The states are in the module's table.
pub(crate) struct Hold(AtomicU64);

/// A stay on a slot, as an observer saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stay(u64);

impl Hold {
    pub(crate) fn new() -> Self {
        Hold(AtomicU64::new(FREE))
    }

    /// Publishes the slot of stay `number`. T counts it already.
    #[inline]
    pub(crate) fn publish(&self, number: u64) {
        // Release: what the session did before is visible to whoever gets the slot.
        self.0.store(number << STATE_BITS | HELD, Ordering::Release);
    }

    /// Takes the published slot out. Returns whether it is still the session's, which releases it then.
    #[inline]
    pub(crate) fn take_out(&self) -> bool {
        self.0.swap(FREE, Ordering::AcqRel) & STATE != RECLAIMED
    }

    /// Whether the published slot was reclaimed.
    pub(crate) fn is_reclaimed(&self) -> bool {
        self.0.load(Ordering::Relaxed) & STATE == RECLAIMED
    }

    /// The stay that can be reclaimed now, as seen by another thread.
    pub(crate) fn stay(&self) -> Option<Stay> {
        let seen = self.0.load(Ordering::Relaxed);
        (seen & STATE == HELD).then_some(Stay(seen))
    }

    /// Takes the slot of that stay away. Returns whether the caller releases it.
    pub(crate) fn reclaim(&self, stay: Stay) -> bool {
        let reclaimed = stay.0 & !STATE | RECLAIMED;
        self.0.compare_exchange(stay.0, reclaimed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives a slot that T counts to the session, if it runs on without one. Returns whether it does.
    pub(crate) fn give_back(&self) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        let held = seen & !STATE | HELD;
        seen & STATE == RECLAIMED
            && self.0.compare_exchange(seen, held, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Leaves the slot to wait for the session until then, ns since the scheduler was made. T counts it.
    #[cfg(feature = "reservation")]
    pub(crate) fn reserve(&self, until_ns: u64) {
        // Sequentially consistent: see `extra::reservation`.
        self.0.store(until_ns << STATE_BITS | RESERVED, Ordering::SeqCst);
    }

    /// Until when a slot waits for the session, ns; `None` if none does.
    #[cfg(feature = "reservation")]
    pub(crate) fn reserved_until_ns(&self) -> Option<u64> {
        let seen = self.0.load(Ordering::SeqCst);
        (seen & STATE == RESERVED).then_some(seen >> STATE_BITS)
    }

    /// Takes a reserved slot: the session, to run on it, or another thread, to release it. Returns whether the caller has it.
    #[cfg(feature = "reservation")]
    pub(crate) fn take_reserved(&self) -> bool {
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen & STATE == RESERVED {
            match self.0.compare_exchange(seen, FREE, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_released_once() {
        let hold = Hold::new();
        assert_eq!(hold.stay(), None);
        hold.publish(1);
        let first = hold.stay().unwrap();
        assert!(hold.take_out(), "the session releases it");
        assert!(!hold.reclaim(first));
        hold.publish(2);
        assert!(!hold.reclaim(first), "another stay");
        let second = hold.stay().unwrap();
        assert!(first != second && hold.reclaim(second));
        assert!(hold.stay().is_none() && !hold.reclaim(second), "once");
        assert!(!hold.take_out(), "nothing is left to release");
    }
}
