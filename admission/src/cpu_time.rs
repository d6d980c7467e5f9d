//! The processor time of a thread: what a turn took, whatever its session waited for meanwhile.

use std::cell::Cell;

/// A reading of the running thread's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuTime {
    thread: usize,
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
    pub(crate) fn thread(self) -> usize {
        self.thread
    }

    /// The time since, if it is this thread's clock: a session can go from one thread to another, as in a pool.
    pub(crate) fn elapsed_ns(self) -> Option<u64> {
        let now = CpuTime::now().filter(|now| now.thread == self.thread)?;
        // A thread that has ended since may have left its number to this one.
        now.ns.checked_sub(self.ns)
    }
}

/// A number that no other running thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: Cell<u8> = const { Cell::new(0) });
    HERE.with(|here| std::ptr::from_ref(here).addr())
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
