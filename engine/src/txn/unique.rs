//! Unique indexes: what may be there once is there once.
//!
//! An index is a tree of versioned entries, and the unique part of an entry is its beginning. Whoever is going to add an
//! entry locks that part first, exclusively and to the end of its transaction: so of those who add the same values one
//! goes first. Then it looks at every entry that begins so, in its newest version, whatever its own snapshot is: a live
//! one is a duplicate, one of another active transaction is waited for.
//!
//! # Invariants
//! - Parts are locked in a name space of their own (`UNIQUE`), apart from the entries: an entry that is all unique part
//!   has two locks, so that its writer, whose id in the entry is a lock, and the one who has the part never hold the same.
//! - An entry is added only by the one who has its part. So of others' active entries there are those that are being
//!   deleted, whose deletion may be taken back, and those that a crash cut off; nothing is added between the look and the
//!   insert.
//! - The part is let go of before such a writer is waited for: it may want to add the same values again. And it is not asked
//!   for again before the entry has been seen to have no such writer: one may have passed who waited (`lock::object`), and
//!   then those behind in the entry's queue wait for that one, which only a look at the entry tells.

use std::ops::{Bound, ControlFlow};

use super::locking::header_of;
use super::read::bad_version;
use super::version::Header;
use super::{Txn, TxnId};
use crate::error::Result;
use crate::lock::{LockKey, LockMode};
use crate::tree::Tree;
use crate::wait::Waiter;

/// No page has such a number.
const UNIQUE: u64 = 1 << 63;

/// What a look at the entries has found.
enum Found {
    Nothing,
    /// An entry that is there, if it was not rolled back meanwhile.
    Live(Header, Vec<u8>),
    /// An entry, and the active transaction that has written it.
    Of(TxnId, Vec<u8>),
    /// An entry whose deletion was rolled back meanwhile.
    Changed,
}

impl Txn<'_> {
    /// Makes sure that this transaction may add an entry that begins with `part`; false if there is one already. `part`
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
            of = tree.look(waiter, entry, |now| self.active_writer(id, &header_of(now)?))?;
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
