//! The header block of every data file: its database, and its number.
//!
//! It is written once, when the database is created. Magic, version and checksum have the same positions in all
//! versions of the format, so that a file of another version is distinguished from a damaged one.

use uuid::Uuid;

use super::Tablespace;
use super::block::Block;

/// The version of the format that this program reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 6;

/// What the size of a page may be, bytes.
pub(crate) const PAGE_SIZES: [u32; 3] = [4096, 8192, 16384];

/// How many data files there may be.
pub(crate) const DATA_FILES_MAX: u32 = 64;

/// Bytes before the first page of a data file. A multiple of every page size, so that pages are aligned to
/// their size, which is what a device needs that writes pages atomically.
pub(super) const HEADER_AREA_BYTES: u64 = 64 << 10;

const MAGIC: [u8; 8] = *b"flifo\r\n\x1a";

/// What a header block says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) database: Uuid,
    pub(super) page_size: u32,
    pub(super) files: u32,
    pub(super) index: u32,
    pub(super) stripe_pages: u32,
}

/// Why a block is no valid header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// Only zeros: allocated, and never written.
    Empty,
    /// Something else's file.
    Magic,
    /// A header of this format, damaged.
    Checksum,
    /// A header of another version of the format.
    Version(u32),
    /// A header of this format, with impossible values.
    Values,
}

impl Header {
    pub(super) fn encode(&self) -> Box<Block> {
        let mut block = Block::zeroed();
        block.set(0, &MAGIC);
        block.set(8, &FORMAT_VERSION.to_le_bytes());
        block.set(12, &self.page_size.to_le_bytes());
        block.set(16, &self.files.to_le_bytes());
        block.set(20, &self.index.to_le_bytes());
        block.set(24, &self.stripe_pages.to_le_bytes());
        block.set(32, self.database.as_bytes());
        block.seal();
        block
    }

    pub(super) fn decode(block: &Block) -> Result<Self, BadHeader> {
        if block.is_zero() {
            return Err(BadHeader::Empty);
        }
        if block.field(0) != MAGIC {
            return Err(BadHeader::Magic);
        }
        if !block.is_sealed() {
            return Err(BadHeader::Checksum);
        }
        if block.u32(8) != FORMAT_VERSION {
            return Err(BadHeader::Version(block.u32(8)));
        }
        let header = Header {
            page_size: block.u32(12),
            files: block.u32(16),
            index: block.u32(20),
            stripe_pages: block.u32(24),
            database: Uuid::from_bytes(block.field(32)),
        };
        if header.is_possible() { Ok(header) } else { Err(BadHeader::Values) }
    }

    /// No version of this program writes a sealed block with such values, but later code relies on them.
    fn is_possible(&self) -> bool {
        PAGE_SIZES.contains(&self.page_size)
            && (1..=DATA_FILES_MAX).contains(&self.files)
            && self.index < self.files
            && u64::from(self.stripe_pages) == Tablespace::STRIPE_PAGES
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> Header {
        Header { database: Uuid::from_u128(7), page_size: 16384, files: 4, index: 3, stripe_pages: 64 }
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(Header::decode(&header().encode()), Ok(header()));
    }

    #[test]
    fn other_bytes_are_told_apart() {
        assert_eq!(Header::decode(&Block::zeroed()), Err(BadHeader::Empty));
        let mut other = header().encode();
        other.set(0, b"SQLite f");
        assert_eq!(Header::decode(&other), Err(BadHeader::Magic));
        let mut newer = header().encode();
        newer.set(8, &(FORMAT_VERSION + 1).to_le_bytes());
        newer.seal();
        assert_eq!(Header::decode(&newer), Err(BadHeader::Version(FORMAT_VERSION + 1)));
        for (at, value) in [(12, 32768), (12, 0), (16, 0), (16, 65), (20, 4), (24, 32)] {
            let mut absurd = header().encode();
            absurd.set(at, &u32::to_le_bytes(value));
            absurd.seal();
            assert_eq!(Header::decode(&absurd), Err(BadHeader::Values), "{value} at {at}");
        }
    }

    proptest! {
        /// With a checksum that fits: what passes is possible.
        #[test]
        fn any_values_are_possible_or_refused(at in 8..48_usize, bytes in proptest::collection::vec(any::<u8>(), 1..9)) {
            let mut block = header().encode();
            block.set(at, &bytes);
            block.seal();
            if let Ok(header) = Header::decode(&block) {
                prop_assert!(header.is_possible());
                prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
            }
        }

        #[test]
        fn every_flipped_bit_is_noticed(bit in 0..4096usize * 8) {
            let mut block = header().encode();
            block.bytes_mut()[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&block).is_err());
        }
    }
}
