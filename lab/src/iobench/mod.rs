//! `flifo iobench`: what the storage under a database can really do.
//!
//! | module | holds |
//! |---|---|
//! | `args`, `kinds`, `plan` | the options; workloads, modes and carriers; what is measured in which order |
//! | `ground` | what it is measured on: `files` of our own, or a `device`; a `set` of them as a cell uses it |
//! | `job` | what one worker is told, and the closed loop |
//! | `blocking`, `ring` | a worker with one I/O at a time; one with many in flight |
//! | `crew`, `processes` | workers as threads and as processes |
//! | `tally`, `usage` | what a worker counted, and what it took of the processors |
//! | `cell`, `run` | one round of one cell; the run from its first line to its last |
//! | `storage`, `blocklayer` | what lies under the files, and what it saw of the I/O |
//! | `results`, `text` | what is kept, and how it is shown |

pub mod args;
mod blocking;
pub mod blocklayer;
mod cell;
mod crew;
mod device;
mod files;
mod ground;
mod job;
pub mod kinds;
pub mod plan;
mod processes;
pub mod results;
mod ring;
mod run;
mod set;
pub mod storage;
mod tally;
mod text;
mod usage;

pub use processes::worker_process;
pub use run::{failures, iobench, measure};
