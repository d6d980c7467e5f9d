//! Bulk loads of typed rows, with their indexes.

use std::sync::atomic::{AtomicBool, Ordering};

use super::TypedTable;
use crate::Waiter;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::row::{IndexFormat, IntoRow};
use crate::tree::Tree;
use crate::txn::load_versions;

/// Entries of one index, in memory, in the order in which they came.
#[derive(Default)]
struct Entries {
    bytes: Vec<u8>,
    /// Where each begins, and its length.
    places: Vec<(u64, u32)>,
}

impl Entries {
    fn push(&mut self, entry: &[u8]) {
        self.places.push((self.bytes.len() as u64, entry.len() as u32));
        self.bytes.extend_from_slice(entry);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|&a, &b| slice(bytes, a).cmp(slice(bytes, b)));
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|&place| slice(&self.bytes, place))
    }
}

fn slice(bytes: &[u8], (at, len): (u64, u32)) -> &[u8] {
    &bytes[at as usize..at as usize + len as usize]
}

/// Keeps others off the table while it lives.
struct Loading<'t>(&'t AtomicBool);

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Database {
    /// Fills an empty table, and its indexes, from rows in strictly ascending order of their primary keys, and returns
    /// their number. `progress` is told the number of rows so far, now and then. Every transaction sees them, also one
    /// that began before. Nobody else may use the table meanwhile: that is [`Error::TableLoading`].
    ///
    /// The entries of the indexes are kept in memory until the rows are loaded.
    ///
    /// A load that fails leaves the table empty.
    pub fn bulk_load_rows<'v, R: IntoRow<'v>>(
        &self,
        table: &TypedTable,
        rows: impl IntoIterator<Item = R>,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let waiter = self.inner.waiter();
        let tree = self.inner.check_handle(&table.open)?;
        if table.typed.loading.swap(true, Ordering::AcqRel) {
            return Err(Error::TableLoading { name: table.name().to_owned() });
        }
        let _loading = Loading(&table.typed.loading);
        let schema = &table.typed.schema;
        let mut entries: Vec<Entries> = table.typed.indexes().map(|_| Entries::default()).collect();
        let mut rows = rows.into_iter();
        let (mut value, mut entry) = (Vec::new(), Vec::new());
        // The rows' root is written last: until then the table is empty.
        let next = |key: &mut Vec<u8>, version: &mut Vec<u8>| {
            let Some(row) = rows.next() else {
                load_indexes(table, &mut entries, &waiter)?;
                return Ok(false);
            };
            row.with_values(|values| schema.encode_into(values, key, &mut value))?;
            version.extend_from_slice(&value);
            if !entries.is_empty() {
                let row = schema.row().open(&value)?;
                for (index, entries) in schema.indexes().iter().zip(&mut entries) {
                    index.entry_of(key, &row, &mut entry)?;
                    entries.push(&entry);
                }
            }
            Ok(true)
        };
        self.inner.change(&waiter, || load_versions(tree, &waiter, Self::BULK_LOAD_FILL, progress, next))
    }
}

/// Loads the indexes, if no unique one has duplicates.
fn load_indexes(table: &TypedTable, entries: &mut [Entries], waiter: &Waiter) -> Result<()> {
    for ((index, _), entries) in table.typed.indexes().zip(&mut *entries) {
        entries.sort();
        check_unique(index, entries)?;
    }
    for ((_, tree), entries) in table.typed.indexes().zip(entries) {
        load_index(tree, std::mem::take(entries), waiter)?;
    }
    Ok(())
}

fn check_unique(index: &IndexFormat, entries: &Entries) -> Result<()> {
    if !index.definition().unique {
        return Ok(());
    }
    let mut last = None;
    for entry in entries.iter() {
        let part = index.unique_part(entry)?;
        if part.is_some() && part == last {
            return Err(Error::DuplicateKey { index: index.definition().name.clone() });
        }
        last = part;
    }
    Ok(())
}

fn load_index(tree: &Tree, entries: Entries, waiter: &Waiter) -> Result<()> {
    let mut entries = entries.iter();
    let next = |key: &mut Vec<u8>, _: &mut Vec<u8>| {
        let Some(entry) = entries.next() else { return Ok(false) };
        key.extend_from_slice(entry);
        Ok(true)
    };
    load_versions(tree, waiter, Database::BULK_LOAD_FILL, |_| {}, next).map(drop)
}
