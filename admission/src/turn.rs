//! A session's turn under [`crate::Policy::Quantum`].
//!
//! A session that returns as soon as it has left (a *loop*) makes statements for a quantum of time once it is
//! in: its exits leave the place with the processor, or give it back, without waking anybody, since it is about to take it again. When the
//! quantum is over, its exit hands the place on, and its next entry goes to the tail of the queue.
//!
//! A wait that gives the place up, as for a disk, is no time of the turn: others have the place meanwhile. Else a
//! statement that reads from a disk would use up a turn, and queue each time.
//!
//! A session that was away for a quantum or longer, with its client or at its own work, is a newcomer: it
//! may overtake while woken threads do not run yet, as under `flifo`, and its exit hands its place on, since
//! it will not be back soon.
//!
//! The clock is read only while somebody waits, and by who leaves for good.
//!
//! A statement cannot be interrupted, so a turn can be far longer than a quantum. What its thread took of the processor since it was in the
//! queue last is told to the queue when it comes back ([`crate::debts`]), and it owes for that, unless it was away for as long. What it took up to
//! an exit at which nobody waits is forgotten. Turns are timed where the quantum is a millisecond or longer: for shorter ones that would cost too
//! much, and who sets one has short statements in mind, or takes tickets within them. Nothing is known of sessions that go from
//! thread to thread, as tasks do and connections in a pool of threads: their threads work for others in between.

use std::cell::Cell;

use crate::cpu_time::CpuTime;

/// Turns are timed under quanta of this length or longer, ns: reading a thread's clock twice takes 0.7 us.
const TIMED_NS_MIN: u64 = 1_000_000;
/// Nobody owes for a turn as short as this, ns, nor for two quanta: some take longer than others by chance, and a virtual processor
/// that is taken away runs on by its own clock.
pub(crate) const FREE_NS: u64 = 10_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It overtakes nobody: it is new, so that connections that come and go cannot starve the queue, or
    /// others waited when its tickets ran out.
    Waits,
    /// Its turn began then, ns; later by what it waited without its place.
    In(u64),
    /// It left at the end of a turn then, ns.
    Away(u64),
}

/// Where a session is in its turn.
pub(crate) struct Turn {
    phase: Cell<Phase>,
    /// It came back sooner than a quantum after its last turn.
    loops: Cell<bool>,
    /// The thread's clock when it came in while others waited, or came back from their queue, while that is timed.
    began: Cell<Option<CpuTime>>,
    /// The processor time since it was in the queue last, up to `began`, ns.
    took_ns: Cell<u64>,
    /// Whose clock it was last; 0 before.
    thread: Cell<usize>,
    /// It has been on several threads, or is a task's.
    migrates: Cell<bool>,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Turn {
            phase: Cell::new(Phase::Waits),
            loops: Cell::new(false),
            began: Cell::new(None),
            took_ns: Cell::new(0),
            thread: Cell::new(0),
            migrates: Cell::new(false),
        }
    }

    /// It wants to enter while others wait: whether it may overtake them. One that pays may not while it owes.
    pub(crate) fn may_overtake(&self, now_ns: impl Fn() -> u64, quantum_ns: u64, pays: bool) -> bool {
        match self.phase.get() {
            Phase::Waits => false,
            Phase::In(_) => true,
            Phase::Away(since_ns) => {
                let now_ns = now_ns();
                self.loops.set(now_ns.saturating_sub(since_ns) < quantum_ns);
                let waits = self.loops.get() || pays && self.owes(now_ns, quantum_ns);
                if !waits {
                    self.phase.set(Phase::In(now_ns));
                }
                !waits
            }
        }
    }

    /// Whether it is known to come back at once: then it overtakes within its turn, and not as a newcomer.
    #[inline]
    pub(crate) fn loops(&self) -> bool {
        self.loops.get()
    }

    /// As if it were known to come back at once, and had come in through the queue.
    #[cfg(all(test, loom))]
    pub(crate) fn loops_since(&self, now_ns: u64) {
        self.loops.set(true);
        self.begin(now_ns);
    }

    /// It came in through the queue.
    pub(crate) fn begin(&self, now_ns: u64) {
        self.phase.set(Phase::In(now_ns));
    }

    /// It came in on this thread while others waited: what it takes is timed from now on, if it is not already.
    #[inline]
    pub(crate) fn time_runs(&self, quantum_ns: u64) {
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

    /// It is used by tasks, which go from thread to thread.
    pub(crate) fn is_a_tasks(&self) {
        self.migrates.set(true);
        self.began.set(None);
    }

    /// It has left, and nobody waits: what it took is nobody's loss any more.
    #[inline]
    pub(crate) fn keeps_nobody_out(&self) {
        self.began.set(None);
        self.took_ns.set(0);
    }

    /// The processor time since it was in the queue last, ns; 0 if it is not known.
    pub(crate) fn untold_ns(&self) -> u64 {
        if let Some(began) = self.began.take() {
            let took_ns = began.elapsed_ns().unwrap_or(0);
            self.took_ns.set(self.took_ns.get().saturating_add(took_ns));
        }
        self.took_ns.get()
    }

    /// Whether that is long, and it was not away for as long.
    pub(crate) fn owes(&self, now_ns: u64, quantum_ns: u64) -> bool {
        let took_ns = self.took_ns.get();
        let was_away = match self.phase.get() {
            Phase::Away(since_ns) => now_ns.saturating_sub(since_ns) >= took_ns,
            Phase::Waits | Phase::In(_) => false,
        };
        took_ns > FREE_NS.max(quantum_ns.saturating_mul(2)) && !was_away
    }

    /// As if its turns had taken so long.
    #[cfg(test)]
    pub(crate) fn took(&self, ns: u64) {
        self.took_ns.set(ns);
    }

    /// The queue has been told.
    pub(crate) fn told(&self) {
        self.took_ns.set(0);
    }

    /// It leaves while others wait: whether it comes back within its turn.
    pub(crate) fn leave(&self, now_ns: u64, quantum_ns: u64) -> bool {
        let comes_back = self.goes_on(|| now_ns, quantum_ns);
        if !comes_back {
            self.end(now_ns);
        }
        comes_back
    }

    /// It leaves while others wait: as [`Turn::leave`], but its turn is not ended.
    pub(crate) fn goes_on(&self, now_ns: impl FnOnce() -> u64, quantum_ns: u64) -> bool {
        match self.phase.get() {
            Phase::In(since_ns) => self.loops.get() && now_ns().saturating_sub(since_ns) < quantum_ns,
            Phase::Waits | Phase::Away(_) => false,
        }
    }

    /// It leaves, and its turn is over, whatever is left of it.
    pub(crate) fn end(&self, now_ns: u64) {
        self.phase.set(Phase::Away(now_ns));
        self.untold_ns();
    }

    /// It gave its place up for a wait of so long: others ran meanwhile, so that is no time of its turn.
    pub(crate) fn pause(&self, ns: u64) {
        if let Phase::In(since_ns) = self.phase.get() {
            self.phase.set(Phase::In(since_ns.saturating_add(ns)));
        }
    }

    /// The rest of its turn is lost, and it overtakes nobody.
    pub(crate) fn forfeit(&self) {
        self.phase.set(Phase::Waits);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const QUANTUM_NS: u64 = 100;

    #[test]
    fn who_returns_at_once_has_a_quantum_in_turn() {
        let turn = Turn::new();
        assert!(!turn.may_overtake(|| 0, QUANTUM_NS, true), "a new session overtakes nobody");
        turn.begin(10);
        assert!(!turn.leave(30, QUANTUM_NS), "nothing is known of it yet");
        assert!(!turn.may_overtake(|| 31, QUANTUM_NS, true), "its turn is over");
        turn.begin(500);
        for statement in 1..5 {
            assert!(turn.leave(500 + 20 * statement, QUANTUM_NS));
            assert!(turn.may_overtake(|| unreachable!("it is in its turn"), QUANTUM_NS, true));
        }
        assert!(!turn.leave(600, QUANTUM_NS));
        assert!(!turn.may_overtake(|| 601, QUANTUM_NS, true));
    }

    #[test]
    fn who_took_long_must_be_away_as_long_to_owe_nothing() {
        const TOOK_NS: u64 = 3 * FREE_NS;
        for (took_ns, away_ns, owes) in [
            (TOOK_NS, 50, true),
            (TOOK_NS, TOOK_NS - 1, true),
            (TOOK_NS, TOOK_NS, false),
            (FREE_NS, 200, false),
        ] {
            for pays in [true, false] {
                let turn = Turn::new();
                turn.begin(0);
                assert!(!turn.leave(1000, QUANTUM_NS));
                turn.took(took_ns);
                let is_newcomer = away_ns >= QUANTUM_NS;
                let overtakes = turn.may_overtake(|| 1000 + away_ns, QUANTUM_NS, pays);
                assert_eq!(overtakes, is_newcomer && !(owes && pays), "{took_ns} {away_ns}");
                assert_eq!(turn.loops(), !is_newcomer);
                assert_eq!(turn.untold_ns(), took_ns);
            }
        }
        let turn = Turn::new();
        turn.took(TOOK_NS);
        assert!(!turn.owes(0, TOOK_NS / 2), "two quanta");
    }

    #[test]
    fn who_goes_from_thread_to_thread_is_not_timed() {
        let turn = Turn::new();
        turn.time_runs(TIMED_NS_MIN - 1);
        assert_eq!(turn.began.get(), None);
        turn.time_runs(TIMED_NS_MIN);
        let began = turn.began.get();
        assert!(began.is_some() || cfg!(miri));
        turn.time_runs(TIMED_NS_MIN);
        assert_eq!(turn.began.get(), began, "it goes on");
        turn.end(0);
        let turn = std::thread::spawn(move || {
            turn.time_runs(TIMED_NS_MIN);
            turn
        });
        let turn = turn.join().unwrap();
        turn.time_runs(TIMED_NS_MIN);
        assert_eq!(turn.began.get(), None);
    }

    #[test]
    fn who_was_away_is_a_newcomer_and_hands_on() {
        let turn = Turn::new();
        turn.begin(0);
        for visit in 1..5 {
            let now_ns = 1000 * visit;
            assert!(!turn.leave(now_ns + 20, QUANTUM_NS));
            assert!(turn.may_overtake(|| now_ns + 1000, QUANTUM_NS, true));
        }
    }

    #[test]
    fn a_wait_without_the_place_is_no_time_of_the_turn() {
        let turn = Turn::new();
        turn.begin(0);
        assert!(!turn.leave(20, QUANTUM_NS) && !turn.may_overtake(|| 21, QUANTUM_NS, true));
        turn.begin(1000);
        turn.pause(5000);
        assert!(turn.leave(6090, QUANTUM_NS), "90 of 100 used");
        assert!(!turn.leave(6100, QUANTUM_NS));
        turn.pause(5000);
        assert!(!turn.may_overtake(|| 6101, QUANTUM_NS, true), "its turn is over, whatever it waits for");
    }

    #[test]
    fn a_forfeited_turn_overtakes_nobody() {
        let turn = Turn::new();
        turn.begin(0);
        turn.forfeit();
        assert!(!turn.may_overtake(|| 10_000, QUANTUM_NS, true));
    }
}
