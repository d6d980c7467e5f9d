//! External sort of index entries: in memory as far as they fit, the rest in sorted runs in files, which are merged,
//! several at a time into a longer run, until few enough are left.
//!
//! ```text
//! a run, sort<number>.flifo: chunks of 64 KiB
//!      0    4  crc32c of the rest of the chunk
//!      4       entries, each its length (4) and its bytes, going on from chunk to chunk; zeros after the last one
//! ```
//! The files are never synced. They are removed with the sort, or after a crash by the next open.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::{AlignedBuffer, Disk, DiskFile};
use crate::error::{Error, Result};
use crate::metrics::WaitReason;
use crate::row::{IndexFormat, KEY_BYTES_MAX};
use crate::tree::Tree;
use crate::txn::load_versions;
use crate::wait::Waiter;

const CHUNK_BYTES: usize = 64 << 10;
const CHECKSUM_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;
/// What an entry takes in memory besides its bytes.
const PLACE_BYTES: usize = 16;

/// Maximum number of runs merged at a time: each has its file open, and a chunk of it in memory.
const MERGED_MAX: usize = 64;

/// Numbers the sort files of this process.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Sorts the entries of one index.
pub(super) struct Sorter<'d> {
    disk: &'d dyn Disk,
    /// Maximum memory until the merge, bytes.
    budget: usize,
    bytes: Vec<u8>,
    /// Where each entry begins, and its length.
    places: Vec<(u64, u32)>,
    /// The longer ones behind the shorter ones.
    runs: Vec<Run<'d>>,
}

/// A sorted run in its file. That is open only while it is written and while it is merged: a small budget makes more runs
/// than a process may have files open.
struct Run<'d> {
    disk: &'d dyn Disk,
    name: String,
    /// Of entries and their lengths.
    bytes: u64,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // If it stays, the next open removes it.
        let _ = self.disk.remove(&self.name);
    }
}

/// Removes what a crash has left.
pub(in crate::db) fn remove_leftovers(disk: &dyn Disk) {
    let is_run = |name: &String| {
        let number = name.strip_prefix("sort").and_then(|name| name.strip_suffix(".flifo"));
        number.is_some_and(|number| number.parse::<u64>().is_ok())
    };
    disk.names()
        .unwrap_or_default()
        .iter()
        .filter(|name| is_run(name))
        .for_each(|name| drop(disk.remove(name)));
}

impl<'d> Sorter<'d> {
    pub(super) fn new(disk: &'d dyn Disk, budget: usize) -> Self {
        Sorter { disk, budget, bytes: Vec::new(), places: Vec::new(), runs: Vec::new() }
    }

    pub(super) fn push(&mut self, entry: &[u8], waiter: &Waiter) -> Result<()> {
        if self.bytes.len() + entry.len() + (self.places.len() + 1) * PLACE_BYTES > self.budget {
            self.spill(waiter)?;
        }
        self.places.push((self.bytes.len() as u64, entry.len() as u32));
        self.bytes.extend_from_slice(entry);
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|&a, &b| slice(bytes, a).cmp(slice(bytes, b)));
    }

    /// Writes the entries in memory as a run.
    fn spill(&mut self, waiter: &Waiter) -> Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        self.sort();
        let mut writer = Writer::create(self.disk)?;
        self.places.iter().try_for_each(|&place| writer.put_entry(slice(&self.bytes, place), waiter))?;
        self.runs.push(writer.finish(waiter)?);
        self.bytes.clear();
        self.places.clear();
        Ok(())
    }

    /// Merges runs until no more are left than are merged at a time.
    fn merge_to_few(&mut self, waiter: &Waiter) -> Result<()> {
        let most = (self.budget / CHUNK_BYTES).clamp(2, MERGED_MAX);
        while self.runs.len() > most {
            // The shortest, and the last time no more of them than it takes.
            let count = most.min(self.runs.len() - most + 1);
            let merged: Vec<Run<'d>> = self.runs.drain(..count).collect();
            let (mut merge, mut writer) = (Merge::new(&merged, waiter)?, Writer::create(self.disk)?);
            let mut entry = Vec::new();
            while merge.next(&mut entry, waiter)? {
                writer.put_entry(&entry, waiter)?;
                entry.clear();
            }
            self.runs.push(writer.finish(waiter)?);
        }
        Ok(())
    }

    /// Loads the entries into the index's empty tree.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if the index is unique, and two of them are the same there; the tree is empty then.
    pub(super) fn load(mut self, index: &IndexFormat, tree: &Tree, fill: f64, waiter: &Waiter) -> Result<()> {
        if self.runs.is_empty() {
            self.sort();
        } else {
            self.spill(waiter)?;
            (self.bytes, self.places) = (Vec::new(), Vec::new());
            self.merge_to_few(waiter)?;
        }
        let mut merge = Merge::new(&self.runs, waiter)?;
        let mut sorted = self.places.iter().map(|&place| slice(&self.bytes, place));
        let mut last = None;
        let next = |key: &mut Vec<u8>, _: &mut Vec<u8>| {
            match sorted.next() {
                Some(entry) => key.extend_from_slice(entry),
                None if merge.next(key, waiter)? => {}
                None => return Ok(false),
            }
            check_unique(index, key, &mut last)?;
            Ok(true)
        };
        load_versions(tree, waiter, fill, |_| {}, next).map(drop)
    }
}

/// Whether an entry may follow the one with the unique part `last`.
fn check_unique(index: &IndexFormat, entry: &[u8], last: &mut Option<Vec<u8>>) -> Result<()> {
    if !index.definition().unique {
        return Ok(());
    }
    let part = index.unique_part(entry)?;
    match (part, last) {
        (Some(part), Some(last)) if part == last => {
            Err(Error::DuplicateKey { index: index.definition().name.clone() })
        }
        (Some(part), Some(last)) => {
            last.clear();
            last.extend_from_slice(part);
            Ok(())
        }
        (part, last) => {
            *last = part.map(<[u8]>::to_vec);
            Ok(())
        }
    }
}

fn slice(bytes: &[u8], (at, len): (u64, u32)) -> &[u8] {
    &bytes[at as usize..at as usize + len as usize]
}

/// Writes a run.
struct Writer<'d> {
    run: Run<'d>,
    file: Box<dyn DiskFile>,
    chunk: AlignedBuffer,
    at: usize,
    chunks: u64,
}

impl<'d> Writer<'d> {
    fn create(disk: &'d dyn Disk) -> Result<Self> {
        let name = format!("sort{}.flifo", RUNS.fetch_add(1, Ordering::Relaxed));
        let file = disk.create_cached(&name);
        let file = file.map_err(|source| Error::from_io("cannot create", disk.path(&name), source))?;
        let run = Run { disk, name, bytes: 0 };
        Ok(Writer { run, file, chunk: AlignedBuffer::new(CHUNK_BYTES), at: CHECKSUM_BYTES, chunks: 0 })
    }

    fn put_entry(&mut self, entry: &[u8], waiter: &Waiter) -> Result<()> {
        self.put(&(entry.len() as u32).to_le_bytes(), waiter)?;
        self.put(entry, waiter)
    }

    fn put(&mut self, mut bytes: &[u8], waiter: &Waiter) -> Result<()> {
        self.run.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.at == CHUNK_BYTES {
                self.write_chunk(waiter)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.at));
            self.chunk.bytes_mut()[self.at..self.at + now.len()].copy_from_slice(now);
            self.at += now.len();
            bytes = later;
        }
        Ok(())
    }

    fn write_chunk(&mut self, waiter: &Waiter) -> Result<()> {
        let bytes = self.chunk.bytes_mut();
        bytes[self.at..].fill(0);
        let checksum = crc32c::crc32c(&bytes[CHECKSUM_BYTES..]);
        bytes[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
        let (file, offset) = (&self.file, self.chunks * CHUNK_BYTES as u64);
        let written = waiter.wait(WaitReason::DiskWrite, || file.write_at(self.chunk.bytes(), offset));
        written.map_err(|source| self.run.error("cannot write", source))?;
        (self.at, self.chunks) = (CHECKSUM_BYTES, self.chunks + 1);
        Ok(())
    }

    fn finish(mut self, waiter: &Waiter) -> Result<Run<'d>> {
        self.write_chunk(waiter)?;
        Ok(self.run)
    }
}

impl Run<'_> {
    fn error(&self, action: &'static str, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Error::DiskFull { bytes_needed: CHUNK_BYTES as u64, path: self.disk.path("") }
            }
            _ => Error::from_io(action, self.disk.path(&self.name), source),
        }
    }

    fn corrupt(&self, what: &'static str) -> Error {
        self.error("cannot read", io::Error::new(io::ErrorKind::InvalidData, what))
    }
}

/// Reads a run.
struct Reader<'r> {
    run: &'r Run<'r>,
    file: Box<dyn DiskFile>,
    chunk: AlignedBuffer,
    at: usize,
    chunks: u64,
    left: u64,
}

impl<'r> Reader<'r> {
    fn open(run: &'r Run<'_>) -> Result<Self> {
        let file = run.disk.open_cached(&run.name).map_err(|source| run.error("cannot open", source))?;
        let chunk = AlignedBuffer::new(CHUNK_BYTES);
        Ok(Reader { run, file, chunk, at: CHUNK_BYTES, chunks: 0, left: run.bytes })
    }

    /// Replaces `entry` by the next one; false if there is none.
    fn next(&mut self, entry: &mut Vec<u8>, waiter: &Waiter) -> Result<bool> {
        entry.clear();
        if self.left == 0 {
            return Ok(false);
        }
        self.take(LENGTH_BYTES, entry, waiter)?;
        let length = entry.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        if length > KEY_BYTES_MAX {
            return Err(self.run.corrupt("an entry is longer than entries are"));
        }
        entry.clear();
        self.take(length, entry, waiter)?;
        Ok(true)
    }

    fn take(&mut self, mut bytes: usize, out: &mut Vec<u8>, waiter: &Waiter) -> Result<()> {
        let left = self.left.checked_sub(bytes as u64);
        self.left = left.ok_or_else(|| self.run.corrupt("it ends within an entry"))?;
        while bytes > 0 {
            if self.at == CHUNK_BYTES {
                self.read_chunk(waiter)?;
            }
            let now = bytes.min(CHUNK_BYTES - self.at);
            out.extend_from_slice(&self.chunk.bytes()[self.at..self.at + now]);
            (self.at, bytes) = (self.at + now, bytes - now);
        }
        Ok(())
    }

    fn read_chunk(&mut self, waiter: &Waiter) -> Result<()> {
        let (file, offset) = (&self.file, self.chunks * CHUNK_BYTES as u64);
        let read = waiter.wait(WaitReason::DiskRead, || file.read_at(self.chunk.bytes_mut(), offset));
        read.map_err(|source| self.run.error("cannot read", source))?;
        let (checksum, bytes) = self.chunk.bytes().split_at(CHECKSUM_BYTES);
        if crc32c::crc32c(bytes).to_le_bytes() != checksum {
            return Err(self.run.corrupt("its checksum does not match"));
        }
        (self.at, self.chunks) = (CHECKSUM_BYTES, self.chunks + 1);
        Ok(())
    }
}

/// Merges runs.
struct Merge<'r> {
    readers: Vec<Reader<'r>>,
    /// The next entry of each run that has one.
    heads: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl<'r> Merge<'r> {
    fn new(runs: &'r [Run<'_>], waiter: &Waiter) -> Result<Self> {
        let readers = runs.iter().map(Reader::open).collect::<Result<_>>()?;
        let mut merge = Merge { readers, heads: BinaryHeap::new() };
        (0..runs.len()).try_for_each(|run| merge.refill(run, Vec::new(), waiter))?;
        Ok(merge)
    }

    fn refill(&mut self, run: usize, mut entry: Vec<u8>, waiter: &Waiter) -> Result<()> {
        if self.readers[run].next(&mut entry, waiter)? {
            self.heads.push(Reverse((entry, run)));
        }
        Ok(())
    }

    /// Appends the least entry to `out`; false if there is none.
    fn next(&mut self, out: &mut Vec<u8>, waiter: &Waiter) -> Result<bool> {
        let Some(Reverse((entry, run))) = self.heads.pop() else { return Ok(false) };
        out.extend_from_slice(&entry);
        self.refill(run, entry, waiter)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    const ENTRIES: u32 = 30_000;

    /// However many runs there are, few are open at a time, and none is left.
    #[test]
    fn runs_are_merged_a_few_at_a_time() {
        let waiter = Waiter::background();
        // Bytes; the minimum number of runs; the number of files open at a time.
        for (budget, runs, files) in [(16 << 10, 40, 3), (192 << 10, 3, 4), (4 << 20, 0, 0)] {
            let disk = MemoryDisk::default();
            disk.set_open_files_max(files);
            let mut sorter = Sorter::new(&disk, budget);
            for number in 0..ENTRIES {
                let scrambled = number.wrapping_mul(0x9e37_79b1);
                let entry = [&scrambled.to_be_bytes()[..], &vec![7; number as usize % 9]].concat();
                sorter.push(&entry, &waiter).unwrap();
            }
            assert!(sorter.runs.len() >= runs, "{} runs", sorter.runs.len());
            if runs > 0 {
                sorter.spill(&waiter).unwrap();
                sorter.merge_to_few(&waiter).unwrap();
                assert_eq!(disk.names().unwrap().len(), files - 1);
            }
            sorter.sort();
            let mut merge = Merge::new(&sorter.runs, &waiter).unwrap();
            let mut in_memory = sorter.places.iter().map(|&place| slice(&sorter.bytes, place));
            let (mut last, mut found, mut numbers) = (Vec::new(), Vec::new(), 0_u64);
            for count in 0.. {
                match in_memory.next() {
                    Some(entry) => found.extend_from_slice(entry),
                    None if merge.next(&mut found, &waiter).unwrap() => {}
                    None => {
                        assert_eq!(count, ENTRIES);
                        break;
                    }
                }
                assert!(last < found, "entry {count}");
                numbers += u64::from(u32::from_be_bytes(found[..4].try_into().unwrap()));
                std::mem::swap(&mut last, &mut found);
                found.clear();
            }
            let all = (0..ENTRIES).map(|number| u64::from(number.wrapping_mul(0x9e37_79b1))).sum();
            assert_eq!(numbers, all);
            drop(merge);
            drop(sorter);
            assert!(disk.names().unwrap().is_empty());
        }
    }
}
