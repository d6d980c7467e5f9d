//! The lab of flifo: measures, and shows the results.
//!
//! | module | holds |
//! |---|---|
//! | `cli`, `command` | the command line; what all commands share |
//! | `workload` | rows, statements, how a statement travels and how it runs |
//! | `front` | connections: server threads and clients |
//! | `sweep` | the plan of cells, the data, the run |
//! | `iobench` | measures the storage under a database |
//! | `experiment` | repeats a published study and compares its claims |
//! | `target` | a live MariaDB or MySQL in the engine's place |
//! | `database` | a closed database, checked and described |
//! | `bench` | the scheduler's policies compared with common alternatives, without the engine |
//! | `thread_group` | threads that wait for an order, execute it, report |
//! | `limits`, `mounts`, `interrupt`, `progress` | system limits and file systems, Ctrl-C, progress output |
//! | `results`, `statistics`, `sampler`, `output` | the results of a run, and the files that hold them |
//! | `record` | `--record` and `flifo figures`: results as records of the repository |
//! | `report`, `published` | tables, pages, pictures; published figures for comparison |

pub mod bench;
pub mod cli;
pub mod clock;
pub mod command;
pub mod database;
pub mod error;
pub mod experiment;
pub mod figures;
pub mod front;
pub mod interrupt;
pub mod iobench;
pub mod limits;
mod mounts;
pub mod output;
pub mod progress;
pub mod published;
pub mod record;
pub mod report;
pub mod results;
pub mod sampler;
pub mod statistics;
pub mod sweep;
pub mod target;
pub mod thread_group;
pub mod workload;
