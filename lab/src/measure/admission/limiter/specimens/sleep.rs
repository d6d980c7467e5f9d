//! Waiters poll with an adaptive delay, as in InnoDB 5.6 to 8 (`innodb_thread_sleep_delay`,
//! `innodb_adaptive_max_sleep_delay`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use flifo_admission::WaitKind;

use super::SpecimenGate;
use crate::measure::admission::limiter::Limiter;

pub(super) struct Gate {
    limit: u32,
    /// Taken with acquire and returned with release: a thread sees the earlier actions in the slot.
    running: AtomicU32,
    /// Threads that poll.
    polling: AtomicU32,
    delay: Delay,
}

impl Gate {
    pub(super) fn new(limit: u32) -> Self {
        Gate { limit, running: AtomicU32::new(0), polling: AtomicU32::new(0), delay: Delay::new() }
    }

    fn try_enter(&self) -> bool {
        let enter = |running: u32| (running < self.limit).then_some(running + 1);
        self.running.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    #[cold]
    fn poll(&self) {
        self.polling.fetch_add(1, Ordering::Relaxed);
        let mut sleeps = 0;
        loop {
            thread::sleep(self.delay.before_sleep(sleeps));
            sleeps += 1;
            if self.try_enter() {
                break;
            }
        }
        self.delay.entered(sleeps, self.polling.fetch_sub(1, Ordering::Relaxed) - 1);
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.polling.load(Ordering::Relaxed) as usize
    }
}

impl SpecimenGate for Gate {
    fn limiter(self: Arc<Self>) -> Box<dyn Limiter> {
        Box::new(Sleep(self))
    }
}

struct Sleep(Arc<Gate>);

impl Limiter for Sleep {
    fn enter(&self) {
        if !self.0.try_enter() {
            self.0.poll();
        }
    }

    fn exit(&self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }

    fn wait_end(&self, _kind: WaitKind) {
        self.0.running.fetch_add(1, Ordering::Acquire);
    }
}

const DELAY_US_START: u32 = 10_000;
const DELAY_US_MAX: u32 = 150_000;
/// Below this a single sleep does not shorten the delay any more.
const DELAY_US_LOW: u32 = 20;

/// How long a thread sleeps before it looks for a free slot again, microseconds.
///
/// Halved when no other thread polls, shortened by one when one sleep was enough, lengthened by one for each sleep
/// beyond the first. A heuristic: concurrent adjustments may overwrite each other.
struct Delay(AtomicU32);

impl Delay {
    fn new() -> Self {
        Delay(AtomicU32::new(DELAY_US_START))
    }

    /// Returns how long to sleep now, for a thread that slept `sleeps` times already.
    fn before_sleep(&self, sleeps: u32) -> Duration {
        let delay_us = self.0.load(Ordering::Relaxed);
        if sleeps > 0 {
            self.0.store((delay_us + 1).min(DELAY_US_MAX), Ordering::Relaxed);
        }
        Duration::from_micros(u64::from(delay_us))
    }

    /// Adjusts the delay: a thread entered after `sleeps` sleeps and left `still_polling` others.
    fn entered(&self, sleeps: u32, still_polling: u32) {
        let mut delay_us = self.0.load(Ordering::Relaxed);
        if delay_us > DELAY_US_LOW && sleeps == 1 {
            delay_us -= 1;
        }
        if still_polling == 0 {
            delay_us /= 2;
        }
        self.0.store(delay_us, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_follows_the_published_rule_and_never_ratchets() {
        let delay = Delay::new();
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
