//! Writing: locks, the undo record, the new version.

use super::read::bad_version;
use super::undo::{OVERHEAD_BYTES, Record, What};
use super::version::{HEADER_BYTES, Header};
use super::{Isolation, Txn, TxnId};
use crate::error::{Error, Result};
use crate::lock::{Class, LockError, LockKey, LockMode, Request};
use crate::tree::{Tree, VALUE_BYTES_MAX};
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

/// Whether a row of such a size can be: its version must fit the tree, and an undo record.
fn check_size(tree: &Tree, key: usize, value: usize) -> Result<()> {
    let max = VALUE_BYTES_MAX - HEADER_BYTES - OVERHEAD_BYTES - key.min(VALUE_BYTES_MAX / 2);
    if value > max {
        return Err(Error::ValueTooLarge { size: value, max });
    }
    tree.check_size(key, HEADER_BYTES + value)
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
        check_size(tree, key.len(), value.len())?;
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
                return Ok(live);
            }
            let before = newest.header;
            let what = newest.bytes.map_or(What::Added, What::Replaced);
            let writing = self.writing()?;
            let id = writing.id;
            let record = Record { txn: id, tree: tree.root(), key: key.to_vec(), deletes: deleted, what };
            let undo = writing.segment.append(&record, waiter)?;
            writing.undo.push(undo);
            let mut version = Vec::with_capacity(HEADER_BYTES + value.len());
            Header { txn: id, undo, deleted }.encode(&mut version);
            version.extend_from_slice(value);
            let request = self.request(id, tree, key);
            let unchanged =
                |now: Option<&[u8]>| Header::of(now) == before && self.system.locks.would_grant(&request);
            if tree.put_if(waiter, key, &version, unchanged)? {
                return Ok(live);
            }
            // The record has no change behind it: that is known, since the row has another.
        }
    }

    /// Locks a row, and replaces `out` by its newest value; false, and `out` empty, if there is none. The lock is held
    /// to the end, whether the row is there or not.
    pub(crate) fn get_for_update(
        &mut self,
        tree: &Tree,
        key: &[u8],
        out: &mut Vec<u8>,
        waiter: &Waiter,
    ) -> Result<bool> {
        self.check_active()?;
        self.ended_by_deadlock(waiter, |txn| {
            let id = txn.writing()?.id;
            loop {
                let newest = txn.newest(tree, key, waiter)?;
                let held = txn.system.locks.holds(id, lock_key(tree, key), LockMode::Exclusive);
                txn.lock(id, tree, key, waiter)?;
                // A writer may have come between the two, without a lock object to wait for. None can from now on.
                let found = tree.get(waiter, key, out)?;
                // A version's header is no other one's.
                if newest.header == Header::of(found.then_some(out)) {
                    out.drain(..HEADER_BYTES.min(out.len()));
                    return Ok(newest.is_live());
                }
                if !held {
                    txn.system.locks.release(id, lock_key(tree, key));
                }
            }
        })
    }

    /// Waits until the row's newest version is this transaction's own or a committed one, and nobody else has the row
    /// locked.
    fn newest(&mut self, tree: &Tree, key: &[u8], waiter: &Waiter) -> Result<Newest> {
        let mut bytes = Vec::new();
        // Only repeatable read asks what was changed since.
        let snapshot = (self.isolation == Isolation::RepeatableRead).then(|| self.view().commit);
        loop {
            let found = tree.get(waiter, key, &mut bytes)?;
            let header = match found {
                true => Some(Header::decode(&bytes).map_err(|_| bad_version(tree))?.0),
                false => None,
            };
            let id = self.writing()?.id;
            if let Some(header) = header
                && header.txn != id
            {
                if self.system.table.is_active(header.txn) {
                    self.wait_for(header.txn, id, tree, key, waiter)?;
                    continue;
                }
                if snapshot.is_some_and(|snapshot| !self.system.table.is_visible(header.txn, snapshot)) {
                    return Err(Error::WriteConflict);
                }
            }
            if !self.system.locks.would_grant(&self.request(id, tree, key)) {
                self.lock(id, tree, key, waiter)?;
                continue;
            }
            return Ok(Newest { bytes: found.then_some(bytes), header });
        }
    }

    /// Waits for the writer whose id is in the row, if it is still active.
    fn wait_for(&self, writer: TxnId, id: TxnId, tree: &Tree, key: &[u8], waiter: &Waiter) -> Result<()> {
        let (locks, table) = (&self.system.locks, &self.system.table);
        match locks.make_explicit(writer, lock_key(tree, key), || table.is_active(writer)) {
            true => self.lock(id, tree, key, waiter),
            false => Ok(()),
        }
    }

    fn lock(&self, id: TxnId, tree: &Tree, key: &[u8], waiter: &Waiter) -> Result<()> {
        match self.system.locks.lock(self.request(id, tree, key), waiter) {
            Ok(_) => Ok(()),
            Err(LockError::Deadlock) => Err(Error::Deadlock),
            Err(LockError::Timeout) => Err(Error::LockWaitTimeout),
            Err(LockError::Cancelled) => Err(Error::LockWaitCancelled),
        }
    }

    fn request<'k>(&self, id: TxnId, tree: &Tree, key: &'k [u8]) -> Request<'k> {
        let written = self.writing.as_ref().map_or(0, |writing| writing.undo.len());
        Request {
            class: if written > 0 { Class::First } else { Class::Newcomer },
            timeout: Some(self.system.lock_wait_timeout),
            weight: written as u64,
            ..Request::new(id, lock_key(tree, key), LockMode::Exclusive)
        }
    }

    /// A deadlock's victim is rolled back at once: others wait for what it holds.
    fn ended_by_deadlock<T>(&mut self, waiter: &Waiter, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let result = f(self);
        if let Err(Error::Deadlock) = result {
            self.rollback(waiter)?;
        }
        result
    }
}

fn lock_key<'k>(tree: &Tree, key: &'k [u8]) -> LockKey<'k> {
    LockKey { tree: tree.root().0, key: Some(key) }
}
