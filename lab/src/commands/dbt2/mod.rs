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
use super::loads::run::check_outputs;
use crate::measure::closed_loop::Counts;
use crate::measure::dbt2::TransactionKind;
use crate::results::Round;
use crate::support::clock::Start;
use crate::support::error::Error;

const NAME: &str = "dbt2";
const RECORD_OF_A_SERVER: &str = "target-dbt2";

/// Runs `flifo dbt2`.
pub fn dbt2(args: &Dbt2Args) -> Result<Ended, Error> {
    let start = Start::now();
    let plan = Plan::new(NAME, &args.load)?;
    let record = if args.load.target.is_some() { RECORD_OF_A_SERVER } else { NAME };
    check_outputs(&args.load, record)?;
    match &args.load.target {
        Some(address) => server::dbt2(args, address, &plan, &start),
        None => engine::dbt2(args, &plan, &start),
    }
}

/// The round with the figures of each kind of transaction.
pub(crate) fn with_kinds(mut round: Round, counts: &Counts) -> Round {
    let new_orders = counts.kinds[TransactionKind::NewOrder as usize].committed;
    round.new_orders_per_minute = (round.elapsed_s > 0.0).then(|| new_orders as f64 * 60.0 / round.elapsed_s);
    with_names(round, counts, TransactionKind::ALL.map(TransactionKind::name))
}
