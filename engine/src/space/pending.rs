//! Pending pages: overflow pages that no entry refers to, while a large value is written or freed.
//!
//! # Protocol
//! A thread that writes or frees a large value owns one of the slots of the pending page. Pages are allocated into the
//! slot, in the mini-transaction that marks them as in use ([`PendingSlot::reserve`]). Each page that is written moves
//! from the slot's run to the head of its chain, in the mini-transaction that creates the page ([`PendingSlot::push`]).
//! The mini-transaction that changes the entry takes the new chain out of the slot and puts the old one in
//! ([`PendingSlot::put`]). The pages in the slot afterwards are freed, in mini-transactions that clear the pages' bits
//! and take them out of the slot ([`PendingSlot::free_all`]).
//!
//! So at any time each page is free, in a slot, or in use by an entry: a crash leaks none, and none is freed twice. The
//! slot's next user, or the next open, frees pages that an error or a crash left in a slot. If that fails because a
//! page is unreadable, the slot is set aside, and the user takes another.
//!
//! # Waiting
//! The number of slots is limited. A thread that finds none waits, with nothing latched, and releases its slot in
//! admission: the owners themselves wait for the disk or the log, and other sessions can run in that time. Owners wait
//! for no other slot, and for no row lock.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, MutexGuard};

use flifo_base::{lock, unpoison};

use super::{Noted, PageAllocator, Run};
use crate::buffer::{ExclusiveGuard, Mtr, Need, Stop};
use crate::error::{Error, Result};
use crate::metrics::WaitReason;
use crate::page::PageNo;
use crate::page::bitmap::{bitmap_of, group_pages, is_set};
use crate::page::op::Op;
use crate::page::overflow::{OverflowHeader, format_overflow, header_of};
use crate::page::pending::{self, PENDING_PAGE, PendingChain, SLOTS};
use crate::wait::Waiter;

/// Pages allocated, or freed, in one mini-transaction.
const RUN_PAGES: u64 = 64;

/// The slots without an owner.
pub(super) struct FreeSlots {
    slots: Mutex<Slots>,
    given_back: Condvar,
}

struct Slots {
    free: VecDeque<usize>,
    /// Slots whose pages could not be freed, twice: a read of one of the pages fails, perhaps forever. They are
    /// avoided, so that other threads do not fail as well, and used only when no other slot exists.
    set_aside: VecDeque<usize>,
}

impl Slots {
    fn take(&mut self) -> Option<usize> {
        match self.set_aside.len() {
            SLOTS => self.set_aside.pop_front(),
            _ => self.free.pop_front(),
        }
    }
}

impl Default for FreeSlots {
    fn default() -> Self {
        let slots = Slots { free: (0..SLOTS).collect(), set_aside: VecDeque::new() };
        FreeSlots { slots: Mutex::new(slots), given_back: Condvar::new() }
    }
}

impl FreeSlots {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        lock(&self.slots)
    }

    fn take(&self, waiter: &Waiter) -> usize {
        let try_take = || self.lock().take();
        try_take().unwrap_or_else(|| {
            waiter.wait(WaitReason::PendingSlot, || {
                let mut slots = self.lock();
                loop {
                    match slots.take() {
                        Some(number) => return number,
                        None => slots = unpoison(self.given_back.wait(slots)),
                    }
                }
            })
        })
    }

    fn give_back(&self, number: usize) {
        // At the end: a slot whose pages cannot be freed for now is retried last.
        self.lock().free.push_back(number);
        self.given_back.notify_one();
    }

    fn set_aside(&self, number: usize) {
        self.lock().set_aside.push_back(number);
        // If it was the last one, its pages are empty now.
        self.given_back.notify_one();
    }
}

/// A slot of the pending page, in the hands of one.
pub(crate) struct PendingSlot<'a> {
    alloc: &'a PageAllocator,
    number: usize,
    /// Its content, the same as on the page.
    chain: PendingChain,
    /// Its pages could not be freed.
    is_set_aside: bool,
}

/// Some pages of a chain in a row, and what follows them.
struct Stretch {
    run: Run,
    next: u64,
}

impl PageAllocator {
    /// An empty slot. May wait: the caller holds nothing.
    pub(crate) fn pending_slot(&self, waiter: &Waiter) -> Result<PendingSlot<'_>> {
        let mut set_aside = 0;
        loop {
            let mut slot = self.open_slot(self.slots.take(waiter), waiter)?;
            match slot.free_all(waiter) {
                Ok(()) => return Ok(slot),
                Err(error) if error.ends_all() => return Err(error),
                // What another has left there, and has had no error of.
                Err(error) => {
                    slot.is_set_aside = true;
                    set_aside += 1;
                    if set_aside == SLOTS {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Opens a slot with its content.
    fn open_slot(&self, number: usize, waiter: &Waiter) -> Result<PendingSlot<'_>> {
        let mut slot =
            PendingSlot { alloc: self, number, chain: PendingChain::default(), is_set_aside: false };
        slot.chain = self.pool.retry(waiter, || {
            Ok(PendingChain::read(self.pool.optimistic(PENDING_PAGE)?.shared()?.bytes(), number))
        })?;
        Ok(slot)
    }

    /// The slots that have something.
    fn slots_in_use(&self, waiter: &Waiter) -> Result<Vec<usize>> {
        self.pool.retry(waiter, || {
            let page = self.pool.optimistic(PENDING_PAGE)?.shared()?;
            let in_use = |&slot: &usize| !PendingChain::read(page.bytes(), slot).is_empty();
            Ok((0..SLOTS).filter(in_use).collect())
        })
    }

    /// Frees pages that a crash has left. Called when the database is opened, before any use. Pages that cannot be
    /// freed for now stay in their slot.
    pub(crate) fn free_pending(&self, waiter: &Waiter) -> Result<()> {
        let left = self.slots_in_use(waiter)?;
        for _ in 0..left.last().map_or(0, |last| last + 1) {
            let number = self.slots.take(waiter);
            match left.contains(&number) {
                true => self.open_slot(number, waiter)?.finish(waiter),
                false => self.slots.give_back(number),
            }
        }
        Ok(())
    }

    /// Empties the slots whose pages could not be freed; the pages leak. No thread uses a slot during the call or
    /// afterwards.
    pub(crate) fn abandon_pending(&self, waiter: &Waiter) -> Result<()> {
        self.slots_in_use(waiter)?.into_iter().try_for_each(|number| self.empty_slot(number, waiter))
    }

    fn empty_slot(&self, number: usize, waiter: &Waiter) -> Result<()> {
        self.pool.change(waiter, &Need::records(64), |mut mtr| {
            let mut page = self.pool.optimistic(PENDING_PAGE)?.exclusive()?;
            let nothing = PendingChain::default().encode();
            mtr.apply(&mut page, &Op::Write { at: pending::at(number), bytes: &nothing });
            mtr.commit(&mut [&mut page]);
            Ok(())
        })
    }

    /// A stamp that no other value has ([`first_stamp`](crate::page::overflow::first_stamp)).
    pub(crate) fn next_stamp(&self) -> u64 {
        self.next_stamp.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes the pending page of a new tablespace.
    pub(super) fn add_pending_page(&self, waiter: &Waiter) -> Result<()> {
        self.pool.change(waiter, &Need::nodes(self.pool.page_size()).making(PENDING_PAGE), |mut mtr| {
            let mut page = mtr.create(PENDING_PAGE)?;
            mtr.rewrite(&mut page, pending::format_pending);
            mtr.commit(&mut [&mut page]);
            Ok(())
        })
    }
}

impl<'a> PendingSlot<'a> {
    /// The chain's first page and its stamp.
    pub(crate) fn chain(&self) -> PendingChain {
        self.chain
    }

    /// The pending page, latched for [`PendingSlot::put`].
    pub(crate) fn latch(&self) -> std::result::Result<ExclusiveGuard<'a>, Stop> {
        self.alloc.pool.optimistic(PENDING_PAGE)?.exclusive()
    }

    /// Replaces the slot's content by `chain`, as a part of `mtr`. [`PendingSlot::has_now`] follows after the commit.
    pub(crate) fn put<'p>(&self, mtr: &mut Mtr<'p>, page: &mut ExclusiveGuard<'p>, chain: &PendingChain) {
        mtr.apply(page, &Op::Write { at: pending::at(self.number), bytes: &chain.encode() });
    }

    /// Records the committed content.
    pub(crate) fn has_now(&mut self, chain: PendingChain) {
        self.chain = chain;
    }

    /// Begins a chain whose pages have the stamp `stamp`.
    pub(crate) fn begin(&mut self, stamp: u64) {
        debug_assert!(self.chain.is_empty());
        self.chain = PendingChain { stamp, ..PendingChain::default() };
    }

    /// Allocates up to `pages` pages, at least one, if it has none left.
    pub(crate) fn reserve(&mut self, pages: u64, waiter: &Waiter) -> Result<()> {
        if self.chain.run_pages > 0 {
            return Ok(());
        }
        let noted = |run: Run| PendingChain { run: run.first.0, run_pages: run.pages, ..self.chain };
        let note = |run| Noted::Pending(self.number, noted(run));
        let run = self.alloc.find_run(None, pages.min(RUN_PAGES), waiter, &note)?;
        self.chain = noted(run);
        Ok(())
    }

    /// Makes an allocated page the first of the chain, with these bytes of the value.
    pub(crate) fn push(&mut self, owner: PageNo, index: u32, bytes: &[u8], waiter: &Waiter) -> Result<()> {
        let pool = &self.alloc.pool;
        // From the run's end, since a value is written from its end: then its pages lie in their order.
        let run_pages = self.chain.run_pages - 1;
        let no = PageNo(self.chain.run + run_pages);
        if no == PENDING_PAGE {
            let what = "it is in use, and its bitmap says that it is free".to_owned();
            return Err(Error::CorruptPage { page: no.0, what });
        }
        let header = OverflowHeader { owner, stamp: self.chain.stamp, next: PageNo(self.chain.head), index };
        let chain = PendingChain { head: no.0, run_pages, ..self.chain };
        pool.change(waiter, &Need::nodes(pool.page_size()).making(no), |mut mtr| {
            let mut noted = self.latch()?;
            let mut page = mtr.create(no)?;
            mtr.rewrite(&mut page, |page| format_overflow(page, no, &header, bytes));
            self.put(&mut mtr, &mut noted, &chain);
            mtr.commit(&mut [&mut page, &mut noted]);
            Ok(())
        })?;
        self.chain = chain;
        Ok(())
    }

    /// Frees all that the slot has.
    pub(crate) fn free_all(&mut self, waiter: &Waiter) -> Result<()> {
        if self.chain.run_pages > 0 {
            let run = Run { first: PageNo(self.chain.run), pages: self.chain.run_pages };
            self.free(run, PendingChain { run: 0, run_pages: 0, ..self.chain }, waiter)?;
        }
        while self.chain.head != 0 {
            match self.stretch(waiter) {
                Ok(Stretch { run, next }) => {
                    self.free(run, PendingChain { head: next, ..self.chain }, waiter)?
                }
                Err(Error::CorruptPage { .. }) => self.abandon(waiter)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// As [`PendingSlot::free_all`], after the operation has succeeded: pages that cannot be freed now are freed later.
    pub(crate) fn finish(mut self, waiter: &Waiter) {
        let _ = self.free_all(waiter);
    }

    fn free(&mut self, run: Run, chain: PendingChain, waiter: &Waiter) -> Result<()> {
        let no = bitmap_of(run.first, self.alloc.pool.page_size());
        let first = run.first.0 - (no.0 - 1);
        let pages = first..first.saturating_add(run.pages);
        // In each group its second page is the bitmap.
        let bitmap_index = 1;
        let in_use = |bitmap: &[u8]| {
            self.alloc.is_for_trees(run.first)
                && !pages.contains(&bitmap_index)
                && pages.end <= group_pages(self.alloc.pool.page_size())
                && pages.clone().all(|page| is_set(bitmap, page))
        };
        let which = |bitmap: &[u8]| Ok(in_use(bitmap).then(|| (pages.clone(), false)));
        let freed = self.alloc.change_bitmap(no, waiter, which, |_| Noted::Pending(self.number, chain))?;
        // Pages in a slot are in use: what says otherwise is damage.
        if freed.is_none() {
            return self.abandon(waiter);
        }
        self.chain = chain;
        Ok(())
    }

    /// The pages at the head of the chain that lie in a row.
    fn stretch(&self, waiter: &Waiter) -> Result<Stretch> {
        let first = PageNo(self.chain.head);
        let bitmap = bitmap_of(first, self.alloc.pool.page_size());
        let mut stretch = Stretch { run: Run { first, pages: 1 }, next: self.next_of(first, waiter)? };
        while stretch.run.pages < RUN_PAGES && stretch.next == first.0 + stretch.run.pages {
            let page = PageNo(stretch.next);
            if bitmap_of(page, self.alloc.pool.page_size()) != bitmap {
                break;
            }
            // Damage of the page is reported when it is the first.
            let Ok(next) = self.next_of(page, waiter) else { break };
            (stretch.run.pages, stretch.next) = (stretch.run.pages + 1, next);
        }
        Ok(stretch)
    }

    fn next_of(&self, page: PageNo, waiter: &Waiter) -> Result<u64> {
        let header = self.alloc.pool.retry(waiter, || {
            let guard = self.alloc.pool.optimistic(page)?;
            guard.checked(header_of(guard.node().0))
        })?;
        match header {
            Some(header) if header.stamp == self.chain.stamp => Ok(header.next.0),
            _ => Err(Error::CorruptPage { page: page.0, what: "it is not the value's".to_owned() }),
        }
    }

    /// The pages are corrupt and unknown: they leak.
    fn abandon(&mut self, waiter: &Waiter) -> Result<()> {
        self.alloc.empty_slot(self.number, waiter)?;
        self.chain = PendingChain::default();
        Ok(())
    }
}

impl Drop for PendingSlot<'_> {
    fn drop(&mut self) {
        match self.is_set_aside {
            true => self.alloc.slots.set_aside(self.number),
            false => self.alloc.slots.give_back(self.number),
        }
    }
}
