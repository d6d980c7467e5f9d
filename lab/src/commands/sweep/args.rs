//! Options of `flifo sweep`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use flifo_admission::{Config, Policy};
use flifo_engine::{EngineConfig, FlushLog};

use super::engine_args::EngineArgs;
use crate::commands::common::exit_codes;
use crate::commands::record::RecordArgs;
use crate::commands::values::{number, rounds, seconds};
use crate::measure::frontend::FrontendKind;
use crate::measure::server::{Address, Protocol, TlsArgs};
use crate::measure::setting::Limiter;
use crate::measure::workload::Workload;
use crate::measure::workload::kernel::Specimen;
use crate::report::Outputs;
use crate::support::size::Bytes;

/// Shown by `--help`.
pub(crate) const EXAMPLES: &str = concat!(
    "Examples:
  flifo sweep
      1 to 1024 connections, three policies, point selects and hot rows, under 5 minutes
  flifo sweep --quick --html sweep.html
      A short version, with a page
  flifo sweep --workload read-only --policy fifo,flifo --concurrency 2,4,8 --threads 256,1024
      The best limit for a whole transaction
  flifo sweep --buffer-pool 40M --leave-on-read yes,no --threads 64
      A buffer pool of a tenth of the data; waits for the disk with and without the slot
  flifo sweep --workload read-write,hot-rows-100 --flush-log-at-trx-commit 2 --time 10 --json run.json
      The cost of commits, and of a hundred hot rows
  flifo sweep --workload ycsb-a --threads 64 --policy flifo --time 300 --rounds 1
      Five minutes of one load: its lowest second compared with its mean
  flifo sweep --target mysql://app@127.0.0.1/sbtest --workload hot-rows-100 --threads 16,1024
      A MariaDB with flifo's plugin, without and with a limit, interleaved

",
    exit_codes!()
);

/// Default number of rows of the embedded engine's table.
pub(crate) const TABLE_SIZE: u32 = 2_000_000;

/// Options of `flifo sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Connections, a list [default: 1,2,4,..,1024; with --quick 1,4,16,128,1024]
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', value_parser = threads)]
    pub threads: Vec<u32>,

    /// Admission policies, a list of none, fifo, flifo, quantum; fifo:32 has a limit of its own; with --target also innodb
    ///
    /// none: no limit. fifo: strictly in order. flifo: in order, except that a newcomer enters while woken threads do
    /// not run yet. quantum: a time slice for each session that comes back at once, flifo for the others. innodb: the
    /// limit is a MySQL server's own innodb_thread_concurrency, and flifo's plugin, if there is one, has none.
    #[arg(help_heading = "What is measured", long, value_name = "P,..", value_delimiter = ',', value_parser = PolicyLimit::from_str, default_value = "none,fifo,flifo")]
    pub policy: Vec<PolicyLimit>,

    /// Maximum number of statements running at once, a list; policy none has no limit. With --target also auto, except for innodb
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', value_parser = concurrency, default_value = "4")]
    pub concurrency: Vec<u32>,

    /// Engine entries (rows) on one slot before a thread must acquire the slot again
    #[arg(help_heading = "What is measured", long, value_name = "N", value_parser = tickets, default_value = "500", conflicts_with = "target")]
    pub tickets: u32,

    /// Microseconds that a connection may keep coming back before it queues (policy quantum)
    ///
    /// A longer time slice costs fewer context switches and makes the others wait longer. Over sockets a slice shorter
    /// than a round trip has no effect.
    #[arg(help_heading = "What is measured", long, value_name = "US", default_value = "50", value_parser = clap::value_parser!(u64).range(1..=1_000_000), conflicts_with = "target")]
    pub quantum: u64,

    /// Requests of the connections, a list of point-select, read-only, read-write, update-index, update-non-index,
    /// hot-rows-N, and without --target also hot-transaction-N, insert, ycsb-a to ycsb-f [default: point-select; without
    /// --specimen also hot-transaction-100]
    ///
    /// point-select: a row by its id. read-only: sysbench's transaction of 10 point selects and 4 ranges, without
    /// BEGIN and COMMIT. read-write: sysbench's transaction with BEGIN, the same reads, an update of an indexed column
    /// and of one without an index, the deletion and insertion of a row, and COMMIT. update-index, update-non-index: one
    /// row's column with or without an index. hot-rows-N: the indexed column of one of the first N rows.
    /// hot-transaction-N: BEGIN, the same update, a point select, COMMIT. insert: a row
    /// with a new id; between cells they are removed. ycsb-a to ycsb-f: YCSB's core workloads (A half reads, half
    /// updates; B 95% reads; C reads; D 95% reads of the latest, inserts; E 95% short scans, inserts; F half reads, half
    /// read-modify-writes), keys zipfian.
    #[arg(help_heading = "What is measured", long, value_name = "W,..", value_delimiter = ',', value_parser = Workload::from_str)]
    pub workload: Vec<Workload>,

    /// What the server's side does in addition, a list of none, kernel-mutex, kernel-mutex:SPINS, kernel-futex
    ///
    /// For comparison only. kernel-mutex: the lock system of InnoDB 5.5. A statement takes one global mutex several times:
    /// SPINS rounds of spinning, then a wait whose end wakes every waiter. Under it are the list of transactions and the
    /// queues of row locks. kernel-futex: the same with a plain mutex.
    #[arg(help_heading = "What is measured", long, value_name = "S,..", value_delimiter = ',', value_parser = SpecimenChoice::from_str, conflicts_with = "target")]
    pub specimen: Vec<SpecimenChoice>,

    /// CPU time of each statement in addition to the engine's, microseconds
    ///
    /// The engine is embedded: it does not parse, optimise or convert. A server does all that while it holds the slot,
    /// some 20 to 50 microseconds a statement; this arithmetic stands for it. 0 measures the bare engine, whose point
    /// select takes little more than a microsecond.
    #[arg(help_heading = "What is measured", long, value_name = "US", value_parser = clap::value_parser!(u16).range(..=10_000), default_value = "20", conflicts_with = "target")]
    pub statement_work: u16,

    /// How statements reach the engine
    #[arg(
        help_heading = "What is measured",
        long,
        value_name = "F",
        value_enum,
        default_value = "socket",
        conflicts_with = "target"
    )]
    pub front: FrontendKind,

    /// Whether a read from disk releases the slot in admission: yes, no, or yes,no to measure both
    #[arg(help_heading = "What is measured", long, value_name = "yes|no,..", value_delimiter = ',', value_parser = yes_no, default_value = "yes", conflicts_with = "target")]
    pub leave_on_read: Vec<bool>,

    /// Seconds measured per cell and round [default: 1, with --target 5; with --quick 0.2, 1]
    #[arg(help_heading = "What is measured", long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,

    /// Seconds of load before each measurement [default: an eighth of --time up to 0.5; with --target half of it up to
    /// 3]
    ///
    /// Every load starts with a burst. A load that collapses takes seconds to do so: too short a warm-up measures the
    /// burst.
    #[arg(help_heading = "What is measured", long, value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Option<f64>,

    /// Rounds, of which medians are shown
    #[arg(help_heading = "What is measured", long, value_name = "N", value_parser = rounds, default_value = "3")]
    pub rounds: u32,

    /// A short run, under 45 seconds: fewer connections, shorter cells, wider spread
    #[arg(long)]
    pub quick: bool,

    /// Directory of the data, created if it does not exist
    ///
    /// A complete table of the same size and seed is reused; other data of this command are loaded again; data of other
    /// programs are never touched.
    #[arg(
        help_heading = "Data and engine",
        long,
        value_name = "DIR",
        default_value = "./flifo-data",
        conflicts_with = "target"
    )]
    pub data: PathBuf,

    /// Rows of the table, some 250 bytes each with their index [default: 2000000; with --target the rows of the
    /// existing table, or 1000000 for a new one]
    #[arg(help_heading = "Data and engine", long, visible_alias = "rows", value_name = "ROWS", value_parser = table_size)]
    pub table_size: Option<u32>,

    /// Rows of a range [default: in read-only 1000, in read-write 100, at most the table's size]
    #[arg(help_heading = "Data and engine", long, value_name = "ROWS", value_parser = range_size)]
    pub range_size: Option<u32>,

    /// Files over which new data are striped
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = small_number, default_value = "4", conflicts_with = "target")]
    pub data_files: u32,

    /// Buffer pool, bytes, or with K, M, G (of 1024)
    #[arg(help_heading = "Data and engine", long, value_name = "SIZE", value_parser = Bytes::from_str, default_value = "1G", conflicts_with = "target")]
    pub buffer_pool: Bytes,

    /// Buffer pool instances
    #[arg(help_heading = "Data and engine", long, value_name = "N", value_parser = small_number, default_value = "8", conflicts_with = "target")]
    pub instances: u32,

    #[command(flatten)]
    pub engine: EngineArgs,

    /// Seed of rows and statements
    #[arg(help_heading = "Data and engine", long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Measure a live MariaDB or MySQL instead: `mysql://user[:password]@host[:port]/database` or
    /// unix:/path/to/socket?user=..&db=..
    ///
    /// Creates the table sbtest1 in the database if it does not exist, and never drops it; refuses a table of another
    /// shape. The password may be in the environment variable MYSQL_PWD. Policies other than none and innodb need
    /// flifo's plugin in the server (INSTALL PLUGIN flifo SONAME 'flifo.so'); settings change between cells and are
    /// restored at the end. Accounts with CONNECTION ADMIN bypass the plugin: use an ordinary user for the load.
    #[arg(help_heading = "A live server", long, value_name = "ADDRESS", value_parser = Address::from_str)]
    pub target: Option<Address>,

    /// The account that changes the plugin's settings and reads the server's counters [default: --target's]
    #[arg(help_heading = "A live server", long, value_name = "ADDRESS", value_parser = Address::from_str)]
    pub admin_target: Option<Address>,

    #[command(flatten)]
    pub tls: TlsArgs,

    /// How statements are sent [default: prepared]
    #[arg(help_heading = "A live server", long, value_name = "P", value_enum)]
    pub protocol: Option<Protocol>,

    /// Event-loop threads for the clients, which share the connections [default: half the CPUs, 2 to 16]
    #[arg(help_heading = "A live server", long, value_name = "N", value_parser = small_number)]
    pub client_threads: Option<u32>,

    /// Put load on a server on another machine
    ///
    /// Without it only sockets and loopback addresses are accepted: a sweep saturates a server. Use it only on servers
    /// that you may load.
    #[arg(help_heading = "A live server", long)]
    pub allow_remote: bool,

    /// Write the results as JSON (docs/results.md)
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a self-contained page with the curves
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the picture of the headline curve
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

impl SweepArgs {
    /// Whether the sweep itself chooses what is measured: a load that needs no limit, and one that collapses
    /// without.
    pub(super) fn is_default_load(&self) -> bool {
        self.target.is_none() && self.workload.is_empty() && self.specimen.is_empty()
    }

    /// The engine's configuration for changes.
    pub(super) fn config(&self) -> EngineConfig {
        self.engine.config(if self.is_default_load() { FlushLog::Write } else { FlushLog::Sync })
    }

    pub(super) fn outputs(&self) -> Outputs<'_> {
        Outputs { json: self.json.as_deref(), html: self.html.as_deref(), svg: self.svg.as_deref() }
    }

    /// The name of the run's record.
    pub(super) fn record_name(&self) -> &'static str {
        if self.target.is_some() { "target-sweep" } else { "sweep" }
    }
}

/// A policy, with a limit of its own or with those of `--concurrency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyLimit {
    pub policy: Limiter,
    pub limit: Option<u32>,
}

impl FromStr for PolicyLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, limit)) = text.split_once(':') else {
            return Ok(PolicyLimit { policy: text.parse()?, limit: None });
        };
        match (name.parse()?, concurrency(limit)?) {
            (Limiter::Flifo(Policy::None), _) => Err("policy none has no limit: write none alone".into()),
            (Limiter::Innodb, 0) => Err("policy innodb takes a number as its limit".into()),
            (policy, limit) => Ok(PolicyLimit { policy, limit: Some(limit) }),
        }
    }
}

/// A specimen, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpecimenChoice(pub Option<Specimen>);

impl FromStr for SpecimenChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(SpecimenChoice(None)),
            name => name.parse().map(|specimen| SpecimenChoice(Some(specimen))),
        }
    }
}

pub(crate) fn threads(text: &str) -> Result<u32, String> {
    number(text, "connections", 1..=16_384)
}

/// 0 means auto.
pub(crate) fn concurrency(text: &str) -> Result<u32, String> {
    if text == "auto" {
        return Ok(0);
    }
    if text == "0" {
        return Err("a limit of 0 admits no statement; use --policy none for no limit".into());
    }
    number(text, "a limit", 1..=Config::THREAD_CONCURRENCY_MAX)
}

fn tickets(text: &str) -> Result<u32, String> {
    number(text, "tickets", 1..=1_000_000_000)
}

fn table_size(text: &str) -> Result<u32, String> {
    number(text, "rows", 1..=4_000_000_000)
}

fn range_size(text: &str) -> Result<u32, String> {
    number(text, "rows of a range", 1..=100_000)
}

pub(crate) fn small_number(text: &str) -> Result<u32, String> {
    number(text, "this", 1..=64)
}

fn yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("use yes, no, or yes,no".into()),
    }
}
