//! The start of an operation on a database: the checks for fork and close, and the waiter.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use flifo_admission::Admission;

use super::database::Inner;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::wait::Waiter;

impl Inner {
    /// For an operation that is under no admission, which begins with it. In a forked child this is [`Error::Forked`].
    pub(super) fn waiter(&self) -> Result<Waiter> {
        self.check_process()?;
        Ok(self.background_waiter())
    }

    pub(super) fn background_waiter(&self) -> Waiter {
        Waiter::background().recording(&self.waits)
    }

    /// The waiter of a session. In a forked child it has no admission, whose locks may be held forever; no operation
    /// gets that far.
    pub(super) fn session_waiter(&self, admission: &Arc<Admission>) -> Waiter {
        match self.process.is_current() {
            true => Waiter::session(admission.session()).recording(&self.waits),
            false => self.background_waiter(),
        }
    }

    /// Refuses a child of the process that opened the database: it would wait for threads that it does not have.
    #[inline]
    pub(super) fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    /// The process that has it open.
    pub(super) fn process(&self) -> Process {
        self.process
    }

    pub(super) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }
}
