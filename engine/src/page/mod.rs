//! The page format: header and trailer, the checksum, and the kinds of pages.
//!
//! A page is 4, 8 or 16 KiB. Numbers are little-endian, key heads big-endian. Every page:
//!
//! ```text
//! offset size
//!      0    4  checksum: crc32c of the page number (8 bytes) followed by bytes 4.. of the page
//!      4    1  kind: 1 tree node, 2 allocation bitmap, 3 overflow, 4 pending
//!      5    1  level of a tree node, 0 for a leaf
//!      6    2  flags of the kind
//!      8    8  page number
//!     16    8  LSN of the last change
//!     24    8  owner: the tree's root page; 0 for none
//!     32       the content of the kind: node.rs, bitmap.rs, overflow.rs, pending.rs
//!   S-8    4  the LSN's low half again: detects a torn write of which only one end arrived
//!   S-4    4  0
//! ```
//!
//! The checksum covers the page's number, so a page that was written to another page's place does not pass
//! even if its number were changed. It is set when the page is written ([`seal`]) and checked when it is read
//! ([`verify`]); in memory it is stale. `verify` also checks everything that the code which edits pages relies
//! on, so that no byte from disk can make it panic. `docs/format.md` draws the same.

pub mod bitmap;
mod bytes;
pub mod edit;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzz;
pub mod node;
pub mod op;
pub(crate) mod overflow;
pub(crate) mod pending;

pub use bytes::{Bytes, Torn};

use crate::error::{Error, Result};

/// A page's number in its tablespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageNo(pub u64);

/// A position in the redo log: an offset in its stream, bytes; 0: before all records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

/// Smallest page, bytes.
pub const PAGE_BYTES_MIN: usize = 4096;
/// Largest page, bytes.
pub const PAGE_BYTES_MAX: usize = 16384;

pub(crate) const KIND_NODE: u8 = 1;
pub(crate) const KIND_BITMAP: u8 = 2;
pub(crate) const KIND_OVERFLOW: u8 = 3;
pub(crate) const KIND_PENDING: u8 = 4;

pub(crate) const AT_CHECKSUM: usize = 0;
pub(crate) const AT_KIND: usize = 4;
pub(crate) const AT_LEVEL: usize = 5;
pub(crate) const AT_FLAGS: usize = 6;
pub(crate) const AT_PAGE_NO: usize = 8;
pub(crate) const AT_LSN: usize = 16;
pub(crate) const AT_OWNER: usize = 24;
pub(crate) const COMMON_HEADER_BYTES: usize = 32;
pub(crate) const TRAILER_BYTES: usize = 8;

pub(crate) fn read_u16(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

pub(crate) fn write_u16(page: &mut [u8], at: usize, value: u16) {
    page[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn read_u32(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn write_u32(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn read_u64(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

pub(crate) fn write_u64(page: &mut [u8], at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Makes `page` an empty page of a kind: zeroes it and writes what all kinds have in common.
pub(crate) fn format(page: &mut [u8], no: PageNo, kind: u8, owner: PageNo) {
    page.fill(0);
    page[AT_KIND] = kind;
    write_u64(page, AT_PAGE_NO, no.0);
    write_u64(page, AT_OWNER, owner.0);
}

/// The LSN of the last change.
pub fn lsn(page: &[u8]) -> Lsn {
    Lsn(read_u64(page, AT_LSN))
}

pub(crate) fn set_lsn(page: &mut [u8], lsn: Lsn) {
    write_u64(page, AT_LSN, lsn.0);
}

/// Prepares a copy of a page for writing: trailer and checksum.
pub fn seal(page: &mut [u8]) {
    let no = PageNo(read_u64(page, AT_PAGE_NO));
    let (lsn_low, trailer) = (read_u64(page, AT_LSN) as u32, page.len() - TRAILER_BYTES);
    write_u32(page, trailer, lsn_low);
    let checksum = checksum(page, no);
    write_u32(page, AT_CHECKSUM, checksum);
}

fn checksum(page: &[u8], no: PageNo) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&no.0.to_le_bytes()), &page[AT_CHECKSUM + 4..])
}

/// Verifies a page that was read as page `no`: checksum, number, trailer, and the bounds that the rest of the code
/// relies on.
pub fn verify(page: &[u8], no: PageNo) -> Result<()> {
    verify_bytes(page, no).map_err(|what| Error::CorruptPage { page: no.0, what })
}

fn verify_bytes(page: &[u8], no: PageNo) -> std::result::Result<(), String> {
    if !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page.len()) {
        return Err(format!("it has {} bytes", page.len()));
    }
    if page.iter().all(|&byte| byte == 0) {
        return Err("it was never written".to_owned());
    }
    let (stored, computed) = (read_u32(page, AT_CHECKSUM), checksum(page, no));
    let found = read_u64(page, AT_PAGE_NO);
    if stored != computed {
        return Err(match stored == checksum(page, PageNo(found)) && found != no.0 {
            true => format!("page {found} was written in its place"),
            false => format!("its checksum is {computed:#010x}, but {stored:#010x} was stored"),
        });
    }
    if found != no.0 {
        return Err(format!("it says that it is page {found}"));
    }
    if read_u32(page, page.len() - TRAILER_BYTES) != read_u64(page, AT_LSN) as u32 {
        return Err("its two ends are of different age".to_owned());
    }
    verify_content(page)
}

/// What the code that edits pages relies on, of a page of its kind.
pub(crate) fn verify_content(page: &[u8]) -> std::result::Result<(), String> {
    match page[AT_KIND] {
        KIND_NODE => node::verify(page).map_err(str::to_owned),
        KIND_OVERFLOW => overflow::verify(page).map_err(str::to_owned),
        KIND_BITMAP | KIND_PENDING => Ok(()),
        kind => Err(format!("its kind is {kind}, which is not known")),
    }
}

#[cfg(test)]
mod tests;
