//! The matrix: every load of a table at several numbers of connections, stock beside the plugin.
//!
//! | module | holds |
//! |---|---|
//! | `loads` | the loads as one table |
//! | `cli`, `plan` | the arguments; the cells in order, the time that they take |
//! | `servers` | the options that loads share, and the files that these name |
//! | `clients` | the processes of a load on one server |
//! | `run` | the cells, one after the other |
//! | `results`, `report` | what is kept of a run; the tables |
//!
//! Protocol: each variant has a warm server and clients of its own, as with [`crate::slices`]. All are stopped by a signal except in
//! their slices. Loads of the same server options share their servers; others end before the next ones start.
//!
//! A cell that fails leaves a note, and the next one goes on. An interrupt ends the run; what was measured is kept.

mod cli;
mod clients;
pub mod loads;
mod plan;
mod report;
mod results;
mod run;
mod servers;

pub use cli::Arguments;
pub use plan::Plan;
pub use report::{list, markdown};
pub use results::Results;
pub use run::run;
