//! Overflow pages: the part of a large value that is not in its leaf.
//!
//! ```text
//! offset size
//!     32    8  stamp: of the value, the same in all its pages and in the entry
//!     40    8  the next page; 0 in the last
//!     48    4  which of the value's pages it is, from 0
//!     52    4  bytes of the value in it, n
//!     56    n  the bytes
//!
//! an entry's large value:
//!      0   32  the value's first bytes
//!     32    8  its first overflow page
//!     40    8  its stamp
//!     48    8  its length, bytes, the first ones included
//! ```
//! All pages of a value except the last are full. They are written before an entry refers to them, and never changed
//! while an entry does. No two values have the same stamp: a page that has the stamp has the value's bytes, so a reader
//! needs to hold nothing between the entry and the pages. For that reason a stamp includes the number of the opening
//! ([`first_stamp`]). Positions in the log alone would not distinguish the values of a bulk load from values after the
//! next opening.

use super::node::{LARGE_BYTES, LARGE_PREFIX_BYTES};
use super::{AT_KIND, AT_OWNER};
use super::{Bytes, KIND_OVERFLOW, PageNo, TRAILER_BYTES, Torn, format, write_u32, write_u64};

const AT_STAMP: usize = 32;
const AT_NEXT: usize = 40;
const AT_INDEX: usize = 48;
const AT_LENGTH: usize = 52;
pub(super) const AT_BYTES: usize = 56;

/// The number of stamps per opening of the database, as a power of two.
const STAMPS_LOG2: u32 = 40;

/// The first stamp of the opening with this number; each of its values has the next one. Bit 63 is set, which is in none of
/// the stamps that were positions in the log. After 2^23 openings they begin again.
pub(crate) fn first_stamp(epoch: u32) -> u64 {
    1 << 63 | u64::from(epoch) << STAMPS_LOG2
}

/// Bytes of a value that a page takes.
pub(crate) const fn bytes_per_page(page_bytes: usize) -> usize {
    page_bytes - AT_BYTES - TRAILER_BYTES
}

/// What an overflow page says besides the value's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverflowHeader {
    pub(crate) owner: PageNo,
    pub(crate) stamp: u64,
    pub(crate) next: PageNo,
    pub(crate) index: u32,
}

/// Makes `page` an overflow page with these bytes of a value.
pub(crate) fn format_overflow(page: &mut [u8], no: PageNo, header: &OverflowHeader, bytes: &[u8]) {
    format(page, no, KIND_OVERFLOW, header.owner);
    write_u64(page, AT_STAMP, header.stamp);
    write_u64(page, AT_NEXT, header.next.0);
    write_u32(page, AT_INDEX, header.index);
    write_u32(page, AT_LENGTH, bytes.len() as u32);
    page[AT_BYTES..AT_BYTES + bytes.len()].copy_from_slice(bytes);
}

/// What the page says; `None` if it is of another kind.
pub(crate) fn header_of(page: impl Bytes) -> Result<Option<OverflowHeader>, Torn> {
    if page.array(AT_KIND)? != [KIND_OVERFLOW] {
        return Ok(None);
    }
    Ok(Some(OverflowHeader {
        owner: PageNo(page.u64(AT_OWNER)?),
        stamp: page.u64(AT_STAMP)?,
        next: PageNo(page.u64(AT_NEXT)?),
        index: u32::from_le_bytes(page.array(AT_INDEX)?),
    }))
}

/// Appends the value's bytes in the page to `out`.
pub(crate) fn append_bytes(page: impl Bytes, out: &mut Vec<u8>) -> Result<(), Torn> {
    page.append_to(AT_BYTES, length(page)?, out)
}

pub(super) fn length(page: impl Bytes) -> Result<usize, Torn> {
    let length = u32::from_le_bytes(page.array(AT_LENGTH)?) as usize;
    if length <= bytes_per_page(page.bytes()) { Ok(length) } else { Err(Torn) }
}

/// Checks what the code relies on that reads the page.
pub(super) fn verify(page: &[u8]) -> Result<(), &'static str> {
    length(page).map(drop).map_err(|Torn| "its bytes lie outside of it")
}

/// Where the bytes of a large value are that do not lie in its leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub(crate) first: PageNo,
    pub(crate) stamp: u64,
    /// Of the whole value, bytes.
    pub(crate) len: u64,
}

impl Pointer {
    /// What the leaf has of a value that begins with `prefix`.
    pub(crate) fn entry(&self, prefix: &[u8]) -> [u8; LARGE_BYTES] {
        let mut entry = [0; LARGE_BYTES];
        entry[..LARGE_PREFIX_BYTES].copy_from_slice(prefix);
        for (index, field) in [self.first.0, self.stamp, self.len].into_iter().enumerate() {
            write_u64(&mut entry, LARGE_PREFIX_BYTES + 8 * index, field);
        }
        entry
    }

    /// From what a leaf has of a large value.
    pub(crate) fn of_entry(entry: &[u8]) -> Result<Pointer, Torn> {
        if entry.len() != LARGE_BYTES {
            return Err(Torn);
        }
        let field = |index: usize| entry.u64(LARGE_PREFIX_BYTES + 8 * index);
        Ok(Pointer { first: PageNo(field(0)?), stamp: field(1)?, len: field(2)? })
    }
}
