//! Index lookups: entries and their rows in one snapshot.

use std::ops::{Bound, ControlFlow};

use super::Txn;
use crate::error::Result;
use crate::lock::LockMode;
use crate::tree::Tree;
use crate::wait::Waiter;

/// The columns that a lookup needs of each entry.
pub(crate) trait Lookup {
    /// The primary key of the row that the entry is of; written over `key`.
    fn primary_key(&mut self, entry: &[u8], key: &mut Vec<u8>) -> Result<()>;

    /// Receives the entry's row; `None` if there is none.
    fn row(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<ControlFlow<()>>;
}

impl Txn<'_> {
    /// Looks the row of each entry up that is in the range of the index, and that this transaction sees. `key` and
    /// `value` are room to work in.
    pub(crate) fn scan_index(
        &mut self,
        (index, rows): (&Tree, &Tree),
        range: (Bound<&[u8]>, Bound<&[u8]>),
        (key, value): (&mut Vec<u8>, &mut Vec<u8>),
        waiter: &Waiter,
        lookup: &mut impl Lookup,
    ) -> Result<()> {
        self.check_active()?;
        if self.reads_lock() {
            return self.scan_locked(index, range, waiter, |txn, entry, _| {
                lookup.primary_key(entry, key)?;
                let found = txn.get_locked(rows, key, LockMode::Shared, value, waiter)?;
                lookup.row(key, found.then_some(value))
            });
        }
        let view = self.view();
        let mut failed = None;
        self.scan_in(&view, index, range, waiter, |entry, _| {
            let mut row = || {
                lookup.primary_key(entry, key)?;
                let found = self.get_in(&view, rows, key, value, waiter)?;
                lookup.row(key, found.then_some(value))
            };
            row().unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        })?;
        failed.map_or(Ok(()), Err)
    }
}
