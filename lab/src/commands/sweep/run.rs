//! `flifo sweep`: the plan, and who carries it out. A sweep may also be a part of an experiment.

use super::args::SweepArgs;
use super::plan::Plan;
use super::{engine_run, server_run};
use crate::commands::common::Ended;
use crate::results::Results;
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::output::check_all_writable;

/// Runs `flifo sweep`.
pub fn sweep(args: &SweepArgs) -> Result<Ended, Error> {
    let start = Start::now();
    let plan = Plan::new(args)?;
    check_all_writable([&args.json, &args.html, &args.svg].into_iter().flatten())?;
    args.record.place(args.record_name())?;
    match &args.target {
        Some(address) => server_run::sweep(args, address, plan, &start),
        None => engine_run::sweep(args, &plan, &start),
    }
}

/// A sweep as a part of an experiment. `command_line` repeats it alone. The results are `None` if an error came before the
/// first cell.
pub(crate) fn part(args: &SweepArgs, command_line: String) -> (Option<Results>, Result<Ended, Error>) {
    let start = Start::now();
    let mut measured = None;
    let mut keep = |results, _: &Result<Ended, Error>| {
        measured = Some(results);
        Ok(())
    };
    let ended = Plan::new(args).and_then(|plan| match &args.target {
        Some(address) => server_run::run(args, address, plan, &start, command_line, &mut keep),
        None => engine_run::run(args, &plan, &start, command_line, &mut keep),
    });
    (measured, ended)
}
