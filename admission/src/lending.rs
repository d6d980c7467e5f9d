//! The place of a thread that sleeps inside, lent to the next by another thread that saw it asleep.
//!
//! For engines that cannot tell all their waits: whoever watches the threads of the process lends the place of one that
//! sleeps, and takes it back when the thread runs again. So a place is held by who runs.
//!
//! # Protocol
//!
//! A session says by `stay` ([`Node`]) that it holds a place that T counts ([`HOLDS`]), and takes that back with a swap before it
//! gives the place up. Lending is a swap from `HOLDS` to [`LENT`], and then an exit (T - 1); taking back is the reverse, with an
//! entry past the limit (T + 1). Who finds on its own way out that its place is lent takes it back first.
//!
//! - *T counts each place once.* Each swap to `LENT` is followed by one T - 1, each swap from it by one T + 1, by whoever made it; and
//!   a session's own T - 1 comes after its swap. In whatever order they arrive, T does not fall below zero, since the place that is
//!   lent is in it until the lender's own T - 1.
//! - *No lost wake-up*: both are exits and entries as any other.

use crate::core::Wake;
use crate::rule::Leaver;
use crate::session::{Held, Session};
use crate::sync::Ordering;
use crate::{Admission, Canceller};

/// It holds no place that could be lent.
pub(crate) const NONE: u32 = 0;
/// It holds one that T counts.
const HOLDS: u32 = 1;
/// It has one that T does not count, for the time that it sleeps.
const LENT: u32 = 2;

impl Session {
    /// Whether its place may be lent while it sleeps inside ([`Canceller::lend_place`]). By default it may not, and an exit need not
    /// look.
    pub fn set_lendable(&self, lendable: bool) {
        self.settle_loan();
        self.lendable.set(lendable);
        self.note_stay();
    }

    /// It may have got a place: that it has one can be seen from outside.
    #[inline]
    pub(crate) fn note_stay(&self) {
        if self.lendable.get() && self.place.get() == Held::Place {
            // Release: what it did before is visible to the lender. T counts the place already.
            self.node.stay.store(HOLDS, Ordering::Release);
        }
    }

    /// It is about to give its place up: it can be lent no more, and if it is, it is taken back.
    #[inline]
    pub(crate) fn settle_loan(&self) {
        if self.lendable.get() && self.node.stay.swap(NONE, Ordering::AcqRel) == LENT {
            self.last_seen.set(self.admission.core.enter_by_force());
        }
    }
}

impl Admission {
    /// All that are inside were seen asleep: up to `more` others are let in past the limit, unless some are on their way already.
    /// How many. Exits, and the lending of their places, repay the overshoot.
    pub fn admit_past_limit(&self, more: u32) -> u32 {
        if self.core.state().pending() > 0 {
            return 0;
        }
        let now_ns = self.metrics.now_ns();
        for admitted in 0..more {
            match self.core.break_stall(now_ns) {
                Wake::Nobody => return admitted,
                wake => self.wake(wake),
            }
        }
        more
    }
}

/// From another thread than the session's own.
impl Canceller {
    /// The session is inside and its thread was seen asleep: the next has its place, until it is taken back. False, and nothing is
    /// done, if it holds none that can be lent ([`Session::set_lendable`]), or it is lent.
    ///
    /// The session is told nothing: it goes on when it wakes, as the end of a wait would, and exits repay the overshoot.
    pub fn lend_place(&self) -> bool {
        let Some(admission) = self.admission.upgrade() else { return false };
        let lent = self.node.stay.compare_exchange(HOLDS, LENT, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if lent && admission.core.try_leave(admission.core.state()).is_none() {
            let now_ns = || admission.metrics.now_ns();
            let leaver = Leaver { in_quantum: false, holds_locks: false };
            let (wake, _) = admission.core.leave_and_wake(leaver, &|| true, &now_ns);
            admission.wake(wake);
        }
        lent
    }

    /// The thread runs again: its place is its own, past the limit. False, and nothing is done, if it is not lent.
    pub fn take_back_place(&self) -> bool {
        let Some(admission) = self.admission.upgrade() else { return false };
        let back = self.node.stay.compare_exchange(LENT, HOLDS, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if back {
            let state = admission.core.enter_by_force();
            admission.metrics.saw_places(state);
        }
        back
    }
}
