//! A closed database: its check, and its description without opening it.

use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;

use super::catalog::Catalog;
use super::check::{Check, CheckProgress};
use super::directory::{open_directory, open_directory_to_read};
use super::{CheckReport, Database, EngineConfig, opening};
use crate::disk::{Disk, FORMAT_VERSION, Tablespace};
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::redo::{LogBuffer, LogFiles};
use crate::wait::Waiter;

/// The description of a closed database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AtRest {
    /// Version of the files' format.
    pub format_version: u32,
    /// The database's id, the same in all its files.
    pub id: Uuid,
    /// Bytes per page.
    pub page_bytes: u32,
    /// Pages that fit in the data files.
    pub pages: u64,
    /// The data files, and their lengths in bytes.
    pub data_files: Vec<(String, u64)>,
    /// Whether it was closed.
    pub is_clean: bool,
    /// The first action of the next open.
    pub next_open: NextOpen,
    /// Where recovery would begin to read the redo log.
    pub checkpoint_lsn: u64,
    /// The last LSN of the redo log that is known to be durable.
    pub durable_lsn: u64,
    /// How many times the database was opened for writing.
    pub epoch: u32,
    /// Files of the redo log.
    pub redo_files: Vec<String>,
    /// The size of these files, bytes, or the problem with them. After a clean close a problem means no loss: the next
    /// open creates them again.
    pub redo_capacity_bytes: std::result::Result<u64, String>,
}

/// The first action of an open, before it reads any table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextOpen {
    /// It was closed, and is opened as it is.
    AsItIs,
    /// It was not closed, or its data files are of an older copy than its redo log: it is recovered.
    Recovers,
    /// The database was closed. The open creates missing, damaged or later files of the redo log again, and voids pages
    /// of a later time in the doublewrite areas. Nothing is lost.
    MakesAnew,
    /// The open is refused, for this reason: recovery needs the redo log, which is damaged or ends too early. For a
    /// database that was not closed, this covers only the damage that shows without reading the whole log.
    Refuses(String),
}

impl AtRest {
    pub(super) fn read(disk: &dyn Disk) -> Result<AtRest> {
        let space = Tablespace::open(disk)?;
        let log = LogFiles::open(disk, space.database());
        let whole = log.and_then(|log| LogBuffer::open(disk, space.database()).map(|_| log));
        let redo_capacity_bytes = match whole {
            Ok(log) => Ok(log.capacity_bytes()),
            Err(error) if error.is_damage() => Err(error.to_string()),
            // An unreadable file may be created again, too.
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
    /// Checks the closed database in `dir`: see [`Database::check`]. A database that is too damaged to open is checked
    /// as far as possible. A failure that prevents the check is an error; [`Error::is_damage`] says whether the files
    /// are the cause.
    ///
    /// A database that was closed is only read, with locks that are shared with other readers: read permission is
    /// enough, and the file system may be read-only. A database that was not closed, or whose data files are of an
    /// older copy than its log, is recovered first and closed afterwards. The next open rolls back interrupted
    /// transactions.
    ///
    /// # Errors
    /// [`Error::RecoveryNotPossible`] if the database needs recovery and cannot be written.
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

    /// Recovers the closed database in `dir`, or creates files of its redo log again, as its next open would
    /// ([`NextOpen`]). Then checks and closes it.
    ///
    /// # Errors
    /// [`Error::RecoveryNotPossible`] if the database cannot be written, and those of [`Database::check_in`].
    pub fn recover_in(
        dir: impl AsRef<Path>,
        config: EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let disk = open_directory(dir.as_ref(), &config)?;
        Self::recover_and_check(&disk, &config, false, progress).map_err(|error| {
            match error.forbids_writing() {
                true => Error::RecoveryNotPossible { path: disk.path(""), source: Box::new(error) },
                false => error,
            }
        })
    }

    /// Checks the closed database in `dir`, as [`Database::check_in`] does, and frees leaked pages: pages that are
    /// marked as used but belong to no tree. A crash leaks pages of a bulk load or a split that it interrupts, and
    /// pages that a merge or purge had removed from a tree and not freed yet. A database that is not sound is left
    /// unchanged, since the check does not reach the pages below a damaged page.
    pub fn reclaim_in(
        dir: impl AsRef<Path>,
        config: EngineConfig,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckReport> {
        let dir = dir.as_ref();
        let report = Self::check_in(dir, config.clone(), progress)?;
        match has_leaks_to_free(&report) {
            true => Self::recover_and_check(&open_directory(dir, &config)?, &config, true, progress),
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
            true => Self::recover_and_check(&*disk, &config, true, progress),
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
            None => Self::recover_and_check(&*disk, &config, false, progress),
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

    /// Recovers a database if necessary, checks it, and closes it if the recovery or `reclaim` changed it. Transactions
    /// neither continue nor roll back.
    fn recover_and_check(
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

    /// Describes the database in `dir`, which no process has open for writing, without opening it. Nothing is changed
    /// or recovered. Read permission is enough, and the file system may be read-only.
    pub fn at_rest(dir: impl AsRef<Path>) -> Result<AtRest> {
        AtRest::read(&open_directory_to_read(dir.as_ref(), &EngineConfig::default())?)
    }
}

fn has_leaks_to_free(report: &CheckReport) -> bool {
    report.is_sound() && report.space.leaked_pages > 0
}
