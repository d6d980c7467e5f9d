//! How long the processors had nothing to do.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Of the processors that this thread may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Idle {
    /// How long they were idle since the machine was started, all of them together, ns. One that waits for a disk is idle.
    pub(crate) ns: u64,
    pub(crate) processors: u32,
}

impl Idle {
    /// Until now. `None` where the system does not tell.
    pub(crate) fn now() -> Option<Self> {
        if cfg!(any(loom, shuttle, miri)) {
            return None;
        }
        let allowed = sched_getaffinity(None).ok()?;
        let stat = std::fs::read_to_string("/proc/stat").ok()?;
        parse(
            &stat,
            |cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu),
            rustix::param::clock_ticks_per_second(),
        )
    }
}

/// Of `/proc/stat`, of which a processor's line is `cpu<N> user nice system idle iowait ...`, in ticks.
fn parse(stat: &str, is_allowed: impl Fn(usize) -> bool, ticks_per_second: u64) -> Option<Idle> {
    let mut idle = Idle { ns: 0, processors: 0 };
    for line in stat.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut fields = line.split(' ');
        // The first line is of all together.
        let Some(cpu) = fields.next().filter(|cpu| !cpu.is_empty()) else { continue };
        if !is_allowed(cpu.parse().ok()?) {
            continue;
        }
        let mut ticks = fields.skip(3).map(|field| field.parse::<u64>().ok());
        let idle_ticks = ticks.next()??.saturating_add(ticks.next()??);
        idle.ns = idle.ns.saturating_add(idle_ticks.saturating_mul(1_000_000_000 / ticks_per_second.max(1)));
        idle.processors += 1;
    }
    (idle.processors != 0).then_some(idle)
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    const STAT: &str = "cpu  10 2 30 400 50 0 6 0 0 0\ncpu0 5 1 15 100 20 0 3 0 0 0\n\
                        cpu1 5 1 15 300 30 0 3 0 0 0\nintr 5 0\nctxt 7\n";

    #[test]
    fn it_is_of_those_that_are_allowed_and_waiting_for_disks_is_idle() {
        let of = |is_allowed: fn(usize) -> bool| parse(STAT, is_allowed, 100);
        assert_eq!(of(|_| true), Some(Idle { ns: 4_500_000_000, processors: 2 }));
        assert_eq!(of(|cpu| cpu == 0), Some(Idle { ns: 1_200_000_000, processors: 1 }));
        assert_eq!(of(|_| false), None);
        for stat in ["", "cpu  1 2 3 4 5\n", "cpux 1 2 3 4 5\n", "cpu0 1 2 3 4\n", "cpu0 1 2 3 4 x\n"] {
            assert_eq!(parse(stat, |_| true, 100), None, "{stat}");
        }
    }

    #[test]
    fn this_machine_tells() {
        assert!(Idle::now().unwrap().processors > 0);
    }
}
