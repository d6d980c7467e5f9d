//! Mini-transactions: changes of several pages that belong together, and their redo.
//!
//! Before its first latch, a mini-transaction reserves everything that it could otherwise wait for: space in the redo
//! log for the most that it can write, and a frame for the page that it creates (whose number the allocator has
//! assigned before). It returns what it does not use. No thread waits while it has one: on a miss the mini-transaction
//! is dropped and begun again, so frames held by waiting threads cannot starve a pool ([`BufferPool::change`]).
//!
//! Each change of a page goes through it ([`Mtr::apply`], [`Mtr::rewrite`]), which adds the record. The commit appends
//! all records to the log as one frame and gives the pages its LSN, before the caller unlatches them. So the log has
//! the changes of a page in the order in which they were made.

use std::sync::atomic::Ordering;

use super::guard::ExclusiveGuard;
use super::instance::Instance;
use super::{BufferPool, Stop};
use crate::error::Result;
use crate::metrics::WaitReason;
use crate::page::op::Op;
use crate::page::{Lsn, PageNo};
use crate::redo::Promise;
use crate::wait::Waiter;

/// Pages that a mini-transaction changes at most: a split of an inner node, or evening out two neighbours.
const PAGES_MAX: usize = 3;

/// What a mini-transaction may need.
pub(crate) struct Need {
    /// Bytes of its records, at most.
    redo_bytes: usize,
    /// The page that it makes.
    new: Option<PageNo>,
}

impl Need {
    /// Some small records.
    pub(crate) fn records(redo_bytes: usize) -> Self {
        Need { redo_bytes, new: None }
    }

    /// For rewriting nodes of a tree.
    pub(crate) fn nodes(page_bytes: usize) -> Self {
        Need { redo_bytes: redo_bytes_max(page_bytes), new: None }
    }

    /// And for making this page.
    pub(crate) fn making(self, new: PageNo) -> Self {
        Need { new: Some(new), ..self }
    }
}

/// The most that the records of one mini-transaction have.
pub(crate) fn redo_bytes_max(page_bytes: usize) -> usize {
    PAGES_MAX * Op::image_bytes_max(page_bytes)
}

/// A mini-transaction: changes that belong together, and their reservations.
pub(crate) struct Mtr<'p> {
    pool: &'p BufferPool,
    /// For the page that it makes.
    frame: Option<(PageNo, u32)>,
    /// `None` for unlogged changes.
    promise: Option<Promise<'p>>,
    records: Vec<u8>,
}

impl<'p> Mtr<'p> {
    /// Reserves `need`. May wait: the caller holds nothing.
    fn begin(pool: &'p BufferPool, need: &Need, waiter: &Waiter) -> Result<Self> {
        // First, since a thread that waits for log space must not hold frames. Cleaners, which free frames for waiting
        // threads, need no promise.
        let promise = pool.log.promise(need.redo_bytes, waiter)?;
        let mut mtr = Mtr::unlogged(pool, need.new, waiter)?;
        mtr.promise = Some(promise);
        mtr.records.reserve(need.redo_bytes.min(512));
        Ok(mtr)
    }

    /// For making a page without logging it. May wait: the caller holds nothing.
    fn unlogged(pool: &'p BufferPool, new: Option<PageNo>, waiter: &Waiter) -> Result<Self> {
        let frame = match new {
            Some(page) => Some((page, pool.take_frame(pool.instance_of(page), waiter)?)),
            None => None,
        };
        Ok(Mtr { pool, frame, promise: None, records: Vec::new() })
    }

    /// Latches a page that is not on disk yet, or no more. The caller rewrites it.
    pub(crate) fn create(&mut self, page: PageNo) -> std::result::Result<ExclusiveGuard<'p>, Stop> {
        let entry = self.pool.entry(page).map_err(Stop::fail)?;
        if let Some(seen) = entry.evictable() {
            return match entry.try_exclusive(seen, 0) {
                true => Ok(ExclusiveGuard::new(self.pool, entry, page)),
                false => Err(Stop::Latched(page)),
            };
        }
        if !entry.try_begin_load() {
            return Err(Stop::Latched(page));
        }
        let reserved = self.frame.take_if(|&mut (reserved, _)| reserved == page);
        let (_, frame) = reserved.expect("a frame was reserved for the page");
        self.pool.instance_of(page).set_page(frame, page);
        entry.end_load_created(frame);
        Ok(ExclusiveGuard::new(self.pool, entry, page))
    }

    /// Changes a page. That it fits was asked before.
    pub(crate) fn apply(&mut self, page: &mut ExclusiveGuard<'p>, op: &Op<'_>) {
        op.encode(page.page(), self.pool.page_size(), &mut self.records);
        op.apply(page.bytes_mut()).expect("it was asked before whether the change fits the page");
    }

    /// Changes a page in any way; the whole page is logged.
    pub(crate) fn rewrite<T>(&mut self, page: &mut ExclusiveGuard<'p>, f: impl FnOnce(&mut [u8]) -> T) -> T {
        let result = f(page.bytes_mut());
        Op::image(page.bytes()).encode(page.page(), self.pool.page_size(), &mut self.records);
        result
    }

    /// Voids the earlier log records of these pages, which [`BufferPool::make_unlogged`] then fills.
    pub(crate) fn void(&mut self, first: PageNo, pages: u16) {
        Op::Unlogged { pages }.encode(first, self.pool.page_size(), &mut self.records);
    }

    /// The changes are done: their pages may be unlatched now.
    pub(crate) fn commit(mut self, pages: &mut [&mut ExclusiveGuard<'p>]) {
        let promise = self.promise.take().expect("it is logged");
        let lsn = promise.append(&self.records);
        pages.iter_mut().for_each(|page| page.commit(lsn));
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        if let Some((page, frame)) = self.frame.take() {
            self.pool.instance_of(page).give_back(frame);
        }
    }
}

impl BufferPool {
    /// Makes attempts at a mini-transaction until one succeeds. An attempt that changes a page commits.
    pub(crate) fn change<'p, T>(
        &'p self,
        waiter: &Waiter,
        need: &Need,
        mut attempt: impl FnMut(Mtr<'p>) -> std::result::Result<T, Stop>,
    ) -> Result<T> {
        let mut attempts = 0;
        loop {
            match attempt(Mtr::begin(self, need, waiter)?) {
                Ok(value) => return Ok(value),
                Err(stop) => self.settle(stop, waiter, &mut attempts)?,
            }
        }
    }

    /// Creates a page without logging. References to it may be written only after the page was written and synced. Its
    /// LSN is `lsn`, not before its last log record; earlier records are void ([`Mtr::void`]) if the page may be torn.
    pub(crate) fn make_unlogged(
        &self,
        page: PageNo,
        lsn: Lsn,
        waiter: &Waiter,
        f: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        let mut attempts = 0;
        loop {
            let mut mtr = Mtr::unlogged(self, Some(page), waiter)?;
            match mtr.create(page) {
                Ok(mut guard) => {
                    f(guard.bytes_mut());
                    guard.commit(lsn);
                    return Ok(());
                }
                Err(stop) => {
                    drop(mtr);
                    self.settle(stop, waiter, &mut attempts)?;
                }
            }
        }
    }

    /// A frame of `instance`; waits for the cleaner to free one if need be.
    pub(super) fn take_frame(&self, instance: &Instance, waiter: &Waiter) -> Result<u32> {
        loop {
            if let Some(frame) = instance.try_take(&self.table) {
                return Ok(frame);
            }
            self.check_writable()?;
            instance.counts.free_frame_waits.fetch_add(1, Ordering::Relaxed);
            waiter.wait(WaitReason::FreeFrame, || instance.wait_for_frame());
        }
    }
}
