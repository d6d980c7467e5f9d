//! `flifo sweep`: throughput against connections, policy by policy.
//!
//! | module | holds |
//! |---|---|
//! | `args`, `engine_args` | the options |
//! | `plan` | what is measured, in which order |
//! | `run` | the sweep from its first line to its last |
//! | `engine_run`, `engine_cell` | on the embedded engine: the run, and one round of one cell |
//! | `server_run`, `server_cell` | the same on a live server |

pub mod args;
pub mod engine_args;
pub(crate) mod engine_cell;
mod engine_run;
pub mod plan;
mod run;
pub(crate) mod server_cell;
pub(crate) mod server_run;

pub(crate) use run::part;
pub use run::sweep;
