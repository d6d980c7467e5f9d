//! The CPU time of a worker, from the kernel's accounting.

use std::mem::MaybeUninit;

use serde::{Deserialize, Serialize};

/// The scope of the accounting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose {
    /// The calling thread's.
    Thread,
    /// This process, including kernel threads that work for it, as for a ring.
    Process,
}

/// CPU time and context switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    pub(crate) user_us: u64,
    pub(crate) system_us: u64,
    /// Both kinds.
    pub(crate) context_switches: u64,
}

impl Usage {
    /// Since the thread or the process began.
    pub(crate) fn now(whose: Whose) -> Self {
        let whose = match whose {
            Whose::Thread => libc::RUSAGE_THREAD,
            Whose::Process => libc::RUSAGE_SELF,
        };
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a local rusage, which the call fills; all zeroes is a valid value if it fails.
        let usage = unsafe {
            libc::getrusage(whose, usage.as_mut_ptr());
            usage.assume_init()
        };
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        Usage {
            user_us: us(usage.ru_utime),
            system_us: us(usage.ru_stime),
            context_switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
        }
    }

    /// What came in between.
    pub(crate) fn since(self, earlier: Usage) -> Usage {
        Usage {
            user_us: self.user_us.saturating_sub(earlier.user_us),
            system_us: self.system_us.saturating_sub(earlier.system_us),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
        }
    }

    pub(crate) fn add(&mut self, other: Usage) {
        self.user_us += other.user_us;
        self.system_us += other.system_us;
        self.context_switches += other.context_switches;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_is_spent_is_counted() {
        let before = Usage::now(Whose::Thread);
        let begun = std::time::Instant::now();
        while begun.elapsed() < std::time::Duration::from_millis(30) {
            std::hint::black_box(0);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        let used = Usage::now(Whose::Thread).since(before);
        assert!(used.user_us + used.system_us > 0 && used.context_switches > 0, "{used:?}");
        let all = Usage::now(Whose::Process);
        assert!(all.user_us + all.system_us >= used.user_us + used.system_us);
    }
}
