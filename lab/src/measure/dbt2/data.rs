//! The data set of the embedded engine: `DIR/dbt2`.
//!
//! Transactions change the data, and the changes stay: a data set grows from run to run, as DBT-2's does.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use flifo_engine::row::Prefix;
use flifo_engine::{Database, EngineConfig, Isolation, TypedTable};

use super::check::{self, Violation};
use super::population::Population;
use super::scale::Scale;
use super::schema::TABLES;
use super::tables::Tables;
use crate::measure::closed_loop::Account;
use crate::measure::engine::data_set::DataSet;
use crate::measure::workload::without_limit;
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::progress::Progress;

const DATABASE_DIR: &str = "dbt2";
/// The version of tables and rows: data of another one are loaded again.
const LAYOUT: &str = "1";
/// Bytes of disk for a row, its index entries and some air, on average.
const DISK_BYTES_PER_ROW: u64 = 260;

/// The data set that a run needs.
#[derive(Debug, Clone)]
pub struct Dbt2<'a> {
    /// The data directory.
    pub dir: &'a Path,
    /// Its size.
    pub scale: Scale,
    /// Seed of the rows.
    pub seed: u64,
    /// The engine's configuration.
    pub config: EngineConfig,
}

/// A data set, ready for users.
pub struct Data {
    /// The open database.
    pub database: Database,
    /// Its tables.
    pub tables: Tables,
    scale: Scale,
    seed: u64,
    /// Holds the lock on the directory.
    _mark: File,
}

impl Data {
    /// Finds or loads the data, and reads what fits into the buffer pool.
    pub fn prepare(requested: &Dbt2<'_>, progress: &Progress) -> Result<Data, Error> {
        let Dbt2 { dir, scale, seed, config } = requested;
        let population = Population::new(*scale, *seed);
        let set = DataSet {
            dir,
            name: DATABASE_DIR,
            config,
            tables: &TABLES,
            properties: vec![
                ("dbt2_layout", LAYOUT.into()),
                ("warehouses", scale.warehouses.to_string()),
                ("items", scale.items.to_string()),
                ("customers", scale.customers.to_string()),
                ("seed", seed.to_string()),
            ],
            rows_total: scale.rows(),
            disk_bytes_per_row: DISK_BYTES_PER_ROW,
            rows: &|table| population.rows(table),
        };
        let (database, mark) = set.prepare(progress)?;
        let tables = Tables::open(&database)?;
        let data = Data { database, tables, scale: *scale, seed: *seed, _mark: mark };
        data.warm(config.buffer_pool_bytes)?;
        Ok(data)
    }

    /// Its size.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Scale and seed, on which inputs depend.
    pub(crate) fn described(&self) -> (Scale, u64) {
        (self.scale, self.seed)
    }

    /// What acknowledged transactions have added so far, for [`Data::check`].
    pub fn account(&self) -> Result<Account, Error> {
        check::account(&self.database, &self.tables)
    }

    /// Checks consistency conditions 1 to 4, and that exactly the `acknowledged` changes were added to those of `before`.
    /// No user may be active.
    pub fn check(
        &self,
        (before, acknowledged): (Account, Account),
        progress: &Progress,
    ) -> Result<Vec<Violation>, Error> {
        let facts = check::facts(&self.database, &self.tables, &self.scale, progress)?;
        Ok(check::verdict(&self.scale, &facts, (before, acknowledged)))
    }

    /// Closes the database; the next open needs no recovery.
    pub fn close(&self) -> Result<(), Error> {
        Ok(self.database.close()?)
    }

    /// Reads the tables that transactions read at random, until the buffer pool is full.
    fn warm(&self, buffer_pool_bytes: u64) -> Result<(), Error> {
        let session = self.database.session(&without_limit());
        let mut left = buffer_pool_bytes;
        let mut read = |table: &TypedTable, warehouse: Option<u32>| -> Result<(), Error> {
            let mut txn = session.begin(Isolation::ReadCommitted);
            let count = |row: &flifo_engine::row::RowView<'_>| {
                let (key, value) = row.bytes();
                left = left.saturating_sub((key.len() + value.len()) as u64);
                if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            match warehouse {
                Some(w) => table.scan(&mut txn, Prefix(w), count)?,
                None => table.scan(&mut txn, .., count)?,
            }
            if interrupt::is_requested() { Err(Error::Interrupted) } else { Ok(()) }
        };
        read(&self.tables.item, None)?;
        for warehouse in 1..=self.scale.warehouses {
            read(&self.tables.stock, Some(warehouse))?;
            read(&self.tables.customer, Some(warehouse))?;
        }
        Ok(())
    }
}

/// The violations as an error of a run.
pub(crate) fn sound(violations: &[Violation]) -> Result<(), Error> {
    check::as_error(violations)
}
