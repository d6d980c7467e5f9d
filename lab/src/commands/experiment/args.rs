//! Options of `flifo experiment`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::commands::values::{rounds, seconds};
use crate::support::size::bytes;

const EXAMPLES: &str = concat!(
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

/// The available studies.
#[derive(Debug, Subcommand)]
pub enum ExperimentCommand {
    /// The Linux I/O study of 2012: files, modes and processes compared
    ///
    /// Random reads, writes and both, 4K and 16K, 1 to 256 processes, over 1, 2, 4 and 8 files, with O_DIRECT and with
    /// write() and fsync(). Compares each claim of the study with the same ratio on this machine, and says whether it
    /// holds. Test files are written to DIR/flifo-iobench and removed at the end; no other file is written.
    #[command(name = "linux-io-2012", after_help = crate::commands::common::EXIT_CODES, after_long_help = EXAMPLES)]
    LinuxIo2012(LinuxIo2012Args),
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
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err("a scale is a number above 0, at most 1".into()),
    }
}
