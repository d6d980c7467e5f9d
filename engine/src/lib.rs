//! A storage engine under admission control.
#![warn(missing_docs)]

pub mod db;
pub mod disk;
mod error;
pub mod metrics;
mod wait;

pub use db::{Database, EngineConfig, EngineStats, Session, Statement, Tree};
pub use error::{Error, Result};
pub use metrics::{WaitReason, Waits, WaitsSnapshot};
pub use wait::Waiter;
