//! Reading rows, by primary key and by index.

use std::ops::{Bound, ControlFlow};

use super::write::corrupt;
use super::{Scratch, TypedTable, with_scratch};
use crate::db::Transaction;
use crate::error::{Error, Result};
use crate::lock::LockMode;
use crate::row::{EntryView, IndexFormat, IntoKey, KeyBounds, KeyRange, Row, RowError, RowView};
use crate::tree::Tree;
use crate::txn::Lookup;

impl TypedTable {
    /// The row with this primary key that the transaction sees.
    pub fn get<'k>(&self, txn: &mut Transaction<'_>, key: impl IntoKey<'k>) -> Result<Option<Row>> {
        self.read_row(txn, key, |key, value| Ok(Row::new(&self.typed.schema, key, value)?))
    }

    /// Passes the row with this primary key that the transaction sees to `read`, without a copy; `None` if there is no
    /// such row.
    pub fn get_with<'k, T>(
        &self,
        txn: &mut Transaction<'_>,
        key: impl IntoKey<'k>,
        read: impl FnOnce(&RowView<'_>) -> T,
    ) -> Result<Option<T>> {
        self.read_row(txn, key, |key, value| Ok(read(&RowView::new(&self.typed.schema, key, value)?)))
    }

    fn read_row<'k, T>(
        &self,
        txn: &mut Transaction<'_>,
        key: impl IntoKey<'k>,
        read: impl FnOnce(&[u8], &[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        self.check_loaded()?;
        with_scratch(|scratch| {
            self.encode_key(key, scratch)?;
            let Scratch { key, value, .. } = scratch;
            match txn.read_in(&self.open, |txn, tree, waiter| txn.get(tree, key, value, waiter))? {
                true => read(key, value).map(Some),
                false => Ok(None),
            }
        })
    }

    /// As [`TypedTable::get`], but reads the newest committed version and locks the row until the end of the
    /// transaction, whether the row exists or not.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn get_for_update<'k>(
        &self,
        txn: &mut Transaction<'_>,
        key: impl IntoKey<'k>,
    ) -> Result<Option<Row>> {
        self.get_locked(txn, key, LockMode::Exclusive)
    }

    /// As [`TypedTable::get_for_update`], with a shared lock: other transactions can read and share-lock the row, but
    /// not change it.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn get_for_share<'k>(&self, txn: &mut Transaction<'_>, key: impl IntoKey<'k>) -> Result<Option<Row>> {
        self.get_locked(txn, key, LockMode::Shared)
    }

    fn get_locked<'k>(
        &self,
        txn: &mut Transaction<'_>,
        key: impl IntoKey<'k>,
        mode: LockMode,
    ) -> Result<Option<Row>> {
        self.check_loaded()?;
        with_scratch(|scratch| {
            self.encode_key(key, scratch)?;
            let Scratch { key, value, .. } = scratch;
            match txn
                .write_in(&self.open, |txn, tree, waiter| txn.get_locked(tree, key, mode, value, waiter))?
            {
                true => Ok(Some(Row::new(&self.typed.schema, key, value)?)),
                false => Ok(None),
            }
        })
    }

    /// Counts the rows that the transaction sees, by reading each of them.
    pub fn count(&self, txn: &mut Transaction<'_>) -> Result<u64> {
        self.check_loaded()?;
        let mut rows = 0;
        txn.read_in(&self.open, |txn, tree, waiter| {
            txn.scan(tree, Bound::Unbounded, Bound::Unbounded, waiter, |_, _| {
                rows += 1;
                ControlFlow::Continue(())
            })
        })?;
        Ok(rows)
    }

    /// Calls `each` with every row of a range of primary keys that the transaction sees, in their order, until it
    /// returns [`ControlFlow::Break`]. No latch is held during `each`.
    pub fn scan<'k>(
        &self,
        txn: &mut Transaction<'_>,
        range: impl KeyBounds<'k>,
        mut each: impl FnMut(&RowView<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_loaded()?;
        let schema = &self.typed.schema;
        let range = range.key_range(schema.key())?;
        let mut failed = None;
        let (from, to) = borrowed(&range);
        txn.read_in(&self.open, |txn, tree, waiter| {
            txn.scan(tree, from, to, waiter, |key, value| {
                let row = RowView::new(schema, key, value);
                row.map(|row| each(&row)).unwrap_or_else(|error| fail(&mut failed, error))
            })
        })?;
        failed.map_or(Ok(()), |error: RowError| Err(error.into()))
    }

    /// Calls `each` with every row of a range of an index that the transaction sees, in the index's order, until it
    /// returns [`ControlFlow::Break`]. Looks each row up by its primary key; [`TypedTable::scan_entries`] avoids that.
    /// No latch is held during `each`.
    pub fn scan_index<'k>(
        &self,
        txn: &mut Transaction<'_>,
        index: &str,
        range: impl KeyBounds<'k>,
        each: impl FnMut(&RowView<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let loads = self.check_loaded()?;
        let (format, index_tree) = self.index(index)?;
        let range = range.key_range(format.key())?;
        let mut rows = LookedUp { table: self, format, loads, each };
        let scanned = with_scratch(|Scratch { key, value, .. }| {
            txn.read_in(&self.open, |txn, tree, waiter| {
                txn.scan_index((index_tree, tree), borrowed(&range), (key, value), waiter, &mut rows)
            })
        });
        // As with entries, see below; a successful scan has already checked.
        scanned.or_else(|error| self.check_still_loaded(loads).and(Err(error)))
    }

    /// As [`TypedTable::scan_index`], with only the columns of the index and of the primary key: the rows are not
    /// looked up.
    pub fn scan_entries<'k>(
        &self,
        txn: &mut Transaction<'_>,
        index: &str,
        range: impl KeyBounds<'k>,
        mut each: impl FnMut(&EntryView<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let loads = self.check_loaded()?;
        let (format, tree) = self.index(index)?;
        let range = range.key_range(format.key())?;
        let (from, to) = borrowed(&range);
        let scanned = txn.read_in(&self.open, |txn, _, waiter| {
            txn.scan(tree, from, to, waiter, |entry, _| {
                each(&EntryView::new(&self.typed.schema, format, entry))
            })
        });
        // A failed load dismantles the index, so errors found during that time are not damage.
        self.check_still_loaded(loads).and(scanned)
    }

    pub(super) fn index(&self, name: &str) -> Result<(&IndexFormat, &Tree)> {
        let found = self.typed.indexes().find(|(index, _)| index.definition().name == name);
        found.ok_or_else(|| Error::from(RowError::UnknownIndex { name: name.to_owned() }))
    }
}

/// The rows that entries lead to, for `each`.
pub(super) struct LookedUp<'t, F> {
    pub(super) table: &'t TypedTable,
    pub(super) format: &'t IndexFormat,
    /// See [`TypedTable::check_loaded`].
    pub(super) loads: u64,
    pub(super) each: F,
}

impl<F: FnMut(&RowView<'_>) -> ControlFlow<()>> Lookup for LookedUp<'_, F> {
    fn primary_key(&mut self, entry: &[u8], key: &mut Vec<u8>) -> Result<()> {
        Ok(self.format.primary_key_into(entry, key)?)
    }

    fn row(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<ControlFlow<()>> {
        match value {
            Some(value) => Ok((self.each)(&RowView::new(&self.table.typed.schema, key, value)?)),
            None => {
                // A load writes the indexes first.
                self.table.check_still_loaded(self.loads)?;
                Err(corrupt(self.format, "there is an entry without a row"))
            }
        }
    }
}

pub(super) fn borrowed((from, to): &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
}

fn fail<E>(failed: &mut Option<E>, error: E) -> ControlFlow<()> {
    *failed = Some(error);
    ControlFlow::Break(())
}
