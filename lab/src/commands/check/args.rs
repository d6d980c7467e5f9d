//! Options of `flifo check`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::support::size::Bytes;

pub(crate) const EXIT_CODES: &str = "Exit codes:
  0  sound
  1  damage found; every finding is listed, up to a hundred
  2  wrong usage, or no database that can be read (none there, in use, another version, not
     permitted, or it needs recovery and cannot be written)
  3  the file system failed (disk full during recovery, or for the output)
  4  a limit of the system is too low (descriptors)";

/// Options of `flifo check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The database's directory
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,

    /// Free leaked pages if the database is sound: those of a bulk load that a crash interrupted
    ///
    /// If there are any, every page is read a second time.
    #[arg(long)]
    pub reclaim: bool,

    /// Print JSON instead (docs/check.md)
    #[arg(long)]
    pub json: bool,

    /// Memory for pages while a database that was not closed is recovered, bytes, or with K, M, G (of 1024)
    #[arg(long, value_name = "SIZE", value_parser = Bytes::from_str, default_value = "128M")]
    pub buffer_pool: Bytes,
}
