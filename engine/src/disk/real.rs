//! One real file: how it is opened, and transfers that complete or fail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::block::Block;
use super::flock::{self, Sharing};
use super::{ALIGNMENT_BYTES, DiskFile, SharedWords, assert_aligned};

/// Copy-on-write file systems (btrfs, ZFS, bcachefs, nilfs2, UBIFS; `statfs(2)`), and overlayfs, which may be on top of
/// one. When they are full, a store in a mapped file raises SIGBUS.
const COPY_ON_WRITE: [u32; 6] = [0x9123_683e, 0x2fc1_2fc1, 0xca45_1a4e, 0x3434, 0x2405_1905, 0x794c_7630];

/// How a [`RealFile`] is opened. The default is the engine's: without the page cache, durable by [`DiskFile::sync`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAccess {
    /// Opens the file read-only.
    pub read_only: bool,
    /// Bypasses the page cache (O_DIRECT).
    pub direct: bool,
    /// Makes every write durable when it returns (O_DSYNC).
    pub write_through: bool,
    /// The alignment of offsets, lengths and buffer addresses, a power of two; 1 for none, if not `direct`.
    pub alignment_bytes: usize,
}

impl Default for FileAccess {
    fn default() -> Self {
        FileAccess { read_only: false, direct: true, write_through: false, alignment_bytes: ALIGNMENT_BYTES }
    }
}

/// A file of a file system, or a block device.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    alignment_bytes: usize,
    read_only: bool,
    /// See [`DiskFile::lock`].
    is_locked: AtomicBool,
}

impl Drop for RealFile {
    fn drop(&mut self) {
        // Otherwise, while a forked child has the file open too, the next open of the database would wait for that
        // child. No write is in progress: a thread that hands writes to the kernel borrows the file until they have
        // ended.
        if *self.is_locked.get_mut() {
            flock::release(&self.file);
        }
    }
}

impl RealFile {
    /// Opens an existing file. EINVAL: its file system has no direct access.
    pub fn open(path: &Path, access: FileAccess) -> io::Result<Self> {
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, access.direct);
        flags.set(OFlags::DSYNC, access.write_through);
        let mut options = OpenOptions::new();
        options.read(true).write(!access.read_only).custom_flags(flags.bits().cast_signed());
        let file = options.open(path)?;
        if access.direct {
            probe(&file)?;
        }
        let FileAccess { alignment_bytes, read_only, .. } = access;
        Ok(RealFile { file, alignment_bytes, read_only, is_locked: AtomicBool::new(false) })
    }

    /// Makes all earlier writes durable, including the file's times, which [`DiskFile::sync`] omits (fsync, where
    /// `sync` is fdatasync).
    pub fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Gives a part of the file its own blocks, where it shares some with a copy (XFS, `cp --reflink`). Otherwise the
    /// first store in a mapped block needs new space, as on a copy-on-write file system.
    fn unshare(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match retry_on_intr(|| {
            rustix::fs::fallocate(&self.file, FallocateFlags::UNSHARE_RANGE, offset, bytes)
        }) {
            // Nothing is shared there.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
            // The disk is full: not to be mapped, then.
            Err(Errno::NOSPC | Errno::DQUOT) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    /// The part of a transfer that counts when the system moved only `moved` bytes: whole blocks, since with O_DIRECT
    /// the rest must begin at a block.
    fn whole_blocks(&self, moved: usize, wanted: usize) -> usize {
        if moved == wanted { moved } else { moved & !(self.alignment_bytes - 1) }
    }
}

/// Reads the first block, if there is one: EINVAL means no direct access.
fn probe(file: &File) -> io::Result<()> {
    let mut block = Block::zeroed();
    file.read_at(block.bytes_mut(), 0).map(drop)
}

impl AsFd for RealFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.alignment_bytes, buf, offset);
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(moved) => match self.whole_blocks(moved, buf.len() - done) {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    blocks => done += blocks,
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.alignment_bytes, buf, offset);
        let mut done = 0;
        while done < buf.len() {
            match self.file.write_at(&buf[done..], offset + done as u64) {
                Ok(moved) => match self.whole_blocks(moved, buf.len() - done) {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    blocks => done += blocks,
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let length = self.bytes()?;
        if bytes <= length {
            return Ok(());
        }
        let more = bytes - length;
        match retry_on_intr(|| rustix::fs::fallocate(&self.file, FallocateFlags::empty(), length, more)) {
            // A file system that cannot reserve: at least the length is right.
            Err(Errno::OPNOTSUPP) => self.file.set_len(bytes),
            other => Ok(other?),
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn map(&self, offset: u64, words: usize) -> io::Result<SharedWords> {
        let bytes = (words * size_of::<u64>()) as u64;
        if self.bytes()? < offset + bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if self.read_only || COPY_ON_WRITE.contains(&(rustix::fs::fstatfs(&self.file)?.f_type as u32)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.unshare(offset, bytes)?;
        SharedWords::of_file(&self.file, offset, words).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NODEV) => io::ErrorKind::Unsupported.into(),
            _ => error,
        })
    }

    fn lock(&self) -> io::Result<()> {
        let sharing = if self.read_only { Sharing::Shared } else { Sharing::Exclusive };
        // None on a file system without locks, where a link may lead.
        if flock::take_if_possible(&self.file, sharing)? {
            self.is_locked.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_blocks_where_they_are_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, [0; 4096]).unwrap();
        let access = FileAccess { direct: false, alignment_bytes: 512, ..FileAccess::default() };
        let file = RealFile::open(&path, access).unwrap();
        let mut block = Block::zeroed();
        block.bytes_mut().fill(3);
        file.write_at(&block.bytes()[..512], 512).unwrap();
        file.sync_all().unwrap();
        let mut read = Block::zeroed();
        file.read_at(read.bytes_mut(), 0).unwrap();
        assert_eq!((read.bytes()[511], read.bytes()[512], read.bytes()[1024]), (0, 3, 0));
    }

    /// `None` on a file system whose files are not mapped.
    fn mapped(file: &RealFile, offset: u64, words: usize) -> Option<SharedWords> {
        match file.map(offset, words) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => None,
            words => Some(words.unwrap()),
        }
    }

    #[test]
    fn what_is_stored_in_a_mapped_file_is_read_from_it() {
        use std::sync::atomic::Ordering;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("buffer");
        std::fs::write(&path, [1; 8192]).unwrap();
        let access = FileAccess { direct: false, alignment_bytes: 1, ..FileAccess::default() };
        let file = RealFile::open(&path, access).unwrap();
        assert_eq!(file.map(4096, 513).err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
        let Some(words) = mapped(&file, 4096, 512) else { return };
        assert_eq!((words.len(), words[511].load(Ordering::Relaxed)), (512, u64::from_le_bytes([1; 8])));
        words[511].store(u64::from_le_bytes([7; 8]), Ordering::Relaxed);
        drop(words);
        let read = std::fs::read(&path).unwrap();
        assert!(read[..8184].iter().all(|&byte| byte == 1) && read[8184..] == [7; 8]);
    }

    /// A system whose pages are larger refuses a mapping that begins at such an offset, as this system does within a page.
    #[test]
    fn what_is_mapped_need_not_begin_with_a_page() {
        use std::sync::atomic::Ordering;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("buffer");
        let word = |at: u64| at.to_le_bytes();
        std::fs::write(&path, (0..32768).flat_map(word).collect::<Vec<_>>()).unwrap();
        let access = FileAccess { direct: false, alignment_bytes: 1, ..FileAccess::default() };
        let file = RealFile::open(&path, access).unwrap();
        for from in [0, 1, 511, 513, 8191, 8192, 20_000] {
            let Some(words) = mapped(&file, 8 * from, 700) else { return };
            assert!(
                words.iter().zip(from..).all(|(found, word)| found.load(Ordering::Relaxed) == word.to_le())
            );
            words[699].fetch_add(1 << 32, Ordering::Relaxed);
            drop(words);
            let mut last = [0; 8];
            file.read_at(&mut last, 8 * (from + 699)).unwrap();
            assert_eq!(u64::from_ne_bytes(last), (from + 699).to_le() + (1 << 32));
            file.write_at(&word(from + 699), 8 * (from + 699)).unwrap();
        }
    }

    #[test]
    fn a_file_for_reading_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, [1; 4096]).unwrap();
        let access = FileAccess { read_only: true, direct: false, ..FileAccess::default() };
        let file = RealFile::open(&path, access).unwrap();
        file.read_at(Block::zeroed().bytes_mut(), 0).unwrap();
        assert!(file.write_at(Block::zeroed().bytes(), 0).is_err());
    }
}
