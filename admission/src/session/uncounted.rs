//! Running without a slot, while there is no limit.

use super::{NOT_SAMPLED, Session, State};
use crate::metrics::add;

impl Session {
    /// Enters without a slot, which is counted as work, unless a limit is in force. Does nothing unless the session is outside.
    ///
    /// Returns whether the session is no longer outside. Otherwise a limit is in force, and the session must acquire a slot as others do.
    pub fn enter_uncounted(&self) -> bool {
        match self.state.get() {
            State::Acquiring | State::Waiting | State::Uncounted | State::Running => return true,
            State::Outside | State::Reserved if !self.admission.gate.word().is_unlimited() => return false,
            State::Outside => self.give_up_task_request(),
            State::Reserved => self.give_up_reservation(),
        }
        self.run_uncounted();
        self.check();
        true
    }

    /// Begins a stay without a slot. One stay in `SAMPLE_EVERY` reads the time anyway, so it also samples for the adaptive limit: when a
    /// thousand threads come at once, the watchdog's thread may wait for a CPU for a long time.
    #[inline]
    pub(super) fn run_uncounted(&self) {
        add(&self.counters.at_once, 1);
        self.slice.deficit.forget();
        self.begin_stay(State::Uncounted, self.admission.settings.tickets());
        let now_ns = self.entered_at_ns.get();
        if now_ns != NOT_SAMPLED {
            self.admission.adapt_if_due(now_ns);
        }
    }
}
