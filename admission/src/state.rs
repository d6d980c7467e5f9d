//! The state word: T, P, Q and L in 64 bits, and every transition as a pure function.
//!
//! ```text
//!  63         53 52               36 35      27 26         17 16                0
//! +-------------+-------------------+----------+-------------+-------------------+
//! |  P pending  |     Q queued      |   flags  |   L limit   |   T places out    |
//! |   11 bits   |     17 bits       |  9 bits  |   10 bits   |     17 bits       |
//! +-------------+-------------------+----------+-------------+-------------------+
//! ```
//!
//! - **T**: places out, to threads running inside or woken to run, those that processors keep ([`crate::kept`]), and those that wait
//!   for their sessions ([`crate::anticipation`]).
//! - **L**: the limit, `thread_concurrency`.
//! - **flags**: the policy (4 bits) and what a newcomer must know to decide from this word alone:
//!   `LENIENT`, pending threads do not count as running; `STRICT`, nobody overtakes the queue; `CLOSED`,
//!   the same for now, since the head of the queue has waited too long; `CONGESTED`, so many wait for row
//!   locks that others than their holders get few places; `UNLIMITED`, everybody is let in.
//! - **Q**: threads in the queue.
//! - **P**: threads woken that do not run yet (the 2009 patch's `fifo_pending`). Except under `summon`,
//!   each of them holds a place.
//!
//! But for places that are kept, or wait, T - P threads are really running. At rest (no thread between two of its steps):
//! - Q > 0 implies T >= L, or T >= 1 if the policy lets a thread in its quantum or lease leave without
//!   handing on, or T is at least what congestion leaves to others and no holder of locks queued if `CONGESTED`;
//! - Q > 0 and P = 0 implies that no place is kept, but by those who left within their quantum, while enough others are inside;
//! - P <= T, but under `summon`;
//! - nobody inside, nobody queued: P = Q = 0, and T are the kept places, and until the next step those that wait.
//!
//! T and Q are bounded by the number of sessions, which [`crate::Admission::session`] bounds, of kept places, and of lenders at work. P is bounded
//! by twice the highest limit, [`PENDING_MAX`]. A place is handed on, or granted, while T <= L afterwards, so at most one
//! highest limit of threads are pending with a place then; one is summoned while P < L, so at most one highest limit are
//! pending without. Both can come together when the policy changes. The stall breaker, which grants past the limit, stops at the bound.

use crate::Policy;

const T_BITS: u32 = 17;
const L_BITS: u32 = 10;
const Q_BITS: u32 = 17;
const P_BITS: u32 = 11;
const L_SHIFT: u32 = T_BITS;
const POLICY_SHIFT: u32 = L_SHIFT + L_BITS;
const POLICY_BITS: u32 = 4;
const LENIENT: u64 = 1 << 31;
const STRICT: u64 = 1 << 32;
const CLOSED: u64 = 1 << 33;
const CONGESTED: u64 = 1 << 34;
const UNLIMITED: u64 = 1 << 35;
/// While one of these is set, no place stays with a processor.
const KEEPS_NOTHING: u64 = CONGESTED | UNLIMITED | CLOSED;
const Q_SHIFT: u32 = 36;
const P_SHIFT: u32 = Q_SHIFT + Q_BITS;

const fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// One place in the word; `fetch_add(ONE_PLACE)` is a forced entry.
pub(crate) const ONE_PLACE: u64 = 1;
/// One pending thread in the word.
pub(crate) const ONE_PENDING: u64 = 1 << P_SHIFT;
/// One queued thread in the word.
pub(crate) const ONE_QUEUED: u64 = 1 << Q_SHIFT;
/// The most sessions a scheduler can have at a time: what T and Q can count, besides kept places.
pub(crate) const SESSIONS_MAX: u64 = ones(T_BITS) - KEPT_MAX;
/// The most places that processors keep.
pub(crate) const KEPT_MAX: u64 = 256;
/// The highest limit.
pub(crate) const LIMIT_MAX: u32 = ones(L_BITS) as u32;
/// The highest P.
pub(crate) const PENDING_MAX: u32 = 2 * LIMIT_MAX;
const _: () = assert!(PENDING_MAX as u64 <= ones(P_BITS));

/// Who asks at the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Its quantum is not used up, so that it may overtake the queue; asked by [`Policy::Quantum`] only.
    pub(crate) fresh: bool,
    /// It is of the first class: a holder of locks.
    pub(crate) first: bool,
}

impl Caller {
    /// A newcomer without anything special.
    #[cfg(test)]
    pub(crate) const NEWCOMER: Caller = Caller { fresh: true, first: false };
}

/// How a policy's gate treats newcomers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    /// Pending threads do not count as running.
    pub(crate) lenient: bool,
    /// Nobody overtakes the queue.
    pub(crate) strict: bool,
}

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    /// Nobody inside, nobody queued.
    pub(crate) fn idle(policy: Policy, limit: u32) -> Self {
        State(0).with_rule(policy, limit)
    }

    /// The same T, P and Q under another policy and limit. A closed gate opens; congestion stays.
    pub(crate) fn with_rule(self, policy: Policy, limit: u32) -> Self {
        debug_assert!(limit <= LIMIT_MAX);
        let gate = policy.rule().gate;
        let mut flags = (policy as u64) << POLICY_SHIFT;
        flags |= if gate.lenient { LENIENT } else { 0 };
        flags |= if gate.strict { STRICT } else { 0 };
        flags |= if policy == Policy::None || limit == 0 { UNLIMITED } else { 0 };
        let counted = ones(T_BITS) | ones(Q_BITS) << Q_SHIFT | ones(P_BITS) << P_SHIFT | CONGESTED;
        State(self.0 & counted | flags | u64::from(limit) << L_SHIFT)
    }

    /// T: places out.
    #[inline]
    pub(crate) fn places(self) -> u32 {
        (self.0 & ones(T_BITS)) as u32
    }

    /// L: the limit.
    #[inline]
    pub(crate) fn limit(self) -> u32 {
        (self.0 >> L_SHIFT & ones(L_BITS)) as u32
    }

    /// Q: threads queued.
    #[inline]
    pub(crate) fn queued(self) -> u32 {
        (self.0 >> Q_SHIFT & ones(Q_BITS)) as u32
    }

    /// P: threads woken that do not run yet.
    #[inline]
    pub(crate) fn pending(self) -> u32 {
        (self.0 >> P_SHIFT & ones(P_BITS)) as u32
    }

    /// The policy.
    #[inline]
    pub(crate) fn policy(self) -> Policy {
        Policy::ALL[(self.0 >> POLICY_SHIFT & ones(POLICY_BITS)) as usize]
    }

    /// Whether nobody is ever kept out.
    #[inline]
    pub(crate) fn unlimited(self) -> bool {
        self.0 & UNLIMITED != 0
    }

    /// Whether the gate is closed to newcomers until the head of the queue runs.
    pub(crate) fn closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Whether only holders of locks are let in while some run.
    #[inline]
    pub(crate) fn congested(self) -> bool {
        self.0 & CONGESTED != 0
    }

    /// Whether a newcomer may enter at once.
    ///
    /// FLIFO's gate, "fewer than L threads are really running", says the same as the published
    /// `lifo_running < fifo_pending` with `lifo_running = max(T - L, 0)`. For `spare` see [`State::limit_for`].
    #[inline]
    pub(crate) fn admits(self, caller: Caller, spare: u32) -> bool {
        const RARE: u64 = CONGESTED | UNLIMITED;
        if self.0 & RARE != 0 {
            return self.admits_in_rare_states(caller, spare);
        }
        self.in_order(caller) && self.running() < self.limit()
    }

    #[cold]
    fn admits_in_rare_states(self, caller: Caller, spare: u32) -> bool {
        self.unlimited() || self.in_order(caller) && self.running() < self.limit_for(caller.first, spare)
    }

    /// Threads that hold a place and count against the limit.
    #[inline]
    fn running(self) -> u32 {
        // Saturating: those summoned before the policy changed hold no place.
        self.places().saturating_sub(if self.0 & LENIENT != 0 { self.pending() } else { 0 })
    }

    /// Whether the caller would overtake nobody whom it must not overtake.
    #[inline]
    fn in_order(self, caller: Caller) -> bool {
        const POLICY: u64 = ones(POLICY_BITS) << POLICY_SHIFT;
        const QUANTUM: u64 = (Policy::Quantum as u64) << POLICY_SHIFT;
        self.queued() == 0 || self.0 & (STRICT | CLOSED) == 0 && (caller.fresh || self.0 & POLICY != QUANTUM)
    }

    /// The limit for a class. In congestion others than holders of locks get `spare` places, so that work which needs none of
    /// the locks gets done.
    pub(crate) fn limit_for(self, first: bool, spare: u32) -> u32 {
        if self.congested() && !first { self.limit().min(spare) } else { self.limit() }
    }

    /// Whether an exit must look at the queue. One above the limit repays the overshoot of newcomers and
    /// forced entries instead.
    #[inline]
    pub(crate) fn exit_looks_at_queue(self) -> bool {
        self.queued() > 0 && self.places() <= self.limit()
    }

    /// Whether a place that is left may stay with its processor: nobody waits for it; or somebody does, but an exit above
    /// the limit would not hand it on, and a woken thread is on its way that will look for it.
    #[inline]
    pub(crate) fn lets_keep(self) -> bool {
        let is_above = self.places() > self.limit();
        self.0 & KEEPS_NOTHING == 0
            && if self.queued() == 0 { !is_above } else { is_above && self.overtakes_pending() }
    }

    /// Whether a place that is left within a turn may stay with its processor although somebody waits, if enough others run.
    #[inline]
    pub(crate) fn lets_keep_in_turn(self) -> bool {
        self.0 & KEEPS_NOTHING == 0 && self.policy() == Policy::Quantum && self.places() <= self.limit()
    }

    /// Whether newcomers enter while a woken thread is on its way.
    #[inline]
    fn overtakes_pending(self) -> bool {
        self.policy() == Policy::Flifo && self.pending() > 0
    }

    /// As it would be without so many kept places. Some of them may be gone meanwhile.
    #[inline]
    pub(crate) fn without_kept(self, kept: u32) -> Self {
        State(self.0 - u64::from(kept.min(self.places())))
    }

    /// A newcomer enters.
    #[inline]
    pub(crate) fn entered(self) -> Self {
        debug_assert!(u64::from(self.places()) < ones(T_BITS));
        State(self.0 + ONE_PLACE)
    }

    /// A place is given back.
    #[inline]
    pub(crate) fn left(self) -> Self {
        debug_assert!(self.places() > 0, "{self:?}");
        State(self.0 - ONE_PLACE)
    }

    /// A thread joins the queue.
    pub(crate) fn joined(self) -> Self {
        State(self.0 + ONE_QUEUED)
    }

    /// A thread leaves the queue without a place: cancelled, timed out, or told to try again.
    pub(crate) fn unqueued(self) -> Self {
        debug_assert!(self.queued() > 0, "{self:?}");
        State(self.0 - ONE_QUEUED)
    }

    /// The place of the thread that leaves goes to a queued thread: T stays.
    pub(crate) fn handed_on(self) -> Self {
        debug_assert!(self.queued() > 0, "{self:?}");
        State(self.0 - ONE_QUEUED + ONE_PENDING)
    }

    /// A free place goes to a queued thread.
    pub(crate) fn granted(self) -> Self {
        self.entered().handed_on()
    }

    /// A place is given back, and a queued thread is woken to compete for it (`summon`).
    pub(crate) fn left_and_summoned(self) -> Self {
        self.left().handed_on()
    }

    /// A woken thread runs: it is pending no more.
    pub(crate) fn started(self) -> Self {
        debug_assert!(self.pending() > 0, "{self:?}");
        State(self.0 - ONE_PENDING)
    }

    /// The whole queue is emptied.
    pub(crate) fn dispersed(self) -> Self {
        State(self.0 & !(ones(Q_BITS) << Q_SHIFT))
    }

    /// The gate closed to newcomers, or opened.
    pub(crate) fn with_closed(self, closed: bool) -> Self {
        State(if closed { self.0 | CLOSED } else { self.0 & !CLOSED })
    }

    /// Only holders of locks let in, or everybody again.
    pub(crate) fn with_congested(self, congested: bool) -> Self {
        State(if congested { self.0 | CONGESTED } else { self.0 & !CONGESTED })
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (t, p, q, l) = (self.places(), self.pending(), self.queued(), self.limit());
        write!(f, "{} T={t} P={p} Q={q} L={l}", self.policy())?;
        for (set, name) in [(self.closed(), "closed"), (self.congested(), "congested")] {
            if set {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(policy: Policy, [places, pending, queued]: [u64; 3], limit: u32) -> State {
        let counted = places * ONE_PLACE + pending * ONE_PENDING + queued * ONE_QUEUED;
        State(State::idle(policy, limit).0 + counted)
    }

    fn admits(policy: Policy, counted: [u64; 3], limit: u32) -> bool {
        state(policy, counted, limit).admits(Caller::NEWCOMER, 1)
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        for policy in Policy::ALL {
            let full = state(policy, [ones(T_BITS), ones(P_BITS), ones(Q_BITS)], LIMIT_MAX);
            let marked = full.with_closed(true).with_congested(true);
            for state in [full, marked, marked.with_closed(false).with_congested(false)] {
                assert_eq!(
                    [state.places(), state.pending(), state.queued(), state.limit()].map(u64::from),
                    [ones(T_BITS), ones(P_BITS), ones(Q_BITS), ones(L_BITS)]
                );
                assert_eq!(state.policy(), policy);
            }
            assert_eq!((marked.closed(), marked.congested()), (true, true));
            assert_eq!(full.dispersed(), state(policy, [ones(T_BITS), ones(P_BITS), 0], LIMIT_MAX));
            for other in Policy::ALL {
                assert_eq!(
                    full.with_rule(other, 7),
                    state(other, [ones(T_BITS), ones(P_BITS), ones(Q_BITS)], 7)
                );
            }
        }
    }

    #[test]
    fn the_gate_of_2009_and_ours_agree() {
        for limit in 1..5u32 {
            for places in 0..12u64 {
                for pending in 0..=places.min(u64::from(limit)) {
                    let lifo_running = places.saturating_sub(u64::from(limit));
                    // The patch asks its gate only once the limit is reached.
                    let published = places < u64::from(limit) || lifo_running < pending;
                    assert_eq!(admits(Policy::Flifo, [places, pending, 3], limit), published);
                }
            }
        }
    }

    #[test]
    fn fifo_never_overtakes_and_an_overshoot_is_repaid_first() {
        assert!(!admits(Policy::Fifo, [3, 0, 1], 4));
        assert!(admits(Policy::Lifo, [3, 0, 1], 4));
        assert!(!admits(Policy::Lifo, [4, 1, 1], 4));
        assert!(admits(Policy::Flifo, [4, 1, 1], 4));
        assert!(!state(Policy::Flifo, [4, 1, 1], 4).with_closed(true).admits(Caller::NEWCOMER, 1));
        assert!(state(Policy::Flifo, [4, 1, 0], 4).with_closed(true).admits(Caller::NEWCOMER, 1));
        assert!(state(Policy::Fifo, [4, 0, 1], 4).exit_looks_at_queue());
        assert!(!state(Policy::Fifo, [5, 1, 1], 4).exit_looks_at_queue());
        assert_eq!(state(Policy::Fifo, [4, 1, 3], 4).handed_on(), state(Policy::Fifo, [4, 2, 2], 4));
        assert_eq!(state(Policy::Fifo, [3, 1, 3], 4).granted(), state(Policy::Fifo, [4, 2, 2], 4));
    }

    #[test]
    fn a_used_up_quantum_overtakes_nobody() {
        let spent = Caller { fresh: false, first: false };
        assert!(!state(Policy::Quantum, [3, 0, 1], 4).admits(spent, 1));
        assert!(state(Policy::Quantum, [3, 0, 0], 4).admits(spent, 1));
        assert!(state(Policy::Quantum, [3, 0, 1], 4).admits(Caller::NEWCOMER, 1));
        assert!(state(Policy::Flifo, [4, 1, 1], 4).admits(spent, 1), "no other policy has quanta");
    }

    #[test]
    fn congestion_leaves_few_places_to_others_than_holders_of_locks() {
        let holder = Caller { fresh: true, first: true };
        for (limit, spare, others) in [(1, 1, 1), (4, 1, 1), (128, 32, 32), (16, 32, 16)] {
            let congested = |places| state(Policy::Flifo, [places, 0, 0], limit as u32).with_congested(true);
            assert!(congested(others - 1).admits(Caller::NEWCOMER, spare));
            assert!(!congested(others).admits(Caller::NEWCOMER, spare));
            assert!(congested(limit - 1).admits(holder, spare));
            assert!(!congested(limit).admits(holder, spare));
        }
    }

    #[test]
    fn without_a_limit_everybody_enters() {
        assert!(admits(Policy::None, [50, 0, 0], 4));
        assert!(admits(Policy::Fifo, [50, 0, 9], 0));
    }
}
