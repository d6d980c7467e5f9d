//! Options of `flifo db-stress`.

use clap::Args;

use crate::commands::common::exit_codes;
use crate::commands::loads::args::LoadArgs;
use crate::commands::loads::plan::Step;
use crate::commands::values::number;
use crate::measure::db_stress::{HISTORY_ROWS, Load};
use crate::results::Settings;

/// Shown by `--help`.
pub(crate) const EXAMPLES: &str = concat!(
    "Examples:
  flifo db-stress
      100,000 objects with their histories; a write for each read
  flifo db-stress --rw 0 --users 1,4,16,64,256
      Reads only
  flifo db-stress --objects 1000000 --instances 8 --buffer-pool 4G --html db-stress.html
      A tenth of the published scale, with a page
  flifo db-stress --target mysql://app@127.0.0.1/stress --policy none
      The same as SQL on a live MariaDB or MySQL

",
    exit_codes!()
);

/// Options of `flifo db-stress`.
#[derive(Debug, Args)]
pub struct DbStressArgs {
    /// Objects, each with 20 rows of history, some 5 kB together
    #[arg(help_heading = "What is measured", long, value_name = "N", value_parser = objects, default_value = "100000")]
    pub objects: u32,

    /// Reads for each write; 0: no writes
    #[arg(help_heading = "What is measured", long, value_name = "N", value_parser = reads_per_write, default_value = "1")]
    pub rw: u32,

    #[command(flatten)]
    pub load: LoadArgs,
}

impl DbStressArgs {
    /// What the users of a step do.
    pub(crate) fn load_of(&self, step: &Step) -> Load {
        Load { reads_per_write: self.rw, seed: step.seed(self.load.seed), round: step.round }
    }

    /// The settings of a run, completed.
    pub(crate) fn settings(&self, settings: Settings) -> Settings {
        Settings {
            objects: Some(self.objects),
            reads_per_write: Some(self.rw),
            rows: u64::from(self.objects) * u64::from(HISTORY_ROWS + 1),
            ..settings
        }
    }
}

fn objects(text: &str) -> Result<u32, String> {
    number(text, "objects", 1..=100_000_000)
}

fn reads_per_write(text: &str) -> Result<u32, String> {
    number(text, "reads for each write", 0..=1_000_000)
}
