//! `flifo iobench`: measures the storage under a database.
//!
//! | module | holds |
//! |---|---|
//! | `args`, `plan` | the options; what is measured in which order |
//! | `test_area` | the test files or the device of a plan |
//! | `cell`, `run` | one round of one cell; the run from its first line to its last |

pub mod args;
mod cell;
pub mod plan;
mod run;
mod test_area;

pub use run::{failures, iobench, measure};
