//! The place of a thread that sleeps inside, lent to the next by another thread that saw it asleep.
//!
//! For engines that cannot tell all their waits: whoever watches the threads of the process lends the place of one that
//! sleeps, and takes it back when the thread runs again. So a place is held by who runs.
//!
//! # Protocol
//!
//! A session says by `stay` ([`Node`]) that it holds a place that T counts ([`HOLDS`]), and takes that back with a swap before it
//! gives the place up. Lending is a swap from `HOLDS` to [`LENT`], and then an exit (T - 1). Taking back is the reverse: an entry past
//! the limit (T + 1), and then the swap; an exit again, if that fails. Who finds on its own way out that its place is lent takes it
//! back first.
//!
//! - *T is never too low.* Whoever sees `HOLDS` may take 1 from T at once, so T counts a place before `HOLDS` is written, and until after
//!   it is gone. So T counts each place once, or twice for a moment, never less often: it does not fall below zero.
//! - *No lost wake-up*: both are exits and entries as any other. A place that T counted twice is left as any other, too, so whoever
//!   queued because of it is served then.

use crate::core::Wake;
use crate::parker::Wakers;
use crate::rule::Leaver;
use crate::session::{Held, Session};
use crate::sync::Ordering;
use crate::{Admission, Canceller};

/// It holds no place that could be lent.
pub(crate) const NONE: u32 = 0;
/// It holds one that T counts.
const HOLDS: u32 = 1;
/// It has one that T does not count, for the time that it sleeps.
pub(crate) const LENT: u32 = 2;
/// Its session has left, and it waits for it: see [`crate::anticipation`].
pub(crate) const AWAY: u32 = 3;

impl Session {
    /// Whether its place may be lent while it sleeps inside ([`Canceller::lend_place`]). By default it may not, and an exit need not
    /// look.
    pub fn set_lendable(&self, lendable: bool) {
        // Again if the waker of a task that this calls uses the session.
        while self.place.get() == Held::Away {
            self.stays_out();
        }
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
    /// All that are inside were seen asleep: up to `more` others are let in past the limit, unless some are on their way already, or
    /// places wait for them ([`crate::Config::anticipate`]).
    /// How many. Exits, and the lending of their places, repay the overshoot.
    pub fn admit_past_limit(&self, more: u32) -> u32 {
        if self.core.state().pending() > 0 || self.is_somebody_away() {
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

    fn leave_for_another(&self) {
        self.left_for_another().call();
    }

    /// Gives back a place that T counts, on behalf of a session that will not be back at once, or hands it on: the wakers to call then.
    pub(crate) fn left_for_another(&self) -> Wakers {
        if self.core.try_leave(self.core.state()).is_some() {
            return Wakers::default();
        }
        let now_ns = || self.metrics.now_ns();
        let leaver = Leaver { in_quantum: false, holds_locks: false };
        let (wake, _) = self.core.leave_and_wake(leaver, &|| true, &now_ns);
        self.tell(wake, now_ns)
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
        // Acquire: what the session did before it held the place is visible to who gets it.
        let lent = self.node.stay.compare_exchange(HOLDS, LENT, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if lent {
            admission.leave_for_another();
        }
        lent
    }

    /// The thread runs again: its place is its own, past the limit. False, and nothing has changed, if it is not lent; if its session leaves
    /// at that moment, others may be woken.
    pub fn take_back_place(&self) -> bool {
        let Some(admission) = self.admission.upgrade() else { return false };
        // Relaxed: the swap decides.
        if self.node.stay.load(Ordering::Relaxed) != LENT {
            return false;
        }
        let state = admission.core.enter_by_force();
        // Release: T counts the place before anybody sees that the session holds it.
        let back = self.node.stay.compare_exchange(LENT, HOLDS, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        match back {
            true => admission.metrics.saw_places(state),
            // The session has left meanwhile.
            false => admission.leave_for_another(),
        }
        back
    }
}
