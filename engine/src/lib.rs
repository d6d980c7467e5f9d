//! A storage engine under admission control.
//!
//! Ordered rows in B+trees, on data files under a buffer pool that may be larger or smaller than the data, for a
//! thousand threads of which only a few run at a time; transactions, and a redo log.
//!
//! # To begin with
//! A [`Database`] is a directory. An admission says how many threads work in it at a time, one for all; each thread or
//! connection has a [`Session`] of its own. Rows are bytes in a [`Table`], or have columns and indexes in a
//! [`TypedTable`].
//!
//! ```
//! use flifo_admission::{Admission, Config, Policy};
//! use flifo_engine::{Database, EngineConfig, Isolation, Result, Session, Table};
//!
//! # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("shop");
//! let db = Database::open_or_create(path, EngineConfig::default())?;
//! let stock = db.create_table("stock")?;
//! let admission = Admission::new(Config { policy: Policy::Flifo, ..Config::default() })?;
//!
//! let session = db.session(&admission);                  // one for each thread or connection
//! let mut txn = session.begin(Isolation::RepeatableRead);
//! txn.insert(&stock, b"apples", &100u64.to_be_bytes())?;
//! txn.commit()?;                                         // on the disk, and seen by others
//!
//! /// Takes `amount`, if there is as much.
//! fn take(session: &Session, stock: &Table, what: &[u8], amount: u64) -> Result<bool> {
//!     let mut txn = session.begin(Isolation::ReadCommitted);
//!     let mut value = Vec::new();
//!     txn.get_for_update(stock, what, &mut value)?;      // locks the row until the commit
//!     let there = <[u8; 8]>::try_from(&*value).map_or(0, u64::from_be_bytes);
//!     let Some(left) = there.checked_sub(amount) else { return Ok(false) };
//!     txn.update(stock, what, &left.to_be_bytes())?;
//!     txn.commit()?;
//!     Ok(true)                                           // dropped without a commit it is rolled back
//! }
//!
//! let taken = loop {
//!     match take(&session, &stock, b"apples", 30) {
//!         Err(error) if error.is_retryable() => {}       // others wanted the same rows: once more
//!         result => break result?,
//!     }
//! };
//! assert!(taken);
//! drop(stock);
//! db.close()?;                                           // or not: the next open recovers what was committed
//! # Ok(())
//! # }
//! ```
//!
//! - **Isolation** is chosen for each transaction: [`Isolation::RepeatableRead`] (a snapshot; the default),
//!   [`Isolation::ReadCommitted`], [`Isolation::Serializable`].
//! - **Durability** is the database's: a commit survives a power cut, or, faster, the end of the process alone
//!   ([`EngineConfig::flush_log_at_trx_commit`]). [`db`] says what is atomic and durable, operation by operation.
//! - **Errors** that ask for another try of the whole transaction: [`Error::is_retryable`]. [`Error::Refused`] is
//!   admission's, if its configuration bounds the queue or the time in it. After [`Error::Stopped`] (a disk failed) close,
//!   mend the cause, and open again.
//! - **Admission's policy.** The default one is made for connections: its turn of 50 us is short for threads that call
//!   the engine in a loop. They do more under `Policy::Flifo`, as above, or with
//!   [`quantum`](flifo_admission::Config::quantum) of a millisecond.
//! - **fork(2).** A child cannot use what its parent has open: each operation, close included, is [`Error::Forked`] there. What the
//!   child drops is left as it is: no file, lock or thread is touched, and the parent goes on. A child may open databases of
//!   its own, best after exec(2). Until the child ends or calls exec, it has the parent's files open. If the parent is killed
//!   before that, the database stays in use.
//! - **Bounds.** A value: 256 MiB, in a table less its key and 37 bytes. A key: 3,976 bytes, 1,928 on pages of 8 KiB and 904 on
//!   those of 4 KiB, and up to 39 more beside the shortest values; of a typed table or an index 3,072 at most. A typed table: 16
//!   columns in a key, 64 indexes, and a definition of 4,032 bytes (1,984; 960): 3 for each column, its name and its default; 12
//!   for each index, its name and 3 for each of its columns; and 23, the table's name and 3 for each column of the primary key.
//!   So with names of ten bytes and no index it has 308 columns at most (150; 71). More is [`Error::SchemaTooLarge`].
//! - **A copy of a database** is one of all its files while it is closed. One that was made while it was open is none:
//!   the files do not fit together.
//!
//! # Callbacks
//! A scan calls a closure for each row. During the call no latch is held, but the scan's slot is. What the closure may do:
//!
//! | in a callback | what happens |
//! |---|---|
//! | operations of the same session | they take tickets of the scan's slot |
//! | operations of another session, under the same admission | they run on the scan's slot; their waits release it |
//! | [`Rows`] of any session | batches are read on the scan's slot |
//! | a wait for another thread: a channel, a pool, a lock | declare it with [`Session::wait`], which releases the slot |
//! | the same, undeclared | after [`stall_limit`](flifo_admission::Config::stall_limit), the next in the queue gets the slot |
//! | a wait for a row that this thread's own transaction has locked | [`Error::LockWaitTimeout`] |
//!
//! - A thread holds one slot of an admission at most, however many sessions it uses, and never waits for its own. The same holds
//!   for a [`Statement`] beside another session.
//! - Many statements of another session use up the slot's tickets. Then the thread queues, as in a long scan.
//! - A callback that lost its slot to the stall rule counts in [`EngineStats::stalled_callbacks`], and the first one is a warning in
//!   the `log` facade. The session's next 64 callbacks run without a slot, so that others do not wait for the stall limit again and again.
//! - Without a stall limit nothing bounds an undeclared wait, and another session's operations enter by force.
//!
//! In `engine/examples`: `bank` (typed tables, many writers of the same rows), `queue` (jobs done once each, by
//! transactions that fail), `time_series` (measurements that come in order, old ones that go).
//!
//! # The floors
//! From the top; a lower one knows nothing of a higher one:
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
mod process;
pub mod redo;
pub mod row;
#[cfg(all(test, shuttle))]
mod schedules;
mod scratch;
mod slot;
pub mod space;
mod sync;
pub mod tree;
pub mod txn;
mod wait;

pub use background::Wake;
pub use buffer::{PoolStats, RecoveryProgress};
pub use db::{
    AtRest, CheckProgress, CheckReport, Database, EngineConfig, EngineStats, Finding, FlushLog, NextOpen,
    PagePlace, Rows, Savepoint, Session, Statement, Table, Transaction, Tree, TreeKind, TreeReport,
    TypedTable,
};
pub use error::{Error, PRIMARY_KEY, Result};
pub use metrics::{WaitReason, Waits, WaitsSnapshot};
pub use redo::RedoStats;
pub use scratch::{Scratch, ScratchPool};
pub use space::SpaceStats;
pub use tree::TreeStats;
pub use txn::{Isolation, TxnStats};
pub use wait::Waiter;
