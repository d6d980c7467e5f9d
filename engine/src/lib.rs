//! A transactional storage engine with admission control.
//!
//! Rows are ordered in B+trees, in data files behind a buffer pool that may be larger or smaller than the data. The
//! engine has transactions and a redo log. It serves a thousand threads, of which only a few run at a time.
//!
//! # Getting started
//! A [`Database`] is a directory. An `Admission` limits how many threads work in it at a time; all sessions share it.
//! Each thread or connection has its own [`Session`]. Rows are bytes in a [`Table`], or have columns and indexes in a
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
//!     Ok(true)                                           // dropping a transaction without a commit rolls it back
//! }
//!
//! let taken = loop {
//!     match take(&session, &stock, b"apples", 30) {
//!         Err(error) if error.is_retryable() => {}       // a conflict: retry
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
//! - **Durability** is configured for the database: a commit survives a power cut, or, faster, only the end of the
//!   process ([`EngineConfig::flush_log_at_trx_commit`]). [`db`] says what is atomic and durable, operation by
//!   operation.
//! - **Errors**: retry the whole transaction if [`Error::is_retryable`]. Admission returns [`Error::Refused`] if its
//!   configuration limits the queue or the time in it. After [`Error::Stopped`] (a disk failed), close the database,
//!   fix the cause, and open it again.
//! - **Admission policy.** The default policy is made for connections: its time slice of 50 us is short for threads
//!   that call the engine in a loop. For these, use `Policy::Flifo`, as above, or a
//!   [`quantum`](flifo_admission::Config::quantum) of a millisecond.
//! - **fork(2).** A child cannot use its parent's open database: each operation, close included, returns
//!   [`Error::Forked`] there. A handle that is dropped in the child touches no file, lock or thread, and the parent
//!   continues. A child may open databases of its own, best after exec(2). Until the child ends or calls exec, it has
//!   the parent's files open. If the parent is killed before that, the database stays in use.
//! - **Limits.** A value has at most 256 MiB, in a table less its key and 37 bytes. A key has at most 3,976 bytes
//!   (1,928 on pages of 8 KiB, 904 on pages of 4 KiB), plus up to 39 with the shortest values; a key of a typed table
//!   or an index at most 3,072. A typed table has at most 16 columns in a key, 64 indexes, and a definition of 4,032
//!   bytes (1,984; 960). The definition needs 23 bytes, the table's name and 3 for each column of the primary key; 3
//!   for each column, its name and its default; 12 for each index, its name and 3 for each of its columns. So with
//!   names of ten bytes and no index a table has at most 308 columns (150; 71). A larger definition is
//!   [`Error::SchemaTooLarge`].
//! - **Backup**: copy all files of a database while it is closed. A copy made while it is open is unusable: its files
//!   are not consistent.
//!
//! # Callbacks
//! A scan calls a closure for each row. During the call the thread holds the scan's slot, but no latch. Inside the
//! closure:
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
//! - A thread holds at most one slot of an admission, however many sessions it uses, and never waits for itself. The
//!   same holds for a [`Statement`] and another session on one thread.
//! - Many statements of another session use up the slot's tickets. Then the thread queues, as in a long scan.
//! - A callback that lost its slot to the stall rule counts in [`EngineStats::stalled_callbacks`]; the first one is a
//!   warning in the `log` facade. The session's next 64 callbacks run without a slot, so that other sessions do not
//!   wait for the stall limit each time.
//! - Without a stall limit, nothing bounds an undeclared wait, and another session's operations enter by force.
//!
//! See `engine/examples`: `bank` (typed tables, many writers of the same rows), `queue` (jobs done once each, by
//! transactions that fail), `time_series` (measurements appended in order, old ones removed).
//!
//! # Modules
//! From top to bottom; a lower module does not use a higher one:
//! - [`db`]: the API. Databases, sessions, statements, transactions, typed tables, the catalog.
//! - [`txn`]: transactions. Versions, snapshots, undo, purge.
//! - [`tree`]: B+trees with many readers and writers at a time. [`space`]: free pages.
//! - [`lock`]: row locks and deadlocks, by keys and owners' ids alone.
//! - [`buffer`]: pages in memory, their latches, replacement, page cleaners, recovery. [`page`]: a page's bytes.
//! - [`redo`]: the log of all changes.
//! - [`disk`]: files, and a simulated disk.
//!
//! Used by all of them: [`row`], typed keys, rows and schemas as bytes, which uses no other module; [`metrics`], time
//! waited per reason; and [`Waiter`], through which every thread waits.
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
pub use buffer::{FlushMode, FlushStats, PoolStats, RecoveryProgress};
pub use db::{
    AtRest, CheckProgress, CheckReport, Database, EngineConfig, EngineStats, Finding, FlushLog, LiveStats,
    NextOpen, PagePlace, Rows, Savepoint, Session, Statement, Table, Transaction, Tree, TreeKind, TreeReport,
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
