//! A [`Controller`] that is told of the work done, not more often than that is worth.

use crate::auto::{AutoConfig, Controller, Sample};
use crate::metrics::Metrics;

/// The controller is told so often, ns.
const TELL_EVERY_NS: u64 = 10_000_000;
/// The longest time between two tellings, ns: if counting took longer than a hundredth of it, the thread did not run meanwhile.
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// Of [`crate::watchdog`], which keeps it under its lock.
pub(crate) struct Finder {
    controller: Controller,
    /// When to tell it of the work done, ns.
    tell_at_ns: u64,
}

impl Finder {
    /// `seed` chooses the order of what is compared.
    ///
    /// # Panics
    /// If `config` cannot be.
    pub(crate) fn new(config: AutoConfig, seed: u64) -> Self {
        let controller = Controller::new(config, seed).expect("it was checked");
        Finder { controller, tell_at_ns: 0 }
    }

    /// What should be in force now.
    pub(crate) fn limit(&self) -> u32 {
        self.controller.limit()
    }

    /// Whether two are compared now.
    pub(crate) fn is_comparing(&self) -> bool {
        self.controller.is_comparing()
    }

    /// Whether it need not be told anything until somebody queues.
    pub(crate) fn may_rest(&self) -> bool {
        self.controller.may_rest()
    }

    /// Tells it of the work done so far, of so many inside and so many queued: what should be in force from now on, if that is another
    /// than before.
    pub(crate) fn observe(
        &mut self,
        metrics: &Metrics,
        (inside, queued): (u32, u32),
        now_ns: u64,
    ) -> Option<u32> {
        if now_ns < self.tell_at_ns {
            return None;
        }
        // Counting reads the counters of all sessions: no more than a hundredth of a processor for that. By the clock: `now_ns`
        // is the caller's, and may be old.
        let began_ns = metrics.now_ns();
        let (work, places) = metrics.work_done();
        let took_ns = metrics.now_ns().saturating_sub(began_ns);
        self.tell_at_ns = now_ns.saturating_add((100 * took_ns).clamp(TELL_EVERY_NS, PAUSE_NS_MAX));
        self.controller.observe(Sample { now_ns, work, places, queued, inside })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_step_that_is_told_an_old_time_is_followed_by_no_long_pause() {
        let (mut finder, metrics) = (Finder::new(AutoConfig::default(), 1), Metrics::new());
        std::thread::sleep(Duration::from_nanos(PAUSE_NS_MAX / 100 * 2));
        assert!(finder.observe(&metrics, (0, 0), 0).is_some());
        assert!(finder.tell_at_ns < PAUSE_NS_MAX);
    }
}
