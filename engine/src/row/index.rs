//! Secondary indexes: separate trees, whose keys are entries and whose values are empty.
//!
//! An entry is a key of the index's columns, followed by the columns of the primary key that are not among them. So
//! every entry is unique, is ordered by the index's columns, and leads to its row. The index's columns alone are a
//! prefix of it, which a unique index allows only once.

use super::KEY_BYTES_MAX;
use super::convert::IntoKey;
use super::error::RowError;
use super::key::{Direction, KeyFormat, KeyPart};
use super::ordered::append;
use super::packed::RowRef;
use super::schema::{Column, positions};
use super::value::ValueRef;

/// A column of a primary key or an index, by name. A name alone is ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyColumn {
    /// The column's name.
    pub name: String,
    /// The sort direction.
    pub direction: Direction,
}

/// An ascending column.
pub fn asc(name: impl Into<String>) -> KeyColumn {
    KeyColumn { name: name.into(), direction: Direction::Ascending }
}

/// A descending column.
pub fn desc(name: impl Into<String>) -> KeyColumn {
    KeyColumn { name: name.into(), direction: Direction::Descending }
}

impl From<&str> for KeyColumn {
    fn from(name: &str) -> Self {
        asc(name)
    }
}

impl From<String> for KeyColumn {
    fn from(name: String) -> Self {
        asc(name)
    }
}

/// The definition of a secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Its name, unique in its table.
    pub name: String,
    /// Its columns, the most significant first.
    pub columns: Vec<KeyColumn>,
    /// Whether two rows may not have the same values in its columns. Rows with a NULL among them may, as in SQL.
    pub unique: bool,
}

impl Index {
    /// Creates an index that allows the same values in many rows.
    pub fn new<C: Into<KeyColumn>>(name: impl Into<String>, columns: impl IntoIterator<Item = C>) -> Self {
        Index { name: name.into(), columns: columns.into_iter().map(C::into).collect(), unique: false }
    }

    /// Creates an index that allows the same values in one row only.
    pub fn unique<C: Into<KeyColumn>>(name: impl Into<String>, columns: impl IntoIterator<Item = C>) -> Self {
        Index { unique: true, ..Index::new(name, columns) }
    }
}

/// Builds the entries of an index from rows.
///
/// ```
/// use flifo_engine::row::{Column, ColumnType, Index, Schema};
///
/// let users = Schema::builder()
///     .column(Column::new("id", ColumnType::U64))
///     .column(Column::new("mail", ColumnType::Text).nullable())
///     .primary_key(["id"])
///     .index(Index::unique("by_mail", ["mail"]))
///     .build()?;
/// let by_mail = users.index("by_mail")?;
///
/// let (one, other) = (by_mail.encode((1, "a@b.c"))?, by_mail.encode((2, "a@b.c"))?);
/// assert_ne!(one, other);
/// // Before `other` is inserted, a scan of this range shows that it may not be.
/// let unique_part = by_mail.unique_part(&other)?.expect("it has no NULL");
/// assert!(one.starts_with(unique_part));
/// assert_eq!(by_mail.unique_part(&by_mail.encode((3, None::<&str>))?)?, None);
/// # Ok::<(), flifo_engine::row::RowError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFormat {
    definition: Index,
    entry: KeyFormat,
    /// For each column of an entry, its position among the table's.
    columns: Vec<usize>,
    /// For each column of the primary key, its position in an entry, and whether it orders the other way there.
    primary: Vec<(usize, bool)>,
    /// For each column of an entry, where its value is in a stored row.
    sources: Vec<Source>,
    /// The table's.
    primary_format: KeyFormat,
    /// How many columns the table has.
    table_columns: usize,
}

/// Where a stored row has the value of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// In its key, at this part; whether that orders the other way.
    Key { part: usize, turned: bool },
    /// In the row, as this column.
    Row(usize),
}

impl IndexFormat {
    /// The index of a table whose primary key has the columns in these positions.
    pub(super) fn new(
        definition: Index,
        columns: &[Column],
        primary: &[KeyColumn],
        primary_at: &[usize],
    ) -> Result<Self, RowError> {
        if definition.columns.is_empty() {
            return Err(RowError::EmptyIndex { index: definition.name });
        }
        let mut at = positions(&format!("the index '{}'", definition.name), &definition.columns, columns)?;
        let mut key_columns: Vec<&KeyColumn> = definition.columns.iter().collect();
        let mut primary_parts = Vec::with_capacity(primary.len());
        for (key_column, &column) in primary.iter().zip(primary_at) {
            let part = at.iter().position(|&there| there == column).unwrap_or_else(|| {
                at.push(column);
                key_columns.push(key_column);
                at.len() - 1
            });
            primary_parts.push((part, key_columns[part].direction != key_column.direction));
        }
        let parts: Vec<KeyPart> =
            key_columns.iter().zip(&at).map(|(key, &at)| columns[at].key_part(key.direction)).collect();
        let in_primary = primary.iter().zip(primary_at).map(|(key, &at)| columns[at].key_part(key.direction));
        let primary_format = KeyFormat::new(in_primary.collect());
        let source =
            |(part, &column): (&KeyPart, &usize)| match primary_at.iter().position(|&at| at == column) {
                Some(of_key) => {
                    let turned = part.direction != primary_format.parts()[of_key].direction;
                    Source::Key { part: of_key, turned }
                }
                None => Source::Row(column - primary_at.iter().filter(|&&at| at < column).count()),
            };
        Ok(IndexFormat {
            sources: parts.iter().zip(&at).map(source).collect(),
            primary_format,
            entry: KeyFormat::new(parts),
            columns: at,
            primary: primary_parts,
            table_columns: columns.len(),
            definition,
        })
    }

    /// The definition: name, columns, and whether it is unique.
    pub fn definition(&self) -> &Index {
        &self.definition
    }

    /// The format of entries, for ranges over them and for reading columns from them.
    pub fn key(&self) -> &KeyFormat {
        &self.entry
    }

    /// For each column of an entry, its position among the table's columns.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The entry of a row, given as a value for each column of the table.
    pub fn encode<'a>(&self, row: impl IntoKey<'a>) -> Result<Vec<u8>, RowError> {
        let row = row.into_key();
        let row = row.as_ref();
        if row.len() != self.table_columns {
            return Err(RowError::WrongCount { of: "a row", expected: self.table_columns, found: row.len() });
        }
        let values: Vec<ValueRef<'a>> = self.columns.iter().map(|&at| row[at]).collect();
        self.entry.encode(values.as_slice())
    }

    /// Replaces `entry` by the entry of a row, given as it is stored.
    pub fn entry_of(&self, key: &[u8], row: &RowRef<'_>, entry: &mut Vec<u8>) -> Result<(), RowError> {
        entry.clear();
        let spans = self.primary_format.spans(key)?;
        for (part, source) in self.entry.parts().iter().zip(&self.sources) {
            match *source {
                // Both encode a column in the same way, except that the direction may invert every bit.
                Source::Key { part, turned } => {
                    let turn = if turned { 0xff } else { 0 };
                    entry.extend(spans[part].iter().map(|byte| byte ^ turn));
                }
                Source::Row(column) => append(part, row.get(column)?, entry)?,
            }
        }
        match entry.len() {
            0..=KEY_BYTES_MAX => Ok(()),
            size => Err(RowError::KeyTooLong { size, max: KEY_BYTES_MAX }),
        }
    }

    /// The prefix that only one entry of a unique index may have; `None` if a column of it is NULL, which equals
    /// nothing.
    pub fn unique_part<'e>(&self, entry: &'e [u8]) -> Result<Option<&'e [u8]>, RowError> {
        let (part, any_null) = self.entry.prefix_of(self.definition.columns.len(), entry)?;
        Ok((!any_null).then_some(part))
    }

    /// The primary key of an entry's row.
    pub fn primary_key(&self, entry: &[u8]) -> Result<Vec<u8>, RowError> {
        let mut key = Vec::with_capacity(entry.len());
        self.primary_key_into(entry, &mut key)?;
        Ok(key)
    }

    /// Replaces `key` by the primary key of an entry's row.
    pub fn primary_key_into(&self, entry: &[u8], key: &mut Vec<u8>) -> Result<(), RowError> {
        let spans = self.entry.spans(entry)?;
        key.clear();
        for &(part, turned) in &self.primary {
            // Both encode a column in the same way, except that the direction may invert every bit.
            let turn = if turned { 0xff } else { 0 };
            key.extend(spans[part].iter().map(|byte| byte ^ turn));
        }
        Ok(())
    }
}

impl Column {
    /// The column as one of a key.
    pub(super) fn key_part(&self, direction: Direction) -> KeyPart {
        KeyPart { name: self.name().to_owned(), kind: self.kind(), nullable: self.is_nullable(), direction }
    }
}
