//! `flifo sweep`: plan the cells, prepare the data, run, show.

mod cell;
mod changes;
pub mod engine;
pub mod plan;
pub mod prepare;
mod run;
mod table_audit;

pub use run::sweep;
pub(crate) use run::{Ran, Subject, measure_and_keep};
