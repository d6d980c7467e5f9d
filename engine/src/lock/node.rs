//! A waiting thread's node: one word, on which the thread sleeps and which tells it how its wait ended.
//!
//! | word | meaning | who writes it |
//! |---|---|---|
//! | `AWAKE` | its request is queued, its thread still runs | made so |
//! | `ASLEEP` | its thread sleeps, or is about to: a wake needs the system call | its thread |
//! | `LETS_PASS` | it was overtaken, and its thread sleeps for a while; a grant does not wake it | its thread; `revoke` |
//! | `FIRM` | as `ASLEEP`, of one that is not overtaken again | its thread |
//! | a verdict | the request is no longer queued | whoever took it out, under the shard's mutex |
//! | `GRANTED_POLITELY` | as `Granted`, and its thread waits a moment for who might overtake it | the same |
//! | `GRANTED_PASSING` | as `Granted`, of one that lets others pass | the same |
//! | `ACCEPTED` | it was granted, and its thread runs, with its slot | its thread |
//!
//! Every verdict is final but a grant of one that was `ASLEEP` or `LETS_PASS`: until its thread accepts it, it can be taken
//! back (`revoke`, under the shard's mutex), and the request is queued again.
//!
//! A futex per node rather than `parking_lot_core`, whose table of all parked threads would be locked once more for
//! each wake, or `std::thread::park`, whose one token per thread would be taken from others that park this thread:
//! whoever is granted a lock is known, so there is nothing to look up.

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

/// A thread that was overtaken looks for its grant so many times before it sleeps again: about 20 us, in which whoever
/// overtook it has mostly done.
#[cfg(not(shuttle))]
const LINGER_LOOKS: u32 = 64;

/// Who lets others pass does so while they come as often as this. Then many would meet the lock while it is on its way to a
/// thread that has to wake up, which takes as long; if they come more seldom, few would.
const OFTEN: Duration = Duration::from_micros(100);

/// After so long it looks for the first time whether they do: a few context switches. Then after twice as long each time: a
/// look wakes a processor, or takes it from one that passes, and if they have stopped it has waited at most twice as long as
/// it had to.
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
    /// It does not run, and whoever runs may go first.
    pub(super) may_be_overtaken: bool,
}

pub(super) struct WaitNode {
    word: AtomicU32,
    /// How many went before it while it was granted the lock; written under the shard's mutex.
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

    /// Sleeps until the wait has ended, or until `deadline`: then `None`, and a verdict may still come. One that is `firm`
    /// is not overtaken. Before it sleeps for the first time, and each time that a grant was taken back, it `looks`.
    pub(super) fn sleep(&self, deadline: Option<Instant>, firm: bool, looks: impl Fn()) -> Option<Verdict> {
        let asleep = if firm { FIRM } else { ASLEEP };
        loop {
            // A polite grant may have been taken back meanwhile.
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

    /// It runs and was granted what it waited for, or overtaken. If somebody passes, or is likely to, it lets them pass until
    /// `until`, asleep, so that those who run need not stop for it at each turn; but no longer than they come [`OFTEN`].
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

    /// What its thread does before it sleeps, unless there is a verdict already; whether it was awake.
    fn fall_asleep(&self, how: u32) -> bool {
        self.word.compare_exchange(AWAKE, how, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Its thread runs again after it has let others pass. The next grant is for good.
    fn insist(&self) {
        // If it fails there is a verdict.
        let _ = self.word.compare_exchange(LETS_PASS, AWAKE, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Its thread takes what it was granted, for good; false if that was taken back.
    pub(super) fn accept(&self) -> bool {
        let accept = |granted| {
            self.word.compare_exchange(granted, ACCEPTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        [Verdict::Granted as u32, GRANTED_POLITELY, GRANTED_PASSING].into_iter().any(accept)
    }

    /// Takes a grant back that was not accepted yet; whether there was one. Its thread was woken, or never slept, or goes
    /// on sleeping for its while.
    pub(super) fn revoke(&self) -> bool {
        self.count_passed();
        let revoke = |granted, then| {
            self.word.compare_exchange(granted, then, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        revoke(Verdict::Granted as u32, AWAKE)
            || revoke(GRANTED_POLITELY, LETS_PASS)
            || revoke(GRANTED_PASSING, LETS_PASS)
    }

    /// Whether its thread lets others pass with its grant, asleep: who runs may go first. One that was to wait a moment for
    /// somebody who passes has found that one. The caller holds the shard's mutex.
    pub(super) fn lets_others_pass(&self) -> bool {
        let begin = || {
            let (word, from, to) = (&self.word, GRANTED_POLITELY, GRANTED_PASSING);
            word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        // Mostly it does already: a look is cheaper than an attempt.
        let lets_pass = self.word.load(Ordering::Acquire) == GRANTED_PASSING || begin();
        if lets_pass {
            self.count_passed();
        }
        lets_pass
    }

    /// One more went before it. The caller holds the shard's mutex, so nobody else counts meanwhile.
    fn count_passed(&self) {
        self.passed.store(self.passed.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Looks for its grant for a moment, without sleep.
    pub(super) fn look_out(&self) {
        self.linger(|word| Verdict::of(word).is_some());
    }

    #[cfg(not(shuttle))]
    fn linger(&self, is_over: impl Fn(u32) -> bool) {
        crate::wait::look_out(LINGER_LOOKS, || is_over(self.word.load(Ordering::Relaxed)));
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
            // Release: its thread sees what the one before it did under the lock.
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

    /// Ends a wait with a grant; its thread is woken later, if it sleeps, and waits a moment for who might overtake it, if it
    /// is to be `polite`.
    pub(super) fn grant(&mut self, node: &Arc<WaitNode>, polite: bool) -> Sleeper {
        self.push(node, node.end(Verdict::Granted, polite))
    }

    fn push(&mut self, node: &Arc<WaitNode>, sleeper: Sleeper) -> Sleeper {
        if sleeper.wake {
            self.0.push(Arc::clone(node));
        }
        sleeper
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

    /// Sleeps while the word is `asleep`; may return early. False once the deadline has passed.
    fn wait(&self, word: &AtomicU32, asleep: u32, deadline: Option<Instant>) -> bool {
        use rustix::thread::futex;
        let mut timeout = None;
        if let Some(deadline) = deadline {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            let tv_sec = left.as_secs().try_into().unwrap_or(i64::MAX);
            timeout = Some(futex::Timespec { tv_sec, tv_nsec: left.subsec_nanos().into() });
        }
        // Whatever else it says (the word has changed, a signal) means: look at the word again.
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
