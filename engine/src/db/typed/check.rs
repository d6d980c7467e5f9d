//! Checks that rows and indexes agree.

use std::ops::{Bound, ControlFlow};

use super::TypedTable;
use super::write::corrupt;
use crate::db::{Database, Transaction};
use crate::error::{Error, Result};
use crate::row::IndexFormat;
use crate::tree::Tree;
use crate::txn::SnapshotRead;
use crate::wait::Waiter;

impl Database {
    /// Checks a table and returns the number of its rows. Checks its trees as [`Database::check_tree`] does, and, in
    /// the snapshot of `txn`, that every row has its entry in every index, that every entry has its row, and that no
    /// unique index has a duplicate. Do not change the table during the call; purge pauses while the trees are checked.
    pub fn check_typed_table(&self, table: &TypedTable, txn: &mut Transaction<'_>) -> Result<u64> {
        let waiter = self.inner.waiter()?;
        let no_purge = self.inner.txns().pause_purge(&waiter);
        self.inner.check_handle(&table.open)?.check(&waiter)?;
        table.typed.indexes.iter().try_for_each(|tree| tree.check(&waiter).map(drop))?;
        drop(no_purge);
        txn.read_in(&table.open, |txn, tree, waiter| {
            let snapshot = txn.snapshot_read()?;
            let rows = check_rows(table, tree, &snapshot, waiter)?;
            for (index, index_tree) in table.typed.indexes() {
                if check_entries(table, (tree, index_tree), index, &snapshot, waiter)? != rows {
                    return Err(corrupt(index, "there are more entries than rows"));
                }
            }
            Ok(rows)
        })
    }
}

/// Every row can be read, and has its entries.
fn check_rows(
    table: &TypedTable,
    tree: &Tree,
    snapshot: &SnapshotRead<'_, '_>,
    waiter: &Waiter,
) -> Result<u64> {
    let schema = &table.typed.schema;
    let (mut rows, mut entry, mut found) = (0, Vec::new(), Vec::new());
    let mut check = |key: &[u8], value: &[u8]| -> Result<()> {
        schema.decode(key, value)?;
        let row = schema.row().open(value)?;
        for (index, tree) in table.typed.indexes() {
            index.entry_of(key, &row, &mut entry)?;
            if !snapshot.get(tree, &entry, &mut found, waiter)? {
                return Err(corrupt(index, "a row has no entry"));
            }
        }
        rows += 1;
        Ok(())
    };
    each(snapshot, tree, waiter, &mut check)?;
    Ok(rows)
}

/// Every entry has its row, and a unique one is there once.
fn check_entries(
    table: &TypedTable,
    (rows, entries): (&Tree, &Tree),
    index: &IndexFormat,
    snapshot: &SnapshotRead<'_, '_>,
    waiter: &Waiter,
) -> Result<u64> {
    let schema = &table.typed.schema;
    let (mut count, mut key, mut value, mut again) = (0, Vec::new(), Vec::new(), Vec::new());
    let mut last: Option<Vec<u8>> = None;
    let mut check = |entry: &[u8], _: &[u8]| -> Result<()> {
        index.primary_key_into(entry, &mut key)?;
        if !snapshot.get(rows, &key, &mut value, waiter)? {
            return Err(corrupt(index, "there is an entry without a row"));
        }
        index.entry_of(&key, &schema.row().open(&value)?, &mut again)?;
        if again != entry {
            return Err(corrupt(index, "an entry is not that of its row"));
        }
        if index.definition().unique {
            let part = index.unique_part(entry)?;
            if part.is_some() && part == last.as_deref() {
                return Err(corrupt(index, "it is unique, and has the same values twice"));
            }
            last = part.map(<[u8]>::to_vec);
        }
        count += 1;
        Ok(())
    };
    each(snapshot, entries, waiter, &mut check)?;
    Ok(count)
}

/// Gives every visible row of a tree to `check`, until an error.
fn each(
    snapshot: &SnapshotRead<'_, '_>,
    tree: &Tree,
    waiter: &Waiter,
    check: &mut impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut failed = None;
    snapshot.scan(tree, (Bound::Unbounded, Bound::Unbounded), waiter, |key, value| {
        match check(key, value) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err::<(), Error>)
}
