//! The engine's face: [`Database`], its trees, and the sessions that work on them.

mod config;
mod database;
mod session;
mod stats;

pub use config::EngineConfig;
pub use database::{Database, Tree};
pub use session::{Session, Statement};
pub use stats::EngineStats;
