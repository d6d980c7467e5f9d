//! Options of `flifo experiment`.

use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{Args, Subcommand};

use crate::commands::record::RecordArgs;
use crate::commands::values::{number, rounds, seconds};
use crate::measure::server::address::Address;
use crate::support::size::bytes;

const LINUX_IO_EXAMPLES: &str = concat!(
    "Examples:
  flifo experiment linux-io-2012 /data --scale 0.02 --size 2G --html io.html
      A first look in minutes
  flifo experiment linux-io-2012 /data --json full.json --html full.html
      The whole matrix, over an hour
  flifo experiment linux-io-2012 /data --device /dev/nvme0n1
      Also reads the raw device under the file system, for comparison

",
    crate::commands::common::exit_codes!()
);

/// Shown by `flifo experiment --help`.
pub(crate) const EXAMPLES: &str = concat!(
    "Examples:
  flifo experiment --list
      The studies, and how many claims each has
  flifo experiment flifo-2009 --quick --html flifo.html
      One study in under two minutes, with its graphs
  flifo experiment all --quick --html out
      All studies, a page each and an index

",
    crate::commands::common::exit_codes!()
);

/// Options of `flifo experiment`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ExperimentArgs {
    /// Name the studies, with the number of claims of each
    #[arg(long)]
    pub list: bool,

    #[command(subcommand)]
    pub what: Option<ExperimentCommand>,
}

/// The available studies.
#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// FLIFO against FIFO, 1 to 1024 threads (2009)
    ///
    /// sysbench's read-only transactions with ranges of 1000 rows, limit 16 with flifo and limit 32 with fifo as
    /// published, on the engine alone and with a kernel mutex like that of the server of then. Judges throughput,
    /// its fall, and context switches.
    #[command(name = "flifo-2009", after_help = crate::commands::common::EXIT_CODES)]
    Flifo2009(StudyArgs),
    /// Which limit is best, and what moves it (2009)
    ///
    /// Limits by threads, for read-only and read-write transactions, with 1 and with 128 rollback segments, and beyond
    /// --quick also on half of the CPUs.
    #[command(name = "thread-concurrency-2009", after_help = crate::commands::common::EXIT_CODES)]
    ThreadConcurrency2009(StudyArgs),
    /// A global mutex, and a limit that keeps most threads away (2011)
    ///
    /// Point selects with the kernel mutex of InnoDB 5.5: limits at 256 threads, no limit against the best at 1 to 1024
    /// threads, and the rounds of spinning before a thread waits. With --target also the limits of a live MySQL's own
    /// innodb_thread_concurrency.
    #[command(name = "kernel-mutex-2011", after_help = crate::commands::common::EXIT_CODES)]
    KernelMutex2011(KernelMutexArgs),
    /// Buffer pool instances, and a redo log that is too small (2012)
    ///
    /// DBT-2 with 1 and 8 instances, small and large redo logs, adaptive and sequential flushing, and writes held below
    /// the need; db_STRESS with 1 to 8 instances. Measures first how much redo and how many pages this machine writes,
    /// and takes its sizes from that. --threads sets the users; --table-size below 100000 makes the warehouses small.
    #[command(name = "buffer-pool-instances-2012", after_help = crate::commands::common::EXIT_CODES)]
    BufferPoolInstances2012(StudyArgs),
    /// The Linux I/O study of 2012: files, modes and processes compared
    ///
    /// Random reads, writes and both, 4K and 16K, 1 to 256 processes, over 1, 2, 4 and 8 files, with O_DIRECT and with
    /// write() and fsync(). Compares each claim of the study with the same ratio on this machine, and says whether it
    /// holds. Test files are written to DIR/flifo-iobench and removed at the end; no other file is written.
    #[command(name = "linux-io-2012", after_help = crate::commands::common::EXIT_CODES, after_long_help = LINUX_IO_EXAMPLES)]
    LinuxIo2012(LinuxIo2012Args),
    /// All studies, one after another
    ///
    /// linux-io-2012 writes its files into --data and removes them.
    #[command(after_help = crate::commands::common::EXIT_CODES)]
    All(AllArgs),
}

/// How much of a study is run.
#[derive(Debug, Clone, Default, Args)]
pub struct ScaleArgs {
    /// A short run, under two minutes a study: fewer threads and rows, shorter cells, wider spread
    #[arg(help_heading = "Scale", long, conflicts_with = "full")]
    pub quick: bool,

    /// The published scale, as far as the machine carries it: over an hour a study
    #[arg(help_heading = "Scale", long)]
    pub full: bool,

    /// Threads, a list [default: the study's, up to 1024]
    #[arg(help_heading = "Scale", long, value_name = "N,..", value_delimiter = ',', value_parser = threads)]
    pub threads: Vec<u32>,

    /// Seconds measured per cell and round [default: by scale]
    #[arg(help_heading = "Scale", long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,

    /// Rounds, of which medians are shown; a verdict takes two [default: by scale]
    #[arg(help_heading = "Scale", long, value_name = "N", value_parser = rounds)]
    pub rounds: Option<u32>,

    /// Rows of the table [default: 2000000; with --quick 200000]
    #[arg(help_heading = "Scale", long, visible_alias = "rows", value_name = "ROWS", value_parser = table_size)]
    pub table_size: Option<u32>,
}

/// Options of the studies that run on the embedded engine.
#[derive(Debug, Args)]
pub struct StudyArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,

    /// Directory of the data, created if it does not exist; a folder of it for each kind of table is kept
    #[arg(long, value_name = "DIR", default_value = "./flifo-experiments")]
    pub data: PathBuf,

    /// Write the results as JSON (docs/experiments.md)
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a self-contained page with the claims and the study's graphs
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

/// A live server beside the embedded engine.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// Measure a live MySQL, too: `mysql://user[:password]@host[:port]/database` or
    /// unix:/path/to/socket?user=..&db=..
    ///
    /// As in flifo sweep: it creates the table sbtest1 if it does not exist, and restores the settings that it changes.
    #[arg(help_heading = "A live server", long, value_name = "ADDRESS", value_parser = Address::from_str)]
    pub target: Option<Address>,

    /// The account that changes innodb_thread_concurrency [default: --target's]
    #[arg(help_heading = "A live server", long, value_name = "ADDRESS", value_parser = Address::from_str, requires = "target")]
    pub admin_target: Option<Address>,
}

/// Options of `flifo experiment kernel-mutex-2011`.
#[derive(Debug, Args)]
pub struct KernelMutexArgs {
    #[command(flatten)]
    pub study: StudyArgs,

    #[command(flatten)]
    pub server: ServerArgs,
}

/// Options of `flifo experiment all`.
#[derive(Debug, Args)]
pub struct AllArgs {
    #[command(flatten)]
    pub scale: ScaleArgs,

    /// Directory of the data, created if it does not exist; a folder of it for each kind of table is kept
    #[arg(long, value_name = "DIR", default_value = "./flifo-experiments")]
    pub data: PathBuf,

    /// Size of the test files of linux-io-2012 [default: 512M with --quick, else 4G, with --full the study's]
    #[arg(help_heading = "Scale", long, value_name = "SIZE", value_parser = bytes)]
    pub storage_size: Option<u64>,

    /// Write the results of each study as JSON into a directory, created if it does not exist
    #[arg(help_heading = "Results", long, value_name = "DIR")]
    pub json: Option<PathBuf>,

    /// Write a self-contained page for each study and an index into a directory, created if it does not exist
    #[arg(help_heading = "Results", long, value_name = "DIR")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

/// Options of `flifo experiment linux-io-2012`.
#[derive(Debug, Args)]
pub struct LinuxIo2012Args {
    /// A directory on the file system to measure
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Share of the full run, above 0 to 1: each cell takes this share of 5 seconds, but at least 0.2 s
    ///
    /// Below 0.5 the processes are 1, 4, 16, 64 and 256 only; below 0.1 they are 4, 16 and 64, and the mixed workload
    /// is left out.
    #[arg(long, value_name = "F", value_parser = scale, default_value = "1")]
    pub scale: f64,

    /// Size of the data, all files together [default: twice the memory, at most what leaves a tenth of the file
    /// system free]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub size: Option<u64>,

    /// Seconds measured per cell and round [default: 5 times --scale]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,

    /// Rounds, of which medians are shown; a verdict takes two
    #[arg(long, value_name = "N", value_parser = rounds, default_value = "3")]
    pub rounds: u32,

    /// A block device to read for comparison: the one under the files, or one like it
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<PathBuf>,

    /// Write the results as JSON (docs/iobench.md)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a self-contained page with the claims and the curves
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

fn threads(text: &str) -> Result<u32, String> {
    number(text, "threads", 1..=16_384)
}

fn table_size(text: &str) -> Result<u32, String> {
    number(text, "rows", 1..=4_000_000_000)
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err("a scale is a number above 0, at most 1".into()),
    }
}
