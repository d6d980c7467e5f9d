//! Results as records of the repository ([`flifo_record`]): which figures of a run its `figures/NAME.json` keeps.

mod iobench;
mod sweep;

pub(crate) use iobench::of_iobench;
pub(crate) use sweep::of_results;
