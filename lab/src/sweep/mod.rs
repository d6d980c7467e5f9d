//! `flifo sweep`: plan the cells, prepare the data, run, show.

mod cell;
pub mod plan;
pub mod prepare;
mod run;

pub use run::{Ended, sweep};
pub(crate) use run::{Ran, Subject, check_writable, command_line, measure_and_keep};
