//! Pages by number, striped over several data files, and whether they are in a clean state.
//!
//! Page `p` is in file `(p / 64) % N`; see `docs/format.md`. A single file would serialise its writes, so a database
//! has several (four by default).
//!
//! # Clean and open
//! The pages on disk are consistent only when all of them were written and synced. So before it writes the first page,
//! or the first byte of redo, an open sets the state blocks to *open*, durably; [`Tablespace::mark_clean`] syncs the
//! pages and then sets them to *clean*. An *open* database needs the redo log, from the checkpoint on
//! ([`Tablespace::mark_checkpoint`]). Reads change nothing.
//!
//! | the blocks say | `is_open` | `ended` | a write |
//! |---|---|---|---|
//! | *new* | yes | no | continues; a checkpoint leaves it *new* |
//! | *clean*, or *open* by an earlier opening | no | no | says *open* first |
//! | *open* by this one | yes | no | continues |
//! | *clean*, for the last time | no | yes | is refused |
//!
//! # Lock order
//! `files` (shared) before `writing` before `state`; `growing` after `files`. A page write holds `writing` shared
//! during the write, so that no write is concurrent with `mark_clean`. [`Tablespace::close`] takes `files` exclusively:
//! it waits until no transfer is in progress. A caller holds none of these locks, and no latch.
//!
//! # Failure
//! The caller may retry a failed read or write. A failed sync leaves the state on disk unknown, and stops the
//! tablespace for good: every later call is [`Error::Stopped`], and the state stays *open*. A call that waited for
//! `state` during the sync is stopped as well: the failed sync has taken the marks of the files that it was to sync.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, RwLock};

use flifo_base::{lock, read, write};
use smallvec::SmallVec;
use uuid::Uuid;

use super::header::HEADER_AREA_BYTES;
use super::many::{IN_FLIGHT_MAX, ManyWrites, Piece};
use super::state::{Checkpoint, Condition, EPOCH_MAX, State, StateBlocks, StateError};
use super::{DiskFile, DiskLock};
use crate::error::{Error, Result};

/// Pages by number, striped over data files in units of [`Tablespace::STRIPE_PAGES`].
pub struct Tablespace {
    pub(super) directory: String,
    pub(super) paths: Vec<String>,
    pub(super) page_size: usize,
    /// `None` after the close.
    pub(super) files: RwLock<Option<Files>>,
    /// Held shared by page writes.
    pub(super) writing: RwLock<()>,
    pub(super) state: Mutex<StateBlocks>,
    pub(super) database: Uuid,
    /// Whether it was when it was opened.
    pub(super) was_clean: bool,
    /// This opening has made the state blocks say *open*, or *new*: pages may be written. Changed under `state`.
    pub(super) is_open: AtomicBool,
    /// It is clean for the last time: writes are refused. Changed under `state`, while it is not open.
    pub(super) ended: AtomicBool,
    /// Goes into the state blocks with the next state.
    pub(super) checkpoint: Mutex<Checkpoint>,
    /// The redo log is known to be durable up to here; goes into the state blocks with the next state.
    pub(super) durable_log: AtomicU64,
    /// Of this opening; durable before it writes anything. Raised, if at all, before that.
    pub(super) epoch: AtomicU32,
    pub(super) growing: Mutex<()>,
    pub(super) pages: AtomicU64,
    /// Pages there was room for when the files were last synced: what the state blocks can promise.
    pub(super) synced_pages: AtomicU64,
    pub(super) catalog_root: AtomicU64,
    /// Syncs of the data files that were begun, and the last of them that has ended.
    pub(super) syncs_begun: AtomicU64,
    pub(super) synced: AtomicU64,
    /// The failure that stopped it. Set under `state`.
    pub(super) stopped: OnceLock<String>,
}

/// The files, released at the close.
pub(super) struct Files {
    pub(super) data: Vec<DataFile>,
    pub(super) _lock: Box<dyn DiskLock>,
}

pub(super) struct DataFile {
    pub(super) file: Box<dyn DiskFile>,
    /// Written or grown since the last sync began. Cleared under `state`, by a sync that then makes it durable or stops
    /// the tablespace: a thread that finds it false, with `state` locked, may rely on that only if the tablespace has
    /// not stopped.
    unsynced: AtomicBool,
}

impl DataFile {
    /// `synced`: all that was ever written to it is known to be durable.
    pub(super) fn new(file: Box<dyn DiskFile>, synced: bool) -> Self {
        DataFile { file, unsynced: AtomicBool::new(!synced) }
    }
}

impl Tablespace {
    /// Consecutive pages that lie in one file.
    pub const STRIPE_PAGES: u64 = 64;

    /// Maximum rows of stripes that one growth adds beyond the request.
    const GROWTH_ROWS_MAX: u64 = 16;

    /// Bytes per page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// Data files over which the pages are striped.
    pub fn data_files(&self) -> u32 {
        self.paths.len() as u32
    }

    /// The number of pages with space: `0..pages` can be read and written.
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Acquire)
    }

    /// The root page of the catalog, 0 until it is set.
    pub fn catalog_root(&self) -> u64 {
        self.catalog_root.load(Ordering::Acquire)
    }

    /// Sets the root page of the catalog; durable with the next clean state.
    pub fn set_catalog_root(&self, page: u64) {
        self.catalog_root.store(page, Ordering::Release);
    }

    /// Reads page `page` into `buf` (one page, aligned to 4096). Does not verify it.
    pub fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        assert_eq!(buf.len(), self.page_size);
        self.with_files(|files| {
            let (index, offset) = self.place(page)?;
            let file = &files.data[index].file;
            file.read_at(buf, offset).map_err(|source| match (source.kind(), file.bytes()) {
                (io::ErrorKind::UnexpectedEof, Ok(bytes)) => Error::TruncatedDataFile {
                    path: self.paths[index].clone(),
                    bytes,
                    bytes_expected: self.file_bytes(self.pages()),
                },
                _ => Error::from_io("cannot read", &*self.paths[index], source),
            })
        })
    }

    /// Writes the pages from `page` on, all of one stripe. Durable only after [`Tablespace::sync`].
    pub fn write(&self, page: u64, buf: &[u8]) -> Result<()> {
        self.write_many([(page, buf)].into_iter(), &mut ManyWrites::default())
    }

    /// Writes runs of pages, each as [`Tablespace::write`] would, at the same time where the system can.
    pub(crate) fn write_many<'b>(
        &self,
        runs: impl Iterator<Item = (u64, &'b [u8])>,
        writes: &mut ManyWrites,
    ) -> Result<()> {
        self.with_files(|files| {
            let (mut indexes, mut pieces) =
                (SmallVec::<[usize; IN_FLIGHT_MAX]>::new(), SmallVec::<[Piece<'_>; IN_FLIGHT_MAX]>::new());
            for (page, bytes) in runs {
                let pages = (bytes.len() / self.page_size) as u64;
                assert!(pages > 0 && bytes.len().is_multiple_of(self.page_size), "whole pages");
                assert!(page % Self::STRIPE_PAGES + pages <= Self::STRIPE_PAGES, "pages of one stripe");
                let (index, offset) = self.place(page)?;
                indexes.push(index);
                pieces.push(Piece { file: &*files.data[index].file, offset, bytes });
            }
            let _writing = read(&self.writing);
            self.mark_open(files)?;
            let written = writes.write(&pieces);
            // After the write, or a sync in between would pass for a sync of it; failed ones leave traces too.
            indexes.iter().for_each(|&index| files.data[index].unsynced.store(true, Ordering::Release));
            written.map_err(|(piece, source)| {
                let path = &self.paths[indexes[piece]];
                self.space_error("cannot write", path, source, pieces[piece].bytes.len() as u64)
            })
        })
    }

    /// Grows the files to pages `0..pages`, and somewhat further, so that not every page needs a call.
    pub fn grow(&self, pages: u64) -> Result<()> {
        self.with_files(|files| {
            let _growing = lock(&self.growing);
            let now = self.pages();
            if pages <= now {
                return Ok(());
            }
            let row = self.row_pages();
            let needed = pages.div_ceil(row) * row;
            let generous = needed + (now / row / 8).min(Self::GROWTH_ROWS_MAX) * row;
            let grown = match self.allocate(files, generous) {
                Err(Error::DiskFull { .. }) if generous > needed => {
                    self.allocate(files, needed).map(|()| needed)
                }
                other => other.map(|()| generous),
            };
            self.pages.store(grown?, Ordering::Release);
            Ok(())
        })
    }

    /// Makes all earlier writes durable.
    pub fn sync(&self) -> Result<()> {
        self.with_files(|files| {
            let _one_at_a_time = self.lock_state()?;
            self.sync_data(files)
        })
    }

    /// Which database this is.
    pub(crate) fn database(&self) -> Uuid {
        self.database
    }

    /// Number of this opening: greater than that of any that wrote before.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Continues after opening number `found`, which also wrote the redo log, and which data files restored from an
    /// older copy do not know. Called before any write; false if there is no higher number.
    pub(crate) fn follow_epoch(&self, found: u32) -> bool {
        assert!(!self.is_open.load(Ordering::Acquire), "it has written with another epoch");
        let next = found.saturating_add(1);
        self.epoch.fetch_max(next, Ordering::AcqRel);
        next <= EPOCH_MAX
    }

    /// Where recovery begins to read the redo log.
    pub(crate) fn checkpoint(&self) -> Checkpoint {
        *lock(&self.checkpoint)
    }

    /// Says where; durable with the next state.
    pub(crate) fn set_checkpoint(&self, checkpoint: Checkpoint) {
        *lock(&self.checkpoint) = checkpoint;
    }

    /// The redo log was durable up to here when the state was last written down: an end before it is a loss.
    pub(crate) fn durable_log(&self) -> u64 {
        self.durable_log.load(Ordering::Acquire)
    }

    /// Says up to where the redo log is durable; durable with the next state.
    pub(crate) fn note_durable_log(&self, lsn: u64) {
        self.durable_log.fetch_max(lsn, Ordering::AcqRel);
    }

    /// Syncs the pages, and durably sets where recovery begins to read the redo log. The caller has written all pages
    /// with changes before that.
    pub(crate) fn mark_checkpoint(&self, checkpoint: Checkpoint) -> Result<()> {
        self.with_files(|files| {
            let mut blocks = self.lock_state()?;
            self.check_not_ended()?;
            self.sync_data(files)?;
            self.set_checkpoint(checkpoint);
            // A database under creation stays *new* until it is clean, however many checkpoints it makes.
            let condition = match blocks.condition() {
                Condition::New => Condition::New,
                Condition::Open | Condition::Clean => Condition::Open,
            };
            self.write_state(files, &mut blocks, condition)?;
            self.is_open.store(true, Ordering::Release);
            Ok(())
        })
    }

    /// Says, durably, that pages or redo are being written: to be called before either, does something the first time.
    pub(crate) fn begin_writing(&self) -> Result<()> {
        match self.is_open.load(Ordering::Acquire) {
            true => Ok(()),
            false => self.with_files(|files| self.mark_open(files)),
        }
    }

    /// Number of a sync that makes durable all that was written before this call.
    pub(crate) fn next_sync(&self) -> u64 {
        self.syncs_begun.load(Ordering::Acquire) + 1
    }

    /// Whether the sync of that number, or a later one, has ended.
    pub(crate) fn is_synced(&self, sync: u64) -> bool {
        self.synced.load(Ordering::Acquire) >= sync
    }

    /// Durably marks the pages on disk as consistent. The caller has written all changed pages.
    pub fn mark_clean(&self) -> Result<()> {
        self.make_clean(false)
    }

    /// As `mark_clean`, for the last time: every later write returns [`Error::Closed`], so that the database stays
    /// clean.
    pub(crate) fn end_writing(&self) -> Result<()> {
        self.make_clean(true)
    }

    fn make_clean(&self, for_good: bool) -> Result<()> {
        self.with_files(|files| {
            let _no_writes = write(&self.writing);
            let mut blocks = self.lock_state()?;
            self.sync_data(files)?;
            // What a first write has made *open*, and then failed with, too.
            if !blocks.say(Condition::Clean) {
                self.write_state(files, &mut blocks, Condition::Clean)?;
                self.is_open.store(false, Ordering::Release);
            }
            self.ended.fetch_or(for_good, Ordering::AcqRel);
            Ok(())
        })
    }

    /// Says once more, durably, that the pages fit together, as they did when it was opened: after a failed sync that can
    /// be read and not be on the disk. To be called before what an open state needs is removed.
    pub(crate) fn confirm_clean(&self) -> Result<()> {
        assert!(self.was_clean && !self.is_open.load(Ordering::Acquire));
        self.with_files(|files| {
            let mut blocks = self.lock_state()?;
            self.write_state(files, &mut blocks, Condition::Clean)
        })
    }

    /// Whether the pages on disk were consistent at the open.
    pub fn was_clean(&self) -> bool {
        self.was_clean
    }

    /// Closes the files and releases the directory's lock, in any state. Later calls return [`Error::Closed`].
    pub fn close(&self) {
        *write(&self.files) = None;
    }

    pub(super) fn with_files<T>(&self, f: impl FnOnce(&Files) -> Result<T>) -> Result<T> {
        let files = read(&self.files);
        let files = files.as_ref().ok_or(Error::Closed)?;
        self.check_not_stopped().and_then(|()| f(files))
    }

    fn check_not_stopped(&self) -> Result<()> {
        match self.stopped.get() {
            Some(what) => Err(Error::Stopped { what: what.clone() }),
            None => Ok(()),
        }
    }

    /// Locks the state for a sync or a change. Checks again for a stop: a thread that waited for a failed sync must do
    /// neither.
    fn lock_state(&self) -> Result<MutexGuard<'_, StateBlocks>> {
        let blocks = lock(&self.state);
        self.check_not_stopped().map(|()| blocks)
    }

    fn mark_open(&self, files: &Files) -> Result<()> {
        if self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut blocks = self.lock_state()?;
        if self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        self.check_not_ended()?;
        self.write_state(files, &mut blocks, Condition::Open)?;
        self.is_open.store(true, Ordering::Release);
        Ok(())
    }

    /// The caller has `state` locked.
    fn check_not_ended(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    fn write_state(&self, files: &Files, blocks: &mut StateBlocks, condition: Condition) -> Result<()> {
        let state = State {
            condition,
            pages: self.synced_pages.load(Ordering::Acquire),
            catalog_root: self.catalog_root(),
            checkpoint: self.checkpoint(),
            epoch: self.epoch(),
            durable_log: self.durable_log(),
        };
        blocks.write(&*files.data[0].file, &state).map_err(|error| match error {
            StateError::Write(source) => Error::from_io("cannot write", &*self.paths[0], source),
            StateError::Sync(source) => self.stop(&self.paths[0], source),
        })
    }

    /// The caller has `state` locked: a second sync must not return while the first is still at it.
    fn sync_data(&self, files: &Files) -> Result<()> {
        let (pages, sync) = (self.pages(), self.syncs_begun.fetch_add(1, Ordering::AcqRel) + 1);
        for (data, path) in files.data.iter().zip(&self.paths) {
            if data.unsynced.swap(false, Ordering::AcqRel) {
                data.file.sync().map_err(|source| self.stop(path, source))?;
            }
        }
        self.synced_pages.fetch_max(pages, Ordering::AcqRel);
        self.synced.fetch_max(sync, Ordering::AcqRel);
        Ok(())
    }

    /// After a failed sync it is unknown which writes are durable, and a second sync would report a false success. The
    /// caller has `state` locked.
    fn stop(&self, path: &str, source: io::Error) -> Error {
        let _ = self.stopped.set(format!("cannot sync {path}: {source}"));
        Error::from_io("cannot sync", path, source)
    }

    fn allocate(&self, files: &Files, pages: u64) -> Result<()> {
        for (data, path) in files.data.iter().zip(&self.paths) {
            let bytes_more = (pages - self.pages()) * self.page_size as u64;
            data.file
                .allocate(self.file_bytes(pages))
                .map_err(|source| self.space_error("cannot grow", path, source, bytes_more))?;
            data.unsynced.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn space_error(&self, action: &'static str, path: &str, source: io::Error, bytes_needed: u64) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::DiskFull { bytes_needed, path: self.directory.clone() }
            }
            _ => Error::from_io(action, path, source),
        }
    }

    /// Pages of one stripe in every file: the unit in which the data files grow.
    pub(super) fn row_pages(&self) -> u64 {
        Self::STRIPE_PAGES * self.paths.len() as u64
    }

    /// Length of each data file with space for `pages` pages.
    pub(super) fn file_bytes(&self, pages: u64) -> u64 {
        HEADER_AREA_BYTES + pages.div_ceil(self.row_pages()) * Self::STRIPE_PAGES * self.page_size as u64
    }

    /// The data file of a page, and its offset there; `None` if there is no such page.
    pub(crate) fn place_of(&self, page: u64) -> Option<(String, u64)> {
        self.place(page).ok().map(|(index, offset)| (self.paths[index].clone(), offset))
    }

    /// The data files and their lengths, bytes.
    pub(crate) fn lengths(&self) -> Result<Vec<(String, u64)>> {
        self.with_files(|files| {
            let of_file = |(data, path): (&DataFile, &String)| {
                let bytes = data.file.bytes();
                let bytes = bytes.map_err(|source| Error::from_io("cannot examine", &**path, source))?;
                Ok((path.clone(), bytes))
            };
            files.data.iter().zip(&self.paths).map(of_file).collect()
        })
    }

    /// File and offset of a page.
    fn place(&self, page: u64) -> Result<(usize, u64)> {
        let pages = self.pages();
        if page >= pages {
            let what = format!("something refers to it, and the data files end at page {pages}");
            return Err(Error::CorruptPage { page, what });
        }
        let (stripe, within) = (page / Self::STRIPE_PAGES, page % Self::STRIPE_PAGES);
        let files = self.paths.len() as u64;
        let in_file = (stripe / files) * Self::STRIPE_PAGES + within;
        Ok(((stripe % files) as usize, HEADER_AREA_BYTES + in_file * self.page_size as u64))
    }
}

#[cfg(test)]
mod tests;
