//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;
use clap::builder::PossibleValuesParser;
use flifo::commands::record::RecordArgs;
use flifo::commands::values::{policy, rounds, seconds};
use flifo::support::size::bytes;
use flifo_admission::Policy;

use crate::store::Durability;
use crate::stores;
use crate::workload::Workload;

const EXAMPLES: &str = "Examples:
  flifo bench peers --quick
      A first look in two minutes
  flifo bench peers --markdown peers.md --json peers.json
      All workloads, 1 to 1024 threads, five rounds: about an hour
  flifo bench peers --durability synced --workloads update,hot-rows-1 --threads 1,16,256
      Commits that survive a power cut
  flifo bench peers --peers flifo,rocksdb --workloads read-write

Exit codes:
  0    done
  1    a peer failed or lost updates; the measurements so far are printed and saved
  2    wrong usage
  3    the directory cannot be used (not writable, disk full)
  4    a limit of the system is too low (descriptors, threads, memory)
  130  interrupted with Ctrl-C; the measurements so far are printed and saved";

/// Compare flifo's engine with other embedded stores, in one interleaved run
///
/// Each peer gets a database of the same rows; all are open, one is measured at a time. Each round is one pass over all
/// numbers of threads and workloads, with the peers interleaved (A B C, then C B A), so that a temporary slowdown of
/// the machine affects neighbours alike. A commit has the same durability in every peer (--durability); a peer without
/// that setting is left out, and the output says so. After every cell that writes, the rows' counters must add up to
/// the acknowledged updates.
///
/// A cell ends in time: threads stop at its deadline, and a thread inside a store then has --patience seconds to
/// return. A peer with a thread that does not return is measured no more in this run; the output says so.
///
/// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
#[derive(Debug, Parser)]
#[command(name = "flifo-peers", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Peers, a list [default: all]
    #[arg(long, value_name = "P,..", value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    pub(crate) peers: Vec<String>,

    /// Workloads, a list of load, point-get, range-1000, update, read-write, hot-rows-N, ycsb-a, ycsb-b, ycsb-c,
    /// ycsb-f [default: all, with hot-rows-1 and hot-rows-100; with --quick load,point-get,update,read-write,
    /// hot-rows-1,ycsb-a]
    #[arg(long, value_name = "W,..", value_delimiter = ',', value_parser = Workload::from_str)]
    pub(crate) workloads: Vec<Workload>,

    /// Threads, a list of 1 to 4096 [default: 1,16,256,1024; with --quick 1,16]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub(crate) threads: Vec<u32>,

    /// What a commit promises
    #[arg(long, value_name = "D", default_value = "written")]
    pub(crate) durability: Durability,

    /// Rows of 196 bytes [default: 1000000; with --quick 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) rows: Option<u64>,

    /// Each peer's memory for pages or blocks, as 512M [default: 512 bytes a row, at least 64M: all rows fit]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    pub(crate) cache: Option<u64>,

    /// Maximum number of threads running at once in flifo [default: 2 per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_023))]
    pub(crate) thread_concurrency: Option<u32>,

    /// flifo's admission policy, one of none, fifo, flifo, quantum
    #[arg(long, value_name = "P", value_parser = policy, default_value = "flifo")]
    pub(crate) policy: Policy,

    /// Seconds measured per cell and round [default: 1; with --quick 0.3]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time: Option<f64>,

    /// Rounds, of which medians are shown [default: 5; with --quick 2]
    #[arg(long, value_name = "N", value_parser = rounds)]
    pub(crate) rounds: Option<u32>,

    /// Seconds that threads inside a store get to return when their cell is over
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) patience: f64,

    /// Seed of rows and random choices; the same for every peer
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,

    /// Directory in which a directory with the databases is created, and removed at the end (not by a second Ctrl-C)
    /// [default: the directory for temporary files, or this one if that is in memory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// A short run, two minutes: fewer workloads, threads and rounds
    #[arg(long)]
    pub(crate) quick: bool,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) record: RecordArgs,
}

fn names() -> Vec<&'static str> {
    stores::ALL.iter().map(|driver| driver.about.name).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
