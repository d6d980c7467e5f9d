//! Allocation bitmaps.
//!
//! ```text
//! offset  size
//!     32     8  in page 1: number of groups that have a bitmap; 0 elsewhere
//!     40    24  0
//!     64  S/2   one bit per page of the group, lowest bit first: 1 in use
//! ```
//!
//! A group is `S / 2 * 8` pages (65,536 of 16 KiB, one GiB; 16,384 of 4 KiB). The bitmap of group `g` is its
//! second page, `g * group + 1`. Page 0 of the tablespace is never used, so that 0 can mean "no page"; page 2 is the
//! pending page.

use std::ops::Range;

use super::{KIND_BITMAP, PageNo, format, read_u64};

pub(crate) const AT_GROUPS: usize = super::COMMON_HEADER_BYTES;
const AT_BITS: usize = 64;

/// Pages per bitmap page.
pub const fn group_pages(page_bytes: usize) -> u64 {
    (page_bytes / 2 * 8) as u64
}

/// The number of the bitmap page with `page`'s bit.
pub fn bitmap_of(page: PageNo, page_bytes: usize) -> PageNo {
    PageNo(page.0 / group_pages(page_bytes) * group_pages(page_bytes) + 1)
}

/// Formats `page` as bitmap `no`, in which only the bitmap itself (and pages 0 and 2) is in use.
pub fn format_bitmap(page: &mut [u8], no: PageNo) {
    format(page, no, KIND_BITMAP, PageNo(0));
    set(page, 1, true);
    if no.0 == 1 {
        set(page, 0, true);
        set(page, super::pending::PENDING_PAGE.0, true);
    }
}

/// The number of groups with a bitmap, according to the first bitmap.
pub fn groups(page: &[u8]) -> u64 {
    read_u64(page, AT_GROUPS)
}

/// Whether the group's page `index` is in use.
pub fn is_set(page: &[u8], index: u64) -> bool {
    page[AT_BITS + index as usize / 8] & 1 << (index % 8) != 0
}

/// Sets whether the group's page `index` is in use.
pub fn set(page: &mut [u8], index: u64, in_use: bool) {
    let byte = &mut page[AT_BITS + index as usize / 8];
    match in_use {
        true => *byte |= 1 << (index % 8),
        false => *byte &= !(1 << (index % 8)),
    }
}

/// The bytes that say of the group's `pages` whether they are in use, and their offset, after they were set or cleared.
pub(crate) fn changed_bytes(page: &[u8], pages: Range<u64>, in_use: bool) -> (usize, Vec<u8>) {
    let bytes = (pages.start / 8) as usize..pages.end.div_ceil(8) as usize;
    let mut changed = page[AT_BITS + bytes.start..AT_BITS + bytes.end].to_vec();
    for index in pages {
        let (byte, bit) = (&mut changed[(index / 8) as usize - bytes.start], 1 << (index % 8));
        if in_use { *byte |= bit } else { *byte &= !bit }
    }
    (AT_BITS + bytes.start, changed)
}

/// The bitmap bytes for the group's pages in `range`, and their offset, with the bits of `pages` set or cleared; `None`
/// if one of them already is.
pub(crate) fn marked_bytes(
    page: &[u8],
    range: Range<u64>,
    pages: impl Iterator<Item = u64>,
    in_use: bool,
) -> Option<(usize, Vec<u8>)> {
    let bytes = (range.start / 8) as usize..range.end.div_ceil(8) as usize;
    let mut marked = page[AT_BITS + bytes.start..AT_BITS + bytes.end].to_vec();
    for index in pages {
        let (byte, bit) = (&mut marked[(index / 8) as usize - bytes.start], 1 << (index % 8));
        if (*byte & bit != 0) == in_use {
            return None;
        }
        *byte ^= bit;
    }
    Some((AT_BITS + bytes.start, marked))
}

/// The first free page in `within`.
pub fn find_free(page: &[u8], within: Range<u64>) -> Option<u64> {
    let bits = &page[AT_BITS..AT_BITS + page.len() / 2];
    let mut index = within.start;
    while index < within.end.min(group_pages(page.len())) {
        let byte = !bits[index as usize / 8] >> (index % 8);
        if byte != 0 {
            let free = index + u64::from(byte.trailing_zeros());
            return Some(free).filter(|free| *free < within.end);
        }
        index = (index / 8 + 1) * 8;
    }
    None
}

/// The number of the group's pages in use.
pub fn count(page: &[u8]) -> u64 {
    page[AT_BITS..AT_BITS + page.len() / 2].iter().map(|byte| u64::from(byte.count_ones())).sum()
}
