//! Transactions for embedders.

use std::ops::{Bound, ControlFlow};

use super::tree::OpenTree;
use super::{Session, Statement, Table};
use crate::error::Result;
use crate::lock::LockMode;
use crate::process::ProcessOwned;
use crate::slot::Entered;
use crate::txn::{Change, Isolation, Txn};

/// A transaction: all its changes take effect at its commit, for all sessions, or not at all.
///
/// Each operation enters admission and exits at its end, unless a [`Transaction::statement`], or the operation whose
/// callback calls it, already holds the slot. While the transaction holds row locks, its session has priority in the
/// queue. A commit or a rollback enters by force. Dropping the transaction without a commit rolls it back.
///
/// ```
/// # use flifo_admission::{Admission, Config};
/// # use flifo_engine::{Database, EngineConfig, Error, Isolation};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::create(dir.path(), EngineConfig::default())?;
/// # let admission = Admission::new(Config::default())?;
/// let accounts = db.create_table("accounts")?;
/// let session = db.session(&admission);
///
/// let mut opening = session.begin(Isolation::RepeatableRead);
/// opening.insert(&accounts, b"alice", b"100")?;
/// opening.insert(&accounts, b"bob", b"20")?;
/// opening.commit()?;                                       // durable, and seen by others
///
/// let mut transfer = session.begin(Isolation::RepeatableRead);
/// transfer.update(&accounts, b"alice", b"70")?;
/// transfer.update(&accounts, b"bob", b"50")?;
/// transfer.rollback()?;                                    // as if it had never been
///
/// let mut value = Vec::new();
/// assert!(session.begin(Isolation::ReadCommitted).get(&accounts, b"alice", &mut value)?);
/// assert_eq!(value, b"100");
/// # Ok(())
/// # }
/// ```
pub struct Transaction<'a> {
    session: &'a Session,
    txn: ProcessOwned<Txn<'a>>,
    /// The session counts this transaction as a lock holder.
    holds_locks: bool,
}

/// A point within a transaction to roll back to; the default is its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Savepoint(crate::txn::Savepoint);

impl Session {
    /// Begins a transaction. It costs nothing until its first operation.
    pub fn begin(&self, isolation: Isolation) -> Transaction<'_> {
        let txn = Txn::begin(self.database().txns(), isolation, self.lane());
        let txn = ProcessOwned::new(self.database().process(), txn);
        Transaction { session: self, txn, holds_locks: false }
    }
}

impl<'a> Transaction<'a> {
    /// Holds one slot for all operations until the returned guard is dropped, as a server does for a statement that
    /// consists of several operations. Each operation takes a ticket of this slot, and so does each row of a scan.
    ///
    /// If many transactions change the same rows, and none waits for anything outside the database, consider one
    /// statement for the whole transaction. With one per operation, the transaction is sometimes without a slot while
    /// it holds locks, and other sessions enter only to wait for these locks.
    ///
    /// ```
    /// # use flifo_engine::{Isolation, Result, Session, Table};
    /// fn withdraw(session: &Session, accounts: &Table, account: &[u8], amount: u64) -> Result<bool> {
    ///     let mut txn = session.begin(Isolation::ReadCommitted);
    ///     let _statement = txn.statement()?;
    ///     let mut balance = Vec::new();
    ///     txn.get_for_update(accounts, account, &mut balance)?;
    ///     let had = <[u8; 8]>::try_from(&*balance).map_or(0, u64::from_be_bytes);
    ///     let Some(left) = had.checked_sub(amount) else { return Ok(false) };
    ///     txn.update(accounts, account, &left.to_be_bytes())?;
    ///     txn.commit()?;
    ///     Ok(true)
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Session::statement`].
    pub fn statement(&self) -> Result<Statement<'a>> {
        self.session.statement()
    }

    /// Puts the value of `key` into `value`; false (and `value` empty) if there is no such row for this transaction.
    pub fn get(&mut self, table: &Table, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read_in(&table.open, |txn, tree, waiter| txn.get(tree, key, value, waiter))
    }

    /// As [`Transaction::get`], but reads the newest committed version and locks the row until the end of the
    /// transaction, whether the row exists or not.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn get_for_update(&mut self, table: &Table, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.write_in(&table.open, |txn, tree, waiter| {
            txn.get_locked(tree, key, LockMode::Exclusive, value, waiter)
        })
    }

    /// As [`Transaction::get_for_update`], with a shared lock: other transactions can read and share-lock the row, but
    /// not change it.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn get_for_share(&mut self, table: &Table, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.write_in(&table.open, |txn, tree, waiter| {
            txn.get_locked(tree, key, LockMode::Shared, value, waiter)
        })
    }

    /// Calls `each` with every row from `from` to `to` that this transaction sees, ascending, until it returns
    /// [`ControlFlow::Break`]. No latch is held during `each`.
    pub fn scan(
        &mut self,
        table: &Table,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.read_in(&table.open, |txn, tree, waiter| txn.scan(tree, from, to, waiter, each))
    }

    /// Adds a row; false if a row with that key exists.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn insert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(table, key, Change::Insert(value)).map(|found| !found)
    }

    /// Replaces the value of a row; false if no row has that key. Waits if another transaction has the row locked.
    ///
    /// # Errors
    /// [`Error::WriteConflict`](crate::Error) under repeatable read, if another transaction has changed the row since
    /// the snapshot. [`Error::Deadlock`](crate::Error), after which the transaction is rolled back.
    /// [`Error::LockWaitTimeout`](crate::Error), and disk errors.
    pub fn update(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(table, key, Change::Update(value))
    }

    /// Adds a row or replaces its value; true if it was added.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn upsert(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<bool> {
        self.change(table, key, Change::Upsert(value)).map(|found| !found)
    }

    /// Removes a row; false if no row has that key.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool> {
        self.change(table, key, Change::Delete)
    }

    /// Returns a point to roll back to with [`Transaction::rollback_to`].
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.txn.savepoint())
    }

    /// Undoes the changes after the savepoint. The transaction continues, and keeps the locks that it waited for.
    ///
    /// # Errors
    /// [`Error::UnknownSavepoint`](crate::Error) if the savepoint is another transaction's, or an earlier rollback went
    /// back beyond it. After a disk error the whole transaction is rolled back, now or soon.
    /// [`Error::Refused`](crate::Error) only if the transaction has neither changed nor locked anything, so that there
    /// is nothing to undo.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let _entered = self.enter_to_end()?;
        let undone = self.txn.rollback_to(savepoint.0, self.session.waiter());
        // After an error it has ended, perhaps.
        self.note_locks();
        undone
    }

    /// Makes all changes visible to other sessions, and then as durable as the configuration says. After an error the
    /// transaction is rolled back, or in doubt until the database is opened again ([`Error::Stopped`](crate::Error)).
    /// Admission refuses only a transaction that has neither changed nor locked anything.
    pub fn commit(mut self) -> Result<()> {
        let _entered = self.enter_to_end()?;
        let (database, waiter) = (self.session.database(), self.session.waiter());
        let wrote = self.txn.commit(waiter)?;
        self.note_locks();
        match wrote {
            true => database.make_durable(waiter),
            false => Ok(()),
        }
    }

    /// Undoes all changes. Admission never refuses a rollback.
    pub fn rollback(mut self) -> Result<()> {
        self.undo_all()
    }

    pub(super) fn prepare_in_place(&mut self, xid: &[u8]) -> Result<bool> {
        let _entered = self.enter_to_end()?;
        let (database, waiter) = (self.session.database(), self.session.waiter());
        let prepared = self.txn.prepare(xid, waiter, || database.sync(waiter));
        self.note_locks();
        prepared
    }

    fn undo_all(&mut self) -> Result<()> {
        self.session.database().check_process()?;
        // What has neither changed nor locked anything has nothing to undo.
        let _entered = self.txn.has_written().then(|| self.session.enter_forced()).transpose()?;
        let undone = self.txn.rollback(self.session.waiter());
        // Also after a failure: the rest of the rollback is not this session's work.
        self.note_locks_as(false);
        undone
    }

    /// Enters to end the transaction, or to undo a part of it. If it holds locks, it neither queues for that nor is
    /// refused: other transactions wait for it, or soon will, and little work is left.
    fn enter_to_end(&self) -> Result<Option<Entered<'a>>> {
        match self.txn.has_written() {
            true => self.session.enter_forced(),
            false => self.session.enter(),
        }
    }

    /// Updates whether the session counts as a lock holder.
    fn note_locks(&mut self) {
        self.note_locks_as(self.txn.has_written());
    }

    fn note_locks_as(&mut self, holds: bool) {
        self.session.note_locks(std::mem::replace(&mut self.holds_locks, holds), holds);
    }

    fn change(&mut self, table: &Table, key: &[u8], change: Change<'_>) -> Result<bool> {
        self.write_in(&table.open, |txn, tree, waiter| txn.change(tree, key, change, waiter))
    }

    pub(super) fn session(&self) -> &'a Session {
        self.session
    }

    /// Reads a table's tree, under admission.
    pub(super) fn read_in<T>(
        &mut self,
        open: &OpenTree,
        f: impl FnOnce(&mut Txn<'a>, &crate::tree::Tree, &crate::Waiter) -> Result<T>,
    ) -> Result<T> {
        let session = self.session;
        let _entered = session.enter()?;
        let tree = session.database().check_handle(open)?;
        let done = f(&mut self.txn, tree, session.waiter());
        // Under serializable it has locks now, or none any more after a deadlock.
        self.note_locks();
        done
    }

    /// Changes a table's tree, or locks rows in it, under admission.
    pub(super) fn write_in<T>(
        &mut self,
        open: &OpenTree,
        f: impl FnOnce(&mut Txn<'a>, &crate::tree::Tree, &crate::Waiter) -> Result<T>,
    ) -> Result<T> {
        let session = self.session;
        let (database, waiter) = (session.database(), session.waiter());
        let _entered = session.enter()?;
        let holds_locks = self.txn.has_written();
        database.admit_change(holds_locks, waiter);
        if !holds_locks {
            database.txns().help_purge(waiter);
        }
        let tree = database.check_handle(open)?;
        let done = f(&mut self.txn, tree, waiter);
        // As it leaves.
        self.note_locks();
        done
    }
}

impl Drop for Transaction<'_> {
    /// As [`Transaction::rollback`]. What cannot be undone now, since the disk failed, purge's thread tries again, and
    /// recovery at last. In a forked child nothing is done.
    fn drop(&mut self) {
        if !self.txn.is_here() {
            return;
        }
        if !self.txn.has_ended() {
            let _ = self.undo_all();
        }
        if self.holds_locks {
            self.note_locks_as(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flifo_admission::{Admission, Class, Config};

    use super::*;
    use crate::db::{Database, EngineConfig};
    use crate::disk::MemoryDisk;

    /// Else a thousand that wait for a hot row would leave no free segment for those that run.
    #[test]
    fn who_waits_for_its_first_row_uses_no_rollback_segment() {
        let config = EngineConfig { buffer_pool_bytes: 4 << 20, ..EngineConfig::default() };
        let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
        let table = db.create_table("t").unwrap();
        let admission = Admission::new(Config::default()).unwrap();
        let (session, other) = (db.session(&admission), db.session(&admission));
        let users = || session.database().txns().segment_users();
        let mut holder = session.begin(Isolation::ReadCommitted);
        holder.insert(&table, b"row", b"1").unwrap();
        assert_eq!(users(), 1);
        std::thread::scope(|scope| {
            let table = &table;
            let waiter = scope.spawn(move || {
                let mut txn = other.begin(Isolation::ReadCommitted);
                txn.update(table, b"row", b"2").unwrap();
                txn.commit().unwrap();
            });
            while db.stats().locks.waiting == 0 {
                std::thread::yield_now();
            }
            assert_eq!(users(), 1);
            holder.commit().unwrap();
            waiter.join().unwrap();
        });
        assert_eq!(users(), 0);
    }

    /// Else every later statement of the session would go before others, and the others make room for it.
    #[test]
    fn a_session_is_of_the_first_class_while_its_transaction_holds_locks() {
        let config = EngineConfig { buffer_pool_bytes: 4 << 20, ..EngineConfig::default() };
        let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
        let (table, another) = (db.create_table("t").unwrap(), db.create_table("another").unwrap());
        let admission = Admission::new(Config::default()).unwrap();
        let session = db.session(&admission);
        let class = || session.waiter().admission().unwrap().class();
        let begin = |key: &[u8]| {
            let mut txn = session.begin(Isolation::ReadCommitted);
            txn.upsert(&table, key, b"1").unwrap();
            assert_eq!(class(), Class::First);
            txn
        };
        begin(b"a").commit().unwrap();
        assert_eq!(class(), Class::Normal, "commit");
        begin(b"a").rollback().unwrap();
        assert_eq!(class(), Class::Normal, "rollback");
        drop(begin(b"a"));
        assert_eq!(class(), Class::Normal, "drop");
        let mut txn = begin(b"a");
        txn.rollback_to(Savepoint::default()).unwrap();
        assert_eq!(class(), Class::First, "back to the beginning, its locks stay");
        drop(txn);
        for xid in [b"x", b"y"] {
            begin(xid).prepare(xid).unwrap();
            assert_eq!(class(), Class::Normal, "prepare");
        }
        begin(b"a").prepare(b"x").unwrap_err();
        assert_eq!(class(), Class::Normal, "prepare, refused");
        session.commit_prepared(b"x").unwrap();
        assert_eq!(class(), Class::Normal, "commit by XID");
        session.rollback_prepared(b"y").unwrap();
        assert_eq!(class(), Class::Normal, "rollback by XID");
        session.commit_prepared(b"z").unwrap_err();
        assert_eq!(class(), Class::Normal, "an unknown XID");
        let mut txn = session.begin(Isolation::Serializable);
        assert!(txn.get(&table, b"a", &mut Vec::new()).unwrap());
        assert_eq!(class(), Class::First, "a read that locks");
        txn.commit().unwrap();
        assert_eq!(class(), Class::Normal);
        let mut txn = session.begin(Isolation::Serializable);
        txn.scan(&table, Bound::Unbounded, Bound::Unbounded, |_, _| {
            assert_eq!(class(), Class::First, "a scan that has locked a row");
            ControlFlow::Continue(())
        })
        .unwrap();
        let mut other = session.begin(Isolation::RepeatableRead);
        assert!(!other.get(&table, b"c", &mut Vec::new()).unwrap());
        assert!(other.insert(&another, b"c", b"1").unwrap());
        other.commit().unwrap();
        assert_eq!(class(), Class::First, "another transaction of the session holds locks");
        drop(txn);
        assert_eq!(class(), Class::Normal);
    }
}
