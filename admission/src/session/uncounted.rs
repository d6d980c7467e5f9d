//! Running without a slot: while there is no limit, or for what is only counted.

use super::{Session, State};
use crate::metrics::add;

impl Session {
    /// Enters without a slot, and runs as if there were no limit, until it exits. Does nothing unless it is outside.
    ///
    /// For what must be counted as work, and not be admitted.
    pub fn enter_uncounted(&self) {
        match self.state.get() {
            State::Outside => self.give_up_task_request(),
            State::Reserved => self.give_up_reservation(),
            State::Acquiring | State::Waiting | State::Uncounted | State::Running => return,
        }
        self.run_uncounted();
        self.check();
    }

    /// Begins a stay without a slot.
    #[inline]
    pub(super) fn run_uncounted(&self) {
        add(&self.counters.at_once, 1);
        self.slice.deficit.forget();
        self.begin_stay(State::Uncounted, self.admission.settings.tickets());
    }
}
