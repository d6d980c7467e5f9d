//! Typical handwritten semaphores.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use flifo_base::{lock, unpoison};
use rustix::thread::futex;

use super::Limiter;

/// A count of free slots under a mutex, and a condition variable for threads that find none.
pub(crate) struct MutexCondvarGate {
    free: Mutex<u32>,
    freed: Condvar,
}

impl MutexCondvarGate {
    pub(super) fn new(limit: u32) -> Self {
        MutexCondvarGate { free: Mutex::new(limit), freed: Condvar::new() }
    }
}

/// A thread's way through a [`MutexCondvarGate`].
pub(crate) struct MutexCondvar(pub(crate) Arc<MutexCondvarGate>);

impl Limiter for MutexCondvar {
    fn enter(&self) {
        *unpoison(self.0.freed.wait_while(lock(&self.0.free), |free| *free == 0)) -= 1;
    }

    fn exit(&self) {
        *lock(&self.0.free) += 1;
        self.0.freed.notify_one();
    }
}

/// A count of free slots that threads sleep on.
///
/// | word | meaning | why its orders suffice |
/// |---|---|---|
/// | `free` | free slots | taken with acquire, returned with release: a thread sees the earlier actions in its slot |
/// | `sleepers` | threads that sleep on `free`, or are about to | with `free`, sequentially consistent: an exit frees its slot and then reads `sleepers`, a sleeper counts itself and then reads `free`, so one of the two sees the other |
pub(crate) struct FutexGate {
    free: AtomicU32,
    sleepers: AtomicU32,
}

impl FutexGate {
    pub(super) fn new(limit: u32) -> Self {
        FutexGate { free: AtomicU32::new(limit), sleepers: AtomicU32::new(0) }
    }

    fn try_take(&self) -> bool {
        let take = |free: u32| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }

    #[cold]
    fn sleep_until_taken(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !self.try_take() {
            // Every error (changed word, signal) means: look again.
            let _ = futex::wait(&self.free, futex::Flags::PRIVATE, 0, None);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread's way through a [`FutexGate`].
pub(crate) struct Futex(pub(crate) Arc<FutexGate>);

impl Limiter for Futex {
    #[inline]
    fn enter(&self) {
        if !self.0.try_take() {
            self.0.sleep_until_taken();
        }
    }

    #[inline]
    fn exit(&self) {
        self.0.free.fetch_add(1, Ordering::SeqCst);
        if self.0.sleepers.load(Ordering::SeqCst) > 0 {
            // Waking a valid, aligned word cannot fail; it does not matter which thread wakes.
            let _ = futex::wake(&self.0.free, futex::Flags::PRIVATE, 1);
        }
    }
}
