//! Bulk loads of versions, as if written by a transaction that ended before all others began.

use std::ops::{Bound, ControlFlow};

use super::TxnId;
use super::read::bad_version;
use super::version::{HEADER_BYTES, Header, UndoPtr};
use super::write::check_size;
use crate::error::Result;
use crate::tree::Tree;
use crate::wait::Waiter;

/// No transaction has this id: the first one's is 1. Being below all that are not settled, it has ended, and is visible
/// to every snapshot; so its undo is never read.
const ALWAYS: TxnId = TxnId(0);

/// Fills an empty tree with rows that `next` appends to two empty buffers, in strictly ascending order of their keys;
/// how many there were. See [`Tree::bulk_load`].
pub(crate) fn load_versions(
    tree: &Tree,
    waiter: &Waiter,
    fill: f64,
    progress: impl FnMut(u64),
    mut next: impl FnMut(&mut Vec<u8>, &mut Vec<u8>) -> Result<bool>,
) -> Result<u64> {
    tree.bulk_load_from(waiter, fill, progress, |key, version| {
        Header { txn: ALWAYS, undo: UndoPtr(0), deleted: false }.encode(version);
        let more = next(key, version)?;
        // A later change must fit its undo record.
        check_size(tree, key, &version[HEADER_BYTES..])?;
        Ok(more)
    })
}

/// Passes all rows of a range to `each`, in order, until it breaks. There are no writers, and all former writers have
/// committed.
pub(crate) fn scan_committed(
    tree: &Tree,
    waiter: &Waiter,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let mut sound = true;
    tree.scan(waiter, from, to, |key, version| match Header::decode(version) {
        Ok((header, _)) if header.deleted => ControlFlow::Continue(()),
        Ok((_, value)) => each(key, value),
        Err(_) => {
            sound = false;
            ControlFlow::Break(())
        }
    })?;
    if sound { Ok(()) } else { Err(bad_version(tree)) }
}
