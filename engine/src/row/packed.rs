//! Packed rows: the columns that are not in the key.
//!
//! ```text
//! offset size
//!      0    1  format version: 1
//!      1    1  w, bytes of an end in the table of ends: 1, 2 or 4, the least that will do
//!      2    2  n, columns of the row
//!      4    b  a bit per column, lowest first: 1 NULL; b is n/8 rounded up, the bits left over are 0
//!    ...       fixed part: the columns of types with a width, in their order, little-endian; zeros for NULL
//!    ...  w*v  table of ends: for each of the v columns of bytes or text, where it ends in the variable part
//!    ...       variable part: the bytes of these columns, one after the other; none for NULL
//! ```
//!
//! A column's position in the fixed part and in the table depends only on the schema, so reading a column reads no
//! other. Columns that were added to the table after the row was written are missing at its end, and read as their
//! defaults.
//!
//! Equal values have equal bytes, except floats, which keep all their bits.

use super::COLUMNS_MAX;
use super::convert::IntoKey;
use super::error::RowError;
use super::schema::Column;
use super::value::ValueRef;

pub(super) const VERSION: u8 = 1;
const HEADER_BYTES: usize = 4;
/// Ends have at most four bytes; the little before them makes no difference.
const ROW_BYTES_MAX: usize = u32::MAX as usize;

/// Packs the columns that are not in the key into a row.
///
/// ```
/// use flifo_engine::row::{Column, ColumnType, RowFormat};
///
/// let town = Column::new("town", ColumnType::Text);
/// let born = Column::new("born", ColumnType::I32).nullable();
/// let row = RowFormat::new(vec![town.clone(), born.clone()])?.encode(("Oslo", 1984))?;
///
/// // A column added later does not make the rows before it unreadable.
/// let visits = Column::new("visits", ColumnType::U32).default_value(0);
/// let format = RowFormat::new(vec![town, born, visits])?;
/// let row = format.open(&row)?;
/// assert_eq!(row.get(1)?.as_i64(), Some(1984));
/// assert_eq!(row.get(2)?.as_u64(), Some(0));
/// # Ok::<(), flifo_engine::row::RowError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFormat {
    columns: Vec<Column>,
    /// For each column, and for the end: what comes before it.
    before: Vec<Before>,
}

/// What the columns before one take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Before {
    /// Bytes of the fixed part.
    fixed_bytes: usize,
    /// Columns of the variable part.
    variable: usize,
}

impl Before {
    fn then(self, column: &Column) -> Self {
        match column.kind().width() {
            Some(width) => Before { fixed_bytes: self.fixed_bytes + width, ..self },
            None => Before { variable: self.variable + 1, ..self },
        }
    }
}

/// Where the parts of a row begin.
#[derive(Debug, Clone, Copy)]
struct Parts {
    fixed: usize,
    ends: usize,
    variable: usize,
}

/// Bytes of an end, if the variable part has `bytes`.
fn end_bytes(bytes: usize) -> usize {
    match bytes {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    }
}

impl RowFormat {
    /// Creates the format of rows with these columns, at most [`COLUMNS_MAX`].
    pub fn new(columns: Vec<Column>) -> Result<Self, RowError> {
        if columns.len() > COLUMNS_MAX {
            let (count, max) = (columns.len(), COLUMNS_MAX);
            return Err(RowError::TooMany { of: "the row".into(), things: "columns", count, max });
        }
        let mut before = vec![Before::default()];
        for column in &columns {
            if let Some(value) = column.default() {
                column.check(value.as_ref())?;
            }
            before.push(before[before.len() - 1].then(column));
        }
        Ok(RowFormat { columns, before })
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn parts(&self, columns: usize, end_bytes: usize) -> Parts {
        let before = self.before[columns];
        let fixed = HEADER_BYTES + columns.div_ceil(8);
        let ends = fixed + before.fixed_bytes;
        Parts { fixed, ends, variable: ends + end_bytes * before.variable }
    }

    /// Encodes a value for each column as a row.
    pub fn encode<'a>(&self, values: impl IntoKey<'a>) -> Result<Vec<u8>, RowError> {
        let mut row = Vec::new();
        self.encode_into(values, &mut row)?;
        Ok(row)
    }

    /// Appends the row of a value for each column to `row`, or nothing after an error.
    pub fn encode_into<'a>(&self, values: impl IntoKey<'a>, row: &mut Vec<u8>) -> Result<(), RowError> {
        let values = values.into_key();
        let values = values.as_ref();
        let columns = self.columns.len();
        if values.len() != columns {
            return Err(RowError::WrongCount { of: "a row", expected: columns, found: values.len() });
        }
        let variable_bytes = self.variable_bytes(values)?;
        let end_bytes = end_bytes(variable_bytes);
        let parts = self.parts(columns, end_bytes);
        let begin = row.len();
        row.resize(begin + parts.variable, 0);
        row.reserve(variable_bytes);
        row[begin] = VERSION;
        row[begin + 1] = end_bytes as u8;
        row[begin + 2..begin + 4].copy_from_slice(&(columns as u16).to_le_bytes());
        let mut end = 0;
        for (index, (column, value)) in self.columns.iter().zip(values).enumerate() {
            let before = self.before[index];
            if value.is_null() {
                row[begin + HEADER_BYTES + index / 8] |= 1 << (index % 8);
            }
            if let Some(width) = column.kind().width() {
                // NULL has no bits, and leaves the zeros that are there.
                if let Ok(bits) = column.kind().bits(*value) {
                    let at = begin + parts.fixed + before.fixed_bytes;
                    row[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
                }
            } else {
                let bytes = variable(*value).unwrap_or_default();
                row.extend_from_slice(bytes);
                end += bytes.len();
                let at = begin + parts.ends + before.variable * end_bytes;
                row[at..at + end_bytes].copy_from_slice(&end.to_le_bytes()[..end_bytes]);
            }
        }
        Ok(())
    }

    /// How much the variable part takes. All that can be wrong with the values is found here.
    fn variable_bytes(&self, values: &[ValueRef<'_>]) -> Result<usize, RowError> {
        let mut size = 0_usize;
        for (column, &value) in self.columns.iter().zip(values) {
            column.check(value)?;
            size = size.saturating_add(variable(value).map_or(0, <[u8]>::len));
        }
        match size <= ROW_BYTES_MAX {
            true => Ok(size),
            false => Err(RowError::RowTooLong { size, max: ROW_BYTES_MAX }),
        }
    }

    /// Opens a row for reading. Checks its structure; columns are checked when they are read.
    pub fn open<'a>(&'a self, bytes: &'a [u8]) -> Result<RowRef<'a>, RowError> {
        let &[version, end_bytes, low, high] =
            bytes.first_chunk().ok_or_else(|| corrupt(bytes.len(), "it ends within its header"))?;
        if version != VERSION {
            return Err(RowError::Version { of: "the row", found: version, supported: VERSION });
        }
        let columns = usize::from(u16::from_le_bytes([low, high]));
        if columns > self.columns.len() {
            return Err(RowError::NewerRow { found: columns, columns: self.columns.len() });
        }
        let end_bytes = usize::from(end_bytes);
        let parts = self.parts(columns, end_bytes);
        let Some(variable) = bytes.get(parts.variable..) else {
            return Err(corrupt(bytes.len(), "it ends before its columns do"));
        };
        if end_bytes != self::end_bytes(variable.len()) {
            return Err(corrupt(1, "ends of this width do not belong to a row of this length"));
        }
        let row = RowRef { format: self, bytes, columns, end_bytes, parts };
        if row.end_before(self.before[columns].variable)? != variable.len() {
            return Err(corrupt(parts.variable, "its last column does not end where the row does"));
        }
        if !columns.is_multiple_of(8) && bytes[parts.fixed - 1] >> (columns % 8) != 0 {
            return Err(corrupt(parts.fixed - 1, "columns are NULL that it does not have"));
        }
        Ok(row)
    }
}

/// The bytes that a value has in the variable part.
fn variable(value: ValueRef<'_>) -> Option<&[u8]> {
    match value {
        ValueRef::Bytes(bytes) => Some(bytes),
        ValueRef::Text(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// A row's bytes, for reading columns.
#[derive(Debug, Clone, Copy)]
pub struct RowRef<'a> {
    format: &'a RowFormat,
    bytes: &'a [u8],
    columns: usize,
    end_bytes: usize,
    parts: Parts,
}

impl<'a> RowRef<'a> {
    /// The row as it is stored.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The number of columns that were written; later ones were added to the table afterwards.
    pub fn columns_written(&self) -> usize {
        self.columns
    }

    /// The value of a column, counted from 0 among the columns outside the key. Reads no other column.
    pub fn get(&self, column: usize) -> Result<ValueRef<'a>, RowError> {
        let columns = self.format.columns.len();
        let definition =
            self.format.columns.get(column).ok_or(RowError::NoSuchColumn { index: column, columns })?;
        if column >= self.columns {
            return definition.missing().ok_or_else(|| corrupt(2, "it lacks columns that have no default"));
        }
        let at_null = HEADER_BYTES + column / 8;
        if self.bytes[at_null] >> (column % 8) & 1 == 1 {
            return match definition.is_nullable() {
                true => Ok(ValueRef::Null),
                false => Err(corrupt(at_null, "a column is NULL that is not nullable")),
            };
        }
        let before = self.format.before[column];
        let Some(width) = definition.kind().width() else {
            return self.variable(definition, before.variable);
        };
        let at = self.parts.fixed + before.fixed_bytes;
        let bytes = &self.bytes[at..at + width];
        let bits = bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        definition.kind().value_of(bits).ok_or_else(|| corrupt(at, "no value is written like this"))
    }

    fn variable(&self, definition: &Column, index: usize) -> Result<ValueRef<'a>, RowError> {
        let at = self.parts.variable;
        let (begin, end) = (self.end_before(index)?, self.end_before(index + 1)?);
        let bytes = self.bytes[at..].get(begin..end);
        let bytes = bytes.ok_or_else(|| corrupt(self.parts.ends, "a column's end is out of bounds"))?;
        match definition.kind() {
            super::ColumnType::Text => std::str::from_utf8(bytes)
                .map(ValueRef::Text)
                .map_err(|_| corrupt(at + begin, "text is not UTF-8")),
            _ => Ok(ValueRef::Bytes(bytes)),
        }
    }

    /// Where the column before the given one of the variable part ends: where this one begins.
    fn end_before(&self, index: usize) -> Result<usize, RowError> {
        let Some(index) = index.checked_sub(1) else {
            return Ok(0);
        };
        let at = self.parts.ends + index * self.end_bytes;
        let bytes = self.bytes.get(at..at + self.end_bytes);
        let bytes = bytes.ok_or_else(|| corrupt(at, "it ends before its columns do"))?;
        Ok(bytes.iter().rev().fold(0, |end, byte| end << 8 | usize::from(*byte)))
    }

    /// The values of all columns.
    pub fn values(&self) -> Result<Vec<ValueRef<'a>>, RowError> {
        (0..self.format.columns.len()).map(|column| self.get(column)).collect()
    }

    /// Reads all columns, and checks that the bytes are exactly the encoding of their values.
    pub fn check(&self) -> Result<(), RowError> {
        let values = self.values()?;
        let written = RowFormat::new(self.format.columns[..self.columns].to_vec())?;
        let again = written.encode(&values[..self.columns])?;
        match again.iter().zip(self.bytes).position(|(again, byte)| again != byte) {
            None if again.len() == self.bytes.len() => Ok(()),
            differ => Err(corrupt(differ.unwrap_or(again.len()), "bytes are in use that no column has")),
        }
    }
}

fn corrupt(at: usize, what: &'static str) -> RowError {
    RowError::Corrupt { of: "the row", at, what }
}
