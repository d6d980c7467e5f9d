//! Transactions that the engine rolled back, and that were retried.

use super::Window;
use crate::measure::workload::wire::Retry;
use crate::results::RefusalFigures;

/// The number of each kind inside a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retries {
    deadlocks: u64,
    lock_wait_timeouts: u64,
    write_conflicts: u64,
}

impl Retries {
    /// Takes note of one, if it came inside the window.
    pub(crate) fn note(&mut self, window: &Window, now_ns: u64, why: Retry) {
        let count = match why {
            Retry::Deadlock => &mut self.deadlocks,
            Retry::LockWaitTimeout => &mut self.lock_wait_timeouts,
            Retry::WriteConflict => &mut self.write_conflicts,
        };
        *count += u64::from((window.start_ns()..window.end_ns()).contains(&now_ns));
    }

    /// Adds another driver's.
    pub(super) fn add(&mut self, other: &Retries) {
        self.deadlocks += other.deadlocks;
        self.lock_wait_timeouts += other.lock_wait_timeouts;
        self.write_conflicts += other.write_conflicts;
    }

    /// For the results.
    pub(crate) fn figures(&self) -> RefusalFigures {
        RefusalFigures {
            deadlocks: Some(self.deadlocks),
            lock_wait_timeouts: Some(self.lock_wait_timeouts),
            write_conflicts: Some(self.write_conflicts),
            retries: Some(self.deadlocks + self.lock_wait_timeouts + self.write_conflicts),
            ..RefusalFigures::default()
        }
    }
}
