//! Errors in one line: the file, the problem, and what to do.

use std::io;
use std::path::{Path, PathBuf};

/// The result of everything that reads or writes a file.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a record or a page could not be read, rendered or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file is no record.
    #[error("{}: {problem}; record it again with the bench's --record, or restore it with git", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A block of a page cannot be rendered.
    #[error("{}:{line}: {problem}", path.display())]
    Block {
        /// The page.
        path: PathBuf,
        /// The line of the block's first comment, from 1.
        line: usize,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// `--record` has nowhere to write.
    #[error("{0}")]
    Place(String),
    /// criterion left no estimates.
    #[error("no estimates of criterion in {}: run the bench with cargo bench", .0.display())]
    NoEstimates(PathBuf),
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Read { path, source }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Write { path, source }
    }
}
