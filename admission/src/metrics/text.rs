//! A snapshot as text: a block in the manner of `SHOW ENGINE INNODB STATUS`, and one line for a log.

use std::fmt::{self, Display, Formatter, Write};

use super::histograms::Times;
use super::snapshot::Snapshot;
use crate::config::WaitKind;

/// A block of text to read, with rates over [`Snapshot::elapsed`]. Its wording may change: programs read the
/// fields, or [`Snapshot::line`].
impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rate = |count| Rate(self.per_second(count));
        let limit = Limit(self.thread_concurrency);
        writeln!(f, "---------\nADMISSION\n---------")?;
        writeln!(
            f,
            "Policy {}, thread_concurrency {limit}; counts and times of {:.2} seconds",
            self.policy,
            self.elapsed.as_secs_f64()
        )?;
        writeln!(
            f,
            "{} threads running, {} in queue, {} pending",
            self.running, self.queued, self.pending
        )?;
        writeln!(
            f,
            "Highest: {} running, {} in queue, {} pending",
            self.running_max, self.queued_max, self.pending_max
        )?;
        let kinds = [
            ("at once", self.admitted_at_once),
            ("by barging", self.admitted_by_barging),
            ("from the queue", self.admitted_from_queue),
            ("by force", self.admitted_by_force),
            ("by ticket", self.admitted_by_ticket),
        ];
        writeln!(f, "Entries {}, {}: {}", self.entries(), rate(self.entries()), List(&kinds))?;
        writeln!(f, "{}", kinds.map(|(kind, count)| format!("{} {kind}", rate(count))).join(", "))?;
        writeln!(
            f,
            "Hand-offs {}, {}; entries on reserved slots {}, {}",
            self.handed_off,
            rate(self.handed_off),
            self.reserved,
            rate(self.reserved)
        )?;
        let reasons = [
            ("by timeout", self.refused_by_timeout),
            ("with a full queue", self.refused_queue_full),
            ("cancelled", self.cancelled),
        ];
        writeln!(f, "Refused {}, {}: {}", self.refused(), rate(self.refused()), List(&reasons))?;
        writeln!(
            f,
            "Stalls broken {}, slots reclaimed {}, promoted by age {}, queued with a deficit {}",
            self.stalls_broken, self.slots_reclaimed, self.promoted, self.queued_with_deficit
        )?;
        writeln!(f, "Waits without a slot: {} for row locks, {} for disks", self.lock_waiters, self.disk_waits)?;
        write_times(f, "Queue wait", self.queue_wait())?;
        write_times(f, "Of these, resumed slices", self.resumed_wait())?;
        write_times(f, "W, woken to running", self.woken_to_running())?;
        write_times(f, "S, running (one stay in 64)", self.time_running())?;
        match self.gain_over_fifo_max() {
            Some(gain) => writeln!(f, "1 + W/S: {gain:.2}")?,
            None => writeln!(f, "1 + W/S: not known yet")?,
        }
        for kind in WaitKind::ALL {
            let times = self.wait(kind);
            if times.is_some() {
                write_times(f, &format!("Wait, {}", kind.name()), times)?;
            }
        }
        write!(f, "----------------\nEND OF ADMISSION\n----------------")
    }
}

fn write_times(f: &mut Formatter<'_>, what: &str, times: Option<Times>) -> fmt::Result {
    let Some(Times { count, p50_ns, p95_ns, p99_ns, max_ns }) = times else {
        return writeln!(f, "{what}: none");
    };
    let [p50, p95, p99, max] = [p50_ns, p95_ns, p99_ns, max_ns].map(Time);
    writeln!(f, "{what}: {count} times, median {p50}, 95% {p95}, 99% {p99}, longest {max}")
}

impl Snapshot {
    /// The same as one line of `key=value` pairs for a log. Times are in microseconds; a key whose value is
    /// not known is left out. Keys stay as they are.
    pub fn line(&self) -> String {
        let mut line = format!("admission policy={}", self.policy);
        let mut pair = |key: &str, value: &dyn Display| {
            write!(line, " {key}={value}").expect("a String takes everything");
        };
        pair("limit", &self.thread_concurrency);
        pair("running", &self.running);
        pair("pending", &self.pending);
        pair("queued", &self.queued);
        pair("running_max", &self.running_max);
        pair("pending_max", &self.pending_max);
        pair("queued_max", &self.queued_max);
        pair("elapsed_s", &format_args!("{:.3}", self.elapsed.as_secs_f64()));
        pair("entries_per_s", &format_args!("{:.1}", self.per_second(self.entries())));
        pair("at_once", &self.admitted_at_once);
        pair("by_barging", &self.admitted_by_barging);
        pair("from_queue", &self.admitted_from_queue);
        pair("by_force", &self.admitted_by_force);
        pair("by_ticket", &self.admitted_by_ticket);
        pair("handed_off", &self.handed_off);
        pair("reserved", &self.reserved);
        pair("timeout", &self.refused_by_timeout);
        pair("queue_full", &self.refused_queue_full);
        pair("cancelled", &self.cancelled);
        pair("stalls_broken", &self.stalls_broken);
        pair("slots_reclaimed", &self.slots_reclaimed);
        pair("promoted", &self.promoted);
        pair("queued_with_deficit", &self.queued_with_deficit);
        pair("lock_waiters", &self.lock_waiters);
        pair("disk_waits", &self.disk_waits);
        if let Some(queue) = self.queue_wait() {
            pair("queue_p50_us", &us(queue.p50_ns));
            pair("queue_p95_us", &us(queue.p95_ns));
            pair("queue_p99_us", &us(queue.p99_ns));
            pair("queue_max_us", &us(queue.max_ns));
        }
        if let Some(resumed) = self.resumed_wait() {
            pair("resumed", &resumed.count);
            pair("resumed_p50_us", &us(resumed.p50_ns));
        }
        if let Some(w) = self.woken_to_running() {
            pair("w_p50_us", &us(w.p50_ns));
        }
        if let Some(s) = self.time_running() {
            pair("s_p50_us", &us(s.p50_ns));
        }
        for kind in WaitKind::ALL {
            if let Some(wait) = self.wait(kind) {
                let name = kind.name().replace(' ', "_");
                pair(&format!("wait_{name}"), &wait.count);
                pair(&format!("wait_{name}_p50_us"), &us(wait.p50_ns));
            }
        }
        line
    }
}

fn us(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e3)
}

/// A limit; 0 is none.
struct Limit(u32);

impl Display for Limit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 == 0 { f.write_str("0 (no limit)") } else { write!(f, "{}", self.0) }
    }
}

/// Events per second.
struct Rate(f64);

impl Display for Rate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2}/s", self.0)
    }
}

/// Counts with their names.
struct List<'a>(&'a [(&'a str, u64)]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (n, (name, count)) in self.0.iter().enumerate() {
            write!(f, "{}{count} {name}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// A time in the unit that suits it, with three digits.
struct Time(u64);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (ns / 1e3, "us"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
        write!(f, "{value:.decimals$} {unit}")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::time::Duration;

    use super::super::Metrics;
    use super::*;
    use crate::config::Policy;
    use crate::gate::Counts;
    use crate::gate::word::Word;

    fn nothing_yet(policy: Policy, limit: u32) -> Snapshot {
        let now = Metrics::new().snapshot(Word::idle(policy, limit), Counts::default(), 0);
        Snapshot { elapsed: Duration::ZERO, ..now }
    }

    /// Ten seconds of a busy server.
    fn busy() -> Snapshot {
        let mut busy = Snapshot {
            elapsed: Duration::from_secs(10),
            running: 5,
            pending: 2,
            queued: 1015,
            running_max: 7,
            pending_max: 3,
            queued_max: 1020,
            admitted_at_once: 120_000,
            admitted_by_barging: 5_000,
            admitted_from_queue: 30_000,
            admitted_by_force: 10_000,
            admitted_by_ticket: 900_000,
            handed_off: 29_900,
            reserved: 70_000,
            refused_by_timeout: 3,
            refused_queue_full: 20,
            cancelled: 1,
            stalls_broken: 1,
            slots_reclaimed: 6,
            promoted: 12,
            queued_with_deficit: 30,
            lock_waiters: 40,
            disk_waits: 8,
            ..nothing_yet(Policy::Quantum, 4)
        };
        busy.woken_to_running_ns.add(50, 3).unwrap();
        busy.running_ns.add(25, 2).unwrap();
        busy.queued_ns.add(1 << 21, 98).unwrap();
        busy.queued_ns.add(1 << 32, 2).unwrap();
        busy.resumed_ns.add(1 << 21, 9).unwrap();
        busy.wait_ns[WaitKind::RowLock as usize].add(1 << 14, 7).unwrap();
        busy.wait_ns[WaitKind::Disk as usize].add(1 << 17, 4).unwrap();
        busy
    }

    #[test]
    fn a_busy_server_prints_a_block() {
        let expected = "\
---------
ADMISSION
---------
Policy quantum, thread_concurrency 4; counts and times of 10.00 seconds
5 threads running, 1015 in queue, 2 pending
Highest: 7 running, 1020 in queue, 3 pending
Entries 1065000, 106500.00/s: 120000 at once, 5000 by barging, 30000 from the queue, 10000 by force, \
900000 by ticket
12000.00/s at once, 500.00/s by barging, 3000.00/s from the queue, 1000.00/s by force, 90000.00/s by ticket
Hand-offs 29900, 2990.00/s; entries on reserved slots 70000, 7000.00/s
Refused 24, 2.40/s: 3 by timeout, 20 with a full queue, 1 cancelled
Stalls broken 1, slots reclaimed 6, promoted by age 12, queued with a deficit 30
Waits without a slot: 40 for row locks, 8 for disks
Queue wait: 100 times, median 2.13 ms, 95% 2.13 ms, 99% 4.36 s, longest 4.36 s
Of these, resumed slices: 9 times, median 2.13 ms, 95% 2.13 ms, 99% 2.13 ms, longest 2.13 ms
W, woken to running: 3 times, median 50 ns, 95% 50 ns, 99% 50 ns, longest 50 ns
S, running (one stay in 64): 2 times, median 25 ns, 95% 25 ns, 99% 25 ns, longest 25 ns
1 + W/S: 3.00
Wait, row lock: 7 times, median 16.6 us, 95% 16.6 us, 99% 16.6 us, longest 16.6 us
Wait, disk: 4 times, median 133 us, 95% 133 us, 99% 133 us, longest 133 us
----------------
END OF ADMISSION
----------------";
        assert_eq!(busy().to_string(), expected);
    }

    #[test]
    fn a_new_scheduler_prints_no_times_and_no_rates() {
        let expected = "\
---------
ADMISSION
---------
Policy none, thread_concurrency 0 (no limit); counts and times of 0.00 seconds
0 threads running, 0 in queue, 0 pending
Highest: 0 running, 0 in queue, 0 pending
Entries 0, 0.00/s: 0 at once, 0 by barging, 0 from the queue, 0 by force, 0 by ticket
0.00/s at once, 0.00/s by barging, 0.00/s from the queue, 0.00/s by force, 0.00/s by ticket
Hand-offs 0, 0.00/s; entries on reserved slots 0, 0.00/s
Refused 0, 0.00/s: 0 by timeout, 0 with a full queue, 0 cancelled
Stalls broken 0, slots reclaimed 0, promoted by age 0, queued with a deficit 0
Waits without a slot: 0 for row locks, 0 for disks
Queue wait: none
Of these, resumed slices: none
W, woken to running: none
S, running (one stay in 64): none
1 + W/S: not known yet
----------------
END OF ADMISSION
----------------";
        assert_eq!(nothing_yet(Policy::None, 0).to_string(), expected);
    }

    #[test]
    fn a_line_has_the_same_in_pairs() {
        let expected = "admission policy=quantum limit=4 running=5 pending=2 queued=1015 running_max=7 \
            pending_max=3 queued_max=1020 elapsed_s=10.000 entries_per_s=106500.0 at_once=120000 \
            by_barging=5000 from_queue=30000 by_force=10000 by_ticket=900000 handed_off=29900 reserved=70000 timeout=3 \
            queue_full=20 cancelled=1 stalls_broken=1 slots_reclaimed=6 promoted=12 queued_with_deficit=30 lock_waiters=40 \
            disk_waits=8 queue_p50_us=2129.919 queue_p95_us=2129.919 queue_p99_us=4362076.159 queue_max_us=4362076.159 \
            resumed=9 resumed_p50_us=2129.919 w_p50_us=0.050 s_p50_us=0.025 wait_row_lock=7 wait_row_lock_p50_us=16.639 wait_disk=4 \
            wait_disk_p50_us=133.119";
        assert_eq!(busy().line(), expected);
        assert!(!nothing_yet(Policy::Fifo, 4).line().contains("queue_p50_us"));
    }

    #[test]
    fn times_have_three_digits_and_the_unit_that_suits() {
        let shown = [0, 999, 1_000, 12_345, 123_456, 9_870_000, 3_210_000_000, 98_700_000_000]
            .map(|ns| Time(ns).to_string());
        let expected = ["0 ns", "999 ns", "1.00 us", "12.3 us", "123 us", "9.87 ms", "3.21 s", "98.7 s"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_difference_has_the_rates_of_the_time_between() {
        let mut later = busy();
        later.elapsed += Duration::from_secs(2);
        later.admitted_at_once += 100;
        later.queued_ns.add(30, 1).unwrap();
        let between = later.since(&busy());
        assert_eq!((between.elapsed, between.entries()), (Duration::from_secs(2), 100));
        assert_eq!(between.per_second(between.admitted_at_once), 50.0);
        assert_eq!(between.queue_wait().map(|times| (times.count, times.max_ns)), Some((1, 30)));
        assert_eq!(between.woken_to_running(), None);
        let backwards = busy().since(&later);
        assert_eq!((backwards.entries(), backwards.per_second(5)), (0, 0.0));
    }
}
