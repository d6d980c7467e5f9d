//! The processor time of a thread: what a turn took, whatever its session waited for meanwhile.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reading of the running thread's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTime {
    thread: u64,
    ns: u64,
}

impl CpuTime {
    /// The running thread's, up to now. `None` under a model checker, where no time passes.
    pub(crate) fn now() -> Option<Self> {
        if cfg!(any(loom, shuttle, miri)) {
            return None;
        }
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let ns = u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?;
        Some(CpuTime { thread: this_thread(), ns })
    }

    /// Whose clock it is.
    pub(crate) fn thread(self) -> u64 {
        self.thread
    }

    /// The time since, if it is this thread's clock: a session can go from one thread to another, as in a pool.
    pub(crate) fn elapsed_ns(self) -> Option<u64> {
        let now = CpuTime::now().filter(|now| now.thread == self.thread)?;
        // A child of fork goes on with its parent's number, and a clock of its own.
        now.ns.checked_sub(self.ns)
    }
}

/// A number that no other thread has, or had; not 0.
fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local!(static OWN: Cell<u64> = const { Cell::new(0) });
    OWN.with(|own| {
        if own.get() == 0 {
            // Relaxed: numbers need only be different.
            own.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        own.get()
    })
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_work_and_says_nothing_of_another_thread() {
        let before = CpuTime::now().unwrap();
        while before.elapsed_ns().unwrap() < 100_000 {}
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(before.elapsed_ns(), None));
        });
    }
}
