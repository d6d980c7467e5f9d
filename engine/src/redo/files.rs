//! The log's files: equal segments, created once and written cyclically.
//!
//! `redo0.flifo` to `redo3.flifo`, each with a header (`header.rs`) and a part of the stream. Byte `lsn` of the stream
//! lies in segment `lsn / segment_bytes % segments`, at `4096 + lsn % segment_bytes`.
//!
//! The segments are written with zeros when they are made, so that a commit's sync has no file system metadata to
//! write. They are read and written through the operating system's page cache: with
//! `flush_log_at_trx_commit = 2` a commit ends there.

use std::io;
use std::sync::RwLock;

use flifo_base::{read, write};
use uuid::Uuid;

use super::header::{HEADER_BYTES, Kind, corrupt};
use super::{BLOCK_BYTES, SEGMENTS};
use crate::disk::{AlignedBuffer, Block, Disk, DiskFile};
use crate::error::{Error, Result};
use crate::page::Lsn;

const SEGMENT: Kind = Kind { magic: *b"flifoRL\x1a", files: SEGMENTS, name: "redo log" };
/// Written at a time when a segment is made. As much becomes one folio of the page cache, on file systems that have large ones,
/// and a later write of one block goes through all blocks of its folio.
const ZEROS_BYTES: usize = 64 << 10;

/// The segments of one log.
pub(crate) struct LogFiles {
    segment_bytes: u64,
    paths: Vec<String>,
    /// `None` after the close, and of a log without files.
    segments: RwLock<Option<Vec<Box<dyn DiskFile>>>>,
}

fn name(index: u32) -> String {
    format!("redo{index}.flifo")
}

fn segment_bytes(capacity_bytes: u64) -> u64 {
    capacity_bytes.div_ceil(u64::from(SEGMENTS)).next_multiple_of(BLOCK_BYTES)
}

impl LogFiles {
    /// Makes the segments, over whatever is there, with room for at least `capacity_bytes`, and makes them durable.
    pub(crate) fn create(disk: &dyn Disk, database: Uuid, capacity_bytes: u64) -> Result<LogFiles> {
        Self::remove(disk);
        let segment_bytes = segment_bytes(capacity_bytes);
        let segments = (0..SEGMENTS)
            .map(|index| {
                make(disk, &name(index), &SEGMENT.header(index, segment_bytes, database), segment_bytes)
            })
            .collect::<Result<Vec<_>>>()
            .inspect_err(|_| Self::remove(disk))?;
        sync_directory(disk)?;
        Ok(Self::new(disk, segment_bytes, segments))
    }

    fn new(disk: &dyn Disk, segment_bytes: u64, segments: Vec<Box<dyn DiskFile>>) -> LogFiles {
        let paths = (0..SEGMENTS).map(|index| disk.path(&name(index))).collect();
        LogFiles { segment_bytes, paths, segments: RwLock::new(Some(segments)) }
    }

    /// A log without files, for a read-only database: reads and writes return [`Error::Closed`].
    pub(crate) fn none(disk: &dyn Disk, capacity_bytes: u64) -> LogFiles {
        let paths = (0..SEGMENTS).map(|index| disk.path(&name(index))).collect();
        LogFiles { segment_bytes: segment_bytes(capacity_bytes), paths, segments: RwLock::new(None) }
    }

    /// Removes the segments, as far as it goes.
    pub(crate) fn remove(disk: &dyn Disk) {
        for index in 0..SEGMENTS {
            // The next open or creation finds and reports leftovers.
            let _ = disk.remove(&name(index));
        }
    }

    /// Opens the segments of `database`.
    pub(crate) fn open(disk: &dyn Disk, database: Uuid) -> Result<LogFiles> {
        let mut segments = Vec::new();
        let mut bytes_each = None;
        for index in 0..SEGMENTS {
            let (file, path) = (open(disk, &name(index))?, disk.path(&name(index)));
            let segment_bytes = SEGMENT.read(&*file, path.clone(), index, database)?;
            if *bytes_each.get_or_insert(segment_bytes) != segment_bytes {
                return Err(corrupt(path, "its size differs from the first one's".to_owned()));
            }
            segments.push(file);
        }
        Ok(Self::new(disk, bytes_each.expect("there are segments"), segments))
    }

    /// Whether a segment has this name.
    pub(crate) fn is_segment(file: &str) -> bool {
        (0..SEGMENTS).any(|index| name(index) == file)
    }

    /// Whether new files for `capacity_bytes` would be of this size.
    pub(crate) fn has_capacity(&self, capacity_bytes: u64) -> bool {
        segment_bytes(capacity_bytes) == self.segment_bytes
    }

    /// Bytes of the stream that the files hold.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.segment_bytes * u64::from(SEGMENTS)
    }

    /// Writes at `lsn`.
    pub(super) fn write(&self, lsn: Lsn, bytes: &[u8]) -> Result<()> {
        self.each_part(lsn.0, bytes.len(), |file, path, offset, range| {
            file.write_at(&bytes[range], offset)
                .map_err(|source| Error::from_io("cannot write", path, source))
        })
    }

    /// Reads whole blocks at `lsn`, which is a multiple of a block.
    pub(super) fn read(&self, lsn: u64, bytes: &mut [u8]) -> Result<()> {
        self.each_part(lsn, bytes.len(), |file, path, offset, range| {
            file.read_at(&mut bytes[range], offset)
                .map_err(|source| Error::from_io("cannot read", path, source))
        })
    }

    /// Makes the bytes written in `[from, to)` durable.
    pub(super) fn sync(&self, from: Lsn, to: Lsn) -> Result<()> {
        self.with_segments(|segments| {
            let (first, last) = (from.0 / self.segment_bytes, to.0.saturating_sub(1) / self.segment_bytes);
            for number in (first..=last).take(SEGMENTS as usize) {
                let index = (number % u64::from(SEGMENTS)) as usize;
                segments[index]
                    .sync()
                    .map_err(|source| Error::from_io("cannot sync", &*self.paths[index], source))?;
            }
            Ok(())
        })
    }

    /// Writes the content of `[from, to)` once more, and makes it durable.
    pub(crate) fn rewrite(&self, from: Lsn, to: Lsn) -> Result<()> {
        let mut buffer = AlignedBuffer::new(ZEROS_BYTES.min(self.segment_bytes as usize));
        let mut at = from.0 / BLOCK_BYTES * BLOCK_BYTES;
        while at < to.0 {
            let part = (to.0.next_multiple_of(BLOCK_BYTES) - at).min(buffer.bytes().len() as u64);
            let bytes = &mut buffer.bytes_mut()[..part as usize];
            self.read(at, bytes)?;
            self.write(Lsn(at), bytes)?;
            at += part;
        }
        self.sync(from, to)
    }

    fn each_part(
        &self,
        lsn: u64,
        len: usize,
        mut f: impl FnMut(&dyn DiskFile, &str, u64, std::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        self.with_segments(|segments| {
            let mut done = 0;
            while done < len {
                let at = lsn + done as u64;
                let within = at % self.segment_bytes;
                let part = (len - done).min((self.segment_bytes - within) as usize);
                let index = (at / self.segment_bytes % u64::from(SEGMENTS)) as usize;
                f(&*segments[index], &self.paths[index], HEADER_BYTES + within, done..done + part)?;
                done += part;
            }
            Ok(())
        })
    }

    fn with_segments<T>(&self, f: impl FnOnce(&[Box<dyn DiskFile>]) -> Result<T>) -> Result<T> {
        f(read(&self.segments).as_ref().ok_or(Error::Closed)?)
    }

    /// Closes the files.
    pub(super) fn close(&self) {
        *write(&self.segments) = None;
    }
}

/// Makes a file with this header and zeros behind it, and makes it durable.
pub(super) fn make(disk: &dyn Disk, name: &str, header: &Block, bytes: u64) -> Result<Box<dyn DiskFile>> {
    let made = || {
        let file = disk.create_cached(name)?;
        file.allocate(HEADER_BYTES + bytes)?;
        let zeros = AlignedBuffer::new(ZEROS_BYTES.min(bytes as usize));
        let mut at = HEADER_BYTES;
        while at < HEADER_BYTES + bytes {
            let part = (HEADER_BYTES + bytes - at).min(zeros.bytes().len() as u64);
            file.write_at(&zeros.bytes()[..part as usize], at)?;
            at += part;
        }
        file.write_at(header.bytes(), 0)?;
        file.sync()?;
        Ok(file)
    };
    made().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::DiskFull { bytes_needed: bytes, path: disk.path("") }
        }
        _ => Error::from_io("cannot create", disk.path(name), source),
    })
}

/// Opens a file that is needed.
pub(super) fn open(disk: &dyn Disk, name: &str) -> Result<Box<dyn DiskFile>> {
    disk.open_cached(name).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => Error::MissingRedo { path: disk.path(name) },
        _ => Error::from_io("cannot open", disk.path(name), source),
    })
}

/// Makes created names durable.
pub(super) fn sync_directory(disk: &dyn Disk) -> Result<()> {
    disk.sync_directory().map_err(|source| Error::from_io("cannot sync", disk.path(""), source))
}
