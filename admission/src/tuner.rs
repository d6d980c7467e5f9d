//! The adaptive limit: reports the work done to the controller of [`flifo_auto`], no more often than that is worth.

use flifo_auto::{AutoConfig, Controller, Sample};

use crate::config::{AutoLimit, Config};
use crate::gate::word::Word;
use crate::metrics::Metrics;

const _: () = assert!(flifo_auto::LIMIT_MAX == Config::THREAD_CONCURRENCY_MAX);

/// Time between two samples, ns.
const SAMPLE_NS: u64 = 10_000_000;
/// The longest time between two samples, ns: if counting took longer than a hundredth of it, the thread did not run all the time.
const PAUSE_NS_MAX: u64 = 1_000_000_000;
/// Chooses the order of the limits that are compared; any will do.
const SEED: u64 = 0x5EED;

/// Finds the limit, if it is adaptive.
#[derive(Default)]
pub(crate) struct Tuner {
    /// What the controller was made for: the bounds, and the limit it began with.
    made_for: Option<(AutoLimit, u32)>,
    controller: Option<Controller>,
    /// When to take the next sample, ns.
    sample_at_ns: u64,
}

impl Tuner {
    /// Does as the configuration says. `anew`: begins at the configured limit also if it is the one configured before.
    pub(crate) fn configure(&mut self, config: &Config, anew: bool) {
        let made_for = config.auto.map(|bounds| (bounds, config.thread_concurrency));
        if !anew && made_for == self.made_for {
            return;
        }
        let controller = |AutoLimit { floor, ceiling }| {
            let config = AutoConfig { floor, ceiling, start: config.first_limit(), ..AutoConfig::default() };
            Controller::new(config, SEED).expect("the bounds were checked")
        };
        *self = Tuner { made_for, controller: config.auto.map(controller), sample_at_ns: 0 };
    }

    /// Whether a change to `config` leaves the limit to the controller.
    pub(crate) fn keeps_limit(&self, config: &Config) -> bool {
        self.made_for.is_some()
            && self.made_for == config.auto.map(|bounds| (bounds, config.thread_concurrency))
    }

    /// Whether this limit is still the one to set.
    pub(crate) fn wants(&self, limit: u32) -> bool {
        self.controller.as_ref().is_some_and(|controller| controller.limit() == limit)
    }

    /// Whether it needs no samples until somebody queues.
    pub(crate) fn may_rest(&self) -> bool {
        self.controller.as_ref().is_none_or(Controller::may_rest)
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
        let (work, slots) = metrics.work_done();
        let stays = metrics.histograms.running_ns.load();
        let stays = stays.iter().map(|stay| (stay.end(), stay.count())).collect();
        let took_ns = metrics.now_ns().saturating_sub(began_ns);
        self.sample_at_ns = now_ns.saturating_add((100 * took_ns).clamp(SAMPLE_NS, PAUSE_NS_MAX));
        let (queued, running) = (word.queued(), word.slots());
        controller.observe(Sample { now_ns, work, slots, queued, running, stays })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gate::policy::Policy;

    fn tuner() -> Tuner {
        let mut tuner = Tuner::default();
        let auto = Some(AutoLimit { floor: 1, ceiling: 4 });
        tuner.configure(&Config { auto, ..Config::default() }, false);
        tuner
    }

    #[test]
    fn an_old_time_is_followed_by_no_long_pause() {
        let (mut tuner, metrics) = (tuner(), Metrics::new());
        std::thread::sleep(Duration::from_nanos(PAUSE_NS_MAX / 100 * 2));
        tuner.sample(&metrics, Word::idle(Policy::Fifo, 4), 0);
        assert!(tuner.sample_at_ns < PAUSE_NS_MAX);
    }

    /// Otherwise its next sample would count the hours asleep as if the queue had stood.
    #[test]
    fn the_controller_rests_once_it_knows_of_the_empty_queue() {
        let (mut tuner, metrics) = (tuner(), Metrics::new());
        assert!(Tuner::default().may_rest() && !tuner.may_rest());
        let idle = Word::idle(Policy::Fifo, 4);
        let mut rests_after = |word, seconds: u64| {
            tuner.sample(&metrics, word, 1_000_000_000 * seconds);
            tuner.may_rest()
        };
        assert!(!rests_after(idle.joined(), 1));
        assert!(rests_after(idle, 2));
        assert!(!rests_after(idle.joined(), 3));
    }
}
