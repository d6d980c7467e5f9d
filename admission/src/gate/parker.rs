//! Parking: one word per node, and a futex or a task's waker behind it.
//!
//! | word | meaning | who writes it |
//! |---|---|---|
//! | `IDLE` | the session does not queue | the session, after it was woken |
//! | `WAITING` | the session is about to join the queue, or queues and still runs | the session |
//! | `PARKED` | its thread sleeps, or is about to: a wake needs the system call | the session |
//! | `TASK` | its task sleeps, or is about to: a wake needs the waker | the session |
//! | a verdict | its wait is over | whoever took the node out of the queue |
//!
//! A waker swaps its verdict in, and calls the kernel or the task's waker only if it saw that somebody sleeps. The swap releases what the
//! waker wrote before; the woken thread's load acquires it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::sync::{AtomicU32, Mutex, Ordering, lock, thread_local};

const IDLE: u32 = 0;
const WAITING: u32 = 1;
const PARKED: u32 = 2;
const TASK: u32 = 3;
const FIRST_VERDICT: u32 = 4;

/// Why a wait in the queue is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Verdict {
    /// The session has a slot.
    Granted = FIRST_VERDICT,
    /// The session may try again.
    Retry,
    /// The session was cancelled.
    Cancelled,
    /// The session's deadline has passed.
    TimedOut,
}

impl Verdict {
    fn of(word: u32) -> Option<Self> {
        use Verdict::{Cancelled, Granted, Retry, TimedOut};
        [Granted, Retry, Cancelled, TimedOut].into_iter().find(|verdict| *verdict as u32 == word)
    }
}

pub(crate) struct Parker {
    word: AtomicU32,
    futex: Futex,
    /// Set before the word is `TASK`, taken by whoever replaces `TASK` with a verdict.
    waker: Mutex<Option<Waker>>,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Parker { word: AtomicU32::new(IDLE), futex: Futex::new(), waker: Mutex::new(None) }
    }

    /// The session is about to join the queue.
    pub(crate) fn prepare(&self) {
        // Relaxed: the queue's lock, taken next, publishes it before anybody can find the node.
        self.word.store(WAITING, Ordering::Relaxed);
    }

    /// Takes [`Parker::prepare`] back: the session did not join after all, or was withdrawn by itself.
    pub(crate) fn cancel(&self) {
        self.word.store(IDLE, Ordering::Relaxed);
    }

    /// Sleeps until a verdict is there, or until `deadline`: then `None`, and a verdict may still come.
    pub(crate) fn park(&self, deadline: Option<Instant>) -> Option<Verdict> {
        // Acquire on failure, too: the verdict may be there already. It fails if it was PARKED already.
        let parked = self.word.compare_exchange(WAITING, PARKED, Ordering::Acquire, Ordering::Acquire);
        if parked == Err(TASK) {
            // A task's entry was dropped, and its session waits for the verdict that is on its way.
            let _ = self.word.compare_exchange(TASK, PARKED, Ordering::Acquire, Ordering::Acquire);
        }
        loop {
            if let Some(verdict) = self.verdict() {
                return Some(verdict);
            }
            if !self.futex.wait(&self.word, PARKED, deadline) {
                return self.verdict();
            }
        }
    }

    /// As [`Parker::park`], for a task.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Verdict> {
        // The waker first, then the word: a waker that finds TASK finds it.
        self.set_waker(Some(context.waker().clone()));
        let _ = self.word.compare_exchange(WAITING, TASK, Ordering::AcqRel, Ordering::Acquire);
        let Some(verdict) = self.verdict() else { return Poll::Pending };
        self.set_waker(None);
        Poll::Ready(verdict)
    }

    /// Sets a task's waker, or forgets it, so that it does not keep its task alive.
    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        let old = std::mem::replace(&mut *lock(&self.waker), waker);
        // After unlocking: the last waker of a task drops the task, and that may come back here.
        if let Some(old) = old {
            contained(|| drop(old));
        }
    }

    /// Ends the wait of the session.
    pub(crate) fn wake(&self, verdict: Verdict) {
        self.notify(verdict).call();
    }

    /// Ends the wait of the session, and returns the task's waker that remains to be called.
    pub(crate) fn notify(&self, verdict: Verdict) -> Wakers {
        // Release: the session sees what was done before. Acquire: the waker it set is visible.
        match self.word.swap(verdict as u32, Ordering::AcqRel) {
            PARKED => self.futex.wake(&self.word),
            TASK => return Wakers { first: lock(&self.waker).take(), others: Vec::new() },
            _ => {}
        }
        Wakers::default()
    }

    /// Takes the verdict, if there is one.
    fn verdict(&self) -> Option<Verdict> {
        let verdict = Verdict::of(self.word.load(Ordering::Acquire))?;
        // Relaxed: nobody but the session looks at it before it joins again.
        self.word.store(IDLE, Ordering::Relaxed);
        Some(verdict)
    }
}

/// The wakers of tasks that have their verdicts.
///
/// They are called once everybody that is woken with them has a verdict, because a waker may do anything. It may drop the entry of
/// another task, which then waits for the verdict that is on its way. It may drop its own task, whose slot goes to the next: that task's
/// waker is called after it, not within it, or the stack would have no end when an executor is dropped.
#[must_use = "tasks sleep on unless their wakers are called"]
#[derive(Default)]
pub(crate) struct Wakers {
    first: Option<Waker>,
    /// Apart, so that nothing is allocated where one is woken, or none.
    others: Vec<Waker>,
}

impl Wakers {
    pub(crate) fn add(&mut self, more: Wakers) {
        match self.first {
            None => *self = more,
            Some(_) => self.others.extend(more.into_iter()),
        }
    }

    pub(crate) fn call(mut self) {
        if self.first.is_none() {
            return;
        }
        let within_another = LATER.try_with(|later| match &mut *later.borrow_mut() {
            Some(later) => {
                later.extend(std::mem::take(&mut self).into_iter());
                true
            }
            none => {
                *none = Some(VecDeque::new());
                false
            }
        });
        // An error: the thread ends, and has ended its list.
        if !matches!(within_another, Ok(true)) {
            self.into_iter().for_each(wake_task);
            call_pending_wakers();
            let _ = LATER.try_with(|later| *later.borrow_mut() = None);
        }
    }

    fn into_iter(self) -> impl Iterator<Item = Waker> {
        self.first.into_iter().chain(self.others)
    }
}

thread_local! {
    /// The wakers that came up while this thread was calling another; `None` while it calls none.
    // Loom's macro knows no const block.
    #[allow(clippy::missing_const_for_thread_local)]
    static LATER: RefCell<Option<VecDeque<Waker>>> = RefCell::new(None);
}

/// Calls the wakers that this thread would call after the one it is in, if it is in one. Called before it sleeps for a slot: the tasks of
/// those wakers may hold it.
pub(crate) fn call_pending_wakers() {
    let next = || LATER.try_with(|later| later.borrow_mut().as_mut()?.pop_front()).ok().flatten();
    while let Some(waker) = next() {
        wake_task(waker);
    }
}

fn wake_task(waker: Waker) {
    contained(|| waker.wake());
}

/// Runs what a task's waker does when it is called or dropped. A panic in it harms only its own task: the caller may be another
/// session's exit with more to wake, or an entry that has taken its verdict. The panic hook has reported it.
fn contained(call: impl FnOnce()) {
    #[cfg(not(any(loom, shuttle)))]
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        // Dropping what was thrown could panic again.
        std::mem::forget(panic);
    }
    // A checker ends its executions by panicking.
    #[cfg(any(loom, shuttle))]
    call();
}

#[cfg(not(any(loom, shuttle)))]
struct Futex;

#[cfg(not(any(loom, shuttle)))]
impl Futex {
    fn new() -> Self {
        Futex
    }

    /// Sleeps while the word is `expected`; may return early. False once the deadline has passed.
    fn wait(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> bool {
        use rustix::io::Errno;
        use rustix::thread::futex;
        let timeout = match deadline.map(|deadline| deadline.checked_duration_since(Instant::now())) {
            None => None,
            Some(None) => return false,
            Some(Some(left)) => Some(futex::Timespec {
                tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }),
        };
        // Every other error (changed word, signal) means: look at the word again.
        !matches!(futex::wait(word, futex::Flags::PRIVATE, expected, timeout.as_ref()), Err(Errno::TIMEDOUT))
    }

    fn wake(&self, word: &AtomicU32) {
        use rustix::thread::futex;
        // Waking a valid, aligned word cannot fail; the count of woken threads is of no interest.
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}

/// What the kernel does for a futex, in terms the model checkers know. Time does not pass there: a wait
/// with a deadline is over at once.
#[cfg(any(loom, shuttle))]
struct Futex {
    lock: Mutex<()>,
    changed: crate::sync::Condvar,
}

#[cfg(any(loom, shuttle))]
impl Futex {
    fn new() -> Self {
        Futex { lock: Mutex::new(()), changed: crate::sync::Condvar::new() }
    }

    fn wait(&self, word: &AtomicU32, expected: u32, deadline: Option<Instant>) -> bool {
        if deadline.is_some() {
            return false;
        }
        let guard = lock(&self.lock);
        if word.load(Ordering::Acquire) == expected {
            drop(self.changed.wait(guard).unwrap());
        }
        true
    }

    fn wake(&self, _word: &AtomicU32) {
        let _guard = lock(&self.lock);
        self.changed.notify_one();
    }
}
