//! Whether more threads want to run than the limit admits by far, and whether they pause.

use super::Sample;

/// Threads per slot that want to run, above which it is crowded, and below which it no longer is.
const ENTER: f64 = 4.0;
const LEAVE: f64 = 2.0;
/// The same in a single sample: a thousand threads that come at once are inside before a mean shows them.
const ENTER_AT_ONCE: f64 = 16.0;
/// A crowd pauses if for this time, ns, fewer threads per slot want to run than this, and do less than this share of its work. The share is
/// needed because a sample sees hardly one of very short statements.
const PAUSE: f64 = 0.5;
const PAUSE_WORK: f64 = 0.25;
const PAUSE_NS: u64 = 200_000_000;
/// The time over which demand and work are averaged, ns, and that for the work of a crowd.
const MEAN_NS: f64 = 100_000_000.0;
const CROWD_MEAN_NS: f64 = 1_000_000_000.0;
/// Demand must stay low for this long, ns: a comparison itself changes how many run at once.
const LEAVE_AFTER_NS: u64 = 5_000_000_000;
/// A sample counts for no more than this, ns: nothing is known of the time between.
const STEP_NS_MAX: u64 = 50_000_000;

#[derive(Debug, Default)]
pub(super) struct Crowd {
    slots: f64,
    /// Threads that want to run, a mean.
    mean: f64,
    /// Work per nanosecond, a mean, and the same while it did not pause.
    work: f64,
    crowd_work: f64,
    is_crowded: bool,
    low_ns: u64,
    paused_ns: u64,
}

impl Crowd {
    pub(super) fn new(limit: u32) -> Self {
        Crowd { slots: f64::from(limit), ..Crowd::default() }
    }

    /// Takes a sample, `passed_ns` after the last one, and the work done in between.
    pub(super) fn observe(&mut self, sample: &Sample, done: u64, passed_ns: u64) {
        let work = done as f64 / passed_ns.max(1) as f64;
        let passed_ns = passed_ns.min(STEP_NS_MAX);
        let weight = |mean_ns: f64| 1.0 - (-(passed_ns as f64) / mean_ns).exp();
        self.mean += weight(MEAN_NS) * (f64::from(sample.demand()) - self.mean);
        self.work += weight(MEAN_NS) * (work - self.work);
        let at_once = f64::from(sample.demand()) > ENTER_AT_ONCE * self.slots;
        if self.mean > ENTER * self.slots || at_once {
            self.is_crowded = true;
        }
        self.low_ns = if self.mean < LEAVE * self.slots { self.low_ns + passed_ns } else { 0 };
        if self.low_ns >= LEAVE_AFTER_NS {
            self.is_crowded = false;
        }
        let is_small = self.mean < PAUSE * self.slots && !at_once;
        if !is_small {
            self.crowd_work += weight(CROWD_MEAN_NS) * (self.work - self.crowd_work);
        }
        let pauses = is_small && self.work < PAUSE_WORK * self.crowd_work;
        self.paused_ns = if pauses { self.paused_ns + passed_ns } else { 0 };
    }

    /// Whether demand and work have been as low as in a pause for [`PAUSE_NS`].
    pub(super) fn has_paused(&self) -> bool {
        self.paused_ns >= PAUSE_NS
    }

    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enters_at_once_and_leaves_late() {
        let mut crowd = Crowd::new(4);
        let mut after = |running, ticks: u32| {
            (0..ticks).for_each(|_| crowd.observe(&Sample { running, ..Sample::default() }, 1, 10_000_000));
            crowd.is_crowded()
        };
        assert!(!after(16, 1000), "four per slot are no crowd");
        assert!(!after(8, 1000) && !after(40, 1), "nor is a single sample");
        assert!(after(1000, 10));
        assert!(after(10, 1000), "neither many nor few");
        assert!(after(0, 499));
        assert!(!after(0, 10));
        assert!(!after(64, 1) && after(65, 1), "sixteen per slot are a crowd at once");
    }

    #[test]
    fn a_pause_takes_a_while_and_ends_at_once() {
        let mut crowd = Crowd::new(4);
        let mut after = |running, done, ticks: u32| {
            (0..ticks)
                .for_each(|_| crowd.observe(&Sample { running, ..Sample::default() }, done, 10_000_000));
            crowd.has_paused()
        };
        assert!(!after(100, 1000, 10) && !after(0, 0, 20), "a mean falls slowly");
        assert!(after(0, 0, 60));
        assert!(!after(100, 1000, 1));
        assert!(!after(3, 0, 1000), "less than the limit admits, but steadily");
        assert!(!after(100, 1000, 100) && !after(0, 900, 1000), "very short statements");
        assert!(after(0, 100, 60));
    }
}
