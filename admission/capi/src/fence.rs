//! An asymmetric fence: orders a store before a load where one side does this in every call and the other side once in
//! a session's life.
//!
//! The frequent side calls [`light`], which is a fence for the compiler only. The rare side calls [`heavy`]: the kernel
//! makes every CPU that runs a thread of this process execute a full fence (`membarrier(2)`, private expedited).
//! Afterwards the frequent side's store is visible to the rare side, or the frequent side's load sees what the rare side
//! stored.

#[cfg(not(loom))]
mod imp {
    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering, compiler_fence};

    use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};

    /// The frequent side's fence. Valid only if [`available`] returned true.
    #[inline(always)]
    pub(crate) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    /// The rare side's fence. Returns false if the kernel refused: nothing is ordered then.
    pub(crate) fn heavy() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }

    /// Whether the kernel supports this. Found out once; the answer also holds in a child after fork.
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

/// The model checker has no kernel. `membarrier` executes a full fence in every thread at some moment of the call, so
/// here both sides execute one. This is stronger than the kernel's: the fences of two frequent sides order each other,
/// too. No code may rely on that.
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
