//! `flifo sweep`: plan the cells, prepare the data, run, show.

mod cell;
pub mod plan;
pub mod prepare;
mod run;

pub use run::{Ended, check_writable, sweep};
pub(crate) use run::{Ran, Subject, command_line, measure_and_keep};
