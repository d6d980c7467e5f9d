//! A time series: what a database counted in each interval of a measured window.
//!
//! A series comes from readings of cumulative counters ([`Reading`]), whoever counts: the embedded engine, a live server,
//! or a process that publishes its counters. [`SeriesBuilder`] turns readings at any times into intervals of equal length:
//! between two readings a counter grows evenly. So a late reading shifts nothing, and the intervals sum up to what was
//! counted.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::ResultsError;

/// A measured window in intervals of equal length.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Series {
    /// Length of an interval, seconds: 1, or a tenth of a window shorter than five seconds.
    pub interval_s: f64,
    /// The intervals. What is left of the window at its end is left out.
    pub points: Vec<Point>,
}

/// One interval. Keys are InnoDB's names where InnoDB counts the same; counts are of this interval, gauges of its end. A
/// server's counters that its `SHOW GLOBAL STATUS` lacks are `null`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Point {
    /// End of the interval, seconds since the window's start.
    pub at_s: f64,
    /// Transactions whose last reply came in the interval.
    pub transactions: Option<u64>,
    /// Commits of transactions that wrote.
    pub trx_rw_commits: Option<u64>,
    /// Redo since the last checkpoint, bytes (gauge).
    pub log_lsn_checkpoint_age: Option<u64>,
    /// Age that flushing holds the redo log at, bytes: the setpoint of adaptive flushing, or the age from which
    /// sequential flushing is asynchronous (gauge).
    pub log_max_modified_age_async: Option<u64>,
    /// Redo written, bytes.
    pub os_log_bytes_written: Option<u64>,
    /// Pages written, for any reason.
    pub buffer_pages_written: Option<u64>,
    /// Pages written for their age.
    pub buffer_flush_adaptive_total_pages: Option<u64>,
    /// Pages written by sync flushes.
    pub buffer_flush_sync_total_pages: Option<u64>,
    /// Pages written because the database was idle.
    pub buffer_flush_background_total_pages: Option<u64>,
    /// Pages written so that their frames can be reused.
    #[serde(rename = "buffer_LRU_batch_flush_total_pages")]
    pub buffer_lru_batch_flush_total_pages: Option<u64>,
    /// Waits for a sync flush.
    pub buffer_flush_sync_waits: Option<u64>,
    /// Waits for a free frame of the buffer pool.
    pub buffer_pool_wait_free: Option<u64>,
    /// Waits for room in the log buffer.
    pub log_waits: Option<u64>,
    /// Pages with changes that are not on the disk (gauge).
    pub buffer_pool_pages_dirty: Option<u64>,
    /// Undo records that are not purged (gauge).
    pub trx_rseg_history_len: Option<u64>,
    /// Time that threads waited, per reason, milliseconds of all threads together. Waits count where they end; reasons
    /// without a wait are left out.
    pub wait_ms: BTreeMap<String, f64>,
}

/// Cumulative counters and gauges at one moment, under the names of a [`Point`]'s keys. Times waited are
/// `wait_NAME_ns`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    counters: BTreeMap<String, u64>,
}

/// Names of gauges: what is, not what has happened.
const GAUGES: [&str; 4] = [
    "log_lsn_checkpoint_age",
    "log_max_modified_age_async",
    "buffer_pool_pages_dirty",
    "trx_rseg_history_len",
];

impl FromIterator<(String, u64)> for Reading {
    fn from_iter<I: IntoIterator<Item = (String, u64)>>(counters: I) -> Self {
        Reading { counters: counters.into_iter().collect() }
    }
}

impl Reading {
    /// The counter or gauge of that name, if it was read.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.counters.get(name).copied()
    }

    /// The reading at the time `at`, between `earlier` at `from` and this one at `to`. Gauges are this one's.
    fn between(&self, earlier: &Reading, (from, at, to): (u64, u64, u64)) -> Reading {
        let part = |name: &String, now: u64| match earlier.counters.get(name) {
            Some(&then) if !GAUGES.contains(&&**name) && now > then && to > from => {
                then + (u128::from(now - then) * u128::from(at - from) / u128::from(to - from)) as u64
            }
            _ => now,
        };
        self.counters.iter().map(|(name, &now)| (name.clone(), part(name, now))).collect()
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Reading) -> Point {
        let gauge = |name: &str| self.get(name);
        let count = |name: &str| Some(self.get(name)?.saturating_sub(earlier.get(name)?));
        let waited = self.counters.keys().filter_map(|name| {
            let reason = name.strip_prefix("wait_")?.strip_suffix("_ns")?;
            let ns = count(name).filter(|ns| *ns > 0)?;
            Some((reason.to_owned(), ns as f64 / 1e6))
        });
        Point {
            at_s: 0.0,
            transactions: None,
            trx_rw_commits: count("trx_rw_commits"),
            log_lsn_checkpoint_age: gauge("log_lsn_checkpoint_age"),
            log_max_modified_age_async: gauge("log_max_modified_age_async"),
            os_log_bytes_written: count("os_log_bytes_written"),
            buffer_pages_written: count("buffer_pages_written"),
            buffer_flush_adaptive_total_pages: count("buffer_flush_adaptive_total_pages"),
            buffer_flush_sync_total_pages: count("buffer_flush_sync_total_pages"),
            buffer_flush_background_total_pages: count("buffer_flush_background_total_pages"),
            buffer_lru_batch_flush_total_pages: count("buffer_LRU_batch_flush_total_pages"),
            buffer_flush_sync_waits: count("buffer_flush_sync_waits"),
            buffer_pool_wait_free: count("buffer_pool_wait_free"),
            log_waits: count("log_waits"),
            buffer_pool_pages_dirty: gauge("buffer_pool_pages_dirty"),
            trx_rseg_history_len: gauge("trx_rseg_history_len"),
            wait_ms: waited.collect(),
        }
    }
}

/// The length of an interval in a window of `time_ns`, nanoseconds.
pub fn interval_ns(time_ns: u64) -> u64 {
    const SECOND_NS: u64 = 1_000_000_000;
    match time_ns {
        short if short < 5 * SECOND_NS => (short / 10).max(1),
        _ => SECOND_NS,
    }
}

/// A series while its window is open.
pub struct SeriesBuilder {
    start_ns: u64,
    interval_ns: u64,
    /// The last reading, and its time.
    last: (Reading, u64),
    /// The reading at the end of the last point.
    at_boundary: Reading,
    points: Vec<Point>,
}

impl SeriesBuilder {
    /// Begins a window of `time_ns` with its first reading. A reading after the window's start counts as one at its
    /// start.
    pub fn new(start_ns: u64, time_ns: u64, first: Reading) -> Self {
        SeriesBuilder {
            start_ns,
            interval_ns: interval_ns(time_ns),
            at_boundary: first.clone(),
            last: (first, start_ns),
            points: Vec::new(),
        }
    }

    fn boundary_ns(&self) -> u64 {
        self.start_ns + (self.points.len() as u64 + 1) * self.interval_ns
    }

    /// When the present interval ends, and a reading is welcome.
    pub fn next_ns(&self) -> u64 {
        self.boundary_ns()
    }

    /// Adds a reading. Any number per interval is right, and so is one for several intervals.
    pub fn add(&mut self, at_ns: u64, reading: Reading) {
        while self.boundary_ns() <= at_ns {
            let boundary_ns = self.boundary_ns();
            let (last, last_ns) = (&self.last.0, self.last.1.min(boundary_ns));
            let here = reading.between(last, (last_ns, boundary_ns, at_ns));
            let at_s = (boundary_ns - self.start_ns) as f64 / 1e9;
            self.points.push(Point { at_s, ..here.since(&self.at_boundary) });
            self.last = (here.clone(), boundary_ns);
            self.at_boundary = here;
        }
        self.last = (reading, at_ns);
    }

    /// Ends the window with a last reading, taken at `at_ns` shortly before the window's end at `end_ns`: it counts for
    /// the rest.
    pub fn finish(mut self, at_ns: u64, end_ns: u64, reading: Reading) -> Series {
        self.add(at_ns.max(end_ns), reading);
        // A little less than a whole interval is one: the clients count until the window's end.
        self.points.truncate(((end_ns.saturating_sub(self.start_ns)) / self.interval_ns) as usize);
        Series { interval_s: self.interval_ns as f64 / 1e9, points: self.points }
    }
}

impl Series {
    /// The same with the clients' transactions of each interval. An interval in which none ended may be missing at the
    /// end.
    pub fn with_transactions(mut self, per_interval: &[u64]) -> Self {
        for (index, point) in self.points.iter_mut().enumerate() {
            point.transactions = Some(per_interval.get(index).copied().unwrap_or(0));
        }
        self
    }

    /// A figure of each interval per second.
    pub fn per_s(&self, figure: impl Fn(&Point) -> Option<u64>) -> Vec<Option<f64>> {
        let per_s = |count: u64| count as f64 / self.interval_s;
        self.points.iter().map(|point| figure(point).map(per_s)).collect()
    }

    /// Transactions per second: the clients', or the commits of a database whose clients are not known.
    pub fn transactions_per_s(&self) -> Vec<Option<f64>> {
        self.per_s(|point| point.transactions.or(point.trx_rw_commits))
    }

    /// The sum of a count over all intervals that have it.
    pub fn sum(&self, count: impl Fn(&Point) -> Option<u64>) -> Option<u64> {
        self.points.iter().filter_map(count).reduce(u64::saturating_add)
    }

    /// What no run writes: intervals without a length, and names of waits that no engine has.
    pub(crate) fn check(&self) -> Result<(), ResultsError> {
        if self.interval_s <= 0.0 {
            return Err(ResultsError::Figure("a series has intervals of 0 s".into()));
        }
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        match self.points.iter().flat_map(|point| point.wait_ms.keys()).find(|name| !is_plain(name)) {
            Some(name) => Err(ResultsError::Figure(format!(
                "a wait is called {name:?}, and not with letters, digits and '_' only"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn reading(pages: u64, age: u64, waited_ns: u64) -> Reading {
        [
            ("buffer_flush_adaptive_total_pages", pages),
            ("log_lsn_checkpoint_age", age),
            ("wait_row_lock_ns", waited_ns),
        ]
        .map(|(name, number)| (name.to_owned(), number))
        .into_iter()
        .collect()
    }

    fn pages(series: &Series) -> Vec<u64> {
        series.points.iter().map(|point| point.buffer_flush_adaptive_total_pages.unwrap()).collect()
    }

    #[test]
    fn three_seconds_by_hand() {
        let start = 7_000;
        let mut builder = SeriesBuilder::new(start, 60 * SECOND_NS, reading(100, 5, 0));
        builder.add(start + SECOND_NS, reading(110, 6, 3_000_000));
        // In the midst of the third second: of 30 pages in 1.5 s, 20 are the second's.
        builder.add(start + SECOND_NS * 5 / 2, reading(140, 9, 3_000_000));
        let end = start + 3 * SECOND_NS;
        let series = builder.finish(end - 20_000_000, end, reading(150, 8, 4_000_000));
        assert_eq!(series.interval_s, 1.0);
        assert_eq!(pages(&series), [10, 20, 20]);
        let ages: Vec<_> = series.points.iter().map(|point| point.log_lsn_checkpoint_age).collect();
        assert_eq!(ages, [Some(6), Some(9), Some(8)]);
        assert_eq!(series.points[0].wait_ms, [("row_lock".to_owned(), 3.0)].into());
        assert!(series.points[1].wait_ms.is_empty());
        assert_eq!(series.points[2].at_s, 3.0);
        assert_eq!(series.points[0].log_waits, None, "what was not read is not 0");
    }

    #[test]
    fn a_late_reading_is_spread_over_its_intervals_and_nothing_is_lost() {
        let mut builder = SeriesBuilder::new(0, 10 * SECOND_NS, reading(0, 0, 0));
        builder.add(4 * SECOND_NS + 1, reading(41, 1, 0));
        let series = builder.finish(5 * SECOND_NS, 5 * SECOND_NS, reading(50, 2, 0));
        assert_eq!(pages(&series).len(), 5);
        assert_eq!(pages(&series).iter().sum::<u64>(), 50);
        assert!(pages(&series)[..4].iter().all(|pages| (10..=11).contains(pages)), "{series:?}");
    }

    #[test]
    fn a_short_window_has_ten_intervals() {
        let builder = SeriesBuilder::new(0, 2 * SECOND_NS, reading(0, 0, 0));
        let series = builder.finish(2 * SECOND_NS, 2 * SECOND_NS, reading(1_000, 0, 0));
        assert_eq!((series.interval_s, pages(&series)), (0.2, vec![100; 10]));
        let series = series.with_transactions(&[7, 8]);
        assert_eq!(series.transactions_per_s()[..3], [Some(35.0), Some(40.0), Some(0.0)]);
        assert_eq!(series.sum(|point| point.transactions), Some(15));
    }

    #[test]
    fn a_window_that_was_cut_has_its_whole_intervals() {
        let mut builder = SeriesBuilder::new(0, 10 * SECOND_NS, reading(0, 0, 0));
        builder.add(SECOND_NS, reading(10, 0, 0));
        let series = builder.finish(SECOND_NS * 3 / 2, SECOND_NS * 3 / 2, reading(20, 0, 0));
        assert_eq!(pages(&series), [10]);
    }

    #[test]
    fn a_name_that_would_be_markup_is_refused() {
        let point = Point { wait_ms: [("<b>".to_owned(), 1.0)].into(), ..Point::default() };
        let series = Series { interval_s: 1.0, points: vec![point] };
        assert!(series.check().unwrap_err().to_string().contains("<b>"));
        assert!(Series::default().check().is_err());
    }
}
