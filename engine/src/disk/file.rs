//! Real files in a directory.
//!
//! With `direct_io`, files are opened with O_DIRECT. Some file systems refuse the flag at open, others at the
//! first transfer; so each file is asked for its first block once, and a file whose file system has no such
//! access is opened again without. [`Disk::direct_io`] says whether that happened. The files themselves are
//! [`RealFile`]s.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};

use super::real::{FileAccess, RealFile};
use super::{Disk, DiskFile, DiskLock};

/// A directory of real files.
pub struct FileDisk {
    directory: PathBuf,
    /// Cleared by the first file that cannot.
    direct_io: AtomicBool,
}

impl FileDisk {
    /// The directory `directory`, which is there.
    pub fn open(directory: impl AsRef<Path>, direct_io: bool) -> io::Result<Self> {
        let directory = directory.as_ref().to_path_buf();
        if !std::fs::metadata(&directory)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(FileDisk { directory, direct_io: AtomicBool::new(direct_io) })
    }

    /// The directory `directory`, made with its parents if it is not there.
    pub fn create(directory: impl AsRef<Path>, direct_io: bool) -> io::Result<Self> {
        let directory = std::path::absolute(directory)?;
        let made: Vec<&Path> = missing(&directory).collect();
        if !made.is_empty() {
            std::fs::create_dir_all(&directory)?;
        }
        // Each name is durable with the directory that it is in.
        for parent in made.iter().filter_map(|made| made.parent()) {
            File::open(parent)?.sync_all()?;
        }
        Self::open(directory, direct_io)
    }

    fn open_file(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.directory.join(name);
        if self.direct_io.load(Ordering::Relaxed) {
            match RealFile::open(&path, FileAccess::default()) {
                Ok(file) => return Ok(Box::new(file)),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
            self.direct_io.store(false, Ordering::Relaxed);
        }
        let cached = FileAccess { direct: false, ..FileAccess::default() };
        Ok(Box::new(RealFile::open(&path, cached)?))
    }

    fn make(&self, name: &str) -> io::Result<()> {
        // Made here and opened afterwards, since the opening may take two attempts.
        OpenOptions::new().write(true).create_new(true).open(self.directory.join(name)).map(drop)
    }
}

impl Disk for FileDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open_file(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.make(name)?;
        self.open_file(name)
    }

    fn open_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let cached = FileAccess { direct: false, alignment_bytes: 1, ..FileAccess::default() };
        Ok(Box::new(RealFile::open(&self.directory.join(name), cached)?))
    }

    fn create_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.make(name)?;
        self.open_cached(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.directory.join(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        std::fs::read_dir(&self.directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        let path = self.directory.join(name);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        // The lock belongs to this open file and goes with it, at the latest when the process ends. A program that
        // is started does not inherit it, since the standard library opens every file with O_CLOEXEC.
        retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive))?;
        Ok(Box::new(FileLock { file }))
    }

    fn path(&self, name: &str) -> String {
        if name.is_empty() {
            self.directory.display().to_string()
        } else {
            self.directory.join(name).display().to_string()
        }
    }

    fn direct_io(&self) -> bool {
        self.direct_io.load(Ordering::Relaxed)
    }
}

/// What is not there of a directory and those that it is in, the innermost first.
fn missing(directory: &Path) -> impl Iterator<Item = &Path> {
    directory.ancestors().take_while(|directory| !directory.exists())
}

struct FileLock {
    file: File,
}

impl DiskLock for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread has just forked holds the open file too, until it
        // becomes another program. If this fails, closing has to do.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::Block;
    use super::*;

    fn disk() -> (tempfile::TempDir, FileDisk) {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path(), true).unwrap();
        (directory, disk)
    }

    fn block_of(byte: u8) -> Box<Block> {
        let mut block = Block::zeroed();
        block.bytes_mut().fill(byte);
        block
    }

    #[test]
    fn all_parents_that_have_to_be_made_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let [outer, inner] = ["a", "a/b"].map(|name| directory.path().join(name));
        assert_eq!(missing(&inner).collect::<Vec<_>>(), [&*inner, &*outer]);
        FileDisk::create(&inner, true).unwrap();
        assert_eq!(missing(&inner).count(), 0);
    }

    #[test]
    fn what_was_written_is_read_and_the_end_is_noticed() {
        let (_directory, disk) = disk();
        let file = disk.create("a").unwrap();
        file.allocate(3 * 4096).unwrap();
        file.write_at(block_of(7).bytes(), 4096).unwrap();
        file.sync().unwrap();
        let mut read = block_of(1);
        file.read_at(read.bytes_mut(), 4096).unwrap();
        assert_eq!(read.bytes(), block_of(7).bytes());
        file.read_at(read.bytes_mut(), 0).unwrap();
        assert!(read.is_zero());
        let beyond = file.read_at(read.bytes_mut(), 3 * 4096).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(file.bytes().unwrap(), 3 * 4096);
    }

    #[test]
    fn a_file_that_ends_within_a_block_is_too_short() {
        let (directory, disk) = disk();
        std::fs::write(directory.path().join("short"), [1; 5000]).unwrap();
        let file = disk.open("short").unwrap();
        file.read_at(block_of(0).bytes_mut(), 0).unwrap();
        let error = file.read_at(block_of(0).bytes_mut(), 4096).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_lock_excludes_until_it_is_dropped() {
        let (directory, disk) = disk();
        let lock = disk.lock("lock").unwrap();
        let other = FileDisk::open(directory.path(), true).unwrap();
        assert_eq!(other.lock("lock").err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(lock);
        other.lock("lock").unwrap();
    }

    #[test]
    fn creating_needs_a_new_name_and_opening_an_old_one() {
        let (_directory, disk) = disk();
        disk.create("a").unwrap();
        assert_eq!(disk.create("a").err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(Disk::open(&disk, "b").err().unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!(disk.names().unwrap(), ["a"]);
    }

    #[test]
    fn a_file_system_without_direct_access_falls_back_and_says_so() {
        // Files in /proc refuse O_DIRECT.
        let disk = FileDisk::open("/proc/self", true).unwrap();
        assert!(disk.direct_io());
        Disk::open(&disk, "comm").unwrap();
        assert!(!disk.direct_io());
    }

    #[test]
    #[should_panic(expected = "unaligned transfer")]
    fn unaligned_transfers_are_refused() {
        let (_directory, disk) = disk();
        let file = disk.create("a").unwrap();
        let _ = file.write_at(&block_of(0).bytes()[..100], 0);
    }
}
