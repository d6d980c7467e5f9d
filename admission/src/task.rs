//! The face for async tasks.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::asking::{Asking, Next};
use crate::parker::Verdict;
use crate::session::{Held, Session};
use crate::{Refused, WaitKind};

/// A task's entry; from [`Session::enter_async`]. Dropping it before it is ready takes the session out of
/// the queue, and hands on a place that was granted meanwhile.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Enter<'a> {
    session: &'a mut Session,
    /// It has joined the queue, and `Session::task_asks` is its request.
    asks: bool,
}

impl Session {
    /// As [`Session::enter`], without blocking the thread. Leave with [`Session::exit`], or use
    /// [`Session::place_async`].
    ///
    /// It takes the session exclusively, so that the future is `Send`. [`crate::Config::queue_timeout`] is
    /// observed by the watchdog, to a few milliseconds. [`crate::Policy::Sleep`] queues tasks in order.
    ///
    /// Its waker may do anything. One that is due while the thread is in another's is called after that one returns, or
    /// before it sleeps in the queue.
    pub fn enter_async(&mut self) -> Enter<'_> {
        self.turn.deficit.is_a_tasks();
        Enter { session: self, asks: false }
    }

    /// Enters as [`Session::enter_async`] does, and leaves when the guard is dropped: also when the task is
    /// dropped at one of its awaits.
    pub async fn place_async(&mut self) -> Result<TaskPlace<'_>, Refused> {
        self.enter_async().await?;
        Ok(TaskPlace { waits_before: self.wait_depth(), session: self })
    }
}

impl Future for Enter<'_> {
    type Output = Result<(), Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let session = &*this.session;
        let (mut asking, mut next) = match session.task_asks.get() {
            Some(asking) if this.asks => (asking, Next::Sleep),
            _ if session.enter_at_once() => return Poll::Ready(Ok(())),
            _ => Asking::begin(session, None, false),
        };
        let outcome = loop {
            next = match next {
                Next::Enter(state) => {
                    session.has_place(state);
                    break Ok(());
                }
                Next::Refuse(why) => break Err(why),
                Next::Sleep => {
                    // Before anything of the caller's runs, such as its waker's clone.
                    session.task_asks.set(Some(asking));
                    this.asks = true;
                    match session.node.parker.poll(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(verdict) => asking.on(session, verdict),
                    }
                }
            }
        };
        session.task_asks.set(None);
        this.asks = false;
        Poll::Ready(outcome)
    }
}

impl Drop for Enter<'_> {
    fn drop(&mut self) {
        self.session.give_up_asking();
    }
}

impl Session {
    /// Ends what a task's entry has begun: takes the session out of the queue, or gives the place it was
    /// handed to the next. Does nothing if no task asks.
    ///
    /// [`Enter`]'s drop does this. A future that was leaked did not, so a session looks again before it
    /// asks for a place and when it is dropped.
    #[inline]
    pub(crate) fn give_up_asking(&self) {
        if self.task_asks.get().is_some() {
            self.end_asking();
        }
    }

    #[cold]
    fn end_asking(&self) {
        self.task_asks.set(None);
        self.place.set(Held::Asks);
        let (core, parker) = (&self.admission.core, &self.node.parker);
        if core.withdraw(&self.node) {
            parker.cancel();
        } else {
            // Out of the queue already: the verdict is there, or on its way from a thread that has unlocked.
            let verdict = parker.park(None).expect("without a deadline it parks for a verdict");
            match verdict {
                Verdict::Granted => self.give_place_on(self.starts()),
                // Whoever summoned it woke nobody else for that place.
                Verdict::Summoned => {
                    if let Some(state) = self.arrives(self.caller()) {
                        self.give_place_on(state);
                    }
                }
                Verdict::Cancelled => self.forget_cancel(),
                Verdict::Retry | Verdict::TimedOut => {}
            }
        }
        parker.set_waker(None);
        self.place.set(Held::No);
    }
}

/// A place inside, of a task; from [`Session::place_async`]. Dropping it leaves, also inside a wait, and ends
/// the waits that were begun on it.
///
/// It is the session, to take tickets with [`Session::enter_async`] and to declare waits. In a task, use
/// [`TaskPlace::wait_for`] for waits.
#[must_use = "the place is given up when this is dropped"]
pub struct TaskPlace<'a> {
    session: &'a mut Session,
    /// The depth of waits when it was made.
    waits_before: u32,
}

impl TaskPlace<'_> {
    /// Awaits `wait` as a wait of this kind: the place is given up for so long, if
    /// [`crate::Config::wait_mask`] has the kind. As [`Session::wait_end`], it comes back past the limit.
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

impl Deref for TaskPlace<'_> {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session
    }
}

impl DerefMut for TaskPlace<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session
    }
}

impl Drop for TaskPlace<'_> {
    fn drop(&mut self) {
        self.session.exit();
        // A task that is dropped between `wait_begin` and `wait_end` leaves waits behind. The kind does not
        // matter: outside, the end of a wait only counts.
        while self.session.wait_depth() > self.waits_before {
            self.session.wait_end(WaitKind::User);
        }
    }
}
