//! `flifo iobench`: what the storage under a database can really do.
//!
//! | module | holds |
//! |---|---|
//! | `args`, `kinds`, `plan` | the options; workloads, modes and carriers; what is measured in which order |
//! | `area` | what it is measured on: `files` of our own, or a `device`; a `set` of them as a cell uses it |
//! | `job` | what one worker is told, and the closed loop |
//! | `blocking`, `ring` | a worker with one I/O at a time; one with many in flight |
//! | `workers`, `processes` | workers as threads and as processes |
//! | `counters`, `usage` | what a worker counted, and what it took of the processors |
//! | `cell`, `run` | one round of one cell; the run from its first line to its last |
//! | `storage`, `blocklayer` | what lies under the files, and what it saw of the I/O |
//! | `results`, `text`, `show` | what is kept, and how it is shown |
//! | `view`, `charts`, `conclusion`, `page` | curves out of cells; the page |
//! | `advise` | what to set, and the figures it stands on |

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
