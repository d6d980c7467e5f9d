//! `flifo iobench`: measures the storage under a database.
//!
//! | module | holds |
//! |---|---|
//! | `args`, `kinds`, `plan` | the options; workloads, modes and carriers; what is measured in which order |
//! | `test_area` | the test files (`files`) or a `device`; a `set` of them as a cell uses it |
//! | `job` | the job of one worker, and the closed loop |
//! | `blocking`, `ring` | a worker with one I/O at a time; a worker with many in flight |
//! | `workers`, `processes` | workers as threads and as processes |
//! | `counters`, `usage` | a worker's counters, and its CPU use |
//! | `cell`, `run` | one round of one cell; the run from its first line to its last |
//! | `storage`, `blocklayer` | the storage under the files, and its own counters |
//! | `results`, `text`, `show` | the results, and their display |
//! | `view`, `charts`, `conclusion`, `page` | curves out of cells; the page |
//! | `advise` | the settings that follow, with their figures |

pub mod advise;
pub mod args;
mod blocking;
pub mod blocklayer;
mod cell;
mod charts;
mod conclusion;
mod counters;
mod device;
mod files;
#[doc(hidden)]
pub mod fixture;
mod job;
pub mod kinds;
mod page;
pub mod plan;
mod processes;
pub mod results;
mod ring;
mod run;
mod set;
pub(crate) mod show;
pub mod storage;
mod test_area;
mod text;
mod usage;
pub(crate) mod view;
mod workers;

pub use page::html;
pub use processes::worker_process;
pub use run::{failures, iobench, measure};
