//! A stage of the log's way to the disk: written, then synced. One leads, the others wait for their LSN.
//!
//! Who finds the stage's lock free leads, for all that are behind it. Who finds it taken parks with the LSN that it
//! waits for. The leader, when it has let go of the lock, wakes all that have what they wanted, and the first that
//! has not: it leads next, for all that came meanwhile. So under load one write, or one sync, serves everyone who came
//! during the one before (group commit; the leader-follower scheme of MySQL's binary log, and of MariaDB's
//! `group_commit_lock`, which has the same two stages).
//!
//! # No lost wake-up
//! `leading` is set under the lock and cleared before the leader looks for the parked. A thread parks only
//! if, under the parking lot's own lock, it sees `leading` and not yet its LSN: then the leader's search comes
//! later, and finds it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use parking_lot_core::{DEFAULT_UNPARK_TOKEN, FilterOp, ParkToken};

use super::stopped;
use crate::error::Result;
use crate::page::Lsn;
use crate::wait::look_out;

/// Why nothing is written any more, once it is so.
pub(super) type Stop = OnceLock<String>;

pub(super) struct Stage<T> {
    /// What the leader works with.
    state: Mutex<T>,
    leading: AtomicBool,
    /// All before it has passed. Grows, under the lock.
    reached: AtomicU64,
    /// So often a follower looks for its LSN before it parks.
    looks: u32,
}

impl<T> Stage<T> {
    /// All before `reached` has passed. `looks`: see [`Self::follow`].
    pub(super) fn new(reached: Lsn, looks: u32, state: T) -> Self {
        Stage {
            state: Mutex::new(state),
            leading: AtomicBool::new(false),
            reached: AtomicU64::new(reached.0),
            looks,
        }
    }

    pub(super) fn reached(&self) -> Lsn {
        Lsn(self.reached.load(Ordering::Acquire))
    }

    /// The leader has come so far.
    pub(super) fn advance(&self, to: Lsn) {
        self.reached.store(to.0, Ordering::Release);
    }

    /// With nobody leading.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once all before `lsn` has passed: leads, or waits for one who does.
    pub(super) fn reach(&self, lsn: Lsn, stop: &Stop, lead: impl Fn(&mut T) -> Result<()>) -> Result<()> {
        while self.reached() < lsn {
            self.step(lsn, stop, &lead)?;
        }
        Ok(())
    }

    /// Leads once, or waits for one who leads, or for `lsn`. What stops the leader stops the log.
    pub(super) fn step(&self, lsn: Lsn, stop: &Stop, lead: impl Fn(&mut T) -> Result<()>) -> Result<()> {
        check(stop)?;
        let Some(mut state) = self.try_lead() else {
            self.follow(lsn, stop);
            return Ok(());
        };
        let led = lead(&mut state);
        if let Err(error) = &led {
            let _ = stop.set(format!("the redo log: {error}"));
        }
        self.leading.store(false, Ordering::SeqCst);
        drop(state);
        self.wake(stop);
        led
    }

    fn try_lead(&self) -> Option<MutexGuard<'_, T>> {
        let lead = match self.state.try_lock() {
            Ok(lead) => lead,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.leading.store(true, Ordering::SeqCst);
        Some(lead)
    }

    /// Waits for the leader, or for `lsn`; may return early. At first awake: where a leader's work is shorter than a
    /// wake-up, to sleep would leave the stage to nobody for as long, and cost the leader the system call.
    fn follow(&self, lsn: Lsn, stop: &Stop) {
        let waits = || self.leading.load(Ordering::SeqCst) && self.reached() < lsn;
        if look_out(self.looks, || !waits()) {
            return;
        }
        let still = || waits() && stop.get().is_none();
        // SAFETY: the address is this stage's, which nothing else parks on; the callbacks neither panic nor park.
        unsafe {
            parking_lot_core::park(self.key(), still, || {}, |_, _| {}, ParkToken(lsn.0 as usize), None);
        }
        // The lock is let go of a moment after `leading` is cleared.
        std::hint::spin_loop();
    }

    /// Wakes those who have what they want, and one who has not, to lead; all if the log has stopped.
    pub(super) fn wake(&self, stop: &Stop) {
        let all = stop.get().is_some();
        let mut leader = false;
        let wake = |ParkToken(lsn)| {
            let next_leader = !all && self.reached().0 < lsn as u64;
            if next_leader && leader {
                return FilterOp::Skip;
            }
            leader |= next_leader;
            FilterOp::Unpark
        };
        // SAFETY: the address is this stage's; the callbacks neither panic nor park.
        unsafe { parking_lot_core::unpark_filter(self.key(), wake, |_| DEFAULT_UNPARK_TOKEN) };
    }

    fn key(&self) -> usize {
        std::ptr::from_ref(&self.reached).addr()
    }
}

/// An error if the log has stopped.
pub(super) fn check(stop: &Stop) -> Result<()> {
    stop.get().map_or(Ok(()), |what| Err(stopped(what)))
}
