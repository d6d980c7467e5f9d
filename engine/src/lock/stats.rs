//! Counters of the lock table.

/// A snapshot of a [`LockTable`](super::LockTable)'s counters.
///
/// Shards are read one after the other, so a change during the snapshot may be counted or not. The time of the waits is
/// recorded under [`WaitReason::RowLock`](crate::WaitReason::RowLock).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockStats {
    /// Locks held now: owners per key, summed over all keys.
    pub locks: u64,
    /// Requests that wait now.
    pub waiting: u64,
    /// Requests granted without a wait, including requests for a lock that their owner already held.
    pub granted_at_once: u64,
    /// Requests that began to wait.
    pub waits: u64,
    /// Grants that a running request took over or passed before the granted thread woke up, or while it slept to let
    /// others pass.
    pub overtakes: u64,
    /// Requests with a timeout of zero that would have waited.
    pub refused: u64,
    /// Waits that ended because their owner was a deadlock's victim.
    pub deadlocks: u64,
    /// Waits that ended at their timeout.
    pub timeouts: u64,
    /// Waits that were cancelled.
    pub cancels: u64,
    /// Implicit locks of writers that were made explicit.
    pub made_explicit: u64,
    /// Searches for a deadlock that were left to the [`Detector`](super::Detector) because of their length.
    pub searches_deferred: u64,
}

impl LockStats {
    /// Adds what another shard counted.
    pub(super) fn add(&mut self, other: &LockStats) {
        let LockStats {
            locks,
            waiting,
            granted_at_once,
            waits,
            overtakes,
            refused,
            deadlocks,
            timeouts,
            cancels,
            made_explicit,
            searches_deferred,
        } = other;
        self.locks += locks;
        self.waiting += waiting;
        self.granted_at_once += granted_at_once;
        self.waits += waits;
        self.overtakes += overtakes;
        self.refused += refused;
        self.deadlocks += deadlocks;
        self.timeouts += timeouts;
        self.cancels += cancels;
        self.made_explicit += made_explicit;
        self.searches_deferred += searches_deferred;
    }
}
