//! Values over a quarter of a page: their first bytes and a pointer are in the leaf, the rest in overflow pages.
//!
//! # Writing
//! The pages are written first, each in a mini-transaction of its own, and belong to a slot of the pending page until
//! the entry refers to them ([`crate::space`]). One mini-transaction then writes the entry and moves the pages of the
//! previous value into the slot; then these are freed. So a crash leaves the previous value or the new one, complete,
//! and the next open frees the pages of the other.
//!
//! # Reading
//! A reader takes the pointer from the leaf, and copies page after page with nothing held. The pages of a value never
//! change, they are only freed, and have a stamp of their own. If all pages have the stamp, they form the value as of
//! the read of the pointer. If a page lacks it, the entry is read again: it has another value or none, or, with the
//! same pointer, the page is corrupt. Each retry reads the newest value, so a reader can starve if the value is always
//! replaced faster than it can be read.

use super::Tree;
use crate::error::{Error, Result};
use crate::page::node::{LARGE_BYTES, LARGE_PREFIX_BYTES, entry_bytes_max};
use crate::page::overflow::{Pointer, append_bytes, bytes_per_page, header_of};
use crate::page::{PageNo, Torn};
use crate::space::PendingSlot;
use crate::wait::Waiter;

/// Maximum bytes of a value: 256 MiB. A value is in memory as a whole when it is read or written, several times in a
/// transaction; a mini-transaction logs at most one page of it.
pub const VALUE_BYTES_MAX: usize = 256 << 20;

/// Pages after which a writer looks whether the redo log is nearly full.
const PAGES_PER_CHECK: usize = 16;

/// A value that is being read: its pointer, and the last error of its pages.
#[derive(Default)]
pub(super) struct Suspect(Option<(Pointer, Error)>);

impl Tree {
    /// Checks that a row of this size is allowed.
    pub(crate) fn check_size(&self, key: usize, value: usize) -> Result<()> {
        if value > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLarge { size: value, max: VALUE_BYTES_MAX });
        }
        let max = entry_bytes_max(self.pool.page_size()) - value.min(LARGE_BYTES);
        if key > max { Err(Error::KeyTooLarge { size: key, max }) } else { Ok(()) }
    }

    /// Whether the value of such a row goes to overflow pages.
    pub(super) fn is_large(&self, key: usize, value: usize) -> bool {
        key + value > entry_bytes_max(self.pool.page_size())
    }

    /// Writes a value's pages, which belong to the slot; returns the part for the leaf.
    pub(super) fn write_large(
        &self,
        waiter: &Waiter,
        slot: &mut PendingSlot<'_>,
        value: &[u8],
    ) -> Result<[u8; LARGE_BYTES]> {
        let (prefix, rest) = value.split_at(LARGE_PREFIX_BYTES);
        let stamp = self.alloc.next_stamp();
        slot.begin(stamp);
        let pieces = rest.chunks(bytes_per_page(self.pool.page_size()));
        for (index, piece) in pieces.enumerate().rev() {
            if index % PAGES_PER_CHECK == 0 {
                self.pool.admit_change(true, waiter);
            }
            slot.reserve(index as u64 + 1, waiter)?;
            slot.push(self.root, index as u32, piece, waiter)?;
        }
        let first = PageNo(slot.chain().head);
        Ok(Pointer { first, stamp, len: value.len() as u64 }.entry(prefix))
    }

    /// Replaces `out`, the leaf's part of a large value, by the value; false if it is gone, so that the entry must be
    /// read again.
    pub(super) fn read_large(
        &self,
        waiter: &Waiter,
        suspect: &mut Suspect,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let corrupt = |_| self.corrupt(self.root, "a large value's entry has not the length of one");
        let pointer = Pointer::of_entry(out).map_err(corrupt)?;
        out.truncate(LARGE_PREFIX_BYTES);
        if let Some((before, error)) = suspect.0.take()
            && before == pointer
        {
            return Err(error);
        }
        match self.read_pages(waiter, &pointer, out, |_| Ok(())) {
            Ok(()) => Ok(true),
            Err(error) => {
                suspect.0 = Some((pointer, error));
                Ok(false)
            }
        }
    }

    /// Appends the content of the pages to `out`; calls `each` with their numbers before they are read.
    pub(super) fn read_pages(
        &self,
        waiter: &Waiter,
        pointer: &Pointer,
        out: &mut Vec<u8>,
        mut each: impl FnMut(PageNo) -> Result<()>,
    ) -> Result<()> {
        if pointer.len > VALUE_BYTES_MAX as u64 {
            return Err(self.corrupt(pointer.first, "a value refers to it that is too large to be one"));
        }
        let whole = pointer.len as usize;
        out.reserve(whole.saturating_sub(out.len()));
        let (mut page, mut index) = (pointer.first, 0);
        while out.len() < whole {
            each(page)?;
            let before = out.len();
            let expected = (whole - before).min(bytes_per_page(self.pool.page_size()));
            let header = self.pool.retry(waiter, || {
                out.truncate(before);
                let guard = self.pool.optimistic(page)?;
                let bytes = guard.node().0;
                let read = header_of(bytes).and_then(|header| match header {
                    Some(header) => append_bytes(bytes, out).map(|()| Some(header)),
                    None => Ok(None),
                });
                guard.checked(read)
            })?;
            let fits = header.filter(|header| {
                (header.owner, header.stamp, header.index) == (self.root, pointer.stamp, index)
            });
            match fits {
                Some(header) if out.len() - before == expected => page = header.next,
                _ => return Err(self.corrupt(page, "it is not the value's that refers to it")),
            }
            index += 1;
        }
        if page == PageNo(0) { Ok(()) } else { Err(self.corrupt(page, "it follows the end of a value")) }
    }

    fn corrupt(&self, page: PageNo, what: &str) -> Error {
        Error::CorruptPage { page: page.0, what: what.to_owned() }
    }
}

/// Decodes the pointer to the pages of a large value from the leaf's part.
pub(super) fn pointer_of(entry: &[u8]) -> std::result::Result<Pointer, Torn> {
    Pointer::of_entry(entry)
}
