//! The engine's face: [`Database`], its trees, and the sessions that work on them.
//!
//! # What is atomic, and what is durable
//! There are no transactions yet. One row operation ([`Statement::insert`], `update`, `upsert`, `delete`) happens
//! whole or not at all, for every other thread that reads; nothing larger does. A scan sees each row as it is when
//! the scan comes by.
//!
//! Nothing is durable before the next [`Database::checkpoint`] or [`Database::close`] that succeeds. There is no
//! redo log yet: once changed pages have been written, a database that ends without one of the two (a crash,
//! kill -9, a power cut) is refused at the next open with [`Error::NotClosedCleanly`](crate::Error), and its data is to be
//! loaded anew. Reading never puts a database at that risk.
//!
//! # Lock order
//! admission, the catalog's lock, the gate (`gate.rs`), the tree's latches, the tablespace's locks. A thread that waits
//! for one of the first three holds none of the later ones.

mod catalog;
mod config;
mod database;
mod gate;
mod session;
mod stats;
mod tree;

pub use config::EngineConfig;
pub use database::Database;
pub use session::{Session, Statement};
pub use stats::EngineStats;
pub use tree::Tree;
