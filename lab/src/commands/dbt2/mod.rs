//! `flifo dbt2`.
//!
//! | module | holds |
//! |---|---|
//! | `args` | the options |
//! | `engine`, `server` | data, users and checks on the embedded engine, and on a live server |

pub mod args;
mod engine;
mod server;

use args::Dbt2Args;

use super::common::Ended;
use super::loads::engine_cell::with_names;
use super::loads::plan::Plan;
use crate::measure::closed_loop::Counts;
use crate::measure::dbt2::TransactionKind;
use crate::results::{Results, Round};
use crate::support::clock::Start;
use crate::support::error::Error;

const NAME: &str = "dbt2";
const RECORD_OF_A_SERVER: &str = "target-dbt2";

/// Runs `flifo dbt2`.
pub fn dbt2(args: &Dbt2Args) -> Result<Ended, Error> {
    let start = Start::now();
    let plan = Plan::new(NAME, &args.load)?;
    let record = if args.load.target.is_some() { RECORD_OF_A_SERVER } else { NAME };
    args.load.check_outputs(record)?;
    match &args.load.target {
        Some(address) => server::dbt2(args, address, &plan, &start),
        None => engine::dbt2(args, &plan, &start),
    }
}

/// A load of the embedded engine as a part of an experiment. `command_line` repeats it alone. The results are `None` if an
/// error came before the first cell.
pub(crate) fn part(args: &Dbt2Args, command_line: String) -> (Option<Results>, Result<Ended, Error>) {
    let start = Start::now();
    let mut measured = None;
    let ended = Plan::new(NAME, &args.load).and_then(|plan| {
        engine::run(args, &plan, &start, command_line, &mut |results, _| {
            measured = Some(results);
            Ok(())
        })
    });
    (measured, ended)
}

/// The round with the figures of each kind of transaction.
pub(crate) fn with_kinds(mut round: Round, counts: &Counts) -> Round {
    let new_orders = counts.kinds[TransactionKind::NewOrder as usize].committed;
    round.new_orders_per_minute = (round.elapsed_s > 0.0).then(|| new_orders as f64 * 60.0 / round.elapsed_s);
    with_names(round, counts, TransactionKind::ALL.map(TransactionKind::name))
}
