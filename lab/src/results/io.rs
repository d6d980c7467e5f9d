//! The results of `flifo iobench`: JSON, schema 1, explained in `docs/iobench.md`.
//!
//! The rules are those of [`crate::results`]: a key carries its unit as its last word, keys are added and never
//! renamed or dropped, and a figure that could not be measured is `null`, never 0.

use std::path::Path;

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoResults {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `iobench`, which distinguishes this file from a sweep's.
    pub kind: String,
    /// The published study that this run repeats, `linux-io-2012`; empty for an ordinary run.
    pub experiment: String,
    /// The command as it was typed.
    pub command_line: String,
    /// UTC, as `2026-01-31T12:00:00Z`.
    pub started_at: String,
    /// Seconds from the start to the last cell, including the writing of the files.
    pub elapsed_s: f64,
    /// Stopped before every cell had all its rounds.
    pub interrupted: bool,
    pub machine: Machine,
    pub storage: Storage,
    pub settings: IoSettings,
    /// One cell for each measured combination.
    pub cells: Vec<IoCell>,
}

/// The storage under the data files. Empty texts and `None`: the system does not report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// The directory or device that was measured.
    pub path: String,
    /// `ext4`, `xfs`, `tmpfs`; empty for a raw device.
    pub filesystem: String,
    pub mount_options: String,
    /// The whole disk's name in `/sys/block`, `vda` for `/dev/vda3`; empty where there is none.
    pub device: String,
    pub device_model: String,
    pub device_bytes: Option<u64>,
    /// The I/O scheduler in force, `none`, `mq-deadline`.
    pub scheduler: String,
    pub rotational: Option<bool>,
    /// `write back` or `write through`: whether a flush has an effect.
    pub write_cache: String,
    /// Requests that the block layer keeps per queue.
    pub requests_max: Option<u64>,
    pub logical_block_bytes: Option<u64>,
    pub physical_block_bytes: Option<u64>,
    /// Sizes that the file can write atomically (`statx`, Linux 6.11); `None` if it cannot.
    pub atomic_write_min_bytes: Option<u64>,
    pub atomic_write_max_bytes: Option<u64>,
}

/// The settings of all cells of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoSettings {
    /// Size of all files of a cell together.
    pub size_bytes: u64,
    pub rounds: u32,
    pub round_s: f64,
    pub warmup_s: f64,
    /// Share of reads under `random-mixed`, percent.
    pub read_share_pct: u32,
    /// Blocks of a batch under `doublewrite`.
    pub batch_blocks: u32,
    pub seed: u64,
    /// Shorter measurement (`--quick`): wider errors.
    pub quick: bool,
}

/// The key that identifies a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct IoKey {
    /// `random-read`, `random-write`, `random-mixed`, `log`, `doublewrite`.
    pub workload: String,
    /// `file`, or `device` for a raw block device.
    pub access: String,
    /// `direct`, `fsync`, `fdatasync`, `dsync`, `buffered`.
    pub mode: String,
    pub block_bytes: u32,
    /// 0 for a raw device.
    pub files: u32,
    /// The carrier of the I/O: `processes`, `threads`, `io-uring`.
    pub carrier: String,
    /// Processes, threads, or I/Os in flight on one ring.
    pub concurrency: u32,
}

/// One setting, with all its rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoCell {
    #[serde(flatten)]
    pub key: IoKey,
    pub rounds: Vec<IoRound>,
    /// Rounds that ended early, without figures.
    pub failures: Vec<Failure>,
    /// Medians over the rounds, written for scripts and always computed from the rounds.
    pub iops_median: Option<f64>,
    pub iops_min: Option<f64>,
    pub iops_max: Option<f64>,
    pub mb_per_s_median: Option<f64>,
    pub p99_us_median: Option<f64>,
    pub cpu_us_per_io_median: Option<f64>,
}

/// One round of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoRound {
    pub round: u32,
    /// Seconds measured, without warm-up.
    pub elapsed_s: f64,
    /// Blocks read and written by the application; a write counts when it is as durable as its mode requires.
    pub reads: u64,
    pub writes: u64,
    /// Calls of fsync or fdatasync.
    pub syncs: u64,
    /// (reads + writes) / `elapsed_s`.
    pub iops: f64,
    /// 10^6 bytes a second, reads and writes.
    pub mb_per_s: f64,
    pub read_latency: Option<IoLatency>,
    /// Latency of a write, including its sync if its mode has one.
    pub write_latency: Option<IoLatency>,
    /// CPU time of the workers, seconds.
    pub user_s: f64,
    pub system_s: f64,
    /// (user + system) / I/Os.
    pub cpu_us_per_io: f64,
    /// Context switches of the workers, voluntary and involuntary.
    pub context_switches: u64,
    /// The same seconds from the disk's counters; `None` if the disk is unknown.
    pub block_layer: Option<BlockLayer>,
}

/// Latency of completed I/Os from the application's view, microseconds; `None` if none completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoLatency {
    pub mean_us: Option<f64>,
    pub p50_us: Option<f64>,
    pub p95_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p99_9_us: Option<f64>,
    /// The longest latency, including the time until the round's end of an unfinished I/O.
    pub max_us: f64,
}

/// Differences of `/sys/block/*/stat` over a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BlockLayer {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Mean time of a request in the block layer and the device.
    pub read_ms: f64,
    pub write_ms: f64,
    /// Share of the time with at least one request in progress, percent.
    pub busy_pct: f64,
    /// Requests in progress, mean.
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
