//! Free-space management of a tablespace: bitmap pages, one per group, inside the buffer pool.
//!
//! # Protocol
//! A page is allocated before the mini-transaction that uses it takes its first latch, and freed after it has released
//! its last. Each allocation and each free is a mini-transaction of its own on one bitmap page. So a crash in between
//! can only leak a page; recovery can free leaked pages by comparing the bitmaps with the pages that the trees reach.
//! The caller frees allocated pages that it does not use. A page that is created or removed together with a row that
//! refers to it is marked in that row's mini-transaction instead (`choose`, `mark`), so it cannot leak.
//!
//! # Neighbours
//! The caller names a page to be near to. It gets the first free page from there on, in this group or the next, or else
//! the first free one before. The space grows only when no page with room on disk is free. So a tree whose end advances
//! reuses the pages freed behind it, and a full disk is an error only if no page is free.
//! `PageAllocator::allocate_unlogged` allocates contiguous pages if possible, for bulk loads.

mod check;
mod pending;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) use check::Reached;
pub use check::SpaceStats;

use flifo_base::{lock, try_lock};

use crate::buffer::{BufferPool, ExclusiveGuard, Need, OptimisticGuard, Stop};
use crate::error::{Error, Result};
use crate::metrics::WaitReason;
use crate::page::bitmap::{self, bitmap_of, group_pages};
use crate::page::op::Op;
use crate::page::overflow::first_stamp;
use crate::page::pending::{self as pending_page, PENDING_PAGE, PendingChain};
use crate::page::{AT_KIND, KIND_BITMAP, PageNo};
use crate::wait::Waiter;
use pending::FreeSlots;
pub(crate) use pending::PendingSlot;

/// The tablespace grows by at least as many pages at a time.
const EXTENT_PAGES: u64 = 256;
/// The first bitmap was not looked at yet.
const UNKNOWN: u64 = u64::MAX;

/// Contiguous pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first page.
    pub first: PageNo,
    /// The number of pages.
    pub pages: u64,
}

/// What an allocation logs besides its bits, in the same mini-transaction.
enum Noted {
    Nothing,
    /// What a slot of the pending page has from now on.
    Pending(usize, PendingChain),
    /// Voids the earlier log records of these pages.
    Unlogged,
}

type Note<'n> = dyn Fn(Run) -> Noted + 'n;

/// Allocates and frees pages of one tablespace.
pub struct PageAllocator {
    pool: Arc<BufferPool>,
    /// Groups that have a bitmap, or `UNKNOWN`.
    groups: AtomicU64,
    /// No page before it is free, except pages whose bits are being cleared right now. Searches without a wish for a
    /// neighbour start here, and so do searches for freed pages before the space grows. Only a thread that has the
    /// group's bitmap latched lowers it, or raises it past pages of the group. So no page that a raise passes is freed
    /// at the same time; the compare-and-swap detects a free in an earlier group.
    cursor: AtomicU64,
    /// One thread at a time makes a group, which it does once a GiB. No latch, so it is held while waiting.
    adding: Mutex<()>,
    /// Slots of the pending page.
    slots: FreeSlots,
    /// The stamp of the next large value.
    next_stamp: AtomicU64,
}

impl PageAllocator {
    /// Initializes a new, empty tablespace: creates its first bitmap (page 1; page 0 is never used) and the pending
    /// page (page 2).
    pub fn create(pool: &Arc<BufferPool>, waiter: &Waiter) -> Result<Arc<PageAllocator>> {
        let alloc = PageAllocator::with_groups(pool, 0);
        alloc.add_group(0, waiter)?;
        alloc.add_pending_page(waiter)?;
        Ok(Arc::new(alloc))
    }

    /// Opens a tablespace that has a bitmap.
    pub fn open(pool: &Arc<BufferPool>) -> Arc<PageAllocator> {
        Arc::new(PageAllocator::with_groups(pool, UNKNOWN))
    }

    fn with_groups(pool: &Arc<BufferPool>, groups: u64) -> PageAllocator {
        PageAllocator {
            pool: Arc::clone(pool),
            groups: AtomicU64::new(groups),
            cursor: AtomicU64::new(2),
            adding: Mutex::default(),
            slots: FreeSlots::default(),
            next_stamp: AtomicU64::new(first_stamp(pool.space().epoch())),
        }
    }

    /// Groups that have a bitmap; the first bitmap has their number.
    fn groups(&self, waiter: &Waiter) -> Result<u64> {
        match self.groups.load(Ordering::Acquire) {
            UNKNOWN => {
                let groups = self.pool.retry(waiter, || {
                    Ok(bitmap::groups(checked(
                        PageNo(1),
                        self.pool.optimistic(PageNo(1))?.shared()?.bytes(),
                    )?))
                })?;
                let raced =
                    self.groups.compare_exchange(UNKNOWN, groups, Ordering::AcqRel, Ordering::Acquire);
                Ok(raced.map_or_else(|now| now, |_| groups))
            }
            groups => Ok(groups),
        }
    }

    /// Makes room on disk for pages `0..pages`, or, on a disk that is nearly full, for `0..least`.
    fn grow(&self, least: u64, pages: u64, waiter: &Waiter) -> Result<()> {
        let space = self.pool.space();
        if least <= space.pages() {
            return Ok(());
        }
        let grown = |pages: u64| waiter.wait(WaitReason::DiskWrite, || space.grow(pages));
        match grown(pages.next_multiple_of(EXTENT_PAGES)) {
            Err(Error::DiskFull { .. }) => grown(least),
            other => other,
        }
    }

    /// Allocates a page, near `near` if possible.
    pub fn allocate(&self, near: Option<PageNo>, waiter: &Waiter) -> Result<PageNo> {
        self.find_run(near, 1, waiter, &|_| Noted::Nothing).map(|run| run.first)
    }

    /// Allocates up to `pages` contiguous pages, at least one, to be filled by [`BufferPool::make_unlogged`]: their
    /// earlier log records are void.
    pub(crate) fn allocate_unlogged(&self, near: Option<PageNo>, pages: u64, waiter: &Waiter) -> Result<Run> {
        self.find_run(near, pages.min(u16::MAX.into()), waiter, &|_| Noted::Unlogged)
    }

    /// Allocates up to `pages` pages in a row, at least one.
    fn find_run(&self, near: Option<PageNo>, pages: u64, waiter: &Waiter, note: &Note<'_>) -> Result<Run> {
        self.find(near, pages, waiter, |group, within| self.take_in(group, within, pages, waiter, note))
    }

    /// What `find` finds first among the pages with room on disk, from `near` on and then before it: it is given a group, and
    /// where in it to look. If that is nothing, the space grows by `pages`, or at least by one.
    fn find<T>(
        &self,
        near: Option<PageNo>,
        pages: u64,
        waiter: &Waiter,
        find: impl Fn(u64, Range<u64>) -> Result<Option<T>>,
    ) -> Result<T> {
        let cursor = || self.cursor.load(Ordering::Relaxed);
        let mut from = cursor().max(near.map_or(0, |page| page.0));
        let mut again = false;
        loop {
            let room = self.pool.space().pages();
            if let Some(found) = self.find_among(from..room, waiter, &find)? {
                return Ok(found);
            }
            if let Some(found) = self.find_among(cursor()..from.min(room), waiter, &find)? {
                return Ok(found);
            }
            match self.grow(room + 1, room + pages, waiter) {
                // Some may have been freed where it had been looked for already.
                Err(Error::DiskFull { .. }) if !again && cursor() < room => (from, again) = (cursor(), true),
                grown => {
                    grown?;
                    from = room;
                }
            }
        }
    }

    fn find_among<T>(
        &self,
        pages: Range<u64>,
        waiter: &Waiter,
        find: impl Fn(u64, Range<u64>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let (group_pages, mut from) = (group_pages(self.pool.page_size()), pages.start);
        while from < pages.end {
            let group = from / group_pages;
            let base = group * group_pages;
            let end = pages.end.min(base + group_pages);
            for missing in self.groups(waiter)?..=group {
                self.add_group(missing, waiter)?;
            }
            let found = find(group, from - base..end - base)?;
            if found.is_some() {
                return Ok(found);
            }
            from = end;
        }
        Ok(None)
    }

    /// A free page with space on disk. It stays free until it is marked ([`Self::mark`]), so another thread may take it
    /// first.
    pub(crate) fn choose(&self, waiter: &Waiter) -> Result<PageNo> {
        self.find(None, 1, waiter, |group, within| {
            let base = group * group_pages(self.pool.page_size());
            let free = self.pool.retry(waiter, || {
                let bitmap = self.pool.optimistic(PageNo(base + 1))?.shared()?;
                Ok(bitmap::find_free(bitmap.bytes(), within.clone()))
            })?;
            Ok(free.map(|free| PageNo(base + free)))
        })
    }

    /// The bitmap that has the page's bit.
    pub(crate) fn bitmap(&self, page: PageNo) -> std::result::Result<OptimisticGuard<'_>, Stop> {
        self.pool.optimistic(bitmap_of(page, self.pool.page_size()))
    }

    /// Whether two pages have their bits in the same bitmap.
    pub(crate) fn have_one_bitmap(&self, a: PageNo, b: PageNo) -> bool {
        bitmap_of(a, self.pool.page_size()) == bitmap_of(b, self.pool.page_size())
    }

    /// Whether a page can be in use by a tree: some never are.
    pub(crate) fn is_for_trees(&self, page: PageNo) -> bool {
        page > PENDING_PAGE && page != bitmap_of(page, self.pool.page_size())
    }

    /// The bytes of a bitmap with some of its pages marked as in use, or as free, and their offset, for the
    /// mini-transaction that uses them, or does not any more; `None` if one of them is so already.
    pub(crate) fn mark(
        &self,
        bitmap: &ExclusiveGuard<'_>,
        pages: &[PageNo],
        in_use: bool,
    ) -> Option<(usize, Vec<u8>)> {
        let index = |page: &PageNo| page.0 + 1 - bitmap.page().0;
        let (first, last) = (pages.iter().map(index).min()?, pages.iter().map(index).max()?);
        if !in_use {
            self.lower_cursor(PageNo(bitmap.page().0 - 1 + first));
        }
        bitmap::marked_bytes(bitmap.bytes(), first..last + 1, pages.iter().map(index), in_use)
    }

    /// Pages from `page` on were freed, or are about to be. The caller has their bitmap latched.
    fn lower_cursor(&self, page: PageNo) {
        self.cursor.fetch_min(page.0, Ordering::Relaxed);
    }

    /// Raises the cursor to a page. No page of this bitmap, which the caller has latched, is free before it.
    fn raise_cursor(&self, bitmap: &ExclusiveGuard<'_>) {
        let (base, group_pages) = (bitmap.page().0 - 1, group_pages(self.pool.page_size()));
        let now = self.cursor.load(Ordering::Relaxed);
        if (base..base + group_pages).contains(&now) {
            let free = bitmap::find_free(bitmap.bytes(), now - base..group_pages);
            let next = base + free.unwrap_or(group_pages);
            // If another thread has lowered it, the lower value stays.
            let _ = self.cursor.compare_exchange(now, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Takes free pages in a row from one group.
    fn take_in(
        &self,
        group: u64,
        within: Range<u64>,
        pages: u64,
        waiter: &Waiter,
        note: &Note<'_>,
    ) -> Result<Option<Run>> {
        let base = group * group_pages(self.pool.page_size());
        let which = |bitmap: &[u8]| {
            let Some(first) = bitmap::find_free(bitmap, within.clone()) else { return Ok(None) };
            let end = (first + pages).min(within.end);
            let end = (first..end).find(|&page| bitmap::is_set(bitmap, page)).unwrap_or(end);
            Ok(Some((first..end, true)))
        };
        self.change_bitmap(PageNo(base + 1), waiter, which, note)
    }

    /// Sets or clears the bits that `which` says, and notes what `note` says; gives which.
    fn change_bitmap(
        &self,
        no: PageNo,
        waiter: &Waiter,
        which: impl Fn(&[u8]) -> Result<Option<(Range<u64>, bool)>>,
        note: impl Fn(Run) -> Noted,
    ) -> Result<Option<Run>> {
        self.pool.change(waiter, &Need::nodes(self.pool.page_size()), |mut mtr| {
            let mut bitmap = self.pool.optimistic(no)?.exclusive()?;
            let Some((pages, in_use)) = which(checked(no, bitmap.bytes())?).map_err(Stop::fail)? else {
                self.raise_cursor(&bitmap);
                return Ok(None);
            };
            let (at, bytes) = bitmap::changed_bytes(bitmap.bytes(), pages.clone(), in_use);
            let run = Run { first: PageNo(no.0 - 1 + pages.start), pages: pages.end - pages.start };
            let noted = note(run);
            let mut pending = match noted {
                Noted::Pending(..) => Some(self.pool.optimistic(PENDING_PAGE)?.exclusive()?),
                Noted::Nothing | Noted::Unlogged => None,
            };
            // From here on nothing fails.
            mtr.apply(&mut bitmap, &Op::Write { at, bytes: &bytes });
            match (noted, &mut pending) {
                (Noted::Pending(slot, chain), Some(page)) => {
                    mtr.apply(page, &Op::Write { at: pending_page::at(slot), bytes: &chain.encode() });
                    mtr.commit(&mut [&mut bitmap, page]);
                }
                (Noted::Unlogged, _) => {
                    mtr.void(run.first, run.pages as u16);
                    mtr.commit(&mut [&mut bitmap]);
                }
                (Noted::Nothing | Noted::Pending(..), _) => mtr.commit(&mut [&mut bitmap]),
            }
            match in_use {
                true => self.raise_cursor(&bitmap),
                false => self.lower_cursor(run.first),
            }
            Ok(Some(run))
        })
    }

    /// Frees a page that is no longer referred to.
    pub fn free(&self, page: PageNo, waiter: &Waiter) -> Result<()> {
        self.free_run(Run { first: page, pages: 1 }, waiter)
    }

    /// Frees pages of one group that are no longer referred to.
    pub fn free_run(&self, run: Run, waiter: &Waiter) -> Result<()> {
        let no = bitmap_of(run.first, self.pool.page_size());
        let first = run.first.0 + 1 - no.0;
        let which = |bitmap: &[u8]| {
            let pages = first..first + run.pages;
            match pages.clone().find(|&page| !bitmap::is_set(bitmap, page)) {
                None => Ok(Some((pages, false))),
                Some(page) => {
                    let what = "it was in use, and its bitmap says that it is free".to_owned();
                    Err(Error::CorruptPage { page: no.0 - 1 + page, what })
                }
            }
        };
        self.change_bitmap(no, waiter, which, |_| Noted::Nothing).map(drop)
    }

    /// Pages in use, including bitmaps and page 0.
    pub fn used_pages(&self, waiter: &Waiter) -> Result<u64> {
        let group_pages = group_pages(self.pool.page_size());
        (0..self.groups(waiter)?)
            .map(|group| {
                let no = PageNo(group * group_pages + 1);
                self.pool.retry(waiter, || {
                    Ok(bitmap::count(checked(no, self.pool.optimistic(no)?.shared()?.bytes())?))
                })
            })
            .sum()
    }

    /// Pages in use, without bitmaps, page 0 and the pending page.
    pub fn used_tree_pages(&self, waiter: &Waiter) -> Result<u64> {
        Ok(self.used_pages(waiter)? - self.groups(waiter)? - 2)
    }

    /// Makes the bitmap of the next group, unless another thread was faster.
    fn add_group(&self, group: u64, waiter: &Waiter) -> Result<()> {
        let no = PageNo(group * group_pages(self.pool.page_size()) + 1);
        // The thread that holds it waits for the disk.
        let _alone = try_lock(&self.adding)
            .unwrap_or_else(|| waiter.wait(WaitReason::DiskWrite, || lock(&self.adding)));
        if self.groups.load(Ordering::Acquire) > group {
            return Ok(());
        }
        self.grow(no.0 + 1, no.0 + 1, waiter)?;
        self.pool.change(waiter, &Need::nodes(self.pool.page_size()).making(no), |mut mtr| {
            let mut page = mtr.create(no)?;
            mtr.rewrite(&mut page, |page| bitmap::format_bitmap(page, no));
            mtr.commit(&mut [&mut page]);
            Ok(())
        })?;
        self.pool.change(waiter, &Need::nodes(self.pool.page_size()), |mut mtr| {
            let mut first = self.pool.optimistic(PageNo(1))?.exclusive()?;
            let groups = bitmap::groups(checked(PageNo(1), first.bytes())?).max(group + 1);
            mtr.apply(&mut first, &Op::Write { at: bitmap::AT_GROUPS, bytes: &groups.to_le_bytes() });
            mtr.commit(&mut [&mut first]);
            Ok(())
        })?;
        self.groups.store(group + 1, Ordering::Release);
        Ok(())
    }
}

/// The page, if it is a bitmap.
fn checked(no: PageNo, page: &[u8]) -> std::result::Result<&[u8], Stop> {
    match page[AT_KIND] {
        KIND_BITMAP => Ok(page),
        _ => {
            let what = "it is not a bitmap, and a bitmap belongs there".to_owned();
            Err(Stop::fail(Error::CorruptPage { page: no.0, what }))
        }
    }
}

#[cfg(test)]
mod tests;
