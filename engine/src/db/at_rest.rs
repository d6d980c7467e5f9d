//! A database that nobody has open: its check, and what can be told of it without opening it.

use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::catalog::Catalog;
use super::check::{Check, CheckProgress};
use super::database::{open_directory, open_directory_to_read};
use super::{CheckReport, Database, EngineConfig, opening};
use crate::disk::{Disk, FORMAT_VERSION, Tablespace};
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::redo::{LogBuffer, LogFiles};
use crate::wait::Waiter;

/// A database that nobody has open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AtRest {
    /// Version of the files' format.
    pub format_version: u32,
    /// The database's id, the same in all its files.
    pub id: Uuid,
    /// Bytes per page.
    pub page_bytes: u32,
    /// Pages that the data files have room for.
    pub pages: u64,
    /// The data files, and their lengths in bytes.
    pub data_files: Vec<(String, u64)>,
    /// Whether it was closed.
    pub is_clean: bool,
    /// What the next open does before anything else.
    pub next_open: NextOpen,
    /// Where recovery would begin to read the redo log.
    pub checkpoint_lsn: u64,
    /// The redo log is known to have been durable up to here.
    pub durable_lsn: u64,
    /// How often it was opened and written.
    pub epoch: u32,
    /// Files of the redo log.
    pub redo_files: Vec<String>,
    /// What these hold, bytes; what is wrong with them, if something is. (After a clean close that is no loss: the next open
    /// makes them anew.)
    pub redo_capacity_bytes: std::result::Result<u64, String>,
}

/// What an open makes of a database's files before anything is read from its tables.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextOpen {
    /// It was closed, and is opened as it is.
    AsItIs,
    /// It was not closed, or its data files are of an older copy than its redo log: it is recovered.
    Recovers,
    /// It was closed; files of its redo log that are missing, damaged or of a later time are made anew, and pages of a later time
    /// in the doublewrite areas made void. That is no loss.
    MakesAnew,
    /// It is refused: the redo log, which is needed, is damaged or ends too early. Why. (Of one that was not closed only what is
    /// seen without reading all of the log.)
    Refuses(String),
}

impl AtRest {
    pub(super) fn look(disk: &dyn Disk) -> Result<AtRest> {
        let space = Tablespace::open(disk)?;
        let log = LogFiles::open(disk, space.database());
        let whole = log.and_then(|log| LogBuffer::open(disk, space.database()).map(|_| log));
        let redo_capacity_bytes = match whole {
            Ok(log) => Ok(log.capacity_bytes()),
            Err(error) if error.is_damage() => Err(error.to_string()),
            // What of it cannot be read may be made anew, too.
            Err(error @ Error::Io { .. }) if space.was_clean() => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        let next_open = match &redo_capacity_bytes {
            Ok(_) if !space.was_clean() => NextOpen::Recovers,
            Err(problem) if !space.was_clean() => NextOpen::Refuses(problem.clone()),
            _ => match opening::next_open(disk, &space) {
                Err(error) if error.is_damage() => NextOpen::Refuses(error.to_string()),
                other => other?,
            },
        };
        let mut redo_files =
            disk.names().map_err(|source| Error::from_io("cannot list", disk.path(""), source))?;
        redo_files.retain(|name| LogFiles::is_segment(name));
        redo_files.sort_unstable();
        Ok(AtRest {
            format_version: FORMAT_VERSION,
            id: space.database(),
            page_bytes: space.page_size() as u32,
            pages: space.pages(),
            data_files: space.lengths()?,
            is_clean: space.was_clean(),
            next_open,
            checkpoint_lsn: space.checkpoint().lsn,
            durable_lsn: space.durable_log(),
            // Of the opening that this one would be.
            epoch: space.epoch() - 1,
            redo_files: redo_files.iter().map(|name| disk.path(name)).collect(),
            redo_capacity_bytes,
        })
    }
}

impl Database {
    /// Checks the database in `dir`, which nobody has open for writing: see [`Database::check`]. What is damaged so that the
    /// database cannot be opened is checked as far as it goes; what keeps the check from beginning is an error, of which
    /// [`Error::is_damage`] says whether it is the files'.
    ///
    /// A database that was closed is only read, with locks that are shared with other readers: permission to read is enough,
    /// and the file system may be read-only. One that was not, or whose data files are of an older copy than its log, is
    /// recovered first, and closed afterwards; transactions that were cut off are rolled back by the next open.
    ///
    /// # Errors
    /// [`Error::RecoveryNotPossible`] if it has to be recovered, and nothing can be written.
    pub fn check_in(
        dir: impl AsRef<Path>,
        config: EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let dir = dir.as_ref();
        match Self::check_closed(&open_directory_to_read(dir, &config)?, &config, progress)? {
            Some(report) => Ok(report),
            None => Self::recover_in(dir, config, progress),
        }
    }

    /// Does what the next open of the database in `dir`, which nobody has open, does first: recovers it, or makes files of its
    /// redo log anew ([`NextOpen`]). Then checks and closes it.
    ///
    /// # Errors
    /// [`Error::RecoveryNotPossible`] if nothing can be written. Others as of [`Database::check_in`].
    pub fn recover_in(
        dir: impl AsRef<Path>,
        config: EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let disk = open_directory(dir.as_ref(), &config)?;
        Self::look_over(&disk, &config, false, progress).map_err(|error| match error.forbids_writing() {
            true => Error::RecoveryNotPossible { path: disk.path(""), source: Box::new(error) },
            false => error,
        })
    }

    /// Checks the database in `dir`, which nobody has open, as [`Database::check_in`] does, and frees the pages that are
    /// marked as used and belong to nothing: a crash leaves those of a bulk load that it cut off, and of a split, and those
    /// that a merge, or purge, had taken out of a tree and not freed yet. A database that is not sound is left as it is, since
    /// what lies below a damaged page is not reached.
    pub fn reclaim_in(
        dir: impl AsRef<Path>,
        config: EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let dir = dir.as_ref();
        let report = Self::check_in(dir, config.clone(), progress)?;
        match has_leaks_to_free(&report) {
            true => Self::look_over(&open_directory(dir, &config)?, &config, true, progress),
            false => Ok(report),
        }
    }

    /// As [`Database::reclaim_in`], on any [`Disk`].
    pub fn reclaim_on(
        disk: Arc<dyn Disk>,
        config: EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let report = Self::check_on(Arc::clone(&disk), config.clone(), progress)?;
        match has_leaks_to_free(&report) {
            true => Self::look_over(&*disk, &config, true, progress),
            false => Ok(report),
        }
    }

    /// As [`Database::check_in`], on any [`Disk`].
    pub fn check_on(
        disk: Arc<dyn Disk>,
        config: EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        match Self::check_closed(&*disk, &config, progress)? {
            Some(report) => Ok(report),
            None => Self::look_over(&*disk, &config, false, progress),
        }
    }

    /// Checks a database that was closed, and only reads it. `None` if it has to be recovered first.
    fn check_closed(
        disk: &dyn Disk,
        config: &EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<Option<CheckReport>> {
        config.check()?;
        let space = Arc::new(Tablespace::open(disk)?);
        if opening::needs_log(disk, &space)? {
            return Ok(None);
        }
        let log = opening::log_of_reader(disk, &space, config);
        // No areas are made for what writes no pages.
        let config = EngineConfig { doublewrite: false, ..config.clone() };
        let (running, waits) = Self::recover(disk, (log, None), &config, &mut |_| {})?;
        let waiter = Waiter::background().recording(&waits);
        let catalog = Catalog::open(&running.pool, PageNo(running.space.catalog_root()));
        Check::run(&running.pool, &catalog, false, &waiter, progress).map(Some)
    }

    /// Recovers a database if it has to be, checks it, and closes it if it was changed: recovered, or with `reclaim`
    /// relieved of its leaked pages. No transaction goes on in it, and none is rolled back.
    fn look_over(
        disk: &dyn Disk,
        config: &EngineConfig,
        reclaim: bool,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        config.check()?;
        let space = Arc::new(Tablespace::open(disk)?);
        let mut config = opening::as_found(disk, &space, config);
        let found = opening::open_log(disk, &space, &config)?;
        // One that was closed is not changed, unless its data files are of an older copy than its log.
        let changes = reclaim || !space.was_clean() || found.1.is_some();
        // No areas are made for what writes no pages.
        config.doublewrite &= changes;
        let mut tell = |recovery| progress(CheckProgress::Recovering(recovery));
        let (running, waits) = Self::recover(disk, found, &config, &mut tell)?;
        let waiter = Waiter::background().recording(&waits);
        let catalog = Catalog::open(&running.pool, PageNo(running.space.catalog_root()));
        if reclaim {
            // What a crash left half done knows of pages that no tree has.
            catalog.alloc().free_pending(&waiter)?;
            catalog.tidy(&waiter)?;
            catalog.abandon_doomed(&waiter)?;
            catalog.alloc().abandon_pending(&waiter)?;
        }
        let report = Check::run(&running.pool, &catalog, reclaim, &waiter, progress)?;
        if changes {
            running.make_clean(&waiter)?;
        }
        Ok(report)
    }

    /// What is known of the database in `dir`, which nobody has open for writing, without opening it: nothing is changed, and
    /// nothing recovered. Permission to read is enough, and the file system may be read-only.
    pub fn at_rest(dir: impl AsRef<Path>) -> Result<AtRest> {
        AtRest::look(&open_directory_to_read(dir.as_ref(), &EngineConfig::default())?)
    }
}

fn has_leaks_to_free(report: &CheckReport) -> bool {
    report.is_sound() && report.space.leaked_pages > 0
}
