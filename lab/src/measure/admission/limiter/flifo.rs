//! The scheduler as a limiter.

use std::sync::Arc;

use flifo_admission::{Admission, Session, WaitKind};

use super::Limiter;

/// A thread's session.
pub(crate) struct FlifoSession(Session);

impl FlifoSession {
    /// A session of this scheduler.
    pub(crate) fn new(admission: &Arc<Admission>) -> Self {
        FlifoSession(admission.session())
    }
}

impl Limiter for FlifoSession {
    #[inline]
    fn enter(&self) {
        self.0.enter().expect("no deadline, no bound on the queue, and nobody cancels");
    }

    #[inline]
    fn exit(&self) {
        self.0.exit();
    }

    #[inline]
    fn wait_begin(&self, kind: WaitKind) {
        self.0.wait_begin(kind);
    }

    #[inline]
    fn wait_end(&self, kind: WaitKind) {
        self.0.wait_end(kind);
    }
}
