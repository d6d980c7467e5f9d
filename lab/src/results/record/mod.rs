//! Results as records of the repository ([`flifo_record`]): which figures of a run its `figures/NAME.json` keeps.

mod experiment;
mod iobench;
mod sweep;

pub(crate) use experiment::{Run as ExperimentRun, of_experiment};
pub(crate) use iobench::of_iobench;
pub(crate) use sweep::of_results;
