//! Several reads of one moment: what an index says, and the rows it leads to.

use std::ops::{Bound, ControlFlow};

use super::Txn;
use super::transaction::View;
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
