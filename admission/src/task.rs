//! The face for async tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::Refused;
use crate::asking::{Asking, Next};
use crate::parker::Verdict;
use crate::session::Session;

/// A task's entry; from [`Session::enter_async`]. Dropping it before it is ready takes the session out of
/// the queue, and hands on a place that was granted meanwhile.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Enter<'a> {
    session: &'a mut Session,
    asking: Option<Asking>,
}

impl Session {
    /// As [`Session::enter`], without blocking the thread. Leave with [`Session::exit`].
    ///
    /// It takes the session exclusively, so that the future is `Send`. [`crate::Config::queue_timeout`] is
    /// observed by the watchdog, to a few milliseconds. [`crate::Policy::Sleep`] queues tasks in order.
    pub fn enter_async(&mut self) -> Enter<'_> {
        Enter { session: self, asking: None }
    }
}

impl Future for Enter<'_> {
    type Output = Result<(), Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut next = match &mut this.asking {
            Some(_) => Next::Sleep,
            None if this.session.enter_at_once() => return Poll::Ready(Ok(())),
            None => {
                let (asking, next) = Asking::begin(this.session, None, false);
                this.session.task_asks.set(true);
                this.asking = Some(asking);
                next
            }
        };
        loop {
            next = match next {
                Next::Enter(state) => {
                    this.session.task_asks.set(false);
                    this.asking = None;
                    this.session.has_place(state);
                    return Poll::Ready(Ok(()));
                }
                Next::Refuse(why) => {
                    this.session.task_asks.set(false);
                    this.asking = None;
                    return Poll::Ready(Err(why));
                }
                Next::Sleep => match this.session.node.parker.poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(verdict) => {
                        let asking = this.asking.as_mut().expect("it sleeps while it asks");
                        asking.on(this.session, verdict)
                    }
                },
            }
        }
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
        if self.task_asks.get() {
            self.end_asking();
        }
    }

    #[cold]
    fn end_asking(&self) {
        self.task_asks.set(false);
        let (core, parker) = (&self.admission.core, &self.node.parker);
        if core.withdraw(&self.node) {
            parker.cancel();
        } else {
            // Out of the queue already: the verdict is there, or on its way from a thread that has unlocked.
            let verdict = parker.park(None).expect("without a deadline it parks for a verdict");
            match verdict {
                Verdict::Granted => self.give_place_on(core.started()),
                // Whoever summoned it woke nobody else for that place.
                Verdict::Summoned => {
                    if let Some(state) = core.arrive(self.caller()) {
                        self.give_place_on(state);
                    }
                }
                Verdict::Cancelled => self.forget_cancel(),
                Verdict::Retry | Verdict::TimedOut => {}
            }
        }
        parker.set_waker(None);
    }
}
