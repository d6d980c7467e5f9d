//! The engine's API: [`Database`], its trees, and the sessions that work on them.
//!
//! # What is atomic, and what is durable
//! A *table* is read and changed by transactions ([`Session::begin`], [`Transaction`]). All changes of a transaction
//! take effect at its commit, for all sessions, or not at all; [`crate::txn`] says what it sees of other transactions.
//!
//! A *typed table* has columns ([`crate::row`]), a primary key and indexes, which change in the same transaction
//! ([`TypedTable`]).
//!
//! A *tree* has rows without versions. Each operation ([`Statement::insert`], `update`, `upsert`, `delete`) takes
//! effect completely or not at all, and a scan sees each row as it is when the scan reaches it.
//!
//! A commit, or an operation on a tree, is in the redo log when it returns, and as durable as
//! [`EngineConfig::flush_log_at_trx_commit`] says: by default it survives a power cut. The next open after a crash
//! replays the log, and rolls back uncommitted changes in the background. An operation that returned a disk error may
//! or may not have taken effect. A bulk load is durable when it returns; a load that fails leaves no rows.
//!
//! # Lock order
//! admission, row locks, the catalog's lock, the tree's latches, the tablespace's locks. A thread that waits
//! for one of the first three holds none of the later ones.

mod agreement;
mod at_rest;
mod catalog;
mod check;
mod config;
mod database;
mod ddl;
mod definition;
mod directory;
mod entry;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzz;
pub(crate) mod live;
mod opening;
mod prepared;
mod report;
mod session;
mod stats;
mod tables;
mod transaction;
mod tree;
mod typed;

pub use at_rest::{AtRest, NextOpen};
pub use check::CheckProgress;
pub use config::{EngineConfig, FlushLog};
pub use database::Database;
pub use live::LiveStats;
pub use report::{CheckReport, Finding, PagePlace, TreeKind, TreeReport};
pub use session::{Session, Statement};
pub use stats::EngineStats;
pub use transaction::{Savepoint, Transaction};
pub use tree::{Table, Tree};
pub use typed::{Rows, TypedTable};

#[cfg(test)]
mod tests;
