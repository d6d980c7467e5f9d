//! The one place where a thread of the engine waits.

use flifo_admission::{Session, WaitKind};

use crate::metrics::WaitReason;

/// A thread's licence to wait: gives up its place in admission, if the reason says so, and records the time.
pub struct Waiter {
    admission: Option<Session>,
}

impl Waiter {
    /// For a background thread, which holds no place.
    pub fn background() -> Self {
        Waiter { admission: None }
    }

    /// For a session under admission.
    pub fn session(admission: Session) -> Self {
        Waiter { admission: Some(admission) }
    }

    /// Runs `f`, which waits. The caller holds no latch.
    pub fn wait<T>(&self, reason: WaitReason, f: impl FnOnce() -> T) -> T {
        let kind = match reason {
            WaitReason::DiskRead | WaitReason::PageLoad | WaitReason::FreeFrame => Some(WaitKind::Disk),
            _ => None,
        };
        let declared = self.admission.as_ref().zip(kind);
        if let Some((session, kind)) = declared {
            session.wait_begin(kind);
        }
        let result = f();
        if let Some((session, kind)) = declared {
            session.wait_end(kind);
        }
        result
    }
}
