//! The commands: a folder each, with its arguments, its plan and its run.
//!
//! | module | holds |
//! |---|---|
//! | `cli` | the command line |
//! | `common`, `values` | what commands share: how they end, exit codes, option values |
//! | `steps` | the steps of a plan, measured one after another, and what becomes of the results |
//! | `record` | the option `--record` of every bench |
//! | `loads` | what `dbt2` and `db-stress` share |
//! | `sweep`, `dbt2`, `db_stress`, `bench`, `iobench`, `experiment`, `check`, `stat`, `report`, `figures` | a command each |
//!
//! A new command is a folder here: `args.rs` with its options, `plan.rs` if it measures many cells, and its run. It gets
//! a variant of [`cli::Command`] and a line in [`run`]. What it measures goes to [`crate::measure`], what it writes as
//! JSON to [`crate::results`], what it shows to [`crate::report`].
//!
//! This layer imports all others.

pub mod bench;
pub mod check;
pub mod cli;
pub mod common;
pub mod db_stress;
pub mod dbt2;
pub mod experiment;
pub mod figures;
pub mod iobench;
pub mod loads;
pub mod record;
pub mod report;
pub mod stat;
pub(crate) mod steps;
pub mod sweep;
pub mod values;

use crate::measure::storage;
use crate::support::error::Error;
use crate::support::interrupt;
use bench::args::BenchCommand;
use cli::Command;
use common::Ended;

/// Runs a command.
pub fn run(command: &Command) -> Result<Ended, Error> {
    match command {
        Command::Sweep(args) => {
            interrupt::install()?;
            sweep::sweep(args)
        }
        Command::Dbt2(args) => {
            interrupt::install()?;
            dbt2::dbt2(args)
        }
        Command::DbStress(args) => {
            interrupt::install()?;
            db_stress::db_stress(args)
        }
        Command::Bench { what: BenchCommand::Admission(args) } => {
            interrupt::install()?;
            bench::admission(args)
        }
        Command::Bench { what: BenchCommand::Peers { options } } => match bench::peers(options)? {},
        Command::Iobench(args) => {
            interrupt::install()?;
            iobench::iobench(args)
        }
        Command::Experiment(args) => experiment::experiment(args),
        Command::Check(args) => check::check(args),
        Command::Stat(args) => stat::stat(args),
        Command::IobenchWorker => {
            storage::worker_process();
            Ok(Ended::Done)
        }
        Command::Figures(args) => figures::figures(args),
        Command::Report(args) => report::report(args),
    }
}
