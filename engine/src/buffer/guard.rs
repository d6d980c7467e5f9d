//! Page guards: optimistic (no latch held), shared, exclusive.

use std::cell::Cell;

use super::latch::PageEntry;
use super::optimistic::Racy;
use super::{BufferPool, Stop};
use crate::page::node::Node;
use crate::page::{Lsn, PageNo, Torn, set_lsn};

/// A page and its version, to return to later: the page is unchanged as long as its version is.
#[derive(Clone, Copy)]
pub(crate) struct PageVersion {
    pub(super) page: PageNo,
    pub(super) seen: u64,
}

/// A page that is read without a latch: reads count only if [`OptimisticGuard::validate`] succeeds.
#[derive(Clone, Copy)]
pub(crate) struct OptimisticGuard<'p> {
    pub(super) pool: &'p BufferPool,
    pub(super) entry: &'p PageEntry,
    pub(super) seen: u64,
    pub(super) page: PageNo,
    pub(super) racy: Racy<'p>,
}

impl<'p> OptimisticGuard<'p> {
    /// The page's number.
    pub(crate) fn page(&self) -> PageNo {
        self.page
    }

    /// The page as it was when its version was read.
    #[inline]
    pub(crate) fn page_version(&self) -> PageVersion {
        PageVersion { page: self.page, seen: self.seen }
    }

    /// The page as a tree node, bytes not to be trusted.
    #[inline]
    pub(crate) fn node(&self) -> Node<Racy<'p>> {
        Node(self.racy)
    }

    /// Prefetches cache lines.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize, len: usize) {
        self.racy.prefetch(at, len);
    }

    /// Whether all that was read until now belongs together.
    #[inline]
    pub(crate) fn validate(&self) -> Result<(), Stop> {
        match self.entry.unchanged(self.seen) {
            true => Ok(()),
            false => Err(Stop::Changed),
        }
    }

    /// What a read gave, validated. Nonsense in a page that did not change is a corrupt page.
    #[inline]
    pub(crate) fn checked<T>(&self, read: Result<T, Torn>) -> Result<T, Stop> {
        self.validate()?;
        read.map_err(|Torn| Stop::corrupt(self.page))
    }

    /// What a read gave, not validated: a later validation is due before it has any effect.
    #[inline]
    pub(crate) fn unchecked<T>(&self, read: Result<T, Torn>) -> Result<T, Stop> {
        match read {
            Ok(value) => Ok(value),
            Err(Torn) => self.checked(Err(Torn)),
        }
    }

    /// Latches the page exclusively if it did not change.
    pub(crate) fn exclusive(self) -> Result<ExclusiveGuard<'p>, Stop> {
        match self.entry.try_exclusive(self.seen, 0) {
            true => Ok(ExclusiveGuard::new(self.pool, self.entry, self.page)),
            false => Err(self.refused()),
        }
    }

    /// Latches the page shared if it did not change.
    pub(crate) fn shared(self) -> Result<SharedGuard<'p>, Stop> {
        match self.entry.try_shared(self.seen) {
            true => Ok(SharedGuard { entry: self.entry, bytes: self.pool.bytes_of(self.entry) }),
            false => Err(self.refused()),
        }
    }

    fn refused(&self) -> Stop {
        match self.entry.unchanged(self.seen) {
            true => Stop::Latched(self.page),
            false => Stop::Changed,
        }
    }
}

/// A page held still, together with other readers.
pub(crate) struct SharedGuard<'p> {
    entry: &'p PageEntry,
    bytes: (*mut u8, usize),
}

impl SharedGuard<'_> {
    /// The page.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the frame belongs to the page while the latch is held, and has no writer.
        unsafe { std::slice::from_raw_parts(self.bytes.0, self.bytes.1) }
    }

    /// The page as a tree node.
    pub(crate) fn node(&self) -> Node<&[u8]> {
        Node(self.bytes())
    }
}

impl Drop for SharedGuard<'_> {
    fn drop(&mut self) {
        self.entry.release_shared();
    }
}

/// A page held alone.
pub(crate) struct ExclusiveGuard<'p> {
    pool: &'p BufferPool,
    entry: &'p PageEntry,
    page: PageNo,
    bytes: (*mut u8, usize),
    changed: Cell<bool>,
    committed: bool,
}

impl<'p> ExclusiveGuard<'p> {
    /// A guard for a page whose exclusive latch the caller has just acquired.
    pub(super) fn new(pool: &'p BufferPool, entry: &'p PageEntry, page: PageNo) -> Self {
        let bytes = pool.bytes_of(entry);
        ExclusiveGuard { pool, entry, page, bytes, changed: Cell::new(false), committed: false }
    }

    /// The page's number.
    pub(crate) fn page(&self) -> PageNo {
        self.page
    }

    /// The page.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the frame is this guard's alone; the borrow excludes `bytes_mut`.
        unsafe { std::slice::from_raw_parts(self.bytes.0, self.bytes.1) }
    }

    /// The page as a tree node.
    pub(crate) fn node(&self) -> Node<&[u8]> {
        Node(self.bytes())
    }

    /// The page as it is left to others, once this guard is dropped.
    pub(crate) fn page_version_after(&self) -> PageVersion {
        PageVersion { page: self.page, seen: self.entry.seen_after(self.changed.get()) }
    }

    /// What a read of the page gave: it is held still, so nonsense is a corrupt page.
    pub(crate) fn checked<T>(&self, read: Result<T, Torn>) -> Result<T, Stop> {
        read.map_err(|Torn| Stop::corrupt(self.page))
    }

    /// The page to change; it is dirty from here on. A commit must follow.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.committed = false;
        if !self.changed.replace(true) {
            self.pool.note_dirty(self.entry, self.page);
        }
        // SAFETY: the frame is this guard's alone; the borrow excludes all others.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.0, self.bytes.1) }
    }

    /// The mini-transaction's end: the page bears its LSN.
    pub(super) fn commit(&mut self, lsn: Lsn) {
        if self.changed.get() {
            set_lsn(self.bytes_mut(), lsn);
            self.committed = true;
        }
    }
}

impl Drop for ExclusiveGuard<'_> {
    fn drop(&mut self) {
        if self.changed.get() && !self.committed {
            // Half a mini-transaction must not reach the disk, where no redo would complete it.
            self.pool.stop(format!("a change of page {} ended half-way", self.page.0));
            debug_assert!(std::thread::panicking(), "page {} was changed and not committed", self.page.0);
        }
        self.entry.release_exclusive(self.changed.get());
    }
}
