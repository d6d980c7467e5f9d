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
use super::loads::run::check_outputs;
use crate::support::clock::Start;
use crate::support::error::Error;

const NAME: &str = "db-stress";
const RECORD_OF_A_SERVER: &str = "target-db-stress";

/// Runs `flifo db-stress`.
pub fn db_stress(args: &DbStressArgs) -> Result<Ended, Error> {
    let start = Start::now();
    let plan = Plan::new(NAME, &args.load)?;
    let record = if args.load.target.is_some() { RECORD_OF_A_SERVER } else { NAME };
    check_outputs(&args.load, record)?;
    match &args.load.target {
        Some(address) => server::db_stress(args, address, &plan, &start),
        None => engine::db_stress(args, &plan, &start),
    }
}
