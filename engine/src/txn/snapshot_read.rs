//! Several reads of one moment: what an index says, and the rows it leads to; and moments that outlast their
//! transaction.

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
    /// What the transaction sees now.
    pub(crate) fn snapshot_read(&mut self) -> Result<SnapshotRead<'_, 's>> {
        self.check_active()?;
        let view = self.view();
        Ok(SnapshotRead { txn: self, view })
    }

    /// What the transaction sees now, to look at for as long as it is kept. `system` is the transaction's.
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

/// The moments of a transaction that are kept and see changes of its own: how many of its records are of these, and how often
/// some of these were undone, twice counted; odd while they are being undone.
///
/// # Invariant
/// A count becomes odd before the first of the changes is undone, and even after the last. Who has read a page from which one
/// is gone reads the count after it, so it finds another than before.
#[derive(Default)]
pub(super) struct HeldSnapshots(Vec<(usize, Arc<AtomicU64>)>);

impl HeldSnapshots {
    fn keep(&mut self, records: usize) -> Arc<AtomicU64> {
        // Of those that are gone only this one is left.
        self.0.retain(|(_, undos)| Arc::strong_count(undos) > 1);
        let undos = Arc::default();
        self.0.push((records, Arc::clone(&undos)));
        undos
    }

    /// What the transaction's records tell of is about to be undone, but for the first `records`; perhaps once more, after an
    /// error.
    pub(super) fn begin_undo(&mut self, records: usize) {
        for (_, undos) in self.0.iter().filter(|(seen, _)| *seen > records) {
            undos.store(undos.load(Ordering::Relaxed) | 1, Ordering::Release);
        }
    }

    /// It is undone.
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

/// What a transaction saw at a moment, its own changes among it, as long as it does not undo them. It holds back purge until
/// it is dropped.
pub(crate) struct HeldSnapshot {
    system: Arc<TxnSystem>,
    lane: usize,
    commit: CommitNo,
    own: Option<Own>,
    /// See [`HeldSnapshots`].
    undos: Option<Arc<AtomicU64>>,
}

impl HeldSnapshot {
    /// Reads there, and gives the count of undos for the next read. Reads with different counts do not fit together, and one
    /// within which the count changes is no read of a moment, whatever came of it.
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
        self.system.table.let_go(self.lane, self.commit);
    }
}
