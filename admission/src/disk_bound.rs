//! Where most statements wait for a disk, the limit is lifted.
//!
//! A limit saves switches between threads, and caches that other threads would fill. A short statement that reads from the disk
//! switches anyway, and its place is another's meanwhile: when it comes back there are more inside than the limit, and
//! the next statement of its connection has to queue. Under MariaDB a limit wins nothing there that shows, and costs some percent
//! (`docs/benchmarks/mariadb.md`). So it is told here how many places were taken, in how many of them there was a wait for a disk, and
//! who waits for rows, and says when the limit is to be lifted, and when to be set again.
//! It has no clock and no thread; the watchdog drives it.

use crate::state::LIMIT_MAX;

/// A window, ns. Hundreds of connections are in step for a while, with statements that read, and then with such that do not: each
/// should have come through its transaction.
pub(crate) const WINDOW_NS: u64 = 500_000_000;
/// Nobody looked for so long, ns: what was done meanwhile says little of now.
const OLD_NS: u64 = 2_000_000_000;
/// It is not lifted again for so long, ns, whatever brings it about: it lets all in that queue.
const REST_NS: u64 = 5_000_000_000;
/// The limit while it is lifted, for each processor. It is lifted only where nobody queues then: for more threads than that a higher
/// limit wins nothing.
const LIFTED_PER_PROCESSOR: u32 = 128;
/// Places that read, each second, for each processor: with fewer to queue costs next to nothing, and the statements are long ones, of
/// which many at a time harm each other.
const READING_PER_PROCESSOR_S: u64 = 500;
/// Waits for rows, of 100 places, and those under way, of 100 threads that want to be inside: where there are more, the limit is what
/// keeps crowds from the rows.
const ROW_WAITS_PERCENT: u64 = 2;

/// What it is told: of all the time since the start, and who waits now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// Places taken.
    pub(crate) taken: u64,
    /// Those of them with a wait for a disk.
    pub(crate) reading: u64,
    /// Waits for row locks that began.
    pub(crate) row_waits: u64,
    /// Those of them that are not over.
    pub(crate) row_waiters: u64,
}

#[derive(Debug, Default)]
pub(crate) struct DiskBound {
    /// The share of places that lifts the limit; 0: nothing does.
    percent: u32,
    /// The limit that is lifted, and what it is lifted to.
    limit: u32,
    lifted_limit: u32,
    processors: u32,
    is_lifted: bool,
    /// When the window began, ns, and what had been done until then.
    from: Option<(u64, Places)>,
    /// When it was told last, ns.
    told_ns: u64,
    /// The most that wanted to be inside in this window.
    demand_max: u32,
    /// Not lifted before, ns.
    rests_until_ns: u64,
}

impl DiskBound {
    /// Nothing is lifted, and nothing known. `limit`: what it is unless it is lifted.
    pub(crate) fn new(percent: u32, limit: u32, processors: u32) -> Self {
        let lifted_limit = LIFTED_PER_PROCESSOR.saturating_mul(processors).min(LIMIT_MAX);
        let percent = if limit < lifted_limit { percent } else { 0 };
        DiskBound { percent, limit, lifted_limit, processors, ..DiskBound::default() }
    }

    /// Whether a change of the configuration to these leaves it as it is.
    pub(crate) fn stays_with(&self, percent: u32, limit: u32) -> bool {
        self.percent != 0 && (self.percent, self.limit) == (percent, limit)
    }

    pub(crate) fn is_lifted(&self) -> bool {
        self.is_lifted
    }

    pub(crate) fn limit(&self) -> u32 {
        if self.is_lifted { self.lifted_limit } else { self.limit }
    }

    /// Takes what is seen at `now_ns`, each few milliseconds: how many threads want to be inside, and what has been done, if the
    /// window is over. The limit from now on, if that is new.
    pub(crate) fn observe(
        &mut self,
        now_ns: u64,
        demand: u32,
        count: impl FnOnce() -> Places,
    ) -> Option<u32> {
        if self.percent == 0 {
            return None;
        }
        let is_old = now_ns.saturating_sub(self.told_ns) > OLD_NS;
        self.told_ns = now_ns;
        self.demand_max = self.demand_max.max(demand);
        // Who steps may have been told of a later time before.
        let window = self.from.filter(|(from_ns, _)| !is_old && *from_ns <= now_ns);
        let Some((from_ns, from)) = window else {
            self.begin(now_ns, count());
            return self.is_lifted.then(|| self.set_again(now_ns));
        };
        let span_ns = now_ns.saturating_sub(from_ns);
        if span_ns < WINDOW_NS {
            return None;
        }
        let (now, demand) = (count(), self.demand_max);
        self.begin(now_ns, now);
        let done = Places {
            taken: now.taken.saturating_sub(from.taken),
            reading: now.reading.saturating_sub(from.reading),
            row_waits: now.row_waits.saturating_sub(from.row_waits),
            row_waiters: now.row_waiters,
        };
        let lifts = match self.is_lifted {
            false => now_ns >= self.rests_until_ns && self.is_wanted(done, span_ns, demand, 1),
            true => self.is_wanted(done, span_ns, demand, 2),
        };
        if lifts == self.is_lifted {
            return None;
        }
        if !lifts {
            return Some(self.set_again(now_ns));
        }
        self.is_lifted = true;
        Some(self.lifted_limit)
    }

    fn set_again(&mut self, now_ns: u64) -> u32 {
        self.is_lifted = false;
        self.rests_until_ns = now_ns.saturating_add(REST_NS);
        self.limit
    }

    fn begin(&mut self, now_ns: u64, places: Places) {
        self.from = Some((now_ns, places));
        self.demand_max = 0;
    }

    /// Whether such a window wants it lifted. `slack`: the bounds are so many times as wide, so that a load between the two does not
    /// lift it and set it by turns.
    fn is_wanted(&self, done: Places, span_ns: u64, demand: u32, slack: u64) -> bool {
        let wide = u128::from(slack);
        let (taken, reading) = (u128::from(done.taken), wide * u128::from(done.reading));
        let few = |waits: u64, of: u128| 100 * u128::from(waits) <= wide * u128::from(ROW_WAITS_PERCENT) * of;
        let room = if slack > 1 { self.lifted_limit } else { self.lifted_limit / 4 * 3 };
        let least_per_s = u128::from(READING_PER_PROCESSOR_S) * u128::from(self.processors);
        100 * reading >= u128::from(self.percent) * taken
            && reading * 1_000_000_000 >= least_per_s * u128::from(span_ns)
            && few(done.row_waits, taken)
            && few(done.row_waiters, u128::from(demand))
            // With no more than the limit nobody queues, lifted or not.
            && (self.limit + 1..=room).contains(&demand)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const SET: u32 = 4;
    const LIFTED: u32 = 256;
    const MS: u64 = 1_000_000;

    /// Tells it, window by window, of a load on two processors.
    struct Load {
        bound: DiskBound,
        now_ns: u64,
        places: Places,
        demand: u32,
    }

    impl Load {
        fn new() -> Self {
            let places = Places { taken: 1000, reading: 1000, ..Places::default() };
            let mut load = Load { bound: DiskBound::new(50, SET, 2), now_ns: 7 * OLD_NS, places, demand: 64 };
            assert_eq!(load.tells(), None);
            load
        }

        fn tells(&mut self) -> Option<u32> {
            self.bound.observe(self.now_ns, self.demand, || self.places)
        }

        fn goes_on(&mut self, ns: u64, taken: u64, reading: u64) -> Option<u32> {
            self.now_ns += ns;
            self.places.taken += taken;
            self.places.reading += reading;
            self.tells()
        }

        fn window(&mut self, taken: u64, reading: u64) -> Option<u32> {
            self.goes_on(WINDOW_NS, taken, reading)
        }
    }

    #[test]
    fn the_limit_is_lifted_by_the_share_and_set_again_below_half_of_it() {
        let mut load = Load::new();
        assert_eq!(load.window(4000, 1999), None);
        assert_eq!(load.bound.limit(), SET);
        assert_eq!(load.window(4000, 2000), Some(LIFTED));
        assert_eq!(load.bound.limit(), LIFTED);
        assert_eq!(load.window(4000, 3999), None);
        assert_eq!(load.window(4000, 1000), None);
        assert_eq!(load.window(4000, 999), Some(SET));
        assert_eq!(load.bound.limit(), SET);
    }

    #[test]
    fn once_set_again_it_is_not_lifted_for_a_while() {
        let mut load = Load::new();
        assert_eq!(load.window(4000, 4000), Some(LIFTED));
        assert_eq!(load.window(4000, 0), Some(SET));
        for _ in 0..REST_NS / WINDOW_NS - 1 {
            assert_eq!(load.window(4000, 4000), None);
        }
        assert_eq!(load.window(4000, 4000), Some(LIFTED));
    }

    #[test]
    fn few_statements_that_take_long_lift_nothing() {
        let mut load = Load::new();
        assert_eq!(load.window(499, 499), None);
        assert_eq!(load.window(500, 500), Some(LIFTED));
        assert_eq!(load.window(250, 250), None);
        assert_eq!(load.window(249, 249), Some(SET));
    }

    #[test]
    fn where_places_wait_for_rows_nothing_is_lifted() {
        let mut load = Load::new();
        let waits = |load: &mut Load, n| {
            load.places.row_waits += n;
            load.window(4000, 4000)
        };
        assert_eq!(waits(&mut load, 81), None);
        assert_eq!(waits(&mut load, 80), Some(LIFTED));
        assert_eq!(waits(&mut load, 160), None);
        assert_eq!(waits(&mut load, 161), Some(SET));
    }

    #[test]
    fn where_many_stand_in_waits_for_rows_nothing_is_lifted() {
        let mut load = Load::new();
        load.demand = 100;
        load.places.row_waiters = 3;
        assert_eq!(load.window(4000, 4000), None);
        load.places.row_waiters = 2;
        assert_eq!(load.window(4000, 4000), Some(LIFTED));
        load.places.row_waiters = 4;
        assert_eq!(load.window(4000, 4000), None);
        load.places.row_waiters = 5;
        assert_eq!(load.window(4000, 4000), Some(SET));
    }

    #[test]
    fn where_some_would_queue_still_and_where_nobody_does_nothing_is_lifted() {
        for (too_many, most) in [(193, 192), (SET, SET + 1)] {
            let mut load = Load::new();
            load.demand = too_many;
            assert_eq!(load.window(4000, 4000), None);
            load.demand = most;
            assert_eq!(load.window(4000, 4000), Some(LIFTED));
        }
        for (most, too_many) in [(LIFTED, LIFTED + 1), (SET + 1, SET)] {
            let mut load = Load::new();
            assert_eq!(load.window(4000, 4000), Some(LIFTED));
            load.demand = most;
            assert_eq!(load.window(4000, 4000), None);
            load.demand = too_many;
            assert_eq!(load.window(4000, 4000), Some(SET));
        }
    }

    #[test]
    fn the_most_of_a_window_counts() {
        let mut load = Load::new();
        load.demand = 1000;
        assert_eq!(load.goes_on(10 * MS, 100, 100), None);
        load.demand = 0;
        assert_eq!(load.window(4000, 4000), None);
        load.demand = 64;
        assert_eq!(load.goes_on(10 * MS, 100, 100), None);
        load.demand = 0;
        assert_eq!(load.window(4000, 4000), Some(LIFTED));
    }

    #[test]
    fn a_window_is_not_over_at_once_however_many_places_are_taken() {
        let mut load = Load::new();
        assert_eq!(load.goes_on(WINDOW_NS / 2, 9000, 9000), None);
        assert_eq!(load.goes_on(WINDOW_NS / 2, 9000, 0), Some(LIFTED));
    }

    #[test]
    fn what_was_done_while_nobody_looked_does_not_count() {
        let mut load = Load::new();
        assert_eq!(load.goes_on(3600 * 1000 * MS, 100_000_000, 100_000_000), None);
        assert_eq!(load.window(4000, 0), None);
        assert_eq!(load.bound.limit(), SET);
    }

    #[test]
    fn where_nobody_looks_any_more_the_limit_is_set_again() {
        let mut load = Load::new();
        assert_eq!(load.window(4000, 4000), Some(LIFTED));
        assert_eq!(load.goes_on(OLD_NS + 1, 100_000, 100_000), Some(SET));
        let mut load = Load::new();
        assert_eq!(load.goes_on(OLD_NS, 100_000, 100_000), Some(LIFTED));
        // Told of a time that has not come.
        load.now_ns -= OLD_NS;
        assert_eq!(load.tells(), Some(SET));
    }

    #[test]
    fn a_limit_as_high_is_not_lifted() {
        for limit in [LIFTED, LIFTED + 1, LIMIT_MAX] {
            let mut bound = DiskBound::new(50, limit, 2);
            for window in 1..10 {
                let places = Places { taken: 4000 * window, reading: 4000 * window, ..Places::default() };
                assert_eq!(bound.observe(window * WINDOW_NS, limit + 1, || places), None);
            }
        }
    }
}
