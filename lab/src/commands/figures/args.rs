//! Options of `flifo figures`.

use std::path::PathBuf;

use clap::Args;

/// Options of `flifo figures`.
#[derive(Debug, Args)]
pub struct FiguresArgs {
    /// Change nothing; exit with 1 if a table or a picture is stale, and name it
    #[arg(long)]
    pub check: bool,

    /// The repository [default: the one around the current directory]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}
