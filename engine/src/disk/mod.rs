//! File access. All file access of the engine goes through [`Disk`], whose every call can fail.
//!
//! - [`FileDisk`]: a directory of real files, without the page cache where the file system allows it (O_DIRECT). Many
//!   pages are written at a time if the kernel offers io_uring (6.1 and later, unless `kernel.io_uring_disabled` or a
//!   container's seccomp profile forbids it), otherwise one by one. [`RealFile`] is one such file, for benchmarks of
//!   how to open it best.
//! - [`MemoryDisk`]: a simulated disk, with faults, latency and power cuts from a seed.
//! - [`Tablespace`]: pages by number over several data files of a `Disk`, and whether they are in a clean state.
//!
//! Protocol: a write is durable after the file's `sync`, and a created name after `sync_directory`, not before. A
//! failed `sync` is final: it leaves unknown which writes since the last one are durable, so [`Tablespace`] stops, and
//! the engine never retries a sync. This module takes no latch, and the caller holds none.

mod aligned;
mod block;
mod file;
mod flock;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzz;
mod header;
mod many;
mod memory;
mod opening;
mod real;
mod state;
mod tablespace;
mod words;

pub(crate) use aligned::AlignedBuffer;
pub(crate) use block::Block;
pub use file::FileDisk;
pub(crate) use header::{DATA_FILES_MAX, FORMAT_VERSION, PAGE_SIZES};
pub(crate) use many::ManyWrites;
pub use memory::{DiskCall, Fault, MemoryDisk};
pub use real::{FileAccess, RealFile};
pub(crate) use state::Checkpoint;
pub use tablespace::Tablespace;
pub use words::SharedWords;

use std::io;
use std::os::fd::BorrowedFd;

/// The alignment of offsets, lengths and buffer addresses.
pub const ALIGNMENT_BYTES: usize = 4096;

/// A directory of files. Every call can fail.
pub trait Disk: Send + Sync + 'static {
    /// Opens the file `name`, which is there.
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Makes the file `name`, empty; fails with `AlreadyExists` if it is there.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// As [`Disk::open`], but through the operating system's page cache; transfers need not be aligned.
    fn open_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// As [`Disk::create`], but opened as [`Disk::open_cached`] does.
    fn create_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Deletes the file `name`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names of everything in the directory, in no order.
    fn names(&self) -> io::Result<Vec<String>>;
    /// Makes created and removed names durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Takes the exclusive lock `name`, a file made for it, until the result is dropped or the process ends in any
    /// way. `WouldBlock` if another one has it. A disk that was opened for reading takes a shared lock, if it can.
    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>>;
    /// Where the file `name` is, for people; the directory itself if `name` is empty.
    fn path(&self, name: &str) -> String;
    /// Whether the files opened so far are read and written past the operating system's page cache.
    fn direct_io(&self) -> bool;
}

/// One file. Offsets, lengths and buffer addresses are multiples of [`ALIGNMENT_BYTES`], or the call panics. A file
/// that was opened through the page cache accepts any; a [`RealFile`] needs the alignment of its [`FileAccess`].
pub trait DiskFile: Send + Sync {
    /// Fills `buf` from `offset`; a file that ends before is `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`. Durable only after [`DiskFile::sync`].
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes all earlier writes durable. An error is final: the earlier writes are in doubt.
    fn sync(&self) -> io::Result<()>;
    /// Reserves space up to `bytes`, zero where nothing was written; the file is at least that long afterwards.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// The file's length, bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Maps `words` of 8 bytes from `offset` on, a multiple of [`ALIGNMENT_BYTES`], as memory. A store there changes
    /// the file at once, so it survives the end of the process, and a power cut only after [`DiskFile::sync`]. The file
    /// was opened through the page cache, and must not be truncated while the memory is used.
    ///
    /// # Errors
    /// `UnexpectedEof`: the file ends before. `Unsupported`: its file system has no shared mappings, or may need space
    /// for a store, or the file was opened for reading.
    fn map(&self, offset: u64, words: usize) -> io::Result<SharedWords>;
    /// Takes the exclusive lock of the file, until this and all that the system is still doing with it have ended: writes that a
    /// process handed to the kernel may outlive it ([`DiskFile::descriptor`]). `WouldBlock`: another one has it. A file that was
    /// opened for reading takes a shared lock.
    fn lock(&self) -> io::Result<()> {
        Ok(())
    }
    /// The operating system's file that it is, if it is nothing else: then many of its writes may be handed to the kernel at
    /// the same time, past [`DiskFile::write_at`].
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A held lock; dropping it releases the lock.
pub trait DiskLock: Send + Sync {}

/// Both kinds of disk ask this of every transfer, so that tests in memory find what O_DIRECT would refuse.
#[track_caller]
fn assert_aligned(alignment_bytes: usize, buf: &[u8], offset: u64) {
    let address = buf.as_ptr().addr();
    let all = address as u64 | buf.len() as u64 | offset;
    assert!(
        all & (alignment_bytes as u64 - 1) == 0,
        "unaligned transfer: address {address:#x}, {} bytes at {offset}",
        buf.len()
    );
}
