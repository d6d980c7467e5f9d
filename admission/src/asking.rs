//! A session that finds no place: how it queues, polls, and is refused.
//!
//! Threads and tasks take the same steps ([`Asking`]); they differ only in how they sleep.

use std::time::{Duration, Instant};

use crate::admission::Admission;
use crate::core::Joined;
use crate::metrics::add;
use crate::parker::{Verdict, call_later_ones};
use crate::queue::Request;
use crate::rule::End;
use crate::session::{Held, Session};
use crate::state::{Caller, State};
use crate::sync::{Ordering, sleep};
use crate::{Class, Policy, Refused};

/// The queue limit for one that was let into the queue before.
const ANY_LENGTH: u32 = 0;

/// A request for a place that could not be granted at once.
#[derive(Clone, Copy)]
pub(crate) struct Asking {
    queued_at_ns: u64,
    deadline_ns: u64,
    /// It goes before those of the normal class.
    ahead: bool,
    /// It is in its turn, and others have its place: a holder of locks, or whoever came in while it was away. It is the next of its
    /// class, and goes on with what is left of its turn; not if it is told to ask again.
    in_turn: bool,
}

/// What comes next.
pub(crate) enum Next {
    /// It is in the queue: sleep until there is a verdict.
    Sleep,
    /// It has a place that T counts; the word as it is then.
    Enter(State),
    Refuse(Refused),
}

impl Asking {
    /// Begins to ask. `deadline` is the caller's own. `ahead` puts it before the normal class, and behind those of the first
    /// class that came before: at the front it would keep them out for ever by waiting again and again.
    pub(crate) fn begin(session: &Session, deadline: Option<Instant>, ahead: bool) -> (Self, Next) {
        let admission = &*session.admission;
        let queued_at_ns = admission.metrics.now_ns();
        let deadline_ns = admission.deadline_ns(queued_at_ns, deadline);
        let state = admission.core.state();
        // With one place, turns that are cut short so would come back in front of each other.
        let in_turn = !(ahead || session.class() == Class::First || state.closed() || state.limit() == 1)
            && state.policy() == Policy::Quantum
            && session.turn.goes_on(queued_at_ns, admission.settings.quantum_ns());
        let asking = Asking { queued_at_ns, deadline_ns, ahead, in_turn };
        let end = if in_turn { End::Front } else { End::Back };
        let next = asking.join(session, end, admission.settings.queue_limit());
        (asking, next)
    }

    /// When a thread gives up.
    pub(crate) fn deadline(&self, session: &Session) -> Option<Instant> {
        session.admission.metrics.instant_of(self.deadline_ns)
    }

    fn caller(&self, session: &Session) -> Caller {
        Caller { first: self.is_first(session), ..session.caller() }
    }

    fn is_first(&self, session: &Session) -> bool {
        self.ahead || session.class() == Class::First
    }

    fn join(&self, session: &Session, end: End, queue_limit: u32) -> Next {
        let admission = &*session.admission;
        let caller = self.caller(session);
        // One that goes before the others, or on with its turn, neither pays nor teaches.
        let goes_before = caller.first || self.in_turn;
        let (turn_ns, owed_ns) = match goes_before {
            true => (0, 0),
            false => session.turn.joins(self.queued_at_ns, admission.settings.quantum_ns()),
        };
        let request = Request {
            first: caller.first,
            tenant: session.tenant().0,
            queued_at_ns: self.queued_at_ns,
            deadline_ns: self.deadline_ns,
            turn_ns,
            owed_ns,
            passed_until_ns: 0,
        };
        session.node.parker.prepare();
        let (joined, wake) = admission.core.join(&session.node, request, (caller, end), queue_limit);
        admission.wake(wake);
        if let Joined::Queued(state) = joined {
            if !goes_before {
                // What it owes it owes until it is served: the queue may be left without.
                session.turn.deficit.new_turn();
            }
            admission.metrics.saw_queue(state);
            admission.watchdog.rouse();
            return Next::Sleep;
        }
        session.node.parker.cancel();
        match joined {
            Joined::Queued(_) => Next::Sleep,
            Joined::Entered(how, state) => {
                session.count(how);
                session.has_overtaken(state);
                Next::Enter(state)
            }
            Joined::Full => Next::Refuse(session.refused(Refused::QueueFull)),
            Joined::Cancelled => Next::Refuse(session.refused(Refused::Cancelled)),
        }
    }

    /// A verdict is there.
    pub(crate) fn on(&mut self, session: &Session, verdict: Verdict) -> Next {
        // It has lost its turn, and with that its place in the queue.
        self.in_turn &= verdict != Verdict::Retry;
        let core = &session.admission.core;
        match verdict {
            Verdict::Granted => {
                let state = session.starts();
                self.entered_from_queue(session, true, state)
            }
            Verdict::Summoned => match session.arrives(self.caller(session)) {
                Some(state) => self.entered_from_queue(session, true, state),
                // It was the next, and still is.
                None => self.join(session, End::Front, ANY_LENGTH),
            },
            Verdict::Retry => match core.try_enter(core.state(), self.caller(session)) {
                Some((_, state)) => self.entered_from_queue(session, false, state),
                None => {
                    session.turn.forfeit();
                    self.join(session, End::Back, ANY_LENGTH)
                }
            },
            Verdict::Cancelled => Next::Refuse(session.refused(Refused::Cancelled)),
            Verdict::TimedOut => Next::Refuse(session.refused(Refused::Timeout)),
        }
    }

    /// The deadline has passed without a verdict.
    pub(crate) fn on_deadline(&self, session: &Session) -> Option<Next> {
        // If it is not in the queue any more, somebody is about to bring a verdict.
        session.admission.core.withdraw(&session.node).then(|| {
            session.node.parker.cancel();
            Next::Refuse(session.refused(Refused::Timeout))
        })
    }

    /// It has a place, but must not use it if it was cancelled meanwhile.
    fn entered_from_queue(&self, session: &Session, timed: bool, state: State) -> Next {
        let metrics = &session.admission.metrics;
        let now_ns = metrics.now_ns();
        if timed {
            // Relaxed: the parker's word orders it after the waker's store.
            let granted_at_ns = session.node.granted_at_ns.load(Ordering::Relaxed);
            metrics.woken_to_running(now_ns.saturating_sub(granted_at_ns));
        }
        if session.node.cancelled.load(Ordering::Acquire) {
            session.give_place_on(state);
            return Next::Refuse(session.refused(Refused::Cancelled));
        }
        let waited_ns = now_ns.saturating_sub(self.queued_at_ns);
        metrics.queued(waited_ns);
        add(&session.counters.entered_from_queue, 1);
        let goes_on = self.in_turn && session.turn.pause(waited_ns);
        if goes_on {
            metrics.resumed(waited_ns);
        } else {
            session.turn.begin(now_ns, !self.is_first(session));
            if state.policy() == Policy::Quantum {
                session.admission.overtaking.served();
            }
        }
        Next::Enter(state)
    }
}

impl Admission {
    /// When one that begins to ask at `now_ns` gives up; `own` is its own deadline.
    fn deadline_ns(&self, now_ns: u64, own: Option<Instant>) -> u64 {
        let own_ns = own.map_or(Request::NEVER, |own| self.metrics.ns_of(own));
        self.settings.deadline_ns(now_ns).min(own_ns)
    }
}

impl Session {
    /// Queues until it has a place; the word as it is then.
    #[cold]
    pub(crate) fn queue(&self, deadline: Option<Instant>) -> Result<State, Refused> {
        self.sleep_until_asked(deadline, false)
    }

    /// Queues before those of the normal class.
    pub(crate) fn queue_ahead(&self) -> Result<State, Refused> {
        self.sleep_until_asked(None, true)
    }

    fn sleep_until_asked(&self, deadline: Option<Instant>, ahead: bool) -> Result<State, Refused> {
        self.place.set(Held::Asks);
        let (mut asking, mut next) = Asking::begin(self, deadline, ahead);
        let deadline = asking.deadline(self);
        let parker = &self.node.parker;
        let mut queued = false;
        let outcome = loop {
            next = match next {
                Next::Enter(state) => break Ok(state),
                Next::Refuse(why) => break Err(why),
                Next::Sleep => {
                    queued = true;
                    call_later_ones();
                    match parker.park(deadline) {
                        Some(verdict) => asking.on(self, verdict),
                        None => asking.on_deadline(self).unwrap_or_else(|| {
                            // The verdict is on its way. It may send the session back into the queue, where
                            // the deadline holds again.
                            let verdict =
                                parker.park(None).expect("without a deadline it parks for a verdict");
                            asking.on(self, verdict)
                        }),
                    }
                }
            }
        };
        self.place.set(Held::No);
        if let (true, Ok(state)) = (queued, outcome) {
            self.is_timed_if_others_wait(state);
        }
        outcome
    }

    /// Sleeps and looks again until it has a place; the word as it is then.
    #[cold]
    pub(crate) fn poll(&self, deadline: Option<Instant>) -> Result<State, Refused> {
        let admission = &*self.admission;
        let (core, metrics, delay) = (&admission.core, &admission.metrics, &admission.delay);
        let queued_at_ns = metrics.now_ns();
        let deadline_ns = admission.deadline_ns(queued_at_ns, deadline);
        let queue_limit = admission.settings.queue_limit();
        if metrics.polls_begin() > queue_limit && queue_limit != 0 {
            metrics.polls_end();
            return Err(self.refused(Refused::QueueFull));
        }
        self.place.set(Held::Asks);
        call_later_ones();
        let mut sleeps = 0;
        let outcome = loop {
            let left = Duration::from_nanos(deadline_ns.saturating_sub(metrics.now_ns()));
            let refused = if self.node.cancelled.load(Ordering::Acquire) {
                Some(Refused::Cancelled)
            } else {
                left.is_zero().then_some(Refused::Timeout)
            };
            if let Some(why) = refused {
                break Err(why);
            }
            sleep(delay.before_sleep(sleeps).min(left));
            sleeps += 1;
            let seen = core.state();
            if let Some((_, state)) = core.try_enter(seen, self.caller()) {
                break Ok(Some(state));
            }
            if seen.policy() != Policy::Sleep {
                break Ok(None);
            }
        };
        self.place.set(Held::No);
        delay.entered(sleeps, metrics.polls_end());
        match outcome {
            Ok(Some(state)) => {
                metrics.queued(metrics.now_ns().saturating_sub(queued_at_ns));
                add(&self.counters.entered_from_queue, 1);
                Ok(state)
            }
            // The policy has changed. What has passed of the queue timeout has passed.
            Ok(None) => self.queue(metrics.instant_of(deadline_ns)),
            Err(why) => Err(self.refused(why)),
        }
    }

    /// It is turned away: counted, and a cancellation is obeyed.
    fn refused(&self, why: Refused) -> Refused {
        if why == Refused::Cancelled {
            self.forget_cancel();
        }
        self.admission.metrics.refused(why);
        why
    }
}
