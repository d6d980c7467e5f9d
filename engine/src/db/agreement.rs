//! Checks that rows and indexes agree, in a closed database.

use std::ops::{Bound, ControlFlow};

use super::catalog::Catalog;
use super::definition::Typed;
use crate::error::Result;
use crate::page::PageNo;
use crate::row::RowError;
use crate::tree::Tree;
use crate::txn::live_value;
use crate::wait::Waiter;

/// Checks that every row has its entry in every index, and that there are no other entries. Every transaction has
/// committed, and the trees are sound. `find` receives each finding.
pub(super) fn check(
    catalog: &Catalog,
    rows: PageNo,
    typed: &Typed,
    waiter: &Waiter,
    find: &mut dyn FnMut(String),
) -> Result<()> {
    let indexes: Vec<_> = typed.schema.indexes().iter().zip(&typed.indexes).collect();
    let trees: Vec<Tree> = indexes.iter().map(|(_, root)| catalog.at(**root)).collect();
    let (mut live, mut entry, mut version) = (0_u64, Vec::new(), Vec::new());
    each_live(&catalog.at(rows), waiter, |key, value| {
        live += 1;
        let mut has_entries = || -> Result<()> {
            let row = typed.schema.row().open(value)?;
            row.check()?;
            for ((index, _), tree) in indexes.iter().zip(&trees) {
                index.entry_of(key, &row, &mut entry)?;
                if !tree.get(waiter, &entry, &mut version)? || live_value(&version).is_none() {
                    let name = &index.definition().name;
                    find(format!("row {} has no entry in the index '{name}'", key.escape_ascii()));
                }
            }
            Ok(())
        };
        match has_entries() {
            Err(crate::Error::Row(error)) => {
                let what: &RowError = &error;
                find(format!("row {} cannot be read: {what}", key.escape_ascii()));
                Ok(())
            }
            other => other,
        }
    })?;
    for ((index, _), tree) in indexes.iter().zip(&trees) {
        let mut entries = 0_u64;
        each_live(tree, waiter, |_, _| {
            entries += 1;
            Ok(())
        })?;
        if entries != live {
            find(format!(
                "there are {live} rows, and {entries} entries in the index '{}'",
                index.definition().name
            ));
        }
    }
    Ok(())
}

/// Gives every row that is not deleted to `each`.
fn each_live(tree: &Tree, waiter: &Waiter, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
    let mut failed = None;
    tree.scan(waiter, Bound::Unbounded, Bound::Unbounded, |key, version| {
        let result = live_value(version).map_or(Ok(()), |value| each(key, value));
        failed = result.err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    failed.map_or(Ok(()), Err)
}
