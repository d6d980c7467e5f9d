//! One error type for the whole engine; every message says what is wrong and what to do.

use std::io;

/// The engine's result.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried, as in "cannot read".
        action: &'static str,
        /// The file.
        path: String,
        /// Why not.
        source: io::Error,
    },
    /// A page whose bytes are not what was written.
    #[error("page {page} is corrupt: {what}")]
    CorruptPage {
        /// The page's number.
        page: u64,
        /// What does not fit.
        what: String,
    },
    /// A key or row that does not fit a page.
    #[error("an entry of {size} bytes is too large: at most {max} (key and value together)")]
    EntryTooLarge {
        /// What was asked for, bytes.
        size: usize,
        /// What a page takes, bytes.
        max: usize,
    },
}
