//! A waiting thread's node: one word, on which the thread sleeps and in which it finds how its wait ended.
//!
//! | word | meaning | written by |
//! |---|---|---|
//! | `AWAKE` | its request is queued, its thread still runs | made so |
//! | `ASLEEP` | its thread sleeps, or is about to: a wake needs the system call | its thread |
//! | `LETS_PASS` | it was overtaken, and its thread sleeps for a while; a grant does not wake it | its thread; `revoke` |
//! | `FIRM` | as `ASLEEP`, but it is not overtaken again | its thread |
//! | a verdict | the request is no longer queued | the thread that took it out, under the shard's mutex |
//! | `GRANTED_POLITELY` | as `Granted`, and its thread waits a moment for threads that might overtake it | the same |
//! | `GRANTED_PASSING` | as `Granted`, to a thread that lets others pass | the same |
//! | `ACCEPTED` | it was granted, and its thread runs, with its slot | its thread |
//!
//! Every verdict is final, except a grant to a node that was `ASLEEP` or `LETS_PASS`: until its thread accepts the grant, the
//! grant can be revoked (`revoke`, under the shard's mutex), and the request is queued again.
//!
//! A futex per node, since the granted thread is known and nothing has to be looked up. `parking_lot_core` would lock its
//! table of parked threads for each wake. `std::thread::park` has one token per thread, which other users of it share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::sync::{AtomicU32, Ordering};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const ACCEPTED: u32 = 6;
const LETS_PASS: u32 = 7;
const GRANTED_POLITELY: u32 = 8;
const GRANTED_PASSING: u32 = 9;
const FIRM: u32 = 10;

/// Number of polls of an overtaken thread for its grant before it sleeps again: about 20 us, in which the thread that
/// overtook it is mostly done.
#[cfg(not(shuttle))]
const LINGER_POLLS: u32 = 64;

/// A waiter lets others pass while they come at least this often. A wake-up takes as long: then many threads would find the
/// lock on its way to a thread that is not awake yet; if they come less often, few would.
const OFTEN: Duration = Duration::from_micros(100);

/// Time before the first check whether others come: a few context switches. Each further check comes after twice the
/// time. A check wakes a CPU, or takes it from a thread that passes, and at most doubles the wait if the others have
/// stopped.
const FIRST_PAUSE: Duration = Duration::from_micros(200);

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
        if matches!(word, GRANTED_POLITELY | GRANTED_PASSING) {
            return Some(Granted);
        }
        [Granted, Deadlock, Cancelled, TimedOut].into_iter().find(|verdict| *verdict as u32 == word)
    }
}

/// What the thread of a wait that ends does.
pub(super) struct Sleeper {
    /// It sleeps until it is woken.
    pub(super) wake: bool,
    /// It does not run, and a running thread may go first.
    pub(super) may_be_overtaken: bool,
}

pub(super) struct WaitNode {
    word: AtomicU32,
    /// Number of requests that went before it while it had a grant; written under the shard's mutex.
    passed: AtomicU32,
    futex: Futex,
}

impl WaitNode {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(WaitNode { word: AtomicU32::new(AWAKE), passed: AtomicU32::new(0), futex: Futex::new() })
    }

    /// How the wait ended, if it did.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        Verdict::of(self.word.load(Ordering::Acquire))
    }

    /// Sleeps until the wait has ended, or until `deadline`: then returns `None`, and a verdict may still come.
    ///
    /// A `firm` sleeper is not overtaken. Calls `looks` before the first sleep, and each time a grant was revoked.
    pub(super) fn sleep(&self, deadline: Option<Instant>, firm: bool, looks: impl Fn()) -> Option<Verdict> {
        let asleep = if firm { FIRM } else { ASLEEP };
        loop {
            // A polite grant may have been revoked since the last check.
            self.insist();
            if self.fall_asleep(asleep) {
                looks();
            }
            if let Some(verdict) = self.verdict() {
                return Some(verdict);
            }
            if !self.futex.wait(&self.word, asleep, deadline) {
                return self.verdict();
            }
        }
    }

    /// Its thread runs, and its request was granted or overtaken. If others pass, or are likely to, it sleeps until
    /// `until` and lets them pass, so that running threads need not stop at each turn; but only as long as they come
    /// [`OFTEN`].
    pub(super) fn let_pass(&self, until: Instant) {
        self.linger(|word| word != GRANTED_POLITELY);
        self.fall_asleep(LETS_PASS);
        let (mut pause, mut awake_at) = (FIRST_PAUSE, until.min(Instant::now() + FIRST_PAUSE));
        let mut before = self.passed.load(Ordering::Relaxed);
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if !matches!(word, LETS_PASS | GRANTED_PASSING) {
                break;
            }
            if awake_at <= Instant::now() {
                let passed = self.passed.load(Ordering::Relaxed);
                if awake_at >= until || OFTEN * passed.wrapping_sub(before) < pause {
                    break;
                }
                (pause, before) = (pause * 2, passed);
                awake_at = until.min(awake_at + pause);
            }
            self.futex.wait(&self.word, word, Some(awake_at));
        }
        self.insist();
    }

    /// Marks the thread as asleep in the state `how`, unless there is a verdict; returns whether it was awake.
    fn fall_asleep(&self, how: u32) -> bool {
        self.word.compare_exchange(AWAKE, how, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Its thread runs again after it has let others pass. The next grant is final.
    fn insist(&self) {
        // If it fails there is a verdict.
        let _ = self.word.compare_exchange(LETS_PASS, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Its thread accepts the grant, finally; false if the grant was revoked.
    pub(super) fn accept(&self) -> bool {
        let accept = |granted| {
            self.word.compare_exchange(granted, ACCEPTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        [Verdict::Granted as u32, GRANTED_POLITELY, GRANTED_PASSING].into_iter().any(accept)
    }

    /// Revokes a grant that is not accepted yet; returns whether there was one. Its thread was woken, or never slept,
    /// or continues to sleep for its time.
    pub(super) fn revoke(&self) -> bool {
        self.count_passed();
        let revoke = |granted, then| {
            self.word.compare_exchange(granted, then, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        revoke(Verdict::Granted as u32, AWAKE)
            || revoke(GRANTED_POLITELY, LETS_PASS)
            || revoke(GRANTED_PASSING, LETS_PASS)
    }

    /// Whether its thread sleeps with its grant and lets others pass, so that running threads go first. A thread that
    /// lingers has met the first of them. The caller holds the shard's mutex.
    pub(super) fn lets_others_pass(&self) -> bool {
        let begin = || {
            let (word, from, to) = (&self.word, GRANTED_POLITELY, GRANTED_PASSING);
            word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        // Mostly it does already: a check is cheaper than an attempt.
        let lets_pass = self.word.load(Ordering::Acquire) == GRANTED_PASSING || begin();
        if lets_pass {
            self.count_passed();
        }
        lets_pass
    }

    /// Counts a request that went before it. The caller holds the shard's mutex, so no other thread counts.
    fn count_passed(&self) {
        self.passed.store(self.passed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Polls for its grant for a moment, without sleeping.
    pub(super) fn poll(&self) {
        self.linger(|word| Verdict::of(word).is_some());
    }

    #[cfg(not(shuttle))]
    fn linger(&self, is_over: impl Fn(u32) -> bool) {
        crate::wait::poll(LINGER_POLLS, || is_over(self.word.load(Ordering::Relaxed)));
    }

    #[cfg(shuttle)]
    fn linger(&self, _is_over: impl Fn(u32) -> bool) {}

    /// Ends the wait. A grant of one that sleeps is a polite one if others are likely to overtake it.
    fn end(&self, verdict: Verdict, polite: bool) -> Sleeper {
        let mut before = self.word.load(Ordering::Relaxed);
        loop {
            debug_assert!(Verdict::of(before).is_none(), "a wait ends once");
            let after = match (verdict, before) {
                (Verdict::Granted, LETS_PASS) => GRANTED_PASSING,
                (Verdict::Granted, ASLEEP) if polite => GRANTED_POLITELY,
                _ => verdict as u32,
            };
            // Release: its thread sees the changes of the previous holder.
            match self.word.compare_exchange_weak(before, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    let sleeps = matches!(before, ASLEEP | FIRM | LETS_PASS);
                    return Sleeper {
                        wake: sleeps && after != GRANTED_PASSING,
                        may_be_overtaken: sleeps && before != FIRM,
                    };
                }
                Err(now) => before = now,
            }
        }
    }
}

/// The thread's part of a wait, for tests that have none.
#[cfg(all(test, not(shuttle)))]
impl WaitNode {
    pub(super) fn begin_sleep(&self, firm: bool) {
        self.fall_asleep(if firm { FIRM } else { ASLEEP });
    }

    pub(super) fn begin_to_let_pass(&self) {
        self.fall_asleep(LETS_PASS);
    }

    pub(super) fn end_to_let_pass(&self) {
        self.insist();
    }

    pub(super) fn lets_pass(&self) -> bool {
        self.word.load(Ordering::Relaxed) == LETS_PASS
    }
}

/// Threads whose waits have ended and that sleep: collected under a shard's mutex, woken after it.
#[must_use = "they sleep until `wake` is called"]
#[derive(Default)]
pub(super) struct Wakes(SmallVec<[Arc<WaitNode>; 4]>);

impl Wakes {
    /// Ends a wait; its thread is woken later, if it sleeps.
    pub(super) fn end(&mut self, node: &Arc<WaitNode>, verdict: Verdict) -> Sleeper {
        self.push(node, node.end(verdict, false))
    }

    /// Ends a wait with a grant. Its thread is woken later, if it sleeps, and if `polite` lingers briefly for threads
    /// that might overtake it.
    pub(super) fn grant(&mut self, node: &Arc<WaitNode>, polite: bool) -> Sleeper {
        self.push(node, node.end(Verdict::Granted, polite))
    }

    fn push(&mut self, node: &Arc<WaitNode>, sleeper: Sleeper) -> Sleeper {
        if sleeper.wake {
            self.0.push(Arc::clone(node));
        }
        sleeper
    }

    /// Wakes the sleeping threads. The caller holds no mutex of this module.
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

    /// Sleeps while the word is `asleep`; may return early. False once the deadline has passed.
    fn wait(&self, word: &AtomicU32, asleep: u32, deadline: Option<Instant>) -> bool {
        use rustix::thread::futex;
        let mut timeout = None;
        if let Some(deadline) = deadline {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            let tv_sec = left.as_secs().try_into().unwrap_or(i64::MAX);
            timeout = Some(futex::Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() });
        }
        // Whatever else it says (the word has changed, a signal) means: read the word again.
        futex::wait(word, futex::Flags::PRIVATE, asleep, timeout.as_ref()) != Err(rustix::io::Errno::TIMEDOUT)
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

    fn wait(&self, word: &AtomicU32, asleep: u32, deadline: Option<Instant>) -> bool {
        if deadline.is_some() {
            return false;
        }
        let guard = super::sync::lock(&self.mutex);
        if word.load(Ordering::Acquire) == asleep {
            drop(self.changed.wait(guard).unwrap());
        }
        true
    }

    fn wake(&self, _word: &AtomicU32) {
        let _guard = super::sync::lock(&self.mutex);
        self.changed.notify_one();
    }
}
