//! The data: reused, or loaded.
//!
//! ```text
//! DIR/flifo-lab   the mark of a data directory, whose first line names the layout; locked while in use
//! DIR/sbtest/     the engine's database for sysbench's table and YCSB
//! DIR/dbt2/       that of DBT-2
//! DIR/db-stress/  that of db_STRESS
//! ```
//! Only these three are ever removed, and only next to the mark. A load is complete when the database has the property
//! `complete` and was closed or checkpointed since. Incomplete data, and data of an older flifo, are loaded again. A
//! damaged database is an error: the user decides what to do with it.
//!
//! Workloads that write change rows, and the changes stay: as after a run of sysbench the table has as many rows as
//! before, but not the loaded ones. The properties `sum_k` and `changing` belong to `table_audit`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flifo_engine::{EngineConfig, Error as EngineError, Isolation};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::table_audit;
use crate::measure::workload::{Sbtest, Totals, row, without_limit};
use crate::support::error::Error;
use crate::support::progress::Progress;
use crate::support::{interrupt, limits};
use flifo_engine::Database;

const MARK_FILE: &str = "flifo-lab";
const MARK: &str = "flifo lab data, layout 1";
const DATABASE_DIR: &str = "sbtest";
/// Bytes of disk per row, its entry in the index, the trees' own pages and some air included.
const DISK_BYTES_PER_ROW: u64 = 320;
const DISK_BYTES_BASE: u64 = 256 << 20;

/// The required data.
pub struct DataSpec<'a> {
    /// The directory.
    pub dir: &'a Path,
    /// Rows of the table.
    pub rows: u32,
    /// Seed of the rows.
    pub seed: u64,
    /// The engine's configuration.
    pub config: EngineConfig,
}

/// Data ready for measurement.
pub struct Prepared {
    pub database: Database,
    pub table: Sbtest,
    /// The totals of the table.
    pub totals: Totals,
    /// Holds the lock on the directory.
    _mark: File,
}

/// Finds or loads the data and warms the buffer pool.
pub fn prepare(requested: &DataSpec<'_>, progress: &Progress) -> Result<Prepared, Error> {
    let mark = claim(requested.dir)?;
    let home = requested.dir.join(DATABASE_DIR);
    let database = match find_or_remove(&home, &requested.config, &properties(requested), progress)? {
        Some(database) => database,
        None => make(&home, requested, progress)?,
    };
    note_page_cache(&database, progress);
    let table = Sbtest::open(&database)?;
    let totals = table_audit::found(&database, &table, requested.rows, progress)?;
    table_audit::purge_and_write(&database)?;
    warm(&database, &table, requested, progress)?;
    Ok(Prepared { database, table, totals, _mark: mark })
}

/// Opens the database in `home` if a load with these properties was completed there; removes any other.
pub(crate) fn find_or_remove(
    home: &Path,
    config: &EngineConfig,
    properties: &[(&'static str, String)],
    progress: &Progress,
) -> Result<Option<Database>, Error> {
    match find(home, config, properties)? {
        Found::Ready(database) => Ok(Some(database)),
        Found::Nothing => Ok(None),
        Found::Stale(why) => {
            progress.note(&format!("{why}: loading again"));
            fs::remove_dir_all(home).map_err(|error| cannot("remove", home, &error))?;
            Ok(None)
        }
    }
}

/// Says so if reads may come from the page cache.
pub(crate) fn note_page_cache(database: &Database, progress: &Progress) {
    if !database.stats().direct_io {
        progress.note(
            "this file system has no O_DIRECT: what the buffer pool misses may come from the page cache",
        );
    }
}

enum Found {
    Nothing,
    Ready(Database),
    Stale(String),
}

/// Claims the directory if it has the mark, or is empty, and locks it against other runs.
pub(crate) fn claim(dir: &Path) -> Result<File, Error> {
    fs::create_dir_all(dir).map_err(|error| cannot("create", dir, &error))?;
    let path = dir.join(MARK_FILE);
    let is_new = match fs::read_to_string(&path) {
        Ok(text) if text.is_empty() || text.lines().next() == Some(MARK) => text.is_empty(),
        Ok(text) if text.starts_with("flifo lab data") => {
            return Err(Error::Data(format!(
                "{} was made by another version of flifo; use that one, or another --data",
                dir.display()
            )));
        }
        Ok(_) => return Err(foreign_directory(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut entries = fs::read_dir(dir).map_err(|error| cannot("read", dir, &error))?;
            if entries.next().is_some() {
                return Err(foreign_directory(dir));
            }
            true
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(foreign_directory(dir)),
        Err(error) => return Err(cannot("read", &path, &error)),
    };
    let open = OpenOptions::new().create(true).read(true).write(true).truncate(false).open(&path);
    let mut mark = open.map_err(|error| cannot("write to", dir, &error))?;
    match flock(&mark, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            return Err(Error::Data(format!(
                "{} is in use by another flifo; wait for it, or use another --data",
                dir.display()
            )));
        }
        Err(errno) => return Err(cannot("lock", &path, &errno.into())),
    }
    if is_new {
        let text = format!("{MARK}\nflifo may remove and replace the other files here.\n");
        mark.write_all(text.as_bytes()).map_err(|error| cannot("write to", dir, &error))?;
    }
    Ok(mark)
}

fn foreign_directory(dir: &Path) -> Error {
    Error::Data(format!(
        "{} is not empty and not flifo's, so it is left alone; use another --data",
        dir.display()
    ))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull => "free some space, or use another --data",
        _ => "use a --data directory that this user may write to",
    };
    Error::Data(format!("cannot {what} {}: {error}; {advice}", path.display()))
}

/// Examines the database's directory.
fn find(home: &Path, config: &EngineConfig, properties: &[(&'static str, String)]) -> Result<Found, Error> {
    if !home.exists() {
        return Ok(Found::Nothing);
    }
    let database = match Database::open(home, config.clone()) {
        Ok(database) => database,
        Err(EngineError::HalfCreated { .. } | EngineError::NoDatabase { .. }) => {
            return Ok(Found::Stale(format!("the load of {} was not completed", home.display())));
        }
        Err(EngineError::FormatVersion { found, supported, .. }) if found < supported => {
            return Ok(Found::Stale(format!(
                "the data in {} were made by an older flifo (format {found}, not {supported})",
                home.display()
            )));
        }
        Err(error) => return Err(damaged(home, error)),
    };
    for (name, want) in properties {
        let found = database.property(name).map_err(|error| damaged(home, error))?;
        let found = found.map(|value| String::from_utf8_lossy(&value).into_owned());
        if found.as_deref() != Some(want) {
            let found = found.unwrap_or_else(|| "unknown".into());
            return stale(&database, home, name, &found, want);
        }
    }
    // An existing database keeps its number of files, whatever the configuration is.
    let (found, want) = (database.stats().data_files, config.data_files);
    if found != want {
        return stale(&database, home, "data_files", &found.to_string(), &want.to_string());
    }
    Ok(Found::Ready(database))
}

/// Closes a sound database of other data, so that it can be replaced.
fn stale(database: &Database, home: &Path, name: &str, found: &str, want: &str) -> Result<Found, Error> {
    database.close()?;
    Ok(Found::Stale(format!("the data in {} have {name} = {found}, not {want}", home.display())))
}

/// What a complete load notes in the database; `complete` comes last.
fn properties(requested: &DataSpec<'_>) -> [(&'static str, String); 5] {
    [
        ("row_format", row::FORMAT_VERSION.to_string()),
        ("rows", requested.rows.to_string()),
        ("seed", requested.seed.to_string()),
        ("rollback_segments", requested.config.rollback_segments.to_string()),
        ("complete", "yes".into()),
    ]
}

fn damaged(home: &Path, error: EngineError) -> Error {
    match error {
        EngineError::OutOfFileDescriptors { .. } | EngineError::BadOption { .. } => Error::Engine(error),
        error => Error::Data(format!("{error} (to load again: remove {})", home.display())),
    }
}

/// Loads the table; what a failed or interrupted load leaves is removed.
fn make(home: &PathBuf, requested: &DataSpec<'_>, progress: &Progress) -> Result<Database, Error> {
    limits::disk(requested.dir, u64::from(requested.rows) * DISK_BYTES_PER_ROW + DISK_BYTES_BASE)?;
    let made = load(home, requested, progress);
    if made.is_err() {
        // The error that made it fail says more than one about the clearing away.
        let _ = fs::remove_dir_all(home);
    }
    made
}

fn load(home: &PathBuf, requested: &DataSpec<'_>, progress: &Progress) -> Result<Database, Error> {
    let database = Database::create(home, requested.config.clone())?;
    let table = Sbtest::create(&database)?;
    let bar = progress.load(requested.rows);
    let goes_on = || !interrupt::is_requested();
    let loaded =
        table.load(&database, (requested.seed, requested.rows), goes_on, |rows| bar.set_position(rows))?;
    if loaded.rows != i64::from(requested.rows) {
        return Err(Error::Interrupted);
    }
    bar.set_message("writing to disk");
    table_audit::note(&database, loaded)?;
    for (name, value) in properties(requested) {
        database.set_property(name, value)?;
    }
    database.checkpoint()?;
    bar.finish_and_clear();
    Ok(database)
}

/// Reads the table from its start until it, or the buffer pool, ends, so that the sweep measures the steady state, not
/// the first reads.
fn warm(
    database: &Database,
    table: &Sbtest,
    requested: &DataSpec<'_>,
    progress: &Progress,
) -> Result<(), Error> {
    let bar = progress.warm(requested.rows);
    let session = database.session(&without_limit());
    let fit = requested.config.buffer_pool_bytes / row::VALUE_BYTES as u64;
    let rows = u32::try_from(fit).unwrap_or(u32::MAX).min(requested.rows);
    const BATCH: u32 = 10_000;
    for first in (1..=rows).step_by(BATCH as usize) {
        if interrupt::is_requested() {
            return Err(Error::Interrupted);
        }
        let last = first.saturating_add(BATCH - 1).min(rows);
        let mut txn = session.begin(Isolation::RepeatableRead);
        let found = table.scan(&mut txn, (first, last, BATCH), |_, _| {})?;
        if found != last - first + 1 {
            return Err(Error::Data(format!(
                "the table has {found} rows from {first} to {last}: the data are damaged; remove {} to load them again",
                requested.dir.join(DATABASE_DIR).display()
            )));
        }
        bar.set_position(last.into());
    }
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{Cases, without_path};

    fn claimed(dir: &Path) -> String {
        claim(dir).map(drop).map_or_else(|error| error.to_string(), |()| "ours".into())
    }

    #[test]
    fn an_empty_directory_becomes_ours_and_stays_so() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        assert_eq!(claimed(&dir), "ours");
        assert_eq!(claimed(&dir), "ours");
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("thesis.tex"), "x").unwrap();
        let mut cases = Cases::default();
        let mut refused = |case: &str, dir: &Path| {
            let error = claim(dir).map(drop).unwrap_err().to_string();
            cases.add(case, without_path(&error, dir));
        };
        refused("another program's files", temp.path());
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
        let other = tempfile::tempdir().unwrap();
        let marks: [(&str, &[u8]); 3] = [
            ("another mark", b"something else\n"),
            ("another layout", b"flifo lab data, layout 99\n"),
            ("a mark that is no text", &[0xff, 0xfe]),
        ];
        for (case, mark) in marks {
            fs::write(other.path().join(MARK_FILE), mark).unwrap();
            refused(case, other.path());
        }
        let locked = tempfile::tempdir().unwrap();
        let _first = claim(locked.path()).unwrap();
        refused("in use", locked.path());
        cases.check("data-directory-errors");
    }

    #[test]
    fn history_that_the_last_run_left_is_purged_and_written_before_the_first_cell() {
        let temp = tempfile::tempdir().unwrap();
        let config = EngineConfig {
            buffer_pool_bytes: 4 << 20,
            buffer_pool_instances: 1,
            data_files: 1,
            rollback_segments: 2,
            ..EngineConfig::default()
        };
        let requested = DataSpec { dir: temp.path(), rows: 500, seed: 1, config };
        let data = prepare(&requested, &Progress::new()).unwrap();
        {
            let sessions = [(); 2].map(|()| data.database.session(&without_limit()));
            // It still sees the rows as they were, so that their undo is kept.
            let mut reader = sessions[0].begin(Isolation::RepeatableRead);
            assert!(data.table.read_c(&mut reader, 1, &mut Vec::new()).unwrap());
            let mut writer = sessions[1].begin(Isolation::ReadCommitted);
            for id in 1..=200 {
                assert!(data.table.increment_k(&mut writer, id).unwrap());
            }
            writer.commit().unwrap();
            data.database.close().unwrap();
        }
        drop(data);
        let data = prepare(&requested, &Progress::new()).unwrap();
        let stats = data.database.stats();
        assert_eq!((stats.txns.history, stats.pool.dirty_pages), (0, 0), "history, dirty pages");
        assert!(stats.txns.purged > 0, "there was nothing to purge");
    }

    #[test]
    fn one_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let first = claim(temp.path()).unwrap();
        assert!(claim(temp.path()).is_err());
        drop(first);
        assert_eq!(claimed(temp.path()), "ours");
    }

    #[test]
    fn a_file_is_no_directory() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, "x").unwrap();
        assert!(claimed(&file).starts_with("cannot create"));
    }
}
