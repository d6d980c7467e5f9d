//! Stock MariaDB beside one with the flifo plugin, loaded by sysbench: the figures of `docs/benchmarks/mariadb.md` that
//! are of a server.
//!
//! | module | holds |
//! |---|---|
//! | `plan`, `variant`, `workload`, `settings` | what is measured, and how |
//! | `dataset` | the tables, loaded once |
//! | `running`, `beside` | a variant's server, and a round of a cell on it; what else runs there |
//! | `sysbench` | the load: started, heard, ended |
//! | `measure` | counters of the server and of the kernel, and the figures that come of them |
//! | `run` | variants taking turns |
//! | `moments` | the same in short alternating slices |
//! | `matrix` | many loads in such slices, stock beside the plugin: a table, a heat map |
//! | `results`, `bars`, `report` | what is kept, what was target, how it is shown |
//!
//! Whatever waits ends on Ctrl-C, and every wait has a bound. Servers and sysbench end with this process.

pub mod bars;
mod beside;
mod dataset;
mod error;
pub mod matrix;
pub mod measure;
pub mod moments;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
mod running;
pub mod settings;
mod sysbench;
pub mod variant;
pub mod workload;

pub use error::{Error, Result};
