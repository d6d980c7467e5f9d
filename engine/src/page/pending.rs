//! The pending page: overflow pages that no entry refers to, since their value is being written or freed.
//!
//! ```text
//! offset size
//!     32   32  0
//!     64   32 * 120  slots:
//!           8  the first page of a chain of overflow pages; 0 for none
//!           8  their stamp
//!           8  the first of some pages in a row that were allocated for it; 0 for none
//!           8  how many they are
//! ```
//! The slot's next user frees its pages, or the next open of the database, if the pages are readable.

use super::{KIND_PENDING, PageNo, format, read_u64, write_u64};

/// The pending page's number: the first page that is neither page 0 nor a bitmap.
pub(crate) const PENDING_PAGE: PageNo = PageNo(2);
/// Slots of the page.
pub(crate) const SLOTS: usize = 120;
const SLOT_BYTES: usize = 32;
const AT_SLOTS: usize = 64;

/// What a slot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PendingChain {
    /// The first page of the chain; 0 for none.
    pub(crate) head: u64,
    /// The stamp of all its pages.
    pub(crate) stamp: u64,
    /// The first page of the run.
    pub(crate) run: u64,
    /// Its pages.
    pub(crate) run_pages: u64,
}

impl PendingChain {
    pub(crate) fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        for (index, field) in [self.head, self.stamp, self.run, self.run_pages].into_iter().enumerate() {
            write_u64(&mut bytes, 8 * index, field);
        }
        bytes
    }

    /// What slot `slot` of the page has.
    pub(crate) fn read(page: &[u8], slot: usize) -> PendingChain {
        let field = |index: usize| read_u64(page, at(slot) + 8 * index);
        PendingChain { head: field(0), stamp: field(1), run: field(2), run_pages: field(3) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == 0 && self.run_pages == 0
    }
}

/// Where a slot lies.
pub(crate) fn at(slot: usize) -> usize {
    AT_SLOTS + slot * SLOT_BYTES
}

/// Makes `page` the pending page, with nothing in it.
pub(crate) fn format_pending(page: &mut [u8]) {
    format(page, PENDING_PAGE, KIND_PENDING, PageNo(0));
}
