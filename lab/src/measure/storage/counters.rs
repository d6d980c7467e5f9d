//! The counters of one worker in one round, and their sum.

use histogram::Histogram;
use serde::{Deserialize, Serialize};

use super::usage::Usage;
use crate::measure::scheduler::quantile_us;
use crate::results::io::{IoLatency, IoRound};

/// Buckets are at most 1/128 of their value wide.
const GROUPING_POWER: u8 = 7;
/// Latencies up to 18 minutes.
const MAX_VALUE_POWER: u8 = 40;
const LATENCY_NS_MAX: u64 = (1 << MAX_VALUE_POWER) - 1;

/// One piece of a workload, after which the clock is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) is_write: bool,
    /// Blocks that took this long.
    pub(crate) blocks: u64,
    pub(crate) syncs: u64,
}

/// The I/O in the measured part of a round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IoCounters {
    reads: Side,
    writes: Side,
    syncs: u64,
    usage: Usage,
}

/// Reads, or writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Side {
    blocks: u64,
    sum_ns: u64,
    /// Including I/Os that did not end within the window.
    max_ns: u64,
    #[serde(with = "sparse")]
    latency_ns: Histogram,
}

impl IoCounters {
    pub(crate) fn new() -> Self {
        IoCounters { reads: Side::new(), writes: Side::new(), syncs: 0, usage: Usage::default() }
    }

    #[inline]
    pub(crate) fn count(&mut self, step: Step, ns: u64) {
        self.syncs += step.syncs;
        let side = if step.is_write { &mut self.writes } else { &mut self.reads };
        side.count(step.blocks, ns);
    }

    /// Counts an I/O that had not ended when the window did, with its time until then, so that a hanging I/O counts
    /// whenever it ends.
    pub(crate) fn unfinished(&mut self, is_write: bool, ns: u64) {
        let side = if is_write { &mut self.writes } else { &mut self.reads };
        side.max_ns = side.max_ns.max(ns);
    }

    pub(crate) fn set_usage(&mut self, usage: Usage) {
        self.usage = usage;
    }

    pub(crate) fn merge(&mut self, other: &IoCounters) {
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.syncs += other.syncs;
        self.usage.add(other.usage);
    }

    /// The figures over `elapsed_s` seconds.
    pub(crate) fn round(&self, round: u32, elapsed_s: f64, block_bytes: u32) -> IoRound {
        let (reads, writes) = (self.reads.blocks, self.writes.blocks);
        let iops = (reads + writes) as f64 / elapsed_s;
        let cpu_us = (self.usage.user_us + self.usage.system_us) as f64;
        IoRound {
            round,
            elapsed_s,
            reads,
            writes,
            syncs: self.syncs,
            iops,
            mb_per_s: iops * f64::from(block_bytes) / 1e6,
            read_latency: self.reads.latency(),
            write_latency: self.writes.latency(),
            user_s: self.usage.user_us as f64 / 1e6,
            system_s: self.usage.system_us as f64 / 1e6,
            cpu_us_per_io: cpu_us / ((reads + writes).max(1)) as f64,
            context_switches: self.usage.context_switches,
            block_layer: None,
        }
    }
}

impl Side {
    fn new() -> Self {
        let latency_ns = Histogram::new(GROUPING_POWER, MAX_VALUE_POWER).expect("a shape that there is");
        Side { blocks: 0, sum_ns: 0, max_ns: 0, latency_ns }
    }

    #[inline]
    fn count(&mut self, blocks: u64, ns: u64) {
        self.blocks += blocks;
        self.sum_ns += ns * blocks;
        self.max_ns = self.max_ns.max(ns);
        // Cannot fail below the largest value.
        let _ = self.latency_ns.add(ns.min(LATENCY_NS_MAX), blocks);
    }

    fn merge(&mut self, other: &Side) {
        self.blocks += other.blocks;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.latency_ns.checked_add_assign(&other.latency_ns).expect("all have one shape");
    }

    fn latency(&self) -> Option<IoLatency> {
        let max_us = self.max_ns as f64 / 1e3;
        // The middle of the last bucket may lie above the longest.
        let us = |quantile| quantile_us(&self.latency_ns, quantile).map(|us| us.min(max_us));
        let has_ended = self.blocks > 0;
        (has_ended || self.max_ns > 0).then(|| IoLatency {
            mean_us: has_ended.then(|| self.sum_ns as f64 / self.blocks as f64 / 1e3),
            p50_us: us(0.50),
            p95_us: us(0.95),
            p99_us: us(0.99),
            p99_9_us: us(0.999),
            max_us,
        })
    }
}

/// A histogram as its buckets that are not empty.
mod sparse {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{GROUPING_POWER, Histogram, MAX_VALUE_POWER};

    pub(crate) fn serialize<S: Serializer>(histogram: &Histogram, to: S) -> Result<S::Ok, S::Error> {
        let counts = histogram.as_slice().iter().enumerate().filter(|(_, count)| **count > 0);
        counts.collect::<Vec<_>>().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram, D::Error> {
        let mut histogram = Histogram::new(GROUPING_POWER, MAX_VALUE_POWER).map_err(D::Error::custom)?;
        for (bucket, count) in Vec::<(usize, u64)>::deserialize(from)? {
            let place = histogram.as_mut_slice().get_mut(bucket);
            *place.ok_or_else(|| D::Error::custom("no such bucket"))? = count;
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> IoCounters {
        let mut counters = IoCounters::new();
        for us in 1..=1000 {
            counters.count(Step { is_write: false, blocks: 1, syncs: 0 }, us * 1000);
        }
        counters.count(Step { is_write: true, blocks: 64, syncs: 5 }, 7_000_000);
        counters.set_usage(Usage { user_us: 1000, system_us: 3000, context_switches: 9 });
        counters
    }

    #[test]
    fn figures_by_hand() {
        let round = counters().round(2, 0.5, 4096);
        assert_eq!((round.round, round.reads, round.writes, round.syncs), (2, 1000, 64, 5));
        assert_eq!(round.iops, 2128.0);
        assert!((round.mb_per_s - 2128.0 * 4096.0 / 1e6).abs() < 1e-9);
        let read = round.read_latency.unwrap();
        for (measured, exact) in
            [(read.p50_us, 500.0), (read.p95_us, 950.0), (read.p99_us, 990.0), (read.p99_9_us, 999.0)]
        {
            let measured = measured.unwrap();
            assert!((measured / exact - 1.0).abs() < 1.0 / 128.0, "{measured} for {exact}");
        }
        assert_eq!((read.max_us, read.mean_us), (1000.0, Some(500.5)));
        // Every page of the batch waited for the whole of it.
        let write = round.write_latency.unwrap();
        assert_eq!((write.mean_us, write.max_us), (Some(7000.0), 7000.0));
        let p50_us = write.p50_us.unwrap();
        assert!((p50_us / 7000.0 - 1.0).abs() < 1.0 / 128.0 && p50_us <= write.max_us);
        assert!((round.cpu_us_per_io - 4000.0 / 1064.0).abs() < 1e-9);
    }

    #[test]
    fn what_hangs_shows_in_the_maximum_and_nowhere_else() {
        let mut hangs = counters();
        hangs.unfinished(false, 1_000);
        hangs.unfinished(true, 9_000_000);
        let (with, without) = (hangs.round(0, 1.0, 4096), counters().round(0, 1.0, 4096));
        assert_eq!((with.writes, with.read_latency), (64, without.read_latency));
        let write = without.write_latency.unwrap();
        assert_eq!(with.write_latency, Some(IoLatency { max_us: 9000.0, ..write }));

        let mut alone = IoCounters::new();
        alone.unfinished(true, 9_000_000);
        let mut sum = IoCounters::new();
        sum.merge(&serde_json::from_str(&serde_json::to_string(&alone).unwrap()).unwrap());
        let round = sum.round(0, 1.0, 4096);
        assert_eq!((round.writes, round.read_latency, round.p99_us()), (0, None, None));
        assert_eq!(round.write_latency, Some(IoLatency { max_us: 9000.0, ..IoLatency::default() }));
    }

    #[test]
    fn what_was_not_done_has_no_latency() {
        let round = IoCounters::new().round(0, 1.0, 4096);
        assert_eq!((round.read_latency, round.write_latency, round.iops), (None, None, 0.0));
        assert_eq!(round.cpu_us_per_io, 0.0);
    }

    #[test]
    fn counters_survive_the_way_to_another_process() {
        let json = serde_json::to_string(&counters()).unwrap();
        assert!(!json.contains('\n') && json.len() < 20_000, "{}", json.len());
        let mut sum: IoCounters = serde_json::from_str(&json).unwrap();
        sum.merge(&counters());
        let (one, both) = (counters().round(0, 1.0, 512), sum.round(0, 1.0, 512));
        assert_eq!((both.reads, both.syncs, both.context_switches), (2 * one.reads, 10, 18));
        assert_eq!(both.read_latency, one.read_latency);
        assert!(
            serde_json::from_str::<IoCounters>(
                &json.replace("\"latency_ns\":[[", "\"latency_ns\":[[99999,1],[")
            )
            .is_err()
        );
    }
}
