//! What a database counted.

use crate::metrics::WaitsSnapshot;

/// What a database counted since it was opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct EngineStats {
    /// Time waited, per reason.
    pub waits: WaitsSnapshot,
    /// Whether files are read and written past the operating system's page cache.
    pub direct_io: bool,
    /// Bytes of pages in the data files, used or not.
    pub data_bytes: u64,
}
