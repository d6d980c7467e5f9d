//! A session that runs on the slot of another: for a thread that uses both, and would wait for its own slot.

use std::sync::Arc;

use super::{Session, State};
use crate::gate::queue::Node;
use crate::metrics::add;

/// Lends the slot of one session to others of its scheduler; from [`Session::lender`]. It may outlive the session.
pub struct Lender(Arc<Node>);

impl Session {
    /// What lends this session's slot.
    pub fn lender(&self) -> Lender {
        Lender(Arc::clone(&self.node))
    }

    /// Enters on the slot of the lender's session, of the same thread: that goes on without one, as if reclaimed. False if it has none.
    pub fn enter_on(&self, lender: &Lender) -> bool {
        self.exit_ending_slice();
        let is_lent = lender.0.hold.stay().is_some_and(|stay| lender.0.hold.reclaim(stay));
        if is_lent {
            add(&self.counters.by_ticket, 1);
            self.run(self.admission.gate.word());
        }
        is_lent
    }

    /// Exits if it runs, and gives its slot to the lender's session if that runs on without one. Returns whether that has a slot then.
    pub fn exit_to(&self, lender: &Lender) -> bool {
        let has_slot = self.is_running() && self.put_down(State::Outside);
        let is_given = has_slot && lender.0.hold.give_back();
        if has_slot && !is_given {
            self.release(false);
        }
        is_given
    }
}
