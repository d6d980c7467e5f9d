//! The storage under a database: test files or a device, and workers that do I/O on them.
//!
//! | module | holds |
//! |---|---|
//! | `kinds` | workloads, modes and carriers |
//! | `files`, `device`, `set` | the test files or a device; a set of them as a cell uses it |
//! | `job` | the job of one worker, and the closed loop |
//! | `worker`: `blocking`, `ring` | a worker with one I/O at a time, or with many in flight |
//! | `workers`, `processes` | workers as threads and as processes |
//! | `counters`, `usage` | a worker's counters, and its CPU use |
//! | `description`, `blocklayer` | the storage under the files, and its own counters |

mod blocking;
pub mod blocklayer;
mod counters;
pub mod description;
pub(crate) mod device;
pub(crate) mod files;
pub(crate) mod job;
pub mod kinds;
pub(crate) mod processes;
pub(crate) mod ring;
pub(crate) mod set;
mod usage;
mod worker;
pub(crate) mod workers;

pub use processes::worker_process;
