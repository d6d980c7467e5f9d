//! Transactions: many writers, snapshots, row locks, rollback.
//!
//! # Versions
//! The newest version of a row lies in its tree, with the id of the transaction that wrote it and the place of its undo
//! record, which has the version before (`version`, `undo`). A reader goes back from version to version until it
//! finds one that its snapshot sees (`read`). A snapshot is the number of the last commit: one atomic load (`table`); one
//! that is held for long becomes a read view (`evicted`).
//!
//! # Writing
//! A transaction gets an id at its first write. While it is active, its id in a row is its exclusive lock; who runs into
//! one writes it down as a lock object and queues (`write`, [`crate::lock`]). The row is changed in one mini-transaction
//! under its leaf's latch, if it is as it was when its undo record was written; if not, all begins again. Nothing is
//! waited for meanwhile. A large value is copied: an update writes the version before once more, as undo, before the new
//! one; what is compared under the latch is the version's header, which lies in the leaf.
//!
//! # Unique indexes
//! An index is a tree of versioned entries; what may be there once is locked in a name space of its own while its entries
//! are looked at (`unique`). A bulk load writes versions of a transaction that every snapshot sees (`load`).
//!
//! # The end
//! A commit appends a record to the transaction's undo segment, becomes visible, and lets go of the locks; then it waits
//! until the redo log is durable up to there. So locks are not held during a sync, as in InnoDB: what a transaction
//! reads may be lost by a crash, but only together with all that came after it. A rollback puts the versions before in
//! place again, newest first.
//!
//! # Isolation
//! *Read committed*: each operation has a snapshot of its own; writes see the newest committed version. *Repeatable
//! read*: one snapshot, taken by the first operation; a write to a row that was changed since is
//! [`Error::WriteConflict`](crate::Error) (first updater wins). That is snapshot isolation: it allows write skew, and
//! no phantoms. *Serializable*: reads lock what they see, and the gaps between, to the end of the transaction
//! (`locking`); two-phase locking, in which readers and writers wait for each other.
//!
//! # Purge and recovery
//! A background task removes what no snapshot can ask for any more: undo records, and rows whose newest version is a
//! deletion (`purge`). After a crash it first rolls back what was not committed; meanwhile those transactions are
//! active, so their rows are locked and invisible (`system`).

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

/// What a transaction sees of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Each operation sees what had committed when it began; one that asks for a row that has been deleted and purged since
    /// finds none.
    ReadCommitted,
    /// All operations see what had committed when the first of them began. Writing a row that was changed since is
    /// [`Error::WriteConflict`](crate::Error).
    #[default]
    RepeatableRead,
    /// As if the transactions had run one after the other. Reads see the newest committed versions, and lock the rows that
    /// they see, and for scans the gaps between them, to the end: nobody changes them meanwhile. Readers wait for
    /// writers, and writers for readers; expect [`Error::Deadlock`](crate::Error) where both do both. Transactions of the
    /// other levels beside it keep what their own level promises.
    Serializable,
}

/// What transactions did since the database was opened, and how much history there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxnStats {
    /// Transactions that have written, or locked rows, and not ended.
    pub active: u64,
    /// Commits of transactions that had written.
    pub commits: u64,
    /// Rollbacks of transactions that had written, those of recovery included.
    pub rollbacks: u64,
    /// Undo records that are not purged: what a DBA knows as the history list's length. It grows while a snapshot is
    /// held, or a transaction stays open, or when purge does not keep up.
    pub history: u64,
    /// Undo records purged.
    pub purged: u64,
}
