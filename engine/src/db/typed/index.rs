//! Adding and dropping indexes of an existing table.

use std::ops::{Bound, ControlFlow};

use super::sort::Sorter;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::row::{Index, Schema};
use crate::tree::Tree;
use crate::txn::scan_committed;
use crate::wait::Waiter;

impl Database {
    /// Adds an index to a table, and fills it from the rows. Conditions as for [`Database::drop_table`]. The entries
    /// are sorted as by [`Database::bulk_load_rows`].
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if the index is unique and rows have the same values; the table is unchanged then.
    pub fn create_index(&self, table: &str, index: Index) -> Result<()> {
        self.inner.change_table(table, |catalog, waiter| {
            let definition = catalog.table(waiter, table)?;
            let typed = definition.typed.ok_or_else(|| plain(table))?;
            let rows = catalog.at(definition.root);
            let schema = typed.schema.with_index(index)?;
            catalog.add_index(waiter, table, schema, |schema, root| {
                fill(schema, &rows, &catalog.at(root), self.sorter(), waiter)
            })
        })
    }

    /// Drops an index of a table, and frees its pages. Conditions as for [`Database::drop_table`].
    pub fn drop_index(&self, table: &str, index: &str) -> Result<()> {
        self.inner.change_table(table, |catalog, waiter| {
            let typed = catalog.table(waiter, table)?.typed.ok_or_else(|| plain(table))?;
            let schema = typed.schema.without_index(index)?;
            let at = typed.schema.indexes().iter().position(|known| known.definition().name == index);
            catalog.drop_index(waiter, table, at.unwrap_or_default(), schema)
        })
    }
}

fn plain(name: &str) -> Error {
    Error::PlainTable { name: name.to_owned() }
}

/// Fills the tree of the schema's last index.
fn fill(schema: &Schema, rows: &Tree, tree: &Tree, mut entries: Sorter<'_>, waiter: &Waiter) -> Result<()> {
    let Some(index) = schema.indexes().last() else { return Ok(()) };
    let (mut entry, mut failed) = (Vec::new(), None);
    scan_committed(rows, waiter, (Bound::Unbounded, Bound::Unbounded), |key, value| {
        let row = schema.row().open(value);
        let encoded = row.and_then(|row| index.entry_of(key, &row, &mut entry));
        match encoded.map_err(Error::from).and_then(|()| entries.push(&entry, waiter)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    entries.load(index, tree, Database::BULK_LOAD_FILL, waiter)
}
