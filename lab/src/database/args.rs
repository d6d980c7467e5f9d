//! Options of `flifo check` and `flifo stat`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::cli::Bytes;

pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  sound
  1  damage found; every finding is listed, up to a hundred
  2  wrong usage, or nothing there that can be looked at (no database, in use, of another version, not permitted;
     or it needs recovery, and nothing can be written)
  3  the file system said no meanwhile (disk full while it recovered, or where the output goes)
  4  a limit of the system is too low (descriptors)";

/// Options of `flifo check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// If it is sound, free the pages that belong to nothing: those of a bulk load that a crash cut off
    ///
    /// Costs a second read of every page if there are any.
    #[arg(long)]
    pub reclaim: bool,

    /// Print JSON instead (docs/check.md)
    #[arg(long)]
    pub json: bool,

    /// Memory for pages while a database that was not closed is recovered, bytes, or with K, M, G (of 1024)
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str, default_value = "128M")]
    pub buffer_pool: Bytes,
}

/// Options of `flifo stat`.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Print JSON instead (docs/check.md)
    #[arg(long)]
    pub json: bool,

    /// If the database was not closed, recover it, and close it afterwards; make anew a redo log that cannot be used
    ///
    /// Without it nothing is written, and of a database that was not closed no tables are shown.
    #[arg(long)]
    pub recover: bool,

    /// What the files' headers say, and no tables: these cost a read of every page
    #[arg(long)]
    pub brief: bool,

    /// Memory for pages while a database that was not closed is recovered, bytes, or with K, M, G (of 1024)
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str, default_value = "128M")]
    pub buffer_pool: Bytes,
}
