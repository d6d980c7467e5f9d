//! What a session's turn ([`crate::turn`]) is to its entries and exits.

use crate::session::Session;
use crate::state::{Caller, State};
use crate::{Class, Policy};

/// Whether others wait, and who may overtake them depends on its turn.
#[inline]
pub(crate) fn others_wait_by_turns(state: State) -> bool {
    state.queued() != 0 && state.policy() == Policy::Quantum
}

impl Session {
    /// Says whether it is within a transaction, which has begun and is not over. Under [`Policy::Quantum`] its turn goes on then until the
    /// transaction is over, for up to eight quanta: one that is cut in two waits for two turns, holding all that it has locked. Whoever
    /// never ends one has up to eight times the time of others; if its turns are timed, and it uses the processors for more than four quanta of one, it owes that.
    pub fn set_in_transaction(&self, in_transaction: bool) {
        self.turn.set_in_transaction(in_transaction);
    }

    /// It entered as a newcomer; `state` is the word as it is then.
    #[inline]
    pub(crate) fn has_overtaken(&self, state: State) {
        if others_wait_by_turns(state) {
            if self.class() == Class::Normal && !self.turn.loops() {
                self.admission.overtaking.used();
            }
            self.turn.overtook(self.admission.settings.quantum_ns());
        }
    }

    /// It came in through the queue, or past the limit; `state` is the word as it is then.
    #[inline]
    pub(crate) fn is_timed_if_others_wait(&self, state: State) {
        if others_wait_by_turns(state) {
            let now_ns = || self.admission.metrics.now_ns();
            self.turn.forced(now_ns, self.admission.settings.quantum_ns());
        }
    }

    /// What the gate must know of it.
    #[inline]
    pub(crate) fn caller(&self) -> Caller {
        let seen = self.last_seen.get();
        // What it saw last may be old; then it overtakes once where it should not have.
        let fresh = !others_wait_by_turns(seen) || self.may_overtake();
        Caller { fresh, first: self.class() == Class::First }
    }

    #[cold]
    pub(crate) fn may_overtake(&self) -> bool {
        let now_ns = || self.admission.metrics.now_ns();
        let is_first = self.class() == Class::First;
        self.turn.may_overtake(now_ns, self.admission.settings.quantum_ns(), !is_first)
            && (self.turn.loops() || is_first || self.admission.overtaking.is_allowed())
    }

    /// It will not be back within its turn: when it comes, it queues, or is a newcomer.
    #[cold]
    pub(crate) fn end_turn(&self) {
        self.turn.end(self.admission.metrics.now_ns());
    }
}
