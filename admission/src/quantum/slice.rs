//! A session's time slice under [`Policy::Quantum`](crate::Policy::Quantum).
//!
//! A session that returns as soon as it has left (*back to back*) runs statements for a quantum once it has come in: its exits
//! release the slot without waking anybody, since the session is about to take it again. When the quantum is over, its exit hands
//! the slot off, and its next entry joins the tail of the queue.
//!
//! | phase | meaning | the session's next entry, while others queue |
//! |---|---|---|
//! | `New` | new, or its tickets ran out while others waited | queues |
//! | `In(begin)` | its slice has begun, and nothing has ended it | passes the queue |
//! | `Out(end)` | its slice was over at an exit then | queues if it comes back within a quantum, else it is a newcomer |
//!
//! - **Newcomers** may pass the queue while woken threads are pending, as under `flifo`, within the barging limit; their exit hands
//!   the slot off.
//! - **Waits and queueing** are no time of the slice: others have the slot.
//! - **Resume.** A session that finds its slot taken within its slice queues before the others of its class, and goes on with
//!   what is left. Otherwise a cut slice would cost a whole rotation of the queue.
//! - **Transactions.** Within a transaction a slice that was queued for in order lasts until the transaction ends, but no longer than
//!   [`TRANSACTION_QUANTA`] quanta: a transaction cut in two waits for two rotations while it holds locks.
//!
//! The clock is read only while others queue. A statement cannot be interrupted, so a slice can be far longer than a quantum:
//! [`Deficit`] charges the session for it.

use std::cell::Cell;

use super::fairness::{Deficit, FREE_NS};

/// Maximum length of a slice within a transaction, quanta: others shall not wait for a session that never commits.
pub(crate) const TRANSACTION_QUANTA: u64 = 8;
/// A deficit below this number of quanta of CPU time does not count.
const FREE_QUANTA: u64 = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    /// When the slice began, ns; later by the time it was paused.
    In(u64),
    /// When the slice ended, ns.
    Out(u64),
}

/// Where a session is in its time slice.
pub(crate) struct Slice {
    phase: Cell<Phase>,
    /// The session came back sooner than a quantum after its last slice.
    pub(crate) back_to_back: Cell<bool>,
    in_transaction: Cell<bool>,
    /// The slice was queued for in order.
    in_order: Cell<bool>,
    /// The last exit within the slice, ns.
    left_ns: Cell<u64>,
    /// When the session last tried to pass the queue, ns.
    asked_ns: Cell<u64>,
    pub(crate) deficit: Deficit,
}

impl Slice {
    pub(crate) fn new() -> Self {
        Slice {
            phase: Cell::new(Phase::New),
            back_to_back: Cell::new(false),
            in_transaction: Cell::new(false),
            in_order: Cell::new(false),
            left_ns: Cell::new(0),
            asked_ns: Cell::new(0),
            deficit: Deficit::new(),
        }
    }

    pub(crate) fn set_in_transaction(&self, in_transaction: bool) {
        self.in_transaction.set(in_transaction);
    }

    /// How long the slice may last, ns. A session that passed the queue gets no longer one.
    fn length_ns(&self, quantum_ns: u64) -> u64 {
        if self.in_transaction.get() && self.in_order.get() {
            quantum_ns.saturating_mul(TRANSACTION_QUANTA)
        } else {
            quantum_ns
        }
    }

    /// Whether the session may pass the queue. `pays`: not while it has a deficit.
    pub(crate) fn may_pass(&self, now_ns: impl Fn() -> u64, quantum_ns: u64, pays: bool) -> bool {
        self.end_if_away_too_long(&now_ns, quantum_ns);
        match self.phase.get() {
            Phase::New => false,
            Phase::In(_) => true,
            Phase::Out(since_ns) => {
                let now_ns = now_ns();
                self.asked_ns.set(now_ns);
                self.back_to_back.set(now_ns.saturating_sub(since_ns) < quantum_ns);
                let queues = self.back_to_back.get() || pays && self.deficit_ns(now_ns, quantum_ns) != 0;
                !queues
            }
        }
    }

    /// Whether a slice has begun and was not ended.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.phase.get(), Phase::In(_))
    }

    /// The last exit within the slice, ns.
    #[cfg_attr(not(feature = "reservation"), allow(dead_code))]
    pub(crate) fn left_ns(&self) -> u64 {
        self.left_ns.get()
    }

    /// When the slice ends, ns; 0 if none has begun.
    #[cfg_attr(not(feature = "reservation"), allow(dead_code))]
    pub(crate) fn ends_ns(&self, quantum_ns: u64) -> u64 {
        match self.phase.get() {
            Phase::In(since_ns) => since_ns.saturating_add(self.length_ns(quantum_ns)),
            Phase::New | Phase::Out(_) => 0,
        }
    }

    /// Ends the slice of a session that left within it and was away for the length of a slice. The clock is read only for a timed
    /// slice, so that work outside is not charged, and for one that only its transaction keeps going.
    pub(crate) fn end_if_away_too_long(&self, now_ns: impl Fn() -> u64, quantum_ns: u64) {
        let Phase::In(since_ns) = self.phase.get() else { return };
        if !self.deficit.is_timed() && (self.back_to_back.get() || !self.returns()) {
            return;
        }
        // The session may have left last when nobody waited.
        let left_ns = self.left_ns.get().max(since_ns);
        if now_ns().saturating_sub(left_ns) >= self.length_ns(quantum_ns) {
            self.deficit.stop(quantum_ns);
            self.deficit.on_slice_end();
            self.phase.set(Phase::Out(left_ns));
        }
    }

    /// The session came in without queueing, while others waited.
    pub(crate) fn on_pass(&self, quantum_ns: u64) {
        let asked_ns = self.asked_ns.get();
        // A session that asked before it was away did not know that others waited.
        if let Phase::Out(since_ns) = self.phase.get()
            && since_ns <= asked_ns
        {
            self.deficit.settle_absence(asked_ns - since_ns);
            self.begin_at(asked_ns);
        }
        self.deficit.start(quantum_ns);
    }

    /// The session came in by force, or from the queue, while others wait. It has no slice by that.
    pub(crate) fn on_forced(&self, now_ns: impl FnOnce() -> u64, quantum_ns: u64) {
        if let Phase::Out(since_ns) = self.phase.get() {
            self.deficit.settle_absence(now_ns().saturating_sub(since_ns));
        }
        self.deficit.start(quantum_ns);
    }

    /// Whether the session is expected back at once: it passes the queue within its slice, and not as a newcomer.
    #[inline]
    pub(crate) fn returns(&self) -> bool {
        self.back_to_back.get() || self.in_transaction.get() && self.in_order.get() && self.has_begun()
    }

    /// The session is about to queue: its last slice, if the queue has not learnt it, and its deficit, ns.
    pub(crate) fn charge(&self, now_ns: u64, quantum_ns: u64) -> (u64, u64) {
        self.deficit.stop(u64::MAX);
        (self.deficit.slice_ns(), self.deficit_ns(now_ns, quantum_ns))
    }

    /// The session came in through the queue. `in_order`: and let others pass there for its deficit.
    pub(crate) fn begin(&self, now_ns: u64, in_order: bool) {
        if let Phase::Out(since_ns) = self.begin_at(now_ns) {
            self.deficit.settle_absence(now_ns.saturating_sub(since_ns));
        }
        self.deficit.new_slice();
        self.in_order.set(in_order);
        if in_order {
            self.deficit.set_paid();
        }
    }

    /// Begins a slice; returns the phase before.
    fn begin_at(&self, now_ns: u64) -> Phase {
        self.in_order.set(false);
        self.phase.replace(Phase::In(now_ns))
    }

    /// The deficit, ns; 0 if it is small and of short slices.
    fn deficit_ns(&self, now_ns: u64, quantum_ns: u64) -> u64 {
        let away_ns = match self.phase.get() {
            Phase::Out(since_ns) => now_ns.saturating_sub(since_ns),
            Phase::New | Phase::In(_) => 0,
        };
        let deficit_ns = self.deficit.deficit_ns().saturating_sub(away_ns);
        let largest_ns = deficit_ns.max(self.deficit.slice_ns());
        if largest_ns > FREE_NS.max(quantum_ns.saturating_mul(FREE_QUANTA)) { deficit_ns } else { 0 }
    }

    /// The session leaves while others wait. Returns whether it comes back at once and within its slice; a slice that does not go
    /// on is ended.
    pub(crate) fn leave(&self, now_ns: u64, quantum_ns: u64) -> bool {
        let goes_on = self.leaves_within(now_ns, quantum_ns);
        if !goes_on {
            self.end(now_ns);
        }
        goes_on && self.back_to_back.get()
    }

    /// The session leaves while others wait. Returns whether its slice goes on: at once or, within a transaction, when it is back.
    pub(crate) fn leaves_within(&self, now_ns: u64, quantum_ns: u64) -> bool {
        let Phase::In(since_ns) = self.phase.get() else { return false };
        if !self.returns() {
            return false;
        }
        self.left_ns.set(now_ns);
        now_ns.saturating_sub(since_ns) < self.length_ns(quantum_ns)
    }

    /// The session leaves, and its slice is over, whatever is left of it.
    pub(crate) fn end(&self, now_ns: u64) {
        if let Phase::Out(since_ns) = self.phase.get() {
            // It came in when nobody waited, at an unknown time.
            self.deficit.settle_absence(now_ns.saturating_sub(since_ns));
        }
        self.deficit.on_slice_end();
        self.phase.set(Phase::Out(now_ns));
    }

    /// Leaves a time without the slot out of the slice. Returns whether a slice has begun.
    pub(crate) fn pause(&self, ns: u64) -> bool {
        let Phase::In(since_ns) = self.phase.get() else { return false };
        self.phase.set(Phase::In(since_ns.saturating_add(ns)));
        true
    }

    /// Whether the session may resume its slice before those that queue for theirs: the slice was queued for in order and is not over.
    pub(crate) fn resumes(&self, now_ns: u64, quantum_ns: u64) -> bool {
        let Phase::In(since_ns) = self.phase.get() else { return false };
        self.in_order.get() && self.returns() && now_ns.saturating_sub(since_ns) < self.length_ns(quantum_ns)
    }

    /// The rest of the slice is lost, and the session passes nobody.
    pub(crate) fn forfeit(&self) {
        self.phase.set(Phase::New);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::quantum::fairness::{CpuTime, TIMED_QUANTUM_NS_MIN};

    const QUANTUM_NS: u64 = 100;

    #[test]
    fn a_session_that_returns_at_once_has_a_quantum() {
        let slice = Slice::new();
        assert!(!slice.may_pass(|| 0, QUANTUM_NS, true), "a new session passes nobody");
        slice.begin(10, true);
        assert!(!slice.leave(30, QUANTUM_NS), "nothing is known of it yet");
        assert!(!slice.may_pass(|| 31, QUANTUM_NS, true), "its slice is over");
        slice.begin(500, true);
        for statement in 1..5 {
            assert!(slice.leave(500 + 20 * statement, QUANTUM_NS));
            assert!(slice.may_pass(|| unreachable!("it is in its slice"), QUANTUM_NS, true));
        }
        assert!(!slice.leave(600, QUANTUM_NS));
        assert!(!slice.may_pass(|| 601, QUANTUM_NS, true));
    }

    #[test]
    fn a_long_slice_needs_as_long_an_absence() {
        const USED_NS: u64 = 3 * FREE_NS;
        for (used_ns, away_ns, deficit_ns) in
            [(USED_NS, 50, USED_NS - 50), (USED_NS, USED_NS - 1, 1), (USED_NS, USED_NS, 0), (FREE_NS, 200, 0)]
        {
            for pays in [true, false] {
                let slice = Slice::new();
                slice.begin(0, true);
                assert!(!slice.leave(1000, QUANTUM_NS));
                slice.deficit.set_used(used_ns);
                let is_newcomer = away_ns >= QUANTUM_NS;
                // Twice, as by a session that finds no slot and queues.
                for _ in 0..2 {
                    let passes = slice.may_pass(|| 1000 + away_ns, QUANTUM_NS, pays);
                    assert_eq!(passes, is_newcomer && !(deficit_ns != 0 && pays), "{used_ns} {away_ns}");
                    assert_eq!(slice.returns(), !is_newcomer);
                    assert_eq!(slice.charge(1000 + away_ns, QUANTUM_NS), (used_ns, deficit_ns));
                }
            }
        }
        let slice = Slice::new();
        slice.deficit.set_used(USED_NS);
        assert_eq!(slice.charge(0, USED_NS / 2), (USED_NS, 0), "two quanta");
        for (quanta, counts) in [(FREE_QUANTA, false), (FREE_QUANTA + 1, true)] {
            slice.deficit.set_used(quanta * FREE_NS);
            assert_eq!(slice.charge(0, FREE_NS).1 != 0, counts, "{quanta} quanta");
        }
    }

    /// A newcomer keeps its deficit, less its absence; the new slice is added.
    #[test]
    fn absences_are_taken_off_once() {
        let slice = Slice::new();
        slice.end(0);
        slice.deficit.set_used(9 * FREE_NS);
        assert!(slice.may_pass(|| 5 * FREE_NS, QUANTUM_NS, false));
        slice.on_pass(QUANTUM_NS);
        assert_eq!(slice.deficit.deficit_ns(), 4 * FREE_NS);
        slice.end(6 * FREE_NS);
        assert_eq!(slice.deficit.deficit_ns(), 4 * FREE_NS);
        // It came in when nobody waited, or by force.
        slice.end(7 * FREE_NS);
        assert_eq!(slice.deficit.deficit_ns(), 3 * FREE_NS);
        slice.begin(8 * FREE_NS, false);
        assert_eq!(slice.deficit.deficit_ns(), 2 * FREE_NS, "it went before the others");
        slice.end(9 * FREE_NS);
        slice.on_forced(|| 10 * FREE_NS, QUANTUM_NS);
        slice.end(50 * FREE_NS);
        assert_eq!(slice.deficit.deficit_ns(), FREE_NS);
        slice.begin(50 * FREE_NS, true);
        assert_eq!(slice.deficit.deficit_ns(), 0);
    }

    /// The thread's clock runs on outside, but no more is charged than the slice could have taken.
    #[test]
    #[cfg_attr(miri, ignore = "no CPU time passes there")]
    fn work_outside_is_not_charged() {
        let slice = Slice::new();
        slice.end(0);
        assert!(!slice.may_pass(|| 1, TIMED_QUANTUM_NS_MIN, true));
        slice.begin(10, true);
        slice.deficit.start(TIMED_QUANTUM_NS_MIN);
        assert!(slice.leave(20, TIMED_QUANTUM_NS_MIN));
        assert!(slice.may_pass(|| 20 + TIMED_QUANTUM_NS_MIN - 1, TIMED_QUANTUM_NS_MIN, true));
        assert!(slice.deficit.is_timed(), "it is back in its slice");
        let began = CpuTime::now().unwrap();
        while began.elapsed_ns().unwrap() < 5 * TIMED_QUANTUM_NS_MIN {}
        assert!(slice.may_pass(|| 20 + TIMED_QUANTUM_NS_MIN, TIMED_QUANTUM_NS_MIN, true));
        assert!(!slice.returns(), "a newcomer");
        assert_eq!(slice.deficit.deficit_ns(), TIMED_QUANTUM_NS_MIN);
    }

    #[test]
    fn a_session_that_was_away_is_a_newcomer_and_hands_off() {
        let slice = Slice::new();
        slice.begin(0, true);
        for visit in 1..5 {
            let now_ns = 1000 * visit;
            assert!(!slice.leave(now_ns + 20, QUANTUM_NS));
            assert!(slice.may_pass(|| now_ns + 1000, QUANTUM_NS, true));
        }
    }

    #[test]
    fn a_wait_without_the_slot_is_no_time_of_the_slice() {
        let slice = Slice::new();
        slice.begin(0, true);
        assert!(!slice.leave(20, QUANTUM_NS) && !slice.may_pass(|| 21, QUANTUM_NS, true));
        slice.begin(1000, true);
        slice.pause(5000);
        assert!(slice.leave(6090, QUANTUM_NS), "90 of 100 used");
        assert!(slice.resumes(6091, QUANTUM_NS));
        assert!(!slice.resumes(6100, QUANTUM_NS), "though nobody was there for whom it had to end");
        assert!(!slice.leave(6100, QUANTUM_NS));
        slice.pause(5000);
        assert!(!slice.resumes(6101, QUANTUM_NS));
        assert!(!slice.may_pass(|| 6101, QUANTUM_NS, true), "its slice is over, whatever it waits for");
    }

    /// Otherwise a session that came in before the others as a lock holder would resume before them without locks.
    #[test]
    fn only_a_slice_that_was_queued_for_in_order_is_resumed() {
        let slice = Slice::new();
        slice.begin_back_to_back(10);
        assert!(slice.resumes(109, QUANTUM_NS) && !slice.resumes(110, QUANTUM_NS));
        assert!(slice.pause(50) && slice.resumes(159, QUANTUM_NS) && !slice.resumes(160, QUANTUM_NS));
        slice.begin(200, false);
        assert!(!slice.resumes(201, QUANTUM_NS));
        slice.end(300);
        assert!(slice.may_pass(|| 5000, QUANTUM_NS, true));
        slice.on_pass(QUANTUM_NS);
        assert!(!slice.resumes(5001, QUANTUM_NS), "a newcomer");
        slice.end(5010);
        assert!(!slice.pause(50), "no slice has begun");
    }

    #[test]
    fn within_a_transaction_a_slice_lasts_longer() {
        let slice = Slice::new();
        slice.begin(0, true);
        slice.set_in_transaction(true);
        assert!(!slice.leave(50, QUANTUM_NS), "it may be away for long");
        assert!(slice.has_begun() && slice.leaves_within(60, QUANTUM_NS));
        let length_ns = TRANSACTION_QUANTA * QUANTUM_NS;
        assert!(slice.resumes(length_ns - 1, QUANTUM_NS) && !slice.resumes(length_ns, QUANTUM_NS));
        slice.set_in_transaction(false);
        assert!(!slice.leave(70, QUANTUM_NS) && !slice.has_begun());
        slice.begin(200, true);
        slice.back_to_back.set(true);
        slice.set_in_transaction(true);
        assert!(slice.leave(199 + length_ns, QUANTUM_NS) && !slice.leave(200 + length_ns, QUANTUM_NS));
        for (in_order, goes_on) in [(true, true), (false, false)] {
            slice.end(2000);
            slice.begin(3000, in_order);
            slice.set_in_transaction(true);
            assert_eq!(slice.leaves_within(3001 + QUANTUM_NS, QUANTUM_NS), goes_on);
        }
        // A session that passed the queue for its first statement gets no longer slice.
        assert!(!slice.leave(3001 + QUANTUM_NS, QUANTUM_NS));
        slice.begin(4000, true);
        assert!(slice.resumes(4001 + QUANTUM_NS, QUANTUM_NS));
    }

    /// Otherwise it would pass the queue in the slice of a transaction that was left long ago.
    #[test]
    fn a_session_that_was_away_for_a_whole_slice_of_a_transaction_is_a_newcomer() {
        let length_ns = TRANSACTION_QUANTA * QUANTUM_NS;
        for (away_ns, goes_on) in [(length_ns - 1, true), (length_ns, false)] {
            let slice = Slice::new();
            slice.begin(0, true);
            slice.set_in_transaction(true);
            assert!(!slice.leave(10, QUANTUM_NS));
            assert!(slice.may_pass(|| 10 + away_ns, QUANTUM_NS, true));
            assert_eq!((slice.returns(), slice.has_begun()), (goes_on, goes_on));
        }
    }

    #[test]
    fn a_forfeited_slice_passes_nobody() {
        let slice = Slice::new();
        slice.begin(0, true);
        slice.forfeit();
        assert!(!slice.may_pass(|| 10_000, QUANTUM_NS, true));
    }
}
