//! Transactions: many writers, snapshots, row locks, rollback.
//!
//! # Versions
//! The newest version of a row lies in its tree, with the id of the transaction that wrote it and a pointer to its undo
//! record, which has the previous version (`version`, `undo`). A reader goes back from version to version until it
//! finds one that its snapshot sees (`read`). A snapshot is the number of the last commit: one atomic load (`table`). A
//! snapshot that is held for long becomes a read view (`evicted`).
//!
//! # Writing
//! A transaction gets an id at its first write. While it is active, its id in a row is its exclusive lock. Another
//! transaction that meets the id converts it to a lock object and queues (`write`, [`crate::lock`]). The row is changed
//! in one mini-transaction under its leaf's latch, if it has not changed since its undo record was written; otherwise
//! the write starts over. The mini-transaction waits for nothing. A large value is copied: an update first writes the
//! previous version as undo, then the new one. Under the latch, it compares the version's header, which lies in the
//! leaf.
//!
//! # Unique indexes
//! An index is a tree of versioned entries. Unique values are locked in a separate name space while the entries are
//! read (`unique`). A bulk load writes versions of a transaction that every snapshot sees (`load`).
//!
//! # The end
//! A commit appends a record to the transaction's undo segment, becomes visible, and releases the locks. Then it waits
//! until the redo log is durable up to there. So locks are not held during a sync, as in InnoDB: a crash may lose data
//! that another transaction has read, but only together with all later changes. A rollback restores the previous
//! versions, newest first.
//!
//! # Isolation
//! *Read committed*: each operation has its own snapshot; writes see the newest committed version. *Repeatable read*:
//! one snapshot, taken by the first operation; a write to a row that was changed since is
//! [`Error::WriteConflict`](crate::Error) (first updater wins). That is snapshot isolation: it allows write skew, and
//! no phantoms. *Serializable*: reads lock the rows that they see, and the gaps between them, until the end of the
//! transaction (`locking`); two-phase locking, in which readers and writers wait for each other.
//!
//! # Purge and recovery
//! A background task removes what no snapshot needs: undo records, and rows whose newest version is a deletion
//! (`purge`). After a crash it first rolls back uncommitted transactions. Until then they are active, so their rows are
//! locked and invisible (`system`).

mod check;
mod evicted;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzz;
mod load;
mod locking;
mod lookup;
mod modify;
mod prepared;
mod purge;
mod read;
mod segments;
mod snapshot_read;
mod system;
mod table;
mod transaction;
mod undo;
mod unique;
mod version;
mod write;

pub use crate::lock::TxnId;
pub(crate) use check::History;
pub(crate) use load::{load_versions, scan_committed};
pub(crate) use lookup::Lookup;
pub(crate) use modify::Next;
pub use prepared::XID_BYTES_MAX;
pub(crate) use purge::Purger;
pub(crate) use snapshot_read::{HeldSnapshot, SnapshotRead};
pub(crate) use system::{SystemConfig, TxnSystem};
pub(crate) use transaction::{Savepoint, Txn};
pub(crate) use version::live_value;
pub(crate) use write::Change;

/// The isolation level: what a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each operation sees what had committed when it began; a read of a row that has been deleted and purged since
    /// finds none.
    ReadCommitted,
    /// All operations see what had committed when the first of them began. Writing a row that was changed since is
    /// [`Error::WriteConflict`](crate::Error).
    #[default]
    RepeatableRead,
    /// As if the transactions had run one after the other. Reads see the newest committed versions, and lock the rows
    /// that they see, and for scans the gaps between them, until the end of the transaction. Readers wait for writers,
    /// and writers for readers; expect [`Error::Deadlock`](crate::Error) where transactions read and then write.
    /// Concurrent transactions of other levels keep the guarantees of their own level.
    Serializable,
}

/// Counters of transactions since the database was opened, and the length of the history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxnStats {
    /// Active transactions that have written or locked rows.
    pub active: u64,
    /// Commits of transactions that had written.
    pub commits: u64,
    /// Rollbacks of transactions that had written, including those of recovery.
    pub rollbacks: u64,
    /// Undo records that are not purged: InnoDB's history list length. It grows while a snapshot is held, while a
    /// transaction stays open, or when purge does not keep up.
    pub history: u64,
    /// Undo records purged.
    pub purged: u64,
}
