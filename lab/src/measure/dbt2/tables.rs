//! The tables in the embedded engine.

use flifo_engine::{Database, TypedTable};

use super::schema;
use crate::measure::definition::TableDefinition;
use crate::support::error::Error;

/// Handles of the nine tables. Clones are handles of the same ones.
#[derive(Clone)]
pub struct Tables {
    pub(crate) warehouse: TypedTable,
    pub(crate) district: TypedTable,
    pub(crate) customer: TypedTable,
    pub(crate) history: TypedTable,
    pub(crate) orders: TypedTable,
    pub(crate) new_order: TypedTable,
    pub(crate) order_line: TypedTable,
    pub(crate) item: TypedTable,
    pub(crate) stock: TypedTable,
}

impl Tables {
    /// Opens the existing tables.
    pub fn open(database: &Database) -> Result<Self, Error> {
        let table = |table: &TableDefinition| database.typed_table(table.name);
        Ok(Tables {
            warehouse: table(&schema::warehouse::TABLE)?,
            district: table(&schema::district::TABLE)?,
            customer: table(&schema::customer::TABLE)?,
            history: table(&schema::history::TABLE)?,
            orders: table(&schema::orders::TABLE)?,
            new_order: table(&schema::new_order::TABLE)?,
            order_line: table(&schema::order_line::TABLE)?,
            item: table(&schema::item::TABLE)?,
            stock: table(&schema::stock::TABLE)?,
        })
    }
}
