//! The counters of one driver in a window, and their sum over drivers.

use histogram::Histogram;

use super::Window;
use super::retries::Retries;
use crate::measure::workload::Totals;
use crate::results::PerSecond;

/// Buckets at most 1/128 wide, relative to their value.
const GROUPING_POWER: u8 = 7;
const MAX_VALUE_POWER: u8 = 40;
/// The longest latency that the histogram resolves: 18 minutes.
pub const LATENCY_NS_MAX: u64 = (1 << MAX_VALUE_POWER) - 1;

/// Counters of one window.
#[derive(Debug, Clone)]
pub struct WindowCounters {
    /// Statements whose reply came inside the window.
    pub statements: u64,
    /// Transactions whose last reply came inside the window.
    pub transactions: u64,
    /// Latency per transaction, which is the statement for a workload of single statements.
    pub latency_ns: Histogram,
    /// The longest latency, including the time until the window's end of a transaction still without its last reply, so
    /// that a starving connection counts.
    pub latency_ns_max: u64,
    /// Statements of each connection, by its number within the driver.
    pub per_connection: Vec<u64>,
    /// The window second by second; the last entry may cover a part of a second.
    pub seconds: Vec<PerSecond>,
    /// Transactions that were rolled back and retried.
    pub retries: Retries,
    /// The changes of all acknowledged transactions, including those outside the window.
    pub changes: Totals,
}

impl WindowCounters {
    /// Zero counters, for a driver of that many connections.
    pub fn new(connections: usize) -> Self {
        let latency_ns =
            Histogram::new(GROUPING_POWER, MAX_VALUE_POWER).expect("constants that fit each other");
        WindowCounters {
            statements: 0,
            transactions: 0,
            latency_ns,
            latency_ns_max: 0,
            per_connection: vec![0; connections],
            seconds: Vec::new(),
            retries: Retries::default(),
            changes: Totals::default(),
        }
    }

    /// The second of the window in which a reply came.
    #[inline]
    fn second(&mut self, window: &Window, now_ns: u64) -> &mut PerSecond {
        let second = ((now_ns - window.start_ns()) / 1_000_000_000) as usize;
        if second >= self.seconds.len() {
            self.seconds.resize(second + 1, PerSecond::default());
        }
        &mut self.seconds[second]
    }

    /// Counts a reply at `now_ns` if it came inside the window. `begun_ns` is the start of its transaction, given with
    /// the transaction's last reply.
    #[inline]
    pub fn reply(&mut self, window: &Window, now_ns: u64, connection: usize, begun_ns: Option<u64>) {
        if now_ns < window.start_ns() || now_ns >= window.end_ns() {
            return;
        }
        self.statements += 1;
        self.per_connection[connection] += 1;
        let second = self.second(window, now_ns);
        second.statements += 1;
        second.transactions += u64::from(begun_ns.is_some());
        if let Some(begun_ns) = begun_ns {
            let latency_ns = now_ns - begun_ns;
            self.transactions += 1;
            self.latency_ns_max = self.latency_ns_max.max(latency_ns);
            // Fails only beyond the histogram's range, which the line keeps it from.
            let _ = self.latency_ns.increment(latency_ns.min(LATENCY_NS_MAX));
        }
    }

    /// Counts a transaction of that many statements, all of whose replies came at `now_ns`, if that is inside the window.
    pub fn transaction(
        &mut self,
        window: &Window,
        now_ns: u64,
        connection: usize,
        (begun_ns, statements): (u64, u64),
    ) {
        let before = self.transactions;
        self.reply(window, now_ns, connection, Some(begun_ns));
        if self.transactions > before {
            let more = statements.saturating_sub(1);
            self.statements += more;
            self.per_connection[connection] += more;
            self.second(window, now_ns).statements += more;
        }
    }

    /// Counts a transaction that began at `begun_ns` and had no last reply at the window's end.
    pub fn unanswered(&mut self, window: &Window, begun_ns: u64) {
        self.latency_ns_max = self.latency_ns_max.max(window.end_ns().saturating_sub(begun_ns));
    }

    /// Adds another driver's counters.
    pub fn add(&mut self, other: WindowCounters) {
        self.statements += other.statements;
        self.transactions += other.transactions;
        self.latency_ns_max = self.latency_ns_max.max(other.latency_ns_max);
        self.per_connection.extend(other.per_connection);
        self.retries.add(&other.retries);
        self.changes = self.changes.plus(other.changes);
        self.seconds.resize(self.seconds.len().max(other.seconds.len()), PerSecond::default());
        for (sum, more) in self.seconds.iter_mut().zip(other.seconds) {
            sum.statements += more.statements;
            sum.transactions += more.transactions;
        }
        self.latency_ns =
            self.latency_ns.wrapping_add(&other.latency_ns).expect("all counters have one histogram shape");
    }

    /// A quantile (0..=1) of the latency, ms; `None` if nothing was counted.
    pub fn latency_ms(&self, quantile: f64) -> Option<f64> {
        let bucket = self.latency_ns.quantile_bucket(quantile).ok().flatten()?;
        // The middle of the bucket; never beyond the longest that was seen.
        let middle = bucket.start() + (bucket.end() - bucket.start()) / 2;
        Some(middle.min(self.latency_ns_max) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_replies_inside_the_window_count() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let (start, end) = (window.start_ns(), window.end_ns());
        let mut counters = WindowCounters::new(2);
        counters.reply(&window, start - 1, 0, Some(start - 10));
        counters.reply(&window, end, 0, Some(start));
        assert_eq!((counters.statements, counters.latency_ms(0.5)), (0, None));
        counters.reply(&window, start, 0, Some(start - 1_000));
        counters.reply(&window, end - 1, 1, None);
        assert_eq!((counters.statements, counters.transactions), (2, 1));
        assert_eq!(counters.per_connection, [1, 1]);
        assert_eq!(counters.latency_ns_max, 1_000);
    }

    #[test]
    fn a_transaction_counts_with_its_statements() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let mut counters = WindowCounters::new(1);
        counters.transaction(&window, window.start_ns() + 9, 0, (window.start_ns(), 30));
        counters.transaction(&window, window.end_ns(), 0, (window.start_ns(), 30));
        assert_eq!((counters.statements, counters.transactions), (30, 1));
        assert_eq!(counters.seconds, [PerSecond { statements: 30, transactions: 1 }]);
        assert_eq!(counters.per_connection, [30]);
    }

    #[test]
    fn who_starves_shows_in_the_maximum() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let mut counters = WindowCounters::new(1);
        counters.reply(&window, window.start_ns() + 5, 0, Some(window.start_ns()));
        counters.unanswered(&window, window.start_ns());
        assert_eq!(counters.latency_ns_max, 1_000_000_000);
        assert_eq!(counters.transactions, 1);
    }

    #[test]
    fn a_cut_window_closes_early_and_never_late() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(100));
        window.cut();
        let end = window.end_ns();
        assert!(end < window.start_ns() + 100_000_000_000);
        window.cut();
        assert_eq!(window.end_ns(), end);
    }

    #[test]
    fn seconds_are_the_window_s() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(3));
        let mut counters = WindowCounters::new(1);
        for (at_ms, begun) in [(0, true), (999, false), (2_000, true)] {
            let now_ns = window.start_ns() + at_ms * 1_000_000;
            counters.reply(&window, now_ns, 0, begun.then_some(window.start_ns()));
        }
        let second = |statements, transactions| PerSecond { statements, transactions };
        assert_eq!(counters.seconds, [second(2, 1), second(0, 0), second(1, 1)]);
    }

    #[test]
    fn counters_add_up() {
        let window = Window::after(Duration::ZERO, Duration::from_secs(1));
        let (mut a, mut b) = (WindowCounters::new(1), WindowCounters::new(1));
        for counters in [&mut a, &mut b] {
            counters.reply(&window, window.start_ns() + 1_000, 0, Some(window.start_ns()));
        }
        b.reply(&window, window.start_ns() + 2_000_000, 0, Some(window.start_ns()));
        a.add(b);
        assert_eq!((a.statements, a.per_connection.clone()), (3, vec![1, 2]));
        assert_eq!(a.seconds, [PerSecond { statements: 3, transactions: 3 }]);
        assert_eq!(a.latency_ns_max, 2_000_000);
        assert!((a.latency_ms(1.0).unwrap() - 2.0).abs() < 0.02);
    }
}
