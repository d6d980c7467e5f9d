//! Several reads of one moment: what an index says, and the rows it leads to; and moments that outlast their
//! transaction.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::table::CommitNo;
use super::transaction::{Own, View};
use super::{Isolation, Txn, TxnSystem};
use crate::error::Result;
use crate::tree::Tree;
use crate::wait::Waiter;

/// What a transaction sees, held while it reads.
pub(crate) struct Moment<'t, 's> {
    txn: &'t Txn<'s>,
    view: View<'s>,
}

impl<'s> Txn<'s> {
    /// What the transaction sees now.
    pub(crate) fn moment(&mut self) -> Result<Moment<'_, 's>> {
        self.check_active()?;
        let view = self.view();
        Ok(Moment { txn: self, view })
    }

    /// What the transaction sees now, to look at for as long as it is kept. `system` is the transaction's.
    pub(crate) fn keep_moment(&mut self, system: &Arc<TxnSystem>) -> Result<KeptMoment> {
        self.check_active()?;
        // The view holds its snapshot until the other one is held.
        let (view, lane) = (self.view(), self.lane);
        let commit = system.table.hold(lane, Some(view.commit));
        Ok(KeptMoment { system: Arc::clone(system), lane, commit, own: self.own_until_now() })
    }
}

impl Moment<'_, '_> {
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

/// What a transaction saw at a moment, its own changes among it. It holds back purge until it is dropped.
pub(crate) struct KeptMoment {
    system: Arc<TxnSystem>,
    lane: usize,
    commit: CommitNo,
    own: Option<Own>,
}

impl KeptMoment {
    /// Reads there.
    pub(crate) fn read<T>(&self, f: impl FnOnce(&Moment<'_, '_>) -> T) -> T {
        let txn = Txn::begin(&self.system, Isolation::RepeatableRead, self.lane);
        f(&Moment { txn: &txn, view: View::held_elsewhere(self.commit, self.own) })
    }
}

impl Drop for KeptMoment {
    fn drop(&mut self) {
        self.system.table.let_go(self.lane, self.commit);
    }
}
