//! Writing: locks, the undo record, the new version.

use super::read::bad_version;
use super::table::CommitNo;
use super::undo::{OVERHEAD_BYTES, Record, What};
use super::version::{HEADER_BYTES, Header};
use super::{Isolation, Txn, TxnId};
use crate::error::{Error, Result};
use crate::lock::{Class, LockError, LockKey, LockMode, Request};
use crate::tree::Tree;
use crate::wait::Waiter;

/// What to do with a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'v> {
    /// Add it, if it is not there.
    Insert(&'v [u8]),
    /// Replace its value, if it is there.
    Update(&'v [u8]),
    /// Either.
    Upsert(&'v [u8]),
    /// Remove it, if it is there.
    Delete,
}

/// The most bytes that key and value of a row may have together, in a tree whose entries have at most `entry_max`: the
/// version before must fit an undo record.
pub(crate) fn row_bytes_max(entry_max: usize) -> usize {
    entry_max - HEADER_BYTES - OVERHEAD_BYTES
}

/// The newest version of a row, which this transaction may write: nobody else does.
struct Newest {
    bytes: Option<Vec<u8>>,
    header: Option<Header>,
}

impl Newest {
    fn is_live(&self) -> bool {
        self.header.is_some_and(|header| !header.deleted)
    }
}

impl<'s> Txn<'s> {
    /// Changes a row; whether it was there before. If that is not what the change is for, nothing is changed.
    pub(crate) fn change(
        &mut self,
        tree: &Tree,
        key: &[u8],
        change: Change<'_>,
        waiter: &Waiter,
    ) -> Result<bool> {
        self.check_active()?;
        let value = match change {
            Change::Insert(value) | Change::Update(value) | Change::Upsert(value) => value,
            Change::Delete => &[],
        };
        let (size, max) = (key.len() + value.len(), row_bytes_max(tree.row_bytes_max()));
        if size > max {
            return Err(Error::EntryTooLarge { size, max });
        }
        self.ended_by_deadlock(waiter, |txn| txn.try_change(tree, key, value, change, waiter))
    }

    fn try_change(
        &mut self,
        tree: &Tree,
        key: &[u8],
        value: &[u8],
        change: Change<'_>,
        waiter: &Waiter,
    ) -> Result<bool> {
        let deleted = change == Change::Delete;
        loop {
            let newest = self.newest(tree, key, waiter)?;
            let live = newest.is_live();
            if live && matches!(change, Change::Insert(_))
                || !live && matches!(change, Change::Update(_) | Change::Delete)
            {
                // That was seen, so it stays.
                if !self.reads_lock() || self.lock_as_it_is(tree, key, newest.header, waiter)? {
                    return Ok(live);
                }
                continue;
            }
            let before = newest.header;
            let adds = newest.bytes.is_none();
            let what = newest.bytes.map_or(What::Added, What::Replaced);
            let writing = self.writing()?;
            let id = writing.id;
            let record = Record { txn: id, tree: tree.root(), key: key.to_vec(), deletes: deleted, what };
            let undo = writing.segment.append(&record, waiter)?;
            writing.undo.push(undo);
            let mut version = Vec::with_capacity(HEADER_BYTES + value.len());
            Header { txn: id, undo, deleted }.encode(&mut version);
            version.extend_from_slice(value);
            let put = match adds && self.system.gaps.any() {
                true => self.add_in_gap(tree, key, &version, id, waiter)?,
                false => {
                    let request = self.request(id, tree, key, LockMode::Exclusive);
                    tree.put_if(waiter, key, &version, |now| {
                        Header::of(now) == before
                            && self.system.locks.would_grant(&request)
                            && !(adds && self.system.gaps.any())
                    })?
                }
            };
            if put {
                return Ok(live);
            }
            // The record has no change behind it: that is known, since the row has another.
        }
    }

    /// Waits until the row's newest version is this transaction's own or a committed one, and nobody else has the row
    /// locked so that this one could not lock it.
    fn newest(&mut self, tree: &Tree, key: &[u8], waiter: &Waiter) -> Result<Newest> {
        let mut bytes = Vec::new();
        let snapshot = self.write_snapshot();
        loop {
            let found = tree.get(waiter, key, &mut bytes)?;
            let header = match found {
                true => Some(Header::decode(&bytes).map_err(|_| bad_version(tree))?.0),
                false => None,
            };
            let id = self.writing()?.id;
            let request = self.request(id, tree, key, LockMode::Exclusive);
            if let Some(header) = header {
                if let Some(writer) = self.active_writer(id, &header) {
                    self.wait_for(writer, request, waiter)?;
                    continue;
                }
                if self.is_conflict(id, &header, snapshot) {
                    return Err(Error::WriteConflict);
                }
            }
            if !self.system.locks.would_grant(&request) {
                self.queue(request, waiter)?;
                continue;
            }
            return Ok(Newest { bytes: found.then_some(bytes), header });
        }
    }

    /// Under repeatable read, what was changed since is not written over.
    pub(super) fn write_snapshot(&mut self) -> Option<CommitNo> {
        (self.isolation == Isolation::RepeatableRead).then(|| self.view().commit)
    }

    /// The other transaction that has written this version, if it is still active.
    pub(super) fn active_writer(&self, id: TxnId, header: &Header) -> Option<TxnId> {
        (header.txn != id && self.system.table.is_active(header.txn)).then_some(header.txn)
    }

    pub(super) fn is_conflict(&self, id: TxnId, header: &Header, snapshot: Option<CommitNo>) -> bool {
        snapshot
            .is_some_and(|snapshot| header.txn != id && !self.system.table.is_visible(header.txn, snapshot))
    }

    /// Waits for the writer whose id is in the row, if it is still active.
    pub(super) fn wait_for(&self, writer: TxnId, request: Request<'_>, waiter: &Waiter) -> Result<()> {
        let (locks, table) = (&self.system.locks, &self.system.table);
        match locks.make_explicit(writer, request.key, || table.is_active(writer)) {
            true => self.queue(request, waiter),
            false => Ok(()),
        }
    }

    /// Waits for those who are in the way, if there are any.
    pub(super) fn queue(&self, request: Request<'_>, waiter: &Waiter) -> Result<()> {
        match self.system.locks.queue(request, waiter) {
            Ok(_) => Ok(()),
            Err(LockError::Deadlock) => Err(Error::Deadlock),
            Err(LockError::Timeout) => Err(Error::LockWaitTimeout),
            Err(LockError::Cancelled) => Err(Error::LockWaitCancelled),
        }
    }

    pub(super) fn request<'k>(&self, id: TxnId, tree: &Tree, key: &'k [u8], mode: LockMode) -> Request<'k> {
        self.request_of(id, lock_key(tree, Some(key)), mode)
    }

    /// The same, of the tree's end as well.
    pub(super) fn request_of<'k>(&self, id: TxnId, key: LockKey<'k>, mode: LockMode) -> Request<'k> {
        let written = self.writing.as_ref().map_or(0, |writing| writing.undo.len());
        Request {
            class: if written > 0 { Class::First } else { Class::Newcomer },
            timeout: Some(self.system.lock_wait_timeout),
            weight: written as u64,
            ..Request::new(id, key, mode)
        }
    }

    /// A deadlock's victim is rolled back at once: others wait for what it holds.
    pub(super) fn ended_by_deadlock<T>(
        &mut self,
        waiter: &Waiter,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let result = f(self);
        if let Err(Error::Deadlock) = result {
            self.rollback(waiter)?;
        }
        result
    }
}

pub(super) fn lock_key<'k>(tree: &Tree, key: Option<&'k [u8]>) -> LockKey<'k> {
    LockKey { tree: tree.root().0, key }
}
