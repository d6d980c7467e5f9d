//! What the commands share that run one workload on data of its own: `flifo dbt2`, `flifo db-stress`.
//!
//! | module | holds |
//! |---|---|
//! | `args` | options: users, settings, times, engine, server, results |
//! | `plan` | what is measured, in which order |
//! | `engine_cell` | a round on the embedded engine: the window watched, its figures |
//! | `server` | a round on a live server: settings, counters, figures |

pub mod args;
pub(crate) mod engine_cell;
pub mod plan;
pub(crate) mod server;
