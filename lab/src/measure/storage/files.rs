//! The test files: a directory `flifo-iobench` in the directory that the user named.
//!
//! # Ownership
//! The directory holds a file `flifo-iobench` that marks it, and that is locked (flock) while a run uses the directory.
//! It lists each set of files before its first file is created (`begun`) and after its last was written and synced
//! (`complete`). A directory without the mark is refused; a file that is not listed is never written, since files are
//! only ever created new. If a run could not clean up (kill -9, a power cut, a second Ctrl-C), the next one does: it
//! reuses complete sets that fit, and removes all others.
//!
//! # Space
//! The data have one size, for any number of files, so 1 and 4 files are two sets. If both fit they are kept side by
//! side and rounds alternate between them; otherwise one is removed before the next is created.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use flifo_engine::disk::{Disk, DiskFile, DiskLock, FileAccess, FileDisk, RealFile};
use rustix::io::Errno;

use super::description::describe;
use super::job::Buffer;
use super::set::Set;
use crate::measure::workload::stream;
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::progress::Progress;
use crate::support::size::Bytes;

/// The name of the directory, and of the file in it that marks it.
const NAME: &str = "flifo-iobench";
const HEAD: &str = "test files of flifo iobench; may be removed";
/// Written at a time when files are filled.
const FILL_BYTES: u64 = 4 << 20;
/// What a file begins and ends on.
const BLOCK_BYTES: u64 = 4096;

/// The directory of one run. Dropped, it is removed with its content, unless it is to be kept.
pub(crate) struct TestFiles {
    dir: PathBuf,
    keep: bool,
    has_direct: bool,
    /// As the file says.
    listed: Vec<Listed>,
    /// Held until the end.
    lock: Option<Box<dyn DiskLock>>,
}

/// A set of files, as the directory's own file lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listed {
    files: u32,
    file_bytes: u64,
    is_complete: bool,
}

impl TestFiles {
    /// Makes the directory in `parent`, or takes over what an earlier run left there.
    pub(crate) fn open(parent: &Path, keep: bool, progress: &Progress) -> Result<Self, Error> {
        let dir = parent.join(NAME);
        let is_new = match fs::create_dir(&dir) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(cannot("make the directory", &dir, &error)),
        };
        if !is_new && !is_test_directory(&dir) {
            return Err(Error::Data(format!(
                "{}: this is not flifo's; remove it, or name another directory to measure in",
                dir.display()
            )));
        }
        let lock = FileDisk::open(&dir, false).and_then(|disk| disk.lock(NAME)).map_err(
            |error| match error.kind() {
                io::ErrorKind::WouldBlock => Error::Data(format!(
                    "{}: another flifo iobench measures here; wait for its end, or name another directory",
                    dir.display()
                )),
                _ => cannot("lock", &dir.join(NAME), &error),
            },
        )?;
        let mut files = TestFiles { dir, keep, has_direct: true, listed: Vec::new(), lock: Some(lock) };
        files.listed =
            read_list(&files.dir).map_err(|error| cannot("read", &files.dir.join(NAME), &error))?;
        files.write_list()?;
        // Incomplete sets are useless.
        for set in files.listed.clone().into_iter().filter(|set| !set.is_complete) {
            files.remove(set.files)?;
        }
        files.has_direct = files.probe_direct()?;
        if !is_new {
            let what = if files.listed.iter().any(|set| set.is_complete) {
                "its files are used again if they fit"
            } else {
                "its files are removed"
            };
            progress.note(&format!("{}: left by an earlier run; {what}", files.dir.display()));
        }
        Ok(files)
    }

    /// Whether the file system supports direct access.
    pub(crate) fn has_direct(&self) -> bool {
        self.has_direct
    }

    /// Free space, including the space of existing sets.
    pub(crate) fn space(&self) -> Result<Space, Error> {
        let found =
            rustix::fs::statvfs(&self.dir).map_err(|errno| cannot("look at", &self.dir, &errno.into()))?;
        let own_bytes: u64 = self.listed.iter().map(|set| u64::from(set.files) * set.file_bytes).sum();
        let total = found.f_blocks * found.f_frsize;
        // A file system without a size, such as ramfs, has space until memory ends.
        let free = if total == 0 { u64::MAX } else { found.f_bavail * found.f_frsize + own_bytes };
        Ok(Space { free, total })
    }

    /// A set of that many files of that size: the existing one, or a new one, written and synced.
    pub(crate) fn make(&mut self, files: u32, file_bytes: u64, progress: &Progress) -> Result<Set, Error> {
        let requested = Listed { files, file_bytes, is_complete: true };
        if !self.listed.contains(&requested) || !self.is_whole(requested)? {
            self.remove(files)?;
            // Before they are listed.
            if let Some(foreign) = self.paths(files).into_iter().find(|path| path.symlink_metadata().is_ok())
            {
                return Err(cannot("make", &foreign, &io::ErrorKind::AlreadyExists.into()));
            }
            self.listed.push(Listed { is_complete: false, ..requested });
            self.write_list()?;
            self.fill(files, file_bytes, progress)?;
            self.listed.retain(|set| set.files != files);
            self.listed.push(requested);
            self.write_list()?;
        }
        Set::open(files, self.paths(files), file_bytes)
            .map_err(|error| cannot("open the files in", &self.dir, &error))
    }

    /// Removes the sets with other numbers of files, or of other sizes.
    pub(crate) fn retain(&mut self, requested: &[u32], file_bytes: impl Fn(u32) -> u64) -> Result<(), Error> {
        for set in self.listed.clone() {
            if !requested.contains(&set.files) || set.file_bytes != file_bytes(set.files) {
                self.remove(set.files)?;
            }
        }
        Ok(())
    }

    fn remove(&mut self, files: u32) -> Result<(), Error> {
        if !self.listed.iter().any(|set| set.files == files) {
            return Ok(());
        }
        for path in self.paths(files) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(cannot("remove", &path, &error));
                }
                _ => {}
            }
        }
        self.listed.retain(|set| set.files != files);
        self.write_list()
    }

    fn paths(&self, files: u32) -> Vec<PathBuf> {
        (1..=files).map(|file| self.dir.join(format!("data-{file}-of-{files}"))).collect()
    }

    /// Whether the files exist, have their size, and are not used by another program now.
    fn is_whole(&self, set: Listed) -> Result<bool, Error> {
        for path in self.paths(set.files) {
            match OpenOptions::new().read(true).write(true).open(&path) {
                Ok(file) if file.metadata().is_ok_and(|data| data.len() == set.file_bytes) => {
                    if is_open_elsewhere(&file) {
                        return Err(Error::Data(format!(
                            "{}: another program has this file open; end it, or remove {}",
                            path.display(),
                            self.dir.display()
                        )));
                    }
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(cannot("open", &path, &error));
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reserves, writes and syncs.
    fn fill(&self, files: u32, file_bytes: u64, progress: &Progress) -> Result<(), Error> {
        let bar = progress.files(u64::from(files) * file_bytes);
        bar.set_message(format!("{files} file{}", if files == 1 { "" } else { "s" }));
        let mut random = stream(u64::from(files), 0xf111);
        let mut buffer = Buffer::random(FILL_BYTES as usize, &mut random);
        let access = FileAccess { direct: self.has_direct, ..FileAccess::default() };
        for path in self.paths(files) {
            let error = |what: &str, error: io::Error| cannot(what, &path, &error);
            OpenOptions::new().write(true).create_new(true).open(&path).map_err(|e| error("make", e))?;
            let file = RealFile::open(&path, access).map_err(|e| error("open", e))?;
            file.allocate(file_bytes).map_err(|e| error("reserve the space of", e))?;
            let mut done = 0;
            while done < file_bytes {
                if interrupt::is_requested() {
                    return Err(Error::Interrupted);
                }
                // No block is like another.
                for block in buffer.bytes_mut().chunks_mut(BLOCK_BYTES as usize) {
                    super::job::stamp(block, &mut random);
                }
                let bytes = FILL_BYTES.min(file_bytes - done);
                file.write_at(&buffer.bytes()[..bytes as usize], done).map_err(|e| error("write", e))?;
                done += bytes;
                bar.inc(bytes);
            }
            file.sync_all().map_err(|e| error("sync", e))?;
        }
        bar.finish_and_clear();
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(|e| cannot("sync", &self.dir, &e))
    }

    /// Whether a file can be opened with direct access, and works. Since Linux 6.6 tmpfs takes `O_DIRECT`; but it
    /// is a page cache and nothing else.
    fn probe_direct(&self) -> Result<bool, Error> {
        let path = self.dir.join("probe");
        // Listed nowhere: gone in a moment, and made new.
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let made = match made {
            // A run that was killed within that moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.and_then(|mut file| file.write_all(&[0; BLOCK_BYTES as usize])),
        };
        let opened = made.and_then(|()| RealFile::open(&path, FileAccess::default()));
        let _ = fs::remove_file(&path);
        match opened {
            Ok(_) => Ok(describe(&self.dir, None).filesystem != "tmpfs"),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Ok(false),
            Err(error) => Err(cannot("write", &path, &error)),
        }
    }

    fn write_list(&self) -> Result<(), Error> {
        let mut text = format!("{HEAD}\n");
        for set in &self.listed {
            let state = if set.is_complete { "complete" } else { "begun" };
            text += &format!("{state} {} {}\n", set.files, set.file_bytes);
        }
        // In place, since the lock belongs to this file, and never empty in between: the rest of a longer text is no
        // valid line.
        let path = self.dir.join(NAME);
        let written = OpenOptions::new().write(true).open(&path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)?;
            file.sync_data()
        });
        written.map_err(|error| cannot("write", &path, &error))
    }
}

impl Drop for TestFiles {
    fn drop(&mut self) {
        if self.keep && self.listed.iter().any(|set| set.is_complete) {
            return;
        }
        let sets = self.listed.clone();
        let removed = sets.into_iter().try_for_each(|set| self.remove(set.files));
        if removed.is_ok() {
            // Foreign files stay, and so does the directory then.
            let _ = fs::remove_file(self.dir.join(NAME));
            let _ = fs::remove_dir(&self.dir);
        }
        drop(self.lock.take());
    }
}

/// The space of a file system, bytes. `total` is 0 if unknown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

impl Space {
    /// The usable bytes if a tenth of the file system stays free.
    pub(crate) fn usable(&self) -> u64 {
        self.free.saturating_sub(self.total / 10)
    }
}

/// A directory is a test directory if its mark says so, or if a run was killed before it could write the mark: it has
/// no other content. A mark that is not text is foreign.
fn is_test_directory(dir: &Path) -> bool {
    let says_nothing = match fs::read_to_string(dir.join(NAME)) {
        Ok(text) if text.starts_with(HEAD) => return true,
        Ok(text) => text.is_empty(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let is_it = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == NAME);
    says_nothing && fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_it))
}

fn read_list(dir: &Path) -> io::Result<Vec<Listed>> {
    let text = fs::read_to_string(dir.join(NAME))?;
    let listed = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let is_complete = match words.next()? {
            "complete" => true,
            "begun" => false,
            _ => return None,
        };
        Some(Listed {
            is_complete,
            files: words.next()?.parse().ok()?,
            file_bytes: words.next()?.parse().ok()?,
        })
    });
    Ok(listed.collect())
}

/// Whether another program keeps the file open. A ring of a program that has just ended releases it shortly afterwards.
fn is_open_elsewhere(file: &File) -> bool {
    const LOOKS: u32 = 10;
    (0..LOOKS).all(|look| {
        if look > 0 {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        has_other_holder(file)
    })
}

/// The kernel grants a write lease only to the sole opener of a file.
fn has_other_holder(file: &File) -> bool {
    let lease = |kind: libc::c_int| {
        // SAFETY: the descriptor is open, and the command takes a number, no pointer.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    match lease(libc::F_WRLCK) {
        Ok(()) => lease(libc::F_UNLCK).is_err(),
        // Every other error is of a file system that knows no leases.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// In one line, with what to do.
fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "use a smaller --size, or make room",
        io::ErrorKind::ReadOnlyFilesystem => "name a directory on a file system that is mounted read-write",
        io::ErrorKind::PermissionDenied => "name a directory that you may write to",
        io::ErrorKind::AlreadyExists => "flifo overwrites no file that it did not make: move it away",
        _ => "name a directory that can be written",
    };
    Error::Data(format!("cannot {what} {}: {error}; {advice}", path.display()))
}

/// The default size of the data, and the reason for it.
pub(crate) fn usual_size(space: Space, memory_bytes: u64, quick: bool) -> u64 {
    const QUICK_BYTES: u64 = 512 << 20;
    let requested = if quick || space.total == 0 { QUICK_BYTES } else { 2 * memory_bytes };
    let granule = 64 << 20;
    let usable = requested.min(space.usable());
    // Whole pieces, except on a file system that is smaller than one.
    if usable >= granule { usable / granule * granule } else { usable / (1 << 20) * (1 << 20) }
}

/// Says no to a size for which there is no room.
pub(crate) fn check_size(size: u64, space: Space, dir: &Path) -> Result<(), Error> {
    if size == 0 || size > space.free {
        return Err(Error::Data(format!(
            "{}: no room for {} of test files, {} are free; use a smaller --size or make room",
            dir.display(),
            Bytes(size.max(1 << 20)),
            Bytes(space.free)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{golden, without_path};

    const FILE_BYTES: u64 = 5 << 20;

    fn open(parent: &Path, keep: bool) -> Result<TestFiles, Error> {
        TestFiles::open(parent, keep, &Progress::new())
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_written_to_their_end_and_removed_with_the_run() {
        let temp = tempfile::tempdir().unwrap();
        let mut files = open(temp.path(), false).unwrap();
        let set = files.make(2, FILE_BYTES, &Progress::new()).unwrap();
        for path in &set.paths {
            let bytes = fs::read(path).unwrap();
            assert_eq!(bytes.len() as u64, FILE_BYTES);
            let distinct: std::collections::BTreeSet<&[u8]> = bytes.chunks(4096).collect();
            assert_eq!(distinct.len() as u64, FILE_BYTES / 4096, "blocks that are equal");
        }
        assert_eq!(names(&temp.path().join(NAME)), ["data-1-of-2", "data-2-of-2", NAME]);
        files.make(1, 2 * FILE_BYTES, &Progress::new()).unwrap();
        files.retain(&[1], |_| 2 * FILE_BYTES).unwrap();
        assert_eq!(names(&temp.path().join(NAME)), ["data-1-of-1", NAME]);
        drop((set, files));
        assert!(names(temp.path()).is_empty());
    }

    #[test]
    fn kept_files_are_used_again_if_they_fit() {
        let temp = tempfile::tempdir().unwrap();
        let inode = |set: &Set| {
            use std::os::unix::fs::MetadataExt;
            fs::metadata(&set.paths[0]).unwrap().ino()
        };
        let mut files = open(temp.path(), true).unwrap();
        let first = inode(&files.make(1, FILE_BYTES, &Progress::new()).unwrap());
        drop(files);
        let mut files = open(temp.path(), true).unwrap();
        assert_eq!(inode(&files.make(1, FILE_BYTES, &Progress::new()).unwrap()), first);
        drop(files);
        // Another program reads it.
        let path = temp.path().join(NAME).join("data-1-of-1");
        let reader = File::open(&path).unwrap();
        let error = open(temp.path(), true).unwrap().make(1, FILE_BYTES, &Progress::new()).err().unwrap();
        golden("test-files-in-use", &without_path(&error.to_string(), temp.path()));
        drop(reader);
        // Another size.
        let mut files = open(temp.path(), false).unwrap();
        let set = files.make(1, 2 * FILE_BYTES, &Progress::new()).unwrap();
        assert_eq!(fs::metadata(&set.paths[0]).unwrap().len(), 2 * FILE_BYTES);
    }

    #[test]
    fn what_is_not_ours_stays() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join(NAME);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("data-1-of-1"), "all my work").unwrap();
        let error = open(temp.path(), false).err().unwrap();
        golden("test-files-foreign-directory", &without_path(&error.to_string(), temp.path()));
        assert_eq!(names(&dir), ["data-1-of-1"]);
        // Even in a test directory.
        fs::write(dir.join(NAME), format!("{HEAD}\n")).unwrap();
        let mut files = open(temp.path(), false).unwrap();
        let error = files.make(1, FILE_BYTES, &Progress::new()).err().unwrap();
        golden("test-files-foreign-file", &without_path(&error.to_string(), temp.path()));
        drop(files);
        assert_eq!(fs::read_to_string(dir.join("data-1-of-1")).unwrap(), "all my work");
    }

    #[test]
    fn a_file_of_that_name_that_is_no_text_stays() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join(NAME);
        fs::create_dir(&dir).unwrap();
        let theirs = b"\x7fELF\xff\xfe";
        fs::write(dir.join(NAME), theirs).unwrap();
        let error = open(temp.path(), false).err().expect("it is somebody else's");
        assert_eq!(fs::read(dir.join(NAME)).unwrap(), theirs, "{error}");
        golden("test-files-foreign-directory", &without_path(&error.to_string(), temp.path()));
        // One that a run was killed in before it could say that the directory is its own.
        fs::write(dir.join(NAME), "").unwrap();
        drop(open(temp.path(), false).unwrap());
        assert!(!dir.exists());
    }

    #[test]
    fn one_run_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let files = open(temp.path(), false).unwrap();
        let error = open(temp.path(), false).err().unwrap();
        golden("test-files-another-run", &without_path(&error.to_string(), temp.path()));
        drop(files);
        open(temp.path(), false).unwrap();
    }

    #[test]
    fn sizes_leave_a_tenth_free() {
        let space = Space { free: 50 << 30, total: 100 << 30 };
        assert_eq!(usual_size(space, 8 << 30, false), 16 << 30);
        assert_eq!(usual_size(space, 64 << 30, false), 40 << 30);
        assert_eq!(usual_size(space, 64 << 30, true), 512 << 20);
        let full = Space { free: 9 << 30, total: 100 << 30 };
        assert_eq!(usual_size(full, 64 << 30, false), 0);
        assert!(
            check_size(0, full, Path::new("/")).is_err()
                && check_size(10 << 30, full, Path::new("/")).is_err()
        );
        assert!(check_size(9 << 30, full, Path::new("/")).is_ok());
    }
}
