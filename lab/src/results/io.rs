//! The results of `flifo iobench`: JSON, schema 1, explained in `docs/iobench.md`.
//!
//! The rules are those of [`crate::results`]: a key carries its unit as its last word, keys are added and never
//! renamed or dropped, and a figure that could not be measured is `null`, never 0.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::ResultsError;
use super::json::{check_figures, pretty_json};
use super::machine::Machine;
use super::sweep::Failure;
use crate::support::output::replace_file;
use crate::support::statistics::{Spread, median};

/// The version of the layout described in `docs/iobench.md`.
pub const SCHEMA: u32 = 1;

/// The value of [`IoResults::kind`].
pub const KIND: &str = "iobench";

/// A whole run: storage, settings, and figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IoResults {
    /// Version of the layout, 1. A reader of schema 1 refuses any other.
    pub schema: u32,
    /// `iobench`; a sweep's file lacks this key.
    pub kind: String,
    /// The published study that this run repeats, `linux-io-2012`; empty for an ordinary run.
    pub experiment: String,
    /// The command as it was typed.
    pub command_line: String,
    /// Start of the run, UTC, as `2026-01-31T12:00:00Z`.
    pub started_at: String,
    /// Seconds from the start to the last cell, writing the files included.
    pub elapsed_s: f64,
    /// True if the run stopped before every cell had all its rounds.
    pub interrupted: bool,
    /// The machine and the program.
    pub machine: Machine,
    /// The storage below the files.
    pub storage: Storage,
    /// The settings of all cells.
    pub settings: IoSettings,
    /// One cell for each measured combination.
    pub cells: Vec<IoCell>,
}

/// The storage under the data files. Empty texts and `None`: the system does not report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Storage {
    /// The directory or device as it was given.
    pub path: String,
    /// Type of the file system, such as `ext4`; empty for a raw device.
    pub filesystem: String,
    /// Options of the mount point and of the file system.
    pub mount_options: String,
    /// Name of the whole disk in `/sys/block`, `vda` for `/dev/vda3`; a loop or mapped device has its own name.
    /// Empty for memory and networks.
    pub device: String,
    /// Vendor and model; for a loop device its file, for a mapped one its name, for a virtual one its driver.
    pub device_model: String,
    /// Size of the whole disk, bytes.
    pub device_bytes: Option<u64>,
    /// The I/O scheduler in force, such as `none` or `mq-deadline`.
    pub scheduler: String,
    /// True if the kernel takes it for a rotating disk; often wrong for virtual disks.
    pub rotational: Option<bool>,
    /// `write back`: a volatile cache that a sync must flush. `write through`: none, according to the disk.
    pub write_cache: String,
    /// Requests that a queue of the block layer holds.
    pub requests_max: Option<u64>,
    /// Smallest addressable unit, bytes.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit that is written without reading first, bytes.
    pub physical_block_bytes: Option<u64>,
    /// Smallest write that the file can make untorn, bytes (`statx`, Linux 6.11).
    pub atomic_write_min_bytes: Option<u64>,
    /// Largest such write, bytes.
    pub atomic_write_max_bytes: Option<u64>,
}

/// The settings of all cells of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IoSettings {
    /// Size of all files of a cell together, bytes.
    pub size_bytes: u64,
    /// Rounds requested; a cell of an interrupted run has fewer.
    pub rounds: u32,
    /// Measured window requested, seconds.
    pub round_s: f64,
    /// Load before each window that is not measured, seconds.
    pub warmup_s: f64,
    /// Share of reads among the I/Os of `random-mixed`, percent.
    pub read_share_pct: u32,
    /// Pages of a batch of `doublewrite`.
    pub batch_blocks: u32,
    /// Seed of the random choices.
    pub seed: u64,
    /// True for a run with `--quick`, whose errors are wider.
    pub quick: bool,
}

/// The key that identifies a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IoKey {
    /// `random-read`, `random-write`, `random-mixed`, `log` or `doublewrite`.
    pub workload: String,
    /// `file`, or `device` for a raw block device.
    pub access: String,
    /// `direct`, `fsync`, `fdatasync`, `dsync` or `buffered`.
    pub mode: String,
    /// Size of an I/O, bytes.
    pub block_bytes: u32,
    /// Number of files that share the data; 0 for a raw device.
    pub files: u32,
    /// What does the I/O: `processes`, `threads` or `io-uring`.
    pub carrier: String,
    /// Processes, threads, or I/Os in flight on one ring.
    pub concurrency: u32,
}

/// One setting, with all its rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IoCell {
    #[serde(flatten)]
    pub key: IoKey,
    /// The rounds that were measured.
    pub rounds: Vec<IoRound>,
    /// Rounds that ended early, without figures.
    pub failures: Vec<Failure>,
    /// I/Os per second, median of the rounds.
    pub iops_median: Option<f64>,
    /// I/Os per second of the slowest round.
    pub iops_min: Option<f64>,
    /// I/Os per second of the fastest round.
    pub iops_max: Option<f64>,
    /// 10^6 bytes per second, median of the rounds.
    pub mb_per_s_median: Option<f64>,
    /// 99th percentile of the latency of reads or writes, whichever is slower, median of the rounds, microseconds.
    pub p99_us_median: Option<f64>,
    /// CPU time of the workers per I/O, median of the rounds, microseconds.
    pub cpu_us_per_io_median: Option<f64>,
}

/// One round of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IoRound {
    /// Number of the round, from 0. Rounds of the same number were measured close to each other.
    pub round: u32,
    /// Seconds measured, without warm-up.
    pub elapsed_s: f64,
    /// Blocks read.
    pub reads: u64,
    /// Blocks written as durably as the mode requires.
    pub writes: u64,
    /// Calls of `fsync` or `fdatasync`.
    pub syncs: u64,
    /// (`reads` + `writes`) / `elapsed_s`.
    pub iops: f64,
    /// 10^6 bytes per second, reads and writes.
    pub mb_per_s: f64,
    /// Latency of reads; `null` if no read ended or was under way.
    pub read_latency: Option<IoLatency>,
    /// Latency of writes, each with its sync; `null` if no write ended or was under way.
    pub write_latency: Option<IoLatency>,
    /// CPU time of the workers in user mode, seconds.
    pub user_s: f64,
    /// CPU time of the workers in the kernel, seconds.
    pub system_s: f64,
    /// (`user_s` + `system_s`) per I/O, microseconds.
    pub cpu_us_per_io: f64,
    /// Context switches of the workers, voluntary and involuntary.
    pub context_switches: u64,
    /// The same seconds from the disk's counters; `null` if the disk is not known.
    pub block_layer: Option<BlockLayer>,
}

/// Latency of completed I/Os from the application's view, microseconds; `None` if none completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IoLatency {
    /// Mean, microseconds; like the percentiles `null` if no I/O ended in the round.
    pub mean_us: Option<f64>,
    /// Median, microseconds.
    pub p50_us: Option<f64>,
    /// 95th percentile, microseconds.
    pub p95_us: Option<f64>,
    /// 99th percentile, microseconds.
    pub p99_us: Option<f64>,
    /// 99.9th percentile, microseconds.
    pub p99_9_us: Option<f64>,
    /// The longest, microseconds, also of an I/O that had not ended when the round did.
    pub max_us: f64,
}

/// Differences of `/sys/block/*/stat` over a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BlockLayer {
    /// Read requests, after merging.
    pub reads: u64,
    /// Write requests, after merging.
    pub writes: u64,
    /// Flushes of the disk's cache; 0 before Linux 5.5, which does not count them.
    pub flushes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Mean time of a read in the block layer and the disk, milliseconds; 0 without any.
    pub read_ms: f64,
    /// Mean time of a write in the block layer and the disk, milliseconds; 0 without any.
    pub write_ms: f64,
    /// Share of the time with at least one request under way, percent.
    pub busy_pct: f64,
    /// Requests under way, mean.
    pub in_flight: f64,
}

impl IoResults {
    /// The cell of `key`, created if necessary. Cells are in the order of their first round.
    pub fn cell_mut(&mut self, key: &IoKey) -> &mut IoCell {
        let index = self.cells.iter().position(|cell| cell.key == *key).unwrap_or_else(|| {
            self.cells.push(IoCell { key: key.clone(), ..IoCell::default() });
            self.cells.len() - 1
        });
        &mut self.cells[index]
    }

    /// Pretty JSON with a newline at its end.
    pub fn to_json(&self) -> String {
        pretty_json(self)
    }

    /// Reads what [`IoResults::to_json`] wrote, in this or another version.
    pub fn from_json(json: &str) -> Result<Self, ResultsError> {
        let mut results: IoResults = serde_json::from_str(json)?;
        if results.schema != SCHEMA {
            return Err(ResultsError::Schema(results.schema));
        }
        check_figures(&results)?;
        for cell in &mut results.cells {
            if cell.key.concurrency == 0 {
                return Err(ResultsError::Figure("a cell has a concurrency of 0".into()));
            }
            cell.summarise();
        }
        Ok(results)
    }

    /// Writes the complete file.
    pub fn save(&self, path: &Path) -> Result<(), ResultsError> {
        Ok(replace_file(path, self.to_json().as_bytes())?)
    }
}

impl IoCell {
    /// Adds a round and updates the medians.
    pub fn push(&mut self, round: IoRound) {
        self.rounds.push(round);
        self.summarise();
    }

    /// Computes the medians from the rounds.
    pub(crate) fn summarise(&mut self) {
        let iops = Spread::of(self.rounds.iter().map(|round| round.iops));
        self.iops_median = iops.map(|iops| iops.median);
        self.iops_min = iops.map(|iops| iops.min);
        self.iops_max = iops.map(|iops| iops.max);
        self.mb_per_s_median = median(self.rounds.iter().map(|round| round.mb_per_s));
        self.p99_us_median = median(self.rounds.iter().filter_map(IoRound::p99_us));
        self.cpu_us_per_io_median = median(self.rounds.iter().map(|round| round.cpu_us_per_io));
    }
}

impl IoRound {
    /// The 99th percentile of reads or writes, whichever is slower; `None` for a round without I/O.
    pub fn p99_us(&self) -> Option<f64> {
        let sides = [&self.read_latency, &self.write_latency];
        sides.into_iter().flatten().filter_map(|latency| latency.p99_us).reduce(f64::max)
    }
}
