//! Exclusive access to a session: one call at a time, whatever the callers do.
//!
//! Most sessions stay on one thread. They must not pay an atomic exchange for a ticket that costs a nanosecond. So the
//! first thread to enter *owns* the session: its calls only mark that they are under way, with plain stores. The first
//! call from another thread takes the ownership away, which costs that thread a system call. From then on every call
//! locks the session by an exchange.
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | `UNOWNED` | no thread has entered yet, no call is under way | any caller, to `LOCKED` |
//! | `LOCKED` | a thread determines whether it may call, and how | that thread, to any state |
//! | an [`Owner`] | its thread owns the session; a call is under way if it is marked | any other caller, to `LOCKED`; the owner, in its last call, to `UNOWNED` |
//! | `SHARED` | the owner has lost the session, no call is under way | any caller, to `LOCKED` |
//! | `HELD` | a call is under way | its thread, to `SHARED` or `UNOWNED` |
//!
//! # Protocol
//!
//! An owner marks its call, then checks that it still owns the session. Another thread stores `LOCKED`, then reads the
//! mark. With the fences of [`crate::fence`] in between, at least one of the two sees the other (Dekker's algorithm). If
//! both do, the other thread is refused and restores the ownership, and the owner waits for that.
//!
//! Only the thread that locked a `LOCKED` session changes it. This also binds an owner in its last call: it stores
//! `UNOWNED` by an exchange, so that a thread that has locked the session cannot restore an ownership that has ended.
//!
//! The cell of a session is reused, and a caller may be late: it found its session alive, and locks the next session in
//! that cell. So it checks again after locking, and restores the word if the session is not its own.

use crate::fence;
use crate::owner::{Owner, ThreadId};
#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, Ordering};
#[cfg(loom)]
use loom::thread::yield_now;
use std::ptr;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, Ordering};
#[cfg(not(loom))]
use std::thread::yield_now;

const UNOWNED: *mut Owner = ptr::null_mut();
const LOCKED: *mut Owner = ptr::without_provenance_mut(1);
const SHARED: *mut Owner = ptr::without_provenance_mut(2);
const HELD: *mut Owner = ptr::without_provenance_mut(3);

/// The session is in another call, or was freed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// How a call got the access; [`Access::release`] takes it back.
#[derive(Clone, Copy)]
#[must_use]
pub(crate) enum Held {
    /// As the session's owner.
    Owned(&'static Owner),
    /// The session has no owner yet, and the call makes none.
    Unowned,
    /// By exchange: the owner has lost the session.
    Shared,
}

/// The word of the module's table. A new session's word is `UNOWNED`: all bytes zero.
pub(crate) struct Access {
    word: AtomicPtr<Owner>,
}

/// Returns the owner that the word names, if any.
#[inline(always)]
fn owner(word: *mut Owner) -> Option<&'static Owner> {
    // SAFETY: a word above `HELD` is the address of a record, which is never freed and only shared.
    (word.addr() > HELD.addr()).then(|| unsafe { &*word })
}

impl Access {
    #[cfg(test)]
    fn new() -> Self {
        Access { word: AtomicPtr::new(UNOWNED) }
    }

    /// Begins a call if `me` owns the session.
    #[inline(always)]
    pub(crate) fn try_owned(&self, me: ThreadId) -> Option<&'static Owner> {
        // Acquire: for the record's content. Only this thread makes itself the owner, so it sees its own calls.
        let word = self.word.load(Ordering::Acquire);
        let mine = owner(word).filter(|owner| owner.thread == me)?;
        mine.mark(self);
        if self.word.load(Ordering::Relaxed) == word {
            return Some(mine);
        }
        mine.clear();
        None
    }

    /// Begins a call. `claim` makes the caller the owner of a session that has none. `lives` returns whether the cell
    /// still holds the caller's session.
    pub(crate) fn acquire(
        &self,
        me: ThreadId,
        claim: bool,
        lives: impl Fn() -> bool,
    ) -> Result<Held, Refused> {
        let seen = loop {
            if let Some(owner) = self.try_owned(me) {
                return Ok(Held::Owned(owner));
            }
            let seen = self.word.load(Ordering::Acquire);
            match owner(seen) {
                Some(owner) if owner.thread == me => continue, // Another thread tried to take it, and restored it.
                Some(owner) if owner.is_in(self) => return Err(Refused), // Saves the system call.
                None if seen == HELD => return Err(Refused),
                None if seen == LOCKED => {
                    // Brief: the other thread checks a handle and makes a system call.
                    yield_now();
                    continue;
                }
                _ => {}
            }
            // Acquire: the effects of the previous call are visible.
            if self.word.compare_exchange(seen, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                break seen;
            }
        };
        // Another session, or the owner is in a call, or the fence failed and may hide such a call.
        if !lives() || owner(seen).is_some_and(|owner| !fence::heavy() || owner.is_in(self)) {
            self.word.store(seen, Ordering::Release);
            return Err(Refused);
        }
        if seen == UNOWNED && !claim {
            self.word.store(HELD, Ordering::Relaxed);
            return Ok(Held::Unowned);
        }
        if seen == UNOWNED
            && let Some(mine) = Owner::of(me)
        {
            // Marked before other threads can see the owner.
            mine.mark(self);
            self.word.store(ptr::from_ref(mine).cast_mut(), Ordering::Release);
            return Ok(Held::Owned(mine));
        }
        self.word.store(HELD, Ordering::Relaxed);
        Ok(Held::Shared)
    }

    /// Ends a call. Release: the next call sees the effects of this one.
    #[inline(always)]
    pub(crate) fn release(&self, held: Held) {
        match held {
            Held::Owned(owner) => owner.clear(),
            Held::Unowned => self.word.store(UNOWNED, Ordering::Release),
            Held::Shared => self.word.store(SHARED, Ordering::Release),
        }
    }

    /// Ends the last call on a session: the next session in this cell begins without an owner.
    pub(crate) fn reset(&self, held: Held) {
        let Held::Owned(owner) = held else {
            return self.word.store(UNOWNED, Ordering::Release);
        };
        let word = ptr::from_ref(owner).cast_mut();
        // A thread that has locked the session finds this call's mark and restores the word.
        while self.word.compare_exchange(word, UNOWNED, Ordering::Release, Ordering::Relaxed).is_err() {
            yield_now();
        }
        owner.clear();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // A thread is in one call at a time, and tests run in parallel: each test has threads of its own.
    const A: ThreadId = ThreadId(0x1000);
    const B: ThreadId = ThreadId(0x2000);
    const C: ThreadId = ThreadId(0x3000);
    const D: ThreadId = ThreadId(0x4000);

    fn acquire(access: &Access, me: ThreadId, claim: bool) -> Result<Held, Refused> {
        access.acquire(me, claim, || true)
    }

    fn is_owned(held: Held) -> bool {
        matches!(held, Held::Owned(_))
    }

    #[test]
    fn an_owner_is_made_by_the_first_claim_and_lost_to_the_first_other_thread() {
        let access = Access::new();
        let held = acquire(&access, B, false).unwrap();
        assert!(matches!(held, Held::Unowned));
        assert!(acquire(&access, A, true).is_err(), "B is in a call");
        access.release(held);
        let held = acquire(&access, A, true).unwrap();
        assert_eq!(is_owned(held), fence::available());
        assert!(acquire(&access, B, true).is_err(), "A is in a call");
        access.release(held);
        let again = access.try_owned(A);
        assert_eq!(again.is_some(), fence::available());
        again.into_iter().for_each(|owner| access.release(Held::Owned(owner)));
        let held = acquire(&access, B, true).unwrap();
        assert!(matches!(held, Held::Shared));
        assert!(acquire(&access, A, true).is_err(), "B is in a call");
        access.release(held);
        assert!(access.try_owned(A).is_none());
        let held = acquire(&access, A, true).unwrap();
        assert!(matches!(held, Held::Shared));
        access.reset(held);
        let held = acquire(&access, B, true).unwrap();
        assert_eq!(is_owned(held), fence::available());
        access.reset(held);
        assert_eq!(access.word.into_inner(), UNOWNED);
    }

    #[test]
    fn a_call_on_a_freed_session_changes_nothing() {
        let access = Access::new();
        let late = |me| access.acquire(me, true, || false).is_err();
        assert!(late(C));
        assert_eq!(access.word.load(Ordering::Relaxed), UNOWNED);
        let held = acquire(&access, C, true).unwrap();
        access.release(held);
        let owner = access.word.load(Ordering::Relaxed);
        assert!(late(D));
        assert_eq!(access.word.load(Ordering::Relaxed), owner);
        let held = acquire(&access, D, true).unwrap();
        access.release(held);
        assert!(late(C));
        assert_eq!(access.word.load(Ordering::Relaxed), SHARED);
    }
}

#[cfg(all(test, loom))]
mod models;
