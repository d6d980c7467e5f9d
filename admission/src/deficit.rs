//! What a session took of the processors while others waited, and has not paid for.
//!
//! What its thread took inside is added, by the thread's clock, and what it was away since is taken off: it let the others run. The
//! rest it pays in the queue ([`crate::debts`]). What it took up to an exit at which nobody waits is forgotten.
//!
//! The clock is read when a turn begins and when it ends or pauses, not at each exit within it: such a turn is over, whatever it takes
//! outside, once it has been away for as long ([`crate::turn`]), so no more than that is charged of its own work.
//!
//! Turns are timed where the quantum is a millisecond or longer: for shorter ones that would cost too much, and who sets one has short
//! statements in mind, or takes tickets within them. Nothing is known of sessions that go from thread to thread, as tasks do and
//! connections in a pool of threads: their threads work for others in between.

use std::cell::Cell;

use crate::cpu_time::CpuTime;

/// Turns are timed under quanta of this length or longer, ns: reading a thread's clock twice takes 0.7 us.
pub(crate) const TIMED_NS_MIN: u64 = 1_000_000;
/// Nobody owes for as little as this, ns, nor for four quanta: some turns take longer than others by
/// chance, and a virtual processor that is taken away runs on by its own clock.
pub(crate) const FREE_NS: u64 = 10_000_000;

/// What one session owes the others.
pub(crate) struct Deficit {
    /// The thread's clock when the session came in while others waited, or was read last, while its turn is timed.
    began: Cell<Option<CpuTime>>,
    /// The processor time of its turn, up to `began`, ns; 0 if it is not known, or the queue has been told.
    turn_ns: Cell<u64>,
    /// What it took of others up to `began`, less what it was away and what it paid, ns.
    owed_ns: Cell<u64>,
    /// It is inside, and what it was away before is taken off already.
    came_in: Cell<bool>,
    /// Whose clock it was last; 0 before.
    thread: Cell<u64>,
    /// It has been on several threads, or is a task's.
    migrates: Cell<bool>,
}

impl Deficit {
    pub(crate) fn new() -> Self {
        Deficit {
            began: Cell::new(None),
            turn_ns: Cell::new(0),
            owed_ns: Cell::new(0),
            came_in: Cell::new(false),
            thread: Cell::new(0),
            migrates: Cell::new(false),
        }
    }

    /// It is inside, on this thread, while others wait: what it takes is timed from now on, if it is not already.
    #[inline]
    pub(crate) fn runs(&self, quantum_ns: u64) {
        if quantum_ns >= TIMED_NS_MIN && !self.migrates.get() && self.began.get().is_none() {
            self.starts_clock();
        }
    }

    #[cold]
    fn starts_clock(&self) {
        let began = CpuTime::now();
        let thread = began.map_or(0, CpuTime::thread);
        let before = self.thread.replace(thread);
        self.migrates.set(before != 0 && before != thread);
        self.began.set(began.filter(|_| !self.migrates.get()));
    }

    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.began.get().is_some()
    }

    /// It is used by tasks, which go from thread to thread.
    pub(crate) fn is_a_tasks(&self) {
        self.migrates.set(true);
        self.began.set(None);
    }

    /// What it took up to now is its turn's, and owed, but for what is more than `most_ns`.
    #[inline]
    pub(crate) fn stops(&self, most_ns: u64) {
        if let Some(began) = self.began.take() {
            let took_ns = began.elapsed_ns().unwrap_or(0).min(most_ns);
            self.turn_ns.set(self.turn_ns.get().saturating_add(took_ns));
            self.owed_ns.set(self.owed_ns.get().saturating_add(took_ns));
        }
    }

    /// The queue has been told of its turn, or another begins.
    pub(crate) fn new_turn(&self) {
        self.turn_ns.set(0);
    }

    /// It comes in, and another turn begins: it was away for so long, and let the others run. Once for each time that it comes in.
    pub(crate) fn comes_in(&self, away_ns: u64) {
        if !self.came_in.replace(true) {
            self.owed_ns.set(self.owed_ns.get().saturating_sub(away_ns));
            self.new_turn();
        }
    }

    /// It leaves, and its turn is over.
    pub(crate) fn leaves(&self) {
        self.stops(u64::MAX);
        self.came_in.set(false);
    }

    /// It has let the others pass.
    pub(crate) fn paid(&self) {
        self.owed_ns.set(0);
    }

    /// Nobody waits: what it took is nobody's loss any more.
    #[inline]
    pub(crate) fn forget(&self) {
        self.began.set(None);
        self.turn_ns.set(0);
        self.owed_ns.set(0);
        self.came_in.set(false);
    }

    /// The processor time of its last turn, ns; 0 if it is not known, or was told before.
    pub(crate) fn turn_ns(&self) -> u64 {
        self.turn_ns.get()
    }

    /// What it owes, ns, up to when its clock was read last.
    pub(crate) fn owed_ns(&self) -> u64 {
        self.owed_ns.get()
    }

    /// As if its turn had taken so long.
    #[cfg(test)]
    pub(crate) fn took(&self, ns: u64) {
        self.turn_ns.set(ns);
        self.owed_ns.set(ns);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn who_goes_from_thread_to_thread_is_not_timed() {
        let deficit = Deficit::new();
        deficit.runs(TIMED_NS_MIN - 1);
        assert!(!deficit.is_timed());
        deficit.runs(TIMED_NS_MIN);
        let began = deficit.began.get();
        assert!(began.is_some() || cfg!(miri));
        deficit.runs(TIMED_NS_MIN);
        assert_eq!(deficit.began.get(), began, "it goes on");
        deficit.stops(u64::MAX);
        let deficit = std::thread::spawn(move || {
            deficit.runs(TIMED_NS_MIN);
            deficit
        });
        let deficit = deficit.join().unwrap();
        deficit.runs(TIMED_NS_MIN);
        assert!(!deficit.is_timed());
    }
}
