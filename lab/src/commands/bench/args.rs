//! Options of `flifo bench admission`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use flifo_admission::Config;

use crate::commands::common::{EXIT_CODES, exit_codes};
use crate::commands::record::RecordArgs;
use crate::commands::values::{rounds, seconds};
use crate::measure::admission::limiter::{Peer, Variant};
use crate::measure::admission::load::Load;

const EXAMPLES: &str = concat!(
    "Examples:
  flifo bench admission
      Six loads, 16 to 4096 threads, policies and peers interleaved: under 10 minutes
  flifo bench admission --quick --html bench.html
      Under a minute, with a page
  flifo bench admission --load work-20 --concurrency cores,8 --threads 1024 --policy fifo,quantum
      The effect of the limit

",
    exit_codes!()
);

/// The benches.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Compare the scheduler's policies with common alternatives, without the engine
    ///
    /// Threads in a closed loop enter, do a small piece of work, and exit. Each round is one pass over all loads and
    /// numbers of threads, with policies and peers interleaved (A B C, then C B A), so that a temporary slowdown of the
    /// machine affects neighbours alike.
    ///
    /// The first Ctrl-C ends the running cell, then prints and saves the measurements so far; the second ends at once.
    #[command(after_help = EXIT_CODES, after_long_help = EXAMPLES)]
    Admission(Box<AdmissionArgs>),
    /// Compare the engine with other embedded stores (redb, LMDB, fjall, RocksDB, SQLite, sled)
    ///
    /// Runs the program flifo-peers, which `make peers` builds, from this program's directory or PATH. All options are
    /// passed to it; see `flifo bench peers --help`.
    #[command(disable_help_flag = true)]
    Peers {
        /// Options of flifo-peers
        #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<OsString>,
    },
}

/// Options of `flifo bench admission`.
#[derive(Debug, Args)]
pub struct AdmissionArgs {
    /// Work of a thread while it holds a slot, a list of empty, work-2, work-20, work-200, work-1000, contended-mutex,
    /// socket, hot-row, disk, or all [default: work-2,work-20,contended-mutex,socket,hot-row,disk; with --quick
    /// work-20,contended-mutex,hot-row]
    #[arg(help_heading = "What is measured", long, value_name = "L,..", value_delimiter = ',', value_parser = Listed::<Load>::from_str)]
    pub load: Vec<Listed<Load>>,

    /// Threads, a list of 1 to 4096 [default: 16,256,1024,4096; with --quick 16,1024]
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', value_parser = threads)]
    pub threads: Vec<u32>,

    /// Policies, a list of none, fifo, flifo, quantum, of specimens kept for comparison (lifo, broadcast, sleep, lease,
    /// summon), or all [default: fifo,flifo,quantum,sleep]
    ///
    /// lifo: an exit serves the youngest waiter. broadcast: an exit wakes every waiter. sleep: waiters poll with an
    /// adaptive delay, as InnoDB does. lease: the set of running threads changes every 0.5 ms. summon: a woken thread
    /// competes for its slot.
    #[arg(help_heading = "What is measured", long, value_name = "P,..", value_delimiter = ',', value_parser = Listed::<Variant>::from_str)]
    pub policy: Vec<Listed<Variant>>,

    /// Common alternatives, a list of tokio, async-lock, mutex-condvar, futex, none (no limit), or all [default: all]
    #[arg(help_heading = "What is measured", long, value_name = "P,..", value_delimiter = ',', value_parser = Listed::<Peer>::from_str)]
    pub peer: Vec<Listed<Peer>>,

    /// Maximum number of threads running at once, a list of numbers, cores, 2xcores, auto. The adaptive limit (auto) is
    /// measured under quantum only, after eight seconds of load before each of its cells
    #[arg(help_heading = "What is measured", long, value_name = "N,..", value_delimiter = ',', default_value = "2xcores", value_parser = Limit::from_str)]
    pub concurrency: Vec<Limit>,

    /// Seconds measured per cell and round [default: 0.4; with --quick 0.15]
    #[arg(help_heading = "What is measured", long, value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,

    /// Rounds, of which medians are shown [default: 3; with --quick 2]
    #[arg(help_heading = "What is measured", long, value_name = "N", value_parser = rounds)]
    pub rounds: Option<u32>,

    /// Seed of the threads' random choices; the same for every variant
    #[arg(help_heading = "What is measured", long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Waiters for row locks above which the scheduler admits fewer; 0: unlimited [default: half the CPUs]
    #[arg(help_heading = "What is measured", long, value_name = "N")]
    pub lock_waiters: Option<u32>,

    /// Microseconds that a thread may keep coming back before it queues (policy quantum)
    #[arg(help_heading = "What is measured", long, value_name = "US", default_value = "50", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub quantum: u64,

    /// Count running threads (running_max), at the cost of two changes of shared memory per statement; turns the stall
    /// limit off, which admits more on purpose
    #[arg(help_heading = "What is measured", long)]
    pub verify: bool,

    /// A short run, under a minute: fewer loads and threads, shorter cells, wider spread
    #[arg(long)]
    pub quick: bool,

    /// Write the results as JSON (docs/results.md)
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write a self-contained page with a chart per load
    #[arg(help_heading = "Results", long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write a picture per load into a directory
    #[arg(help_heading = "Results", long, value_name = "DIR")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub record: RecordArgs,
}

/// One item of a list, or all items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed<T> {
    /// This one.
    One(T),
    /// All.
    All,
}

/// An item with a name for lists.
pub trait Named: Copy + 'static {
    /// All there are.
    fn all() -> Vec<Self>;
    /// The item with that name; the error describes the problem.
    fn named(name: &str) -> Result<Self, String>;
}

impl Named for Load {
    fn all() -> Vec<Self> {
        Load::ALL.to_vec()
    }

    fn named(name: &str) -> Result<Self, String> {
        by_name(name, "load", Load::ALL, Load::name)
    }
}

impl Named for Peer {
    fn all() -> Vec<Self> {
        Peer::ALL.to_vec()
    }

    fn named(name: &str) -> Result<Self, String> {
        by_name(name, "peer", Peer::ALL, Peer::name)
    }
}

/// The policies and specimens that `--policy` names.
impl Named for Variant {
    fn all() -> Vec<Self> {
        Variant::POLICIES.to_vec()
    }

    fn named(name: &str) -> Result<Self, String> {
        by_name(name, "policy", Variant::POLICIES, Variant::name)
    }
}

fn by_name<T: Copy, const N: usize>(
    name: &str,
    what: &str,
    all: [T; N],
    name_of: fn(T) -> &'static str,
) -> Result<T, String> {
    all.into_iter()
        .find(|one| name_of(*one) == name)
        .ok_or_else(|| format!("unknown {what} '{name}': use {}, or all", all.map(name_of).join(", ")))
}

impl<T: Named> FromStr for Listed<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" { Ok(Listed::All) } else { T::named(text).map(Listed::One) }
    }
}

/// Everything that a list names, in its order.
pub(super) fn expand<T: Named>(listed: &[Listed<T>]) -> Vec<T> {
    let one = |listed: &Listed<T>| match listed {
        Listed::One(one) => vec![*one],
        Listed::All => T::all(),
    };
    listed.iter().flat_map(one).collect()
}

/// A limit, as given on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// This many threads.
    Threads(u32),
    /// A multiple of the CPUs that this process may use.
    PerCore(u32),
    /// Adaptive.
    Auto,
}

impl Limit {
    /// Returns the limit in threads, on a machine with `cpus` CPUs; `None` if it is adaptive.
    pub(super) fn threads(self, cpus: u32) -> Option<u32> {
        match self {
            Limit::Threads(threads) => Some(threads),
            Limit::PerCore(times) => Some((times * cpus).min(Config::THREAD_CONCURRENCY_MAX)),
            Limit::Auto => None,
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let max = Config::THREAD_CONCURRENCY_MAX;
            format!(
                "a limit must be a number from 1 to {max}, cores, a multiple of them such as 2xcores, or auto"
            )
        };
        match text {
            "auto" => Ok(Limit::Auto),
            "0" => Err("a limit of 0 admits no thread: use --peer none for no limit".into()),
            "cores" => Ok(Limit::PerCore(1)),
            _ => {
                let (digits, per_core) = match text.strip_suffix("xcores") {
                    Some(digits) => (digits, true),
                    None => (text, false),
                };
                let number: u32 = digits.parse().map_err(|_| wrong())?;
                match (number, per_core) {
                    (1..=64, true) => Ok(Limit::PerCore(number)),
                    (1..=Config::THREAD_CONCURRENCY_MAX, false) => Ok(Limit::Threads(number)),
                    _ => Err(wrong()),
                }
            }
        }
    }
}

fn threads(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(threads) if (1..=4_096).contains(&threads) => Ok(threads),
        _ => Err("threads must be a number from 1 to 4096".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;

    #[test]
    fn limits() {
        let threads = |text: &str| text.parse::<Limit>().map(|limit| limit.threads(6).unwrap_or(0));
        assert_eq!((threads("cores"), threads("2xcores"), threads("8")), (Ok(6), Ok(12), Ok(8)));
        let mut cases = Cases::default();
        for wrong in ["", "x", "-1", "0xcores", "65xcores", "99999", "core", "0"] {
            cases.add(format!("'{wrong}'"), threads(wrong).unwrap_err());
        }
        cases.check("bench-limit-errors");
        assert_eq!(threads("auto"), Ok(0));
    }

    #[test]
    fn lists() {
        let one = |text: &str| text.parse::<Listed<Peer>>();
        let listed = [one("futex").unwrap(), one("all").unwrap()];
        assert_eq!(expand(&listed)[..2], [Peer::Futex, Peer::Tokio]);
        let mut cases = Cases::default();
        cases.add("peer rayon", one("rayon").unwrap_err());
        cases.add("load sleepy", "sleepy".parse::<Listed<Load>>().unwrap_err());
        cases.add("variant fast", "fast".parse::<Listed<Variant>>().unwrap_err());
        cases.check("bench-list-errors");
        assert!(Load::ALL.iter().all(|load| load.name().parse() == Ok(Listed::One(*load))));
    }
}
