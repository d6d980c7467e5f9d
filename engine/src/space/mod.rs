//! Which pages of a tablespace are in use: bitmap pages, one per group, inside the buffer pool.
//!
//! # Protocol
//! A page is allocated before the mini-transaction that uses it takes its first latch, and freed after it has let go
//! of its last. Each is a mini-transaction of its own on one bitmap page. So a crash in between can only leave a
//! page allocated that nothing uses; recovery, when it comes, can free such pages by what the trees reach.
//! What was allocated and not used is to be freed by the caller. What comes and goes with a row that tells of it is
//! marked in that row's mini-transaction instead (`choose`, `mark`), and never in doubt.
//!
//! # Neighbours
//! The caller says near which page it wants one; the first free page from there on is taken, in this group or the
//! next. `PageAllocator::allocate_unlogged` gives pages in a row where there are such, for bulk loads.

mod check;
mod pending;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use check::Reached;
pub use check::SpaceStats;

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

/// Pages in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub first: PageNo,
    /// How many.
    pub pages: u64,
}

/// What an allocation logs besides its bits, in the same mini-transaction.
enum Noted {
    Nothing,
    /// What a slot of the pending page has from now on.
    Pending(usize, PendingChain),
    /// What was logged of these pages is void.
    Unlogged,
}

type Note<'n> = dyn Fn(Run) -> Noted + 'n;

/// Allocates and frees pages of one tablespace.
pub struct PageAllocator {
    pool: Arc<BufferPool>,
    /// Groups that have a bitmap, or `UNKNOWN`.
    groups: AtomicU64,
    /// There is room on disk for these, as far as is known.
    grown_pages: AtomicU64,
    /// Where pages that shall be near to no other are looked for.
    cursor: AtomicU64,
    /// One thread at a time makes a group, which it does once a GiB. No latch, so it is held while waiting.
    adding: Mutex<()>,
    /// Slots of the pending page.
    slots: FreeSlots,
    /// The stamp of the next large value.
    next_stamp: AtomicU64,
}

impl PageAllocator {
    /// For a new, empty tablespace: makes its first bitmap (page 1; page 0 is never used), and the pending page
    /// (page 2).
    pub fn create(pool: &Arc<BufferPool>, waiter: &Waiter) -> Result<Arc<PageAllocator>> {
        let alloc = PageAllocator::with_groups(pool, 0);
        alloc.add_group(0, waiter)?;
        alloc.add_pending_page(waiter)?;
        Ok(Arc::new(alloc))
    }

    /// For a tablespace that has one.
    pub fn open(pool: &Arc<BufferPool>) -> Arc<PageAllocator> {
        Arc::new(PageAllocator::with_groups(pool, UNKNOWN))
    }

    fn with_groups(pool: &Arc<BufferPool>, groups: u64) -> PageAllocator {
        PageAllocator {
            pool: Arc::clone(pool),
            groups: AtomicU64::new(groups),
            grown_pages: AtomicU64::new(0),
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

    fn grow(&self, pages: u64, waiter: &Waiter) -> Result<()> {
        if pages > self.grown_pages.load(Ordering::Acquire) {
            let pages = pages.next_multiple_of(EXTENT_PAGES);
            waiter.wait(WaitReason::DiskWrite, || self.pool.space().grow(pages))?;
            self.grown_pages.fetch_max(pages, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Allocates a page, near `near` if that is possible.
    pub fn allocate(&self, near: Option<PageNo>, waiter: &Waiter) -> Result<PageNo> {
        let run = self.find_run(near, 1, waiter, &|_| Noted::Nothing)?;
        self.grow_for(run, waiter).map(|()| run.first)
    }

    /// Allocates up to `pages` pages in a row, at least one, to be filled by [`BufferPool::make_unlogged`]: what was logged
    /// of them is void.
    pub(crate) fn allocate_unlogged(&self, near: Option<PageNo>, pages: u64, waiter: &Waiter) -> Result<Run> {
        let run = self.find_run(near, pages.min(u16::MAX.into()), waiter, &|_| Noted::Unlogged)?;
        self.grow_for(run, waiter).map(|()| run)
    }

    /// Allocates up to `pages` pages in a row, at least one, without room on disk for them.
    fn find_run(&self, near: Option<PageNo>, pages: u64, waiter: &Waiter, note: &Note<'_>) -> Result<Run> {
        let from = near.map_or(self.cursor.load(Ordering::Relaxed), |page| page.0);
        let take = |group, within| self.take_in(group, within, pages, waiter, note);
        let run = self.first_group(from, waiter, take)?;
        if near.is_none() {
            self.cursor.store(run.first.0 + run.pages, Ordering::Relaxed);
        }
        Ok(run)
    }

    /// What `find` finds in the first group that has it, from page `from` on: it is given the group, and where in it to
    /// begin. If none has, a group is added.
    fn first_group<T>(
        &self,
        from: u64,
        waiter: &Waiter,
        find: impl Fn(u64, u64) -> Result<Option<T>>,
    ) -> Result<T> {
        let group_pages = group_pages(self.pool.page_size());
        let (mut group, mut within, mut wrapped) = (from / group_pages, from % group_pages, false);
        loop {
            if group >= self.groups(waiter)? {
                // Before the space grows, the pages before `from` that were freed.
                if !wrapped {
                    (group, within, wrapped) = (0, 0, true);
                    continue;
                }
                self.add_group(group, waiter)?;
            }
            if let Some(found) = find(group, within)? {
                return Ok(found);
            }
            (group, within) = (group + 1, 0);
        }
    }

    /// Room on disk for what was just allocated.
    fn grow_for(&self, run: Run, waiter: &Waiter) -> Result<()> {
        self.grow(run.first.0 + run.pages, waiter).or_else(|error| {
            self.free_run(run, waiter)?;
            Err(error)
        })
    }

    /// A page that is free, and for which there is room on disk. It stays free until it is marked ([`Self::mark`]), so
    /// another may be faster.
    pub(crate) fn choose(&self, waiter: &Waiter) -> Result<PageNo> {
        let page = self.first_group(self.cursor.load(Ordering::Relaxed), waiter, |group, within| {
            let base = group * group_pages(self.pool.page_size());
            let free = self.pool.retry(waiter, || {
                Ok(bitmap::find_free(self.pool.optimistic(PageNo(base + 1))?.shared()?.bytes(), within))
            })?;
            Ok(free.map(|free| base + free))
        })?;
        self.grow(page + 1, waiter)?;
        Ok(PageNo(page))
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
            self.cursor.fetch_min(bitmap.page().0 - 1 + first, Ordering::Relaxed);
        }
        bitmap::marked_bytes(bitmap.bytes(), first..last + 1, pages.iter().map(index), in_use)
    }

    /// Takes free pages in a row from one group.
    fn take_in(
        &self,
        group: u64,
        from: u64,
        pages: u64,
        waiter: &Waiter,
        note: &Note<'_>,
    ) -> Result<Option<Run>> {
        let base = group * group_pages(self.pool.page_size());
        let which = |bitmap: &[u8]| {
            let Some(first) = bitmap::find_free(bitmap, from) else { return Ok(None) };
            let end = (first + pages).min(group_pages(self.pool.page_size()));
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
                return Ok(None);
            };
            let (at, bytes) = bitmap::changed_bytes(bitmap.bytes(), pages.clone(), in_use);
            let run = Run { first: PageNo(no.0 - 1 + pages.start), pages: pages.end - pages.start };
            let noted = note(run);
            let Noted::Pending(slot, chain) = noted else {
                mtr.apply(&mut bitmap, &Op::Write { at, bytes: &bytes });
                if let Noted::Unlogged = noted {
                    mtr.void(run.first, run.pages as u16);
                }
                mtr.commit(&mut [&mut bitmap]);
                return Ok(Some(run));
            };
            let mut pending = self.pool.optimistic(PENDING_PAGE)?.exclusive()?;
            mtr.apply(&mut bitmap, &Op::Write { at, bytes: &bytes });
            mtr.apply(&mut pending, &Op::Write { at: pending_page::at(slot), bytes: &chain.encode() });
            mtr.commit(&mut [&mut bitmap, &mut pending]);
            Ok(Some(run))
        })
    }

    /// Frees a page that nothing refers to any more.
    pub fn free(&self, page: PageNo, waiter: &Waiter) -> Result<()> {
        self.free_run(Run { first: page, pages: 1 }, waiter)
    }

    /// Frees pages of one group that nothing refers to any more.
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
        self.change_bitmap(no, waiter, which, |_| Noted::Nothing)?;
        self.cursor.fetch_min(run.first.0, Ordering::Relaxed);
        Ok(())
    }

    /// Pages in use, bitmaps and page 0 among them.
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

    /// The same without bitmaps, page 0 and the pending page.
    pub fn used_tree_pages(&self, waiter: &Waiter) -> Result<u64> {
        Ok(self.used_pages(waiter)? - self.groups(waiter)? - 2)
    }

    /// Makes the bitmap of the next group, unless another thread was faster.
    fn add_group(&self, group: u64, waiter: &Waiter) -> Result<()> {
        let no = PageNo(group * group_pages(self.pool.page_size()) + 1);
        let _alone = self.adding.lock().unwrap_or_else(PoisonError::into_inner);
        if self.groups.load(Ordering::Acquire) > group {
            return Ok(());
        }
        self.grow(no.0 + 1, waiter)?;
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
