//! Parking: one word per node, one futex per word.
//!
//! | word | meaning | who writes it |
//! |---|---|---|
//! | `IDLE` | nobody waits | its session, after it was woken |
//! | `WAITING` | its session is in the queue and still runs | its session, before it joins the queue |
//! | `PARKED` | its session sleeps, or is about to: a wake needs the system call | its session |
//! | `GRANTED` | a place was handed to it | the thread that left |
//! | `RETRY` | it was woken to compete again (`broadcast`) | the thread that left |
//!
//! A waker swaps its verdict in and calls the kernel only if it saw `PARKED`. The swap releases what the
//! waker wrote before; the woken thread's load acquires it.

use crate::sync::{AtomicU32, Ordering};

const IDLE: u32 = 0;
const WAITING: u32 = 1;
const PARKED: u32 = 2;
const GRANTED: u32 = 3;
const RETRY: u32 = 4;

/// Why a thread was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has a place.
    Granted,
    /// It may try again.
    Retry,
}

pub(crate) struct Parker {
    word: AtomicU32,
    futex: Futex,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Parker { word: AtomicU32::new(IDLE), futex: Futex::new() }
    }

    /// Says that its session is about to join the queue.
    pub(crate) fn prepare(&self) {
        self.word.store(WAITING, Ordering::Relaxed);
    }

    /// Takes [`Parker::prepare`] back: the session did not join after all.
    pub(crate) fn cancel(&self) {
        self.word.store(IDLE, Ordering::Relaxed);
    }

    /// Sleeps until a verdict is there.
    pub(crate) fn park(&self) -> Verdict {
        // Acquire on failure, too: the verdict may be there already.
        let _ = self.word.compare_exchange(WAITING, PARKED, Ordering::Acquire, Ordering::Acquire);
        loop {
            match self.word.load(Ordering::Acquire) {
                GRANTED => break self.reset(Verdict::Granted),
                RETRY => break self.reset(Verdict::Retry),
                _ => self.futex.wait(&self.word, PARKED),
            }
        }
    }

    /// Ends the wait of its session.
    pub(crate) fn wake(&self, verdict: Verdict) {
        let word = match verdict {
            Verdict::Granted => GRANTED,
            Verdict::Retry => RETRY,
        };
        if self.word.swap(word, Ordering::Release) == PARKED {
            self.futex.wake(&self.word);
        }
    }

    fn reset(&self, verdict: Verdict) -> Verdict {
        self.word.store(IDLE, Ordering::Relaxed);
        verdict
    }
}

#[cfg(not(loom))]
struct Futex;

#[cfg(not(loom))]
impl Futex {
    fn new() -> Self {
        Futex
    }

    /// Sleeps while the word is `expected`; may return early.
    fn wait(&self, word: &AtomicU32, expected: u32) {
        use rustix::thread::futex;
        // Every error (changed word, signal) means: look at the word again.
        let _ = futex::wait(word, futex::Flags::PRIVATE, expected, None);
    }

    fn wake(&self, word: &AtomicU32) {
        use rustix::thread::futex;
        // Waking a valid, aligned word cannot fail; the count of woken threads is of no interest.
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}

/// What the kernel does for a futex, in terms the model checker knows.
#[cfg(loom)]
struct Futex {
    lock: loom::sync::Mutex<()>,
    changed: loom::sync::Condvar,
}

#[cfg(loom)]
impl Futex {
    fn new() -> Self {
        Futex { lock: loom::sync::Mutex::new(()), changed: loom::sync::Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32, expected: u32) {
        let guard = self.lock.lock().unwrap();
        if word.load(Ordering::Acquire) == expected {
            drop(self.changed.wait(guard).unwrap());
        }
    }

    fn wake(&self, _word: &AtomicU32) {
        let _guard = self.lock.lock().unwrap();
        self.changed.notify_one();
    }
}
