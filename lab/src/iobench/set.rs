//! Files, or a device, as a cell uses them.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use rustix::fs::{Advice, fadvise};

/// Files of one size that together hold the data.
pub(super) struct Set {
    /// How many; 0 for a device.
    pub(super) files: u32,
    pub(super) paths: Vec<PathBuf>,
    pub(super) file_bytes: u64,
    handles: Vec<File>,
}

impl Set {
    /// What is there already.
    pub(super) fn open(files: u32, paths: Vec<PathBuf>, file_bytes: u64) -> io::Result<Self> {
        let handles = paths.iter().map(File::open).collect::<io::Result<_>>()?;
        Ok(Set { files, paths, file_bytes, handles })
    }

    /// The first file, which stands for all of them.
    pub(super) fn first(&self) -> &File {
        &self.handles[0]
    }

    /// Makes the page cache forget what it holds of them, lest one cell reads what another one wrote.
    pub(super) fn forget_cache(&self) {
        for file in &self.handles {
            // Advice; who does not take it has the pages in memory, and its figures show it.
            let _ = fadvise(file, 0, None, Advice::DontNeed);
        }
    }

    /// Has everything written, lest the next cell pays for it.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.handles.iter().try_for_each(File::sync_data)
    }
}
