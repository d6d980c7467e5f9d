//! Threads that own sessions: each marks the call that it is in.
//!
//! The mark belongs to the thread, and no other thread writes it. If it were in the session, a thread that has just
//! lost the session could still write it at any later time, over the mark of the owner of the next session in that
//! cell.
//!
//! An [`Owner`] is never freed, since another thread may read the mark of a thread that has ended. A new thread with
//! the number of an ended thread gets that thread's record, so there are about as many records as threads at a time.

use crate::fence;
#[cfg(loom)]
use loom::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicUsize, Ordering};

/// A live thread, as a number above 0 that no other live thread has.
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

    /// The calling thread: the address of a thread-local variable.
    #[cfg(all(not(loom), not(all(target_os = "linux", target_arch = "x86_64", not(miri)))))]
    pub(crate) fn mine() -> Self {
        std::thread_local!(static MINE: u64 = const { 0 });
        MINE.with(|mine| ThreadId(std::ptr::from_ref(mine).addr()))
    }
}

/// A thread that may own sessions. On cache lines of its own: each call writes it.
#[repr(align(128))]
pub(crate) struct Owner {
    pub(crate) thread: ThreadId,
    /// The address of the session that the thread, as its owner, is in a call on or about to be; 0: none. Calls do not
    /// nest, so one address suffices. Only the thread writes it, with plain stores.
    ///
    /// Every store is a release: a thread that reads any value sees all calls that ended before that store.
    session: AtomicUsize,
}

impl Owner {
    fn new(thread: ThreadId) -> Self {
        Owner { thread, session: AtomicUsize::new(0) }
    }

    /// Marks a call on a session. The caller then checks that this thread still owns the session.
    #[inline(always)]
    pub(crate) fn mark<T>(&self, session: &T) {
        self.session.store(std::ptr::from_ref(session).addr(), Ordering::Release);
        fence::light();
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.session.store(0, Ordering::Release);
    }

    /// Whether the thread is in a call on this session. False is final only if the caller locked the session and then
    /// called [`fence::heavy`].
    pub(crate) fn is_in<T>(&self, session: &T) -> bool {
        self.session.load(Ordering::Acquire) == std::ptr::from_ref(session).addr()
    }
}

#[cfg(not(loom))]
mod imp {
    use super::{Owner, ThreadId};
    use crate::fence;
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use flifo_base::lock;

    /// Maximum number of records, 16 MiB of them. Further threads own no session and lock by exchange.
    const OWNERS_MAX: usize = 1 << 17;

    /// The records, by thread.
    static OWNERS: Mutex<BTreeMap<usize, &'static Owner>> = Mutex::new(BTreeMap::new());

    impl Owner {
        /// Returns the record of the calling thread; `None` if the thread cannot own sessions.
        pub(crate) fn of(me: ThreadId) -> Option<&'static Owner> {
            if !fence::available() {
                return None;
            }
            let mut owners = lock(&OWNERS);
            if let Some(owner) = owners.get(&me.0) {
                return Some(owner);
            }
            if owners.len() == OWNERS_MAX {
                return None;
            }
            let owner: &'static Owner = Box::leak(Box::new(Owner::new(me)));
            owners.insert(me.0, owner);
            Some(owner)
        }
    }
}

/// The threads of a model have the numbers from 1; their records are made anew for each interleaving.
#[cfg(loom)]
mod imp {
    use super::{Owner, ThreadId};
    use crate::fence;

    loom::lazy_static! {
        static ref OWNERS: [Owner; 4] = std::array::from_fn(|n| Owner::new(ThreadId(n + 1)));
    }

    impl Owner {
        pub(crate) fn of(me: ThreadId) -> Option<&'static Owner> {
            fence::available().then(|| OWNERS.get(me.0 - 1))?
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_have_numbers_of_their_own() {
        let mine = ThreadId::mine();
        assert!(mine.0 > 0 && mine == ThreadId::mine());
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| ThreadId::mine() != mine).join().unwrap());
        });
    }

    #[test]
    fn a_mark_is_of_one_session() {
        let owner = Owner::new(ThreadId(1));
        let (one, other) = (1_u64, 2_u64);
        owner.mark(&one);
        assert!(owner.is_in(&one) && !owner.is_in(&other));
        owner.clear();
        assert!(!owner.is_in(&one));
    }

    #[test]
    fn a_thread_has_one_record() {
        let records = [Owner::of(ThreadId(1)), Owner::of(ThreadId(1)), Owner::of(ThreadId(2))];
        let addresses = records.map(|owner| owner.map_or(0, |owner| std::ptr::from_ref(owner).addr()));
        assert_eq!(addresses[0], addresses[1]);
        assert_eq!(addresses[0] != addresses[2], fence::available());
    }
}
