//! What the kernel counts of one process.

use std::thread;
use std::time::{Duration, Instant};

use flifo::measure::sampler::{Switches, process_ns};

/// After some threads' files.
const PAUSE: Duration = Duration::from_millis(1);

/// The counters at one moment. Zeros if the process is gone.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    at: Instant,
    /// CPU time of all threads, ended ones included.
    cpu_ns: u64,
    /// Context switches of the threads that live.
    switches: Switches,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Usage {
        let cpu_ns = process_ns(pid).unwrap_or(0);
        Usage { at: Instant::now(), cpu_ns, switches: Switches::default() }
    }

    /// Reads a file per thread more, with pauses: this thread precedes all others at the edges of a window, and a statement inside admission
    /// at the same time would have no CPU for 30 ms: its time slice would end, and the longest wait would be of our making.
    pub(crate) fn with_switches(pid: u32) -> Usage {
        let mut usage = Usage::of(pid);
        usage.switches = Switches::of(pid, || thread::sleep(PAUSE)).unwrap_or_default();
        usage
    }

    /// CPUs in use on average.
    pub(crate) fn cpus_since(&self, earlier: &Usage) -> f64 {
        self.cpu_ns.saturating_sub(earlier.cpu_ns) as f64 / 1e9 / self.seconds_since(earlier)
    }

    /// Context switches per second.
    pub(crate) fn switches_per_s_since(&self, earlier: &Usage) -> f64 {
        self.switches.since(&earlier.switches) as f64 / self.seconds_since(earlier)
    }

    fn seconds_since(&self, earlier: &Usage) -> f64 {
        self.at.saturating_duration_since(earlier.at).as_secs_f64().max(1e-3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_by_hand() {
        let at = Instant::now();
        let first = Usage { at, cpu_ns: 1_000_000_000, switches: Switches([(1, 10), (2, 20)].into()) };
        let switches = Switches([(1, 30), (3, 5)].into());
        let last = Usage { at: at + Duration::from_secs(2), cpu_ns: 4_000_000_000, switches };
        // 3 s of CPU time in 2 s; thread 1 switched 20 times, thread 3 came and switched 5 times.
        assert_eq!(last.cpus_since(&first), 1.5);
        assert_eq!(last.switches_per_s_since(&first), 12.5);
    }

    #[test]
    fn this_process_and_one_that_is_gone() {
        assert!(!Usage::with_switches(std::process::id()).switches.0.is_empty());
        assert_eq!(Usage::with_switches(u32::MAX).cpu_ns, 0);
    }
}
