//! Options of `flifo dbt2`.

use std::str::FromStr;

use clap::Args;

use crate::commands::common::exit_codes;
use crate::commands::loads::args::LoadArgs;
use crate::commands::loads::plan::Step;
use crate::commands::values::number;
use crate::measure::dbt2::{Load, Mix, Pace, Quirks, Scale};
use crate::results::Settings;

/// Shown by `--help`.
pub(crate) const EXAMPLES: &str = concat!(
    "Examples:
  flifo dbt2
      10 warehouses; 16 and 256 users, without a limit and with flifo
  flifo dbt2 --warehouses 50 --users 40 --policy none --time 300 --rounds 1 --html dbt2.html
      The published load, five minutes
  flifo dbt2 --warehouses 2 --think-time 0.1 --users 200
      Users who key and think a tenth of TPC-C's times
  flifo dbt2 --target mysql://app@127.0.0.1/dbt2 --warehouses 2 --policy none
      The same transactions as SQL on a live MariaDB or MySQL

",
    exit_codes!()
);

/// Options of `flifo dbt2`.
#[derive(Debug, Args)]
pub struct Dbt2Args {
    /// Warehouses, some 100 MB each
    #[arg(help_heading = "What is measured", long, value_name = "N", value_parser = warehouses, default_value = "10")]
    pub warehouses: u32,

    /// Percentages of new order, payment, order status, delivery and stock level
    #[arg(help_heading = "What is measured", long, value_name = "N,N,N,N,N", value_parser = Mix::from_str, default_value = "45,43,4,4,4")]
    pub mix: Mix,

    /// Keying and think times of TPC-C multiplied by this factor; 0: none
    ///
    /// With think times each user has a home warehouse. Without, as in the published runs, each transaction draws one.
    #[arg(help_heading = "What is measured", long, value_name = "FACTOR", value_parser = think_time, default_value = "0")]
    pub think_time: f64,

    /// Where DBT-2 differs from TPC-C, do as DBT-2
    ///
    /// The customer of a last name is the first by first name, and not the middle one. A line from another warehouse reads
    /// and changes the home warehouse's stock.
    #[arg(help_heading = "What is measured", long)]
    pub quirks: bool,

    /// Rows of a warehouse: full, or small for a trial (1,000 items, 60 customers a district)
    #[arg(help_heading = "Data and engine", long, value_name = "full|small", value_parser = population, default_value = "full")]
    pub population: Population,

    #[command(flatten)]
    pub load: LoadArgs,
}

/// How many rows a warehouse has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Population {
    /// TPC-C's.
    Full,
    /// A fiftieth of it.
    Small,
}

impl Dbt2Args {
    /// The size of the data.
    pub(crate) fn scale(&self) -> Scale {
        match self.population {
            Population::Full => Scale::of(self.warehouses),
            Population::Small => Scale::small(self.warehouses),
        }
    }

    fn pace(&self) -> Pace {
        if self.think_time > 0.0 { Pace::ThinkTimes(self.think_time) } else { Pace::Unthrottled }
    }

    fn quirks(&self) -> Quirks {
        if self.quirks { Quirks::DBT2 } else { Quirks::default() }
    }

    /// What the users of a step do.
    pub(crate) fn load_of(&self, step: &Step) -> Load {
        Load {
            mix: self.mix,
            pace: self.pace(),
            quirks: self.quirks(),
            seed: step.seed(self.load.seed),
            round: step.round,
        }
    }

    /// The settings of a run, completed.
    pub(crate) fn settings(&self, settings: Settings) -> Settings {
        Settings {
            warehouses: Some(self.warehouses),
            mix: self.mix.to_string(),
            think_time_factor: Some(self.think_time),
            quirks: Some(self.quirks),
            rows: self.scale().rows(),
            ..settings
        }
    }
}

fn warehouses(text: &str) -> Result<u32, String> {
    number(text, "warehouses", 1..=10_000)
}

fn think_time(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.0..=10.0).contains(&factor) => Ok(factor),
        _ => Err("the factor must be a number from 0 to 10".into()),
    }
}

fn population(text: &str) -> Result<Population, String> {
    match text {
        "full" => Ok(Population::Full),
        "small" => Ok(Population::Small),
        _ => Err("use full or small".into()),
    }
}
