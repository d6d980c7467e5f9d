//! Bulk loads of typed rows, with their indexes.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use super::sort::Sorter;
use super::{Scratch, TypedTable};
use crate::Waiter;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::row::IntoRow;
use crate::txn::load_versions;

/// Keeps others off the table while it lives; and to the next open, which empties the table, if at its end a note still says
/// that the trees are being filled.
struct Loading<'t> {
    going_on: &'t AtomicBool,
    noted: Cell<bool>,
}

impl<'t> Loading<'t> {
    fn begin(table: &'t TypedTable) -> Result<Self> {
        match table.typed.loading.swap(true, Ordering::AcqRel) {
            true => Err(Error::TableLoading { name: table.name().to_owned() }),
            false => Ok(Loading { going_on: &table.typed.loading, noted: Cell::new(false) }),
        }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if !self.noted.get() {
            self.going_on.store(false, Ordering::Release);
        }
    }
}

impl Database {
    /// Fills an empty table, and its indexes, from rows in strictly ascending order of their primary keys, and returns
    /// their number. `progress` is told the number of rows so far, now and then. Every transaction sees them, also one
    /// that began before. A column that the table numbers gets numbers where it is NULL.
    ///
    /// Nobody else may use the table meanwhile: that is [`Error::TableLoading`]. If it has indexes, no transaction that
    /// has written may be going on, or it is [`Error::TransactionsActive`]; their entries are sorted meanwhile, each
    /// index's in [`sort_buffer_bytes`](crate::EngineConfig::sort_buffer_bytes) of memory, and what does not fit, in files.
    ///
    /// A load that fails, or is cut off by a crash, leaves the table empty. After a panic in `progress` or in `rows`, or where
    /// that cannot be done, the next open does it; until then the table is [`Error::TableLoading`].
    pub fn bulk_load_rows<'v, R: IntoRow<'v>>(
        &self,
        table: &TypedTable,
        rows: impl IntoIterator<Item = R>,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let waiter = self.inner.waiter();
        let tree = self.inner.check_handle(&table.open)?;
        let loading = Loading::begin(table)?;
        let indexed = !table.typed.indexes.is_empty();
        // See `check_loaded_to_write`.
        fence(Ordering::SeqCst);
        if indexed && self.inner.txns().stats().active > 0 {
            return Err(Error::TransactionsActive { name: table.name().to_owned() });
        }
        let mut load = Load { table, entries: table.typed.indexes().map(|_| self.sorter()).collect() };
        let (mut rows, mut scratch) = (rows.into_iter(), Scratch::default());
        // The root of the rows is written last: until then the table is empty.
        let next = |key: &mut Vec<u8>, version: &mut Vec<u8>| {
            let Some(row) = rows.next() else {
                if indexed {
                    self.inner.catalog.begin_load(&waiter, tree.root())?;
                    loading.noted.set(true);
                    load.load_indexes(&waiter)?;
                }
                return Ok(false);
            };
            row.with_values(|values| match table.typed.schema.auto_increment() {
                None => table.encode(values, &mut scratch),
                Some(column) => {
                    table.encode_numbered(&self.inner, values, column, &mut scratch, &waiter).map(drop)
                }
            })?;
            key.extend_from_slice(&scratch.key);
            version.extend_from_slice(&scratch.value);
            load.add_entries(&mut scratch, &waiter)?;
            Ok(true)
        };
        self.inner.change(&waiter, || {
            let loaded = load_versions(tree, &waiter, Self::BULK_LOAD_FILL, progress, next);
            if loading.noted.get() {
                if loaded.is_err() {
                    clear_indexes(table, &waiter)?;
                }
                self.inner.catalog.end_load(&waiter, tree.root())?;
                loading.noted.set(false);
            }
            loaded
        })
    }
}

impl Database {
    pub(super) fn sorter(&self) -> Sorter<'_> {
        Sorter::new(&*self.inner.disk, self.inner.sort_buffer_bytes)
    }
}

fn clear_indexes(table: &TypedTable, waiter: &Waiter) -> Result<()> {
    table.typed.indexes.iter().try_for_each(|tree| tree.fell(waiter))
}

/// The indexes' part of a load.
struct Load<'t> {
    table: &'t TypedTable,
    /// Of each index.
    entries: Vec<Sorter<'t>>,
}

impl Load<'_> {
    /// The entries of the row that is in `scratch`.
    fn add_entries(&mut self, scratch: &mut Scratch, waiter: &Waiter) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let schema = &self.table.typed.schema;
        let row = schema.row().open(&scratch.value)?;
        for (index, entries) in schema.indexes().iter().zip(&mut self.entries) {
            index.entry_of(&scratch.key, &row, &mut scratch.entry)?;
            entries.push(&scratch.entry, waiter)?;
        }
        Ok(())
    }

    fn load_indexes(&mut self, waiter: &Waiter) -> Result<()> {
        self.table.typed.indexes().zip(self.entries.drain(..)).try_for_each(|((index, tree), entries)| {
            entries.load(index, tree, Database::BULK_LOAD_FILL, waiter)
        })
    }
}
