//! Who may use a session now: one call at a time, whatever its callers do.
//!
//! A session that stays on one thread, as most do, must not pay an atomic exchange for a ticket that costs a
//! nanosecond. So the first thread to enter *owns* the session: its calls only mark that they are under way, with
//! plain stores. The first other thread that comes takes the ownership away, which costs it a system call, and
//! from then on every call locks the session by an exchange.
//!
//! | owner | meaning | who changes it |
//! |---|---|---|
//! | `UNOWNED` | nobody has entered yet, nobody is in a call | any caller, to `LOCKED` |
//! | `LOCKED` | a thread finds out whether it may call, and how | that thread, to anything |
//! | an [`Owner`] | its thread owns it: a call is under way if it is marked | any other caller, to `LOCKED`; itself, in its last call, to `UNOWNED` |
//! | `SHARED` | no owner any more, nobody is in a call | any caller, to `LOCKED` |
//! | `HELD` | somebody is in a call | that thread, to `SHARED` or `UNOWNED` |
//!
//! An owner marks its call, then looks whether it still owns the session; whoever takes the ownership stores
//! `LOCKED`, then looks at the mark: with the fences of [`crate::fence`] between, one of them sees the other
//! (Dekker). Both may: then the other is refused and gives the ownership back, and the owner waits for that.
//!
//! Only the one who locked it changes a `LOCKED` session. That binds an owner in its last call, too: it marks the
//! session as without an owner by an exchange, lest one who looks at it just then gives it back to a thread that
//! is gone.
//!
//! The place of a session is used again, and a caller may be late: it has seen the session alive, and gets at
//! another one. So it looks again when it has locked it, and leaves everything as it was if that is not its own.

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

/// The session is in another call, or is not the one that was meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// How a call got the session, to be given back by [`Access::release`].
#[derive(Clone, Copy)]
#[must_use]
pub(crate) enum Held {
    /// As its owner.
    Owned(&'static Owner),
    /// Before it had an owner, and leaving it so.
    Unowned,
    /// By exchange.
    Shared,
}

/// The word in which the table stands. A new session's is `UNOWNED`: all bytes zero.
pub(crate) struct Access {
    owner: AtomicPtr<Owner>,
}

/// The owner, if that is what the word says.
#[inline(always)]
fn owner(word: *mut Owner) -> Option<&'static Owner> {
    // SAFETY: what is no number is the address of a record, which is never freed, and only shared.
    (word.addr() > HELD.addr()).then(|| unsafe { &*word })
}

impl Access {
    #[cfg(test)]
    fn new() -> Self {
        Access { owner: AtomicPtr::new(UNOWNED) }
    }

    /// Begins a call on the session that `me` owns.
    #[inline(always)]
    pub(crate) fn try_owned(&self, me: ThreadId) -> Option<&'static Owner> {
        // Acquire: for its record. Only this thread can have made itself the owner, so it knows what it did.
        let word = self.owner.load(Ordering::Acquire);
        let mine = owner(word).filter(|owner| owner.thread == me)?;
        mine.mark(self);
        if self.owner.load(Ordering::Relaxed) == word {
            return Some(mine);
        }
        mine.clear();
        None
    }

    /// Begins a call. `claim` makes the caller the owner of a session that has none. `lives` says whether it is
    /// still the session that was meant.
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
            let seen = self.owner.load(Ordering::Acquire);
            match owner(seen) {
                Some(owner) if owner.thread == me => continue, // Somebody failed to take it.
                Some(owner) if owner.is_in(self) => return Err(Refused), // Without the system call.
                None if seen == HELD => return Err(Refused),
                None if seen == LOCKED => {
                    // Not for long: for a look at the handle, and a system call.
                    yield_now();
                    continue;
                }
                _ => {}
            }
            // Acquire: what the call before did is visible.
            if self.owner.compare_exchange(seen, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                break seen;
            }
        };
        // Another session; or the owner is in a call, or nobody knows.
        if !lives() || owner(seen).is_some_and(|owner| !fence::heavy() || owner.is_in(self)) {
            self.owner.store(seen, Ordering::Release);
            return Err(Refused);
        }
        if seen == UNOWNED && !claim {
            self.owner.store(HELD, Ordering::Relaxed);
            return Ok(Held::Unowned);
        }
        if seen == UNOWNED
            && let Some(mine) = Owner::of(me)
        {
            // Marked before it can be seen that there is an owner.
            mine.mark(self);
            self.owner.store(ptr::from_ref(mine).cast_mut(), Ordering::Release);
            return Ok(Held::Owned(mine));
        }
        self.owner.store(HELD, Ordering::Relaxed);
        Ok(Held::Shared)
    }

    /// Ends a call. Release: the next call sees what this one did.
    #[inline(always)]
    pub(crate) fn release(&self, held: Held) {
        match held {
            Held::Owned(owner) => owner.clear(),
            Held::Unowned => self.owner.store(UNOWNED, Ordering::Release),
            Held::Shared => self.owner.store(SHARED, Ordering::Release),
        }
    }

    /// Ends the last call on a session: the next session in this place begins without an owner.
    pub(crate) fn reset(&self, held: Held) {
        let Held::Owned(owner) = held else {
            return self.owner.store(UNOWNED, Ordering::Release);
        };
        let word = ptr::from_ref(owner).cast_mut();
        // Whoever has locked it finds this call's mark, and gives it back.
        while self.owner.compare_exchange(word, UNOWNED, Ordering::Release, Ordering::Relaxed).is_err() {
            yield_now();
        }
        owner.clear();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    // A thread is in one call at a time, and tests run side by side: each has threads of its own.
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
        assert_eq!(access.owner.into_inner(), UNOWNED);
    }

    #[test]
    fn who_finds_another_session_leaves_everything_as_it_was() {
        let access = Access::new();
        let late = |me| access.acquire(me, true, || false).is_err();
        assert!(late(C));
        assert_eq!(access.owner.load(Ordering::Relaxed), UNOWNED);
        let held = acquire(&access, C, true).unwrap();
        access.release(held);
        let owner = access.owner.load(Ordering::Relaxed);
        assert!(late(D));
        assert_eq!(access.owner.load(Ordering::Relaxed), owner);
        let held = acquire(&access, D, true).unwrap();
        access.release(held);
        assert!(late(C));
        assert_eq!(access.owner.load(Ordering::Relaxed), SHARED);
    }
}

#[cfg(all(test, loom))]
mod models;
