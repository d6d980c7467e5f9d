//! Typed tables in a data directory: reused, or loaded in parallel, a table a thread.
//!
//! `DIR/NAME` is their database. A load is complete when the database has the property `complete`; anything else, and data
//! of another scale or seed, are loaded again. What transactions change stays from run to run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use flifo_engine::{Database, EngineConfig, Error as EngineError};

use super::prepare::{claim, find_or_remove, note_page_cache};
use super::table_audit::purge_and_write;
use crate::measure::definition::{TableDefinition, Values};
use crate::support::error::{Error, of_all};
use crate::support::progress::Progress;
use crate::support::{interrupt, limits};

/// Disk beyond the rows: redo log, doublewrite, undo.
const DISK_BYTES_BASE: u64 = 256 << 20;
/// The rows between two looks for Ctrl-C, which cost nothing then.
const ROWS_BETWEEN_LOOKS: usize = 4_096;

/// All rows of a table, in the order of its primary key.
pub(crate) type Rows = Box<dyn Iterator<Item = Values> + Send>;

/// A data set that a run needs.
pub(crate) struct DataSet<'a> {
    /// The data directory.
    pub(crate) dir: &'a Path,
    /// The database's directory in it.
    pub(crate) name: &'static str,
    /// The engine's configuration.
    pub(crate) config: &'a EngineConfig,
    /// The tables, the largest first.
    pub(crate) tables: &'a [TableDefinition],
    /// What the rows depend on, as properties of the database: layout, scale, seed.
    pub(crate) properties: Vec<(&'static str, String)>,
    /// All rows together, roughly.
    pub(crate) rows_total: u64,
    /// Bytes of disk for a row and its index entries, on average.
    pub(crate) disk_bytes_per_row: u64,
    /// The rows of a table.
    pub(crate) rows: &'a (dyn Fn(&TableDefinition) -> Rows + Sync),
}

impl DataSet<'_> {
    /// Finds or loads the data. The file is the lock on the directory.
    pub(crate) fn prepare(&self, progress: &Progress) -> Result<(Database, File), Error> {
        let mark = claim(self.dir)?;
        let home = self.dir.join(self.name);
        let database = match find_or_remove(&home, self.config, &self.properties(), progress)? {
            Some(database) => database,
            None => self.make(&home, progress)?,
        };
        note_page_cache(&database, progress);
        purge_and_write(&database)?;
        Ok((database, mark))
    }

    /// What a complete load notes in the database; `complete` comes last.
    fn properties(&self) -> Vec<(&'static str, String)> {
        let mut properties = self.properties.clone();
        properties.push(("rollback_segments", self.config.rollback_segments.to_string()));
        properties.push(("complete", "yes".into()));
        properties
    }

    /// Loads the tables; what a failed or interrupted load leaves is removed.
    fn make(&self, home: &PathBuf, progress: &Progress) -> Result<Database, Error> {
        limits::disk(self.dir, self.rows_total * self.disk_bytes_per_row + DISK_BYTES_BASE)?;
        let made = self.load(home, progress);
        if made.is_err() {
            // The error that made it fail says more than one about the clearing away.
            let _ = fs::remove_dir_all(home);
        }
        made
    }

    fn load(&self, home: &PathBuf, progress: &Progress) -> Result<Database, Error> {
        let database = Database::create(home, self.config.clone())?;
        let bar = progress.load_all(self.rows_total);
        let loader = Loader {
            set: self,
            database: &database,
            next: AtomicUsize::new(0),
            loaded: self.tables.iter().map(|_| AtomicU64::new(0)).collect(),
            has_failed: AtomicBool::new(false),
        };
        let threads = thread::available_parallelism().map_or(1, usize::from).min(self.tables.len());
        let loaded = |rows| bar.set_position(rows);
        let ended: Vec<Result<(), Error>> = thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(|| loader.load_tables(&loaded))).collect();
            let panicked = |_| Err(Error::Panicked("while it loaded a table".into()));
            all.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
        });
        of_all(ended)?;
        bar.set_message("writing to disk");
        for (name, value) in self.properties() {
            database.set_property(name, value)?;
        }
        database.checkpoint()?;
        bar.finish_and_clear();
        Ok(database)
    }
}

/// A load in progress, which several threads work on.
struct Loader<'a> {
    set: &'a DataSet<'a>,
    database: &'a Database,
    /// The table that the next free thread takes.
    next: AtomicUsize,
    /// Rows so far, by table.
    loaded: Vec<AtomicU64>,
    has_failed: AtomicBool,
}

impl Loader<'_> {
    fn goes_on(&self) -> bool {
        !interrupt::is_requested() && !self.has_failed.load(Ordering::Relaxed)
    }

    /// Loads tables until none is left. `progress` gets the rows of all tables so far.
    fn load_tables(&self, progress: &dyn Fn(u64)) -> Result<(), Error> {
        loop {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(table) = self.set.tables.get(place) else { return Ok(()) };
            let loaded = self.load_table(table, |rows| {
                self.loaded[place].store(rows, Ordering::Relaxed);
                progress(self.loaded.iter().map(|rows| rows.load(Ordering::Relaxed)).sum());
            });
            if let Err(error) = loaded {
                self.has_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }

    fn load_table(&self, table: &TableDefinition, progress: impl FnMut(u64)) -> Result<(), Error> {
        let schema = table.schema().map_err(EngineError::from)?;
        let created = self.database.create_typed_table(table.name, schema)?;
        let rows = (self.set.rows)(table).enumerate();
        let rows = rows.take_while(|(row, _)| !row.is_multiple_of(ROWS_BETWEEN_LOOKS) || self.goes_on());
        self.database.bulk_load_rows(&created, rows.map(|(_, row)| row), progress)?;
        if self.goes_on() { Ok(()) } else { Err(Error::Interrupted) }
    }
}
