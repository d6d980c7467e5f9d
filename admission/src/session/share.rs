//! A session that runs on the slot of another: for a thread that uses both, and would wait for its own slot.

use std::sync::Arc;

use super::{Session, State};
use crate::gate::queue::Node;
use crate::metrics::add;

/// The slot of a session, for others of its scheduler to run on; from [`Session::shared_slot`]. It may outlive the session.
pub struct SharedSlot(Arc<Node>);

impl Session {
    /// Returns this session's slot, for other sessions of the same thread.
    pub fn shared_slot(&self) -> SharedSlot {
        SharedSlot(Arc::clone(&self.node))
    }

    /// Enters on the slot of another session of the same thread, which goes on without a slot, as if it was reclaimed. Returns false if
    /// that session has none.
    pub fn enter_on(&self, slot: &SharedSlot) -> bool {
        self.exit_ending_slice();
        let is_taken = slot.0.hold.stay().is_some_and(|stay| slot.0.hold.reclaim(stay));
        if is_taken {
            add(&self.counters.by_ticket, 1);
            self.run(self.admission.gate.word());
        }
        is_taken
    }

    /// Exits, and returns the slot to the session that it came from, if that session runs without one. Returns whether that session has
    /// a slot then.
    pub fn exit_to(&self, slot: &SharedSlot) -> bool {
        let has_slot = self.is_running() && self.put_down(State::Outside);
        let is_given = has_slot && slot.0.hold.give_back();
        if has_slot && !is_given {
            self.release(false);
        }
        is_given
    }
}
