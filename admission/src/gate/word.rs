//! The state word: T, P, Q and L in 64 bits, and every transition as a pure function.
//!
//! ```text
//!  63   59 58       48 47        31  30 29   28 27   26      17 16        0
//! +-------+-----------+------------+-------+--------+----------+-----------+
//! | spare | P pending |  Q queued  | flags | policy | L limit  |  T slots  |
//! |   5   |  11 bits  |  17 bits   |   2   |   2    | 10 bits  |  17 bits  |
//! +-------+-----------+------------+-------+--------+----------+-----------+
//! ```
//!
//! - **T**: slots out, to running threads, to pending threads, and free slots that an optional module keeps aside.
//! - **L**: the limit, `thread_concurrency`.
//! - **Q**: threads in the queue.
//! - **P**: pending threads: handed a slot, woken, not running yet (`fifo_pending` of the 2009 patch).
//! - **flags**: `CONGESTED`, too many sessions wait for row locks, and lock holders get most slots; `UNLIMITED`,
//!   every thread enters.
//!
//! T - P threads really run. At rest (no thread between two of its steps):
//!
//! | if | then |
//! |---|---|
//! | Q > 0, no time slices | T >= L |
//! | Q > 0, time slices | enough threads run: one for each CPU, or L - 1, and at least one |
//! | Q > 0, `CONGESTED`, no lock holder queues | T >= the slots that congestion leaves to others |
//! | always | P <= T |
//! | no thread running, none queued | P = Q = 0, T = slots kept aside |
//!
//! T and Q are bounded by the number of sessions, which [`crate::Admission::session`] bounds, and by the slots kept aside. P is at
//! most the highest limit, since a slot is handed off only while T <= L; the stall breaker, which admits above the limit, stops at
//! [`PENDING_MAX`].

use super::policy::{Passes, Policy};

const T_BITS: u32 = 17;
const L_BITS: u32 = 10;
const POLICY_BITS: u32 = 2;
const Q_BITS: u32 = 17;
const P_BITS: u32 = 11;
const L_SHIFT: u32 = T_BITS;
const POLICY_SHIFT: u32 = L_SHIFT + L_BITS;
const CONGESTED: u64 = 1 << 29;
const UNLIMITED: u64 = 1 << 30;
const Q_SHIFT: u32 = 31;
const P_SHIFT: u32 = Q_SHIFT + Q_BITS;

const fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// One slot in the word; `fetch_add(ONE_SLOT)` is a forced entry.
pub(crate) const ONE_SLOT: u64 = 1;
/// One pending thread in the word.
pub(crate) const ONE_PENDING: u64 = 1 << P_SHIFT;
/// One queued thread in the word.
pub(crate) const ONE_QUEUED: u64 = 1 << Q_SHIFT;
/// The most slots that optional modules keep aside.
pub(crate) const SET_ASIDE_MAX: u64 = 256;
/// The most sessions of one scheduler at a time: what T and Q can count, besides slots kept aside.
pub(crate) const SESSIONS_MAX: u64 = ones(T_BITS) - SET_ASIDE_MAX;
/// The highest limit.
pub(crate) const LIMIT_MAX: u32 = ones(L_BITS) as u32;
/// The highest P.
pub(crate) const PENDING_MAX: u32 = 2 * LIMIT_MAX;
const _: () = assert!(PENDING_MAX as u64 <= ones(P_BITS));

/// What the gate must know of a session that wants to enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// It may pass the queue under [`Policy::Quantum`].
    pub(crate) may_barge: bool,
    /// It is of the first class: it holds locks.
    pub(crate) first: bool,
}

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    /// No thread running, none queued.
    pub(crate) fn idle(policy: Policy, limit: u32) -> Self {
        Word(0).with_rule(policy, limit)
    }

    /// The same T, P, Q and congestion under another policy and limit.
    pub(crate) fn with_rule(self, policy: Policy, limit: u32) -> Self {
        debug_assert!(limit <= LIMIT_MAX);
        let unlimited = limit == 0 || !policy.rule().has_limit;
        let rule = (policy as u64) << POLICY_SHIFT | u64::from(limit) << L_SHIFT;
        let kept = self.0 & !(ones(POLICY_BITS) << POLICY_SHIFT | ones(L_BITS) << L_SHIFT | UNLIMITED);
        Word(kept | rule | if unlimited { UNLIMITED } else { 0 })
    }

    /// T: slots out.
    #[inline]
    pub(crate) fn slots(self) -> u32 {
        (self.0 & ones(T_BITS)) as u32
    }

    /// L: the limit.
    #[inline]
    pub(crate) fn limit(self) -> u32 {
        (self.0 >> L_SHIFT & ones(L_BITS)) as u32
    }

    /// Q: threads in the queue.
    #[inline]
    pub(crate) fn queued(self) -> u32 {
        (self.0 >> Q_SHIFT & ones(Q_BITS)) as u32
    }

    /// P: pending threads.
    #[inline]
    pub(crate) fn pending(self) -> u32 {
        (self.0 >> P_SHIFT & ones(P_BITS)) as u32
    }

    /// The policy.
    #[inline]
    pub(crate) fn policy(self) -> Policy {
        Policy::ALL[(self.0 >> POLICY_SHIFT & ones(POLICY_BITS)) as usize]
    }

    /// Whether every thread enters.
    #[inline]
    pub(crate) fn is_unlimited(self) -> bool {
        self.0 & UNLIMITED != 0
    }

    /// Whether most slots are for lock holders.
    #[inline]
    pub(crate) fn is_congested(self) -> bool {
        self.0 & CONGESTED != 0
    }

    /// Whether others queue, and a session's time slice decides who may pass them.
    #[inline]
    pub(crate) fn has_slices(self) -> bool {
        self.queued() != 0 && self.policy().rule().has_slices
    }

    /// Whether a newcomer may enter at once.
    ///
    /// FLIFO's gate, `T - P < L`, says the same as the published `lifo_running < fifo_pending` with
    /// `lifo_running = max(T - L, 0)`. For `spare` see [`Word::limit_for`].
    #[inline]
    pub(crate) fn admits(self, caller: Caller, spare: u32) -> bool {
        self.is_unlimited()
            || self.running() < self.limit_for(caller.first, spare) && self.may_pass_queue(caller)
    }

    /// Slots that count against the limit when a newcomer comes.
    #[inline]
    fn running(self) -> u32 {
        self.slots() - if self.policy().rule().ignores_pending { self.pending() } else { 0 }
    }

    #[inline]
    fn may_pass_queue(self, caller: Caller) -> bool {
        self.queued() == 0
            || match self.policy().rule().passes {
                Passes::Nobody => false,
                Passes::Everybody => true,
                Passes::MayBarge => caller.may_barge,
            }
    }

    /// The limit for a class. In congestion a session that holds no lock finds only `spare` slots, so that work that needs none of
    /// the disputed rows is still done.
    #[inline]
    pub(crate) fn limit_for(self, first: bool, spare: u32) -> u32 {
        if self.is_congested() && !first { self.limit().min(spare) } else { self.limit() }
    }

    /// Whether an exit must look at the queue. An exit above the limit repays forced entries and barging instead.
    #[inline]
    pub(crate) fn exit_serves_queue(self) -> bool {
        self.queued() > 0 && self.slots() <= self.limit()
    }

    /// Whether a released slot may be kept aside: nobody misses it.
    #[cfg_attr(not(feature = "percpu"), allow(dead_code))]
    #[inline]
    pub(crate) fn may_set_aside(self) -> bool {
        self.0 & (CONGESTED | UNLIMITED) == 0 && self.queued() == 0 && self.slots() <= self.limit()
    }

    /// The word without some of the slots kept aside. They may be gone by now.
    #[inline]
    pub(crate) fn without(self, slots: u32) -> Self {
        Word(self.0 - u64::from(slots.min(self.slots() - self.pending())))
    }

    /// A newcomer enters.
    #[inline]
    pub(crate) fn entered(self) -> Self {
        debug_assert!(u64::from(self.slots()) < ones(T_BITS));
        Word(self.0 + ONE_SLOT)
    }

    /// A slot is released.
    #[inline]
    pub(crate) fn released(self) -> Self {
        debug_assert!(self.slots() > 0, "{self:?}");
        Word(self.0 - ONE_SLOT)
    }

    /// A thread joins the queue.
    pub(crate) fn joined(self) -> Self {
        Word(self.0 + ONE_QUEUED)
    }

    /// A thread leaves the queue without a slot: cancelled, timed out, or sent to try again.
    pub(crate) fn unqueued(self) -> Self {
        debug_assert!(self.queued() > 0, "{self:?}");
        Word(self.0 - ONE_QUEUED)
    }

    /// A released slot goes to a queued thread: T stays.
    pub(crate) fn handed_off(self) -> Self {
        debug_assert!(self.queued() > 0, "{self:?}");
        Word(self.0 - ONE_QUEUED + ONE_PENDING)
    }

    /// A free slot goes to a queued thread.
    pub(crate) fn granted(self) -> Self {
        self.entered().handed_off()
    }

    /// A woken thread runs: it is no longer pending.
    pub(crate) fn started(self) -> Self {
        debug_assert!(self.pending() > 0, "{self:?}");
        Word(self.0 - ONE_PENDING)
    }

    /// The whole queue is emptied.
    pub(crate) fn dispersed(self) -> Self {
        Word(self.0 & !(ones(Q_BITS) << Q_SHIFT))
    }

    /// Congestion begins or ends.
    pub(crate) fn with_congested(self, congested: bool) -> Self {
        Word(if congested { self.0 | CONGESTED } else { self.0 & !CONGESTED })
    }
}

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (t, p, q, l) = (self.slots(), self.pending(), self.queued(), self.limit());
        write!(f, "{} T={t} P={p} Q={q} L={l}", self.policy())?;
        if self.is_congested() { f.write_str(" congested") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(policy: Policy, [slots, pending, queued]: [u64; 3], limit: u32) -> Word {
        let counted = slots * ONE_SLOT + pending * ONE_PENDING + queued * ONE_QUEUED;
        Word(Word::idle(policy, limit).0 + counted)
    }

    fn admits(policy: Policy, counted: [u64; 3], limit: u32) -> bool {
        word(policy, counted, limit).admits(Caller::NEWCOMER, 1)
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        for policy in Policy::ALL {
            let full = word(policy, [ones(T_BITS), ones(P_BITS), ones(Q_BITS)], LIMIT_MAX);
            let congested = full.with_congested(true);
            for word in [full, congested, congested.with_congested(false)] {
                assert_eq!(
                    [word.slots(), word.pending(), word.queued(), word.limit()].map(u64::from),
                    [ones(T_BITS), ones(P_BITS), ones(Q_BITS), ones(L_BITS)]
                );
                assert_eq!(word.policy(), policy);
            }
            assert!(congested.is_congested() && congested.with_rule(policy, 3).is_congested());
            assert_eq!(full.dispersed(), word(policy, [ones(T_BITS), ones(P_BITS), 0], LIMIT_MAX));
            for other in Policy::ALL {
                assert_eq!(
                    full.with_rule(other, 7),
                    word(other, [ones(T_BITS), ones(P_BITS), ones(Q_BITS)], 7)
                );
            }
        }
    }

    #[test]
    fn the_gate_of_2009_and_ours_agree() {
        for limit in 1..5u32 {
            for slots in 0..12u64 {
                for pending in 0..=slots.min(u64::from(limit)) {
                    let lifo_running = slots.saturating_sub(u64::from(limit));
                    // The patch asks its gate only once the limit is reached.
                    let published = slots < u64::from(limit) || lifo_running < pending;
                    assert_eq!(admits(Policy::Flifo, [slots, pending, 3], limit), published);
                }
            }
        }
    }

    #[test]
    fn fifo_passes_nobody_and_an_overshoot_is_repaid_first() {
        assert!(!admits(Policy::Fifo, [3, 0, 1], 4));
        assert!(admits(Policy::Fifo, [3, 0, 0], 4));
        assert!(!admits(Policy::Fifo, [4, 1, 0], 4), "a pending thread counts");
        assert!(admits(Policy::Flifo, [4, 1, 1], 4));
        assert!(word(Policy::Fifo, [4, 0, 1], 4).exit_serves_queue());
        assert!(!word(Policy::Fifo, [5, 1, 1], 4).exit_serves_queue());
        assert_eq!(word(Policy::Fifo, [4, 1, 3], 4).handed_off(), word(Policy::Fifo, [4, 2, 2], 4));
        assert_eq!(word(Policy::Fifo, [3, 1, 3], 4).granted(), word(Policy::Fifo, [4, 2, 2], 4));
    }

    #[test]
    fn only_under_quantum_may_some_newcomers_not_pass_the_queue() {
        let queues = Caller { may_barge: false, first: false };
        assert!(!word(Policy::Quantum, [3, 0, 1], 4).admits(queues, 1));
        assert!(word(Policy::Quantum, [3, 0, 0], 4).admits(queues, 1));
        assert!(word(Policy::Quantum, [3, 0, 1], 4).admits(Caller::NEWCOMER, 1));
        assert!(word(Policy::Flifo, [4, 1, 1], 4).admits(queues, 1), "no other policy has slices");
    }

    #[test]
    fn congestion_leaves_few_slots_to_others_than_lock_holders() {
        let holder = Caller { may_barge: true, first: true };
        for (limit, spare, others) in [(1, 1, 1), (4, 1, 1), (128, 32, 32), (16, 32, 16)] {
            let congested = |slots| word(Policy::Flifo, [slots, 0, 0], limit as u32).with_congested(true);
            assert!(congested(others - 1).admits(Caller::NEWCOMER, spare));
            assert!(!congested(others).admits(Caller::NEWCOMER, spare));
            assert!(congested(limit - 1).admits(holder, spare));
            assert!(!congested(limit).admits(holder, spare));
        }
    }

    #[test]
    fn without_a_limit_every_thread_enters() {
        assert!(admits(Policy::None, [50, 0, 0], 4));
        assert!(admits(Policy::Fifo, [50, 0, 9], 0));
    }
}
