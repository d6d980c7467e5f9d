//! Two-phase commit: any session can commit or roll back a prepared transaction by its global id (XID) alone, even
//! after a crash.
//!
//! The undo segment gets a record with the XID. Recovery keeps transactions with such a record active: their ids in the
//! rows that they have written are their locks. Lock objects (of rows that were only read) end with the process.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard};

use flifo_base::lock;

use super::system::Unfinished;
use super::undo::Record;
use super::{Txn, TxnSystem};
use crate::error::{Error, Result};
use crate::wait::Waiter;

/// Maximum bytes of an XID: both parts of X/Open's, as in MySQL and MariaDB.
pub const XID_BYTES_MAX: usize = 128;

/// The prepared transactions of a database, by XID. `None`: a thread is finishing it.
#[derive(Default)]
pub(super) struct Prepared(Mutex<BTreeMap<Vec<u8>, Option<Unfinished>>>);

impl Prepared {
    pub(super) fn new(found: impl IntoIterator<Item = (Vec<u8>, Unfinished)>) -> Self {
        Prepared(Mutex::new(found.into_iter().map(|(xid, unfinished)| (xid, Some(unfinished))).collect()))
    }

    fn map(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Option<Unfinished>>> {
        lock(&self.0)
    }

    /// Reserves the XID for this transaction.
    fn reserve(&self, xid: &[u8]) -> Result<()> {
        match xid.len() {
            1..=XID_BYTES_MAX => {}
            size => return Err(Error::BadName { what: "prepared transaction's", size, max: XID_BYTES_MAX }),
        }
        let mut map = self.map();
        if map.contains_key(xid) {
            return Err(Error::XidExists { xid: xid.escape_ascii().to_string() });
        }
        map.insert(xid.to_vec(), None);
        Ok(())
    }

    fn put(&self, xid: &[u8], unfinished: Unfinished) {
        self.map().insert(xid.to_vec(), Some(unfinished));
    }

    fn take(&self, xid: &[u8]) -> Result<Unfinished> {
        let taken = self.map().get_mut(xid).and_then(Option::take);
        taken.ok_or_else(|| Error::UnknownXid { xid: xid.escape_ascii().to_string() })
    }

    fn forget(&self, xid: &[u8]) {
        self.map().remove(xid);
    }

    fn xids(&self) -> Vec<Vec<u8>> {
        let ready = |(xid, unfinished): (&Vec<u8>, &Option<_>)| unfinished.is_some().then(|| xid.clone());
        self.map().iter().filter_map(ready).collect()
    }
}

impl Txn<'_> {
    /// Prepares the transaction and ends its session's use; false if it has written nothing, and has simply ended. It
    /// is prepared once the redo log is durable up to its present end: `make_durable` runs before other sessions may
    /// finish it.
    pub(crate) fn prepare(
        &mut self,
        xid: &[u8],
        waiter: &Waiter,
        make_durable: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        self.check_active()?;
        let system = self.system;
        system.prepared.reserve(xid)?;
        let Some(writing) = self.writing.as_mut().filter(|writing| !writing.undo.is_empty()) else {
            system.prepared.forget(xid);
            self.end();
            return Ok(false);
        };
        let record = Record::prepared(writing.id, xid);
        match writing.append(system, &record, waiter) {
            Ok(undo) => writing.undo.push(undo),
            Err(error) => {
                system.prepared.forget(xid);
                return Err(error);
            }
        }
        // From here on it may be on disk, so it is not rolled back, whatever comes.
        let durable = make_durable();
        system.prepared.put(xid, self.detach());
        durable.map(|()| true)
    }
}

impl TxnSystem {
    /// XIDs of the transactions that are prepared, ascending.
    pub(crate) fn prepared(&self) -> Vec<Vec<u8>> {
        self.prepared.xids()
    }

    /// Commits a prepared transaction. As with [`Txn::commit`], it is durable when the redo log is. After an error it is prepared
    /// as before.
    pub(crate) fn commit_prepared(&self, xid: &[u8], waiter: &Waiter) -> Result<()> {
        let unfinished = self.prepared.take(xid)?;
        if let Err(error) = self.append_commit(&unfinished, waiter) {
            self.prepared.put(xid, unfinished);
            return Err(error);
        }
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.end_prepared(xid, unfinished);
        Ok(())
    }

    fn append_commit(&self, unfinished: &Unfinished, waiter: &Waiter) -> Result<()> {
        let last = unfinished
            .undo
            .last()
            .ok_or_else(|| Error::CorruptUndo { what: "a prepared transaction has no records".to_owned() })?;
        let commit = Record::commit(unfinished.txn);
        self.segment(*last)?.append(&commit, &mut Vec::new(), waiter).map(drop)
    }

    /// Rolls a prepared transaction back. If that fails after it has begun, purge's thread continues; the rest cannot
    /// be committed any more.
    pub(crate) fn rollback_prepared(&self, xid: &[u8], waiter: &Waiter) -> Result<()> {
        let mut unfinished = self.prepared.take(xid)?;
        let records = unfinished.undo.len();
        // The newest record says that it is prepared. A crash from here on leaves one to be rolled back by recovery.
        if let Err(error) = self.undo_all(&mut unfinished, waiter) {
            match unfinished.undo.len() == records {
                true => self.prepared.put(xid, unfinished),
                false => {
                    self.leave_unfinished(unfinished);
                    self.prepared.forget(xid);
                }
            }
            return Err(error);
        }
        self.end_prepared(xid, unfinished);
        Ok(())
    }

    fn end_prepared(&self, xid: &[u8], unfinished: Unfinished) {
        self.end_unfinished(unfinished);
        self.prepared.forget(xid);
    }
}
