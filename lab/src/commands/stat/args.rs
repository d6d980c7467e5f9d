//! Options of `flifo stat`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::commands::values::number;
use crate::support::size::Bytes;

/// Options of `flifo stat`.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Print JSON instead (docs/check.md)
    #[arg(long)]
    pub json: bool,

    /// Recover the database if it was not closed, and close it afterwards; create an unusable redo log again
    ///
    /// Without it nothing is written, and the tables of a database that was not closed are not shown.
    #[arg(long)]
    pub recover: bool,

    /// Show the files' headers only; the tables cost a read of every page
    #[arg(long)]
    pub brief: bool,

    /// Memory for pages while a database that was not closed is recovered, bytes, or with K, M, G (of 1024)
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str, default_value = "128M")]
    pub buffer_pool: Bytes,

    /// Show a database that another process has open, a line per interval, as vmstat does
    ///
    /// The process publishes its counters: flifo's long commands do while they run, and programs that set
    /// EngineConfig::publish_stats. Ends with Ctrl-C, and when the database is closed. With --json each line is an
    /// object.
    #[arg(long, conflicts_with_all = ["recover", "brief"])]
    pub live: bool,

    /// Seconds between two lines of --live
    #[arg(long, value_name = "SECONDS", value_parser = interval, default_value = "1", requires = "live")]
    pub interval: u32,

    /// Lines of --live; without it there is no end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), requires = "live")]
    pub count: Option<u64>,
}

fn interval(text: &str) -> Result<u32, String> {
    number(text, "seconds", 1..=86_400)
}
