//! Waits: every thread of the engine waits through this module.
//!
//! A thread that may have to wait carries a [`Waiter`]. [`Waiter::wait`] releases the thread's slot in admission for the
//! duration of the wait, acquires the slot again however the wait ends, and records the time. This module decides which
//! reasons release the slot; the scheduler's mask decides which kinds do. The caller holds no latch: if other threads
//! waited for a waiting thread, a limit of one slot would deadlock.

use std::sync::Arc;
use std::time::Instant;

use flifo_admission::{Session, WaitKind};

use crate::error::Result;
use crate::metrics::{WaitReason, Waits};
use crate::slot::{Entered, Entries};

/// A thread's means to wait: releases its slot in admission, if the reason says so, and records the time.
pub struct Waiter {
    entries: Option<Entries>,
    waits: Option<Arc<Waits>>,
}

impl Waiter {
    /// For a background thread, which holds no slot.
    pub fn background() -> Self {
        Waiter { entries: None, waits: None }
    }

    /// For a session under admission.
    pub fn session(admission: Session) -> Self {
        Waiter { entries: Some(Entries::new(admission)), waits: None }
    }

    /// The same, with its times recorded in `waits`.
    pub fn recording(self, waits: &Arc<Waits>) -> Self {
        Waiter { waits: Some(Arc::clone(waits)), ..self }
    }

    /// The session whose slot the waits release.
    pub(crate) fn admission(&self) -> Option<&Session> {
        self.entries.as_ref().map(Entries::session)
    }

    /// Enters admission; `None` for a background thread. See [`Entries::enter`].
    pub(crate) fn enter(&self) -> Result<Option<Entered<'_>>> {
        self.entries.as_ref().map(Entries::enter).transpose()
    }

    /// See [`Entries::enter_forced`].
    pub(crate) fn enter_forced(&self) -> Option<Entered<'_>> {
        self.entries.as_ref().map(Entries::enter_forced)
    }

    /// Takes a ticket for a row. When the tickets are used up, acquires the slot anew. The caller holds no latch.
    #[inline]
    pub(crate) fn take_ticket(&self) -> Result<()> {
        self.entries.as_ref().map_or(Ok(()), Entries::take_ticket)
    }

    /// Runs a callback of the embedder's. The caller holds no latch. See [`Entries::call_back`].
    #[inline]
    pub(crate) fn call_back<T>(&self, callback: impl FnOnce() -> T) -> Result<T> {
        let Some(entries) = self.entries.as_ref() else { return Ok(callback()) };
        entries.call_back(callback, || {
            if let Some(waits) = &self.waits {
                waits.note_stalled_callback();
            }
        })
    }

    /// Runs `f`, which waits. The caller holds no latch.
    pub fn wait<T>(&self, reason: WaitReason, f: impl FnOnce() -> T) -> T {
        self.wait_in_two(reason, || None, f)
    }

    /// Waits as [`Waiter::wait`] does, first with `briefly` and then with `at_length`.
    ///
    /// For waits that are mostly short: if `briefly` returns `None`, the wait is marked long
    /// ([`Session::mark_wait_long`]). Both parts are recorded as one wait.
    pub(crate) fn wait_in_two<T>(
        &self,
        reason: WaitReason,
        briefly: impl FnOnce() -> Option<T>,
        at_length: impl FnOnce() -> T,
    ) -> T {
        debug_assert_eq!(
            crate::buffer::latch::held(),
            0,
            "a thread waits ({reason:?}) while it holds a latch"
        );
        let waiting = Waiting::begin(self, reason);
        briefly().unwrap_or_else(|| {
            if let Some((session, _)) = waiting.left {
                session.mark_wait_long();
            }
            at_length()
        })
    }
}

/// Polls `is_done` up to `polls` times, some hundred nanoseconds apart; returns whether it is done.
///
/// For waits shorter than two context switches: a thread that polls no longer than two switches take at most doubles the
/// cost of the wait (Karlin et al., SODA 1990).
pub(crate) fn poll(polls: u32, is_done: impl Fn() -> bool) -> bool {
    (0..polls).any(|_| {
        let done = is_done();
        if !done {
            (0..8).for_each(|_| std::hint::spin_loop());
        }
        done
    })
}

/// The kind of wait that admission sees; `None` keeps the slot.
fn admission_kind(reason: WaitReason) -> Option<WaitKind> {
    match reason {
        WaitReason::DiskRead | WaitReason::PageLoad | WaitReason::FreeFrame | WaitReason::DiskWrite => {
            Some(WaitKind::Disk)
        }
        WaitReason::DiskSync | WaitReason::LogSync | WaitReason::RedoBuffer => Some(WaitKind::LogSync),
        WaitReason::RedoSpace
        | WaitReason::RedoTokens
        | WaitReason::SyncFlush
        | WaitReason::Close
        | WaitReason::Catalog
        | WaitReason::PendingSlot
        | WaitReason::Embedder => Some(WaitKind::User),
        WaitReason::RowLock => Some(WaitKind::RowLock),
        // As short as a context switch, and the holder is running: releasing the slot would cost more than it gains.
        WaitReason::PageLatch | WaitReason::LogWrite => None,
    }
}

/// A wait in progress. Its drop ends it, on return and on panic.
struct Waiting<'a> {
    waiter: &'a Waiter,
    reason: WaitReason,
    left: Option<(&'a Session, WaitKind)>,
    begun: Instant,
}

impl<'a> Waiting<'a> {
    /// Releases the slot, if the reason says so.
    fn begin(waiter: &'a Waiter, reason: WaitReason) -> Self {
        let left = waiter.entries.as_ref().zip(admission_kind(reason)).map(|(entries, kind)| {
            entries.session().wait_begin(kind);
            entries.note_wait();
            (entries.session(), kind)
        });
        Waiting { waiter, reason, left, begun: Instant::now() }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(waits) = &self.waiter.waits {
            waits.record(self.reason, self.begun.elapsed());
        }
        if let Some((session, kind)) = self.left {
            session.wait_end(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_recorded_and_its_result_returned() {
        let waits = Waits::new();
        let waiter = Waiter::background().recording(&waits);
        assert_eq!(waiter.wait(WaitReason::DiskSync, || 42), 42);
        assert_eq!(waits.snapshot().count(WaitReason::DiskSync), 1);
    }

    #[test]
    fn a_wait_that_panics_ends_all_the_same() {
        let waits = Waits::new();
        let waiter = Waiter::background().recording(&waits);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            waiter.wait(WaitReason::DiskRead, || panic!("within a wait"))
        }));
        assert!(outcome.is_err());
        assert_eq!(waits.snapshot().count(WaitReason::DiskRead), 1);
    }

    #[test]
    fn a_long_wait_for_a_row_lock_does_not_count_for_their_bound() {
        let config = flifo_admission::Config::default();
        let admission = flifo_admission::Admission::new(config).unwrap();
        let waits = Waits::new();
        let waiter = Waiter::session(admission.session()).recording(&waits);
        let _slot = waiter.admission().unwrap().slot().unwrap();
        let lock_waiters = || admission.snapshot().lock_waiters;
        let soon = waiter.wait_in_two(WaitReason::RowLock, || Some(lock_waiters()), || unreachable!());
        let late = waiter.wait_in_two(WaitReason::RowLock, || None, lock_waiters);
        assert_eq!((soon, late, lock_waiters()), (1, 0, 0));
        assert_eq!(waits.snapshot().count(WaitReason::RowLock), 2);
    }

    /// With one slot, the other thread could never enter if the wait kept the slot.
    #[test]
    fn a_wait_for_the_disk_lets_another_in() {
        let config = flifo_admission::Config { thread_concurrency: 1, ..flifo_admission::Config::default() };
        let admission = flifo_admission::Admission::new(config).unwrap();
        let waiter = Waiter::session(admission.session());
        let _slot = waiter.admission().unwrap().slot().unwrap();
        let entered = waiter.wait(WaitReason::DiskRead, || {
            let other = admission.session();
            std::thread::spawn(move || drop(other.slot().unwrap())).join()
        });
        assert!(entered.is_ok());
    }
}
