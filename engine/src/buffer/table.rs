//! The page table: an entry per page of the tablespace, found by the page's number in two loads.
//!
//! Entries are in segments, which are created at the first access and never freed, so that a reference to an entry is
//! valid as long as the pool. The directory has its maximum size; its unused part is never touched, and so costs no
//! memory.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::latch::PageEntry;
use crate::page::PageNo;

const SEGMENT_PAGES: u64 = 4096;
/// 2^32 pages: 64 TiB of 16 KiB.
const SEGMENTS: u64 = if cfg!(miri) { 16 } else { 1 << 20 };

/// The page table of one tablespace.
pub(crate) struct PageTable {
    directory: Box<[AtomicPtr<PageEntry>]>,
}

fn segment_layout() -> Layout {
    Layout::array::<PageEntry>(SEGMENT_PAGES as usize).expect("a small constant")
}

impl PageTable {
    pub(crate) fn new() -> Self {
        let layout = Layout::array::<AtomicPtr<PageEntry>>(SEGMENTS as usize).expect("a small constant");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) }.cast::<AtomicPtr<PageEntry>>();
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        let directory = std::ptr::slice_from_raw_parts_mut(memory, SEGMENTS as usize);
        // SAFETY: allocated with the layout of this slice, and zeroes are null pointers.
        PageTable { directory: unsafe { Box::from_raw(directory) } }
    }

    /// The entry of a page; `None` if it was never created, or the number is out of range.
    #[inline]
    pub(crate) fn get(&self, page: PageNo) -> Option<&PageEntry> {
        let segment = self.directory.get((page.0 / SEGMENT_PAGES) as usize)?.load(Ordering::Acquire);
        if segment.is_null() {
            return None;
        }
        // SAFETY: a segment has `SEGMENT_PAGES` entries, and lives as long as the table.
        Some(unsafe { &*segment.add((page.0 % SEGMENT_PAGES) as usize) })
    }

    /// The entry of a page, created if necessary; `None` if the number is out of range.
    pub(crate) fn get_or_make(&self, page: PageNo) -> Option<&PageEntry> {
        let place = self.directory.get((page.0 / SEGMENT_PAGES) as usize)?;
        if place.load(Ordering::Acquire).is_null() {
            // SAFETY: the layout is not empty.
            let new = unsafe { alloc_zeroed(segment_layout()) }.cast::<PageEntry>();
            if new.is_null() {
                handle_alloc_error(segment_layout());
            }
            let null = std::ptr::null_mut();
            if place.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: allocated above with this layout, and not published.
                unsafe { dealloc(new.cast(), segment_layout()) };
            }
        }
        self.get(page)
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        for segment in &self.directory {
            let segment = segment.load(Ordering::Acquire);
            if !segment.is_null() {
                // SAFETY: allocated with this layout; the table has no users any more.
                unsafe { dealloc(segment.cast(), segment_layout()) };
            }
        }
    }
}
