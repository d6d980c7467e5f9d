//! `flifo sweep`: the plan, and who carries it out.

use super::args::SweepArgs;
use super::plan::Plan;
use super::{engine_run, server_run};
use crate::commands::common::Ended;
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
