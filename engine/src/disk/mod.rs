//! Files, as the engine sees them. All file access of the engine goes through [`Disk`].

mod memory;
mod tablespace;

pub use memory::MemoryDisk;
pub use tablespace::Tablespace;

use std::io;

/// A directory of files. Every call can fail.
pub trait Disk: Send + Sync + 'static {
    /// Opens the file `name`; `create` makes a new, empty one and fails if it exists.
    fn open(&self, name: &str, create: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Whether the file `name` is there.
    fn exists(&self, name: &str) -> io::Result<bool>;
    /// Deletes the file `name`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes created and removed names durable.
    fn sync_directory(&self) -> io::Result<()>;
}

/// One file. Offsets, lengths and buffer addresses are multiples of 4096 (O_DIRECT).
pub trait DiskFile: Send + Sync {
    /// Fills `buf` from `offset`; a file that ends before is `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`. Durable only after [`DiskFile::sync`].
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes all earlier writes durable. An error is final: what was written is in doubt.
    fn sync(&self) -> io::Result<()>;
    /// Reserves space up to `bytes`; the file is at least that long afterwards.
    fn allocate(&self, bytes: u64) -> io::Result<()>;
    /// The file's length, bytes.
    fn bytes(&self) -> io::Result<u64>;
}
