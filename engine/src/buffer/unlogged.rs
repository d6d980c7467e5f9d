//! Writing the pages of a bulk load: they are not logged, and nothing refers to them before all are on disk.
//!
//! They are written once, without the doublewrite area. If a crash tears one, the load has not ended, nothing refers to
//! the page, and the log records of its earlier use are void (`Mtr::void`), so recovery does not read it.
//!
//! # Invariant
//! A dirty page whose LSN is neither before the end of the log at its allocation, nor after the end of the log when the
//! load finished it, was created by the load and is unchanged since. The load has not ended, since it ends with the
//! page written and synced ([`BufferPool::flush_unlogged`]). Writing it needs the log up to its LSN, which includes the
//! allocation. A page with a lower LSN has the content of an earlier use, and the allocation may not be durable: after
//! a crash the page has that use still. A page with a higher LSN was changed later, and may belong to another object by
//! now. Both are written twice like all others.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::BufferPool;
use super::batch::{BATCH_PAGES, Batch};
use super::instance::Instance;
use super::latch::{DIRTY, EXCLUSIVE, WRITING};
use crate::disk::Tablespace;
use crate::error::Result;
use crate::metrics::WaitReason;
use crate::page::{Lsn, PageNo};
use crate::wait::Waiter;

/// Pages in a row that a load made.
#[derive(Debug, Clone)]
pub(crate) struct LoadedRun {
    pub(crate) pages: Range<u64>,
    /// The end of the log when they had been allocated.
    pub(crate) since: Lsn,
}

/// Pages that a load is done with, some of one stripe.
pub(super) struct Finished {
    made: LoadedRun,
    /// The end of the log then.
    until: Lsn,
}

impl BufferPool {
    /// Has the cleaners write pages of one stripe that a load is done with.
    pub(crate) fn write_soon(&self, made: LoadedRun) {
        if !made.pages.is_empty() {
            let instance = self.instance_of(PageNo(made.pages.start));
            instance.finished().push_back(Finished { made, until: self.log.next() });
            instance.wake_signal.raise();
        }
    }

    /// Returns when all of these pages, which a load created, are written and durable.
    pub(crate) fn flush_unlogged(
        &self,
        runs: impl Iterator<Item = LoadedRun> + Clone,
        waiter: &Waiter,
    ) -> Result<()> {
        let mut batch = Batch::new(self.page_size());
        let until = self.log.next();
        let pieces = runs.flat_map(pieces);
        // The cleaners write, too: this thread first writes pages that they have not begun, then the rest.
        for made in pieces.clone() {
            self.write_unlogged(made, until, &mut batch, waiter)?;
        }
        for made in pieces {
            while let Some(page) = self.first_in(made.pages.clone(), DIRTY | WRITING)? {
                let entry = self.entry(page)?;
                entry.wait_while(waiter, WaitReason::DiskWrite, |state| state & WRITING != 0);
                entry.wait_while(waiter, WaitReason::PageLatch, |state| state & EXCLUSIVE != 0);
                self.write_unlogged(made.clone(), until, &mut batch, waiter)?;
            }
        }
        self.check_failed()?;
        waiter.wait(WaitReason::DiskSync, || self.space().sync()).map_err(|error| self.fail(error))
    }

    /// The first of these pages whose state has one of `flags`.
    fn first_in(&self, mut pages: Range<u64>, flags: u64) -> Result<Option<PageNo>> {
        pages
            .find_map(|page| match self.entry(PageNo(page)) {
                Ok(entry) => (entry.state.load(Ordering::Acquire) & flags != 0).then_some(Ok(PageNo(page))),
                Err(error) => Some(Err(error)),
            })
            .transpose()
    }

    /// Writes a batch of the pages of an instance that loads are done with; whether there were any.
    pub(super) fn write_finished(
        &self,
        instance: &Instance,
        batch: &mut Batch,
        waiter: &Waiter,
    ) -> Result<bool> {
        let (piece, until) = {
            let mut queue = instance.finished();
            let Some(Finished { made: LoadedRun { pages, since }, until }) = queue.front_mut() else {
                return Ok(false);
            };
            let piece = pages.start..pages.end.min(pages.start + BATCH_PAGES as u64);
            pages.start = piece.end;
            let (piece, until) = (LoadedRun { pages: piece, since: *since }, *until);
            if pages.is_empty() {
                queue.pop_front();
            }
            (piece, until)
        };
        self.write_unlogged(piece, until, batch, waiter).map(|()| true)
    }

    /// Writes those of the pages, at most a batch of one stripe, that are dirty and neither latched nor being written.
    fn write_unlogged(
        &self,
        LoadedRun { pages, since }: LoadedRun,
        until: Lsn,
        batch: &mut Batch,
        waiter: &Waiter,
    ) -> Result<()> {
        self.check_failed()?;
        let instance = self.instance_of(PageNo(pages.start));
        let pending = self.begin_write(instance, pages.map(PageNo), batch)?;
        if since <= pending.oldest() && pending.newest() <= until {
            pending.write(waiter, || batch.write_in_place(self.space()))?;
        } else {
            let mut doublewrite = self.lock_doublewrite(instance, waiter)?;
            pending.write(waiter, || self.write_twice(&mut doublewrite, batch))?;
        }
        Ok(())
    }
}

/// Pieces of a batch at most, each of one stripe.
fn pieces(LoadedRun { pages: run, since }: LoadedRun) -> impl Iterator<Item = LoadedRun> + Clone {
    let mut from = run.start;
    std::iter::from_fn(move || {
        let stripe_end = (from / Tablespace::STRIPE_PAGES + 1) * Tablespace::STRIPE_PAGES;
        let piece = from..run.end.min(stripe_end).min(from + BATCH_PAGES as u64);
        from = piece.end;
        (!piece.is_empty()).then_some(LoadedRun { pages: piece, since })
    })
}
