//! The data set of the embedded engine: `DIR/db-stress`.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

use flifo_engine::row::RowError;
use flifo_engine::{Database, EngineConfig, Error as EngineError, Isolation};

use super::population::{HISTORY_ROWS, Population, object_ref};
use super::schema::{TABLES, history};
use super::transactions::Tables;
use crate::measure::engine::data_set::DataSet;
use crate::measure::workload::without_limit;
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::progress::Progress;

const DATABASE_DIR: &str = "db-stress";
/// The version of tables and rows: data of another one are loaded again.
const LAYOUT: &str = "1";
/// Bytes of disk for a row, its index entries and some air, on average.
const DISK_BYTES_PER_ROW: u64 = 300;

/// The data set that a run needs.
#[derive(Debug, Clone)]
pub struct DbStress<'a> {
    /// The data directory.
    pub dir: &'a Path,
    /// Objects, each with a history of [`HISTORY_ROWS`].
    pub objects: u32,
    /// Seed of the rows.
    pub seed: u64,
    /// The engine's configuration.
    pub config: EngineConfig,
}

/// A data set, ready for users.
pub struct Data {
    /// The open database.
    pub database: Database,
    pub(crate) tables: Tables,
    objects: u32,
    /// Holds the lock on the directory.
    _mark: File,
}

impl Data {
    /// Finds or loads the data.
    pub fn prepare(requested: &DbStress<'_>, progress: &Progress) -> Result<Data, Error> {
        let DbStress { dir, objects, seed, config } = requested;
        let population = Population { objects: *objects, seed: *seed };
        let set = DataSet {
            dir,
            name: DATABASE_DIR,
            config,
            tables: &TABLES,
            properties: vec![
                ("db_stress_layout", LAYOUT.into()),
                ("objects", objects.to_string()),
                ("seed", seed.to_string()),
            ],
            rows_total: population.rows_total(),
            disk_bytes_per_row: DISK_BYTES_PER_ROW,
            rows: &|table| population.rows(table),
        };
        let (database, mark) = set.prepare(progress)?;
        let tables = Tables::open(&database)?;
        Ok(Data { database, tables, objects: *objects, _mark: mark })
    }

    /// Objects.
    pub fn objects(&self) -> u32 {
        self.objects
    }

    /// Checks that each object has each row of its history once. No user may be active.
    pub fn check(&self, progress: &Progress) -> Result<(), Error> {
        let rows = u64::from(self.objects) * u64::from(HISTORY_ROWS);
        let bar = progress.check_all(rows);
        let session = self.database.session(&without_limit());
        let mut txn = session.begin(Isolation::RepeatableRead);
        let (mut found, mut wrong, mut failed) = (0, None, None);
        self.tables.history.scan_entries(&mut txn, "by_object", .., |entry| {
            let is_next = || -> Result<bool, RowError> {
                let (object, horder) = place(found);
                Ok(entry.get(history::REF_OBJECT)?.as_text() == Some(&object_ref(object))
                    && entry.get(history::HORDER)?.as_u64() == Some(horder.into()))
            };
            match is_next() {
                Ok(true) => found += 1,
                Ok(false) => wrong = Some(place(found)),
                Err(error) => failed = Some(error),
            }
            if found % 65_536 == 0 {
                bar.set_position(found);
            }
            match wrong.is_some() || failed.is_some() || interrupt::is_requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        bar.finish_and_clear();
        if let Some(error) = failed {
            return Err(EngineError::from(error).into());
        }
        if interrupt::is_requested() {
            return Err(Error::Interrupted);
        }
        if wrong.is_none() && found != rows {
            wrong = Some(place(found));
        }
        wrong.map_or(Ok(()), |(object, horder)| {
            Err(Error::Data(format!(
                "the data are not consistent after the load: row {horder} of the history of object {object} is missing, or the one before it is there twice; please report this"
            )))
        })
    }

    /// Closes the database; the next open needs no recovery.
    pub fn close(&self) -> Result<(), Error> {
        Ok(self.database.close()?)
    }
}

/// Object and place of a row, by its number in the order of the index, from 0.
fn place(row: u64) -> (u32, u32) {
    let rows = u64::from(HISTORY_ROWS);
    ((row / rows) as u32 + 1, (row % rows) as u32 + 1)
}
