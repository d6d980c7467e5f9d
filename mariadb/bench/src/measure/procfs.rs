//! What the kernel counts of one process.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

/// The counters at one moment. Zeros if the process is gone.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    at: Instant,
    /// Processor time of all threads, ended ones included.
    ticks: u64,
    /// Context switches of the threads that live.
    switches: HashMap<u32, u64>,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Usage {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        Usage { at: Instant::now(), ticks: ticks_of(&stat).unwrap_or(0), switches: HashMap::new() }
    }

    /// A file per thread more; some 15 ms for a thousand.
    pub(crate) fn with_switches(pid: u32) -> Usage {
        let mut usage = Usage::of(pid);
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let tid = task.file_name().to_string_lossy().parse();
            if let (Ok(tid), Some(switches)) = (tid, switches_of(&status)) {
                usage.switches.insert(tid, switches);
            }
        }
        usage
    }

    /// Processors in use on average, 1 for each.
    pub(crate) fn processors_since(&self, earlier: &Usage) -> f64 {
        let ticks = self.ticks.saturating_sub(earlier.ticks);
        ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64 / self.seconds_since(earlier)
    }

    /// Context switches per second. A thread that came meanwhile counts from 0, one that ended not at all.
    pub(crate) fn switches_per_s_since(&self, earlier: &Usage) -> f64 {
        let of = |(tid, switches): (&u32, &u64)| {
            switches.saturating_sub(earlier.switches.get(tid).copied().unwrap_or(0))
        };
        let switches: u64 = self.switches.iter().map(of).sum();
        switches as f64 / self.seconds_since(earlier)
    }

    fn seconds_since(&self, earlier: &Usage) -> f64 {
        self.at.saturating_duration_since(earlier.at).as_secs_f64().max(1e-3)
    }
}

/// User and system ticks of a `stat` line, whose second field may hold spaces and brackets.
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn switches_of(status: &str) -> Option<u64> {
    let counted = |line: &str| {
        let (name, count) = line.split_once(':')?;
        name.ends_with("voluntary_ctxt_switches").then(|| count.trim().parse::<u64>().ok())?
    };
    let counts: Vec<u64> = status.lines().filter_map(counted).collect();
    (counts.len() == 2).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ticks_after_a_bad_name() {
        let line = "7837 (a) b (c)) R 7835 7835 4196 0 -1 4194304 324 641 2 0 11 31 9 9 20 0 1 0 99672";
        assert_eq!(ticks_of(line), Some(42));
        assert_eq!(ticks_of(""), None);
    }

    #[test]
    fn both_kinds_of_switches() {
        let status = "Name:\tmariadbd\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches_of(status), Some(157));
        assert_eq!(switches_of("voluntary_ctxt_switches:\t150\n"), None);
    }

    #[test]
    fn differences_by_hand() {
        let at = Instant::now();
        let first = Usage { at, ticks: 100, switches: HashMap::from([(1, 10), (2, 20)]) };
        let switches = HashMap::from([(1, 30), (3, 5)]);
        let last = Usage { at: at + Duration::from_secs(2), ticks: 400, switches };
        // 300 ticks of 10 ms in 2 s; thread 1 switched 20 times, thread 3 came and switched 5 times.
        assert_eq!(last.processors_since(&first), 1.5);
        assert_eq!(last.switches_per_s_since(&first), 12.5);
    }

    #[test]
    fn this_process_and_one_that_is_gone() {
        assert!(!Usage::with_switches(std::process::id()).switches.is_empty());
        assert_eq!(Usage::with_switches(u32::MAX).ticks, 0);
    }
}
