//! The state that a cell's threads share with the measuring thread: the start, the phase, the counters.
//!
//! ```text
//! all arrive -> open() -> SETTLE -- settle time --> MEASURE -- window --> OVER -> all report
//! ```
//! A thread that arrives has made its limiter and touched its counters; it sleeps until the last thread has arrived.
//! Throughput is the difference of two readings of all counters, divided by the time between them: exact, however late the
//! measuring thread gets a CPU.
//!
//! | word | written by | order |
//! |---|---|---|
//! | `phase` | the measuring thread; a thread that fails | relaxed: nothing is published by it, and a statement's delay in seeing it costs nothing; it changes a few times a cell, so that reading it is a hit in every cache |
//! | `arrived` | each thread once | release, read with acquire: what it set up is seen |
//! | `gun` | the measuring thread once | release, read with acquire |
//! | a thread's counters | that thread alone, so a load and a store make an increment | relaxed: a reading may be a statement behind |

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use flifo_base::{CacheAligned, cpu_count, current_cpu};
use histogram::{AtomicHistogram, Histogram};
use rustix::thread::futex;

use super::limiter::Running;
use crate::support::clock;

/// Buckets at most 1/32 wide, relative to their value.
const GROUPING_POWER: u8 = 5;
const MAX_VALUE_POWER: u8 = 40;

/// The phase of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The burst of the start passes; nothing counts.
    Settle = 0,
    /// Times are recorded.
    Measure = 1,
    /// A thread that enters exits at once, and ends.
    Over = 2,
}

/// The shared state of a cell.
pub struct Control {
    phase: CacheAligned<AtomicU8>,
    arrived: CacheAligned<AtomicU32>,
    gun: AtomicU32,
    counters: Vec<CacheAligned<Counters>>,
    /// Times from requesting a slot to running, a histogram per CPU: all CPUs would write one bucket of a shared one, and a
    /// histogram per thread would be 4096 cold ones.
    entered_ns: Vec<AtomicHistogram>,
    /// Counts running threads, if asked to.
    pub(crate) running: Option<Running>,
}

/// A thread's counters.
#[derive(Default)]
pub struct Counters {
    statements: AtomicU64,
    /// Failed tries of its statements, which were retried.
    retries: AtomicU64,
    /// The time of its slot request; 0 while it does not wait.
    asked_ns: AtomicU64,
    /// The longest wait for a slot that ended within the window.
    longest_ns: AtomicU64,
}

/// All counters at one point in time.
pub struct Reading {
    /// The time of the reading.
    pub at_ns: u64,
    /// Statements of each thread so far.
    pub statements: Vec<u64>,
    /// Failed tries, of all threads.
    pub retries: u64,
    /// Times from requesting a slot to running, of all threads.
    pub entered_ns: Histogram,
}

impl Control {
    /// The state of a cell with `threads` threads.
    pub fn new(threads: u32, verify: bool) -> Self {
        let histogram =
            || AtomicHistogram::new(GROUPING_POWER, MAX_VALUE_POWER).expect("constants that fit each other");
        Control {
            phase: CacheAligned(AtomicU8::new(Phase::Settle as u8)),
            arrived: CacheAligned(AtomicU32::new(0)),
            gun: AtomicU32::new(0),
            counters: (0..threads).map(|_| CacheAligned(Counters::default())).collect(),
            entered_ns: (0..cpu_count()).map(|_| histogram()).collect(),
            running: verify.then(Running::default),
        }
    }

    /// Returns the phase now.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Settle,
            1 => Phase::Measure,
            _ => Phase::Over,
        }
    }

    /// Advances to `phase`. A cell that is over stays over.
    pub fn go_to(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Relaxed);
    }

    /// Ends the cell, also for threads at the start.
    pub fn give_up(&self) {
        self.go_to(Phase::Over);
        self.open();
    }

    /// Reports that this thread is ready, and waits for the start.
    pub fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Release);
        while self.gun.load(Ordering::Acquire) == 0 {
            // Every error (changed word, signal) means: look again.
            let _ = futex::wait(&self.gun, futex::Flags::PRIVATE, 0, None);
        }
    }

    /// Returns the number of ready threads.
    pub fn arrived(&self) -> u32 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Starts all threads at once.
    pub fn open(&self) {
        self.gun.store(1, Ordering::Release);
        // Waking a valid, aligned word cannot fail.
        let _ = futex::wake(&self.gun, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// Returns the counters of a thread.
    pub fn counters(&self, thread: usize) -> &Counters {
        &self.counters[thread]
    }

    /// Records `entries` entries that took `ns` each from requesting a slot to running.
    #[inline]
    pub fn entered(&self, ns: u64, entries: u64) {
        let cpu = current_cpu() % self.entered_ns.len();
        // Fails only beyond the histogram's range, which the line keeps it from.
        let _ = self.entered_ns[cpu].add(ns.min((1 << MAX_VALUE_POWER) - 1), entries);
    }

    /// Reads all counters.
    pub fn read(&self) -> Reading {
        let mut sum = self.entered_ns[0].load();
        for histogram in &self.entered_ns[1..] {
            sum = sum.wrapping_add(&histogram.load()).expect("all have one shape");
        }
        let statements =
            self.counters.iter().map(|counters| counters.statements.load(Ordering::Relaxed)).collect();
        let retries = self.counters.iter().map(|counters| counters.retries.load(Ordering::Relaxed)).sum();
        Reading { at_ns: clock::now_ns(), statements, retries, entered_ns: sum }
    }

    /// Returns the longest wait for a slot, among waits that ended within the window and waits that continue at
    /// `end_ns`, so that a starving thread counts.
    pub fn longest_ns(&self, end_ns: u64) -> u64 {
        let longest_ns = |CacheAligned(counters): &CacheAligned<Counters>| {
            let asked_ns = counters.asked_ns.load(Ordering::Relaxed);
            let waits_ns = if asked_ns == 0 { 0 } else { end_ns.saturating_sub(asked_ns) };
            counters.longest_ns.load(Ordering::Relaxed).max(waits_ns)
        };
        self.counters.iter().map(longest_ns).max().unwrap_or(0)
    }
}

impl Counters {
    /// Counts a statement.
    #[inline]
    pub fn done(&self) {
        self.statements.store(self.statements.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Counts the failed tries of the next counted statement.
    #[inline]
    pub fn retried(&self, tries: u64) {
        if tries > 0 {
            self.retries.store(self.retries.load(Ordering::Relaxed) + tries, Ordering::Relaxed);
        }
    }

    /// Notes that the thread requests a slot now.
    #[inline]
    pub fn begin_wait(&self, now_ns: u64) {
        self.asked_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Notes that the thread has its slot.
    #[inline]
    pub fn end_wait(&self) {
        self.asked_ns.store(0, Ordering::Relaxed);
    }

    /// Records a wait that ended within the window.
    #[inline]
    pub fn waited(&self, ns: u64) {
        if ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(ns, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_goes_on_counts_among_the_longest() {
        let control = Control::new(3, false);
        control.counters(0).waited(5_000);
        control.counters(0).waited(400);
        assert_eq!(control.longest_ns(10_000), 5_000);
        control.counters(2).begin_wait(1_000);
        assert_eq!(control.longest_ns(10_000), 9_000);
        control.counters(2).end_wait();
        assert_eq!(control.longest_ns(10_000), 5_000);
    }

    #[test]
    fn a_cell_that_is_over_stays_over() {
        let control = Control::new(1, false);
        control.go_to(Phase::Measure);
        assert_eq!(control.phase(), Phase::Measure);
        control.give_up();
        control.go_to(Phase::Measure);
        assert_eq!(control.phase(), Phase::Over);
        control.arrive();
    }

    #[test]
    fn readings_sum_the_cpus_and_list_the_threads() {
        let control = Control::new(2, false);
        control.counters(1).done();
        control.counters(1).done();
        control.counters(0).retried(3);
        control.counters(1).retried(4);
        control.entered(1_000, 10);
        control.entered(u64::MAX, 1);
        let reading = control.read();
        assert_eq!((reading.statements, reading.retries), (vec![0, 2], 7));
        let median = reading.entered_ns.quantile_bucket(0.5).unwrap().unwrap();
        assert!(median.start() <= 1_000 && 1_000 <= median.end());
    }
}
