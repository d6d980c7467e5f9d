//! The log buffer's memory: a mapped file, so that appended frames outlive the process.
//!
//! `redobuffer.flifo` has a header (`header.rs`) and the ring of `ring.rs`. Byte `lsn` of the stream lies at `4096 +
//! lsn % size`, in native byte order, from its append until it is written to the log's files. So a commit that must
//! survive only the end of the process makes no system call: once its frame and all before it are complete, they are in
//! the page cache. (MariaDB also appends to a mapped log, on persistent memory: `innodb_log_file_mmap`.) The file is
//! never synced. A power cut may leave any content, which is harmless: a frame is recognized by its LSN, epoch and
//! checksum. On a file system without safe shared mappings, the ring is plain memory, and such a commit waits until it
//! is written.
//!
//! An open that finds the database not closed moves the frames that follow the end of the log's files into these
//! ([`Reader::take_over`](super::Reader::take_over)); each open begins with zeros.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use super::files;
use super::frame::{ALIGNMENT_BYTES, Found, HEADER_BYTES as FRAME_HEADER_BYTES, find, frame_bytes};
use super::header::{HEADER_BYTES, Kind, corrupt};
use super::{BLOCK_BYTES, LSN_START};
use crate::disk::{Disk, DiskFile, SharedWords};
use crate::error::{Error, Result};
use crate::page::Lsn;

const NAME: &str = "redobuffer.flifo";
const BUFFER: Kind = Kind { magic: *b"flifoRB\x1a", files: 1, name: "redo log's buffer" };

/// Read at a time.
const READ_BYTES: u64 = 1 << 20;

/// The log buffer of one database, in its file.
pub(crate) struct LogBuffer {
    words: SharedWords,
    is_mapped: bool,
}

/// A ring's size.
fn ring_bytes(bytes: u64) -> u64 {
    bytes.max(BLOCK_BYTES).next_power_of_two()
}

/// Reads the ring once into the page cache, where the mapping finds it. Touching a mapped page that cannot be read
/// raises SIGBUS; here a failed read is an error.
fn read_all(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    let mut part = vec![0; READ_BYTES.min(bytes) as usize];
    // Both are powers of two.
    (0..bytes).step_by(part.len()).try_for_each(|at| file.read_at(&mut part, HEADER_BYTES + at))
}

impl LogBuffer {
    /// Makes the file, over whatever is there, with room for at least `bytes`, and makes it durable.
    pub(crate) fn create(disk: &dyn Disk, database: Uuid, bytes: u64) -> Result<LogBuffer> {
        Self::remove(disk);
        let bytes = ring_bytes(bytes);
        files::make(disk, NAME, &BUFFER.header(0, bytes, database), bytes)
            .and_then(|file| files::sync_directory(disk).and_then(|()| Self::map(disk, &*file, bytes)))
            .inspect_err(|_| Self::remove(disk))
    }

    /// Opens the file of `database`.
    pub(crate) fn open(disk: &dyn Disk, database: Uuid) -> Result<LogBuffer> {
        let file = files::open(disk, NAME)?;
        let bytes = BUFFER.read(&*file, disk.path(NAME), 0, database)?;
        if !bytes.is_power_of_two() {
            return Err(corrupt(disk.path(NAME), "its header has impossible values".to_owned()));
        }
        read_all(&*file, bytes).map_err(|source| Error::from_io("cannot read", disk.path(NAME), source))?;
        Self::map(disk, &*file, bytes)
    }

    /// A buffer without a file, of a database that is only read.
    pub(crate) fn in_memory(bytes: u64) -> LogBuffer {
        let words = (0..ring_bytes(bytes) / ALIGNMENT_BYTES).map(|_| AtomicU64::new(0));
        LogBuffer { words: SharedWords::in_memory(words.collect()), is_mapped: false }
    }

    fn map(disk: &dyn Disk, file: &dyn DiskFile, bytes: u64) -> Result<LogBuffer> {
        let words = (bytes / ALIGNMENT_BYTES) as usize;
        match file.map(HEADER_BYTES, words) {
            Ok(words) => Ok(LogBuffer { words, is_mapped: true }),
            // The content counts all the same: the files may come from a system where it was mapped.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                let mut found = vec![0; bytes as usize];
                file.read_at(&mut found, HEADER_BYTES)
                    .map_err(|source| Error::from_io("cannot read", disk.path(NAME), source))?;
                let words =
                    found.as_chunks::<8>().0.iter().map(|word| AtomicU64::new(u64::from_ne_bytes(*word)));
                Ok(LogBuffer { words: SharedWords::in_memory(words.collect()), is_mapped: false })
            }
            Err(source) => Err(Error::from_io("cannot map", disk.path(NAME), source)),
        }
    }

    /// Whether its content outlives the process.
    pub(super) fn is_mapped(&self) -> bool {
        self.is_mapped
    }

    /// Removes the file, as far as it goes.
    pub(crate) fn remove(disk: &dyn Disk) {
        // The next open or creation finds and reports a leftover.
        let _ = disk.remove(NAME);
    }

    /// Whether a new file for `bytes` would be of this size.
    pub(crate) fn has_size(&self, bytes: u64) -> bool {
        ring_bytes(bytes) == self.bytes()
    }

    /// The ring's size, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.words.len() as u64 * ALIGNMENT_BYTES
    }

    /// The ring's words, all of them zero.
    pub(super) fn into_zeros(self) -> SharedWords {
        // Only nonzero words: an open without changes leaves its files as they are.
        let used = self.words.iter().filter(|word| word.load(Ordering::Relaxed) != 0);
        used.for_each(|word| word.store(0, Ordering::Relaxed));
        self.words
    }

    /// The whole frames from `from` on, one behind the other. Their epochs, which never fall, are at least `epoch`; none has
    /// more than `payload_max` bytes of records.
    pub(super) fn frames_from(&self, from: Lsn, epoch: u32, payload_max: usize) -> Vec<u8> {
        debug_assert!(from >= LSN_START);
        let (mut least, mut frames) = (epoch, Vec::new());
        while (frames.len() as u64) < self.bytes() {
            let at = from.0 + frames.len() as u64;
            let length = self.read(at, FRAME_HEADER_BYTES as u64);
            let length = u32::from_le_bytes(length[..4].try_into().expect("four bytes")) as usize;
            if length > payload_max {
                break;
            }
            match find(at, &self.read(at, frame_bytes(length).min(self.bytes())), payload_max) {
                Found::Frame { bytes, epoch, .. } if epoch >= least => {
                    least = epoch;
                    frames.extend(self.read(at, bytes));
                }
                _ => break,
            }
        }
        frames
    }

    /// Puts frames where a process that was killed would have left them.
    #[cfg(any(fuzzing, test))]
    pub(super) fn put(&self, from: Lsn, frames: &[u8]) {
        let from = (from.0 / ALIGNMENT_BYTES) as usize;
        for (n, word) in frames.as_chunks::<8>().0.iter().enumerate() {
            self.words[(from + n) & (self.words.len() - 1)]
                .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
    }

    /// What the ring has at `lsn`.
    fn read(&self, lsn: u64, bytes: u64) -> Vec<u8> {
        let word = |at: u64| &self.words[(at / ALIGNMENT_BYTES) as usize & (self.words.len() - 1)];
        (lsn..lsn + bytes)
            .step_by(ALIGNMENT_BYTES as usize)
            .flat_map(|at| word(at).load(Ordering::Relaxed).to_le_bytes())
            .collect()
    }
}
