//! The schema of a table: its columns, its primary key, its indexes.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::convert::IntoKey;
use super::error::RowError;
use super::index::{Index, IndexFormat, KeyColumn};
use super::key::{Direction, KeyFormat};
use super::packed::RowFormat;
use super::types::ColumnType;
use super::value::{Value, ValueRef};
use super::{COLUMNS_MAX, INDEXES_MAX, KEY_COLUMNS_MAX, NAME_BYTES_MAX};

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: String,
    kind: ColumnType,
    nullable: bool,
    default: Option<Value>,
    auto_increment: bool,
}

impl Column {
    /// Creates a column that is never NULL and has no default.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        Column { name: name.into(), kind, nullable: false, default: None, auto_increment: false }
    }

    /// Allows NULL.
    pub fn nullable(self) -> Self {
        Column { nullable: true, ..self }
    }

    /// Sets the value that the column has in rows written before it was added. It applies to reads only: a new row
    /// needs a value for each column.
    pub fn default_value(self, value: impl Into<Value>) -> Self {
        Column { default: Some(value.into()), ..self }
    }

    /// Makes the column auto-increment: a row inserted with NULL there gets the next number, from 1 on. A table has at
    /// most one such column, of type u64 or i64, not nullable, and the first of the primary key or of an index.
    pub fn auto_increment(self) -> Self {
        Column { auto_increment: true, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the column is auto-increment.
    pub fn is_auto_increment(&self) -> bool {
        self.auto_increment
    }

    /// Its type.
    pub fn kind(&self) -> ColumnType {
        self.kind
    }

    /// Whether it may be NULL.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// Its value in rows written before it was added; `None` may mean NULL.
    pub fn default(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Its value in a row written before it was added; `None` if there cannot be such a row.
    pub(super) fn missing(&self) -> Option<ValueRef<'_>> {
        match &self.default {
            Some(value) => Some(value.as_ref()),
            None => self.nullable.then_some(ValueRef::Null),
        }
    }

    /// Whether it takes this value.
    pub(super) fn check(&self, value: ValueRef<'_>) -> Result<(), RowError> {
        let checked = match (self.kind, value) {
            (_, ValueRef::Null) if self.nullable => return Ok(()),
            (_, ValueRef::Null) => return Err(RowError::NotNullable { column: self.name.clone() }),
            (ColumnType::Text, ValueRef::Text(_)) | (ColumnType::Bytes, ValueRef::Bytes(_)) => return Ok(()),
            (kind, value) => kind.bits(value).map(drop),
        };
        checked.map_err(|misfit| RowError::misfit(misfit, &self.name, self.kind, value))
    }

    /// A format for the default alone, as it is stored.
    pub(super) fn default_format(&self) -> KeyFormat {
        let mut part = self.key_part(Direction::Ascending);
        part.nullable = false;
        KeyFormat::new(vec![part])
    }

    /// Checks the default, and normalizes it as storing and reading the schema would.
    fn settle_default(&mut self) -> Result<(), RowError> {
        let Some(default) = self.default.take() else {
            return Ok(());
        };
        self.check(default.as_ref())?;
        if default.is_null() {
            return Ok(());
        }
        let format = self.default_format();
        let stored = format.encode(&default).map_err(|error| match error {
            RowError::KeyTooLong { size, max } => {
                let of = format!("the default of the column '{}'", self.name);
                RowError::TooMany { of, things: "bytes", count: size, max }
            }
            other => other,
        })?;
        self.default = Some(format.get(0, &stored)?);
        Ok(())
    }
}

/// Where a column's values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the primary key: [`KeyFormat::get`] with this number.
    Key(usize),
    /// In the row: [`super::RowRef::get`] with this number.
    Row(usize),
}

/// A column, by its name or by its number in the table, from 0, which is faster.
pub trait ColumnId {
    /// Its number.
    ///
    /// # Errors
    /// [`RowError::UnknownColumn`], [`RowError::NoSuchColumn`].
    fn column_in(self, schema: &Schema) -> Result<usize, RowError>;
}

impl ColumnId for &str {
    fn column_in(self, schema: &Schema) -> Result<usize, RowError> {
        let at = schema.columns.iter().position(|known| known.name == self);
        at.ok_or_else(|| RowError::UnknownColumn { of: "a read".to_owned(), name: self.to_owned() })
    }
}

impl ColumnId for &String {
    fn column_in(self, schema: &Schema) -> Result<usize, RowError> {
        self.as_str().column_in(schema)
    }
}

impl ColumnId for usize {
    fn column_in(self, schema: &Schema) -> Result<usize, RowError> {
        let columns = schema.columns.len();
        if self < columns { Ok(self) } else { Err(RowError::NoSuchColumn { index: self, columns }) }
    }
}

/// A table's schema. See [`super`] for an example.
///
/// Schemas are values: a change returns a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
    primary: Vec<KeyColumn>,
    places: Vec<Place>,
    key: KeyFormat,
    row: RowFormat,
    indexes: Vec<IndexFormat>,
    auto_increment: Option<usize>,
}

/// Builds a [`Schema`]. Checks run in [`SchemaBuilder::build`].
#[derive(Debug, Clone, Default)]
pub struct SchemaBuilder {
    columns: Vec<Column>,
    primary: Vec<KeyColumn>,
    indexes: Vec<Index>,
}

impl SchemaBuilder {
    /// Adds a column.
    pub fn column(mut self, column: Column) -> Self {
        self.columns.push(column);
        self
    }

    /// Sets the columns of the primary key, the most significant first. They are not nullable.
    pub fn primary_key<C: Into<KeyColumn>>(mut self, columns: impl IntoIterator<Item = C>) -> Self {
        self.primary = columns.into_iter().map(C::into).collect();
        self
    }

    /// Adds a secondary index.
    pub fn index(mut self, index: Index) -> Self {
        self.indexes.push(index);
        self
    }

    /// Checks and returns the schema.
    pub fn build(self) -> Result<Schema, RowError> {
        let SchemaBuilder { mut columns, primary, indexes } = self;
        check_columns(&mut columns)?;
        if primary.is_empty() {
            return Err(RowError::NoPrimaryKey);
        }
        let primary_at = positions("the primary key", &primary, &columns)?;
        if let Some(&at) = primary_at.iter().find(|&&at| columns[at].nullable) {
            return Err(RowError::NullableKey { name: columns[at].name.clone() });
        }
        check_indexes(&indexes)?;
        let auto_increment = numbered(&columns, &primary, &indexes)?;
        let index = |index| IndexFormat::new(index, &columns, &primary, &primary_at);
        let indexes = indexes.into_iter().map(index).collect::<Result<_, _>>()?;
        let parts = primary.iter().zip(&primary_at).map(|(key, &at)| columns[at].key_part(key.direction));
        let key = KeyFormat::new(parts.collect());
        let mut in_row = Vec::new();
        let place = |(at, column): (usize, &Column)| match primary_at.iter().position(|&key| key == at) {
            Some(part) => Place::Key(part),
            None => {
                in_row.push(column.clone());
                Place::Row(in_row.len() - 1)
            }
        };
        let places = columns.iter().enumerate().map(place).collect();
        Ok(Schema { primary, places, key, row: RowFormat::new(in_row)?, indexes, auto_increment, columns })
    }
}

fn check_name(of: &'static str, name: &str) -> Result<(), RowError> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        size => Err(RowError::BadName { of, size, max: NAME_BYTES_MAX }),
    }
}

fn at_most(max: usize, count: usize, of: &str, things: &'static str) -> Result<(), RowError> {
    match count <= max {
        true => Ok(()),
        false => Err(RowError::TooMany { of: of.to_owned(), things, count, max }),
    }
}

fn check_columns(columns: &mut [Column]) -> Result<(), RowError> {
    at_most(COLUMNS_MAX, columns.len(), "the table", "columns")?;
    for column in &mut *columns {
        check_name("a column", &column.name)?;
        column.settle_default()?;
    }
    let mut names = HashSet::new();
    match columns.iter().find(|column| !names.insert(column.name())) {
        None => Ok(()),
        Some(again) => Err(RowError::DuplicateColumn { name: again.name.clone() }),
    }
}

fn check_indexes(indexes: &[Index]) -> Result<(), RowError> {
    at_most(INDEXES_MAX, indexes.len(), "the table", "indexes")?;
    indexes.iter().try_for_each(|index| check_name("an index", &index.name))?;
    let mut names = HashSet::new();
    match indexes.iter().find(|index| !names.insert(&index.name)) {
        None => Ok(()),
        Some(again) => Err(RowError::DuplicateIndex { name: again.name.clone() }),
    }
}

/// Which column the table numbers.
fn numbered(columns: &[Column], primary: &[KeyColumn], indexes: &[Index]) -> Result<Option<usize>, RowError> {
    let mut all = columns.iter().enumerate().filter(|(_, column)| column.auto_increment);
    let Some((at, column)) = all.next() else { return Ok(None) };
    let bad = |what| RowError::BadAutoIncrement { column: column.name.clone(), what };
    if all.next().is_some() {
        return Err(bad("another column is, too; declare one only"));
    }
    if column.nullable || !matches!(column.kind, ColumnType::U64 | ColumnType::I64) {
        return Err(bad("it is nullable, or of another type; make it a u64 or an i64 that is not nullable"));
    }
    let first = |key: &[KeyColumn]| key.first().is_some_and(|first| first.name == column.name);
    match first(primary) || indexes.iter().any(|index| first(&index.columns)) {
        true => Ok(Some(at)),
        false => Err(bad("no key begins with it; make it the first of the primary key or of an index")),
    }
}

/// Where the columns of a key are among the table's.
pub(super) fn positions(of: &str, key: &[KeyColumn], columns: &[Column]) -> Result<Vec<usize>, RowError> {
    at_most(KEY_COLUMNS_MAX, key.len(), of, "columns")?;
    let mut positions = Vec::with_capacity(key.len());
    for KeyColumn { name, .. } in key {
        let unknown = || RowError::UnknownColumn { of: of.to_owned(), name: name.clone() };
        let at = columns.iter().position(|column| column.name == *name).ok_or_else(unknown)?;
        if positions.contains(&at) {
            return Err(RowError::RepeatedColumn { of: of.to_owned(), name: name.clone() });
        }
        positions.push(at);
    }
    Ok(positions)
}

impl Schema {
    /// Starts a builder.
    pub fn builder() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    fn to_builder(&self) -> SchemaBuilder {
        let indexes = self.indexes.iter().map(|index| index.definition().clone()).collect();
        SchemaBuilder { columns: self.columns.clone(), primary: self.primary.clone(), indexes }
    }

    /// The table's columns, in the order of the values of a row.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns of the primary key, by name.
    pub fn primary_key(&self) -> &[KeyColumn] {
        &self.primary
    }

    /// The format of primary keys.
    pub fn key(&self) -> &KeyFormat {
        &self.key
    }

    /// The format of rows: the columns that are not in the primary key.
    pub fn row(&self) -> &RowFormat {
        &self.row
    }

    /// The secondary indexes.
    pub fn indexes(&self) -> &[IndexFormat] {
        &self.indexes
    }

    /// The number of the auto-increment column, if there is one.
    pub fn auto_increment(&self) -> Option<usize> {
        self.auto_increment
    }

    /// The secondary index with that name.
    pub fn index(&self, name: &str) -> Result<&IndexFormat, RowError> {
        let index = self.indexes.iter().find(|index| index.definition().name == name);
        index.ok_or_else(|| RowError::UnknownIndex { name: name.to_owned() })
    }

    /// Where the values of a column are stored, for reading it from many rows.
    pub fn place(&self, column: impl ColumnId) -> Result<Place, RowError> {
        column.column_in(self).map(|at| self.places[at])
    }

    pub(super) fn place_at(&self, column: usize) -> Place {
        self.places[column]
    }

    /// Encodes a row, a value for each column of the table, as key and value for the table's tree.
    pub fn encode<'a>(&self, row: impl IntoKey<'a>) -> Result<(Vec<u8>, Vec<u8>), RowError> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.encode_into(row.into_key().as_ref(), &mut key, &mut value)?;
        Ok((key, value))
    }

    /// Replaces `key` and `value` by the result of [`Schema::encode`].
    pub fn encode_into(
        &self,
        row: &[ValueRef<'_>],
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        key.clear();
        value.clear();
        if row.len() != self.columns.len() {
            return Err(RowError::WrongCount { of: "a row", expected: self.columns.len(), found: row.len() });
        }
        let mut in_key: SmallVec<[ValueRef<'_>; KEY_COLUMNS_MAX]> =
            SmallVec::from_elem(ValueRef::Null, self.key.parts().len());
        let mut in_row: SmallVec<[ValueRef<'_>; 16]> = SmallVec::new();
        for (place, &value) in self.places.iter().zip(row) {
            match *place {
                Place::Key(part) => in_key[part] = value,
                Place::Row(_) => in_row.push(value),
            }
        }
        self.key.encode_into(in_key.as_slice(), key)?;
        self.row.encode_into(in_row.as_slice(), value)
    }

    /// Decodes the values of a row, in the order of the table's columns.
    pub fn decode(&self, key: &[u8], row: &[u8]) -> Result<Vec<Value>, RowError> {
        let mut in_key = self.key.decode(key)?;
        let in_row = self.row.open(row)?;
        let value = |place: &Place| match *place {
            Place::Key(part) => Ok(std::mem::replace(&mut in_key[part], Value::Null)),
            Place::Row(column) => in_row.get(column).map(ValueRef::to_value),
        };
        self.places.iter().map(value).collect()
    }

    /// Decodes one column of a row.
    pub fn get(&self, column: &str, key: &[u8], row: &[u8]) -> Result<Value, RowError> {
        match self.place(column)? {
            Place::Key(part) => self.key.get(part, key),
            Place::Row(column) => self.row.open(row)?.get(column).map(ValueRef::to_value),
        }
    }

    /// Returns the schema with one more column, at the end. Existing rows stay as they are, and have its default.
    ///
    /// ```
    /// use flifo_engine::row::{Column, ColumnType, Schema};
    ///
    /// let old = Schema::builder().column(Column::new("id", ColumnType::U64)).primary_key(["id"]).build()?;
    /// let (key, row) = old.encode(7)?;
    /// let new = old.with_column(Column::new("visits", ColumnType::U32).default_value(0))?;
    /// assert_eq!(new.decode(&key, &row)?, [7.into(), 0.into()]);
    /// # Ok::<(), flifo_engine::row::RowError>(())
    /// ```
    pub fn with_column(&self, column: Column) -> Result<Self, RowError> {
        let schema = self.to_builder().column(column).build()?;
        match schema.columns.last() {
            Some(added) if added.missing().is_none() => {
                Err(RowError::AddedWithoutDefault { name: added.name.clone() })
            }
            _ => Ok(schema),
        }
    }

    /// Returns the schema with one more index.
    pub fn with_index(&self, index: Index) -> Result<Self, RowError> {
        self.to_builder().index(index).build()
    }

    /// Returns the schema without an index.
    pub fn without_index(&self, name: &str) -> Result<Self, RowError> {
        self.index(name)?;
        let mut builder = self.to_builder();
        builder.indexes.retain(|index| index.name != name);
        builder.build()
    }
}
