//! `flifo-peers`: other embedded stores and flifo's engine, compared in one interleaved run.
//!
//! `flifo bench peers` runs it. It is not distributed: a bench may link libraries that a product would not (RocksDB is
//! Apache-2.0 or GPL-2.0, LMDB has the OpenLDAP licence, SQLite is in the public domain).
//!
//! | module | holds |
//! |---|---|
//! | `args`, `plan` | the command line; what is measured, in which order, what is left out and why |
//! | `store` | what every store can do behind one trait; the description of each; durabilities |
//! | `stores` | the stores, a file each |
//! | `row`, `workload`, `actor` | the rows; the workloads by name; the operations of a thread |
//! | `worker`, `cell` | a thread's closed loop; one round of one cell, with the check that nothing was lost |
//! | `run`, `results`, `report` | the run from its first line to its last; JSON; tables |
//! | `record` | the results as a record of the repository |

mod actor;
mod args;
mod cell;
#[cfg(test)]
mod fake;
mod memory;
mod plan;
mod record;
mod report;
mod results;
mod row;
mod run;
mod store;
mod stores;
mod worker;
mod workload;

use std::io::Write as _;
use std::process::exit;

use clap::Parser as _;
use flifo::support::interrupt;

fn main() {
    let args = args::Args::parse();
    let code = match interrupt::install().and_then(|()| run::run(&args)) {
        Ok(ended) => ended.exit_code(),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "flifo-peers: {error}");
            error.exit_code()
        }
    };
    // Not by returning: a thread may hang in a store.
    exit(i32::from(code));
}
