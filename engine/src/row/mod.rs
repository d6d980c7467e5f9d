//! Rows and keys as bytes: typed values, composite keys that compare as bytes do, schemas. The module is independent of
//! pages, trees and transactions; `docs/format.md` draws every byte.
//!
//! - A [`KeyFormat`] encodes a tuple of values so that `memcmp` of two encodings orders as the tuples do, and so that
//!   the encoding of the first columns is a prefix of the whole. So a tree of plain bytes can be scanned for "all rows
//!   with (a, b) = ..." ([`KeyFormat::prefix_range`]).
//! - A [`RowFormat`] packs the other columns so that each can be read without the ones before it ([`RowRef::get`]).
//! - A [`Schema`] defines a table's columns, its primary key, and its secondary indexes ([`IndexFormat`]). It is
//!   checked when it is built, and when it is decoded.
//!
//! Bytes from disk are not trusted: every decoder checks bounds and returns [`RowError`], and none panics.
//!
//! # Order
//! - Integers by number, bool `false` before `true`, bytes and text by their bytes (text in UTF-8, which is the order
//!   of code points; no collation).
//! - Floats by number; `-0.0` equals `0.0`; every NaN equals every other and comes after infinity. A key loses these
//!   differences: `-0.0` is read back as `0.0`, any NaN as the quiet one. Outside of keys all bits stay.
//! - NULL comes before all values. A descending column reverses the whole order, including NULL.
//!
//! [`Value`] and [`ValueRef`] compare in the same way.
//!
//! ```
//! use flifo_engine::row::{Column, ColumnType, Index, Schema, Value, asc, desc};
//!
//! let people = Schema::builder()
//!     .column(Column::new("id", ColumnType::U64))
//!     .column(Column::new("town", ColumnType::Text))
//!     .column(Column::new("born", ColumnType::I32).nullable())
//!     .primary_key(["id"])
//!     .index(Index::new("by_town", [asc("town"), desc("born")]))
//!     .build()?;
//!
//! // A row becomes a key and a value for the table's tree, and a key for each index's tree.
//! let row = (7, "Oslo", 1984);
//! let (key, value) = people.encode(row)?;
//! let entry = people.indexes()[0].encode(row)?;
//!
//! // Reading: all columns, one column, or the row that an index entry means.
//! assert_eq!(people.decode(&key, &value)?, [Value::from(7), "Oslo".into(), 1984.into()]);
//! assert_eq!(people.get("town", &key, &value)?, "Oslo".into());
//! assert_eq!(people.indexes()[0].primary_key(&entry)?, key);
//!
//! // All of Oslo, whenever born.
//! let (from, to) = people.indexes()[0].key().prefix_range("Oslo")?;
//! assert!(std::ops::RangeBounds::contains(&(from, to), &entry));
//! # Ok::<(), flifo_engine::row::RowError>(())
//! ```

mod convert;
mod error;
mod index;
mod key;
mod ordered;
mod owned;
mod packed;
mod range;
mod schema;
mod stored;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod view;

pub use convert::{IntoKey, IntoRow};
pub use error::RowError;
pub use index::{Index, IndexFormat, KeyColumn, asc, desc};
pub use key::{Direction, KeyFormat, KeyPart, KeyRange};
pub use owned::Row;
pub use packed::{RowFormat, RowRef};
pub use range::{KeyBounds, Prefix};
pub use schema::{Column, ColumnId, Place, Schema, SchemaBuilder};
pub use types::ColumnType;
pub use value::{Value, ValueRef};
pub use view::{EntryView, RowView};

/// Maximum columns of a schema, as in InnoDB. A database accepts fewer: some 300 with names of ten bytes.
pub const COLUMNS_MAX: usize = 1017;
/// Maximum columns of a primary key or an index, as in InnoDB.
pub const KEY_COLUMNS_MAX: usize = 16;
/// Maximum secondary indexes of a table, as in InnoDB. A database with pages of 4 KiB accepts fewer.
pub const INDEXES_MAX: usize = 64;
/// Maximum bytes of an encoded key, as in InnoDB. A tree of small pages may accept less.
pub const KEY_BYTES_MAX: usize = 3072;
/// Maximum bytes of the name of a column or an index.
pub const NAME_BYTES_MAX: usize = 200;
