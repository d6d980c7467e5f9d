//! The engine's face: [`Database`], its trees, and the sessions that work on them.
//!
//! # What is atomic, and what is durable
//! There are no transactions yet: each row operation ([`Statement::insert`], `update`, `upsert`, `delete`) is one of its
//! own. It happens whole or not at all, for every other thread that reads and after every crash. A scan sees each row
//! as it is when the scan comes by.
//!
//! When the operation returns, it is in the redo log, and that as durable as [`EngineConfig::flush_log_at_trx_commit`]
//! says: by default it survives a power cut. The next open after a crash replays the log. An operation that returned an
//! error of the disk may have happened or not. A bulk load is durable when it returns, and leaves nothing before.
//!
//! # Lock order
//! admission, the catalog's lock, the gate (`gate.rs`), the tree's latches, the tablespace's locks. A thread that waits
//! for one of the first three holds none of the later ones.

mod catalog;
mod config;
mod database;
mod gate;
mod opening;
mod session;
mod stats;
mod tree;

pub use config::{EngineConfig, FlushLog};
pub use database::Database;
pub use session::{Session, Statement};
pub use stats::EngineStats;
pub use tree::Tree;
