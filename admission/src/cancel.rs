//! Ending a session's queueing from another thread.

use std::sync::{Arc, Weak};

use crate::admission::Admission;
use crate::parker::Verdict;
use crate::queue::Node;
use crate::session::Session;
use crate::sync::Ordering;

/// Ends the queueing of one session; from [`Session::canceller`]. It may outlive the session, and the
/// scheduler.
#[derive(Clone)]
pub struct Canceller {
    pub(crate) admission: Weak<Admission>,
    pub(crate) node: Arc<Node>,
}

impl Canceller {
    pub(crate) fn new(admission: &Arc<Admission>, node: &Arc<Node>) -> Self {
        Canceller { admission: Arc::downgrade(admission), node: Arc::clone(node) }
    }

    /// The session's [`Session::enter`] returns [`crate::Refused::Cancelled`], if it is queued now or when it
    /// would queue next. If it was handed a place already, the place goes to the next. A session that is
    /// inside stays; [`Session::forget_cancel`] takes the cancellation back.
    pub fn cancel(&self) {
        // Release: what the canceller did before is visible to the session. Set before the queue's lock is
        // taken; see `Core::join`.
        self.node.cancelled.store(true, Ordering::Release);
        if let Some(admission) = self.admission.upgrade()
            && admission.core.withdraw_cancelled(&self.node)
        {
            self.node.parker.wake(Verdict::Cancelled);
        }
    }
}

impl Session {
    /// Takes back a cancellation that found nothing to cancel. Call it where a statement begins, so that a
    /// cancellation that came too late for the statement before does not hit this one.
    pub fn forget_cancel(&self) {
        // Relaxed: only this session acts on it.
        self.node.cancelled.store(false, Ordering::Relaxed);
    }
}
