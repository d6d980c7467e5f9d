//! The adaptive delay of [`crate::Policy::Sleep`]: how long a thread sleeps before it looks for a free
//! place again. The rule is that of InnoDB 5.6 to 8 (`innodb_thread_sleep_delay`,
//! `innodb_adaptive_max_sleep_delay`): halve it when nobody is left waiting, shorten it by one when one
//! sleep was enough, lengthen it by one for every sleep beyond the first.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const DELAY_US_START: u32 = 10_000;
const DELAY_US_MAX: u32 = 150_000;
/// Below this a single sleep does not shorten the delay any more.
const DELAY_US_LOW: u32 = 20;

/// The delay, microseconds. A plain heuristic: concurrent adjustments may overwrite each other.
pub(crate) struct SleepDelay(AtomicU32);

impl SleepDelay {
    pub(crate) fn new() -> Self {
        SleepDelay(AtomicU32::new(DELAY_US_START))
    }

    /// How long to sleep now, for a thread that slept `sleeps` times already.
    pub(crate) fn before_sleep(&self, sleeps: u32) -> Duration {
        let delay_us = self.0.load(Ordering::Relaxed);
        if sleeps > 0 {
            self.0.store((delay_us + 1).min(DELAY_US_MAX), Ordering::Relaxed);
        }
        Duration::from_micros(u64::from(delay_us))
    }

    /// A thread entered after `sleeps` sleeps and left `still_waiting` others polling.
    pub(crate) fn entered(&self, sleeps: u32, still_waiting: u32) {
        let mut delay_us = self.0.load(Ordering::Relaxed);
        if delay_us > DELAY_US_LOW && sleeps == 1 {
            delay_us -= 1;
        }
        if still_waiting == 0 {
            delay_us /= 2;
        }
        self.0.store(delay_us, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_rule_and_never_ratchets() {
        let delay = SleepDelay::new();
        let now_us = || delay.0.load(Ordering::Relaxed);
        assert_eq!(delay.before_sleep(0), Duration::from_micros(10_000));
        assert_eq!(now_us(), 10_000, "a first sleep leaves it alone");
        delay.before_sleep(1);
        assert_eq!(now_us(), 10_001, "a second one lengthens it");
        delay.entered(1, 5);
        assert_eq!(now_us(), 10_000, "one sleep was enough");
        delay.entered(3, 0);
        assert_eq!(now_us(), 5_000, "nobody waits any more");
        (0..200_000).for_each(|_| _ = delay.before_sleep(9));
        assert_eq!(now_us(), DELAY_US_MAX);
        (0..20).for_each(|_| delay.entered(0, 0));
        assert_eq!(now_us(), 0, "an idle server polls at once");
    }
}
