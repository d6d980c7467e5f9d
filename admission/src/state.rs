//! The state word: T, P, Q and L in 64 bits, and every transition as a pure function.
//!
//! ```text
//!  63         52 51                  32 31         20 19                   0
//! +-------------+----------------------+-------------+----------------------+
//! |  P pending  |       Q queued       |   L limit   |    T places out      |
//! |   12 bits   |       20 bits        |   12 bits   |       20 bits        |
//! +-------------+----------------------+-------------+----------------------+
//! ```
//!
//! - **T**: places out, to threads running inside or woken to run.
//! - **P**: places handed to threads that were woken and do not run yet (the 2009 patch's `fifo_pending`).
//! - **Q**: threads queued (for `sleep`: threads polling).
//! - **L**: the limit, `thread_concurrency`.
//!
//! T - P threads are really running. At rest (no thread between two of its steps):
//! - Q > 0 implies T >= L: nobody waits beside a free place;
//! - P <= T: a pending thread holds a place;
//! - nobody inside, nobody queued: T = P = Q = 0.
//!
//! A place is handed on only at T <= L, so P <= L <= 2047 always fits. T and Q are bounded by the number
//! of sessions, which [`crate::Admission::session`] bounds.

use crate::Policy;

const FIELD_20: u64 = (1 << 20) - 1;
const FIELD_12: u64 = (1 << 12) - 1;
const L_SHIFT: u32 = 20;
const Q_SHIFT: u32 = 32;
const P_SHIFT: u32 = 52;

/// One place in the word; `fetch_add(ONE_PLACE)` is a forced entry.
pub(crate) const ONE_PLACE: u64 = 1;
/// One pending thread in the word.
pub(crate) const ONE_PENDING: u64 = 1 << P_SHIFT;
/// One queued thread in the word.
pub(crate) const ONE_QUEUED: u64 = 1 << Q_SHIFT;
/// The most sessions a scheduler can have at a time: what T and Q can count.
pub(crate) const SESSIONS_MAX: u64 = FIELD_20;
/// The highest limit.
pub(crate) const LIMIT_MAX: u32 = 2047;

/// A value of the state word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u64);

impl State {
    pub(crate) fn idle(limit: u32) -> Self {
        debug_assert!(limit <= LIMIT_MAX);
        State(u64::from(limit) << L_SHIFT)
    }

    /// T: places out.
    pub(crate) fn places(self) -> u32 {
        (self.0 & FIELD_20) as u32
    }

    /// L: the limit.
    pub(crate) fn limit(self) -> u32 {
        (self.0 >> L_SHIFT & FIELD_12) as u32
    }

    /// Q: threads queued.
    pub(crate) fn queued(self) -> u32 {
        (self.0 >> Q_SHIFT & FIELD_20) as u32
    }

    /// P: threads woken that do not run yet.
    pub(crate) fn pending(self) -> u32 {
        (self.0 >> P_SHIFT) as u32
    }

    /// Whether a newcomer may enter at once.
    pub(crate) fn admits(self, policy: Policy) -> bool {
        match policy {
            Policy::None => true,
            // Strictly in order: nobody overtakes the queue.
            Policy::Fifo => self.places() < self.limit() && self.queued() == 0,
            Policy::Lifo | Policy::Broadcast | Policy::Sleep => self.places() < self.limit(),
            // Fewer than L threads are really running. The published gate, lifo_running < fifo_pending
            // with lifo_running = max(T - L, 0), says the same.
            Policy::Flifo => self.places() - self.pending() < self.limit(),
        }
    }

    /// What an exit does: hand its place to the queue, or give it back. An exit above the limit repays
    /// the overshoot of newcomers and forced entries instead of handing on.
    pub(crate) fn hands_on(self) -> bool {
        self.queued() > 0 && self.places() <= self.limit()
    }

    /// A newcomer enters.
    pub(crate) fn entered(self) -> Self {
        debug_assert!(self.places() < FIELD_20 as u32);
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
        State((self.0 - ONE_PLACE) & !(FIELD_20 << Q_SHIFT))
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

    fn state(places: u64, pending: u64, queued: u64, limit: u32) -> State {
        State(State::idle(limit).0 + places * ONE_PLACE + pending * ONE_PENDING + queued * ONE_QUEUED)
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        let full = state(FIELD_20, FIELD_12, FIELD_20, LIMIT_MAX);
        assert_eq!(
            (full.places(), full.pending(), full.queued(), full.limit()),
            (FIELD_20 as u32, FIELD_12 as u32, FIELD_20 as u32, LIMIT_MAX)
        );
        assert_eq!(full.left_and_dispersed(), state(FIELD_20 - 1, FIELD_12, 0, LIMIT_MAX));
    }

    #[test]
    fn the_gate_of_2009_and_ours_agree() {
        for limit in 1..5u32 {
            for places in 0..12u64 {
                for pending in 0..=places.min(u64::from(limit)) {
                    let lifo_running = places.saturating_sub(u64::from(limit));
                    // The patch asks its gate only once the limit is reached.
                    let published = places < u64::from(limit) || lifo_running < pending;
                    assert_eq!(state(places, pending, 0, limit).admits(Policy::Flifo), published);
                }
            }
        }
    }

    #[test]
    fn fifo_never_overtakes_and_an_overshoot_is_repaid_first() {
        assert!(!state(3, 0, 1, 4).admits(Policy::Fifo));
        assert!(state(3, 0, 1, 4).admits(Policy::Flifo));
        assert!(state(4, 0, 1, 4).hands_on());
        assert!(!state(5, 1, 1, 4).hands_on());
        assert_eq!(state(4, 1, 3, 4).handed_on(), state(4, 2, 2, 4));
    }
}
