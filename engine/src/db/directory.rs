//! A database's directory, opened for writing or for reading.

use std::io;
use std::path::Path;

use super::EngineConfig;
use crate::disk::FileDisk;
use crate::error::{Error, Result};

pub(super) fn open_directory(dir: &Path, config: &EngineConfig) -> Result<FileDisk> {
    FileDisk::open(dir, config.direct_io).map_err(|source| directory_error(dir, source))
}

pub(super) fn open_directory_to_read(dir: &Path, config: &EngineConfig) -> Result<FileDisk> {
    FileDisk::open_to_read(dir, config.direct_io).map_err(|source| directory_error(dir, source))
}

fn directory_error(dir: &Path, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::NotFound => Error::NoDatabase { path: dir.display().to_string() },
        io::ErrorKind::NotADirectory => not_a_directory(dir),
        _ => Error::from_io("cannot open", dir.display().to_string(), source),
    }
}

pub(super) fn not_a_directory(dir: &Path) -> Error {
    Error::NotADatabase { path: dir.display().to_string(), what: "it is not a directory".to_owned() }
}
