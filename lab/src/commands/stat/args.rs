//! Options of `flifo stat`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

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
}
