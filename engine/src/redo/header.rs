//! The header block of each log file.
//!
//! ```text
//! offset size
//!      0    8  magic
//!      8    4  format version
//!     12    4  number of the file
//!     16    4  how many there are
//!     20    4  0
//!     24    8  bytes that the file has behind this block
//!     32   16  id of the database
//!   4092    4  crc32c of the block so far
//! ```

use std::io;

use uuid::Uuid;

use super::BLOCK_BYTES;
use crate::disk::{Block, DiskFile, FORMAT_VERSION};
use crate::error::{Error, Result};

pub(super) const HEADER_BYTES: u64 = BLOCK_BYTES;

/// A kind of the log's files.
pub(super) struct Kind {
    pub(super) magic: [u8; 8],
    /// The number of files of this kind.
    pub(super) files: u32,
    /// Its name in messages.
    pub(super) name: &'static str,
}

impl Kind {
    /// The header of file `number`, with `bytes` behind it.
    pub(super) fn header(&self, number: u32, bytes: u64, database: Uuid) -> Box<Block> {
        let mut block = Block::zeroed();
        block.set(0, &self.magic);
        block.set(8, &FORMAT_VERSION.to_le_bytes());
        block.set(12, &number.to_le_bytes());
        block.set(16, &self.files.to_le_bytes());
        block.set(24, &bytes.to_le_bytes());
        block.set(32, database.as_bytes());
        block.seal();
        block
    }

    /// Reads the header; returns the bytes behind it if the file is file `number` of this kind and this database, with
    /// that size.
    pub(super) fn read(&self, file: &dyn DiskFile, path: String, number: u32, database: Uuid) -> Result<u64> {
        let mut block = Block::zeroed();
        match file.read_at(block.bytes_mut(), 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(corrupt(path, "it is shorter than its header".to_owned()));
            }
            Err(source) => return Err(Error::from_io("cannot read", path, source)),
        }
        if block.field(0) != self.magic {
            return Err(corrupt(path, format!("it does not begin as a {} does", self.name)));
        }
        if block.u32(8) != FORMAT_VERSION {
            return Err(Error::FormatVersion { path, found: block.u32(8), supported: FORMAT_VERSION });
        }
        if !block.is_sealed() {
            return Err(corrupt(path, "the checksum of its header does not fit".to_owned()));
        }
        if block.field(32) != *database.as_bytes() {
            let what = format!("it is the {} of another database", self.name);
            return Err(Error::MisplacedDataFile { path, what });
        }
        let bytes = block.u64(24);
        if (block.u32(12), block.u32(16)) != (number, self.files) {
            let what = format!("it is file {} of {} of a {}", block.u32(12), block.u32(16), self.name);
            return Err(Error::MisplacedDataFile { path, what });
        }
        if bytes == 0 || !bytes.is_multiple_of(BLOCK_BYTES) || bytes > 1 << 50 {
            return Err(corrupt(path, "its header has impossible values".to_owned()));
        }
        let length = file.bytes().map_err(|source| Error::from_io("cannot examine", &*path, source))?;
        if length < HEADER_BYTES + bytes {
            let missing = HEADER_BYTES + bytes - length;
            return Err(corrupt(path, format!("it has {length} bytes, {missing} are missing")));
        }
        Ok(bytes)
    }
}

pub(super) fn corrupt(path: String, what: String) -> Error {
    Error::CorruptRedo { path, what }
}
