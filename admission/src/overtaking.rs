//! How often newcomers may overtake the queue under [`crate::Policy::Quantum`].
//!
//! A newcomer that runs at once saves the switch to a woken thread, and makes the queue wait. With an
//! allowance of *k* for each session that is served from the queue, the queue's wait is at most 1 + *k* times
//! what it would be in order, for those who owe no time ([`crate::debts`]).

use crate::sync::{AtomicU32, Ordering};

/// So many allowances may be saved up, so that newcomers that come together are not turned away one by one.
const SAVED_MAX: u32 = 16;

/// On a cache line of its own: every newcomer writes it while others wait.
#[repr(align(128))]
pub(crate) struct Overtaking {
    /// For each session served; 0: any number.
    allowance: AtomicU32,
    /// Invariant: at most `SAVED_MAX * allowance`. When that is set to less, who has just read the old one may add too much,
    /// which the next session served mends. It bounds a number and guards nothing, so relaxed.
    left: AtomicU32,
}

impl Overtaking {
    pub(crate) fn new() -> Self {
        Overtaking { allowance: AtomicU32::new(0), left: AtomicU32::new(0) }
    }

    pub(crate) fn set(&self, allowance: u32) {
        self.allowance.store(allowance, Ordering::Relaxed);
        let most = most_left(allowance);
        self.change(|left| (left > most).then_some(most));
    }

    /// Whether a newcomer may overtake now.
    pub(crate) fn is_allowed(&self) -> bool {
        self.allowance.load(Ordering::Relaxed) == 0 || self.left.load(Ordering::Relaxed) != 0
    }

    /// A newcomer has overtaken the queue.
    pub(crate) fn used(&self) {
        if self.allowance.load(Ordering::Relaxed) != 0 {
            self.change(|left| left.checked_sub(1));
        }
    }

    /// A session was served from the queue.
    pub(crate) fn served(&self) {
        let allowance = self.allowance.load(Ordering::Relaxed);
        if allowance != 0 {
            let most = most_left(allowance);
            self.change(|left| (left != most).then(|| left.saturating_add(allowance).min(most)));
        }
    }

    fn change(&self, to: impl FnMut(u32) -> Option<u32>) {
        // Two that used the last one at the same moment: one overtook for nothing.
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, to);
    }
}

fn most_left(allowance: u32) -> u32 {
    allowance.saturating_mul(SAVED_MAX)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_session_served_allows_so_many_newcomers() {
        let overtaking = Overtaking::new();
        assert!(overtaking.is_allowed(), "0: any number");
        overtaking.set(2);
        assert!(!overtaking.is_allowed());
        overtaking.served();
        for _ in 0..2 {
            assert!(overtaking.is_allowed());
            overtaking.used();
        }
        assert!(!overtaking.is_allowed());
        (0..100).for_each(|_| overtaking.served());
        (0..2 * SAVED_MAX).for_each(|_| overtaking.used());
        assert!(!overtaking.is_allowed(), "they are not saved up without end");
    }

    #[test]
    fn a_smaller_allowance_leaves_no_more_savings_than_it_makes() {
        let overtaking = Overtaking::new();
        overtaking.set(1000);
        (0..100).for_each(|_| overtaking.served());
        overtaking.set(1);
        (0..SAVED_MAX).for_each(|_| overtaking.used());
        assert!(!overtaking.is_allowed());
    }
}
