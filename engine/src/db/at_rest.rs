//! What can be told of a database that nobody has open, without opening it.

use uuid::Uuid;

use crate::disk::{Disk, FORMAT_VERSION, Tablespace};
use crate::error::{Error, Result};
use crate::redo::LogFiles;

/// A database that nobody has open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AtRest {
    /// Version of the files' format.
    pub format_version: u32,
    /// The database's id, the same in all its files.
    pub id: Uuid,
    /// Bytes per page.
    pub page_bytes: u32,
    /// Pages that the data files have room for.
    pub pages: u64,
    /// The data files, and their lengths in bytes.
    pub data_files: Vec<(String, u64)>,
    /// Whether it was closed; if not, the next open recovers it.
    pub is_clean: bool,
    /// Where recovery would begin to read the redo log.
    pub checkpoint_lsn: u64,
    /// The redo log is known to have been durable up to here.
    pub durable_lsn: u64,
    /// How often it was opened and written.
    pub epoch: u32,
    /// Files of the redo log.
    pub redo_files: Vec<String>,
    /// What these hold, bytes; what is wrong with them, if something is. (After a clean close that is no loss: the next open
    /// makes them anew.)
    pub redo_capacity_bytes: std::result::Result<u64, String>,
}

impl AtRest {
    pub(super) fn look(disk: &dyn Disk) -> Result<AtRest> {
        let space = Tablespace::open(disk)?;
        let redo_capacity_bytes = match LogFiles::open(disk, space.database()) {
            Ok(log) => Ok(log.capacity_bytes()),
            Err(error) if error.is_damage() => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        let mut redo_files =
            disk.names().map_err(|source| Error::from_io("cannot list", disk.path(""), source))?;
        redo_files.retain(|name| name.starts_with("redo") && name.ends_with(".flifo"));
        redo_files.sort_unstable();
        Ok(AtRest {
            format_version: FORMAT_VERSION,
            id: space.database(),
            page_bytes: space.page_size() as u32,
            pages: space.pages(),
            data_files: space.lengths()?,
            is_clean: space.was_clean(),
            checkpoint_lsn: space.checkpoint().lsn,
            durable_lsn: space.durable_log(),
            // Of the opening that this one would be.
            epoch: space.epoch() - 1,
            redo_files: redo_files.iter().map(|name| disk.path(name)).collect(),
            redo_capacity_bytes,
        })
    }
}
