//! The access in every interleaving of its steps: `RUSTFLAGS="--cfg loom" cargo test -p flifo-admission-c --lib models`.
//!
//! As in [`crate::table`], a cell has a handle, which is cleared when its session is freed; here the handles are 1, 2
//! and so on.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

struct Cell {
    handle: AtomicUsize,
    access: Access,
    /// Stands for the session: the checker fails if two threads access it at a time, or if a thread does not see what
    /// the thread before it did.
    calls: UnsafeCell<u32>,
}

// SAFETY: the access is exclusive; this is what the model checks.
unsafe impl Sync for Cell {}
// SAFETY: as above.
unsafe impl Send for Cell {}

impl Cell {
    fn begin(&self, me: ThreadId, handle: usize, claim: bool) -> Option<Held> {
        if self.handle.load(Ordering::Relaxed) == handle
            && let Some(owner) = self.access.try_owned(me)
        {
            return Some(Held::Owned(owner));
        }
        let lives = || self.handle.load(Ordering::Acquire) == handle;
        lives().then(|| self.access.acquire(me, claim, lives).ok())?
    }

    fn count(&self) {
        // SAFETY: the access is exclusive; the checker verifies it.
        self.calls.with_mut(|calls| unsafe { *calls += 1 });
    }

    /// Returns 1 if the call was not refused.
    fn call(&self, me: ThreadId, handle: usize) -> u32 {
        let Some(held) = self.begin(me, handle, true) else { return 0 };
        self.count();
        self.access.release(held);
        1
    }

    /// Frees the session; the cell gets the session `next` unless that is 0. Returns 1 if it was not refused.
    fn free(&self, me: ThreadId, handle: usize, next: usize) -> u32 {
        let Some(held) = self.begin(me, handle, false) else { return 0 };
        self.handle.store(0, Ordering::Relaxed);
        self.count();
        self.access.reset(held);
        self.handle.store(next, Ordering::Release);
        1
    }
}

/// Runs `work` in every thread after thread 1 has become the owner of the session 1.
///
/// When all threads have ended, no call may seem to be under way, and a cell without a session must be as new.
fn explore(
    threads: usize,
    preemptions: usize,
    work: impl Fn(&Cell, ThreadId) -> u32 + Copy + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let cell =
            Arc::new(Cell { handle: AtomicUsize::new(1), access: Access::new(), calls: UnsafeCell::new(0) });
        let mut done = cell.call(ThreadId(1), 1);
        assert_eq!(done, 1, "the first thread owns it");
        let others: Vec<_> = (2..=threads)
            .map(|n| {
                let cell = Arc::clone(&cell);
                thread::spawn(move || work(&cell, ThreadId(n)))
            })
            .collect();
        done += work(&cell, ThreadId(1));
        done += others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
        // SAFETY: all other threads are gone.
        assert_eq!(cell.calls.with(|calls| unsafe { *calls }), done);
        match cell.handle.load(Ordering::Relaxed) {
            0 => assert_eq!(
                cell.access.word.load(Ordering::Relaxed),
                UNOWNED,
                "a cell without a session is owned"
            ),
            handle => {
                assert!(cell.begin(ThreadId(9), handle, false).is_some(), "a call seems to be under way")
            }
        }
    });
}

#[test]
fn an_owner_and_a_thread_that_takes_the_session() {
    explore(2, 4, |cell, me| cell.call(me, 1) + cell.call(me, 1));
}

#[test]
fn an_owner_and_two_threads_that_take_the_session() {
    explore(3, 2, |cell, me| cell.call(me, 1));
}

#[test]
fn an_owner_frees_while_another_calls() {
    explore(2, 5, |cell, me| match me.0 {
        1 => cell.free(me, 1, 2),
        _ => cell.call(me, 1) + cell.call(me, 2),
    });
}

#[test]
fn an_owner_frees_while_two_call() {
    explore(3, 2, |cell, me| match me.0 {
        1 => cell.free(me, 1, 2),
        2 => cell.call(me, 1),
        _ => cell.call(me, 2),
    });
}

#[test]
fn all_free_and_the_cell_is_as_new() {
    explore(3, 2, |cell, me| cell.free(me, 1, 0));
}

#[test]
fn a_call_on_a_freed_session_owns_nothing() {
    explore(2, 5, |cell, me| match me.0 {
        1 => cell.free(me, 1, 0),
        _ => cell.call(me, 1) + cell.call(me, 1),
    });
}

#[test]
fn a_cell_is_used_again_while_a_stale_owner_calls() {
    explore(3, 2, |cell, me| match me.0 {
        1 => cell.call(me, 1),
        2 => cell.free(me, 1, 2) + cell.call(me, 2),
        _ => cell.call(me, 2),
    });
}
