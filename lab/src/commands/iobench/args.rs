//! Options of `flifo iobench`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::record::RecordArgs;
use crate::commands::values::{number, rounds, seconds};
use crate::measure::storage::kinds::{Carrier, Mode, Workload};
use crate::support::size::bytes;

/// Shown by `--help`.
pub(crate) const EXAMPLES: &str = concat!(
    "Examples:
  flifo iobench /var/lib/mysql
      Random reads, writes and both, 4K and 16K, 1 and 4 files, direct and with fsync: a few minutes
      after the files are written
  flifo iobench /data --quick --html io.html
      Under a minute, with a page
  flifo iobench /data --workload log --block 512,4K --mode direct,fdatasync,dsync --concurrency 1,4
      The cost of a commit, by flush method
  flifo iobench /data --workload random-read --as threads,io-uring --concurrency 64 --size 8G
      Whether a ring does more than 64 threads
  flifo iobench /dev/nvme0n1
      Reads of a raw device (writing needs --write-to-device /dev/nvme0n1, and destroys its data)

",
    crate::commands::common::exit_codes!()
);

/// Options of `flifo iobench`.
#[derive(Debug, Args)]
pub struct IobenchArgs {
    /// A directory on the file system to measure, or a block device
    #[arg(value_name = "DIR|DEVICE")]
    pub path: PathBuf,

    /// Workloads, a list of random-read, random-write, random-mixed, log, doublewrite
    /// [default: the three random ones; with --advise log and doublewrite, too]
    ///
    /// log: small synced writes in sequence, like a redo log, each writer in a region of its own. doublewrite:
    /// a batch of pages is written in one piece and synced, then each to its own location, and synced.
    #[arg(
        help_heading = "What is measured",
        long,
        value_name = "W,..",
        value_delimiter = ',',
        value_enum,
        hide_possible_values = true
    )]
    pub workload: Vec<Workload>,

    /// Block sizes, a list; powers of two from 512 to 1M [default: 4K,16K; log 4K, doublewrite 16K]
    #[arg(help_heading = "What is measured", long, value_name = "SIZE,..", value_delimiter = ',', value_parser = block)]
    pub block: Vec<u32>,

    /// I/Os at a time, a list of numbers of processes, threads, or I/Os in flight on a ring [default: 1,4,16,64,256;
    /// with --quick 1,16,64]
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', value_parser = concurrency)]
    pub concurrency: Vec<u32>,

    /// Numbers of files that the data are spread over, a list; their total size is the same [default: 1,4]
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', value_parser = files)]
    pub files: Vec<u32>,

    /// How files are written and read, a list of direct, fsync, fdatasync, dsync, buffered [default: direct,fsync]
    ///
    /// direct: bypasses the page cache; random writes are not synced, a log and a doublewrite by fdatasync. fsync,
    /// fdatasync: through the page cache, and that call after each write. dsync: bypasses the page cache, each write
    /// durable by itself (O_DSYNC). buffered: reads through the page cache, which is emptied before each round, so
    /// this measures the warm-up of the cache. Invalid modes of a workload are left out. On a file system without
    /// O_DIRECT the default is buffered reads and fdatasync,fsync.
    #[arg(
        help_heading = "What is measured",
        long,
        value_name = "M,..",
        value_delimiter = ',',
        value_enum,
        hide_possible_values = true
    )]
    pub mode: Vec<Mode>,

    /// What does the I/O, a list of processes, threads, io-uring
    #[arg(
        help_heading = "What is measured",
        long = "as",
        value_name = "C,..",
        value_delimiter = ',',
        value_enum,
        hide_possible_values = true,
        default_value = "threads"
    )]
    pub carrier: Vec<Carrier>,

    /// Reads among the I/Os of random-mixed, percent
    #[arg(help_heading = "What is measured", long, value_name = "PERCENT", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub read_share: u32,

    /// Pages of a batch of doublewrite
    #[arg(help_heading = "What is measured", long, value_name = "PAGES", default_value = "64", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub batch: u32,

    /// Size of the data, all files together [default: twice the memory, at most nine tenths of the file system's free
    /// space; with --quick at most 512M; for a device all of it]
    ///
    /// Direct I/O may be measured with less. I/O through the page cache needs more data than memory, or it measures the
    /// memory.
    #[arg(help_heading = "How it is measured", long, value_name = "SIZE", value_parser = bytes)]
    pub size: Option<u64>,

    /// Seconds measured per cell and round [default: 0.5; with --quick 0.2]
    #[arg(help_heading = "How it is measured", long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,

    /// Seconds of load before each measurement [default: a quarter of --time up to 1]
    #[arg(help_heading = "How it is measured", long, value_name = "SECONDS", value_parser = seconds)]
    pub warmup: Option<f64>,

    /// Rounds, of which medians are shown [default: 3; with --quick 2]
    #[arg(help_heading = "How it is measured", long, value_name = "N", value_parser = rounds)]
    pub rounds: Option<u32>,

    /// A short run, under a minute: fewer cells, shorter rounds, wider spread
    #[arg(help_heading = "How it is measured", long)]
    pub quick: bool,

    /// Seed of the random choices
    #[arg(help_heading = "How it is measured", long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Leave the test files in DIR/flifo-iobench; the next run with the same --size and --files uses them again
    #[arg(help_heading = "How it is measured", long)]
    pub keep: bool,

    /// Allow workloads that write to this block device, which destroys all data on it
    ///
    /// DEVICE must be named again. Refused if the device is mounted, has partitions, or is in use.
    #[arg(help_heading = "How it is measured", long, value_name = "DEVICE")]
    pub write_to_device: Option<PathBuf>,

    /// Show the database settings that follow from the measurements
    #[arg(help_heading = "Results", long)]
    pub advise: bool,

    /// Write the results as JSON (docs/iobench.md)
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a self-contained page with the curves
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

/// The valid block sizes.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

fn block(text: &str) -> Result<u32, String> {
    match bytes(text)? {
        size if size.is_power_of_two() && (512..=BLOCK_BYTES_MAX).contains(&size) => Ok(size as u32),
        _ => Err("a block must be a power of two from 512 to 1M".into()),
    }
}

fn concurrency(text: &str) -> Result<u32, String> {
    number(text, "how many at a time", 1..=4_096)
}

fn files(text: &str) -> Result<u32, String> {
    number(text, "files", 1..=256)
}
