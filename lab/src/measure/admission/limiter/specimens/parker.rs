//! A thread's sleep until another thread wakes it.

use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

/// Where one thread sleeps. `woken` is 1 from the wake-up until the thread prepares for its next sleep.
#[derive(Default)]
pub(super) struct Parker {
    woken: AtomicU32,
}

impl Parker {
    /// Forgets the last wake-up. Comes before the thread is put where others find it.
    pub(super) fn prepare(&self) {
        // Relaxed: the lock under which others find the thread orders it.
        self.woken.store(0, Ordering::Relaxed);
    }

    /// Sleeps until [`Parker::wake`].
    pub(super) fn sleep(&self) {
        while self.woken.load(Ordering::Acquire) == 0 {
            // Every error (changed word, signal) means: look again.
            let _ = futex::wait(&self.woken, futex::Flags::PRIVATE, 0, None);
        }
    }

    /// Wakes the thread that sleeps here, or is about to.
    pub(super) fn wake(&self) {
        self.woken.store(1, Ordering::Release);
        // Waking a valid, aligned word cannot fail.
        let _ = futex::wake(&self.woken, futex::Flags::PRIVATE, 1);
    }
}
