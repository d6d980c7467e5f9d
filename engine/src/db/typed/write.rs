//! Changes of rows, and of their index entries.

use super::{Scratch, TypedTable, with_scratch};
use crate::Waiter;
use crate::db::Transaction;
use crate::error::{Error, PRIMARY_KEY, Result};
use crate::row::{IndexFormat, IntoKey, IntoRow, Row, ValueRef};
use crate::tree::Tree;
use crate::txn::{Change, Next, Txn};

/// What became of a row that was given.
struct Put {
    /// Whether there was one.
    there: bool,
    /// Its auto-increment number.
    number: Option<u64>,
}

impl TypedTable {
    /// Adds a row: a value for each column. If a column is auto-increment
    /// ([`Column::auto_increment`](crate::row::Column)) and the row has NULL there, the column gets the next number,
    /// which is returned. A number is never given twice, even after a crash; gaps occur, for example after a rollback.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if another row has the same primary key, or the same values in a unique index; NULL
    /// equals nothing. The row's changes so far are undone, and the transaction continues. Also the errors of
    /// [`Transaction::update`].
    pub fn insert<'v>(&self, txn: &mut Transaction<'_>, row: impl IntoRow<'v>) -> Result<Option<u64>> {
        self.put_row(txn, row, true, |there| match there {
            true => Err(Error::DuplicateKey { index: PRIMARY_KEY.to_owned() }),
            false => Ok(Next::Put),
        })
        .map(|put| put.number)
    }

    /// Replaces the values of the row with the same primary key; false if there is none. Indexes whose columns do not
    /// change are not touched.
    ///
    /// # Errors
    /// As [`TypedTable::insert`], except for a duplicate primary key.
    pub fn update<'v>(&self, txn: &mut Transaction<'_>, row: impl IntoRow<'v>) -> Result<bool> {
        self.put_row(txn, row, false, |there| Ok(if there { Next::Put } else { Next::Stay }))
            .map(|put| put.there)
    }

    /// Adds a row, or replaces the values of the row with the same primary key; true if it was added. Auto-increment
    /// works as in [`TypedTable::insert`].
    ///
    /// # Errors
    /// As [`TypedTable::insert`], except for a duplicate primary key.
    pub fn upsert<'v>(&self, txn: &mut Transaction<'_>, row: impl IntoRow<'v>) -> Result<bool> {
        self.put_row(txn, row, true, |_| Ok(Next::Put)).map(|put| !put.there)
    }

    /// Removes a row by its primary key; false if there is none.
    ///
    /// # Errors
    /// As [`Transaction::update`].
    pub fn delete<'k>(&self, txn: &mut Transaction<'_>, key: impl IntoKey<'k>) -> Result<bool> {
        with_scratch(|scratch| {
            self.encode_key(key, scratch)?;
            self.change(txn, scratch, |now, _| Ok(if now.is_some() { Next::Delete } else { Next::Stay }))
        })
    }

    /// Changes a row by its primary key; false if there is no such row. `change` receives the newest version and sets
    /// columns. The row is locked during the call. `change` runs again if another transaction changed the row first.
    /// Indexes whose columns do not change are not touched.
    ///
    /// # Errors
    /// The error that `change` returns; nothing is changed then. [`Error::PrimaryKeyChanged`]. Also as
    /// [`TypedTable::insert`].
    pub fn update_with<'k>(
        &self,
        txn: &mut Transaction<'_>,
        key: impl IntoKey<'k>,
        mut change: impl FnMut(&mut Row) -> Result<()>,
    ) -> Result<bool> {
        let schema = &self.typed.schema;
        with_scratch(|scratch| {
            self.encode_key(key, scratch)?;
            let (key, mut new_key) = (scratch.key.clone(), Vec::new());
            self.change(txn, scratch, |now, value| {
                let Some(now) = now else { return Ok(Next::Stay) };
                let mut row = Row::new(schema, &key, now)?;
                change(&mut row)?;
                schema.encode_into(row.all()?.into_key().as_ref(), &mut new_key, value)?;
                if new_key == key { Ok(Next::Put) } else { Err(Error::PrimaryKeyChanged) }
            })
        })
    }

    pub(super) fn encode_key<'k>(&self, key: impl IntoKey<'k>, scratch: &mut Scratch) -> Result<()> {
        scratch.key.clear();
        Ok(self.typed.schema.key().encode_into(key, &mut scratch.key)?)
    }

    /// Writes a row if `choose` agrees; `choose` receives whether the row exists.
    fn put_row<'v>(
        &self,
        txn: &mut Transaction<'_>,
        row: impl IntoRow<'v>,
        numbered: bool,
        mut choose: impl FnMut(bool) -> Result<Next>,
    ) -> Result<Put> {
        let session = txn.session();
        with_scratch(|scratch| {
            let number = row.with_values(|values| match self.typed.schema.auto_increment() {
                Some(column) if numbered => {
                    self.encode_numbered(session.database(), values, column, scratch, session.waiter())
                }
                _ => self.encode(values, scratch).map(|()| None),
            })?;
            let there = self.change(txn, scratch, |now, _| choose(now.is_some()))?;
            Ok(Put { there, number })
        })
    }

    pub(super) fn encode(&self, values: &[ValueRef<'_>], scratch: &mut Scratch) -> Result<()> {
        Ok(self.typed.schema.encode_into(values, &mut scratch.key, &mut scratch.value)?)
    }

    /// Changes the row whose key is in `scratch`, and its entries; returns whether it existed. `choose` receives its
    /// value, and may write a new one.
    fn change(
        &self,
        txn: &mut Transaction<'_>,
        scratch: &mut Scratch,
        mut choose: impl FnMut(Option<&[u8]>, &mut Vec<u8>) -> Result<Next>,
    ) -> Result<bool> {
        txn.write_in(&self.open, |txn, tree, waiter| {
            self.check_loaded_to_write(txn)?;
            txn.statement(waiter, |txn| {
                let Scratch { key, value, .. } = scratch;
                let mut there = false;
                let modified = txn.modify(tree, key, value, waiter, |now, value| {
                    there = now.is_some();
                    choose(now, value)
                })?;
                let after = match modified.next {
                    Next::Stay => return Ok(there),
                    Next::Put => true,
                    Next::Delete => false,
                };
                if !self.typed.indexes.is_empty() {
                    self.change_entries(txn, scratch, modified.before(), after, waiter)?;
                }
                Ok(there)
            })
        })
    }

    /// Changes the row's entries: from its old value to the one in `scratch`, if the row stays.
    fn change_entries(
        &self,
        txn: &mut Txn<'_>,
        scratch: &mut Scratch,
        before: Option<&[u8]>,
        after: bool,
        waiter: &Waiter,
    ) -> Result<()> {
        let Scratch { key, value, entry, old_entry } = scratch;
        let format = self.typed.schema.row();
        let before = before.map(|value| format.open(value)).transpose()?;
        let after = after.then(|| format.open(value)).transpose()?;
        for (index, tree) in self.typed.indexes() {
            if let Some(before) = &before {
                index.entry_of(key, before, old_entry)?;
            }
            if let Some(after) = &after {
                index.entry_of(key, after, entry)?;
            }
            if before.is_some() && after.is_some() && old_entry == entry {
                continue;
            }
            if before.is_some() && !txn.change(tree, old_entry, Change::Delete, waiter)? {
                return Err(corrupt(index, "a row has no entry"));
            }
            if after.is_some() {
                add_entry(txn, index, tree, entry, waiter)?;
            }
        }
        Ok(())
    }
}

fn add_entry(
    txn: &mut Txn<'_>,
    index: &IndexFormat,
    tree: &Tree,
    entry: &[u8],
    waiter: &Waiter,
) -> Result<()> {
    if index.definition().unique
        && let Some(part) = index.unique_part(entry)?
        && !txn.claim_unique(tree, part, waiter)?
    {
        return Err(Error::DuplicateKey { index: index.definition().name.clone() });
    }
    match txn.change(tree, entry, Change::Insert(&[]), waiter)? {
        false => Ok(()),
        true => Err(corrupt(index, "there is an entry without a row")),
    }
}

pub(super) fn corrupt(index: &IndexFormat, what: &'static str) -> Error {
    Error::CorruptIndex { index: index.definition().name.clone(), what }
}
