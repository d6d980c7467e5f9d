//! A session that leaves within its time slice, and its slot waits for it (feature `reservation`).

use super::{Class, Session, State};
use crate::hooks;
use crate::metrics::add;

impl Session {
    /// Leaves, and reserves its slot, if that is worth it; otherwise nothing is done.
    #[cold]
    pub(super) fn leave_reserved(&self) -> bool {
        let admission = &*self.admission;
        let session = (&admission.gate, &self.slice, self.class() == Class::First);
        let times = (admission.metrics.now_ns(), admission.settings.quantum_ns.get());
        let Some(until_ns) = admission.extra.reserve_until_ns(session, times) else { return false };
        let has_slot = self.put_down(State::Reserved);
        self.last_seen.set(admission.gate.word());
        if !has_slot {
            self.state.set(State::Outside);
        } else if !admission.extra.reserve(&self.node.hold, until_ns) {
            self.state.set(State::Outside);
            self.release(true);
        }
        true
    }

    /// Is back, and runs on its reserved slot, if that is still its own. If not, it is outside.
    #[cold]
    pub(super) fn take_back_reservation(&self) -> bool {
        self.state.set(State::Outside);
        let is_own = hooks::take_back(&self.node.hold);
        if is_own {
            add(&self.counters.at_once, 1);
            add(&self.counters.reserved, 1);
            let now_ns = || self.admission.metrics.now_ns();
            let quantum_ns = self.admission.settings.quantum_ns.get();
            self.slice.end_if_away_too_long(now_ns, quantum_ns);
            self.run(self.admission.gate.word());
            self.slice.on_forced(now_ns, quantum_ns);
        }
        is_own
    }

    /// Will not be back at once: its reserved slot goes to the next, if it still has it.
    #[cold]
    pub(super) fn give_up_reservation(&self) {
        let now_ns = || self.admission.metrics.now_ns();
        self.slice.end_if_away_too_long(now_ns, self.admission.settings.quantum_ns.get());
        if self.slice.has_begun() {
            self.end_slice();
        }
        self.state.set(State::Outside);
        if hooks::take_back(&self.node.hold) {
            self.release(true);
        }
    }
}
