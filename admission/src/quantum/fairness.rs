//! Fairness by CPU time: sessions that used far more of it than others let them pass.
//!
//! A statement cannot be interrupted, so a time slice takes what it takes, and in a plain round robin the sessions with long
//! statements get the CPUs. This is deficit round robin (Shreedhar and Varghese, 1995), turned around: a session's *deficit*
//! is the CPU time it used beyond its share.
//!
//! 1. A session that runs while others wait reads its thread's clock when its slice begins and when it ends or pauses
//!    ([`Deficit`]). The time the session was away afterwards is taken off: others ran in that time.
//! 2. When it joins the queue, the queue learns from the slice how long slices usually are ([`Averages`]) and notes the deficit in
//!    the request ([`Charge`]).
//! 3. A session with a deficit that comes to the head of the queue goes to the tail instead, and pays one round: the average
//!    slice. After [`PASSED_FOR_NS`], or a third of the time until its deadline, it is passed over no more.
//!
//! A deficit is forgotten at an exit at which nobody waits. Slices are timed where the quantum is a millisecond or longer: a
//! shorter one is not worth two readings of the clock. Nothing is known of sessions that move between threads, as tasks do and
//! connections in a thread pool: their threads work for others in between.

use std::cell::Cell;
use std::thread::ThreadId;

/// Slices are timed under quanta of this length or longer, ns: reading a thread's clock twice takes 0.7 us.
pub(crate) const TIMED_QUANTUM_NS_MIN: u64 = 1_000_000;
/// Smaller deficits do not count, ns: slices differ by chance, and a virtual CPU that is taken away runs on by its own clock.
pub(crate) const FREE_NS: u64 = 10_000_000;
/// Nor do deficits below this number of usual slices.
const FREE_SLICES: u64 = 4;
/// The average slice is over about this number of slices.
const AVERAGED: f64 = 64.0;
/// The usual slice grows by this part of itself with each slice that was longer, and shrinks by three times as much with each that
/// was shorter, so it rests where one slice in four is shorter.
const STEP: f64 = 1.0 / 64.0;
/// A waiter is passed over for at most this time, ns: otherwise a small statement after a report of an hour would wait for an hour.
const PASSED_FOR_NS: u64 = 2_000_000_000;

/// A reading of the running thread's CPU clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTime {
    thread: ThreadId,
    ns: u64,
}

impl CpuTime {
    /// The running thread's CPU time so far. `None` under a model checker, where no time passes.
    pub(crate) fn now() -> Option<Self> {
        if cfg!(any(loom, shuttle, miri)) {
            return None;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let ns = u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?;
        Some(CpuTime { thread: std::thread::current().id(), ns })
    }

    /// The CPU time since, ns; `None` on another thread.
    pub(crate) fn elapsed_ns(self) -> Option<u64> {
        let now = CpuTime::now().filter(|now| now.thread == self.thread)?;
        // A child of fork has its parent's thread id and a clock of its own.
        now.ns.checked_sub(self.ns)
    }
}

/// The CPU time that one session used while others waited, and has not paid for.
pub(crate) struct Deficit {
    /// The thread's clock at the beginning of the slice, or at its last reading, while the slice is timed.
    began: Cell<Option<CpuTime>>,
    /// CPU time of the slice up to `began`, ns; 0 if it is unknown, or the queue has learnt it.
    pub(crate) slice_ns: Cell<u64>,
    /// CPU time used up to `began`, less absences and payments, ns.
    pub(crate) deficit_ns: Cell<u64>,
    /// The absence before this visit is taken off already.
    absence_settled: Cell<bool>,
    /// The thread whose clock was read last.
    thread: Cell<Option<ThreadId>>,
    /// The session has been on several threads, or belongs to a task.
    migrates: Cell<bool>,
}

impl Deficit {
    pub(crate) fn new() -> Self {
        Deficit {
            began: Cell::new(None),
            slice_ns: Cell::new(0),
            deficit_ns: Cell::new(0),
            absence_settled: Cell::new(false),
            thread: Cell::new(None),
            migrates: Cell::new(false),
        }
    }

    /// Starts the clock, unless it runs: the session runs on this thread while others wait.
    #[inline]
    pub(crate) fn start(&self, quantum_ns: u64) {
        if quantum_ns >= TIMED_QUANTUM_NS_MIN && !self.migrates.get() && self.began.get().is_none() {
            self.read_clock();
        }
    }

    #[cold]
    fn read_clock(&self) {
        let began = CpuTime::now();
        let thread = began.map(|began| began.thread);
        let before = self.thread.replace(thread);
        self.migrates.set(before.is_some() && before != thread);
        self.began.set(began.filter(|_| !self.migrates.get()));
    }

    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.began.get().is_some()
    }

    /// The session belongs to a task, which moves between threads.
    pub(crate) fn set_task(&self) {
        self.migrates.set(true);
        self.began.set(None);
    }

    /// Stops the clock, and charges what it shows, but at most `max_ns`.
    #[inline]
    pub(crate) fn stop(&self, max_ns: u64) {
        if let Some(began) = self.began.take() {
            let used_ns = began.elapsed_ns().unwrap_or(0).min(max_ns);
            self.slice_ns.set(self.slice_ns.get().saturating_add(used_ns));
            self.deficit_ns.set(self.deficit_ns.get().saturating_add(used_ns));
        }
    }

    /// Forgets the slice: the queue has learnt it, or another begins.
    pub(crate) fn new_slice(&self) {
        self.slice_ns.set(0);
    }

    /// Takes the absence before this visit off the deficit, once for each visit. Another slice begins.
    pub(crate) fn settle_absence(&self, away_ns: u64) {
        if !self.absence_settled.replace(true) {
            self.deficit_ns.set(self.deficit_ns.get().saturating_sub(away_ns));
            self.new_slice();
        }
    }

    /// The session leaves, and its slice is over.
    pub(crate) fn on_slice_end(&self) {
        self.stop(u64::MAX);
        self.absence_settled.set(false);
    }

    /// The session has let the others pass.
    pub(crate) fn set_paid(&self) {
        self.deficit_ns.set(0);
    }

    /// Nobody waits: what the session used is nobody's loss.
    #[inline]
    pub(crate) fn forget(&self) {
        self.began.set(None);
        self.slice_ns.set(0);
        self.deficit_ns.set(0);
        self.absence_settled.set(false);
    }

    /// CPU time of the last slice, ns; 0 if it is unknown, or the queue has learnt it.
    pub(crate) fn slice_ns(&self) -> u64 {
        self.slice_ns.get()
    }

    /// The deficit up to the last reading of the clock, ns.
    pub(crate) fn deficit_ns(&self) -> u64 {
        self.deficit_ns.get()
    }
}

/// What a waiter brings to the queue, and how long others may pass it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Charge {
    /// CPU time of the waiter's last slice, ns; 0 if it is unknown.
    pub(crate) slice_ns: u64,
    /// The waiter's deficit, ns.
    pub(crate) deficit_ns: u64,
    /// Until then others may pass it, ns since the scheduler was made. The queue sets it.
    pub(crate) passed_until_ns: u64,
}

impl Charge {
    /// Whether others pass this waiter now.
    pub(crate) fn is_passed_over(&self, now_ns: u64) -> bool {
        self.deficit_ns != 0 && now_ns < self.passed_until_ns
    }
}

/// How long slices are in one queue, and so who has a deficit.
#[derive(Debug)]
pub(crate) struct Averages {
    /// One slice in four is shorter, ns; 0 until a slice is known.
    pub(crate) usual_ns: f64,
    /// The average slice, ns. Long ones count as the shortest for which a deficit counts.
    pub(crate) round_ns: f64,
    /// Waiters that joined with a deficit so far.
    pub(crate) with_deficit: u64,
}

impl Averages {
    pub(crate) fn new() -> Self {
        Averages { usual_ns: 0.0, round_ns: 0.0, with_deficit: 0 }
    }

    /// A waiter joins: learns its slice, and decides whether it is passed over and until when.
    pub(crate) fn note(&mut self, charge: &mut Charge, queued_at_ns: u64, deadline_ns: u64) {
        if charge.slice_ns != 0 {
            self.learn(charge.slice_ns);
        }
        if charge.deficit_ns == 0 || charge.deficit_ns.max(charge.slice_ns) <= self.free_ns() {
            charge.deficit_ns = 0;
            return;
        }
        // One slice is everybody's.
        charge.deficit_ns = self.pay_round(charge.deficit_ns);
        self.with_deficit += u64::from(charge.deficit_ns != 0);
        let patience_ns = deadline_ns.saturating_sub(queued_at_ns) / 3;
        charge.passed_until_ns = queued_at_ns.saturating_add(PASSED_FOR_NS.min(patience_ns));
    }

    /// What is left of a deficit after one round, ns.
    pub(crate) fn pay_round(&self, deficit_ns: u64) -> u64 {
        deficit_ns.saturating_sub((self.round_ns as u64).max(1))
    }

    fn learn(&mut self, slice_ns: u64) {
        let slice = slice_ns as f64;
        self.usual_ns = match self.usual_ns {
            0.0 => slice,
            usual if slice < usual => usual * (1.0 - 3.0 * STEP),
            usual => usual * (1.0 + STEP),
        };
        let counts = slice.min(self.free_ns() as f64);
        self.round_ns = match self.round_ns {
            0.0 => counts,
            round => round + (counts - round) / AVERAGED,
        };
    }

    fn free_ns(&self) -> u64 {
        FREE_NS.max(FREE_SLICES.saturating_mul(self.usual_ns as u64))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "no CPU time passes there")]
    fn cpu_time_grows_with_work_and_says_nothing_of_another_thread() {
        let before = CpuTime::now().unwrap();
        while before.elapsed_ns().unwrap() < 100_000 {}
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(before.elapsed_ns(), None));
        });
    }

    #[test]
    fn a_session_that_moves_between_threads_is_not_timed() {
        let deficit = Deficit::new();
        deficit.start(TIMED_QUANTUM_NS_MIN - 1);
        assert!(!deficit.is_timed());
        deficit.start(TIMED_QUANTUM_NS_MIN);
        let began = deficit.began.get();
        assert!(began.is_some() || cfg!(miri));
        deficit.start(TIMED_QUANTUM_NS_MIN);
        assert_eq!(deficit.began.get(), began, "the clock runs on");
        deficit.stop(u64::MAX);
        let deficit = std::thread::spawn(move || {
            deficit.start(TIMED_QUANTUM_NS_MIN);
            deficit
        });
        let deficit = deficit.join().unwrap();
        deficit.start(TIMED_QUANTUM_NS_MIN);
        assert!(!deficit.is_timed());
    }

    #[test]
    fn a_waiter_is_passed_over_for_a_bounded_time() {
        const S: u64 = 1_000_000_000;
        for (deadline_ns, until_ns) in [(u64::MAX, 2 * S), (3 * S, S)] {
            let mut averages = Averages::of(1e5, 0.0);
            let mut charge = Charge { slice_ns: 1 << 50, deficit_ns: 1 << 50, passed_until_ns: 0 };
            averages.note(&mut charge, 0, deadline_ns);
            assert!(charge.is_passed_over(until_ns - 1) && !charge.is_passed_over(until_ns));
            assert_eq!(averages.with_deficit, 1);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
    fn the_usual_slice_is_found_from_anywhere() {
        for start_ns in [1.0, 1e3, 1e9, 1e13] {
            let mut averages = Averages::of(start_ns, 0.0);
            for slice in 0..4000 {
                averages.learn(if slice % 2 == 0 { 3_000_000 } else { 80_000_000 });
            }
            assert!((2e6..4e6).contains(&averages.usual_ns), "{}", averages.usual_ns);
            // Of 3 ms, and of what 80 count as: four times 3.
            assert!((6e6..9e6).contains(&averages.round_ns), "{}", averages.round_ns);
        }
    }
}
