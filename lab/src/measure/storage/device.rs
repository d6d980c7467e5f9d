//! A raw block device, and the checks before its use.
//!
//! Reads are harmless. Writes destroy data, so a device to be written must be unused: not mounted, without partitions,
//! and held exclusively (O_EXCL). The kernel refuses that while a file system, swap, RAID or a logical volume uses the
//! device, and keeps all of them away until the end.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flifo_engine::disk::{FileAccess, RealFile};
use rustix::fs::{OFlags, SeekFrom, major, minor};
use rustix::io::Errno;

use super::set::Set;
use crate::support::error::Error;
use crate::support::mounts::mounts;
use crate::support::size::Bytes;

/// A device for the time of a run.
pub(crate) struct Device {
    path: PathBuf,
    bytes: u64,
    has_direct: bool,
    /// Keeps all others away, if it is written.
    _claim: Option<File>,
}

impl Device {
    pub(crate) fn open(path: &Path, write: bool) -> Result<Self, Error> {
        let claim = if write { Some(claim(path)?) } else { None };
        let file = File::open(path).map_err(|error| cannot("open", path, &error))?;
        let bytes = rustix::fs::seek(&file, SeekFrom::End(0))
            .map_err(|errno| cannot("measure", path, &errno.into()))?;
        let access = FileAccess { read_only: true, ..FileAccess::default() };
        let has_direct = match RealFile::open(path, access) {
            Ok(_) => true,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => false,
            Err(error) => return Err(cannot("read", path, &error)),
        };
        Ok(Device { path: path.to_owned(), bytes, has_direct, _claim: claim })
    }

    pub(crate) fn has_direct(&self) -> bool {
        self.has_direct
    }

    /// So much of it, or all.
    pub(crate) fn size(&self, requested: Option<u64>, block_bytes: u32) -> Result<u64, Error> {
        let block = u64::from(block_bytes);
        let size = requested.unwrap_or(self.bytes / block * block);
        if self.bytes < block {
            return Err(Error::Data(format!(
                "{} is empty; name a device that has a medium",
                self.path.display()
            )));
        }
        if size > self.bytes {
            return Err(Error::Data(format!(
                "{} has {}; use a --size up to that",
                self.path.display(),
                Bytes(self.bytes)
            )));
        }
        Ok(size)
    }

    pub(crate) fn set(&self, bytes: u64) -> Result<Set, Error> {
        Set::open(0, vec![self.path.clone()], bytes).map_err(|error| cannot("open", &self.path, &error))
    }
}

/// Takes it for us alone.
fn claim(path: &Path) -> Result<File, Error> {
    let refused = |why: &str| {
        Err(Error::Data(format!("{}: {why}; flifo writes only to an unused device", path.display())))
    };
    let metadata = fs::metadata(path).map_err(|error| cannot("look at", path, &error))?;
    let number = format!("{}:{}", major(metadata.rdev()), minor(metadata.rdev()));
    let system = PathBuf::from(format!("/sys/dev/block/{number}"));
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(mount) = mounts(&mountinfo).find(|mount| mount.device == number) {
        return refused(&format!("it is mounted at {}", mount.point.display()));
    }
    if let Some(partition) = entry(&system, |entry| entry.join("partition").exists()) {
        return refused(&format!("it has partitions ({partition})"));
    }
    if let Some(holder) = entry(&system.join("holders"), |_| true) {
        return refused(&format!("{holder} holds it"));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::EXCL.bits().cast_signed());
    match options.open(path) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => refused("it is in use"),
        other => other.map_err(|error| cannot("open", path, &error)),
    }
}

/// The first name in a directory for which something holds.
fn entry(dir: &Path, holds: impl Fn(&Path) -> bool) -> Option<String> {
    let entries = fs::read_dir(dir).ok()?;
    let found = entries.filter_map(Result::ok).find(|entry| holds(&entry.path()))?;
    Some(found.file_name().to_string_lossy().into_owned())
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "run as root, or as a user that may (group disk)",
        _ => "name a device that works",
    };
    Error::Data(format!("cannot {what} {}: {error}; {advice}", path.display()))
}
