//! Two-phase commit, as its users see it: the part of a resource manager (X/Open XA).

use super::{Database, Session, Transaction};
use crate::error::Result;
use crate::txn::TxnSystem;
use crate::wait::Waiter;

impl Transaction<'_> {
    /// Prepares the transaction under a global id (XID) of 1 to 128 bytes that no other prepared one has: from here on
    /// it can be committed and rolled back by the XID alone, in any session, even after a crash, and holds its rows until
    /// then. False if it has written nothing: it has simply ended, and there is nothing to be finished.
    ///
    /// It is prepared durably, whatever the configuration says of commits. Purge, and dropping tables, wait for prepared
    /// transactions as for all others. Locks of rows that it has only read are lost in a crash, as in InnoDB.
    ///
    /// ```
    /// # use flifo_admission::{Admission, Config};
    /// # use flifo_engine::{Database, EngineConfig, Isolation};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let db = Database::create(dir.path(), EngineConfig::default())?;
    /// let session = db.session(&Admission::new(Config::default())?);
    /// let orders = db.create_table("orders")?;
    ///
    /// let mut txn = session.begin(Isolation::ReadCommitted);
    /// txn.insert(&orders, b"17", b"two apples")?;
    /// txn.prepare(b"order 17")?;
    /// db.close()?;                                             // or a crash
    ///
    /// let db = Database::open(dir.path(), EngineConfig::default())?;
    /// let session = db.session(&Admission::new(Config::default())?);
    /// assert_eq!(db.prepared()?, [b"order 17"]);
    /// session.commit_prepared(b"order 17")?;                   // the coordinator's decision
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::XidExists`](crate::Error), and the transaction is rolled back. Those of the disk: it may be prepared or
    /// not, as [`Database::prepared`] shows after the next open.
    pub fn prepare(mut self, xid: &[u8]) -> Result<bool> {
        self.prepare_in_place(xid)
    }
}

impl Session {
    /// Commits the transaction that was prepared under that XID. When it returns, that survives a power cut, whatever the
    /// configuration says of commits: the coordinator may forget the XID.
    ///
    /// # Errors
    /// [`Error::UnknownXid`](crate::Error). Those of the disk.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<()> {
        self.finish_prepared(|txns, waiter| txns.commit_prepared(xid, waiter))
    }

    /// Undoes all changes of the transaction that was prepared under that XID. That survives a power cut when it returns.
    ///
    /// # Errors
    /// As [`Session::commit_prepared`]. If it has begun, on a disk that is full by now, say, it is brought to its end in the
    /// background, as soon as that can be, and nobody can commit what is left.
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<()> {
        self.finish_prepared(|txns, waiter| txns.rollback_prepared(xid, waiter))
    }

    /// Enters by force and runs `finish`: running sessions may wait for the rows that the prepared transaction holds.
    fn finish_prepared(&self, finish: impl FnOnce(&TxnSystem, &Waiter) -> Result<()>) -> Result<()> {
        let _entered = self.enter_forced()?;
        let (database, waiter) = (self.database(), self.waiter());
        let finished = database.check_open().and_then(|()| finish(database.txns(), waiter));
        // Before the sync, which nobody waits for but this session.
        self.settle_class();
        finished?;
        database.sync(waiter)
    }
}

impl Database {
    /// The XIDs of all transactions that are prepared and not finished, ascending. After a crash their coordinator
    /// asks for them, and decides.
    pub fn prepared(&self) -> Result<Vec<Vec<u8>>> {
        self.inner().check_open()?;
        Ok(self.inner().txns().prepared())
    }
}
