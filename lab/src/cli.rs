//! The command line, and the checks that need no system access: a command line that passes them can be planned.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand};
use flifo_admission::{Config, Policy};

use crate::bench::args::BenchCommand;
use crate::database::args::{CheckArgs, EXIT_CODES as CHECK_EXIT_CODES, StatArgs};
use crate::error::Error;
use crate::experiment::args::ExperimentCommand;
use crate::front::FrontKind;
use crate::iobench::args::{EXAMPLES as IOBENCH_EXAMPLES, IobenchArgs};
use crate::record::{FiguresArgs, RecordArgs};
use crate::sweep::engine::EngineArgs;
use crate::target::{Address, Protocol, TlsArgs, without_addresses};
use crate::workload::Workload;

macro_rules! exit_codes {
    () => {
        "Exit codes:
  0    done
  1    failed while running
  2    wrong usage
  3    the data directory or device cannot be used (not flifo's, damaged, not writable, disk full)
  4    a limit of the system or of the server is too low (descriptors, threads, memory, connections)
  5    the server of --target cannot be used, or a round on it failed
  130  interrupted with Ctrl-C; the measurements so far are printed and saved"
    };
}

pub(crate) const EXIT_CODES: &str = exit_codes!();
pub(crate) use exit_codes;

const SWEEP_EXAMPLES: &str = concat!(
    "Examples:
  flifo sweep
      The published sweep: 1 to 1024 connections, three policies, under 5 minutes
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

/// Measure admission scheduling: throughput against connections, policy by policy, on an embedded on-disk B+tree
#[derive(Debug, Parser)]
#[command(name = "flifo", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure throughput against connections under several policies, and draw the curve
    ///
    /// Loads a table of the sysbench kind (once; it is kept in --data), then measures every policy at every number of
    /// connections. Each round is one pass over all of them, with the policies interleaved (A B C, then C B A), so that
    /// a temporary slowdown of the machine affects neighbours alike.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = SWEEP_EXAMPLES)]
    Sweep(Box<SweepArgs>),
    /// Measure the scheduler, or the engine, against alternatives
    #[command(after_help = EXIT_CODES)]
    Bench {
        #[command(subcommand)]
        what: BenchCommand,
    },
    /// Measure the storage under a database
    ///
    /// Writes test files into a directory (DIR/flifo-iobench, removed at the end), then measures every combination of
    /// workload, block size, files, mode and concurrency. Each round is one pass over all of them, so that a temporary
    /// slowdown of the machine affects neighbours alike. No other file is ever written.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = IOBENCH_EXAMPLES)]
    Iobench(Box<IobenchArgs>),
    /// Repeat a published study, and compare its claims with this machine's figures
    #[command(after_help = EXIT_CODES)]
    Experiment {
        #[command(subcommand)]
        what: ExperimentCommand,
    },
    /// Check a closed database completely
    ///
    /// Verifies every page's checksum and its references, order and shape of every tree, the versions of every row, and
    /// free pages against used ones. After damage the check continues with the pages it can still reach. A closed
    /// database is not changed; a database that was not closed is recovered first.
    #[command(after_help = CHECK_EXIT_CODES)]
    Check(CheckArgs),
    /// Describe a closed database
    ///
    /// Shows the format, the files, whether it was closed, checkpoint and redo log. Then reads every page and shows
    /// tables and trees with rows, pages and fill, free pages, and the rollback segments' history. Changes nothing.
    #[command(after_help = CHECK_EXIT_CODES)]
    Stat(StatArgs),
    /// One process of `iobench --as processes`; it takes its orders from standard input.
    #[command(name = "iobench-worker", hide = true)]
    IobenchWorker,
    /// Render the tables and pictures of the repository's pages from figures/*.json
    ///
    /// A bench with --record writes such a file. In README.md and docs/**/*.md, what stands between
    /// `<!-- figures:NAME -->` and `<!-- /figures -->` is replaced by the table of that name. Prints what changed.
    #[command(after_help = EXIT_CODES)]
    Figures(FiguresArgs),
    /// Show a saved run again, and draw its page and picture
    #[command(after_help = EXIT_CODES)]
    Report(ReportArgs),
}

/// Default number of rows of the embedded engine's table.
pub(crate) const TABLE_SIZE: u32 = 2_000_000;

/// Options of `flifo sweep`.
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Connections, a list [default: 1,2,4,..,1024; with --quick 1,4,16,64,256,1024]
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', value_parser = threads)]
    pub threads: Vec<u32>,

    /// Admission policies, a list of none, fifo, flifo, quantum
    ///
    /// none: no limit. fifo: strictly in order. flifo: in order, except that a newcomer enters while woken threads do
    /// not run yet. quantum: a time slice for each session that comes back at once, flifo for the others.
    #[arg(help_heading = "What is measured", long, value_name = "P,..", value_delimiter = ',', value_parser = policy, default_value = "none,fifo,flifo")]
    pub policy: Vec<Policy>,

    /// Maximum number of statements running at once, a list; policy none has no limit. With --target also auto
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
    /// hot-rows-N, and without --target also insert, ycsb-a to ycsb-f
    ///
    /// point-select: a row by its id. read-only: sysbench's transaction of 10 point selects and 4 ranges, without
    /// BEGIN and COMMIT. read-write: sysbench's transaction with BEGIN, the same reads, an update of an indexed column
    /// and of one without an index, the deletion and insertion of a row, and COMMIT. update-index, update-non-index: one
    /// row's column with or without an index. hot-rows-N: the indexed column of one of the first N rows. insert: a row
    /// with a new id; between cells they are removed. ycsb-a to ycsb-f: YCSB's core workloads (A half reads, half
    /// updates; B 95% reads; C reads; D 95% reads of the latest, inserts; E 95% short scans, inserts; F half reads, half
    /// read-modify-writes), keys zipfian.
    #[arg(help_heading = "What is measured", long, value_name = "W,..", value_delimiter = ',', value_parser = Workload::from_str, default_value = "point-select")]
    pub workload: Vec<Workload>,

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
    pub front: FrontKind,

    /// Whether a read from disk releases the slot in admission: yes, no, or yes,no to measure both
    #[arg(help_heading = "What is measured", long, value_name = "yes|no,..", value_delimiter = ',', value_parser = yes_no, default_value = "yes", conflicts_with = "target")]
    pub leave_on_read: Vec<bool>,

    /// Seconds measured per cell and round [default: 2, with --target 5; with --quick 0.4, 1]
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

    /// Under 45 seconds in all: fewer connections, shorter cells, wider spread
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
    /// shape. The password may be in the environment variable MYSQL_PWD. Policies other than none need flifo's plugin
    /// in the server (INSTALL SONAME 'flifo'); its settings change between cells and are restored at the end. Accounts
    /// with CONNECTION ADMIN bypass the plugin: use an ordinary user for the load.
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

/// Options of `flifo report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A file that --json wrote
    #[arg(value_name = "JSON")]
    pub json: PathBuf,

    /// Write a self-contained page with the curves
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the picture of the headline curve; of a bench, a picture per load into a directory
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

impl Cli {
    /// Parses the command line; otherwise returns the text to print: help, or an error in one line.
    pub fn parse_args() -> Result<Cli, ParseOutcome> {
        Cli::try_parse().map_err(|error| {
            if error.use_stderr() {
                let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
                let told = without_addresses(error.render().to_string(), words);
                ParseOutcome::Wrong(Error::Usage(one_line(&told, helpful_command())))
            } else {
                ParseOutcome::Help(error)
            }
        })
    }
}

/// Why no command runs.
#[derive(Debug)]
pub enum ParseOutcome {
    /// A request for help or version.
    Help(clap::Error),
    /// The command line is wrong.
    Wrong(Error),
}

/// The command whose help the error names.
fn helpful_command() -> &'static str {
    match std::env::args_os().nth(1) {
        Some(word) if word == "bench" => "flifo bench admission",
        Some(word) if word == "iobench" => "flifo iobench",
        Some(word) if word == "experiment" => "flifo experiment linux-io-2012",
        Some(word) if word == "check" => "flifo check",
        Some(word) if word == "stat" => "flifo stat",
        Some(word) if word == "report" => "flifo report",
        Some(word) if word == "figures" => "flifo figures",
        _ => "flifo sweep",
    }
}

/// clap's message without its frame: the problem, the choices, the help to read.
fn one_line(rendered: &str, command: &str) -> String {
    let told: Vec<&str> = rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let told = told.join(" ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    if told.is_empty() || rendered.contains("Commands:") {
        return format!("no command given; try '{command}', or 'flifo --help'");
    }
    format!("{told}; see '{command} --help'")
}

/// A number of bytes on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = bytes(text)?;
        let possible = flifo_engine::EngineConfig::BUFFER_POOL_BYTES;
        if !possible.contains(&bytes) {
            return Err(format!(
                "{} is outside {} to {}",
                Bytes(bytes),
                Bytes(*possible.start()),
                Bytes(*possible.end())
            ));
        }
        Ok(Bytes(bytes))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
        match units.iter().find(|(shift, _)| self.0 >> shift > 0) {
            Some((shift, unit)) => {
                let value = self.0 as f64 / (1u64 << shift) as f64;
                write!(f, "{}{unit}", (value * 10.0).round() / 10.0)
            }
            None => write!(f, "{}", self.0),
        }
    }
}

/// Parses a size: a number, or one with K, M, G or T (of 1024).
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size: use a number of bytes, or one with K, M or G, as in 512M");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

pub(crate) fn number(text: &str, what: &str, possible: RangeInclusive<u32>) -> Result<u32, String> {
    let (least, most) = (possible.start(), possible.end());
    match text.parse::<u32>() {
        Ok(number) if possible.contains(&number) => Ok(number),
        _ => Err(format!("{what} must be a number from {least} to {most}")),
    }
}

fn threads(text: &str) -> Result<u32, String> {
    number(text, "connections", 1..=16_384)
}

/// 0 means auto.
fn concurrency(text: &str) -> Result<u32, String> {
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

pub fn rounds(text: &str) -> Result<u32, String> {
    number(text, "rounds", 1..=1_000)
}

fn table_size(text: &str) -> Result<u32, String> {
    number(text, "rows", 1..=4_000_000_000)
}

fn range_size(text: &str) -> Result<u32, String> {
    number(text, "rows of a range", 1..=100_000)
}

fn small_number(text: &str) -> Result<u32, String> {
    number(text, "this", 1..=64)
}

pub fn policy(text: &str) -> Result<Policy, String> {
    text.parse().map_err(|error: flifo_admission::ConfigError| error.to_string())
}

fn yes_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("use yes, no, or yes,no".into()),
    }
}

pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("seconds must be a number from 0.05 to 3600".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!("64M".parse(), Ok(Bytes(64 << 20)));
        assert_eq!("1gib".parse(), Ok(Bytes(1 << 30)));
        assert_eq!("2097152".parse(), Ok(Bytes(2 << 20)));
        for wrong in ["", "G", "1X", "-1M", "1.5G", "0", "1K", "99999T", "99999999999999999999"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
        assert_eq!(Bytes(1536 << 20).to_string(), "1.5G");
        assert_eq!(Bytes(512).to_string(), "512");
    }

    #[test]
    fn a_wrong_line_becomes_one_line() {
        for wrong in [
            &["flifo", "sweep", "--policy", "fast"][..],
            &["flifo", "sweep", "--workload", "write"],
            &["flifo", "sweep", "--threads", "0"],
            &["flifo", "sweep", "--nonsense"],
            &["flifo"],
            &["flifo", "dance"],
        ] {
            let error = Cli::try_parse_from(wrong).unwrap_err();
            let line = one_line(&error.render().to_string(), "flifo sweep");
            assert!(!line.contains('\n') && line.contains("; ") && !line.starts_with("error"), "{line}");
        }
    }
}
