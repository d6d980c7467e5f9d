//! Owned rows.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::error::RowError;
use super::schema::{ColumnId, Place, Schema};
use super::value::{Value, ValueRef};

/// A row of a table: read by column, and changed before it is written back.
///
/// ```
/// use std::sync::Arc;
/// use flifo_engine::row::{Column, ColumnType, Row, Schema};
///
/// let schema = Schema::builder()
///     .column(Column::new("id", ColumnType::U64))
///     .column(Column::new("town", ColumnType::Text))
///     .primary_key(["id"])
///     .build()?;
/// let (key, value) = schema.encode((7, "Oslo"))?;
/// let mut row = Row::new(&Arc::new(schema), &key, &value)?;
/// assert_eq!(row.get("town")?.as_text(), Some("Oslo"));
/// row.set("town", "Bergen")?;
/// assert_eq!(row.values()?, [7.into(), "Bergen".into()]);
/// # Ok::<(), flifo_engine::row::RowError>(())
/// ```
#[derive(Clone)]
pub struct Row {
    schema: Arc<Schema>,
    /// Key and value as they were stored, until a column is set.
    bytes: Vec<u8>,
    key_bytes: usize,
    /// All columns, once they were set, or one cannot be read where it lies.
    values: OnceLock<Vec<Value>>,
}

impl Row {
    /// Decodes a stored row.
    pub fn new(schema: &Arc<Schema>, key: &[u8], value: &[u8]) -> Result<Self, RowError> {
        schema.row().open(value)?;
        let mut bytes = Vec::with_capacity(key.len() + value.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Ok(Row { schema: Arc::clone(schema), bytes, key_bytes: key.len(), values: OnceLock::new() })
    }

    /// The schema of its table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The value of a column, by name or number.
    pub fn get(&self, column: impl ColumnId) -> Result<ValueRef<'_>, RowError> {
        let column = column.column_in(&self.schema)?;
        if let Some(values) = self.values.get() {
            return Ok(values[column].as_ref());
        }
        let (key, value) = self.bytes.split_at(self.key_bytes);
        match self.schema.place_at(column) {
            Place::Row(column) => self.schema.row().open(value)?.get(column),
            Place::Key(part) => match self.schema.key().peek(part, key)? {
                Some(value) => Ok(value),
                None => Ok(self.all()?[column].as_ref()),
            },
        }
    }

    /// Sets the value of a column. The table changes only when the row is written.
    pub fn set(&mut self, column: impl ColumnId, value: impl Into<Value>) -> Result<(), RowError> {
        let (column, value) = (column.column_in(&self.schema)?, value.into());
        self.schema.columns()[column].check(value.as_ref())?;
        self.all()?;
        if let Some(values) = self.values.get_mut() {
            values[column] = value;
        }
        Ok(())
    }

    /// The values of all columns.
    pub fn values(&self) -> Result<Vec<Value>, RowError> {
        self.all().map(<[Value]>::to_vec)
    }

    /// The values of all columns, decoded once.
    pub(crate) fn all(&self) -> Result<&[Value], RowError> {
        if self.values.get().is_none() {
            let (key, value) = self.bytes.split_at(self.key_bytes);
            let _ = self.values.set(self.schema.decode(key, value)?);
        }
        Ok(self.values.get().map_or(&[], Vec::as_slice))
    }
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.schema.columns().iter().enumerate();
        f.debug_map().entries(columns.map(|(at, column)| (column.name(), self.get(at)))).finish()
    }
}

impl PartialEq for Row {
    /// The same columns with the same values.
    fn eq(&self, other: &Self) -> bool {
        (self.schema.columns() == other.schema.columns()) && self.all() == other.all()
    }
}
