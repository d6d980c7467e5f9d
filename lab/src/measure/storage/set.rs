//! Files, or a device, as a cell uses them.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};

/// Files of one size that together hold the data.
pub(crate) struct Set {
    /// How many; 0 for a device.
    pub(crate) files: u32,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) file_bytes: u64,
    handles: Vec<File>,
}

impl Set {
    /// Opens an existing set.
    pub(crate) fn open(files: u32, paths: Vec<PathBuf>, file_bytes: u64) -> io::Result<Self> {
        let handles = paths.iter().map(File::open).collect::<io::Result<_>>()?;
        Ok(Set { files, paths, file_bytes, handles })
    }

    /// The first file, as a representative of all.
    pub(crate) fn first(&self) -> &File {
        &self.handles[0]
    }

    /// Drops the files' pages from the page cache, so that no cell reads what another one wrote.
    pub(crate) fn forget_cache(&self) {
        for file in &self.handles {
            // Advice only; if it is not followed, the figures show it.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
    }

    /// Writes everything back, so that the next cell does not pay for it.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handles.iter().try_for_each(File::sync_data)
    }
}
