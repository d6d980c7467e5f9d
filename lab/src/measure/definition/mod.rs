//! Tables, defined once for the embedded engine and for servers.
//!
//! [`table`] makes a module out of a definition: a constant for the place of each column, and `TABLE`. Money is whole
//! cents, a rate is in ten-thousandths, and a time is in seconds since 1970; as SQL they are DECIMAL and DATETIME.

mod sql;

use flifo_engine::row::{Column, ColumnType, Index, RowError, Schema, Value, asc, desc};

/// A row: a value for each column.
pub(crate) type Values = Vec<Value>;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A key, or a count.
    Number,
    /// At most this many characters.
    Text(u16),
    /// Whole cents.
    Money,
    /// Ten-thousandths.
    Rate,
    /// Seconds since 1970.
    Time,
    /// Numbered by the table.
    Numbered,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnDefinition {
    /// The name in upper case.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// It may be NULL.
    pub(crate) is_nullable: bool,
}

impl ColumnDefinition {
    /// The name of the column.
    pub(crate) fn name(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableDefinition {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [ColumnDefinition],
    /// The columns of the primary key: the first ones.
    pub(crate) key_columns: usize,
    /// Its index: name, and columns by their places; a descending last column if the flag is set.
    pub(crate) index: Option<IndexDefinition>,
}

/// A secondary index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexDefinition {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [usize],
    /// The last column descends in the engine, so that the newest order comes first. A server reads backwards.
    pub(crate) newest_first: bool,
}

macro_rules! table {
    ($module:ident, $name:literal, key $key:literal, $index:expr, { $($column:ident: $kind:expr, $nullable:literal;)* }) => {
        #[allow(dead_code, reason = "not every column is read")]
        pub(crate) mod $module {
            use $crate::measure::definition::{ColumnDefinition, IndexDefinition, Kind::*, TableDefinition};

            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Place { $($column,)* }
            $(pub(crate) const $column: usize = Place::$column as usize;)*

            pub(crate) const TABLE: TableDefinition = TableDefinition {
                name: $name,
                columns: &[$(ColumnDefinition { name: stringify!($column), kind: $kind, is_nullable: $nullable },)*],
                key_columns: $key,
                index: INDEX,
            };
            const INDEX: Option<IndexDefinition> = $index;
        }
    };
}
pub(crate) use table;

impl TableDefinition {
    /// The table as the engine defines it.
    pub(crate) fn schema(&self) -> Result<Schema, RowError> {
        let name = |at: &usize| self.columns[*at].name();
        let mut schema = Schema::builder();
        for column in self.columns {
            let kind = match column.kind {
                Kind::Number | Kind::Time => ColumnType::U32,
                Kind::Numbered => ColumnType::U64,
                Kind::Text(_) => ColumnType::Text,
                Kind::Money => ColumnType::I64,
                Kind::Rate => ColumnType::U16,
            };
            let mut made = Column::new(column.name(), kind);
            if column.is_nullable {
                made = made.nullable();
            }
            if column.kind == Kind::Numbered {
                made = made.auto_increment();
            }
            schema = schema.column(made);
        }
        schema = schema.primary_key((0..self.key_columns).map(|at| asc(name(&at))));
        if let Some(index) = self.index {
            let last = index.columns.len() - 1;
            let part = |(place, at)| match index.newest_first && place == last {
                true => desc(name(at)),
                false => asc(name(at)),
            };
            schema = schema.index(Index::new(index.name, index.columns.iter().enumerate().map(part)));
        }
        schema.build()
    }
}
