//! `flifo sweep`: plan the cells, prepare the data, run, show.

mod cell;
mod changes;
pub mod engine;
mod ledger;
pub mod plan;
pub mod prepare;
mod run;

pub use run::sweep;
pub(crate) use run::{Ran, Subject, measure_and_keep};
