//! Rows and index entries that are read in place.

use std::cell::OnceCell;

use super::error::RowError;
use super::index::IndexFormat;
use super::key::KeyFormat;
use super::packed::RowRef;
use super::schema::{ColumnId, Place, Schema};
use super::value::{Value, ValueRef};

/// The columns of a key. Columns that cannot be read in place are copied once.
struct KeyView<'a> {
    format: &'a KeyFormat,
    bytes: &'a [u8],
    copied: OnceCell<Vec<Value>>,
}

impl<'a> KeyView<'a> {
    fn new(format: &'a KeyFormat, bytes: &'a [u8]) -> Self {
        KeyView { format, bytes, copied: OnceCell::new() }
    }

    fn get(&self, part: usize) -> Result<ValueRef<'_>, RowError> {
        if let Some(value) = self.format.peek(part, self.bytes)? {
            return Ok(value);
        }
        if self.copied.get().is_none() {
            let _ = self.copied.set(self.format.decode(self.bytes)?);
        }
        Ok(self.copied.get().map_or(ValueRef::Null, |values| values[part].as_ref()))
    }
}

/// A row that a scan visits. Columns are decoded when they are read.
pub struct RowView<'a> {
    schema: &'a Schema,
    key: KeyView<'a>,
    row: RowRef<'a>,
}

impl<'a> RowView<'a> {
    /// Wraps a stored row.
    pub fn new(schema: &'a Schema, key: &'a [u8], value: &'a [u8]) -> Result<Self, RowError> {
        Ok(RowView { schema, key: KeyView::new(schema.key(), key), row: schema.row().open(value)? })
    }

    /// The value of a column, by name or number.
    pub fn get(&self, column: impl ColumnId) -> Result<ValueRef<'_>, RowError> {
        match self.schema.place(column)? {
            Place::Key(part) => self.key.get(part),
            Place::Row(column) => self.row.get(column),
        }
    }

    /// The row's columns that are not in the primary key.
    pub fn row(&self) -> &RowRef<'a> {
        &self.row
    }

    /// The values of all columns.
    pub fn values(&self) -> Result<Vec<Value>, RowError> {
        (0..self.schema.columns().len()).map(|column| self.get(column).map(ValueRef::to_value)).collect()
    }

    /// Key and value as stored.
    pub fn bytes(&self) -> (&'a [u8], &'a [u8]) {
        (self.key.bytes, self.row.bytes())
    }
}

/// An index entry that a scan visits: the index's columns, and those of the primary key.
pub struct EntryView<'a> {
    schema: &'a Schema,
    index: &'a IndexFormat,
    key: KeyView<'a>,
}

impl<'a> EntryView<'a> {
    /// Wraps a stored entry.
    pub fn new(schema: &'a Schema, index: &'a IndexFormat, entry: &'a [u8]) -> Self {
        EntryView { schema, index, key: KeyView::new(index.key(), entry) }
    }

    /// The value of a column, by name or by its number in the table.
    ///
    /// # Errors
    /// [`RowError::NotInIndex`] if the index does not have it.
    pub fn get(&self, column: impl ColumnId) -> Result<ValueRef<'_>, RowError> {
        let at = column.column_in(self.schema)?;
        let part = self.index.columns().iter().position(|&column| column == at);
        let part = part.ok_or_else(|| RowError::NotInIndex {
            column: self.schema.columns()[at].name().to_owned(),
            index: self.index.definition().name.clone(),
        })?;
        self.key.get(part)
    }

    /// The entry as stored.
    pub fn bytes(&self) -> &'a [u8] {
        self.key.bytes
    }
}
