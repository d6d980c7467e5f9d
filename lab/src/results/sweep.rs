//! The results of a sweep or a bench: JSON, schema 1.
//!
//! Every key carries its unit as its last word and is explained in `docs/results.md` (a test compares the
//! two). Keys stay: a later version adds keys and never renames or drops one. Reading ignores keys it does
//! not know and takes a missing figure as "not measured", so that old and new files can be read by both.
//!
//! A figure that could not be measured is `null`, never 0.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::changes::{ChangeFigures, EngineSecond, RefusalFigures};
use super::fairness::Fairness;
use super::file::{ResultsError, SCHEMA, read_results};
use super::json::{check_figures, pretty_json};
use super::machine::Machine;
use crate::support::output::replace_file;
use crate::support::statistics::Spread;

/// A whole run: machine, settings, and figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The command as it was typed.
    #[serde(default)]
    pub command_line: String,
    /// UTC, as `2026-01-31T12:00:00Z`.
    #[serde(default)]
    pub started_at: String,
    /// Seconds from the start to the last cell, loading included.
    #[serde(default)]
    pub elapsed_s: f64,
    /// Stopped before every cell had all its rounds.
    #[serde(default)]
    pub interrupted: bool,
    /// The machine it ran on.
    #[serde(default)]
    pub machine: Machine,
    /// The settings of all cells.
    #[serde(default)]
    pub settings: Settings,
    /// One cell for each combination of setting and number of threads.
    pub cells: Vec<Cell>,
}

/// The settings of all cells of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    pub rows: u64,
    pub range_size: u64,
    /// For the workload read-write.
    pub read_write_range_size: u64,
    /// CPU time of each statement in addition to the engine's.
    pub statement_work_us: u64,
    pub seed: u64,
    pub rounds: u32,
    pub round_s: f64,
    pub warmup_s: f64,
    pub buffer_pool_bytes: u64,
    pub buffer_pool_instances: u32,
    pub data_files: u32,
    pub page_size_bytes: u32,
    pub direct_io: bool,
    /// For the embedded engine: the durability of a commit when it returns, 0, 1 or 2.
    pub flush_log_at_trx_commit: Option<u8>,
    pub redo_capacity_bytes: Option<u64>,
    pub rollback_segments: Option<u32>,
    pub doublewrite: Option<bool>,
    /// Waiters for row locks above which the scheduler admits fewer; 0: unlimited.
    pub lock_waiters_max: u32,
    /// A session's time slice under `quantum`.
    pub quantum_us: u64,
    /// The server that was measured, without its password; empty for the embedded engine.
    pub server_address: String,
    /// The version and the cipher of the connections' TLS; empty without.
    pub server_tls: String,
    pub server_version: String,
    /// The server's settings that affect its speed, at the start.
    pub server_variables: Vec<Variable>,
    /// Event-loop threads of the clients of a server.
    pub client_threads: u32,
}

/// A variable of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    pub value: String,
}

/// The key that identifies a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CellKey {
    /// What was measured: `engine` for the embedded engine, `server` for a live one, `admission` for the scheduler
    /// alone, `specimen` for a policy kept for comparison, `peer` for a common alternative to the scheduler.
    pub target: String,
    /// `point-select`, `read-only` and so on; empty for a command that has loads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// `work-20`, `hot-row` and so on; empty for a command that has workloads.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub load: String,
    /// `socket` or `direct`; for a server the protocol, `prepared` or `text`.
    pub front: String,
    /// A policy's name, or `auto` for an adaptive limit; for a peer its name.
    pub policy: String,
    /// The limit; 0 for none.
    pub concurrency: u32,
    /// Engine entries on one slot; 0 for a server.
    pub tickets: u32,
    /// Connections.
    pub threads: u32,
    /// Whether a read from disk releases the slot in admission.
    #[serde(default)]
    pub leave_on_read: bool,
}

/// One setting at one number of threads, with all its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    #[serde(flatten)]
    pub key: CellKey,
    pub rounds: Vec<Round>,
    /// Rounds that ended early, without figures.
    #[serde(default)]
    pub failures: Vec<Failure>,
    #[serde(flatten, default)]
    pub summary: Summary,
}

/// A round that ended early.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub round: u32,
    /// The reason, in one line.
    pub reason: String,
}

/// The rounds of a cell in one figure each. Written for scripts; always computed from the rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    pub throughput_median_per_s: Option<f64>,
    pub throughput_min_per_s: Option<f64>,
    pub throughput_max_per_s: Option<f64>,
    /// Median of the absolute deviations from the median.
    pub throughput_deviation_per_s: Option<f64>,
    pub transactions_median_per_s: Option<f64>,
    pub p50_median_ms: Option<f64>,
    pub p95_median_ms: Option<f64>,
    pub p99_median_ms: Option<f64>,
    /// The longest of all rounds, not a median, so that one starved statement counts.
    pub longest_ms: Option<f64>,
    pub context_switches_median_per_s: Option<f64>,
    pub context_switches_median_per_statement: Option<f64>,
    pub woken_to_running_p50_median_us: Option<f64>,
    pub running_p50_median_us: Option<f64>,
    pub connection_variation_median: Option<f64>,
    pub connection_fewest_share_median: Option<f64>,
    pub enter_p50_median_us: Option<f64>,
    pub enter_p99_median_us: Option<f64>,
    /// The longest of all rounds.
    pub enter_longest_us: Option<f64>,
    /// The longest wait of all rounds, in rotations of the queue.
    pub enter_longest_rotations: Option<f64>,
    pub server_statements_median_per_s: Option<f64>,
    pub server_cpu_median_us_per_statement: Option<f64>,
    pub server_context_switches_median_per_statement: Option<f64>,
    pub client_cpu_median_us_per_statement: Option<f64>,
    /// Of the worst round.
    pub lowest_second_share_min: Option<f64>,
    pub commits_median_per_s: Option<f64>,
    pub redo_bytes_median_per_s: Option<f64>,
    /// Of all rounds together.
    pub retries_sum: Option<u64>,
    /// Sum over all rounds; anything but 0 is a failure of the engine.
    pub redo_hard_stops_sum: Option<u64>,
}

/// One round of one cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Round {
    /// Counts from 0. Rounds of the same number ran close to each other in time, so ratios pair them.
    pub round: u32,
    /// The measured window.
    pub elapsed_s: f64,
    pub statements: u64,
    pub transactions: u64,
    /// Statements per second.
    pub throughput_per_s: f64,
    pub transactions_per_s: f64,
    /// Latency of a statement (point-select) or a transaction (read-only), from the client's first request to its last
    /// reply, including queueing.
    pub p50_ms: Option<f64>,
    pub p95_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    pub context_switches_per_statement: Option<f64>,
    /// Transactions of the lowest second as a share of the mean over the whole seconds, if there are two or more.
    pub lowest_second_share: Option<f64>,
    #[serde(flatten)]
    pub host: HostFigures,
    #[serde(flatten)]
    pub entry: EntryFigures,
    #[serde(flatten)]
    pub admission: AdmissionFigures,
    #[serde(flatten)]
    pub fairness: Fairness,
    #[serde(flatten)]
    pub disk: DiskFigures,
    #[serde(flatten)]
    pub changes: ChangeFigures,
    #[serde(flatten)]
    pub server: ServerFigures,
    #[serde(flatten)]
    pub refusals: RefusalFigures,
    /// The same round second by second.
    pub seconds: Vec<Second>,
}

/// The machine's figures during a round. Percentages are of all CPUs together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFigures {
    pub context_switches_per_s: Option<f64>,
    pub cpu_user: Option<f64>,
    pub cpu_system: Option<f64>,
    pub cpu_idle: Option<f64>,
    pub cpu_iowait: Option<f64>,
    /// Taken by the hypervisor.
    pub cpu_steal: Option<f64>,
    /// This process without the client threads.
    pub cpu_server: Option<f64>,
    /// The client threads.
    pub cpu_client: Option<f64>,
    /// Mean of the samples of `procs_running`, which vmstat shows as `r`.
    pub run_queue: Option<f64>,
    pub run_queue_max: Option<u32>,
}

/// One sample: the second that ends at `at_s`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Second {
    /// Seconds since the round's start.
    pub at_s: f64,
    /// Statements and transactions that ended in that second of the window; `None` outside it.
    pub throughput_per_s: Option<f64>,
    pub transactions_per_s: Option<f64>,
    pub context_switches_per_s: Option<f64>,
    pub cpu_user: Option<f64>,
    pub cpu_system: Option<f64>,
    pub cpu_idle: Option<f64>,
    pub cpu_iowait: Option<f64>,
    pub cpu_steal: Option<f64>,
    pub cpu_server: Option<f64>,
    pub cpu_client: Option<f64>,
    pub run_queue: Option<u32>,
    /// The engine's counters in that second of the window; `None` outside it, and for a live server.
    pub engine: Option<EngineSecond>,
}

/// The samples of a cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// One row a second, and one for the rest at the end.
    pub seconds: Vec<Second>,
    /// From start to finish.
    pub totals: HostFigures,
}

/// The counters of one second of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PerSecond {
    /// Statements whose reply came in that second.
    pub statements: u64,
    /// Transactions whose last reply came in that second.
    pub transactions: u64,
}

/// Time from requesting a slot to running, measured from outside, so for any limiter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EntryFigures {
    pub enter_p50_us: Option<f64>,
    pub enter_p95_us: Option<f64>,
    pub enter_p99_us: Option<f64>,
    pub enter_p999_us: Option<f64>,
    pub enter_max_us: Option<f64>,
    /// The same in rotations of the queue, for the scheduler's policies: a rotation serves as many from the queue as
    /// there are threads.
    pub enter_max_rotations: Option<f64>,
    /// The limit at the end of the round, for the scheduler's policies; with `auto` the limit that the search found.
    pub limit: Option<u32>,
    /// Highest number of threads running at once, if counted.
    pub running_max: Option<u32>,
}

/// Admission's counters during a round, and highest values since the cell's start, including its warm-up; unknown for a
/// peer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdmissionFigures {
    /// Slots acquired, in any way.
    pub admitted: Option<u64>,
    pub admitted_at_once: Option<u64>,
    /// Entries on a ticket, which acquire no slot.
    pub admitted_by_ticket: Option<u64>,
    pub admitted_by_barging: Option<u64>,
    pub admitted_from_queue: Option<u64>,
    pub admitted_by_force: Option<u64>,
    pub handed_off: Option<u64>,
    pub slots_reclaimed: Option<u64>,
    /// Highest number of slots out.
    pub slots_max: Option<u32>,
    /// Highest number of threads woken and not running yet.
    pub pending_max: Option<u32>,
    /// Longest queue.
    pub queued_max: Option<u32>,
    /// W: from the wake to running.
    pub woken_to_running_p50_us: Option<f64>,
    pub woken_to_running_p95_us: Option<f64>,
    pub woken_to_running_p99_us: Option<f64>,
    /// S: work per slot.
    pub running_p50_us: Option<f64>,
    pub running_p95_us: Option<f64>,
    pub running_p99_us: Option<f64>,
    pub queued_p50_us: Option<f64>,
    pub queued_p95_us: Option<f64>,
    pub queued_p99_us: Option<f64>,
    pub queued_max_us: Option<f64>,
}

/// The buffer pool's disk requests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskFigures {
    pub disk_reads_per_s: Option<f64>,
    pub disk_writes_per_s: Option<f64>,
    pub disk_read_p50_us: Option<f64>,
    pub disk_read_p99_us: Option<f64>,
    pub free_frame_waits_per_s: Option<f64>,
}

/// A live server's own counters between the two ends of a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerFigures {
    /// Time between the server's two readings, which are only near the window's ends.
    pub server_elapsed_s: Option<f64>,
    /// `Questions`, without the measurement's own.
    pub server_statements_per_s: Option<f64>,
    pub server_selects_per_s: Option<f64>,
    pub server_updates_per_s: Option<f64>,
    pub server_inserts_per_s: Option<f64>,
    pub server_deletes_per_s: Option<f64>,
    pub server_commits_per_s: Option<f64>,
    pub server_row_lock_waits_per_s: Option<f64>,
    /// User and system time of the server's process.
    pub server_cpu_us_per_statement: Option<f64>,
    /// Voluntary and involuntary context switches of the server's threads.
    pub server_context_switches_per_statement: Option<f64>,
    /// User and system time of the client's threads.
    pub client_cpu_us_per_statement: Option<f64>,
}

impl Results {
    /// An empty run.
    pub fn new(machine: Machine, settings: Settings, command_line: String, started_at: String) -> Self {
        Results {
            schema: SCHEMA,
            command_line,
            started_at,
            elapsed_s: 0.0,
            interrupted: false,
            machine,
            settings,
            cells: Vec::new(),
        }
    }

    /// The cell of `key`, created if necessary. Cells are in the order of their first round.
    pub fn cell_mut(&mut self, key: &CellKey) -> &mut Cell {
        let index = self.cells.iter().position(|cell| cell.key == *key).unwrap_or_else(|| {
            self.cells.push(Cell::new(key.clone()));
            self.cells.len() - 1
        });
        &mut self.cells[index]
    }

    /// Pretty JSON with a newline at its end.
    pub fn to_json(&self) -> String {
        pretty_json(self)
    }

    /// Reads what [`Results::to_json`] wrote, in this or another version.
    pub fn from_json(json: &str) -> Result<Self, ResultsError> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let head: Head = serde_json::from_str(json)?;
        if head.schema != SCHEMA {
            return Err(ResultsError::Schema(head.schema));
        }
        let mut results: Results = serde_json::from_str(json)?;
        check_figures(&results)?;
        for cell in &mut results.cells {
            cell.check()?;
            cell.summarise();
        }
        Ok(results)
    }

    /// Writes the complete file.
    pub fn save(&self, path: &Path) -> Result<(), ResultsError> {
        Ok(replace_file(path, self.to_json().as_bytes())?)
    }

    /// Reads a file that [`Results::save`] wrote.
    pub fn load(path: &Path) -> Result<Self, ResultsError> {
        Self::from_json(&read_results(path)?)
    }
}

impl Cell {
    /// A cell without rounds.
    pub fn new(key: CellKey) -> Self {
        Cell { key, rounds: Vec::new(), failures: Vec::new(), summary: Summary::default() }
    }

    /// Adds a round and updates the summary.
    pub fn push(&mut self, round: Round) {
        self.rounds.push(round);
        self.summarise();
    }

    /// Median, lowest and highest throughput; `None` before the first round.
    pub fn throughput(&self) -> Option<Spread> {
        self.spread(|round| Some(round.throughput_per_s))
    }

    /// The spread of any figure over the rounds that have it.
    pub fn spread(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(figure))
    }

    /// The sum of a count over the rounds that have it.
    fn sum(&self, count: impl Fn(&Round) -> Option<u64>) -> Option<u64> {
        self.rounds.iter().filter_map(count).reduce(u64::saturating_add)
    }

    /// What no run writes would give the axes of a picture no end, or the picture a place outside its directory.
    fn check(&self) -> Result<(), ResultsError> {
        let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if let Some(name) = [&self.key.load, &self.key.workload].into_iter().find(|name| !is_plain(name)) {
            return Err(ResultsError::Figure(format!(
                "a load or workload is called {name:?}, and not with letters, digits and '-' only"
            )));
        }
        if self.key.threads == 0 {
            return Err(ResultsError::Figure("a cell has 0 threads".into()));
        }
        Ok(())
    }

    fn summarise(&mut self) {
        let median = |figure: fn(&Round) -> Option<f64>| self.spread(figure).map(|spread| spread.median);
        let throughput = self.throughput();
        self.summary = Summary {
            throughput_median_per_s: throughput.map(|t| t.median),
            throughput_min_per_s: throughput.map(|t| t.min),
            throughput_max_per_s: throughput.map(|t| t.max),
            throughput_deviation_per_s: throughput.map(|t| t.deviation),
            transactions_median_per_s: median(|r| Some(r.transactions_per_s)),
            p50_median_ms: median(|r| r.p50_ms),
            p95_median_ms: median(|r| r.p95_ms),
            p99_median_ms: median(|r| r.p99_ms),
            longest_ms: self.spread(|r| r.max_ms).map(|spread| spread.max),
            context_switches_median_per_s: median(|r| r.host.context_switches_per_s),
            context_switches_median_per_statement: median(|r| r.context_switches_per_statement),
            woken_to_running_p50_median_us: median(|r| r.admission.woken_to_running_p50_us),
            running_p50_median_us: median(|r| r.admission.running_p50_us),
            connection_variation_median: median(|r| r.fairness.connection_variation),
            connection_fewest_share_median: median(|r| r.fairness.connection_fewest_share),
            enter_p50_median_us: median(|r| r.entry.enter_p50_us),
            enter_p99_median_us: median(|r| r.entry.enter_p99_us),
            enter_longest_us: self.spread(|r| r.entry.enter_max_us).map(|spread| spread.max),
            enter_longest_rotations: self.spread(|r| r.entry.enter_max_rotations).map(|spread| spread.max),
            server_statements_median_per_s: median(|r| r.server.server_statements_per_s),
            server_cpu_median_us_per_statement: median(|r| r.server.server_cpu_us_per_statement),
            server_context_switches_median_per_statement: median(|r| {
                r.server.server_context_switches_per_statement
            }),
            client_cpu_median_us_per_statement: median(|r| r.server.client_cpu_us_per_statement),
            lowest_second_share_min: self.spread(|r| r.lowest_second_share).map(|spread| spread.min),
            commits_median_per_s: median(|r| r.changes.commits_per_s),
            redo_bytes_median_per_s: median(|r| r.changes.redo_bytes_per_s),
            retries_sum: self.sum(|r| r.refusals.retries),
            redo_hard_stops_sum: self.sum(|r| r.changes.redo_hard_stops),
        };
    }
}

impl Round {
    /// Computes the figures that follow from counts, time and samples; the caller sets latencies, admission, fairness
    /// and disk afterwards.
    pub fn new(round: u32, elapsed_s: f64, statements: u64, transactions: u64, samples: Samples) -> Self {
        let per_s = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        let throughput_per_s = per_s(statements);
        let context_switches_per_statement = samples
            .totals
            .context_switches_per_s
            .filter(|_| throughput_per_s > 0.0)
            .map(|switches_per_s| switches_per_s / throughput_per_s);
        Round {
            round,
            elapsed_s,
            statements,
            transactions,
            throughput_per_s,
            transactions_per_s: per_s(transactions),
            context_switches_per_statement,
            host: samples.totals,
            seconds: samples.seconds,
            ..Round::default()
        }
    }

    /// Adds the clients' counters second by second. The rest of the window after its whole seconds is left out.
    pub fn with_seconds(mut self, counted: &[PerSecond]) -> Self {
        let whole = (self.elapsed_s + 1e-6) as usize;
        // A second in which nothing ended may be missing at the end.
        let counted: Vec<PerSecond> =
            (0..whole).map(|second| counted.get(second).copied().unwrap_or_default()).collect();
        for (row, counted) in self.seconds.iter_mut().zip(&counted) {
            row.throughput_per_s = Some(counted.statements as f64);
            row.transactions_per_s = Some(counted.transactions as f64);
        }
        let sum: u64 = counted.iter().map(|second| second.transactions).sum();
        let lowest = counted.iter().map(|second| second.transactions).min().filter(|_| whole >= 2 && sum > 0);
        self.lowest_second_share = lowest.map(|lowest| lowest as f64 * whole as f64 / sum as f64);
        self
    }
}
