//! One reading of the kernel's counters of a machine, a process, its threads.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use procfs::process::{self, Schedstat};
use procfs::{CurrentSI, FromRead, KernelStats};
use rustix::time::{ClockId, clock_gettime};

use super::Server;

/// The counters at one moment; all but `at` and `running` only grow.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) at: Instant,
    pub(super) stat: Option<Stat>,
    /// CPU time of the server, ended threads included; `None` if it is not known.
    pub(super) server_ns: Option<u64>,
    /// CPU time of each client thread; the last one known once a thread has ended.
    pub(super) client_ns: Vec<u64>,
}

/// The counters in `/proc/stat`, in ticks of all CPUs together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stat {
    /// Nice included; guests are in it already.
    pub(super) user: u64,
    /// Interrupts included.
    pub(super) system: u64,
    pub(super) idle: u64,
    pub(super) iowait: u64,
    pub(super) steal: u64,
    pub(super) context_switches: u64,
    pub(super) running: u32,
    pub(super) processors: u32,
}

impl Reading {
    pub(super) fn now(server: Server, client_tids: &[u32], previous: Option<&Reading>) -> Self {
        let stat = Stat::now();
        let client_ns = client_tids.iter().enumerate().map(|(index, tid)| {
            let known = previous.map_or(0, |reading| reading.client_ns[index]);
            thread_ns(*tid).unwrap_or(known)
        });
        let client_ns: Vec<u64> = client_ns.collect();
        let server_ns = match server {
            Server::RestOfThisProcess => {
                let process = clock_gettime(ClockId::ProcessCPUTime);
                let process_ns = process.tv_sec as u64 * 1_000_000_000 + process.tv_nsec as u64;
                Some(process_ns.saturating_sub(client_ns.iter().sum()))
            }
            Server::Process(pid) => pid.and_then(process_ns),
        };
        Reading { at: Instant::now(), stat, server_ns, client_ns }
    }
}

impl Stat {
    pub(super) fn now() -> Option<Self> {
        KernelStats::current().ok().map(Stat::from)
    }

    /// All ticks: what a percentage is of.
    pub(super) fn ticks(&self) -> u64 {
        self.user + self.system + self.idle + self.iowait + self.steal
    }
}

impl From<KernelStats> for Stat {
    fn from(stats: KernelStats) -> Self {
        let all = stats.total;
        Stat {
            user: all.user + all.nice,
            system: all.system + all.irq.unwrap_or(0) + all.softirq.unwrap_or(0),
            idle: all.idle,
            iowait: all.iowait.unwrap_or(0),
            steal: all.steal.unwrap_or(0),
            context_switches: stats.ctxt,
            running: stats.procs_running.unwrap_or(0),
            processors: stats.cpu_time.len() as u32,
        }
    }
}

/// Nanoseconds a thread of this process has run: exact from `schedstat`, in ticks from `stat` without it.
pub(crate) fn thread_ns(tid: u32) -> Option<u64> {
    // By its path: `Process` and `Task` would open two directories first.
    match Schedstat::from_file(format!("/proc/self/task/{tid}/schedstat")) {
        Ok(exact) => Some(exact.sum_exec_runtime),
        Err(_) => ns_of_stat(&format!("/proc/self/task/{tid}/stat")),
    }
}

/// Nanoseconds that another process has run, including its ended threads, in the kernel's ticks (10 ms).
pub fn process_ns(pid: u32) -> Option<u64> {
    ns_of_stat(&format!("/proc/{pid}/stat"))
}

fn ns_of_stat(path: &str) -> Option<u64> {
    let stat = process::Stat::from_file(path).ok()?;
    Some((stat.utime + stat.stime) * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// Context switches, voluntary and involuntary, of the live threads of a process, by their ids.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches(pub HashMap<u32, u64>);

impl Switches {
    /// Reads a file per thread, some 12 ms for a thousand, and calls `between` after each 32; `None` if the process is gone.
    pub fn of(pid: u32, between: impl Fn()) -> Option<Self> {
        let mut all = HashMap::new();
        for (index, entry) in (1..).zip(fs::read_dir(format!("/proc/{pid}/task")).ok()?) {
            if index % 32 == 0 {
                between();
            }
            let entry = entry.ok()?;
            let tid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            // A thread may end between two lines.
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            if let Some((tid, count)) = tid.zip(switches_of(&status)) {
                all.insert(tid, count);
            }
        }
        Some(Switches(all))
    }

    /// The number since an earlier reading. A new thread counts from 0, an ended one not at all.
    pub fn since(&self, earlier: &Switches) -> u64 {
        let before = |tid| earlier.0.get(tid).copied().unwrap_or(0);
        self.0.iter().map(|(tid, count)| count.saturating_sub(before(tid))).sum()
    }
}

/// By hand: the crate keeps all 60 lines of the file, which for a thousand threads takes 31 ms instead of 12.
fn switches_of(status: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        status.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
    };
    Some(field("voluntary_ctxt_switches:")? + field("nonvoluntary_ctxt_switches:")?)
}

#[cfg(test)]
mod tests {
    use procfs::FromReadSI;

    use super::*;

    const STAT: &str = "cpu  100 5 40 800 30 3 2 20 7 0\n\
        cpu0 50 5 20 400 15 2 1 10 7 0\ncpu1 50 0 20 400 15 1 1 10 0 0\n\
        intr 229182 0 9\nctxt 516833\nbtime 1\nprocesses 7774\nprocs_running 3\nprocs_blocked 0\n";

    #[test]
    fn proc_stat_by_hand() {
        let expected = Stat {
            user: 105,
            system: 45,
            idle: 800,
            iowait: 30,
            steal: 20,
            context_switches: 516_833,
            running: 3,
            processors: 2,
        };
        let stats = KernelStats::from_read(STAT.as_bytes(), procfs::current_system_info()).unwrap();
        assert_eq!(Stat::from(stats), expected);
        assert_eq!(expected.ticks(), 1000);
    }

    #[test]
    fn both_kinds_of_switches() {
        let status = "Name:\tmariadbd\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches_of(status), Some(157));
        assert_eq!(switches_of("voluntary_ctxt_switches:\t150\n"), None);
    }

    #[test]
    fn switches_of_this_process_and_of_one_that_is_gone() {
        let switches = Switches::of(std::process::id(), || ()).unwrap();
        assert!(switches.since(&Switches::default()) > 0);
        assert_eq!(switches.since(&switches), 0);
        assert_eq!((Switches::of(u32::MAX, || ()), process_ns(u32::MAX)), (None, None));
    }

    #[test]
    fn a_thread_that_ended_keeps_its_last_figure() {
        let gone = u32::MAX;
        let server = Server::Process(Some(std::process::id()));
        let mut before = Reading::now(server, &[gone], None);
        assert_eq!(before.client_ns, [0]);
        before.client_ns = vec![77];
        let after = Reading::now(server, &[gone], Some(&before));
        assert_eq!(after.client_ns, [77]);
        assert!(after.server_ns >= before.server_ns && before.server_ns.is_some());
    }
}
