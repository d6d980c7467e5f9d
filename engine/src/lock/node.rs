//! A waiting thread's node: one word, on which the thread sleeps and which tells it how its wait ended.
//!
//! | word | meaning | who writes it |
//! |---|---|---|
//! | `AWAKE` | its request is queued, its thread still runs | made so |
//! | `ASLEEP` | its thread sleeps, or is about to: a wake needs the system call | its thread |
//! | a verdict | the request is no longer queued | whoever took it out, under the shard's mutex |
//! | `ACCEPTED` | it was granted, and its thread runs | its thread |
//!
//! Every verdict is final but `Granted`: until its thread accepts it, it can be taken back (`revoke`, under the shard's
//! mutex), and the request is queued again.
//!
//! A futex per node rather than `parking_lot_core`, whose table of all parked threads would be locked once more for
//! each wake, or `std::thread::park`, whose one token per thread would be taken from others that park this thread:
//! whoever is granted a lock is known, so there is nothing to look up.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;

use super::sync::{AtomicU32, Ordering};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const ACCEPTED: u32 = 6;

/// A thread whose grant was taken back as it woke looks for the next one so many times before it sleeps again: about
/// 20 us, in which whoever overtook it has mostly done.
#[cfg(not(shuttle))]
const LINGER_LOOKS: u32 = 64;

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Verdict {
    Granted = 2,
    Deadlock,
    Cancelled,
    TimedOut,
}

impl Verdict {
    fn of(word: u32) -> Option<Verdict> {
        use Verdict::{Cancelled, Deadlock, Granted, TimedOut};
        [Granted, Deadlock, Cancelled, TimedOut].into_iter().find(|verdict| *verdict as u32 == word)
    }
}

pub(super) struct WaitNode {
    word: AtomicU32,
    futex: Futex,
}

impl WaitNode {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(WaitNode { word: AtomicU32::new(AWAKE), futex: Futex::new() })
    }

    /// How the wait ended, if it did.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Verdict::of(self.word.load(Ordering::Acquire))
    }

    /// Sleeps until the wait has ended, or until `deadline`: then `None`, and a verdict may still come.
    pub(super) fn sleep(&self, deadline: Option<Instant>) -> Option<Verdict> {
        loop {
            // It fails if the verdict is there already.
            let _ = self.word.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
            if let Some(verdict) = self.verdict() {
                return Some(verdict);
            }
            if !self.futex.wait(&self.word, deadline) {
                return self.verdict();
            }
        }
    }

    /// What its thread does before it sleeps.
    #[cfg(all(test, not(shuttle)))]
    pub(super) fn fall_asleep(&self) {
        let _ = self.word.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Its thread takes what it was granted, for good; false if that was taken back.
    pub(super) fn accept(&self) -> bool {
        let granted = Verdict::Granted as u32;
        self.word.compare_exchange(granted, ACCEPTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Takes a grant back that was not accepted yet; whether there was one. Its thread was woken, or never slept.
    pub(super) fn revoke(&self) -> bool {
        let granted = Verdict::Granted as u32;
        self.word.compare_exchange(granted, AWAKE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Looks for a verdict for a while, without sleep.
    #[cfg(not(shuttle))]
    pub(super) fn linger(&self) {
        for _ in 0..LINGER_LOOKS {
            if self.verdict().is_some() {
                return;
            }
            (0..8).for_each(|_| std::hint::spin_loop());
        }
    }

    #[cfg(shuttle)]
    pub(super) fn linger(&self) {}

    /// Ends the wait; whether its thread sleeps and must be woken.
    fn end(&self, verdict: Verdict) -> bool {
        // Release: its thread sees what the one before it did under the lock.
        let before = self.word.swap(verdict as u32, Ordering::AcqRel);
        debug_assert!(Verdict::of(before).is_none(), "a wait ends once");
        before == ASLEEP
    }
}

/// Threads whose waits have ended and that sleep: collected under a shard's mutex, woken after it.
#[must_use = "they sleep until `wake` is called"]
#[derive(Default)]
pub(super) struct Wakes(SmallVec<[Arc<WaitNode>; 4]>);

impl Wakes {
    /// Ends a wait; its thread is woken later, if it sleeps: whether it does.
    pub(super) fn end(&mut self, node: &Arc<WaitNode>, verdict: Verdict) -> bool {
        let asleep = node.end(verdict);
        if asleep {
            self.0.push(Arc::clone(node));
        }
        asleep
    }

    /// Wakes those that sleep. The caller holds no mutex of this room.
    pub(super) fn wake(self) {
        for node in self.0 {
            node.futex.wake(&node.word);
        }
    }
}

#[cfg(not(shuttle))]
struct Futex;

#[cfg(not(shuttle))]
impl Futex {
    fn new() -> Self {
        Futex
    }

    /// Sleeps while the word is `ASLEEP`; may return early. False once the deadline has passed.
    fn wait(&self, word: &AtomicU32, deadline: Option<Instant>) -> bool {
        use rustix::thread::futex;
        let mut timeout = None;
        if let Some(deadline) = deadline {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            let tv_sec = left.as_secs().try_into().unwrap_or(i64::MAX);
            timeout = Some(futex::Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() });
        }
        // Whatever else it says (the word has changed, a signal) means: look at the word again.
        futex::wait(word, futex::Flags::PRIVATE, ASLEEP, timeout.as_ref()) != Err(rustix::io::Errno::TIMEDOUT)
    }

    fn wake(&self, word: &AtomicU32) {
        // One thread sleeps here at most, and waking an aligned word that exists cannot fail.
        let _ = rustix::thread::futex::wake(word, rustix::thread::futex::Flags::PRIVATE, 1);
    }
}

/// What the kernel does, in the checker's terms. No time passes there: a wait with a deadline is over at once.
#[cfg(shuttle)]
struct Futex {
    mutex: super::sync::Mutex<()>,
    changed: super::sync::Condvar,
}

#[cfg(shuttle)]
impl Futex {
    fn new() -> Self {
        Futex { mutex: super::sync::Mutex::new(()), changed: super::sync::Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32, deadline: Option<Instant>) -> bool {
        if deadline.is_some() {
            return false;
        }
        let guard = super::sync::lock(&self.mutex);
        if word.load(Ordering::Acquire) == ASLEEP {
            drop(self.changed.wait(guard).unwrap());
        }
        true
    }

    fn wake(&self, _word: &AtomicU32) {
        let _guard = super::sync::lock(&self.mutex);
        self.changed.notify_one();
    }
}
