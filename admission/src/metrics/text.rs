//! A snapshot as text: a block to read, and one line for a log.

use std::fmt::{self, Display, Formatter};

use super::histograms::Times;
use super::snapshot::Snapshot;
use crate::config::WaitKind;

/// A block of text to read: a name and a value a line. Its wording may change: programs read the fields, or [`Snapshot::line`].
impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "ADMISSION")?;
        for (name, value) in self.pairs() {
            writeln!(f, "  {name:<24}{value}")?;
        }
        match self.gain_over_fifo_max() {
            Some(gain) => write!(f, "  {:<24}{gain:.2}", "1 + W/S"),
            None => write!(f, "  {:<24}not known yet", "1 + W/S"),
        }
    }
}

impl Snapshot {
    /// The same as one line of `key=value` pairs for a log. Times are in microseconds; a key whose value is not known is left out. Keys
    /// stay as they are.
    pub fn line(&self) -> String {
        let pairs = self.pairs().into_iter().map(|(name, value)| format!(" {name}={value}"));
        format!("admission{}", pairs.collect::<String>())
    }

    fn pairs(&self) -> Vec<(String, String)> {
        let numbers: [(&str, &dyn Display); 24] = [
            ("policy", &self.policy),
            ("limit", &self.thread_concurrency),
            ("running", &self.running),
            ("pending", &self.pending),
            ("queued", &self.queued),
            ("running_max", &self.running_max),
            ("pending_max", &self.pending_max),
            ("queued_max", &self.queued_max),
            ("elapsed_s", &format_args!("{:.3}", self.elapsed.as_secs_f64())),
            ("entries_per_s", &format_args!("{:.1}", self.per_second(self.entries()))),
            ("at_once", &self.admitted_at_once),
            ("by_barging", &self.admitted_by_barging),
            ("from_queue", &self.admitted_from_queue),
            ("by_force", &self.admitted_by_force),
            ("by_ticket", &self.admitted_by_ticket),
            ("handed_off", &self.handed_off),
            ("reserved", &self.reserved),
            ("timeout", &self.refused_by_timeout),
            ("queue_full", &self.refused_queue_full),
            ("cancelled", &self.cancelled),
            ("stalls_broken", &self.stalls_broken),
            ("slots_reclaimed", &self.slots_reclaimed),
            ("promoted", &self.promoted),
            ("queued_with_deficit", &self.queued_with_deficit),
        ];
        let waiting: [(&str, &dyn Display); 2] =
            [("lock_waiters", &self.lock_waiters), ("disk_waits", &self.disk_waits)];
        let numbers = numbers.into_iter().chain(waiting);
        let mut pairs: Vec<_> = numbers.map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        let mut times = |name: &str, times: Option<Times>| {
            let Some(Times { count, p50_ns, p95_ns, p99_ns, max_ns }) = times else { return };
            pairs.push((name.to_owned(), count.to_string()));
            for (quantile, ns) in [("p50", p50_ns), ("p95", p95_ns), ("p99", p99_ns), ("max", max_ns)] {
                pairs.push((format!("{name}_{quantile}_us"), format!("{:.3}", ns as f64 / 1e3)));
            }
        };
        times("queue_waits", self.queue_wait());
        times("resumed", self.resumed_wait());
        times("woken", self.woken_to_running());
        times("stays_sampled", self.time_running());
        for kind in WaitKind::ALL {
            times(&format!("wait_{}", kind.name().replace(' ', "_")), self.wait(kind));
        }
        pairs
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
    fn a_block_and_a_line_have_the_same_pairs() {
        let (block, line) = (busy().to_string(), busy().line());
        let expected = "admission policy=quantum limit=4 running=5 pending=2 queued=1015 running_max=7 \
            pending_max=3 queued_max=1020 elapsed_s=10.000 entries_per_s=106500.0 at_once=120000 \
            by_barging=5000 from_queue=30000 by_force=10000 by_ticket=900000 handed_off=29900 reserved=70000 timeout=3 \
            queue_full=20 cancelled=1 stalls_broken=1 slots_reclaimed=6 promoted=12 queued_with_deficit=30 \
            lock_waiters=40 disk_waits=8 queue_waits=100 queue_waits_p50_us=2129.919 queue_waits_p95_us=2129.919 ";
        assert!(line.starts_with(expected), "{line}");
        for pair in ["woken_p50_us=0.050", "wait_row_lock=7", "wait_disk_p50_us=133.119"] {
            assert!(line.contains(pair), "{pair} in {line}");
        }
        for pair in line.split(' ').skip(1) {
            let (name, value) = pair.split_once('=').unwrap();
            assert!(block.contains(&format!("\n  {name:<24}{value}\n")), "{pair} in {block}");
        }
        assert!(block.ends_with("3.00"), "1 + W/S: {block}");
    }

    #[test]
    fn a_new_scheduler_prints_no_times() {
        let new = nothing_yet(Policy::None, 0);
        assert!(new.line().ends_with("disk_waits=0"), "{}", new.line());
        assert!(new.to_string().ends_with("not known yet"));
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
