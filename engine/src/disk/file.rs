//! Real files in a directory.
//!
//! With `direct_io`, files are opened with O_DIRECT. Some file systems refuse the flag at open, others at the first
//! transfer. So each file is tested with a read of its first block, and reopened without the flag if its file system
//! does not support it; [`Disk::direct_io`] reports that. The files themselves are [`RealFile`]s.
//!
//! # Read-only access
//! A disk from [`FileDisk::open_to_read`] opens every file for reading and takes shared locks, which read-only file
//! systems allow. A missing or unreadable lock file is accepted: a writer also holds the locks of the data files. A
//! file system without locks has no writers, since these need locks.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

use super::flock::{self, Sharing};
use super::real::{FileAccess, RealFile};
use super::{Disk, DiskFile, DiskLock};

/// A directory of real files.
pub struct FileDisk {
    directory: PathBuf,
    read_only: bool,
    /// Cleared by the first file that cannot.
    direct_io: AtomicBool,
}

impl FileDisk {
    /// Opens the existing directory `directory`.
    pub fn open(directory: impl AsRef<Path>, direct_io: bool) -> io::Result<Self> {
        Self::open_as(directory.as_ref(), direct_io, false)
    }

    /// As [`FileDisk::open`], for reading: locks are shared with other readers, and every call that would change a file
    /// fails.
    pub fn open_to_read(directory: impl AsRef<Path>, direct_io: bool) -> io::Result<Self> {
        Self::open_as(directory.as_ref(), direct_io, true)
    }

    fn open_as(directory: &Path, direct_io: bool, read_only: bool) -> io::Result<Self> {
        if !std::fs::metadata(directory)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let directory = directory.to_path_buf();
        Ok(FileDisk { directory, read_only, direct_io: AtomicBool::new(direct_io) })
    }

    /// Opens the directory `directory`, and creates it and its parents if necessary.
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
            match RealFile::open(&path, self.access(true)) {
                Ok(file) => return Ok(Box::new(file)),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => {}
                Err(error) => return Err(error),
            }
            self.direct_io.store(false, Ordering::Relaxed);
        }
        Ok(Box::new(RealFile::open(&path, self.access(false))?))
    }

    fn access(&self, direct: bool) -> FileAccess {
        FileAccess { read_only: self.read_only, direct, ..FileAccess::default() }
    }

    /// As a write to a file that is open for reading.
    fn check_writable(&self) -> io::Result<()> {
        if self.read_only { Err(Errno::BADF.into()) } else { Ok(()) }
    }

    fn make(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
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
        let cached = FileAccess { alignment_bytes: 1, ..self.access(false) };
        Ok(Box::new(RealFile::open(&self.directory.join(name), cached)?))
    }

    fn create_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.make(name)?;
        self.open_cached(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
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
        Ok(Box::new(if self.read_only { lock_to_read(&path)? } else { lock_to_write(&path)? }))
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

/// The missing directories on the path to `directory`, the innermost first.
fn missing(directory: &Path) -> impl Iterator<Item = &Path> {
    directory.ancestors().take_while(|directory| !directory.exists())
}

fn lock_to_write(path: &Path) -> io::Result<FileLock> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    flock::take(&file, Sharing::Exclusive)?;
    Ok(FileLock(Some(file)))
}

/// Takes a shared lock if the file exists, this user may read it, and its file system has locks.
fn lock_to_read(path: &Path) -> io::Result<FileLock> {
    let file = match File::open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(FileLock(None));
        }
        file => file?,
    };
    Ok(FileLock(flock::take_if_possible(&file, Sharing::Shared)?.then_some(file)))
}

/// The locked file; `None` if the file does not exist.
struct FileLock(Option<File>);

impl DiskLock for FileLock {}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.0.iter().for_each(flock::release);
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
    fn readers_share_a_lock_and_exclude_writers() {
        let (directory, disk) = disk();
        let reader = || FileDisk::open_to_read(directory.path(), true).unwrap();
        let file = disk.create("data").unwrap();
        // Without a lock file there is the data file's lock.
        let (_none, first) = (reader().lock("lock").unwrap(), Disk::open(&reader(), "data").unwrap());
        first.lock().unwrap();
        assert_eq!(file.lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(first);
        file.lock().unwrap();
        let second = Disk::open(&reader(), "data").unwrap();
        assert_eq!(second.lock().unwrap_err().kind(), io::ErrorKind::WouldBlock);

        let writer = disk.lock("lock").unwrap();
        assert_eq!(reader().lock("lock").err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(writer);
        let readers = [reader(), reader()].map(|reader| reader.lock("lock").unwrap());
        assert_eq!(disk.lock("lock").err().unwrap().kind(), io::ErrorKind::WouldBlock);
        drop(readers);
        disk.lock("lock").unwrap();
    }

    #[test]
    fn a_disk_for_reading_changes_nothing() {
        let (directory, disk) = disk();
        disk.create("data").unwrap().allocate(4096).unwrap();
        let reader = FileDisk::open_to_read(directory.path(), true).unwrap();
        let file = Disk::open(&reader, "data").unwrap();
        file.read_at(block_of(1).bytes_mut(), 0).unwrap();
        let cached = reader.open_cached("data").unwrap();
        assert!(file.write_at(block_of(1).bytes(), 0).is_err() && cached.write_at(&[1], 0).is_err());
        assert_eq!(cached.map(0, 512).err().unwrap().kind(), io::ErrorKind::Unsupported);
        assert!(reader.create("new").is_err() && reader.create_cached("new").is_err());
        assert!(reader.remove("data").is_err());
        let _lock = reader.lock("lock").unwrap();
        assert_eq!(disk.names().unwrap(), ["data"]);
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
