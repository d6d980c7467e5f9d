//! Where most statements wait for a disk, the limit is lifted.
//!
//! A limit saves switches between threads, and caches that other threads would fill. A statement that reads from the disk
//! switches anyway, and its place is another's meanwhile: when it comes back there are more inside than the limit, and
//! the next statement of its connection has to queue, which costs two switches more. So it is told here how many places were taken, and in how
//! many of them there was a wait for a disk, and says when the limit is to be lifted, and when to be set again.
//! It has no clock and no thread; the watchdog drives it.

use crate::state::LIMIT_MAX;

/// No window is shorter, ns. Hundreds of connections are in step for a while, with statements that read, and then with such
/// that do not: each should have come through its transaction.
pub(crate) const WINDOW_NS: u64 = 500_000_000;
/// Nor longer, ns: fewer places than are enough mean that there is hardly any load.
const WINDOW_NS_MAX: u64 = 2_000_000_000;
/// Places that are enough to tell: the share of those that read is known to 0.03 then (standard error).
const PLACES_MIN: u64 = 256;
/// The limit while it is lifted, for each processor. It is lifted only where nobody queues then: for more threads than that a higher
/// limit wins nothing.
const LIFTED_PER_PROCESSOR: u32 = 128;

/// What it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The time since any moment, ns.
    pub(crate) now_ns: u64,
    /// Places taken since the start.
    pub(crate) places: u64,
    /// Those of them with a wait for a disk.
    pub(crate) reading: u64,
    /// Threads inside, queued, and waiting for disks now.
    pub(crate) demand: u32,
}

#[derive(Debug, Default)]
pub(crate) struct DiskBound {
    /// The share of places that lifts the limit; 0: nothing does.
    percent: u32,
    is_lifted: bool,
    /// What the limit is then.
    lifted_limit: u32,
    /// Where the window begins.
    from: Option<Sample>,
    /// When it was told last, ns.
    told_ns: u64,
}

impl DiskBound {
    /// The limit is not lifted, and nothing is known.
    pub(crate) fn new(percent: u32, processors: u32) -> Self {
        let lifted_limit = LIFTED_PER_PROCESSOR.saturating_mul(processors).min(LIMIT_MAX);
        DiskBound { percent, lifted_limit, ..DiskBound::default() }
    }

    /// Whether it wants to be told anything.
    pub(crate) fn is_wanted(&self) -> bool {
        self.percent != 0
    }

    pub(crate) fn is_lifted(&self) -> bool {
        self.is_lifted
    }

    /// What the limit is at least, while it is lifted.
    pub(crate) fn lifted_limit(&self) -> Option<u32> {
        self.is_lifted.then_some(self.lifted_limit)
    }

    /// Takes what is seen; whether the limit is lifted from now on, if that is new.
    pub(crate) fn observe(&mut self, now: Sample) -> Option<bool> {
        // Nobody looked for so long: what was done meanwhile says little of now.
        let is_old = now.now_ns.saturating_sub(self.told_ns) > WINDOW_NS_MAX;
        self.told_ns = now.now_ns;
        let Some(from) = self.from.filter(|_| !is_old) else {
            self.from = Some(now);
            return None;
        };
        let span_ns = now.now_ns.saturating_sub(from.now_ns);
        let places = now.places.saturating_sub(from.places);
        if span_ns < WINDOW_NS || (places < PLACES_MIN && span_ns < WINDOW_NS_MAX) {
            return None;
        }
        self.from = Some(now);
        let reading = now.reading.saturating_sub(from.reading);
        // Half the share sets it again, so that a load between the two does not do both by turns.
        let percent = u64::from(if self.is_lifted { self.percent.div_ceil(2) } else { self.percent });
        let room = if self.is_lifted { self.lifted_limit } else { self.lifted_limit / 4 * 3 };
        let lifts = places >= PLACES_MIN && now.demand <= room && 100 * reading >= percent * places;
        let is_new = lifts != self.is_lifted;
        self.is_lifted = lifts;
        is_new.then_some(lifts)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const WINDOW_MS: u64 = WINDOW_NS / MS;

    /// Tells it, some milliseconds from the last time on, that of so many places more so many read.
    struct Load {
        bound: DiskBound,
        now: Sample,
    }

    impl Load {
        fn new() -> Self {
            let mut load = Load {
                bound: DiskBound::new(50, 2),
                now: Sample { now_ns: 7 * WINDOW_NS_MAX, places: 1000, reading: 1000, demand: 64 },
            };
            assert_eq!(load.bound.observe(load.now), None);
            load
        }

        fn goes_on(&mut self, ms: u64, places: u64, reading: u64) -> Option<bool> {
            self.now.now_ns += ms * MS;
            self.now.places += places;
            self.now.reading += reading;
            self.bound.observe(self.now)
        }
    }

    #[test]
    fn the_limit_is_lifted_by_the_share_and_set_again_below_half_of_it() {
        let mut load = Load::new();
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 499), None);
        assert_eq!(load.bound.lifted_limit(), None);
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 500), Some(true));
        assert_eq!(load.bound.lifted_limit(), Some(256));
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 900), None);
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 250), None);
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 249), Some(false));
        assert_eq!(load.bound.lifted_limit(), None);
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 400), None);
    }

    #[test]
    fn too_few_places_tell_nothing_until_a_window_is_as_long_as_it_gets() {
        let mut load = Load::new();
        assert_eq!(load.goes_on(WINDOW_MS, PLACES_MIN / 2, PLACES_MIN / 2), None);
        // Together they are enough.
        assert_eq!(load.goes_on(WINDOW_MS, PLACES_MIN / 2, PLACES_MIN / 2), Some(true));
        assert_eq!(load.goes_on(WINDOW_NS_MAX / MS / 2, 1, 1), None);
        assert_eq!(load.goes_on(WINDOW_NS_MAX / MS / 2, 1, 1), Some(false));
    }

    #[test]
    fn a_window_is_not_over_at_once_however_many_places_are_taken() {
        let mut load = Load::new();
        assert_eq!(load.goes_on(WINDOW_MS / 2, 1000, 1000), None);
        assert_eq!(load.goes_on(WINDOW_MS / 2, 1000, 0), Some(true));
    }

    #[test]
    fn where_some_would_queue_still_the_limit_is_not_lifted() {
        let mut load = Load::new();
        load.now.demand = 193;
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 1000), None);
        load.now.demand = 192;
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 1000), Some(true));
        load.now.demand = 256;
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 1000), None);
        load.now.demand = 257;
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 1000), Some(false));
    }

    #[test]
    fn what_was_done_while_nobody_looked_does_not_count() {
        let mut load = Load::new();
        assert_eq!(load.goes_on(3600 * 1000, 1_000_000, 1_000_000), None);
        assert_eq!(load.goes_on(WINDOW_MS, 1000, 0), None);
        assert!(!load.bound.is_lifted());
    }
}
