//! Errors of schemas, keys and rows.

use super::types::{ColumnType, Misfit};
use super::value::ValueRef;

/// An invalid schema, invalid values for a key or a row, or corrupt bytes of either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RowError {
    /// A name that is empty or too long.
    #[error("{of} name of {size} bytes is not allowed; use 1 to {max} bytes")]
    BadName {
        /// The kind of name, as in "a column".
        of: &'static str,
        /// Its length, bytes.
        size: usize,
        /// The maximum, bytes.
        max: usize,
    },
    /// Two columns of one name.
    #[error("there are two columns '{name}'; rename one")]
    DuplicateColumn {
        /// The name.
        name: String,
    },
    /// Two indexes of one name.
    #[error("there are two indexes '{name}'; rename one")]
    DuplicateIndex {
        /// The name.
        name: String,
    },
    /// A table without a primary key.
    #[error("the table has no primary key; name the columns that tell its rows apart")]
    NoPrimaryKey,
    /// An index without columns.
    #[error("the index '{index}' has no columns; name at least one")]
    EmptyIndex {
        /// The index.
        index: String,
    },
    /// A key, an index or a caller names a column that the table does not have.
    #[error("{of} names a column '{name}', which the table does not have; add it, or check the name")]
    UnknownColumn {
        /// What names it, as in "the primary key".
        of: String,
        /// The column.
        name: String,
    },
    /// A caller names an index that the table does not have.
    #[error("the table has no index '{name}'; add it, or check the name")]
    UnknownIndex {
        /// The index.
        name: String,
    },
    /// A column is read from an entry of an index that does not have it.
    #[error(
        "the index '{index}' does not have the column '{column}'; read the row, or add the column to the index"
    )]
    NotInIndex {
        /// The column.
        column: String,
        /// The index.
        index: String,
    },
    /// A key has a column twice.
    #[error("{of} has the column '{name}' twice; name it once")]
    RepeatedColumn {
        /// What has it, as in "the primary key".
        of: String,
        /// The column.
        name: String,
    },
    /// A nullable column in the primary key.
    #[error(
        "the column '{name}' is in the primary key and nullable; make it not nullable, or use another key"
    )]
    NullableKey {
        /// The column.
        name: String,
    },
    /// A column that cannot be numbered by its table.
    #[error("the column '{column}' cannot be auto-increment: {what}")]
    BadAutoIncrement {
        /// The column.
        column: String,
        /// Why not, and what to do.
        what: &'static str,
    },
    /// More of something than there can be.
    #[error("{of} has {count} {things}, at most {max} are allowed; use fewer")]
    TooMany {
        /// What has them, as in "the table".
        of: String,
        /// The kind of things that are too many, as in "columns".
        things: &'static str,
        /// Their number.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A column added to a table that rows without it could not be read with.
    #[error(
        "the column '{name}' is added to a table that may have rows; make it nullable, or give it a default"
    )]
    AddedWithoutDefault {
        /// The column.
        name: String,
    },
    /// A value of another type than its column's.
    #[error("the column '{column}' takes {expected}, not {found}; give a value of that type")]
    WrongType {
        /// The column.
        column: String,
        /// Its type.
        expected: ColumnType,
        /// The given value, in words.
        found: &'static str,
    },
    /// An integer that its column has no room for.
    #[error("{value} is out of range for the column '{column}', which takes {kind}: {}; use a wider type", .kind.range())]
    OutOfRange {
        /// The column.
        column: String,
        /// Its type.
        kind: ColumnType,
        /// The number.
        value: i128,
    },
    /// NULL for a column that is not nullable.
    #[error("the column '{column}' is not nullable; give it a value, or declare it nullable")]
    NotNullable {
        /// The column.
        column: String,
    },
    /// The number of values differs from the number of columns.
    #[error("{found} values given for {of} of {expected} columns; give one for each")]
    WrongCount {
        /// The kind of tuple, as in "a key".
        of: &'static str,
        /// The number of columns.
        expected: usize,
        /// The number of values.
        found: usize,
    },
    /// A key longer than keys can be.
    #[error(
        "a key of {size} bytes is too long: at most {max} once encoded; shorten its values, or leave out a column"
    )]
    KeyTooLong {
        /// Its length, bytes.
        size: usize,
        /// The maximum, bytes.
        max: usize,
    },
    /// A row longer than rows can be.
    #[error("a row of {size} bytes is too long: at most {max}; store the large values elsewhere")]
    RowTooLong {
        /// Its length, bytes.
        size: usize,
        /// The maximum, bytes.
        max: usize,
    },
    /// A column's number that the table, the key or the row does not have.
    #[error("there is no column {index} among {columns}, counted from 0; check the number")]
    NoSuchColumn {
        /// The number.
        index: usize,
        /// The number of columns.
        columns: usize,
    },
    /// A row that has columns the schema does not know yet.
    #[error("the row has {found} columns, its schema {columns}; read it with the schema it was written with")]
    NewerRow {
        /// The row's columns outside of the key.
        found: usize,
        /// The schema's.
        columns: usize,
    },
    /// Written by another version of the format.
    #[error(
        "{of} has format version {found}, this program supports {supported}; use the program that wrote it"
    )]
    Version {
        /// The object that was read, as in "the row".
        of: &'static str,
        /// Its version.
        found: u8,
        /// The version this program reads and writes.
        supported: u8,
    },
    /// The bytes are corrupt, or belong to another table.
    #[error(
        "{of} is corrupt at byte {at}: {what}; check that it is read with its own schema, or restore the data from a copy"
    )]
    Corrupt {
        /// The object that was read, as in "the key".
        of: &'static str,
        /// Where, bytes from the beginning.
        at: usize,
        /// What does not fit.
        what: &'static str,
    },
    /// A schema whose bytes are sound, but which violates the rules for schemas.
    #[error("the stored schema does not hold together: {what}; restore the data from a copy")]
    CorruptSchema {
        /// What does not fit.
        what: String,
    },
}

impl RowError {
    /// Why `value` does not go into the column.
    pub(super) fn misfit(misfit: Misfit, column: &str, kind: ColumnType, value: ValueRef<'_>) -> Self {
        let column = column.to_owned();
        match (misfit, value.integer()) {
            (Misfit::Range, Some(value)) => RowError::OutOfRange { column, kind, value },
            _ => RowError::WrongType { column, expected: kind, found: value.describe() },
        }
    }
}
