//! A storage engine under admission control.
//!
//! Ordered rows in B+trees, on data files under a buffer pool that may be larger or smaller than the data, for a
//! thousand threads of which only a few run at a time; transactions, and a redo log. [`Database`] is where to begin; [`db`]
//! says what is atomic and durable.
//!
//! The floors, from the top; a lower one knows nothing of a higher one:
//! - [`db`]: the face. Databases, sessions, statements, transactions, typed tables, the catalog.
//! - [`txn`]: transactions. Versions, snapshots, undo, purge.
//! - [`tree`]: B+trees, many readers and writers at a time. [`space`]: which pages are in use.
//! - [`lock`]: row locks and deadlocks, of keys and owners' ids alone.
//! - [`buffer`]: pages in memory, their latches, replacement, page cleaners, recovery. [`page`]: a page's bytes.
//! - [`redo`]: the log of all changes.
//! - [`disk`]: files, and a simulated disk.
//!
//! Beside them: [`row`], typed keys, rows and schemas as bytes, which knows none of the others; [`metrics`], time
//! waited per reason; and [`Waiter`], without which nobody waits.
#![warn(missing_docs)]

mod background;
pub mod buffer;
pub mod db;
pub mod disk;
mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
pub mod lock;
pub mod metrics;
pub mod page;
pub mod redo;
pub mod row;
#[cfg(all(test, shuttle))]
mod schedules;
pub mod space;
mod spare;
mod sync;
pub mod tree;
pub mod txn;
mod wait;

pub use background::Wake;
pub use buffer::{PoolStats, RecoveryProgress};
pub use db::{
    AtRest, CheckProgress, CheckReport, Database, EngineConfig, EngineStats, Finding, FlushLog, PagePlace,
    Rows, Savepoint, Session, Statement, Table, Transaction, Tree, TreeKind, TreeReport, TypedTable,
};
pub use error::{Error, PRIMARY_KEY, Result};
pub use metrics::{WaitReason, Waits, WaitsSnapshot};
pub use redo::RedoStats;
pub use space::SpaceStats;
pub use spare::{Spare, Spares};
pub use tree::TreeStats;
pub use txn::{Isolation, TxnStats};
pub use wait::Waiter;
