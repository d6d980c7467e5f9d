//! The state word: T, P, Q and L in 64 bits, and every transition as a pure function.
//!
//! ```text
//!  63   61 60           50 49                 32 31  29 28         18 17                  0
//! +-------+---------------+---------------------+------+-------------+---------------------+
//! |   0   |   P pending   |       Q queued      | flags|   L limit   |    T places out     |
//! |       |    11 bits    |       18 bits       |      |   11 bits   |       18 bits       |
//! +-------+---------------+---------------------+------+-------------+---------------------+
//! ```
//!
//! - **T**: places out, to threads running inside or woken to run.
//! - **L**: the limit, `thread_concurrency`.
//! - **flags**: what the gate must know of the policy, so that a newcomer decides from this word alone:
//!   `LENIENT`, pending threads do not count as running; `STRICT`, nobody overtakes the queue.
//! - **Q**: threads queued (for `sleep`: threads polling).
//! - **P**: places handed to threads that were woken and do not run yet (the 2009 patch's `fifo_pending`).
//!
//! T - P threads are really running. At rest (no thread between two of its steps):
//! - Q > 0 implies T >= L: nobody waits beside a free place;
//! - P <= T: a pending thread holds a place;
//! - nobody inside, nobody queued: T = P = Q = 0.
//!
//! A place is handed on only at T <= L, so P <= L always fits. T and Q are bounded by the number of
//! sessions, which [`crate::Admission::session`] bounds.

use crate::Policy;

const T_BITS: u32 = 18;
const L_BITS: u32 = 11;
const Q_BITS: u32 = 18;
const P_BITS: u32 = 11;
const L_SHIFT: u32 = T_BITS;
const LENIENT: u64 = 1 << 29;
const STRICT: u64 = 1 << 30;
const Q_SHIFT: u32 = 32;
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
/// The most sessions a scheduler can have at a time: what T and Q can count.
pub(crate) const SESSIONS_MAX: u64 = ones(T_BITS);
/// The highest limit.
pub(crate) const LIMIT_MAX: u32 = ones(L_BITS) as u32;

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    /// Nobody inside, nobody queued.
    pub(crate) fn idle(policy: Policy, limit: u32) -> Self {
        debug_assert!(limit <= LIMIT_MAX);
        let flags = match policy {
            Policy::Flifo => LENIENT,
            Policy::Fifo => STRICT,
            Policy::None | Policy::Lifo | Policy::Broadcast | Policy::Sleep => 0,
        };
        State(u64::from(limit) << L_SHIFT | flags)
    }

    /// T: places out.
    pub(crate) fn places(self) -> u32 {
        (self.0 & ones(T_BITS)) as u32
    }

    /// L: the limit.
    pub(crate) fn limit(self) -> u32 {
        (self.0 >> L_SHIFT & ones(L_BITS)) as u32
    }

    /// Q: threads queued.
    pub(crate) fn queued(self) -> u32 {
        (self.0 >> Q_SHIFT & ones(Q_BITS)) as u32
    }

    /// P: threads woken that do not run yet.
    pub(crate) fn pending(self) -> u32 {
        (self.0 >> P_SHIFT & ones(P_BITS)) as u32
    }

    /// Whether a newcomer may enter at once.
    ///
    /// FLIFO's gate, "fewer than L threads are really running", says the same as the published
    /// `lifo_running < fifo_pending` with `lifo_running = max(T - L, 0)`.
    #[inline]
    pub(crate) fn admits(self) -> bool {
        let forgiven = if self.0 & LENIENT != 0 { self.pending() } else { 0 };
        let in_order = self.0 & STRICT == 0 || self.queued() == 0;
        in_order && self.places() - forgiven < self.limit()
    }

    /// What an exit does: hand its place to the queue, or give it back. An exit above the limit repays
    /// the overshoot of newcomers and forced entries instead of handing on.
    pub(crate) fn hands_on(self) -> bool {
        self.queued() > 0 && self.places() <= self.limit()
    }

    /// A newcomer enters.
    pub(crate) fn entered(self) -> Self {
        debug_assert!(u64::from(self.places()) < SESSIONS_MAX);
        State(self.0 + ONE_PLACE)
    }

    /// A place is given back.
    pub(crate) fn left(self) -> Self {
        debug_assert!(self.places() > self.pending(), "{self:?}");
        State(self.0 - ONE_PLACE)
    }

    /// A thread joins the queue.
    pub(crate) fn joined(self) -> Self {
        State(self.0 + ONE_QUEUED)
    }

    /// The place of the thread that leaves goes to the head of the queue: T stays.
    pub(crate) fn handed_on(self) -> Self {
        debug_assert!(self.hands_on(), "{self:?}");
        State(self.0 - ONE_QUEUED + ONE_PENDING)
    }

    /// A woken thread runs: it is pending no more.
    pub(crate) fn started(self) -> Self {
        debug_assert!(self.pending() > 0, "{self:?}");
        State(self.0 - ONE_PENDING)
    }

    /// A place is given back and the whole queue is emptied (`broadcast`).
    pub(crate) fn left_and_dispersed(self) -> Self {
        State((self.0 - ONE_PLACE) & !(ones(Q_BITS) << Q_SHIFT))
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (t, p, q, l) = (self.places(), self.pending(), self.queued(), self.limit());
        write!(f, "T={t} P={p} Q={q} L={l}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(policy: Policy, [places, pending, queued]: [u64; 3], limit: u32) -> State {
        let counted = places * ONE_PLACE + pending * ONE_PENDING + queued * ONE_QUEUED;
        State(State::idle(policy, limit).0 + counted)
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        for policy in Policy::ALL {
            let full = state(policy, [ones(T_BITS), ones(P_BITS), ones(Q_BITS)], LIMIT_MAX);
            assert_eq!(
                [full.places(), full.pending(), full.queued(), full.limit()].map(u64::from),
                [ones(T_BITS), ones(P_BITS), ones(Q_BITS), ones(L_BITS)]
            );
            let dispersed = state(policy, [ones(T_BITS) - 1, ones(P_BITS), 0], LIMIT_MAX);
            assert_eq!(full.left_and_dispersed(), dispersed);
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
                    assert_eq!(state(Policy::Flifo, [places, pending, 3], limit).admits(), published);
                }
            }
        }
    }

    #[test]
    fn fifo_never_overtakes_and_an_overshoot_is_repaid_first() {
        assert!(!state(Policy::Fifo, [3, 0, 1], 4).admits());
        assert!(state(Policy::Lifo, [3, 0, 1], 4).admits());
        assert!(!state(Policy::Lifo, [4, 1, 1], 4).admits());
        assert!(state(Policy::Flifo, [4, 1, 1], 4).admits());
        assert!(state(Policy::Fifo, [4, 0, 1], 4).hands_on());
        assert!(!state(Policy::Fifo, [5, 1, 1], 4).hands_on());
        assert_eq!(state(Policy::Fifo, [4, 1, 3], 4).handed_on(), state(Policy::Fifo, [4, 2, 2], 4));
    }
}
