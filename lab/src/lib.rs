//! The lab of flifo: measures, and shows what it measured.
//!
//! | module | holds |
//! |---|---|
//! | `cli`, `command` | the command line; what all commands share |
//! | `workload` | rows, statements, how a statement travels and how it runs |
//! | `front` | connections: server threads and clients |
//! | `sweep` | the plan of cells, the data, the run |
//! | `iobench` | what the storage under a database can do |
//! | `experiment` | a published study run again, its claims beside what is measured here |
//! | `target` | a live MariaDB or MySQL in the engine's place |
//! | `database` | a database that nobody has open, checked and described |
//! | `bench` | the scheduler's policies beside what a user would pick instead, without the engine |
//! | `group` | threads that wait for an order, obey, report |
//! | `limits`, `mounts`, `interrupt`, `progress` | what the system allows and has, Ctrl-C, what the user sees |
//! | `results`, `statistics`, `sampler`, `output` | what is kept of a run; the files that hold it |
//! | `report`, `published` | how it is shown, and what was published before |

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
pub mod report;
pub mod results;
pub mod sampler;
pub mod statistics;
pub mod sweep;
pub mod target;
pub mod thread_group;
pub mod workload;
