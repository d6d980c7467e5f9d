//! Ending a session's queueing from another thread.

use std::sync::{Arc, Weak};

use super::Session;
use crate::gate::parker::{Verdict, Wakers};
use crate::gate::queue::Node;
use crate::shared::Admission;
use crate::sync::Ordering;

/// Ends the queueing of one session; from [`Session::canceller`]. It may outlive the session, and the scheduler.
#[derive(Clone)]
pub struct Canceller {
    admission: Weak<Admission>,
    node: Arc<Node>,
}

impl Canceller {
    /// The session's [`Session::enter`] returns [`crate::Refused::Cancelled`], if it queues now or when it would queue next. If it was
    /// handed a slot already, the slot goes to the next. A session that is running goes on; [`Session::forget_cancel`] takes the
    /// cancellation back.
    pub fn cancel(&self) {
        // Release: what the canceller did before is visible to the session. Set before the queue's lock is taken; see `Gate::join`.
        self.node.cancelled.store(true, Ordering::Release);
        if let Some(admission) = self.admission.upgrade()
            && admission.gate.withdraw_cancelled(&self.node)
        {
            Wakers(self.node.parker.notify(Verdict::Cancelled).into_iter().collect()).call();
        }
    }
}

impl Session {
    /// Returns a handle that ends this session's queueing from another thread, as KILL does.
    pub fn canceller(&self) -> Canceller {
        Canceller { admission: Arc::downgrade(&self.admission), node: Arc::clone(&self.node) }
    }

    /// Takes back a cancellation that found nothing to cancel. Call it where a statement begins, so that a cancellation that came too late
    /// for the statement before does not hit this one.
    pub fn forget_cancel(&self) {
        // Relaxed: only this session acts on it.
        self.node.cancelled.store(false, Ordering::Relaxed);
    }
}
