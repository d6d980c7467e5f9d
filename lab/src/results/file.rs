//! Results files, and their errors.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::support::error::WriteError;

/// The version of the layout described in `docs/results.md`.
pub const SCHEMA: u32 = 1;

/// Bytes of a file at the most: an hour's sweep with all of its seconds has some megabytes.
const BYTES_MAX: u64 = 256 << 20;

/// Why a results file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("not a results file of flifo: {} has more than {} MiB", path.display(), BYTES_MAX >> 20)]
    TooLong { path: PathBuf },
    #[error("not a results file of flifo: {0}")]
    Json(#[from] serde_json::Error),
    #[error("not a results file of flifo: {0}")]
    Figure(String),
    #[error("results of schema {0}, but this flifo reads schema {SCHEMA}: use the version that wrote them")]
    Schema(u32),
}

/// The file's text. One without an end, as a device may be, is refused.
pub(crate) fn read_results(path: &Path) -> Result<String, ResultsError> {
    let cannot = |source| ResultsError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(ResultsError::TooLong { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| cannot(io::Error::new(io::ErrorKind::InvalidData, error)))
}
