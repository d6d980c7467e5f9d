//! Stock MariaDB beside one with the flifo plugin, loaded by sysbench: the figures of `docs/benchmarks/mariadb.md` that
//! are of a server.
//!
//! | module | holds |
//! |---|---|
//! | `product` | what differs between the servers that can be measured: MariaDB, and MySQL in a crate of its own |
//! | `arguments`, `plan`, `variant`, `workload`, `settings` | what is measured, and how |
//! | `dataset` | the tables, loaded once |
//! | `running`, `background` | a variant's server, and a round of a cell on it; what else runs there |
//! | `sysbench` | the load: started, read, ended |
//! | `measure` | counters of the server and of the kernel, and the figures that come of them |
//! | `run` | interleaved variants |
//! | `slices` | the same in short alternating slices |
//! | `matrix` | many loads in such slices, stock beside the plugin: a table, a heat map |
//! | `results`, `targets`, `report` | what is kept, the figures to reach, the tables |
//! | `record` | results as the records of the repository |
//! | `command` | what the commands of all products do with a run |
//!
//! Whatever waits ends on Ctrl-C, and every wait has a bound. Servers and sysbench end with this process.

pub mod arguments;
mod background;
pub mod command;
mod dataset;
mod error;
pub mod matrix;
pub mod measure;
pub mod plan;
pub mod product;
pub mod record;
pub mod report;
pub mod results;
pub mod run;
mod running;
pub mod settings;
pub mod slices;
mod sysbench;
pub mod targets;
pub mod variant;
pub mod workload;

pub use error::{Error, Result};
