//! Schemas as bytes, for the catalog.
//!
//! ```text
//! size
//!    1  format version: 1
//!    2  columns of the table, and for each
//!         1 + l  length of the name, name
//!             1  type: 1 u8, 2 u16, 3 u32, 4 u64, 5 i8, 6 i16, 7 i32, 8 i64, 9 f64, 10 bool, 11 bytes, 12 text
//!             1  flags: bit 0 nullable, bit 1 a default follows, bit 2 numbered by the table
//!           ...  the default, as in an ascending key
//!    2  columns of the primary key, and for each
//!             2  number of the column, from 0
//!             1  direction: 0 ascending, 1 descending
//!    2  indexes, and for each
//!         1 + l  length of the name, name
//!             1  flags: bit 0 unique
//!             2  columns of the index, and for each the same as in the primary key
//!    4  crc32c of all bytes before
//! ```
//!
//! Version and checksum keep their positions in every later version.

use super::error::RowError;
use super::index::{Index, KeyColumn};
use super::key::Direction;
use super::ordered::Reader;
use super::schema::{Column, Schema};
use super::types::ColumnType;
use super::{COLUMNS_MAX, INDEXES_MAX, NAME_BYTES_MAX};

const VERSION: u8 = 1;
const NULLABLE: u8 = 1;
const DEFAULT: u8 = 2;
const AUTO_INCREMENT: u8 = 4;
const UNIQUE: u8 = 1;
const CHECKSUM_BYTES: usize = 4;

const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize && COLUMNS_MAX <= u16::MAX as usize);
const _: () = assert!(INDEXES_MAX <= u16::MAX as usize);

impl Schema {
    /// Encodes the schema.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        put_count(self.columns().len(), &mut bytes);
        for column in self.columns() {
            put_name(column.name(), &mut bytes);
            let nullable = if column.is_nullable() { NULLABLE } else { 0 };
            let default = column.default().map(|value| column.default_format().encode(value));
            bytes.push(column.kind().code());
            let auto_increment = if column.is_auto_increment() { AUTO_INCREMENT } else { 0 };
            bytes.push(nullable | auto_increment | if default.is_some() { DEFAULT } else { 0 });
            let default = default.map(|stored| stored.expect("it was encoded when the schema was made"));
            bytes.extend(default.unwrap_or_default());
        }
        self.put_key(self.primary_key(), &mut bytes);
        put_count(self.indexes().len(), &mut bytes);
        for index in self.indexes() {
            let index = index.definition();
            put_name(&index.name, &mut bytes);
            bytes.push(if index.unique { UNIQUE } else { 0 });
            self.put_key(&index.columns, &mut bytes);
        }
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn put_key(&self, key: &[KeyColumn], bytes: &mut Vec<u8>) {
        put_count(key.len(), bytes);
        for KeyColumn { name, direction } in key {
            let at = self.columns().iter().position(|column| column.name() == name);
            put_count(at.expect("it was found when the schema was made"), bytes);
            bytes.push(*direction as u8);
        }
    }

    /// Decodes a schema.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RowError> {
        let (&version, _) = bytes.split_first().ok_or_else(|| corrupt(0, "it is empty"))?;
        let (body, checksum) =
            bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(|| corrupt(0, "it is too short"))?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(corrupt(body.len(), "its checksum does not match"));
        }
        if version != VERSION {
            return Err(RowError::Version { of: "the schema", found: version, supported: VERSION });
        }
        let mut input = Input { bytes: body, at: 1 };
        let mut builder = Schema::builder();
        let mut names = Vec::new();
        for _ in 0..input.count()? {
            let column = input.column()?;
            names.push(column.name().to_owned());
            builder = builder.column(column);
        }
        builder = builder.primary_key(input.key(&names)?);
        for _ in 0..input.count()? {
            let name = input.name()?;
            let unique = input.flags(UNIQUE)? == UNIQUE;
            builder = builder.index(Index { name, columns: input.key(&names)?, unique });
        }
        if input.at != body.len() {
            return Err(corrupt(input.at, "bytes follow its end"));
        }
        builder.build().map_err(|error| RowError::CorruptSchema { what: error.to_string() })
    }
}

fn put_count(count: usize, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(count as u16).to_le_bytes());
}

fn put_name(name: &str, bytes: &mut Vec<u8>) {
    bytes.push(name.len() as u8);
    bytes.extend_from_slice(name.as_bytes());
}

/// The remaining input.
struct Input<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Input<'b> {
    fn take(&mut self, size: usize) -> Result<&'b [u8], RowError> {
        let end = self.at + size;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| corrupt(self.at, "it ends too early"))?;
        self.at = end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, RowError> {
        self.take(1).map(|byte| byte[0])
    }

    fn count(&mut self) -> Result<usize, RowError> {
        let bytes = self.take(2)?;
        Ok(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    fn name(&mut self) -> Result<String, RowError> {
        let (at, length) = (self.at, self.byte()?);
        let name = self.take(length.into())?.to_vec();
        String::from_utf8(name).map_err(|_| corrupt(at, "a name is not UTF-8"))
    }

    fn flags(&mut self, known: u8) -> Result<u8, RowError> {
        match self.byte()? {
            flags if flags & !known == 0 => Ok(flags),
            _ => Err(corrupt(self.at - 1, "it has flags that mean nothing")),
        }
    }

    fn column(&mut self) -> Result<Column, RowError> {
        let name = self.name()?;
        let kind = ColumnType::from_code(self.byte()?);
        let kind = kind.ok_or_else(|| corrupt(self.at - 1, "there is no such type"))?;
        let flags = self.flags(NULLABLE | DEFAULT | AUTO_INCREMENT)?;
        let mut column = Column::new(name, kind);
        if flags & DEFAULT != 0 {
            let mut reader = Reader::new(&self.bytes[self.at..]);
            let value = reader.value(&column.default_format().parts()[0]);
            column = column.default_value(value.map_err(|_| corrupt(self.at, "a default is no value"))?);
            self.at += reader.at();
        }
        if flags & AUTO_INCREMENT != 0 {
            column = column.auto_increment();
        }
        Ok(if flags & NULLABLE != 0 { column.nullable() } else { column })
    }

    fn key(&mut self, columns: &[String]) -> Result<Vec<KeyColumn>, RowError> {
        let count = self.count()?;
        let mut key = Vec::new();
        for _ in 0..count {
            let at = self.at;
            let name = columns.get(self.count()?).ok_or_else(|| corrupt(at, "there is no such column"))?;
            let direction = match self.byte()? {
                0 => Direction::Ascending,
                1 => Direction::Descending,
                _ => return Err(corrupt(self.at - 1, "there is no such direction")),
            };
            key.push(KeyColumn { name: name.clone(), direction });
        }
        Ok(key)
    }
}

fn corrupt(at: usize, what: &'static str) -> RowError {
    RowError::Corrupt { of: "the schema", at, what }
}
