//! Iterators over rows that own their snapshot.

use std::ops::{Bound, ControlFlow};

use super::read::{LookedUp, borrowed};
use super::write::corrupt;
use super::{Scratch, TypedTable, with_scratch};
use crate::db::Transaction;
use crate::db::database::SharedInner;
use crate::error::Result;
use crate::process::ProcessOwned;
use crate::row::{KeyBounds, KeyRange, Row, RowView};
use crate::tree::Tree;
use crate::txn::{HeldSnapshot, SnapshotRead, Txn};
use crate::wait::Waiter;

/// Rows read at a time: enough that the way down the tree costs little, few enough that a slot in admission is not held
/// for long.
const BATCH_ROWS: usize = 128;
/// A batch ends when its rows have as many bytes: some of them are large.
const BATCH_BYTES: usize = 1 << 20;

/// The rows of a range in a transaction's snapshot: [`TypedTable::iter`], [`TypedTable::iter_index`].
///
/// The iterator borrows nothing, and outlives its transaction and session. It sees what the transaction saw when the
/// iterator was created, including the transaction's own changes, and no later change. So a loop may change the rows
/// that it iterates over. If the transaction rolls back a change that the iterator sees, the rows read before and after
/// would be inconsistent, and the next batch is [`Error::ChangesUndone`](crate::Error). Purge keeps all versions since
/// the snapshot while the iterator lives, so do not keep it for long. Its table counts as in use.
///
/// Under [`Serializable`](crate::Isolation), creating the iterator locks all rows of the range.
///
/// The iterator reads rows in batches, each under admission. Within a statement or a callback, a batch uses the slot
/// that the thread already holds. An error is the last item.
pub struct Rows {
    database: SharedInner,
    table: TypedTable,
    /// The index that is followed, by its place; `None` for the primary key.
    index: Option<usize>,
    snapshot: ProcessOwned<HeldSnapshot>,
    /// See [`HeldSnapshot::read`].
    undos: Option<u64>,
    waiter: Waiter,
    /// The range still to be read; `None` at the end.
    rest: Option<KeyRange>,
    batch: std::vec::IntoIter<Row>,
}

impl TypedTable {
    /// The rows of a range of primary keys that the transaction sees, in their order.
    pub fn iter<'k>(&self, txn: &mut Transaction<'_>, range: impl KeyBounds<'k>) -> Result<Rows> {
        let range = range.key_range(self.typed.schema.key())?;
        self.rows(txn, None, range)
    }

    /// The rows of a range of an index that the transaction sees, in the index's order.
    pub fn iter_index<'k>(
        &self,
        txn: &mut Transaction<'_>,
        index: &str,
        range: impl KeyBounds<'k>,
    ) -> Result<Rows> {
        let (format, _) = self.index(index)?;
        let at = self.typed.schema.indexes().iter().position(|index| std::ptr::eq(index, format));
        let range = range.key_range(format.key())?;
        self.rows(txn, at, range)
    }

    fn rows(&self, txn: &mut Transaction<'_>, index: Option<usize>, range: KeyRange) -> Result<Rows> {
        self.check_loaded()?;
        let session = txn.session();
        let database = session.shared_database().clone();
        let snapshot = txn.read_in(&self.open, |txn, tree, waiter| {
            if txn.reads_lock() {
                self.lock_range(txn, tree, index, &range, waiter)?;
            }
            txn.hold_snapshot(database.txns())
        })?;
        let snapshot = ProcessOwned::new(database.process(), snapshot);
        Ok(Rows {
            database,
            table: self.clone(),
            index,
            snapshot,
            undos: None,
            waiter: session.another_waiter(),
            rest: Some(range),
            batch: Vec::new().into_iter(),
        })
    }
}

impl TypedTable {
    /// Locks the rows of a range, by reading them.
    fn lock_range(
        &self,
        txn: &mut Txn<'_>,
        tree: &Tree,
        index: Option<usize>,
        range: &KeyRange,
        waiter: &Waiter,
    ) -> Result<()> {
        let (from, to) = borrowed(range);
        match index {
            None => txn.scan(tree, from, to, waiter, |_, _| ControlFlow::Continue(())),
            Some(at) => with_scratch(|Scratch { key, value, .. }| {
                let typed = &self.typed;
                let mut rows = LookedUp {
                    table: self,
                    format: &typed.schema.indexes()[at],
                    loads: self.check_loaded()?,
                    each: |_: &RowView<'_>| ControlFlow::Continue(()),
                };
                txn.scan_index((&typed.indexes[at], tree), (from, to), (key, value), waiter, &mut rows)
            }),
        }
    }
}

impl Rows {
    fn read_batch(&mut self) -> Result<()> {
        let Some(range) = self.rest.take() else { return Ok(()) };
        let _entered = self.waiter.enter()?;
        let tree = self.database.check_handle(&self.table.open)?;
        // When it is its turn: a load may have begun while it queued.
        let loads = self.table.check_loaded()?;
        let (mut rows, mut last) = (Vec::new(), None);
        let read =
            |snapshot: &SnapshotRead<'_, '_>| self.read_rows(snapshot, tree, &range, &mut rows, &mut last);
        let read = self.snapshot.read(self.undos, read);
        // First: an entry without a row is no damage then.
        self.table.check_still_loaded(loads)?;
        self.undos = Some(read?);
        if let Some(last) = last {
            self.rest = Some((Bound::Excluded(last), range.1));
        }
        self.batch = rows.into_iter();
        Ok(())
    }

    /// Up to a batch of rows, and the last one's key in the tree that is followed if there may be more.
    fn read_rows(
        &self,
        snapshot: &SnapshotRead<'_, '_>,
        tree: &Tree,
        range: &KeyRange,
        rows: &mut Vec<Row>,
        last: &mut Option<Vec<u8>>,
    ) -> Result<()> {
        let typed = &self.table.typed;
        let index = self.index.map(|at| (&typed.schema.indexes()[at], &typed.indexes[at]));
        let (mut key, mut value, mut failed) = (Vec::new(), Vec::new(), None);
        let mut bytes = 0;
        let followed = index.map_or(tree, |(_, tree)| tree);
        snapshot.scan(followed, borrowed(range), &self.waiter, |found, found_value| {
            let mut row = || match index {
                None => {
                    bytes += found_value.len();
                    Ok(Row::new(&typed.schema, found, found_value)?)
                }
                Some((format, _)) => {
                    format.primary_key_into(found, &mut key)?;
                    match snapshot.get(tree, &key, &mut value, &self.waiter)? {
                        true => {
                            bytes += value.len();
                            Ok(Row::new(&typed.schema, &key, &value)?)
                        }
                        false => Err(corrupt(format, "there is an entry without a row")),
                    }
                }
            };
            match row() {
                Ok(row) => rows.push(row),
                Err(error) => failed = Some(error),
            }
            if failed.is_none() && rows.len() < BATCH_ROWS && bytes < BATCH_BYTES {
                return ControlFlow::Continue(());
            }
            *last = Some(found.to_vec());
            ControlFlow::Break(())
        })?;
        failed.map_or(Ok(()), Err)
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if let Some(row) = self.batch.next() {
            return Some(Ok(row));
        }
        match self.read_batch() {
            Ok(()) => self.batch.next().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for Rows {}
