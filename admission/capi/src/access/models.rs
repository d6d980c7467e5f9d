//! `RUSTFLAGS="--cfg loom" cargo test -p flifo-admission-c --lib models`: the access in every order of its steps.
//!
//! As in [`crate::table`], a place has a handle, which is cleared when its session is freed; here the handles are
//! 1, 2 and so on.

use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

struct Place {
    handle: AtomicUsize,
    access: Access,
    /// Stands for the session: the checker fails when two threads are in it at a time, and when one does
    /// not see what the other did before.
    calls: UnsafeCell<u32>,
}

// SAFETY: what this model is there to show.
unsafe impl Sync for Place {}
// SAFETY: as above.
unsafe impl Send for Place {}

impl Place {
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
        // SAFETY: the access is exclusive; the checker looks.
        self.calls.with_mut(|calls| unsafe { *calls += 1 });
    }

    /// 1 if it was not refused.
    fn call(&self, me: ThreadId, handle: usize) -> u32 {
        let Some(held) = self.begin(me, handle, true) else { return 0 };
        self.count();
        self.access.release(held);
        1
    }

    /// Frees the session; the place gets the next one, unless its handle is 0.
    fn free(&self, me: ThreadId, handle: usize, next: usize) -> u32 {
        let Some(held) = self.begin(me, handle, false) else { return 0 };
        self.handle.store(0, Ordering::Relaxed);
        self.count();
        self.access.reset(held);
        self.handle.store(next, Ordering::Release);
        1
    }
}

/// Thread 1 owns a session with the handle 1. Then every thread does its work, and when all have ended, nobody
/// may seem to be in a call, and a place without a session must be as new.
fn explore(
    threads: usize,
    preemptions: usize,
    work: impl Fn(&Place, ThreadId) -> u32 + Copy + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let place =
            Arc::new(Place { handle: AtomicUsize::new(1), access: Access::new(), calls: UnsafeCell::new(0) });
        let mut done = place.call(ThreadId(1), 1);
        assert_eq!(done, 1, "the first thread owns it");
        let others: Vec<_> = (2..=threads)
            .map(|n| {
                let place = Arc::clone(&place);
                thread::spawn(move || work(&place, ThreadId(n)))
            })
            .collect();
        done += work(&place, ThreadId(1));
        done += others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
        // SAFETY: all other threads are gone.
        assert_eq!(place.calls.with(|calls| unsafe { *calls }), done);
        match place.handle.load(Ordering::Relaxed) {
            0 => assert_eq!(
                place.access.owner.load(Ordering::Relaxed),
                UNOWNED,
                "a place of nobody's is owned"
            ),
            handle => {
                assert!(place.begin(ThreadId(9), handle, false).is_some(), "somebody seems to be in a call")
            }
        }
    });
}

#[test]
fn an_owner_and_one_who_takes_it() {
    explore(2, 4, |place, me| place.call(me, 1) + place.call(me, 1));
}

#[test]
fn an_owner_and_two_who_take_it() {
    explore(3, 2, |place, me| place.call(me, 1));
}

#[test]
fn an_owner_frees_while_another_calls() {
    explore(2, 5, |place, me| match me.0 {
        1 => place.free(me, 1, 2),
        _ => place.call(me, 1) + place.call(me, 2),
    });
}

#[test]
fn an_owner_frees_while_two_call() {
    explore(3, 2, |place, me| match me.0 {
        1 => place.free(me, 1, 2),
        2 => place.call(me, 1),
        _ => place.call(me, 2),
    });
}

#[test]
fn all_free_and_the_place_is_as_new() {
    explore(3, 2, |place, me| place.free(me, 1, 0));
}

#[test]
fn a_call_on_a_freed_session_owns_nothing() {
    explore(2, 5, |place, me| match me.0 {
        1 => place.free(me, 1, 0),
        _ => place.call(me, 1) + place.call(me, 1),
    });
}

#[test]
fn a_place_is_used_again_while_a_stale_owner_calls() {
    explore(3, 2, |place, me| match me.0 {
        1 => place.call(me, 1),
        2 => place.free(me, 1, 2) + place.call(me, 2),
        _ => place.call(me, 2),
    });
}
