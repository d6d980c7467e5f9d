//! Composite keys: tuples as bytes that order as the tuples do.

use std::ops::Bound;

use smallvec::SmallVec;

use super::KEY_BYTES_MAX;
use super::convert::IntoKey;
use super::error::RowError;
use super::ordered::{Reader, append};
use super::types::ColumnType;
use super::value::{Value, ValueRef};

/// Which way a column of a key orders.
// The numbers are on disk, in schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// Least first, NULL before all.
    #[default]
    Ascending = 0,
    /// Greatest first, NULL after all.
    Descending = 1,
}

/// A column of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPart {
    /// Its name, for errors.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
    /// Whether it may be NULL, which takes one byte more.
    pub nullable: bool,
    /// The sort direction.
    pub direction: Direction,
}

impl KeyPart {
    /// Creates an ascending column that is never NULL.
    pub fn new(name: impl Into<String>, kind: ColumnType) -> Self {
        KeyPart { name: name.into(), kind, nullable: false, direction: Direction::Ascending }
    }

    /// Allows NULL.
    pub fn nullable(self) -> Self {
        KeyPart { nullable: true, ..self }
    }

    /// Sorts in descending order.
    pub fn descending(self) -> Self {
        KeyPart { direction: Direction::Descending, ..self }
    }
}

/// The bounds of a scan, as a tree takes them.
pub type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Encodes tuples of some columns as keys.
///
/// ```
/// use flifo_engine::row::{ColumnType, KeyFormat, KeyPart};
///
/// let format = KeyFormat::new(vec![
///     KeyPart::new("town", ColumnType::Text),
///     KeyPart::new("born", ColumnType::I32).descending(),
/// ]);
/// let key = format.encode(("Oslo", 1984))?;
/// assert_eq!(key, b"Oslo\0\x7f\xff\xf8\x3f");
/// assert_eq!(format.decode(&key)?, ["Oslo".into(), 1984.into()]);
///
/// assert!(format.encode(("Oslo", 1985))? < key, "the youngest first");
/// assert!(format.encode(("Oslo II", 1990))? > key);
/// # Ok::<(), flifo_engine::row::RowError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFormat {
    parts: Vec<KeyPart>,
}

impl KeyFormat {
    /// Creates the format of keys with these columns, the most significant first.
    pub fn new(parts: Vec<KeyPart>) -> Self {
        KeyFormat { parts }
    }

    /// The columns.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Encodes a value for each column as a key.
    pub fn encode<'a>(&self, values: impl IntoKey<'a>) -> Result<Vec<u8>, RowError> {
        let mut key = Vec::new();
        self.encode_into(values, &mut key)?;
        Ok(key)
    }

    /// Appends the key of a value for each column to `key`, or nothing after an error.
    pub fn encode_into<'a>(&self, values: impl IntoKey<'a>, key: &mut Vec<u8>) -> Result<(), RowError> {
        let values = values.into_key();
        match values.as_ref().len() == self.parts.len() {
            true => self.append(values.as_ref(), key),
            false => Err(self.wrong_count(values.as_ref().len())),
        }
    }

    /// The common prefix of exactly the keys with these values in their first columns.
    pub fn encode_prefix<'a>(&self, values: impl IntoKey<'a>) -> Result<Vec<u8>, RowError> {
        let values = values.into_key();
        if values.as_ref().len() > self.parts.len() {
            return Err(self.wrong_count(values.as_ref().len()));
        }
        let mut key = Vec::new();
        self.append(values.as_ref(), &mut key)?;
        Ok(key)
    }

    fn append(&self, values: &[ValueRef<'_>], key: &mut Vec<u8>) -> Result<(), RowError> {
        let begin = key.len();
        let mut appended =
            self.parts.iter().zip(values).try_for_each(|(part, &value)| append(part, value, key));
        let size = key.len() - begin;
        if appended.is_ok() && size > KEY_BYTES_MAX {
            appended = Err(RowError::KeyTooLong { size, max: KEY_BYTES_MAX });
        }
        if appended.is_err() {
            key.truncate(begin);
        }
        appended
    }

    fn wrong_count(&self, found: usize) -> RowError {
        RowError::WrongCount { of: "a key", expected: self.parts.len(), found }
    }

    /// Decodes the values of a key.
    ///
    /// # Errors
    /// Fails if [`KeyFormat::encode`] cannot produce the bytes from any values.
    pub fn decode(&self, key: &[u8]) -> Result<Vec<Value>, RowError> {
        let mut reader = Reader::new(key);
        let values = self.parts.iter().map(|part| reader.value(part)).collect::<Result<_, _>>()?;
        reader.end()?;
        Ok(values)
    }

    /// Decodes one column of a key, counted from 0. Later columns are not checked.
    pub fn get(&self, column: usize, key: &[u8]) -> Result<Value, RowError> {
        let columns = self.parts.len();
        let part = self.parts.get(column).ok_or(RowError::NoSuchColumn { index: column, columns })?;
        let mut reader = Reader::new(key);
        self.parts[..column].iter().try_for_each(|part| reader.skip(part).map(drop))?;
        reader.value(part)
    }

    /// As [`KeyFormat::get`], without a copy; `None` if the key has the value's bytes in another form: a descending
    /// string, or one with an escaped byte.
    pub fn peek<'k>(&self, column: usize, key: &'k [u8]) -> Result<Option<ValueRef<'k>>, RowError> {
        let columns = self.parts.len();
        let part = self.parts.get(column).ok_or(RowError::NoSuchColumn { index: column, columns })?;
        let mut reader = Reader::new(key);
        self.parts[..column].iter().try_for_each(|part| reader.skip(part).map(drop))?;
        reader.peek(part)
    }

    /// The bytes of the first `columns` columns of a key, and whether one of them is NULL.
    pub fn prefix_of<'k>(&self, columns: usize, key: &'k [u8]) -> Result<(&'k [u8], bool), RowError> {
        let missing = RowError::NoSuchColumn { index: columns, columns: self.parts.len() };
        let mut reader = Reader::new(key);
        let mut any_null = false;
        for part in self.parts.get(..columns).ok_or(missing)? {
            any_null |= reader.skip(part)?;
        }
        Ok((&key[..reader.at()], any_null))
    }

    /// Where each column of a key lies.
    pub(super) fn spans<'k>(&self, key: &'k [u8]) -> Result<SmallVec<[&'k [u8]; 8]>, RowError> {
        let mut reader = Reader::new(key);
        let mut spans = SmallVec::new();
        for part in &self.parts {
            let begin = reader.at();
            reader.skip(part)?;
            spans.push(&key[begin..reader.at()]);
        }
        reader.end()?;
        Ok(spans)
    }

    /// The range of keys with these values in their first columns; `()` for all keys.
    ///
    /// ```
    /// # use std::ops::{Bound, ControlFlow};
    /// # use flifo_engine::{Result, Statement, Tree};
    /// # use flifo_engine::row::KeyFormat;
    /// /// How many rows are of that town.
    /// fn count(statement: &Statement, tree: &Tree, format: &KeyFormat, town: &str) -> Result<u64> {
    ///     let (from, to) = format.prefix_range(town)?;
    ///     let mut rows = 0;
    ///     statement.scan(tree, from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice), |_, _| {
    ///         rows += 1;
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     Ok(rows)
    /// }
    /// ```
    pub fn prefix_range<'a>(&self, values: impl IntoKey<'a>) -> Result<KeyRange, RowError> {
        let prefix = self.encode_prefix(values)?;
        let to = beyond(&prefix);
        Ok((Bound::Included(prefix), to))
    }

    /// The range of keys between two bounds, each of which may have fewer than all columns.
    ///
    /// An included bound includes all keys that begin with its values, an excluded one excludes them all. The bounds
    /// are in the order of the keys: over a descending column, the greater value comes first. A missing bound is
    /// `Bound::<()>::Unbounded`.
    ///
    /// ```
    /// use std::ops::{Bound, RangeBounds};
    /// use flifo_engine::row::{ColumnType, KeyFormat, KeyPart};
    ///
    /// let format = KeyFormat::new(vec![
    ///     KeyPart::new("account", ColumnType::U64),
    ///     KeyPart::new("day", ColumnType::U32),
    /// ]);
    /// // Account 7, from the day 100 on.
    /// let range = format.range(Bound::Included((7, 100)), Bound::Included(7))?;
    /// assert!(range.contains(&format.encode((7, 365))?));
    /// assert!(!range.contains(&format.encode((7, 99))?) && !range.contains(&format.encode((8, 100))?));
    /// # Ok::<(), flifo_engine::row::RowError>(())
    /// ```
    pub fn range<'a>(
        &self,
        from: Bound<impl IntoKey<'a>>,
        to: Bound<impl IntoKey<'a>>,
    ) -> Result<KeyRange, RowError> {
        let from = match from {
            Bound::Unbounded => Bound::Included(Vec::new()),
            Bound::Included(values) => Bound::Included(self.encode_prefix(values)?),
            Bound::Excluded(values) => match beyond(&self.encode_prefix(values)?) {
                Bound::Excluded(beyond) => Bound::Included(beyond),
                // Nothing is beyond the last keys. A tree has no range of none but one that ends where it begins.
                _ => return Ok((Bound::Included(Vec::new()), Bound::Excluded(Vec::new()))),
            },
        };
        let to = match to {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => beyond(&self.encode_prefix(values)?),
            Bound::Excluded(values) => Bound::Excluded(self.encode_prefix(values)?),
        };
        Ok((from, to))
    }
}

/// The end of the keys that begin with `prefix`: the least key greater than all of them, if there is one.
fn beyond(prefix: &[u8]) -> Bound<Vec<u8>> {
    match prefix.iter().rposition(|&byte| byte != 0xff) {
        None => Bound::Unbounded,
        Some(last) => {
            let mut beyond = prefix[..=last].to_vec();
            beyond[last] += 1;
            Bound::Excluded(beyond)
        }
    }
}
