//! A session's turn under [`crate::Policy::Quantum`].
//!
//! A session that returns as soon as it has left (a *loop*) makes statements for a quantum of time once it is
//! in: its exits leave the place with the processor, or give it back, without waking anybody, since it is about to take it again. When the
//! quantum is over, its exit hands the place on, and its next entry goes to the tail of the queue.
//!
//! A wait that gives the place up, as for a disk, is no time of the turn: others have the place meanwhile. Else a
//! statement that reads from a disk would use up a turn, and queue each time. Those others are in their turns, too, when it comes
//! back, past the limit; so after a wait for a disk the rest of its turn is past the limit as well, or it would find its place taken
//! at its next statement and queue there. The ends of turns repay that.
//!
//! One that comes back within its turn and finds its place taken, by a holder of locks or by who came in meanwhile, queues before the others of its class,
//! and goes on with what is left of the turn: the time in the queue is none of it. Else a turn that is cut short costs the wait for a whole one, and
//! a transaction that has many statements comes to wait many times.
//!
//! Within a transaction a turn goes on until that is over, for up to eight quanta: one that is cut in two waits for two turns. Only
//! a turn that was queued for in order. One that never ends its transaction has up to eight times the time of others so; if its thread used
//! the processors for more than four quanta of it, and turns are timed, it owes that ([`crate::deficit`]).
//!
//! Where many queue its place may wait for it instead, until it is back: [`crate::anticipation`].
//!
//! A session that was away for a quantum or longer, with its client or at its own work, is a newcomer: it
//! may overtake while woken threads do not run yet, as under `flifo`, and its exit hands its place on, since
//! it will not be back soon.
//!
//! The clock is read only while somebody waits, and by who leaves for good.
//!
//! A statement cannot be interrupted, so a turn can be far longer than a quantum: what it takes is owed ([`crate::deficit`]).

use std::cell::Cell;

use crate::deficit::{Deficit, FREE_NS};

/// A turn within a transaction is up to so many quanta long, and no longer: others shall not wait for one that never commits.
pub(crate) const TRANSACTION_QUANTA: u64 = 8;

/// Nobody owes for so many quanta of processor time.
const FREE_QUANTA: u64 = 4;

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
    /// It is within a transaction.
    in_transaction: Cell<bool>,
    /// It gave its place up for a disk, and found it taken when it came back, in this turn.
    made_way: Cell<bool>,
    /// Its turn came by queueing in order.
    in_order: Cell<bool>,
    /// When it left within its turn last, ns.
    left_ns: Cell<u64>,
    /// When it asked whether it may overtake last, ns.
    asked_ns: Cell<u64>,
    /// What its turns took of others.
    pub(crate) deficit: Deficit,
}

impl Turn {
    pub(crate) fn new() -> Self {
        Turn {
            phase: Cell::new(Phase::Waits),
            loops: Cell::new(false),
            in_transaction: Cell::new(false),
            made_way: Cell::new(false),
            in_order: Cell::new(false),
            left_ns: Cell::new(0),
            asked_ns: Cell::new(0),
            deficit: Deficit::new(),
        }
    }

    /// Whether it is within a transaction from now on.
    pub(crate) fn set_in_transaction(&self, in_transaction: bool) {
        self.in_transaction.set(in_transaction);
    }

    /// How long its turn is, ns, if it has as much to do. Who overtook the queue has no longer one.
    fn length_ns(&self, quantum_ns: u64) -> u64 {
        if self.in_transaction.get() && self.in_order.get() {
            quantum_ns.saturating_mul(TRANSACTION_QUANTA)
        } else {
            quantum_ns
        }
    }

    /// It wants to enter while others wait: whether it may overtake them. One that pays may not while it owes.
    pub(crate) fn may_overtake(&self, now_ns: impl Fn() -> u64, quantum_ns: u64, pays: bool) -> bool {
        self.ends_outside(&now_ns, quantum_ns);
        match self.phase.get() {
            Phase::Waits => false,
            Phase::In(_) => true,
            Phase::Away(since_ns) => {
                let now_ns = now_ns();
                self.asked_ns.set(now_ns);
                self.loops.set(now_ns.saturating_sub(since_ns) < quantum_ns);
                let waits = self.loops.get() || pays && self.owed_ns(now_ns, quantum_ns) != 0;
                !waits
            }
        }
    }

    /// Whether its turn has not been ended.
    pub(crate) fn is_begun(&self) -> bool {
        matches!(self.phase.get(), Phase::In(_))
    }

    /// When it left within a turn last, ns.
    pub(crate) fn left_ns(&self) -> u64 {
        self.left_ns.get()
    }

    /// When its turn ends, ns; 0 if it is in none.
    pub(crate) fn ends_ns(&self, quantum_ns: u64) -> u64 {
        match self.phase.get() {
            Phase::In(since_ns) => since_ns.saturating_add(self.length_ns(quantum_ns)),
            Phase::Waits | Phase::Away(_) => 0,
        }
    }

    /// It left within its turn, and is back: if it was away for as long as a turn is, that was over when it left. Only for one that is timed is the
    /// clock read for that, since what its thread did outside is not to be charged, and for one that only its transaction lets go on.
    pub(crate) fn ends_outside(&self, now_ns: impl Fn() -> u64, quantum_ns: u64) {
        let Phase::In(since_ns) = self.phase.get() else { return };
        if !self.deficit.is_timed() && (self.loops.get() || !self.loops()) {
            return;
        }
        // It may have left when nobody waited.
        let left_ns = self.left_ns.get().max(since_ns);
        if now_ns().saturating_sub(left_ns) >= self.length_ns(quantum_ns) {
            self.deficit.stops(quantum_ns);
            self.deficit.leaves();
            self.phase.set(Phase::Away(left_ns));
        }
    }

    /// It came in without queueing, while others waited.
    pub(crate) fn overtook(&self, quantum_ns: u64) {
        let asked_ns = self.asked_ns.get();
        // One that asked before it was away came in because it did not know that others waited.
        if let Phase::Away(since_ns) = self.phase.get()
            && since_ns <= asked_ns
        {
            self.deficit.comes_in(asked_ns - since_ns);
            self.begins(asked_ns);
        }
        self.deficit.runs(quantum_ns);
    }

    /// It came in past the limit, or comes back from a wait, while others wait. It has no turn by that.
    pub(crate) fn forced(&self, now_ns: impl FnOnce() -> u64, quantum_ns: u64) {
        if let Phase::Away(since_ns) = self.phase.get() {
            self.deficit.comes_in(now_ns().saturating_sub(since_ns));
        }
        self.deficit.runs(quantum_ns);
    }

    /// Whether it is known to come back at once: then it overtakes within its turn, and not as a newcomer. So is one
    /// that queued in order for its turn and is within a transaction, however long it was away before.
    #[inline]
    pub(crate) fn loops(&self) -> bool {
        self.loops.get() || self.in_transaction.get() && self.in_order.get() && self.is_begun()
    }

    /// As if it were known to come back at once, and had come in through the queue.
    #[cfg(test)]
    pub(crate) fn loops_since(&self, now_ns: u64) {
        self.loops.set(true);
        self.begin(now_ns, true);
    }

    /// It is about to queue: what its last turn took, if the queue does not know that, and what it owes, ns.
    pub(crate) fn joins(&self, now_ns: u64, quantum_ns: u64) -> (u64, u64) {
        self.deficit.stops(u64::MAX);
        (self.deficit.turn_ns(), self.owed_ns(now_ns, quantum_ns))
    }

    /// It came in through the queue; `paid`: and let others pass there for what it owed.
    pub(crate) fn begin(&self, now_ns: u64, paid: bool) {
        if let Phase::Away(since_ns) = self.begins(now_ns) {
            self.deficit.comes_in(now_ns.saturating_sub(since_ns));
        }
        self.deficit.new_turn();
        self.in_order.set(paid);
        if paid {
            self.deficit.paid();
        }
    }

    /// Its turn begins; what it was in before.
    fn begins(&self, now_ns: u64) -> Phase {
        self.made_way.set(false);
        self.in_order.set(false);
        self.phase.replace(Phase::In(now_ns))
    }

    /// What it owes, ns; 0 if that is little, and of short turns.
    fn owed_ns(&self, now_ns: u64, quantum_ns: u64) -> u64 {
        let away_ns = match self.phase.get() {
            Phase::Away(since_ns) => now_ns.saturating_sub(since_ns),
            Phase::Waits | Phase::In(_) => 0,
        };
        let owed_ns = self.deficit.owed_ns().saturating_sub(away_ns);
        let most_ns = owed_ns.max(self.deficit.turn_ns());
        if most_ns > FREE_NS.max(quantum_ns.saturating_mul(FREE_QUANTA)) { owed_ns } else { 0 }
    }

    /// It leaves while others wait: whether it comes back at once, and within its turn. A turn that does not go on then is ended.
    pub(crate) fn leave(&self, now_ns: u64, quantum_ns: u64) -> bool {
        let goes_on = self.leaves_within(|| now_ns, quantum_ns);
        if !goes_on {
            self.end(now_ns);
        }
        goes_on && self.loops.get()
    }

    /// As [`Turn::leave`], but no turn is ended.
    pub(crate) fn comes_back(&self, now_ns: impl FnOnce() -> u64, quantum_ns: u64) -> bool {
        self.loops.get() && self.leaves_within(now_ns, quantum_ns)
    }

    /// It leaves while others wait: whether its turn goes on, at once or, within a transaction, when it is back.
    pub(crate) fn leaves_within(&self, now_ns: impl FnOnce() -> u64, quantum_ns: u64) -> bool {
        let Phase::In(since_ns) = self.phase.get() else { return false };
        if !self.loops() {
            return false;
        }
        let now_ns = now_ns();
        self.left_ns.set(now_ns);
        now_ns.saturating_sub(since_ns) < self.length_ns(quantum_ns)
    }

    /// It leaves, and its turn is over, whatever is left of it.
    pub(crate) fn end(&self, now_ns: u64) {
        if let Phase::Away(since_ns) = self.phase.get() {
            // It came in when nobody waited, and nobody knows when.
            self.deficit.comes_in(now_ns.saturating_sub(since_ns));
        }
        self.deficit.leaves();
        self.phase.set(Phase::Away(now_ns));
    }

    /// It gave its place up for a wait of so long: others ran meanwhile, so that is no time of its turn. Whether it is in one.
    pub(crate) fn pause(&self, ns: u64) -> bool {
        let Phase::In(since_ns) = self.phase.get() else { return false };
        self.phase.set(Phase::In(since_ns.saturating_add(ns)));
        true
    }

    /// Whether it may go on with a turn before those who queue for theirs: it queued in order for that one, which is not over.
    pub(crate) fn goes_on(&self, now_ns: u64, quantum_ns: u64) -> bool {
        self.in_order.get() && self.is_on(now_ns, quantum_ns)
    }

    /// It has returned from a wait for a disk, and its place was taken or not.
    pub(crate) fn returned(&self, place_is_taken: bool) {
        self.made_way.set(place_is_taken);
    }

    /// Whether it made way for another in its last turn, for a disk.
    #[inline]
    pub(crate) fn made_way(&self) -> bool {
        self.made_way.get()
    }

    /// Whether its turn goes on: it comes back at once, and the quantum is not over. Unlike [`Turn::may_overtake`] this looks at the
    /// clock: a turn that nobody waited for has no end.
    pub(crate) fn is_on(&self, now_ns: u64, quantum_ns: u64) -> bool {
        let is_on = |since_ns| now_ns.saturating_sub(since_ns) < self.length_ns(quantum_ns);
        self.loops() && matches!(self.phase.get(), Phase::In(since_ns) if is_on(since_ns))
    }

    /// The rest of its turn is lost, and it overtakes nobody.
    pub(crate) fn forfeit(&self) {
        self.phase.set(Phase::Waits);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::deficit::TIMED_NS_MIN;

    const QUANTUM_NS: u64 = 100;

    #[test]
    fn who_returns_at_once_has_a_quantum_in_turn() {
        let turn = Turn::new();
        assert!(!turn.may_overtake(|| 0, QUANTUM_NS, true), "a new session overtakes nobody");
        turn.begin(10, true);
        assert!(!turn.leave(30, QUANTUM_NS), "nothing is known of it yet");
        assert!(!turn.may_overtake(|| 31, QUANTUM_NS, true), "its turn is over");
        turn.begin(500, true);
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
        for (took_ns, away_ns, owed_ns) in
            [(TOOK_NS, 50, TOOK_NS - 50), (TOOK_NS, TOOK_NS - 1, 1), (TOOK_NS, TOOK_NS, 0), (FREE_NS, 200, 0)]
        {
            for pays in [true, false] {
                let turn = Turn::new();
                turn.begin(0, true);
                assert!(!turn.leave(1000, QUANTUM_NS));
                turn.deficit.took(took_ns);
                let is_newcomer = away_ns >= QUANTUM_NS;
                // Asked again, as by one that finds no place and queues.
                for _ in 0..2 {
                    let overtakes = turn.may_overtake(|| 1000 + away_ns, QUANTUM_NS, pays);
                    assert_eq!(overtakes, is_newcomer && !(owed_ns != 0 && pays), "{took_ns} {away_ns}");
                    assert_eq!(turn.loops(), !is_newcomer);
                    assert_eq!(turn.joins(1000 + away_ns, QUANTUM_NS), (took_ns, owed_ns));
                }
            }
        }
        let turn = Turn::new();
        turn.deficit.took(TOOK_NS);
        assert_eq!(turn.joins(0, TOOK_NS / 2), (TOOK_NS, 0), "two quanta");
        for (quanta, owes) in [(FREE_QUANTA, false), (FREE_QUANTA + 1, true)] {
            turn.deficit.took(quanta * FREE_NS);
            assert_eq!(turn.joins(0, FREE_NS).1 != 0, owes, "{quanta} quanta");
        }
    }

    /// One that overtakes owes what it owed, less its absence; a new turn is added to that.
    #[test]
    fn absences_are_taken_off_once() {
        let turn = Turn::new();
        turn.end(0);
        turn.deficit.took(9 * FREE_NS);
        assert!(turn.may_overtake(|| 5 * FREE_NS, QUANTUM_NS, false));
        turn.overtook(QUANTUM_NS);
        assert_eq!(turn.deficit.owed_ns(), 4 * FREE_NS);
        turn.end(6 * FREE_NS);
        assert_eq!(turn.deficit.owed_ns(), 4 * FREE_NS);
        // It came in when nobody waited, or past the limit.
        turn.end(7 * FREE_NS);
        assert_eq!(turn.deficit.owed_ns(), 3 * FREE_NS);
        turn.begin(8 * FREE_NS, false);
        assert_eq!(turn.deficit.owed_ns(), 2 * FREE_NS, "it went before the others");
        turn.end(9 * FREE_NS);
        // Past the limit, and not as short as its stay is long.
        turn.forced(|| 10 * FREE_NS, QUANTUM_NS);
        turn.end(50 * FREE_NS);
        assert_eq!(turn.deficit.owed_ns(), FREE_NS);
        turn.begin(50 * FREE_NS, true);
        assert_eq!(turn.deficit.owed_ns(), 0);
    }

    /// Its clock runs on, but no more of that is charged than the turn could have taken.
    #[test]
    #[cfg_attr(miri, ignore)] // No processor time passes there.
    fn what_a_thread_does_outside_is_not_charged() {
        let turn = Turn::new();
        turn.end(0);
        assert!(!turn.may_overtake(|| 1, TIMED_NS_MIN, true));
        turn.begin(10, true);
        turn.deficit.runs(TIMED_NS_MIN);
        assert!(turn.leave(20, TIMED_NS_MIN));
        assert!(turn.may_overtake(|| 20 + TIMED_NS_MIN - 1, TIMED_NS_MIN, true));
        assert!(turn.deficit.is_timed(), "it is back in its turn");
        let began = crate::cpu_time::CpuTime::now().unwrap();
        while began.elapsed_ns().unwrap() < 5 * TIMED_NS_MIN {}
        assert!(turn.may_overtake(|| 20 + TIMED_NS_MIN, TIMED_NS_MIN, true));
        assert!(!turn.loops(), "a newcomer");
        assert_eq!(turn.deficit.owed_ns(), TIMED_NS_MIN);
    }

    #[test]
    fn who_was_away_is_a_newcomer_and_hands_on() {
        let turn = Turn::new();
        turn.begin(0, true);
        for visit in 1..5 {
            let now_ns = 1000 * visit;
            assert!(!turn.leave(now_ns + 20, QUANTUM_NS));
            assert!(turn.may_overtake(|| now_ns + 1000, QUANTUM_NS, true));
        }
    }

    #[test]
    fn a_wait_without_the_place_is_no_time_of_the_turn() {
        let turn = Turn::new();
        turn.begin(0, true);
        assert!(!turn.leave(20, QUANTUM_NS) && !turn.may_overtake(|| 21, QUANTUM_NS, true));
        turn.begin(1000, true);
        turn.pause(5000);
        turn.returned(true);
        assert!(turn.leave(6090, QUANTUM_NS), "90 of 100 used");
        assert!(turn.made_way() && turn.is_on(6091, QUANTUM_NS));
        assert!(!turn.is_on(6100, QUANTUM_NS), "though nobody was there for whom it had to end");
        assert!(!turn.leave(6100, QUANTUM_NS));
        turn.pause(5000);
        assert!(!turn.is_on(6101, QUANTUM_NS));
        assert!(!turn.may_overtake(|| 6101, QUANTUM_NS, true), "its turn is over, whatever it waits for");
        turn.begin(20_000, true);
        assert!(!turn.made_way(), "in this one it has made way for nobody");
    }

    /// Else one that comes in before the others while it holds locks would go on before them when it holds none.
    #[test]
    fn only_a_turn_that_was_queued_for_in_order_goes_on_before_others() {
        let turn = Turn::new();
        turn.loops_since(10);
        assert!(turn.goes_on(109, QUANTUM_NS) && !turn.goes_on(110, QUANTUM_NS));
        assert!(turn.pause(50) && turn.goes_on(159, QUANTUM_NS) && !turn.goes_on(160, QUANTUM_NS));
        turn.begin(200, false);
        assert!(!turn.goes_on(201, QUANTUM_NS));
        turn.end(300);
        assert!(turn.may_overtake(|| 5000, QUANTUM_NS, true));
        turn.overtook(QUANTUM_NS);
        assert!(!turn.goes_on(5001, QUANTUM_NS), "a newcomer");
        turn.end(5010);
        assert!(!turn.pause(50), "it is in none");
    }

    /// Its client may think, so others have its place meanwhile.
    #[test]
    fn within_a_transaction_a_turn_goes_on_for_longer_and_for_those_who_were_away_before() {
        let turn = Turn::new();
        turn.begin(0, true);
        turn.set_in_transaction(true);
        assert!(!turn.leave(50, QUANTUM_NS), "it may be away for long");
        assert!(turn.is_begun() && turn.leaves_within(|| 60, QUANTUM_NS));
        assert!(!turn.comes_back(|| 60, QUANTUM_NS), "nor does it keep the place");
        let length_ns = TRANSACTION_QUANTA * QUANTUM_NS;
        assert!(turn.goes_on(length_ns - 1, QUANTUM_NS) && !turn.goes_on(length_ns, QUANTUM_NS));
        turn.set_in_transaction(false);
        assert!(!turn.leave(70, QUANTUM_NS) && !turn.is_begun());
        turn.begin(200, true);
        turn.loops.set(true);
        turn.set_in_transaction(true);
        assert!(turn.leave(199 + length_ns, QUANTUM_NS) && !turn.leave(200 + length_ns, QUANTUM_NS));
        for (in_order, goes_on) in [(true, true), (false, false)] {
            turn.end(2000);
            turn.begin(3000, in_order);
            turn.set_in_transaction(true);
            assert_eq!(turn.leaves_within(|| 3001 + QUANTUM_NS, QUANTUM_NS), goes_on);
        }
        // One that overtook for its first statement has not had it.
        assert!(!turn.leave(3001 + QUANTUM_NS, QUANTUM_NS));
        turn.begin(4000, true);
        assert!(turn.goes_on(4001 + QUANTUM_NS, QUANTUM_NS));
    }

    /// Else it would overtake in the turn of a transaction that was left long ago.
    #[test]
    fn who_was_away_for_a_whole_turn_within_a_transaction_is_a_newcomer() {
        let length_ns = TRANSACTION_QUANTA * QUANTUM_NS;
        for (away_ns, goes_on) in [(length_ns - 1, true), (length_ns, false)] {
            let turn = Turn::new();
            turn.begin(0, true);
            turn.set_in_transaction(true);
            assert!(!turn.leave(10, QUANTUM_NS));
            assert!(turn.may_overtake(|| 10 + away_ns, QUANTUM_NS, true));
            assert_eq!((turn.loops(), turn.is_begun()), (goes_on, goes_on));
        }
    }

    #[test]
    fn a_forfeited_turn_overtakes_nobody() {
        let turn = Turn::new();
        turn.begin(0, true);
        turn.forfeit();
        assert!(!turn.may_overtake(|| 10_000, QUANTUM_NS, true));
    }
}
