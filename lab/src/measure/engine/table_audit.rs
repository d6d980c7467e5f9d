//! The audit of the table. It sums up every change that a client knows to be committed. At the end of the run it reads
//! the whole table and its index and compares: an update that was lost, or applied twice, ends the run with an error.
//!
//! It also resets the table between two cells: it removes rows beyond the loaded ones and waits for purge, so that
//! every cell begins with the loaded number of rows and without history. Before the first cell, it purges the last
//! run's history and writes it to disk.
//!
//! ```text
//! property sum_k     the sum of all k, as it was at the last look
//! property changing  yes from before the first cell that writes until the look at the end: in between `sum_k` is old
//! ```

use std::time::{Duration, Instant};

use flifo_engine::{Database, Error as EngineError};

use crate::measure::workload::{Sbtest, Totals, Workload};
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::progress::Progress;

const SUM_K: &str = "sum_k";
const CHANGING: &str = "changing";
/// Purge is waited for no longer than this: a history that does not end shows in the figures.
const PURGE_WAIT_MAX: Duration = Duration::from_secs(60);
/// Purge frees pages still when its last record is gone, so one checkpoint may come too early; but a history that does not
/// end changes pages again and again.
const CHECKPOINTS_MAX: u32 = 10;

/// The account of one run.
pub(crate) struct TableAudit<'a> {
    database: &'a Database,
    table: &'a Sbtest,
    /// Rows that were loaded.
    rows: u32,
    totals: Totals,
    is_changing: bool,
}

impl<'a> TableAudit<'a> {
    /// For a table whose loaded rows and totals are these.
    pub(crate) fn new(database: &'a Database, table: &'a Sbtest, rows: u32, totals: Totals) -> Self {
        TableAudit { database, table, rows, totals, is_changing: false }
    }

    /// Before a cell.
    pub(crate) fn before(&mut self, workload: Workload) -> Result<(), Error> {
        if workload.writes() && !self.is_changing {
            self.database.set_property(CHANGING, "yes")?;
            self.is_changing = true;
        }
        Ok(())
    }

    /// Called after a cell with these changes.
    pub(crate) fn after(&mut self, workload: Workload, changes: Totals) -> Result<(), Error> {
        self.totals = self.totals.plus(changes);
        if workload.grows() && !interrupt::is_requested() {
            let removed = self.table.trim(self.database, self.rows + 1)?;
            self.totals = self.totals.plus(Totals { rows: -removed.rows, sum_k: -removed.sum_k });
        }
        if workload.writes() {
            wait_for_purge(self.database);
        }
        Ok(())
    }

    /// Called at the end: the table must match the acknowledged changes.
    pub(crate) fn close(&mut self, progress: &Progress) -> Result<(), Error> {
        if !self.is_changing {
            return Ok(());
        }
        let found = count(self.database, self.table, self.rows, progress)?;
        if found != self.totals {
            return Err(Error::Data(format!(
                "the table has {} rows with a sum of k of {}, but its clients' acknowledged changes give {} with {}: changes were lost or applied twice; please report this",
                found.rows, found.sum_k, self.totals.rows, self.totals.sum_k
            )));
        }
        // Rows left by an interrupted run are trimmed by the next one.
        if found.rows == i64::from(self.rows) {
            note(self.database, found)?;
        }
        Ok(())
    }
}

/// What the table of a complete load holds; looked at if the last run that wrote did not come to its end.
pub(crate) fn found(
    database: &Database,
    table: &Sbtest,
    rows: u32,
    progress: &Progress,
) -> Result<Totals, Error> {
    let property = |name| -> Result<Option<String>, EngineError> {
        Ok(database.property(name)?.map(|value| String::from_utf8_lossy(&value).into_owned()))
    };
    let sum_k = property(SUM_K)?.and_then(|text| text.parse().ok());
    if let (Some(sum_k), Some("no")) = (sum_k, property(CHANGING)?.as_deref()) {
        return Ok(Totals { rows: rows.into(), sum_k });
    }
    progress.note("the last run that changed the data was cut off: counting them");
    table.trim(database, rows + 1)?;
    let totals = count(database, table, rows, progress)?;
    if totals.rows != i64::from(rows) {
        return Err(Error::Data(format!(
            "the table has {} rows, not {rows}: the data are damaged; remove them to load them again",
            totals.rows
        )));
    }
    note(database, totals)?;
    Ok(totals)
}

/// Writes down what the table holds.
pub(crate) fn note(database: &Database, totals: Totals) -> Result<(), EngineError> {
    database.set_property(SUM_K, totals.sum_k.to_string())?;
    database.set_property(CHANGING, "no")
}

fn count(database: &Database, table: &Sbtest, rows: u32, progress: &Progress) -> Result<Totals, Error> {
    let bar = progress.check(rows);
    let totals = table.totals(database, |rows| bar.set_position(rows));
    bar.finish_and_clear();
    totals
}

/// What was found has the history of a run that was cut off, and its purge, a recovery or a count change pages: the first
/// cell begins without either. Writes nothing if there is nothing to write.
pub(crate) fn purge_and_write(database: &Database) -> Result<(), EngineError> {
    wait_for_purge(database);
    for _ in 0..CHECKPOINTS_MAX {
        if database.stats().pool.dirty_pages == 0 {
            break;
        }
        database.checkpoint()?;
    }
    Ok(())
}

fn wait_for_purge(database: &Database) {
    let patience = Instant::now() + PURGE_WAIT_MAX;
    while database.stats().txns.history > 0 && Instant::now() < patience && !interrupt::is_requested() {
        std::thread::sleep(Duration::from_millis(5));
    }
}
