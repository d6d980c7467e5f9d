//! Unique indexes.
//!
//! An index is a tree of versioned entries, and the unique part of an entry is its prefix. Before a transaction adds an
//! entry, it locks that part exclusively, until its end, so concurrent inserts of the same values are serialized. Then
//! it reads every entry with that prefix, in its newest version regardless of its own snapshot. A live entry is a
//! duplicate; for an entry of another active transaction it waits.
//!
//! # Invariants
//! - Unique parts are locked in a separate name space (`UNIQUE`). An entry that consists of its unique part has two
//!   locks, so that its writer, whose id in the entry is a lock, and the owner of the part never hold the same one.
//! - Only the owner of the part adds an entry. So active entries of other transactions are either being deleted, where
//!   the deletion may be rolled back, or were interrupted by a crash. None is added between the read and the insert.
//! - The part is released before a wait for such a writer, which may add the same values again. It is requested again
//!   only after the entry was seen without such a writer. A writer may have passed the waiter (`lock::object`), and
//!   then the next in the entry's queue wait for that writer; only a read of the entry shows it.

use std::ops::{Bound, ControlFlow};

use super::locking::header_of;
use super::read::bad_version;
use super::version::Header;
use super::{Txn, TxnId};
use crate::error::Result;
use crate::lock::{LockKey, LockMode};
use crate::tree::Tree;
use crate::wait::Waiter;

/// No page has this number.
const UNIQUE: u64 = 1 << 63;

/// The result of reading the entries.
enum Found {
    Nothing,
    /// A live entry, unless it was rolled back since.
    Live(Header, Vec<u8>),
    /// An entry, and the active transaction that has written it.
    Of(TxnId, Vec<u8>),
    /// An entry whose deletion was rolled back.
    Changed,
}

impl Txn<'_> {
    /// Checks that this transaction may add an entry that begins with `part`; false if such an entry exists. `part`
    /// ends with a column, so that no entry begins with it by chance.
    pub(crate) fn claim_unique(&mut self, tree: &Tree, part: &[u8], waiter: &Waiter) -> Result<bool> {
        self.check_active()?;
        self.ended_by_deadlock(waiter, |txn| {
            let id = txn.writing()?.id;
            let key = LockKey { tree: tree.root().0 | UNIQUE, key: Some(part) };
            let held = txn.system.locks.holds(id, key, LockMode::Exclusive);
            loop {
                txn.lock(txn.request_of(id, key, LockMode::Exclusive), waiter)?;
                match txn.look_for_entries(tree, part, id, waiter)? {
                    Found::Nothing => return Ok(true),
                    Found::Live(header, entry) => {
                        if txn.confirm(tree, &entry, Some(header), waiter)? {
                            return Ok(false);
                        }
                    }
                    Found::Changed => {}
                    Found::Of(writer, entry) => {
                        if !held {
                            txn.system.locks.release(id, key);
                        }
                        txn.wait_for_entry(writer, tree, &entry, id, waiter)?;
                    }
                }
            }
        })
    }

    /// Waits until no other active transaction has written the entry. `writer` was seen there.
    fn wait_for_entry(
        &self,
        writer: TxnId,
        tree: &Tree,
        entry: &[u8],
        id: TxnId,
        waiter: &Waiter,
    ) -> Result<()> {
        let (mut request, mut of) = (self.request(id, tree, entry, LockMode::Exclusive), Some(writer));
        while let Some(writer) = of {
            self.wait_for(writer, tree, &mut request, waiter)?;
            of = tree.read_latched(waiter, entry, |now| self.active_writer(id, &header_of(now)?))?;
        }
        Ok(())
    }

    fn look_for_entries(&self, tree: &Tree, part: &[u8], id: TxnId, waiter: &Waiter) -> Result<Found> {
        let mut found = Ok(Found::Nothing);
        tree.scan(waiter, Bound::Included(part), Bound::Unbounded, |entry, version| {
            if !entry.starts_with(part) {
                return ControlFlow::Break(());
            }
            let Ok((header, _)) = Header::decode(version) else {
                found = Err(bad_version(tree));
                return ControlFlow::Break(());
            };
            if header.txn != id && self.system.table.is_active(header.txn) {
                found = Ok(Found::Of(header.txn, entry.to_vec()));
                return ControlFlow::Break(());
            }
            found = match header.deleted {
                false => Ok(Found::Live(header, entry.to_vec())),
                true => match self.is_still(tree, entry, Some(header), waiter) {
                    Ok(true) => return ControlFlow::Continue(()),
                    Ok(false) => Ok(Found::Changed),
                    Err(error) => Err(error),
                },
            };
            ControlFlow::Break(())
        })?;
        found
    }
}
