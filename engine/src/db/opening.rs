//! The redo log of a database that is created or opened: new, reused after a clean close, or replayed.

use std::sync::Arc;

use super::EngineConfig;
use super::at_rest::NextOpen;
use crate::buffer::{BufferPool, RecoveryProgress, Replay, VoidRanges, doublewrite, redo_bytes_max};
use crate::disk::{Checkpoint, Disk, Tablespace};
use crate::error::{Error, Result};
use crate::page::bitmap::{bitmap_of, group_pages};
use crate::page::op::Op;
use crate::page::{Lsn, PageNo};
use crate::redo::{LSN_START, Log, LogBuffer, LogFiles, Reader};

/// Threads that change pages while the log is replayed.
const APPLIERS: usize = 4;
/// Bytes of log between two progress reports.
const PROGRESS_BYTES: u64 = 1 << 20;
/// The log, for people.
const LOG_NAMES: &str = "redo*.flifo";

/// A log that needs replay, and where the replay begins.
pub(super) struct ToReplay {
    /// The log's own; nothing is appended before all is replayed.
    files: Arc<LogFiles>,
    start: Checkpoint,
    end: Lsn,
    /// No page number in the log can reach this one.
    pages_max: u64,
    void_ranges: VoidRanges,
}

/// A configuration under which the log of a database is kept as found.
pub(super) fn as_found(disk: &dyn Disk, space: &Tablespace, config: &EngineConfig) -> EngineConfig {
    let log = LogFiles::open(disk, space.database());
    let buffer = LogBuffer::open(disk, space.database());
    EngineConfig {
        redo_capacity_bytes: log.map_or(config.redo_capacity_bytes, |log| log.capacity_bytes()),
        log_buffer_bytes: buffer.map_or(config.log_buffer_bytes, |buffer| buffer.bytes()),
        ..config.clone()
    }
}

/// A log in new files.
pub(super) fn create_log(
    disk: &dyn Disk,
    space: &Arc<Tablespace>,
    config: &EngineConfig,
) -> Result<Arc<Log>> {
    Log::create(disk, space, config.redo_capacity_bytes, config.log_buffer_bytes)
}

/// A log as it was found: nothing was changed yet.
struct Found {
    files: Arc<LogFiles>,
    /// An error is damage, or that it cannot be read, and only of a database that does not need it.
    buffer: Result<LogBuffer>,
    end: Lsn,
    epoch: u32,
    survey: Survey,
    /// The pages do not fit together without it.
    is_needed: bool,
    /// Frames of another time lie where the next ones go.
    is_followed: bool,
}

impl Found {
    /// Reads the log to its end. `None` if there is no readable log, and none is needed.
    fn inspect(disk: &dyn Disk, space: &Tablespace) -> Result<Option<Found>> {
        let start = space.checkpoint();
        if start.lsn < LSN_START.0 {
            // No database that was created to the end says so.
            let what = format!("the data files say that it begins at {}, and none does", start.lsn);
            return Err(Error::CorruptRedo { path: disk.path(LOG_NAMES), what });
        }
        let files = match LogFiles::open(disk, space.database()) {
            // The rest of a log that was being removed or created makes room for a new one.
            Err(Error::MissingRedo { .. } | Error::CorruptRedo { .. }) if space.was_clean() => {
                return Ok(None);
            }
            files => Arc::new(files?),
        };
        let buffer = match LogBuffer::open(disk, space.database()) {
            // An unreadable log is treated as a damaged one.
            Err(error @ (Error::MissingRedo { .. } | Error::CorruptRedo { .. } | Error::Io { .. }))
                if space.was_clean() =>
            {
                Err(error)
            }
            buffer => Ok(buffer?),
        };
        let mut reader = Reader::new(&files, start, space.epoch(), redo_bytes_max(space.page_size()));
        let mut survey = Survey::default();
        survey.read_on(&mut reader, space)?;
        if let Ok(buffer) = &buffer {
            reader.take_over(buffer)?;
            survey.read_on(&mut reader, space)?;
        }
        let (end, epoch) = (reader.end(), reader.epoch());
        // Of a database that was closed nothing is needed, unless its data files were put back from an older copy.
        let is_needed = !space.was_clean() || end.0 > start.lsn;
        // Or they were durable, and the log no longer reaches back that far. New frames would lie between frames of
        // another time, and the next open could not distinguish them. The part that cannot be read is not needed
        // either.
        let is_followed = !is_needed && reader.is_followed().unwrap_or(true);
        let buffer = match buffer {
            Err(error) if is_needed => return Err(error),
            buffer => buffer,
        };
        if is_needed {
            check_end(disk, space, &mut reader)?;
        }
        Ok(Some(Found { files, buffer, end, epoch, survey, is_needed, is_followed }))
    }
}

/// The next [`open_log`]'s action on the log, and on the doublewrite areas, of a closed database.
pub(super) fn next_open(disk: &dyn Disk, space: &Tablespace) -> Result<NextOpen> {
    Ok(match Found::inspect(disk, space)? {
        Some(found) if found.is_needed => NextOpen::Recovers,
        Some(found)
            if found.buffer.is_ok() && !found.is_followed && !doublewrite::has_later(disk, space)? =>
        {
            NextOpen::AsItIs
        }
        _ => NextOpen::MakesAnew,
    })
}

/// Whether the pages of a database do not fit together without its log.
pub(super) fn needs_log(disk: &dyn Disk, space: &Tablespace) -> Result<bool> {
    Ok(!space.was_clean() || Found::inspect(disk, space)?.is_some_and(|found| found.is_needed))
}

/// The log of a database that needs none and is only read: it has no files.
pub(super) fn log_of_reader(disk: &dyn Disk, space: &Arc<Tablespace>, config: &EngineConfig) -> Arc<Log> {
    let files = Arc::new(LogFiles::none(disk, config.redo_capacity_bytes));
    let buffer = LogBuffer::in_memory(config.log_buffer_bytes);
    Log::new(space, files, buffer, Lsn(space.checkpoint().lsn))
}

/// Opens the log of an existing database, and finds the part to replay before the pages are consistent.
pub(super) fn open_log(
    disk: &dyn Disk,
    space: &Arc<Tablespace>,
    config: &EngineConfig,
) -> Result<(Arc<Log>, Option<ToReplay>)> {
    let start = space.checkpoint();
    let keeps = |found: &Found| {
        found.is_needed || !found.is_followed && found.files.has_capacity(config.redo_capacity_bytes)
    };
    let Some(Found { files, buffer, end, epoch, survey, is_needed, .. }) =
        Found::inspect(disk, space)?.filter(keeps)
    else {
        return replace_log(disk, space, config);
    };
    let buffer = match buffer {
        Ok(buffer) if is_needed || buffer.has_size(config.log_buffer_bytes) => buffer,
        other => {
            drop(other);
            space.confirm_clean()?;
            LogBuffer::create(disk, space.database(), config.log_buffer_bytes)?
        }
    };
    // Otherwise new frames would not count: an epoch never decreases along the stream.
    if epoch >= space.epoch() && !space.follow_epoch(epoch) {
        let what = format!("it was written by opening number {epoch}, which there cannot be");
        return Err(Error::CorruptRedo { path: disk.path(LOG_NAMES), what });
    }
    if end.0 > start.lsn {
        // Before anything is done that relies on it: what a killed process wrote can be read, and is lost with the next
        // power cut, and the state after a failed sync is no better.
        files.rewrite(Lsn(start.lsn), end)?;
    }
    // The files were that long at the checkpoint; they grow when all of them is allocated, from the front, and the log has
    // that. One group more, for the bitmap of a new one.
    let pages_max = (space.pages() + group_pages(space.page_size())).saturating_add(survey.marked_pages);
    match is_needed {
        false => doublewrite::forget_later(disk, space)?,
        // Done even if there is nothing to replay. The check refuses pages of another time in the doublewrite areas
        // now; a later recovery would take them for copies of this database's pages.
        true => doublewrite::repair(disk, space, &survey.void_ranges, end, PageNo(pages_max))?,
    }
    space.note_durable_log(end.0);
    let to_replay = (end.0 > start.lsn).then(|| ToReplay {
        files: Arc::clone(&files),
        start,
        end,
        pages_max,
        void_ranges: survey.void_ranges,
    });
    Ok((Log::new(space, files, buffer, end), to_replay))
}

/// What must be known of a log before it is replayed.
#[derive(Default)]
struct Survey {
    /// How many pages it may have marked as used.
    marked_pages: u64,
    /// Allocations of bulk loads.
    loads: u64,
    void_ranges: VoidRanges,
}

impl Survey {
    /// Reads the log to its end. Refuses a log with a bulk load if the data files are older than the load: the log
    /// lacks its pages.
    fn read_on(&mut self, reader: &mut Reader<'_>, space: &Tablespace) -> Result<()> {
        loop {
            let loads = self.loads;
            let goes_on = reader.next(|end, records| {
                self.look_at(end, records, space.page_size());
                Ok(())
            })?;
            let is_later = space.was_clean() || reader.epoch() >= space.epoch();
            if self.loads > loads && is_later {
                let what = "rows were loaded in bulk since the data files were copied, and are in no log";
                return Err(Error::CorruptRedo { path: "the redo log".to_owned(), what: what.to_owned() });
            }
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Looks at the records of the frame that ends at `end`.
    fn look_at(&mut self, end: Lsn, records: &[u8], page_bytes: usize) {
        let mut rest = records;
        // What cannot be decoded is refused when it is replayed.
        while !rest.is_empty()
            && let Ok((page, op)) = Op::decode(&mut rest, page_bytes)
        {
            match op {
                Op::Write { bytes, .. } if page == bitmap_of(page, page_bytes) => {
                    self.marked_pages += 8 * bytes.len() as u64;
                }
                Op::Unlogged { pages } => {
                    self.loads += 1;
                    self.void_ranges.add(page.0..page.0.saturating_add(pages.into()), end);
                }
                _ => {}
            }
        }
    }
}

fn replace_log(
    disk: &dyn Disk,
    space: &Arc<Tablespace>,
    config: &EngineConfig,
) -> Result<(Arc<Log>, Option<ToReplay>)> {
    space.confirm_clean()?;
    doublewrite::forget_later(disk, space)?;
    create_log(disk, space, config).map(|log| (log, None))
}

/// Refuses a log that ends before the last LSN known to be durable.
fn check_end(disk: &dyn Disk, space: &Tablespace, reader: &mut Reader<'_>) -> Result<()> {
    let (end, noted) = (reader.end(), Lsn(space.durable_log()));
    let durable = noted.max(reader.durable_behind()?);
    if end >= durable {
        return Ok(());
    }
    let what = format!("it ends at {}, and was once durable up to {} at least", end.0, durable.0);
    Err(Error::CorruptRedo { path: disk.path(LOG_NAMES), what })
}

impl ToReplay {
    /// Where it begins.
    pub(super) fn start(&self) -> Lsn {
        Lsn(self.start.lsn)
    }

    /// Replays the log on the pages of `pool`.
    pub(super) fn replay(self, pool: &BufferPool, progress: &mut dyn FnMut(RecoveryProgress)) -> Result<()> {
        let total_bytes = self.end.0 - self.start.lsn;
        let mut reported = 0;
        Replay::new(pool, self.end, self.pages_max, self.void_ranges).run(APPLIERS, |each| {
            let mut reader =
                Reader::new(&self.files, self.start, pool.space().epoch(), redo_bytes_max(pool.page_size()));
            progress(RecoveryProgress { replayed_bytes: 0, total_bytes });
            while reader.end() < self.end && reader.next(&mut *each)? {
                let replayed_bytes = reader.end().0 - self.start.lsn;
                if replayed_bytes - reported >= PROGRESS_BYTES {
                    reported = replayed_bytes;
                    progress(RecoveryProgress { replayed_bytes, total_bytes });
                }
            }
            // A previous read reached the end, and the log cannot end before that.
            if reader.end() < self.end {
                let what = format!("it ended at {}, and now at {}", self.end.0, reader.end().0);
                return Err(Error::CorruptRedo { path: "the redo log".to_owned(), what });
            }
            Ok(())
        })?;
        progress(RecoveryProgress { replayed_bytes: total_bytes, total_bytes });
        Ok(())
    }
}
