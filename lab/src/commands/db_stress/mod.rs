//! `flifo db-stress`.
//!
//! | module | holds |
//! |---|---|
//! | `args` | the options |
//! | `run` | data, users and checks on the embedded engine |

pub mod args;
mod run;

pub use run::db_stress;
pub(crate) use run::part;
