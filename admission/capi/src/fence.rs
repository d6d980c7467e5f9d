//! A store before a load, in order as another thread sees them, where one side does it for every statement
//! and the other side once in a session's life.
//!
//! The frequent side calls [`light`]: a fence for the compiler only. The rare side calls [`heavy`]: the kernel
//! makes every processor that runs a thread of this process pass a full fence (`membarrier(2)`, private
//! expedited). Afterwards either the frequent side's store is visible to the rare side, or its load comes after
//! what the rare side stored before.

#[cfg(not(loom))]
mod imp {
    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering, compiler_fence};

    use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

    /// The frequent side's fence. Only where [`available`] said yes.
    #[inline(always)]
    pub(crate) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// The rare side's fence; false if the kernel refused, and then nothing is known.
    pub(crate) fn heavy() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }

    /// Whether the kernel does this for us. Asked once; a child of fork has its parent's answer, and right.
    pub(crate) fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| {
            !cfg!(miri)
                && membarrier_query().contains_command(MembarrierCommand::PrivateExpedited)
                && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
                && heavy()
        })
    }
}

/// The model checker knows no kernel. What `membarrier` does is a full fence in every thread, at some moment of the
/// call; so here both sides pass one. That is more than the kernel's: here the fences of two frequent sides order
/// each other, too, so nothing may rest on that.
#[cfg(loom)]
mod imp {
    use loom::sync::atomic::{Ordering, fence};

    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    pub(crate) fn available() -> bool {
        true
    }
}

pub(crate) use imp::{available, heavy, light};
