//! Options of `flifo report`.

use std::path::PathBuf;

use clap::Args;

/// Options of `flifo report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A file that --json wrote
    #[arg(value_name = "JSON")]
    pub json: PathBuf,

    /// Write a self-contained page with the curves
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the picture of the headline curve; of a bench, a picture per load into a directory
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
