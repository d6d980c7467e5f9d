//! The adaptive limit: samples the scheduler for the controller of [`flifo_auto`].

use std::time::Duration;

use flifo_auto::{Controller, Sample, State};

use crate::config::Config;
use crate::gate::word::Word;
use crate::metrics::{Metrics, Work};

const _: () = assert!(flifo_auto::LIMIT_MAX == Config::THREAD_CONCURRENCY_MAX);

/// Time between two samples, ns, and the same while few threads want to run.
const SAMPLE_NS: u64 = 10_000_000;
const CALM_SAMPLE_NS: u64 = 50_000_000;
/// The longest time between two samples, ns: if counting took longer than a hundredth of it, the thread did not run all the time.
const PAUSE_NS_MAX: u64 = 1_000_000_000;

/// Decides whether the limit is in force, if it is adaptive.
#[derive(Default)]
pub(crate) struct Tuner {
    /// The limit that the controller was made for.
    made_for: Option<u32>,
    controller: Option<Controller>,
    /// The work done when the last sample was taken.
    work: u64,
    /// When to take the next sample, ns.
    sample_at_ns: u64,
}

impl Tuner {
    /// Does as the configuration says. `anew`: begins again also if the limit is the one configured before.
    pub(crate) fn configure(&mut self, config: &Config, anew: bool) {
        let made_for = config.auto.then_some(config.thread_concurrency);
        if !anew && made_for == self.made_for {
            return;
        }
        *self = Tuner { made_for, controller: made_for.map(Controller::new), ..Tuner::default() };
    }

    /// Whether a change to `config` leaves the limit to the controller.
    pub(crate) fn keeps_limit(&self, config: &Config) -> bool {
        self.made_for.is_some() && self.made_for == config.auto.then_some(config.thread_concurrency)
    }

    /// Whether this limit is still the one to set.
    pub(crate) fn wants(&self, limit: u32) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.limit() == limit)
    }

    /// What the controller does now; `None` if the limit is not adaptive.
    pub(crate) fn state(&self) -> Option<State> {
        self.controller.as_ref().map(Controller::state)
    }

    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn work(&self) -> u64 {
        self.work
    }

    /// See [`Controller::is_dormant`].
    pub(crate) fn is_dormant(&self) -> bool {
        self.controller.as_ref().is_some_and(Controller::is_dormant)
    }

    /// See [`Controller::is_trying`].
    pub(crate) fn is_trying(&self) -> bool {
        self.controller.as_ref().is_some_and(Controller::is_trying)
    }

    /// When to take the next sample, ns; `None` if the limit is not adaptive.
    pub(crate) fn sample_at_ns(&self) -> Option<u64> {
        self.controller.as_ref().map(|_| self.sample_at_ns)
    }

    /// The longest time until the next sample while nobody queues; `None` if there is none.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let state = self.state()?;
        Some(Duration::from_nanos(if state == State::Calm { CALM_SAMPLE_NS } else { SAMPLE_NS }))
    }

    /// Takes a sample, if it is time to: the limit to set, if that is another than before. The configuration may change before
    /// it is set: see [`Tuner::wants`].
    pub(crate) fn sample(&mut self, metrics: &Metrics, word: Word, now_ns: u64) -> Option<u32> {
        let controller = self.controller.as_mut()?;
        if now_ns < self.sample_at_ns {
            return None;
        }
        // Counting reads the counters of all sessions: no more than a hundredth of a CPU for that. By the clock: `now_ns` is the
        // caller's, and may be old.
        let began_ns = metrics.now_ns();
        let Work { begun, without_slot, waits_for_row: waiting } = metrics.work();
        let took_ns = metrics.now_ns().saturating_sub(began_ns);
        let (queued, running) = (word.queued(), word.slots() + without_slot);
        // Work that has begun is not done: a thousand threads that enter at once have done nothing yet. The two numbers are not of the same
        // moment.
        let work = begun.saturating_sub(u64::from(running) + u64::from(waiting)).max(self.work);
        self.work = work;
        let limit = controller.observe(Sample { now_ns, work, running, queued, waiting });
        self.sample_at_ns = now_ns.saturating_add((100 * took_ns).clamp(SAMPLE_NS / 2, PAUSE_NS_MAX));
        limit
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::gate::policy::Policy;

    #[test]
    fn an_old_time_is_followed_by_no_long_pause() {
        let (mut tuner, metrics) = (Tuner::default(), Metrics::new());
        tuner.configure(&Config { auto: true, ..Config::default() }, false);
        std::thread::sleep(Duration::from_nanos(PAUSE_NS_MAX / 100 * 2));
        tuner.sample(&metrics, Word::idle(Policy::Fifo, 4), 0);
        assert!(tuner.sample_at_ns < PAUSE_NS_MAX);
    }
}
