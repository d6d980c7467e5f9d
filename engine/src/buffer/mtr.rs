//! Mini-transactions: changes of some pages that belong together.
//!
//! Before its first latch a mini-transaction has all that it could otherwise have to wait for: frames for the pages
//! that it makes (their numbers come from the allocator, also before). What it does not use is given back.
//! Nothing waits while it exists: on a miss it is dropped, so frames held by waiting threads cannot starve
//! a pool, and begun again.
//!
//! Redo joins here: `begin` will reserve log space, `commit` append the records of the changed pages and give
//! them the LSN, before the caller unlatches.

use super::guard::ExclusiveGuard;
use super::{BufferPool, Stop};
use crate::error::Result;
use crate::metrics::WaitReason;
use crate::page::{Lsn, PageNo};
use crate::wait::Waiter;

/// Changes that belong together, and what they need.
pub(crate) struct Mtr<'p> {
    pool: &'p BufferPool,
    frames: Vec<(PageNo, u32)>,
}

impl<'p> Mtr<'p> {
    /// Reserves frames for the pages `new`. May wait: the caller holds nothing.
    pub(crate) fn begin(pool: &'p BufferPool, new: &[PageNo], waiter: &Waiter) -> Result<Self> {
        let mut mtr = Mtr { pool, frames: Vec::new() };
        while mtr.frames.len() < new.len() {
            let page = new[mtr.frames.len()];
            let instance = pool.instance_of(page);
            match instance.try_take(&pool.table) {
                Some(frame) => mtr.frames.push((page, frame)),
                None => {
                    mtr.give_back();
                    pool.wait_for_frame(instance, waiter)?;
                }
            }
        }
        Ok(mtr)
    }

    /// For changes that make no page.
    pub(crate) fn in_place(pool: &'p BufferPool) -> Self {
        Mtr { pool, frames: Vec::new() }
    }

    /// Latches a page that is not on disk yet, or no more. The caller formats it.
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
        let place = self.frames.iter().position(|&(reserved, _)| reserved == page);
        let (_, frame) = self.frames.swap_remove(place.expect("a frame was reserved for the page"));
        self.pool.instance_of(page).set_page(frame, page);
        entry.end_load_created(frame);
        Ok(ExclusiveGuard::new(self.pool, entry, page))
    }

    /// The changes are done: their pages may be unlatched now.
    pub(crate) fn commit(self, pages: &mut [&mut ExclusiveGuard<'p>]) {
        for page in pages {
            page.commit(Lsn(0));
        }
    }

    fn give_back(&mut self) {
        for (page, frame) in self.frames.drain(..) {
            self.pool.instance_of(page).give_back(frame);
        }
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl BufferPool {
    /// Waits until the cleaner may have freed a frame of `instance`.
    pub(super) fn wait_for_frame(&self, instance: &super::instance::Instance, waiter: &Waiter) -> Result<()> {
        self.check_writable()?;
        instance.counts.free_frame_waits.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        waiter.wait(WaitReason::FreeFrame, || instance.wait_for_frame());
        Ok(())
    }
}
