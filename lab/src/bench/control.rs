//! What the threads of a cell and the thread that measures them share: the gun, the phase, the counters.
//!
//! ```text
//! all arrive -> open() -> SETTLE -- settle time --> MEASURE -- window --> OVER -> all report
//! ```
//! A thread that arrives has made its way in and touched its counters; it sleeps until the last one has
//! arrived. Throughput is the difference of two readings of all counters, divided by the time between them:
//! exact, however late the measuring thread gets a processor.
//!
//! | word | who writes | order |
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
use crate::clock;

/// Buckets at most 1/32 wide, relative to their value.
const GROUPING_POWER: u8 = 5;
const MAX_VALUE_POWER: u8 = 40;

/// Where a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The burst of the start passes; nothing counts.
    Settle = 0,
    /// Times are recorded.
    Measure = 1,
    /// Who comes in leaves at once, and ends.
    Over = 2,
}

/// The middle of a cell.
pub struct Control {
    phase: CacheAligned<AtomicU8>,
    arrived: CacheAligned<AtomicU32>,
    gun: AtomicU32,
    slots: Vec<CacheAligned<Slot>>,
    /// Times from asking to being inside, one histogram a CPU: a shared one would make the line of its
    /// most usual bucket wander, one a thread would be 4096 cold ones.
    entered_ns: Vec<AtomicHistogram>,
    /// Counts who is inside, if asked to.
    pub(super) running: Option<Running>,
}

/// A thread's counters.
#[derive(Default)]
pub struct Slot {
    statements: AtomicU64,
    /// Tries of its statements that failed, and were tried again.
    retries: AtomicU64,
    /// When it asked for the place that it has not yet; 0 while it does not wait.
    asked_ns: AtomicU64,
    /// The longest time from asking to being inside, of those that ended inside the window.
    longest_ns: AtomicU64,
}

/// Everybody's counters at one moment.
pub struct Reading {
    /// When it was taken.
    pub at_ns: u64,
    /// Of each thread, done until then.
    pub statements: Vec<u64>,
    /// Of all threads: tries of those that failed.
    pub retries: u64,
    /// Of all threads: the times that they noted.
    pub entered_ns: Histogram,
}

impl Control {
    /// For so many threads.
    pub fn new(threads: u32, verify: bool) -> Self {
        let histogram =
            || AtomicHistogram::new(GROUPING_POWER, MAX_VALUE_POWER).expect("constants that fit each other");
        Control {
            phase: CacheAligned(AtomicU8::new(Phase::Settle as u8)),
            arrived: CacheAligned(AtomicU32::new(0)),
            gun: AtomicU32::new(0),
            slots: (0..threads).map(|_| CacheAligned(Slot::default())).collect(),
            entered_ns: (0..cpu_count()).map(|_| histogram()).collect(),
            running: verify.then(Running::default),
        }
    }

    /// Where the cell is.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Settle,
            1 => Phase::Measure,
            _ => Phase::Over,
        }
    }

    /// Goes on to `phase`; a cell that is over stays over.
    pub fn go_to(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Relaxed);
    }

    /// Ends the cell for those who are at the start, too.
    pub fn give_up(&self) {
        self.go_to(Phase::Over);
        self.open();
    }

    /// Says that this thread is ready, and waits for the start.
    pub fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::Release);
        while self.gun.load(Ordering::Acquire) == 0 {
            // Every error (changed word, signal) means: look again.
            let _ = futex::wait(&self.gun, futex::Flags::PRIVATE, 0, None);
        }
    }

    /// How many are ready.
    pub fn arrived(&self) -> u32 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Lets all go at once.
    pub fn open(&self) {
        self.gun.store(1, Ordering::Release);
        // Waking a valid, aligned word cannot fail.
        let _ = futex::wake(&self.gun, futex::Flags::PRIVATE, i32::MAX as u32);
    }

    /// The counters of a thread.
    pub fn slot(&self, thread: usize) -> &Slot {
        &self.slots[thread]
    }

    /// Notes a time from asking to being inside, of so many entries.
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
        let statements = self.slots.iter().map(|slot| slot.statements.load(Ordering::Relaxed)).collect();
        let retries = self.slots.iter().map(|slot| slot.retries.load(Ordering::Relaxed)).sum();
        Reading { at_ns: clock::now_ns(), statements, retries, entered_ns: sum }
    }

    /// The longest time from asking to being inside, of those that ended inside the window and of those that
    /// wait still at `end_ns`: whoever starves is in here.
    pub fn longest_ns(&self, end_ns: u64) -> u64 {
        let of_slot = |CacheAligned(slot): &CacheAligned<Slot>| {
            let asked_ns = slot.asked_ns.load(Ordering::Relaxed);
            let waits_ns = if asked_ns == 0 { 0 } else { end_ns.saturating_sub(asked_ns) };
            slot.longest_ns.load(Ordering::Relaxed).max(waits_ns)
        };
        self.slots.iter().map(of_slot).max().unwrap_or(0)
    }
}

impl Slot {
    /// Another statement is done.
    #[inline]
    pub fn done(&self) {
        self.statements.store(self.statements.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Notes that the statement which is done next was tried so many times in vain.
    #[inline]
    pub fn retried(&self, tries: u64) {
        if tries > 0 {
            self.retries.store(self.retries.load(Ordering::Relaxed) + tries, Ordering::Relaxed);
        }
    }

    /// Asks for a place now.
    #[inline]
    pub fn asks(&self, now_ns: u64) {
        self.asked_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Waits no more.
    #[inline]
    pub fn is_running(&self) {
        self.asked_ns.store(0, Ordering::Relaxed);
    }

    /// Notes a wait of the window.
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
    fn who_still_waits_counts_among_the_longest() {
        let control = Control::new(3, false);
        control.slot(0).waited(5_000);
        control.slot(0).waited(400);
        assert_eq!(control.longest_ns(10_000), 5_000);
        control.slot(2).asks(1_000);
        assert_eq!(control.longest_ns(10_000), 9_000);
        control.slot(2).is_running();
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
    fn readings_sum_the_processors_and_list_the_threads() {
        let control = Control::new(2, false);
        control.slot(1).done();
        control.slot(1).done();
        control.slot(0).retried(3);
        control.slot(1).retried(4);
        control.entered(1_000, 10);
        control.entered(u64::MAX, 1);
        let reading = control.read();
        assert_eq!((reading.statements, reading.retries), (vec![0, 2], 7));
        let median = reading.entered_ns.quantile_bucket(0.5).unwrap().unwrap();
        assert!(median.start() <= 1_000 && 1_000 <= median.end());
    }
}
