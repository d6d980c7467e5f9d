//! Who may use a session now: one call at a time, whatever its callers do.
//!
//! A session that stays on one thread, as most do, must not pay an atomic exchange for a ticket that costs a
//! nanosecond. So the first thread to enter *owns* the session: its calls only mark it busy with plain stores.
//! The first other thread that comes takes the ownership away, which costs it a system call, and from then on
//! every call locks the session by an exchange.
//!
//! | owner | meaning | who changes it |
//! |---|---|---|
//! | `UNOWNED` | nobody has entered yet, nobody is in a call | any caller, to `LOCKED` or `HELD` |
//! | `LOCKED` | somebody is in a call, or takes the ownership | that thread |
//! | a thread | its thread owns it: a call is under way if `busy` | another thread, to `LOCKED` |
//! | `SHARED` | no owner any more, nobody is in a call | any caller, to `HELD` |
//! | `HELD` | somebody is in a call | that thread, to `SHARED` |
//!
//! An owner stores `busy`, then looks whether it still owns the session; whoever takes the ownership stores
//! `LOCKED`, then looks at `busy`: with the fences of [`crate::fence`] between, one of them sees the other
//! (Dekker). Both may: then the other is refused and gives the ownership back, and the owner waits for that.
//!
//! `busy` is stored with plain stores by a thread that may have lost the ownership a moment ago. Therefore a
//! thread that finds it lost leaves `busy` set: a cleared mark, if it were another's, would let two in. But it
//! does not go away while the session is `LOCKED`: if it gets the ownership back, its call goes on and clears the
//! mark, and if not, the mark means nothing, since `busy` counts only with an owner. An owner that went away, and
//! ended, would leave a session in use for ever.

use crate::fence;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(loom)]
use loom::thread::yield_now;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::thread::yield_now;

const UNOWNED: usize = 0;
const LOCKED: usize = 1;
const SHARED: usize = 2;
const HELD: usize = 3;

/// A thread that is alive, as a number above 3 that no other living thread has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadId(pub(crate) usize);

impl ThreadId {
    /// The calling thread: the address of its control block.
    #[inline(always)]
    #[cfg(all(not(loom), target_os = "linux", target_arch = "x86_64", not(miri)))]
    pub(crate) fn mine() -> Self {
        let address: usize;
        // SAFETY: the ABI of x86-64 has the thread control block's own address in its first word, at fs:0. A
        // thread-local variable would do, too, but costs a call in a shared library.
        unsafe {
            std::arch::asm!("mov {}, fs:0", out(reg) address, options(nostack, pure, readonly, preserves_flags));
        }
        ThreadId(address)
    }

    /// The calling thread: the address of something of its own.
    #[cfg(all(not(loom), not(all(target_os = "linux", target_arch = "x86_64", not(miri)))))]
    pub(crate) fn mine() -> Self {
        std::thread_local!(static MINE: u64 = const { 0 });
        MINE.with(|mine| ThreadId(std::ptr::from_ref(mine).addr()))
    }
}

/// The session is in another call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InUse;

/// How a call got the session, to be given back by [`Access::release`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Held {
    /// As its owner.
    Owned,
    /// Before it had an owner, and leaving it so.
    Unowned,
    /// By exchange.
    Shared,
}

/// Whether a call began as the owner's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owned {
    Yes,
    /// It is another thread's session, or nobody's.
    No,
    /// It was this thread's until this very call, which has left its mark in `busy`.
    Lost,
}

/// The word in which the table stands. A new session's, and the default, is `UNOWNED`: all bytes zero.
pub(crate) struct Access {
    owner: AtomicUsize,
    busy: AtomicU32,
}

impl Access {
    #[cfg(test)]
    fn new() -> Self {
        Access { owner: AtomicUsize::new(UNOWNED), busy: AtomicU32::new(0) }
    }

    /// Begins a call on the session that `me` owns.
    ///
    /// Relaxed: only this thread can have made itself the owner, so it knows all that happened before.
    #[inline(always)]
    pub(crate) fn try_owned(&self, me: ThreadId) -> Owned {
        if self.owner.load(Ordering::Relaxed) != me.0 {
            return Owned::No;
        }
        self.busy.store(1, Ordering::Relaxed);
        fence::light();
        if self.owner.load(Ordering::Relaxed) == me.0 { Owned::Yes } else { Owned::Lost }
    }

    /// Begins a call. `claim` makes the caller the owner of a session that has none; `lost`: its
    /// [`Access::try_owned`] said so a moment ago.
    pub(crate) fn acquire(&self, me: ThreadId, claim: bool, mut lost: bool) -> Result<Held, InUse> {
        loop {
            match self.try_owned(me) {
                Owned::Yes => return Ok(Held::Owned),
                Owned::Lost => lost = true,
                Owned::No => {}
            }
            // Acquire on every way in: what the call before did is visible.
            let (seen, locked) = match self.owner.load(Ordering::Acquire) {
                LOCKED if lost => {
                    // Not for long: whoever takes the ownership makes one system call, and a call on a session
                    // without an owner does not sleep.
                    yield_now();
                    continue;
                }
                LOCKED | HELD => return Err(InUse),
                SHARED => (SHARED, HELD),
                UNOWNED if claim && !fence::available() => (UNOWNED, HELD),
                owner if owner == me.0 => continue, // Somebody failed to take it.
                owner => (owner, LOCKED),
            };
            if seen > HELD && self.busy.load(Ordering::Acquire) != 0 {
                return Err(InUse); // Without the system call.
            }
            if self.owner.compare_exchange(seen, locked, Ordering::Acquire, Ordering::Relaxed).is_err() {
                continue;
            }
            return match seen {
                _ if locked == HELD => Ok(Held::Shared),
                UNOWNED if claim => {
                    // Busy before it can be seen that there is an owner.
                    self.busy.store(1, Ordering::Relaxed);
                    self.owner.store(me.0, Ordering::Release);
                    Ok(Held::Owned)
                }
                UNOWNED => Ok(Held::Unowned),
                owner => self.take_from(owner),
            };
        }
    }

    /// Takes the ownership of a session that this thread has locked away.
    fn take_from(&self, owner: usize) -> Result<Held, InUse> {
        // Acquire: what the owner did in its last call is visible.
        if fence::heavy() && self.busy.load(Ordering::Acquire) == 0 {
            self.owner.store(HELD, Ordering::Relaxed);
            return Ok(Held::Shared);
        }
        self.owner.store(owner, Ordering::Release);
        Err(InUse)
    }

    /// Ends a call. Release: the next call sees what this one did.
    #[inline(always)]
    pub(crate) fn release(&self, held: Held) {
        match held {
            Held::Owned => self.busy.store(0, Ordering::Release),
            Held::Unowned => self.owner.store(UNOWNED, Ordering::Release),
            Held::Shared => self.owner.store(SHARED, Ordering::Release),
        }
    }

    /// Ends the last call on a session: the next session in this place begins without an owner.
    pub(crate) fn reset(&self, _held: Held) {
        self.owner.store(UNOWNED, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const A: ThreadId = ThreadId(0x1000);
    const B: ThreadId = ThreadId(0x2000);

    #[test]
    fn an_owner_is_made_by_the_first_claim_and_lost_to_the_first_other_thread() {
        let access = Access::new();
        let held = access.acquire(B, false, false).unwrap();
        assert_eq!(held, Held::Unowned);
        assert_eq!(access.acquire(A, true, false), Err(InUse));
        access.release(held);
        let held = access.acquire(A, true, false).unwrap();
        let owned = if fence::available() { Held::Owned } else { Held::Shared };
        assert_eq!(held, owned);
        assert_eq!(access.acquire(B, true, false), Err(InUse), "A is in a call");
        access.release(held);
        assert_eq!(access.try_owned(A) == Owned::Yes, fence::available());
        access.release(owned);
        let held = access.acquire(B, true, false).unwrap();
        assert_eq!(held, Held::Shared);
        assert_eq!(access.acquire(A, true, false), Err(InUse), "B is in a call");
        access.release(held);
        assert_eq!(access.try_owned(A), Owned::No);
        let held = access.acquire(A, true, false).unwrap();
        assert_eq!(held, Held::Shared);
        access.reset(held);
        assert_eq!(access.acquire(B, true, false).unwrap(), owned);
    }

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = ThreadId::mine();
        assert!(mine.0 > HELD && mine == ThreadId::mine());
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| ThreadId::mine() != mine).join().unwrap());
        });
    }
}

/// `RUSTFLAGS="--cfg loom" cargo test -p flifo-admission-c --lib models`
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Guarded {
        access: Access,
        /// Stands for the session: the checker fails when two threads are in it at a time, and when one does
        /// not see what the other did before.
        calls: UnsafeCell<u32>,
        /// Not 0: another session took the place of the first.
        reused: AtomicU32,
    }

    // SAFETY: what this model is there to show.
    unsafe impl Sync for Guarded {}
    // SAFETY: as above.
    unsafe impl Send for Guarded {}

    impl Guarded {
        fn new() -> Arc<Self> {
            Arc::new(Guarded { access: Access::new(), calls: UnsafeCell::new(0), reused: AtomicU32::new(0) })
        }

        fn call(&self, me: ThreadId, claim: bool) -> bool {
            let Ok(held) = self.access.acquire(me, claim, false) else { return false };
            // SAFETY: the access is exclusive; the checker looks.
            self.calls.with_mut(|calls| unsafe { *calls += 1 });
            self.access.release(held);
            true
        }

        fn reused(&self) -> bool {
            self.reused.load(Ordering::Relaxed) != 0
        }

        fn reuse(&self, me: ThreadId) -> bool {
            let Ok(held) = self.access.acquire(me, false, false) else { return false };
            self.reused.store(1, Ordering::Relaxed);
            // SAFETY: as above.
            self.calls.with_mut(|calls| unsafe { *calls += 1 });
            self.access.reset(held);
            true
        }
    }

    fn thread_id(n: usize) -> ThreadId {
        ThreadId(0x1000 * n)
    }

    fn explore(
        threads: usize,
        preemptions: usize,
        work: impl Fn(&Guarded, ThreadId) -> u32 + Copy + Send + Sync + 'static,
    ) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.check(move || {
            let guarded = Guarded::new();
            assert!(guarded.call(thread_id(1), true), "the first thread owns it");
            let others: Vec<_> = (2..=threads)
                .map(|n| {
                    let guarded = Arc::clone(&guarded);
                    thread::spawn(move || work(&guarded, thread_id(n)))
                })
                .collect();
            let mut done = 1 + work(&guarded, thread_id(1));
            done += others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
            // SAFETY: all other threads are gone.
            assert_eq!(guarded.calls.with(|calls| unsafe { *calls }), done);
            // A stale owner's mark on a session that came after its own refuses wrongly: nobody else's fault.
            assert!(
                guarded.reused() || guarded.call(thread_id(9), false),
                "it looks as if somebody were in a call"
            );
        });
    }

    #[test]
    fn an_owner_and_one_who_takes_it() {
        explore(2, 5, |guarded, me| u32::from(guarded.call(me, true)) + u32::from(guarded.call(me, true)));
    }

    #[test]
    fn an_owner_and_two_who_take_it() {
        explore(3, 2, |guarded, me| u32::from(guarded.call(me, true)));
    }

    #[test]
    fn a_place_is_used_again_while_a_stale_owner_calls() {
        explore(3, 2, |guarded, me| match me.0 {
            0x1000 => u32::from(guarded.call(me, true)),
            0x2000 => u32::from(guarded.reuse(me)) + u32::from(guarded.call(me, true)),
            _ => u32::from(guarded.call(me, true)),
        });
    }
}
