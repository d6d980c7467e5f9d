//! The results of a sweep or a bench: JSON, schema 1.
//!
//! Every key carries its unit as its last word and is explained in `docs/results.md` (a test compares the
//! two). Keys stay: a later version adds keys and never renames or drops one. Reading ignores keys it does
//! not know and takes a missing figure as "not measured", so that old and new files can be read by both.
//!
//! A figure that could not be measured is `null`, never 0.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::{ResultsError, SCHEMA, read_results};
use super::json::{check_figures, pretty_json};
use super::machine::Machine;
use super::round::Round;
use super::series::Series;
use crate::support::output::replace_file;
use crate::support::statistics::Spread;

/// A whole run: machine, settings, and figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Version of the layout, 1. A reader of schema 1 refuses any other.
    pub schema: u32,
    /// The command as it was typed, without passwords.
    #[serde(default)]
    pub command_line: String,
    /// Start of the run, UTC, as `2026-01-31T12:00:00Z`.
    #[serde(default)]
    pub started_at: String,
    /// Seconds from the start to the last cell, loading included.
    #[serde(default)]
    pub elapsed_s: f64,
    /// True if the run stopped before every cell had all its rounds.
    #[serde(default)]
    pub interrupted: bool,
    /// The machine and the program.
    #[serde(default)]
    pub machine: Machine,
    /// The settings of all cells.
    #[serde(default)]
    pub settings: Settings,
    /// One cell for each combination of settings and threads, in the order of their first rounds.
    pub cells: Vec<Cell>,
}

/// The settings of all cells of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Settings {
    /// Rows of the table.
    pub rows: u64,
    /// Rows of a range in `read-only`.
    pub range_size: u64,
    /// Rows of a range in `read-write`.
    pub read_write_range_size: u64,
    /// Warehouses in `dbt2`.
    pub warehouses: Option<u32>,
    /// Percentages of the transactions in `dbt2`, in the order of its kinds.
    pub mix: String,
    /// Factor of TPC-C's keying and think times in `dbt2`; 0: none.
    pub think_time_factor: Option<f64>,
    /// True if `dbt2` differed from TPC-C where the original does.
    pub quirks: Option<bool>,
    /// Objects in `db-stress`.
    pub objects: Option<u32>,
    /// Reads for each write in `db-stress`; 0: no writes.
    pub reads_per_write: Option<u32>,
    /// CPU time of each statement in addition to the engine's, microseconds (`--statement-work`).
    pub statement_work_us: u64,
    /// Seed of the random keys.
    pub seed: u64,
    /// Rounds requested; a cell of an interrupted run has fewer.
    pub rounds: u32,
    /// Measured window requested, seconds.
    pub round_s: f64,
    /// Load before each window that is not measured, seconds.
    pub warmup_s: f64,
    /// Size of the buffer pool, bytes.
    pub buffer_pool_bytes: u64,
    /// Instances of the buffer pool.
    pub buffer_pool_instances: u32,
    /// Files over which the data are striped.
    pub data_files: u32,
    /// Size of a page, bytes.
    pub page_size_bytes: u32,
    /// True if the operating system's page cache was bypassed.
    pub direct_io: bool,
    /// When a commit returns it is on the device (1), with the operating system (2), or neither (0).
    pub flush_log_at_trx_commit: Option<u8>,
    /// Capacity of the redo log, bytes.
    pub redo_capacity_bytes: Option<u64>,
    /// Number of rollback segments.
    pub rollback_segments: Option<u32>,
    /// True if pages are written to the doublewrite area first.
    pub doublewrite: Option<bool>,
    /// Which pages were written when: `adaptive`, or `sequential` as in MySQL 5.6.
    pub flush_mode: String,
    /// Pages per second written while no statement changed anything.
    pub io_capacity: Option<u32>,
    /// Pages per second written because they were old, at most.
    pub io_capacity_max: Option<u32>,
    /// Row-lock waiters above which the scheduler admits fewer sessions; 0: no bound.
    pub lock_waiters_max: u32,
    /// A session's time slice under `quantum`, microseconds.
    pub quantum_us: u64,
    /// Address and user of the measured server, without its password; empty for the embedded engine.
    pub server_address: String,
    /// TLS version and cipher of the server's connections; empty without TLS.
    pub server_tls: String,
    /// Version that the server reports; empty for the embedded engine.
    pub server_version: String,
    /// The server's variables that affect its speed, and all of the plugin's, at the start.
    pub server_variables: Vec<Variable>,
    /// Event-loop threads that play a server's clients; 0 for the embedded engine.
    pub client_threads: u32,
}

/// A variable of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Variable {
    /// Name of the variable.
    pub name: String,
    /// Its value, as in `SHOW GLOBAL VARIABLES`.
    pub value: String,
}

/// The key that identifies a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// What was measured: `engine` (embedded), `server` (`--target`); in a bench `admission` (the scheduler alone),
    /// `specimen` (a policy kept for comparison) or `peer` (a common alternative).
    pub target: String,
    /// Workload of a sweep, such as `point-select`; missing in a bench.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload: String,
    /// What the server's side does in addition, for comparison: `kernel-mutex-N` with N rounds of spinning, or
    /// `kernel-futex`; missing without a specimen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub specimen: String,
    /// Load of a bench: `empty`, `work-2`, `work-20`, `work-200`, `work-1000`, `contended-mutex`, `socket`, `hot-
    /// row` or `disk`; missing in a sweep.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub load: String,
    /// How statements arrive, `socket` or `direct`; for a server its protocol, `prepared` or `text`.
    pub front: String,
    /// Policy of the scheduler, or name of the specimen or peer; `auto` for an adaptive limit, `innodb` for a
    /// server's own.
    pub policy: String,
    /// The limit: maximum number of threads running at once; 0: none.
    pub concurrency: u32,
    /// Engine entries on one slot; 0 for a server.
    pub tickets: u32,
    /// Connections; in a bench, competing threads.
    pub threads: u32,
    /// True if a read from the disk releases the slot; true for `none`, which has no slots.
    #[serde(default)]
    pub leave_on_read: bool,
}

/// One setting at one number of threads, with all its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    #[serde(flatten)]
    pub key: CellKey,
    /// The rounds that were measured.
    pub rounds: Vec<Round>,
    /// Rounds without figures, because a server closed a connection or refused a statement.
    #[serde(default)]
    pub failures: Vec<Failure>,
    #[serde(flatten, default)]
    pub summary: Summary,
}

/// A round that ended early.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// Number of the round.
    pub round: u32,
    /// The cause, in one line.
    pub reason: String,
}

/// The rounds of a cell in one figure each. Written for scripts; always computed from the rounds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Summary {
    /// Statements per second, median of the rounds.
    pub throughput_median_per_s: Option<f64>,
    /// Statements per second of the slowest round.
    pub throughput_min_per_s: Option<f64>,
    /// Statements per second of the fastest round.
    pub throughput_max_per_s: Option<f64>,
    /// Statements per second, median of the absolute deviations from the median.
    pub throughput_deviation_per_s: Option<f64>,
    /// Transactions per second, median of the rounds.
    pub transactions_median_per_s: Option<f64>,
    /// Median of `p50_ms`, milliseconds.
    pub p50_median_ms: Option<f64>,
    /// Median of `p95_ms`, milliseconds.
    pub p95_median_ms: Option<f64>,
    /// Median of `p99_ms`, milliseconds.
    pub p99_median_ms: Option<f64>,
    /// Highest `max_ms` of all rounds, milliseconds: not a median, so that one starved statement counts.
    pub longest_ms: Option<f64>,
    /// Median of `context_switches_per_s`.
    pub context_switches_median_per_s: Option<f64>,
    /// Median of `context_switches_per_statement`.
    pub context_switches_median_per_statement: Option<f64>,
    /// W: median of `woken_to_running_p50_us`, microseconds.
    pub woken_to_running_p50_median_us: Option<f64>,
    /// S: median of `running_p50_us`, microseconds.
    pub running_p50_median_us: Option<f64>,
    /// Median of `connection_variation`.
    pub connection_variation_median: Option<f64>,
    /// Median of `connection_fewest_share`.
    pub connection_fewest_share_median: Option<f64>,
    /// Median of `enter_p50_us`, microseconds.
    pub enter_p50_median_us: Option<f64>,
    /// Median of `enter_p99_us`, microseconds.
    pub enter_p99_median_us: Option<f64>,
    /// Highest `enter_max_us` of all rounds, microseconds.
    pub enter_longest_us: Option<f64>,
    /// Highest `enter_max_rotations` of all rounds.
    pub enter_longest_rotations: Option<f64>,
    /// Median of `server_statements_per_s`.
    pub server_statements_median_per_s: Option<f64>,
    /// Median of `server_cpu_us_per_statement`, microseconds.
    pub server_cpu_median_us_per_statement: Option<f64>,
    /// Median of `server_context_switches_per_statement`.
    pub server_context_switches_median_per_statement: Option<f64>,
    /// Median of `client_cpu_us_per_statement`, microseconds.
    pub client_cpu_median_us_per_statement: Option<f64>,
    /// Lowest `lowest_second_share` of all rounds.
    pub lowest_second_share_min: Option<f64>,
    /// Median of `commits_per_s`.
    pub commits_median_per_s: Option<f64>,
    /// Median of `redo_bytes_per_s`.
    pub redo_bytes_median_per_s: Option<f64>,
    /// Sum of `retries` over all rounds.
    pub retries_sum: Option<u64>,
    /// Sum of `redo_hard_stops` over all rounds; anything but 0 is a failure of the engine.
    pub redo_hard_stops_sum: Option<u64>,
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

    /// Whether the run measured loads without the engine.
    pub fn is_bench(&self) -> bool {
        self.cells.iter().any(|cell| !cell.key.load.is_empty())
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

impl CellKey {
    /// The load in words: `point-select`, or `point-select, kernel-mutex-30`.
    pub fn load_in_words(&self) -> String {
        let load = if self.load.is_empty() { &self.workload } else { &self.load };
        match self.specimen.as_str() {
            "" => load.clone(),
            specimen => format!("{load}, {specimen}"),
        }
    }
}

impl Cell {
    /// A cell without rounds.
    pub fn new(key: CellKey) -> Self {
        Cell { key, rounds: Vec::new(), failures: Vec::new(), summary: Summary::default() }
    }

    /// Adds a round and updates the summary. The series of the round before is dropped.
    pub fn push(&mut self, round: Round) {
        if let Some(last) = self.rounds.last_mut().filter(|_| round.series.is_some()) {
            last.series = None;
        }
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
        let names = [&self.key.load, &self.key.workload, &self.key.specimen];
        if let Some(name) = names.into_iter().find(|name| !is_plain(name)) {
            return Err(ResultsError::Figure(format!(
                "a load, workload or specimen is called {name:?}, and not with letters, digits and '-' only"
            )));
        }
        if self.key.threads == 0 {
            return Err(ResultsError::Figure("a cell has 0 threads".into()));
        }
        self.series().map_or(Ok(()), Series::check)
    }

    /// The series of the last round that has one.
    pub fn series(&self) -> Option<&Series> {
        self.rounds.iter().rev().find_map(|round| round.series.as_ref())
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
