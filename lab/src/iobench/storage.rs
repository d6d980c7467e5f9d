//! What lies under a path.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{major, minor};

use super::results::Storage;

/// Describes the storage under `path`; `file` is a file on it that is open, if there is one.
pub fn describe(path: &Path, _file: Option<&File>) -> Storage {
    Storage {
        path: path.display().to_string(),
        device: device_of(path).unwrap_or_default(),
        ..Storage::default()
    }
}

/// The whole disk under `path`, as it is called in `/sys/block`.
pub fn device_of(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let number = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    let system = fs::canonicalize(format!("/sys/dev/block/{}:{}", major(number), minor(number))).ok()?;
    let disk = if system.join("partition").exists() { system.parent()? } else { &system };
    Some(disk.file_name()?.to_string_lossy().into_owned())
}
