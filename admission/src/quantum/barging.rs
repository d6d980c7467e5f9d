//! The barging limit: how many newcomers may pass the queue.
//!
//! A newcomer that runs at once saves the switch to a woken thread, and makes the queue wait. With an allowance of
//! [`BARGING_LIMIT`] newcomers for each waiter served, the queue's wait is at most 1 + [`BARGING_LIMIT`] times what strict
//! order would give. Lock holders and sessions in their time slice are not counted.

use crate::sync::{AtomicU32, Ordering};

/// Newcomers that may barge for each waiter served.
const BARGING_LIMIT: u32 = 2;
/// So many waiters' allowances may be saved, so that newcomers that come together are not turned away one by one.
const SAVED_MAX: u32 = 16;
const CREDIT_MAX: u32 = BARGING_LIMIT * SAVED_MAX;

/// The allowance that is left. On cache lines of its own: every newcomer writes it while others wait.
///
/// Invariant: at most [`CREDIT_MAX`]. It bounds a number and guards nothing, so all accesses are relaxed.
#[repr(align(128))]
pub(crate) struct Barging(AtomicU32);

impl Barging {
    pub(crate) fn new() -> Self {
        Barging(AtomicU32::new(0))
    }

    /// Whether a newcomer may barge now.
    pub(crate) fn is_allowed(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// A newcomer has barged.
    pub(crate) fn on_barge(&self) {
        // Two newcomers can use the last credit at the same moment: one of them barges without a credit.
        self.change(|left| left.checked_sub(1));
    }

    /// A waiter was served.
    pub(crate) fn on_served(&self) {
        self.change(|left| (left != CREDIT_MAX).then(|| (left + BARGING_LIMIT).min(CREDIT_MAX)));
    }

    fn change(&self, to: impl FnMut(u32) -> Option<u32>) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, to);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_waiter_served_allows_so_many_newcomers() {
        let barging = Barging::new();
        assert!(!barging.is_allowed());
        barging.on_served();
        for _ in 0..BARGING_LIMIT {
            assert!(barging.is_allowed());
            barging.on_barge();
        }
        assert!(!barging.is_allowed());
        (0..100).for_each(|_| barging.on_served());
        (0..CREDIT_MAX).for_each(|_| barging.on_barge());
        assert!(!barging.is_allowed(), "credits are not saved without end");
    }
}
