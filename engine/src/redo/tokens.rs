//! Back-pressure: tokens in redo bytes, for statements that are about to write.
//!
//! While the log has room, a statement passes with one look at the fill of the log. Above [`Band::from`] statements take
//! tokens. The rate at which tokens come follows the fill without a step:
//!
//! ```text
//! bytes per second = capacity / TURNOVER_S * (1 - x) / x     x = (fill - from) / (to - from)
//! ```
//!
//! At `from` the rate has no limit, at `to` it is 0. So the writers slow down until the log grows as fast as checkpoints
//! free it, whatever the device achieves, and the fill stays below `to`. What lies above `to` is for changes that take no
//! tokens: commits, rollbacks, purge, and statements that are already running.
//!
//! Each statement takes a *position*, the sum of the bytes before it, and passes when the tokens that have come reach its
//! position: first in, first out. How much a statement will write is not known, so it takes the mean of the statements
//! before it, measured by the growth of the log.
//!
//! # Two bands
//! A transaction that has written holds row locks, and others wait for them. Its statements pass in a band of their own
//! that begins later ([`HOLDERS`]), so that transactions end rather than begin.
//!
//! # Lock order
//! A leaf. The caller holds no latch and no slot; a holder has its row locks.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use flifo_base::{lock, unpoison};

/// The share of the log's capacity in which tokens are needed: none below, no statement passes above.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Band {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// For statements of transactions that hold nothing.
pub(crate) const NEWCOMERS: Band = Band { from: 0.75, to: 0.9 };
/// For statements of transactions that others may wait for.
pub(crate) const HOLDERS: Band = Band { from: 0.85, to: 0.95 };

/// In the middle of a band, a capacity of redo passes in this time, seconds.
const TURNOVER_S: f64 = 4.0;
/// A statement's tokens before any was measured, bytes.
const STATEMENT_BYTES: f64 = 1024.0;
/// Statements of one measurement, and its weight.
const MEASURED: u32 = 16;
const WEIGHT: f64 = 0.1;
/// Tokens that nobody took are kept for this long, seconds.
const KEEP_S: f64 = 0.002;
/// A waiting statement looks again after this time at the latest, since the rate changes with the fill.
const LOOK: Duration = Duration::from_millis(50);
/// It sleeps at least this long.
const SLEEP_MIN: Duration = Duration::from_micros(100);

impl Band {
    /// Bytes per second that may be written where the log is filled to `fill`, a share of its capacity.
    pub(crate) fn bytes_per_s(self, fill: f64, capacity_bytes: u64) -> f64 {
        let within = ((fill - self.from) / (self.to - self.from)).min(1.0);
        if within <= 0.0 {
            return f64::INFINITY;
        }
        capacity_bytes as f64 / TURNOVER_S * (1.0 - within) / within
    }
}

/// The state of the log, as the tokens see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    /// The share of the capacity that is in use.
    pub(super) share: f64,
    /// The end of the log.
    pub(super) next: u64,
}

/// The tokens of one band.
pub(super) struct Tokens {
    band: Band,
    capacity_bytes: u64,
    counts: Mutex<Counts>,
    /// Notified when all may look again.
    changed: Condvar,
}

/// Positions and tokens, bytes. `come` never passes `taken` by more than a statement's bytes.
struct Counts {
    /// Of the statements so far.
    taken: f64,
    /// Tokens so far.
    come: f64,
    /// When `come` was updated.
    at: Instant,
    /// A statement's mean.
    per_statement: f64,
    /// The end of the log, and the statements that have passed since.
    measured: u64,
    passed: u32,
    /// Statements that wait.
    waiting: u32,
}

impl Counts {
    /// Adds the tokens that have come; returns how many come per second now.
    fn update(&mut self, now: Instant, rate: f64) {
        let passed_s = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        let ahead = self.per_statement.max(rate * KEEP_S);
        self.come = match rate.is_finite() {
            true => (self.come + rate * passed_s).min(self.taken + ahead),
            false => self.taken + self.per_statement,
        };
    }

    /// Measures what statements write, each time that some have passed while others waited. What was written while
    /// nobody took tokens is not theirs.
    fn measure(&mut self, next: u64) {
        if self.waiting == 0 {
            (self.measured, self.passed) = (next, 0);
        } else if self.passed >= MEASURED {
            let each = next.saturating_sub(self.measured) as f64 / f64::from(self.passed);
            self.per_statement += WEIGHT * (each.max(1.0) - self.per_statement);
            (self.measured, self.passed) = (next, 0);
        }
    }
}

impl Tokens {
    pub(super) fn new(band: Band, capacity_bytes: u64) -> Self {
        let counts = Counts {
            taken: 0.0,
            come: 0.0,
            at: Instant::now(),
            per_statement: STATEMENT_BYTES,
            measured: 0,
            passed: 0,
            waiting: 0,
        };
        Tokens { band, capacity_bytes, counts: Mutex::new(counts), changed: Condvar::new() }
    }

    /// Whether statements pass without tokens.
    #[inline]
    pub(super) fn is_open(&self, share: f64) -> bool {
        share <= self.band.from
    }

    /// Waits for a statement's tokens, or until `is_over`.
    pub(super) fn take(&self, fill: impl Fn() -> Fill, is_over: impl Fn() -> bool) {
        let mut counts = lock(&self.counts);
        counts.measure(fill().next);
        let position = counts.taken;
        counts.taken += counts.per_statement;
        counts.waiting += 1;
        loop {
            let rate = self.band.bytes_per_s(fill().share, self.capacity_bytes);
            counts.update(Instant::now(), rate);
            if counts.come > position || is_over() {
                break;
            }
            let due = Duration::try_from_secs_f64((position - counts.come) / rate).unwrap_or(LOOK);
            let sleep = due.clamp(SLEEP_MIN, LOOK);
            counts = unpoison(self.changed.wait_timeout(counts, sleep)).0;
        }
        counts.waiting -= 1;
        counts.passed += 1;
    }

    /// All that wait look again.
    pub(super) fn wake_all(&self) {
        // Under the lock, so that no statement is between its look and its sleep.
        let _counts = lock(&self.counts);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 4 << 20;

    #[test]
    fn the_rate_falls_from_no_limit_to_nothing_without_a_step() {
        for band in [NEWCOMERS, HOLDERS] {
            let rate = |share: f64| band.bytes_per_s(band.from + share * (band.to - band.from), CAPACITY);
            assert_eq!(rate(-0.1), f64::INFINITY);
            assert_eq!((rate(1.0), rate(1.5)), (0.0, 0.0));
            assert!(rate(0.001) > 100.0 * CAPACITY as f64);
            let rates: Vec<f64> = (1..=100).map(|percent| rate(f64::from(percent) / 100.0)).collect();
            assert!(rates.windows(2).all(|pair| pair[1] < pair[0]));
            // From one percent to the next by at most a half, except at the ends.
            assert!(rates[1..98].windows(2).all(|pair| pair[1] > 0.5 * pair[0]));
        }
    }

    /// In the middle of the band a capacity takes four seconds.
    #[test]
    fn statements_pass_as_tokens_come() {
        let tokens = Tokens::new(NEWCOMERS, CAPACITY);
        let begun = Instant::now();
        let middle = Fill { share: (NEWCOMERS.from + NEWCOMERS.to) / 2.0, next: 1 };
        (0..100).for_each(|_| tokens.take(|| middle, || false));
        let seconds = 99.0 * STATEMENT_BYTES / (CAPACITY as f64 / TURNOVER_S) - KEEP_S;
        assert!(begun.elapsed().as_secs_f64() >= seconds, "{:?}", begun.elapsed());
    }

    #[test]
    fn who_waits_goes_on_when_there_is_room_or_the_log_is_closed() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

        let tokens = Tokens::new(NEWCOMERS, CAPACITY);
        // Percent, and whether the log is closed.
        let (percent, closed, passed) = (AtomicU32::new(95), AtomicU32::new(0), AtomicU32::new(0));
        let fill = || Fill { share: f64::from(percent.load(SeqCst)) / 100.0, next: 1 };
        std::thread::scope(|scope| {
            let wait = || {
                for _ in 0..2 {
                    tokens.take(fill, || closed.load(SeqCst) == 1);
                    passed.fetch_add(1, SeqCst);
                }
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(wait)).collect();
            std::thread::sleep(2 * LOOK);
            assert_eq!(passed.load(SeqCst), 0);
            percent.store(50, SeqCst);
            while passed.load(SeqCst) < 4 {
                std::thread::yield_now();
            }
            percent.store(95, SeqCst);
            closed.store(1, SeqCst);
            tokens.wake_all();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
