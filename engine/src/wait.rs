//! The one place where a thread of the engine waits.
//!
//! A thread that may have to wait carries a [`Waiter`]. [`Waiter::wait`] gives up the thread's place in
//! admission for the time of the wait (which reasons do is decided here, which kinds do by the scheduler's
//! mask), takes it back however the wait ends, and records how long it took. The caller holds no latch:
//! a waiting thread must never be what other threads wait for, or a limit of one place would be a deadlock.

use std::sync::Arc;
use std::time::Instant;

use flifo_admission::{Session, WaitKind};

use crate::metrics::{WaitReason, Waits};

/// A thread's licence to wait: gives up its place in admission, if the reason says so, and records the time.
pub struct Waiter {
    admission: Option<Session>,
    waits: Option<Arc<Waits>>,
}

impl Waiter {
    /// For a background thread, which holds no place.
    pub fn background() -> Self {
        Waiter { admission: None, waits: None }
    }

    /// For a session under admission.
    pub fn session(admission: Session) -> Self {
        Waiter { admission: Some(admission), waits: None }
    }

    /// The same, with its times recorded in `waits`.
    pub fn recording(self, waits: &Arc<Waits>) -> Self {
        Waiter { waits: Some(Arc::clone(waits)), ..self }
    }

    /// The session whose place the waits give up.
    pub(crate) fn admission(&self) -> Option<&Session> {
        self.admission.as_ref()
    }

    /// Runs `f`, which waits. The caller holds no latch.
    pub fn wait<T>(&self, reason: WaitReason, f: impl FnOnce() -> T) -> T {
        self.wait_in_two(reason, || None, f)
    }

    /// As [`Waiter::wait`], for what is mostly over soon: if `briefly` comes to nothing, admission is told that the wait is a
    /// long one ([`Session::mark_wait_long`]), and it goes on with `at_length`. It is one wait.
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

/// Looks so many times whether something that another thread is about to do is done, some hundred nanoseconds apart;
/// whether it is. For waits shorter than two context switches: who looks for no longer than those take has at most doubled
/// what the wait costs (Karlin et al., SODA 1990).
pub(crate) fn look_out(looks: u32, is_done: impl Fn() -> bool) -> bool {
    (0..looks).any(|_| {
        let done = is_done();
        if !done {
            (0..8).for_each(|_| std::hint::spin_loop());
        }
        done
    })
}

/// The kind of wait that admission is told; `None` keeps the place.
fn admission_kind(reason: WaitReason) -> Option<WaitKind> {
    match reason {
        WaitReason::DiskRead | WaitReason::PageLoad | WaitReason::FreeFrame | WaitReason::DiskWrite => {
            Some(WaitKind::Disk)
        }
        WaitReason::DiskSync | WaitReason::LogSync | WaitReason::RedoBuffer => Some(WaitKind::LogSync),
        WaitReason::RedoSpace | WaitReason::Close | WaitReason::Catalog | WaitReason::PendingSlot => {
            Some(WaitKind::User)
        }
        WaitReason::RowLock => Some(WaitKind::RowLock),
        // As short as a context switch, and the holder runs inside: leaving would cost more than it gives.
        WaitReason::PageLatch | WaitReason::LogWrite => None,
    }
}

/// A wait that goes on; its drop, on return or panic, ends it.
struct Waiting<'a> {
    waiter: &'a Waiter,
    reason: WaitReason,
    left: Option<(&'a Session, WaitKind)>,
    begun: Instant,
}

impl<'a> Waiting<'a> {
    /// Gives up the place, if the reason says so.
    fn begin(waiter: &'a Waiter, reason: WaitReason) -> Self {
        let left = waiter.admission.as_ref().zip(admission_kind(reason));
        if let Some((session, kind)) = left {
            session.wait_begin(kind);
        }
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

    /// With one place for all: the other could never enter if the wait kept it.
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
