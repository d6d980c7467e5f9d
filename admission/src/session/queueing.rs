//! A session that finds no slot: how it queues and is refused.
//!
//! Threads and tasks take the same steps ([`Queueing`]); they differ only in how they sleep.

use std::time::Instant;

use super::{Class, Queueing, Session, State};
use crate::gate::Joined;
use crate::gate::parker::{Verdict, call_pending_wakers};
use crate::gate::queue::Request;
use crate::gate::waiters::End;
use crate::gate::word::Word;
use crate::metrics::{add, record};
use crate::quantum::fairness::Charge;
use crate::refused::Refused;
use crate::sync::Ordering;

/// The queue limit for a session that was let into the queue before.
const ANY_LENGTH: u32 = 0;
/// How many queue timeouts a session waits that was cut off within a statement. After one, all that queued before it have left.
const CUT_OFF_TIMEOUTS: u64 = 2;

/// What comes next.
pub(crate) enum Next {
    /// It is in the queue: sleep until there is a verdict.
    Sleep,
    /// It has a slot that T counts; the word as it is then.
    Enter(Word),
    Refuse(Refused),
}

impl Queueing {
    /// Begins to queue. `deadline` is the caller's own.
    pub(crate) fn begin(session: &Session, deadline: Option<Instant>) -> (Self, Next) {
        let admission = &*session.admission;
        let queued_at_ns = admission.metrics.now_ns();
        let own_ns = deadline.map_or(Request::NEVER, |deadline| admission.metrics.ns_of(deadline));
        let (timeouts, limit) = match session.is_cut_off.take() {
            true => (CUT_OFF_TIMEOUTS, ANY_LENGTH),
            false => (1, admission.settings.queue_limit.get() as u32),
        };
        let timeout_ns = admission.settings.queue_timeout_ns.get().saturating_mul(timeouts);
        let deadline_ns = queued_at_ns.saturating_add(timeout_ns).min(own_ns);
        let word = admission.gate.word();
        // With one slot, slices that are cut short would come back in front of each other.
        let resumes = !(session.class() == Class::First || word.limit() == 1)
            && word.policy().rule().has_slices
            && session.slice.resumes(queued_at_ns, admission.settings.quantum_ns.get());
        let queueing = Queueing { queued_at_ns, deadline_ns, resumes };
        let end = if resumes { End::Front } else { End::Back };
        (queueing, queueing.join(session, end, limit))
    }

    fn join(&self, session: &Session, end: End, queue_limit: u32) -> Next {
        let admission = &*session.admission;
        let caller = session.caller();
        let Queueing { queued_at_ns, deadline_ns, resumes } = *self;
        // Lock holders and resumed slices neither pay off a deficit nor update the averages.
        let is_charged = !(caller.first || resumes);
        let charge = if is_charged {
            let quantum_ns = admission.settings.quantum_ns.get();
            let (slice_ns, deficit_ns) = session.slice.charge(queued_at_ns, quantum_ns);
            Charge { slice_ns, deficit_ns, passed_until_ns: 0 }
        } else {
            Charge::default()
        };
        let request = Request { first: caller.first, queued_at_ns, deadline_ns, charge };
        session.node.parker.prepare();
        let (joined, wake) = admission.gate.join(&session.node, request, (caller, end), queue_limit);
        admission.wake(wake);
        if let Joined::Queued(word) = joined {
            if admission.extra.on_queued(&admission.gate) {
                admission.wake(admission.gate.serve(queued_at_ns));
            }
            if is_charged {
                // The deficit stays until the session is served: it may leave the queue before.
                session.slice.deficit.new_slice();
            }
            admission.metrics.saw_queue(word);
            admission.alarm.rouse();
            return Next::Sleep;
        }
        session.node.parker.cancel();
        match joined {
            Joined::Queued(_) => Next::Sleep,
            Joined::Entered(how, word) => {
                session.on_entered(how, word);
                Next::Enter(word)
            }
            Joined::Full => Next::Refuse(session.refused(Refused::QueueFull)),
            Joined::Cancelled => Next::Refuse(session.refused(Refused::Cancelled)),
        }
    }

    /// A verdict is there.
    pub(crate) fn on_verdict(&mut self, session: &Session, verdict: Verdict) -> Next {
        let gate = &session.admission.gate;
        match verdict {
            Verdict::Granted => {
                let word = gate.start();
                let granted_at_ns = session.node.granted_at_ns.load(Ordering::Relaxed);
                self.enter_from_queue(session, word, Some(granted_at_ns))
            }
            Verdict::Retry => {
                // With its place in the queue it has lost its slice.
                self.resumes = false;
                match gate.try_enter(gate.word(), session.caller()) {
                    Some((_, word)) => self.enter_from_queue(session, word, None),
                    None => {
                        session.slice.forfeit();
                        self.join(session, End::Back, ANY_LENGTH)
                    }
                }
            }
            Verdict::Cancelled => Next::Refuse(session.refused(Refused::Cancelled)),
            Verdict::TimedOut => Next::Refuse(session.refused(Refused::Timeout)),
        }
    }

    /// The deadline has passed without a verdict. `None`: it is out of the queue already, and a verdict is on its way.
    pub(crate) fn on_deadline(&self, session: &Session) -> Option<Next> {
        session.admission.gate.withdraw(&session.node).then(|| {
            session.node.parker.cancel();
            Next::Refuse(session.refused(Refused::Timeout))
        })
    }

    /// It has a slot, but must not use it if it was cancelled before it runs.
    fn enter_from_queue(&self, session: &Session, word: Word, granted_at_ns: Option<u64>) -> Next {
        let metrics = &session.admission.metrics;
        let now_ns = metrics.now_ns();
        if let Some(granted_at_ns) = granted_at_ns {
            record(&metrics.histograms.woken_to_running_ns, now_ns.saturating_sub(granted_at_ns));
        }
        if session.node.cancelled.load(Ordering::Acquire) {
            session.pass_slot_on(word);
            return Next::Refuse(session.refused(Refused::Cancelled));
        }
        let waited_ns = now_ns.saturating_sub(self.queued_at_ns);
        record(&metrics.histograms.queued_ns, waited_ns);
        add(&session.counters.from_queue, 1);
        if self.resumes && session.slice.pause(waited_ns) {
            record(&metrics.histograms.resumed_ns, waited_ns);
        } else {
            session.slice.begin(now_ns, session.class() == Class::Normal);
            if word.policy().rule().has_slices {
                session.admission.barging.on_served();
            }
        }
        Next::Enter(word)
    }
}

impl Session {
    /// Queues until it has a slot; the word as it is then.
    #[cold]
    pub(crate) fn queue(&self, deadline: Option<Instant>) -> Result<Word, Refused> {
        self.state.set(State::Acquiring);
        let (mut queueing, mut next) = Queueing::begin(self, deadline);
        let deadline = self.admission.metrics.instant_of(queueing.deadline_ns);
        let parker = &self.node.parker;
        let mut queued = false;
        let outcome = loop {
            next = match next {
                Next::Enter(word) => break Ok(word),
                Next::Refuse(why) => break Err(why),
                Next::Sleep => {
                    queued = true;
                    call_pending_wakers();
                    match parker.park(deadline) {
                        Some(verdict) => queueing.on_verdict(self, verdict),
                        None => queueing.on_deadline(self).unwrap_or_else(|| {
                            // The verdict may send it back into the queue, where the deadline holds again.
                            let verdict =
                                parker.park(None).expect("without a deadline it parks for a verdict");
                            queueing.on_verdict(self, verdict)
                        }),
                    }
                }
            }
        };
        self.state.set(State::Outside);
        if let (true, Ok(word)) = (queued, outcome) {
            self.time_slice_if_others_wait(word);
        }
        outcome
    }

    /// It is turned away: counted, and a cancellation is obeyed.
    pub(crate) fn refused(&self, why: Refused) -> Refused {
        if why == Refused::Cancelled {
            self.forget_cancel();
        }
        self.admission.metrics.refused(why);
        why
    }
}
