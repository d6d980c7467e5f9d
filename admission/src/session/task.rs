//! Sessions of async tasks.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::queueing::Next;
use super::{Queueing, Session, State};
use crate::config::WaitKind;
use crate::gate::parker::Verdict;
use crate::refused::Refused;

/// A task's entry; from [`Session::enter_async`]. Dropping it before it is ready takes the session out of the queue, and hands off a slot
/// that was granted already.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Enter<'a> {
    session: &'a mut Session,
    /// It has joined the queue, and `Session::task_request` is its own.
    queues: bool,
}

impl Session {
    /// As [`Session::enter`], without blocking the thread. Exit with [`Session::exit`], or use
    /// [`Session::slot_async`].
    ///
    /// It takes the session exclusively, so that the future is `Send`. [`crate::Config::queue_timeout`] is
    /// observed by the watchdog, to a few milliseconds.
    ///
    /// Its waker may do anything. A waker that is due while the thread is in another one is called after that one returns, or before
    /// the thread sleeps in the queue.
    pub fn enter_async(&mut self) -> Enter<'_> {
        self.slice.deficit.set_task();
        Enter { session: self, queues: false }
    }

    /// Enters as [`Session::enter_async`] does, and exits when the guard is dropped: also when the task is dropped at one of its awaits.
    pub async fn slot_async(&mut self) -> Result<TaskSlot<'_>, Refused> {
        self.enter_async().await?;
        Ok(TaskSlot { waits_before: self.wait_depth(), session: self })
    }
}

impl Future for Enter<'_> {
    type Output = Result<(), Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let session = &*this.session;
        let (mut queueing, mut next) = match session.task_request.get() {
            Some(queueing) if this.queues => (queueing, Next::Sleep),
            _ if session.enter_at_once() => return Poll::Ready(Ok(())),
            _ => Queueing::begin(session, None),
        };
        let outcome = loop {
            next = match next {
                Next::Enter(word) => {
                    session.run(word);
                    break Ok(());
                }
                Next::Refuse(why) => break Err(why),
                Next::Sleep => {
                    // Before anything of the caller's runs, such as its waker's clone.
                    session.task_request.set(Some(queueing));
                    this.queues = true;
                    match session.node.parker.poll(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(verdict) => queueing.on_verdict(session, verdict),
                    }
                }
            }
        };
        session.task_request.set(None);
        this.queues = false;
        Poll::Ready(outcome)
    }
}

impl Drop for Enter<'_> {
    fn drop(&mut self) {
        self.session.give_up_task_request();
    }
}

impl Session {
    /// Ends what a task's entry has begun: takes the session out of the queue, or hands the slot it was granted to the next. Does nothing
    /// if no task queues.
    ///
    /// [`Enter`]'s drop does this. A future that was leaked did not, so a session looks again before it acquires a slot and when it is
    /// dropped.
    #[inline]
    pub(crate) fn give_up_task_request(&self) {
        if self.task_request.get().is_some() {
            self.end_task_request();
        }
    }

    #[cold]
    fn end_task_request(&self) {
        self.task_request.set(None);
        self.state.set(State::Acquiring);
        let (gate, parker) = (&self.admission.gate, &self.node.parker);
        if gate.withdraw(&self.node) {
            parker.cancel();
        } else {
            // Out of the queue already: the verdict is there, or on its way from a thread that has unlocked.
            let verdict = parker.park(None).expect("without a deadline it parks for a verdict");
            match verdict {
                Verdict::Granted => self.pass_slot_on(gate.start()),
                Verdict::Cancelled => self.forget_cancel(),
                Verdict::Retry | Verdict::TimedOut => {}
            }
        }
        parker.set_waker(None);
        self.state.set(State::Outside);
    }
}

/// A task's slot; from [`Session::slot_async`]. Dropping it exits, also inside a wait, and ends the waits that were begun on it.
///
/// It is the session, to take tickets with [`Session::enter_async`] and to declare waits. In a task, use
/// [`TaskSlot::wait_for`] for waits.
#[must_use = "the slot is released when this is dropped"]
pub struct TaskSlot<'a> {
    session: &'a mut Session,
    /// The depth of waits when it was made.
    waits_before: u32,
}

impl TaskSlot<'_> {
    /// Awaits `wait` as a wait of this kind: the slot is released for that time, if [`crate::Config::wait_mask`] has the kind. As
    /// [`Session::wait_end`], it enters by force afterwards.
    pub async fn wait_for<F: Future>(&mut self, kind: WaitKind, wait: F) -> F::Output {
        let _waiting = Waiting::begin(self.session, kind);
        wait.await
    }
}

/// A wait that ends when it is dropped.
struct Waiting<'a> {
    session: &'a mut Session,
    kind: WaitKind,
}

impl<'a> Waiting<'a> {
    fn begin(session: &'a mut Session, kind: WaitKind) -> Self {
        session.wait_begin(kind);
        Waiting { session, kind }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.session.wait_end(self.kind);
    }
}

impl Deref for TaskSlot<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl DerefMut for TaskSlot<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
    }
}

impl Drop for TaskSlot<'_> {
    fn drop(&mut self) {
        self.session.exit();
        // A task that is dropped between `wait_begin` and `wait_end` leaves waits behind. The kind does not
        // matter: outside, the end of a wait only counts.
        while self.session.wait_depth() > self.waits_before {
            self.session.wait_end(WaitKind::User);
        }
    }
}
