//! Two-phase commit for embedders: the part of a resource manager (X/Open XA).

use super::{Database, Session, Transaction};
use crate::error::Result;
use crate::txn::TxnSystem;
use crate::wait::Waiter;

impl Transaction<'_> {
    /// Prepares the transaction under a global id (XID) of 1 to 128 bytes, which no other prepared transaction has.
    /// From now on any session can commit it or roll it back by its XID alone, even after a crash; it holds its rows
    /// until then. Returns false if the transaction has written nothing: it has ended, and needs no second phase.
    ///
    /// The prepared state is durable, regardless of the durability configured for commits. Purge and the dropping of
    /// tables wait for prepared transactions as for all others. A crash loses the locks of rows that were only read, as
    /// in InnoDB.
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
    /// [`Error::XidExists`](crate::Error), after which the transaction is rolled back. After a disk error the
    /// transaction may or may not be prepared; [`Database::prepared`] shows which after the next open.
    pub fn prepare(mut self, xid: &[u8]) -> Result<bool> {
        self.prepare_in_place(xid)
    }
}

impl Session {
    /// Commits the transaction that was prepared under that XID. The commit survives a power cut when this returns,
    /// regardless of the durability configured for commits, so the coordinator may forget the XID.
    ///
    /// # Errors
    /// [`Error::UnknownXid`](crate::Error), and disk errors.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<()> {
        self.finish_prepared(|txns, waiter| txns.commit_prepared(xid, waiter))
    }

    /// Undoes all changes of the transaction that was prepared under that XID. The rollback survives a power cut when
    /// this returns.
    ///
    /// # Errors
    /// As [`Session::commit_prepared`]. A rollback that fails after it has begun, on a full disk for example, is
    /// finished in the background as soon as possible. The transaction cannot be committed any more.
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<()> {
        self.finish_prepared(|txns, waiter| txns.rollback_prepared(xid, waiter))
    }

    /// Enters by force and runs `finish`: running sessions may wait for the rows that the prepared transaction holds.
    fn finish_prepared(&self, finish: impl FnOnce(&TxnSystem, &Waiter) -> Result<()>) -> Result<()> {
        let _entered = self.enter_forced()?;
        let (database, waiter) = (self.database(), self.waiter());
        let finished = database.check_open().and_then(|()| finish(database.txns(), waiter));
        // Before the sync, which only this session waits for.
        self.settle_class();
        finished?;
        database.sync(waiter)
    }
}

impl Database {
    /// The XIDs of all transactions that are prepared and not finished, ascending. After a crash, the coordinator reads
    /// this list and decides.
    pub fn prepared(&self) -> Result<Vec<Vec<u8>>> {
        self.inner().check_open()?;
        Ok(self.inner().txns().prepared())
    }
}
