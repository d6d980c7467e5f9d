//! One reading of the counters, and its parsing. Pure but for [`Reading::now`].

use std::fs;
use std::time::Instant;

use super::Server;
use rustix::time::{ClockId, clock_gettime};

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

/// What `/proc/stat` says, in ticks of all processors together.
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
        Stat::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut stat = Stat::default();
        let mut seen_total = false;
        for line in text.lines() {
            let (name, rest) = line.split_once(' ')?;
            let first = || rest.split_whitespace().next()?.parse::<u64>().ok();
            match name {
                "cpu" => {
                    let ticks: Vec<u64> = rest.split_whitespace().map_while(|t| t.parse().ok()).collect();
                    let [user, nice, system, idle, iowait, irq, softirq, ..] = ticks[..] else {
                        return None;
                    };
                    stat.user = user + nice;
                    stat.system = system + irq + softirq;
                    stat.idle = idle;
                    stat.iowait = iowait;
                    stat.steal = ticks.get(7).copied().unwrap_or(0);
                    seen_total = true;
                }
                "ctxt" => stat.context_switches = first()?,
                "procs_running" => stat.running = first()? as u32,
                _ if name.starts_with("cpu") => stat.processors += 1,
                _ => {}
            }
        }
        (seen_total && stat.processors > 0).then_some(stat)
    }

    /// All ticks: what a percentage is of.
    pub(super) fn ticks(&self) -> u64 {
        self.user + self.system + self.idle + self.iowait + self.steal
    }
}

/// Nanoseconds a thread of this process has run: exact from `schedstat`, in ticks from `stat` without it.
pub(crate) fn thread_ns(tid: u32) -> Option<u64> {
    let exact = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat"));
    if let Some(ns) = exact.ok().and_then(|text| text.split_whitespace().next()?.parse().ok()) {
        return Some(ns);
    }
    let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    ns_of_stat(&stat)
}

/// Nanoseconds that another process has run, its ended threads included, in the kernel's ticks (10 ms).
pub(crate) fn process_ns(pid: u32) -> Option<u64> {
    ns_of_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn ns_of_stat(stat: &str) -> Option<u64> {
    let ticks = ticks_of_stat(stat)?;
    Some(ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)))
}

/// User and system ticks of a `stat` line, whose second field may hold spaces and brackets.
fn ticks_of_stat(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(Stat::parse(STAT), Some(expected));
        assert_eq!(Stat::parse(STAT).unwrap().ticks(), 1000);
    }

    #[test]
    fn what_is_no_proc_stat_is_refused() {
        assert_eq!(Stat::parse(""), None);
        assert_eq!(Stat::parse("cpu  1 2 3\ncpu0 1 2 3\n"), None);
        assert_eq!(Stat::parse("ctxt lots\n"), None);
    }

    #[test]
    fn thread_stat_with_a_bad_name() {
        let line = "7837 (a) b (c)) R 7835 7835 4196 0 -1 4194304 324 641 2 0 11 31 9 9 20 0 1 0 99672";
        assert_eq!(ticks_of_stat(line), Some(42));
        assert_eq!(ticks_of_stat("7837 cat"), None);
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
