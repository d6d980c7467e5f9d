//! Several reads in one snapshot, such as index entries and their rows; and snapshots that outlive their transaction.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::table::CommitNo;
use super::transaction::{Own, View};
use super::{Isolation, Txn, TxnSystem};
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::wait::Waiter;

/// What a transaction sees, held while it reads.
pub(crate) struct SnapshotRead<'t, 's> {
    txn: &'t Txn<'s>,
    view: View<'s>,
}

impl<'s> Txn<'s> {
    /// The transaction's present view.
    pub(crate) fn snapshot_read(&mut self) -> Result<SnapshotRead<'_, 's>> {
        self.check_active()?;
        let view = self.view();
        Ok(SnapshotRead { txn: self, view })
    }

    /// Holds the transaction's present view for as long as the result lives. `system` is the transaction's.
    pub(crate) fn hold_snapshot(&mut self, system: &Arc<TxnSystem>) -> Result<HeldSnapshot> {
        self.check_active()?;
        // The view holds its snapshot until the other one is held.
        let (view, lane) = (self.view(), self.lane);
        let commit = system.table.hold(lane, Some(view.commit));
        let own = self.own_until_now();
        let undos = own.and(self.writing.as_mut()).map(|writing| writing.held.keep(writing.undo.len()));
        Ok(HeldSnapshot { system: Arc::clone(system), lane, commit, own, undos })
    }
}

/// The held snapshots of a transaction that include changes of its own. For each: how many undo records it includes,
/// and a counter of undos, counted twice; odd while some of these changes are being undone.
///
/// # Invariant
/// A counter becomes odd before the first of the changes is undone, and even after the last. A reader of a page from
/// which a change is gone reads the counter afterwards, so it finds another value than before.
#[derive(Default)]
pub(super) struct HeldSnapshots(Vec<(usize, Arc<AtomicU64>)>);

impl HeldSnapshots {
    fn keep(&mut self, records: usize) -> Arc<AtomicU64> {
        // Only this vector still refers to the counter of a dropped snapshot.
        self.0.retain(|(_, undos)| Arc::strong_count(undos) > 1);
        let undos = Arc::default();
        self.0.push((records, Arc::clone(&undos)));
        undos
    }

    /// The transaction's changes after the first `records` are about to be undone; called again after an error.
    pub(super) fn begin_undo(&mut self, records: usize) {
        for (_, undos) in self.0.iter().filter(|(seen, _)| *seen > records) {
            undos.store(undos.load(Ordering::Relaxed) | 1, Ordering::Release);
        }
    }

    /// The changes are undone.
    pub(super) fn end_undo(&mut self, records: usize) {
        for (seen, undos) in self.0.iter_mut().filter(|(seen, _)| *seen > records) {
            *seen = records;
            undos.store((undos.load(Ordering::Relaxed) | 1) + 1, Ordering::Release);
        }
    }
}

impl SnapshotRead<'_, '_> {
    /// As [`Txn::get`].
    pub(crate) fn get(&self, tree: &Tree, key: &[u8], out: &mut Vec<u8>, waiter: &Waiter) -> Result<bool> {
        self.txn.get_in(&self.view, tree, key, out, waiter)
    }

    /// As [`Txn::scan`].
    pub(crate) fn scan(
        &self,
        tree: &Tree,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        waiter: &Waiter,
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.txn.scan_in(&self.view, tree, range, waiter, each)
    }
}

/// A snapshot held after its read, including its transaction's own changes unless they are undone. It delays purge
/// until it is dropped.
pub(crate) struct HeldSnapshot {
    system: Arc<TxnSystem>,
    lane: usize,
    commit: CommitNo,
    own: Option<Own>,
    /// See [`HeldSnapshots`].
    undos: Option<Arc<AtomicU64>>,
}

impl HeldSnapshot {
    /// Reads in the snapshot, and returns the undo counter for the next read. Reads with different counters are
    /// inconsistent. A read during which the counter changes is invalid, whatever its result.
    pub(crate) fn read(
        &self,
        undos: Option<u64>,
        f: impl FnOnce(&SnapshotRead<'_, '_>) -> Result<()>,
    ) -> Result<u64> {
        let count = || self.undos.as_ref().map_or(0, |undos| undos.load(Ordering::Acquire));
        let before = count();
        if before % 2 == 1 || undos.is_some_and(|undos| undos != before) {
            return Err(Error::ChangesUndone);
        }
        let txn = Txn::begin(&self.system, Isolation::RepeatableRead, self.lane);
        let read = f(&SnapshotRead { txn: &txn, view: View::held_elsewhere(self.commit, self.own) });
        if count() == before { read.map(|()| before) } else { Err(Error::ChangesUndone) }
    }
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        self.system.table.release(self.lane, self.commit);
    }
}
