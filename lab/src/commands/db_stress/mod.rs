//! `flifo db-stress`.
//!
//! | module | holds |
//! |---|---|
//! | `args` | the options |
//! | `engine`, `server` | data, users and checks on the embedded engine, and on a live server |

pub mod args;
mod engine;
mod server;

use args::DbStressArgs;

use super::common::Ended;
use super::loads::plan::Plan;
use crate::results::Results;
use crate::support::clock::Start;
use crate::support::error::Error;

const NAME: &str = "db-stress";
const RECORD_OF_A_SERVER: &str = "target-db-stress";

/// Runs `flifo db-stress`.
pub fn db_stress(args: &DbStressArgs) -> Result<Ended, Error> {
    let start = Start::now();
    let plan = Plan::new(NAME, &args.load)?;
    let record = if args.load.target.is_some() { RECORD_OF_A_SERVER } else { NAME };
    args.load.check_outputs(record)?;
    match &args.load.target {
        Some(address) => server::db_stress(args, address, &plan, &start),
        None => engine::db_stress(args, &plan, &start),
    }
}

/// A load of the embedded engine as a part of an experiment. `command_line` repeats it alone. The results are `None` if an
/// error came before the first cell.
pub(crate) fn part(args: &DbStressArgs, command_line: String) -> (Option<Results>, Result<Ended, Error>) {
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
