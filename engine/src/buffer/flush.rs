//! Writing pages to disk, in batches, by copy.
//!
//! For each page of a batch, the flush tries for the shared latch, copies the page, and releases the latch. Then it
//! makes the log durable up to the newest page (write-ahead), and writes the copies to the doublewrite area and
//! afterwards, in parallel where the system allows it, to their locations. A page is clean from its copy on. A change
//! during the write makes it dirty again, and it stays in memory until its write has ended. A batch locks a doublewrite
//! area for its time, so at most as many batches are in progress as there are instances. Pages of a bulk load go directly to their locations
//! (`unlogged.rs`).
//!
//! A failed write makes its pages dirty again and ends all writing of the pool: the error is kept.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::Instant;

use flifo_base::{CacheAligned, lock, try_lock};

use super::BufferPool;
use super::batch::{BATCH_PAGES, Batch};
use super::doublewrite::Doublewrite;
use super::flush_list::{Due, Which};
use super::flushing::Cause;
use super::instance::Instance;
use super::latch::{DIRTY, EXCLUSIVE, PageEntry, VERSION, WRITING};
use crate::disk::AlignedBuffer;
use crate::error::{Error, Result};
use crate::metrics::WaitReason;
use crate::page::{Lsn, PageNo, lsn, seal, verify};
use crate::redo::Durability;
use crate::wait::Waiter;

/// The pages of a batch, whose writes are in progress until this is dropped.
pub(super) struct PendingWrites<'p> {
    pool: &'p BufferPool,
    instance: &'p Instance,
    entries: Vec<&'p PageEntry>,
    /// The least LSN of its pages, and the greatest.
    oldest: Lsn,
    newest: Lsn,
    written: bool,
}

impl Drop for PendingWrites<'_> {
    fn drop(&mut self) {
        if !self.written && !self.entries.is_empty() {
            self.entries.iter().for_each(|entry| self.instance.flush_list.reenter(entry));
            self.pool.stop("a page could not be written".to_owned());
        }
        self.entries.iter().for_each(|entry| entry.end_write(!self.written));
    }
}

impl PendingWrites<'_> {
    pub(super) fn oldest(&self) -> Lsn {
        self.oldest
    }

    pub(super) fn newest(&self) -> Lsn {
        self.newest
    }

    /// Makes durable what the log has of the pages, then has their copies written by `f`; how many.
    pub(super) fn write(mut self, waiter: &Waiter, f: impl FnOnce() -> Result<()>) -> Result<usize> {
        let count = self.entries.len();
        if count > 0 {
            let pool = self.pool;
            let durable = pool.log.make_durable(self.newest, Durability::Synced, waiter);
            let written = durable.and_then(|()| waiter.wait(WaitReason::DiskWrite, f));
            written.map_err(|error| pool.fail(error))?;
            self.instance.counts.writes.fetch_add(count as u64, Ordering::Relaxed);
        }
        self.written = true;
        Ok(count)
    }
}

impl BufferPool {
    /// Writes every page that is dirty now, then syncs the tablespace. Pages that change during the call may or may not
    /// be written. Fails if any write failed before, since the state on disk is unknown then.
    pub fn flush_all(&self, waiter: &Waiter) -> Result<()> {
        let limit = Lsn(self.log.next().0 + 1);
        // Running cleaners do a part of the work, with syncs parallel to this thread's.
        self.flushing.request(limit);
        self.wake_cleaners(u64::MAX);
        // By turns, a batch of each: a sync of the data files, which an instance needs at every other batch, then
        // serves them all.
        let mut unfinished: Vec<&Instance> = self.instances.iter().map(|instance| &**instance).collect();
        let mut batch = Batch::new(self.page_size());
        while !unfinished.is_empty() {
            let mut again = Vec::new();
            for instance in unfinished {
                if self.flush_batch(instance, limit, &mut batch, waiter)? {
                    again.push(instance);
                }
            }
            unfinished = again;
        }
        self.check_failed()?;
        waiter.wait(WaitReason::DiskSync, || self.space().sync()).map_err(|error| self.fail(error))
    }

    /// Writes a batch of the pages of an instance that became dirty before `limit`; whether there may be more.
    fn flush_batch(
        &self,
        instance: &Instance,
        limit: Lsn,
        batch: &mut Batch,
        waiter: &Waiter,
    ) -> Result<bool> {
        let mut pages = Vec::with_capacity(BATCH_PAGES);
        let due = Due { due: limit, limit };
        instance.flush_list.oldest_pages(&self.table, due, Which::All, BATCH_PAGES, &mut pages);
        let Some(&first) = pages.first() else { return Ok(false) };
        pages.sort_unstable();
        if self.write_batch(instance, &pages, Cause::Request, batch, waiter)? == 0 {
            // Latched, or being written by another thread.
            let entry = self.entry(first)?;
            entry.wait_while(waiter, WaitReason::DiskWrite, |state| state & WRITING != 0);
            entry.wait_while(waiter, WaitReason::PageLatch, |state| state & EXCLUSIVE != 0);
        }
        Ok(true)
    }

    /// Writes those of `pages`, all of one instance, that are dirty and neither latched nor being written; returns
    /// their number.
    pub(super) fn write_batch(
        &self,
        instance: &Instance,
        pages: &[PageNo],
        cause: Cause,
        batch: &mut Batch,
        waiter: &Waiter,
    ) -> Result<usize> {
        let mut doublewrite = self.lock_doublewrite(instance, waiter)?;
        let pending = self.begin_write(instance, pages.iter().copied(), batch)?;
        self.flushing.begin_batch(cause, pending.entries.len());
        let begun = Instant::now();
        let written = pending.write(waiter, || self.write_twice(&mut doublewrite, batch))?;
        if written > 0 {
            self.flushing.end_batch(begun.elapsed());
        }
        Ok(written)
    }

    /// A doublewrite area for a batch: the instance's own, or another that is free. So several threads can write pages
    /// of one instance.
    pub(super) fn lock_doublewrite<'i>(
        &'i self,
        instance: &'i Instance,
        waiter: &Waiter,
    ) -> Result<MutexGuard<'i, Doublewrite>> {
        self.check_failed()?;
        let free = || self.instances.iter().find_map(|other| try_lock(&other.doublewrite));
        let doublewrite = try_lock(&instance.doublewrite)
            .or_else(free)
            .unwrap_or_else(|| waiter.wait(WaitReason::DiskWrite, || lock(&instance.doublewrite)));
        // Checked again: if the previous batch failed, its copies here are the only ones of a page that it has torn.
        self.check_failed().map(|()| doublewrite)
    }

    /// Fills `batch` with copies of those of `pages` that are dirty and neither latched nor being written.
    pub(super) fn begin_write<'p>(
        &'p self,
        instance: &'p Instance,
        pages: impl Iterator<Item = PageNo>,
        batch: &mut Batch,
    ) -> Result<PendingWrites<'p>> {
        batch.clear();
        let (oldest, newest) = (Lsn(u64::MAX), Lsn(0));
        let mut pending =
            PendingWrites { pool: self, instance, entries: Vec::new(), oldest, newest, written: false };
        for page in pages.take(BATCH_PAGES) {
            let entry = self.entry(page)?;
            if entry.try_begin_write() {
                instance.flush_list.leave(entry);
                pending.entries.push(entry);
                let lsn = self.copy_page(entry, batch.push(page));
                (pending.oldest, pending.newest) = (pending.oldest.min(lsn), pending.newest.max(lsn));
            }
        }
        // Checked again: a change that a panic interrupted stops the pool before it releases its page, and may have
        // done so just before the page was copied.
        self.check_failed().map(|()| pending)
    }

    /// Copies a page that [`PageEntry::try_begin_write`] has latched, unlatches it, and seals the copy; its LSN.
    fn copy_page(&self, entry: &PageEntry, copy: &mut [u8]) -> Lsn {
        let (from, bytes) = self.bytes_of(entry);
        // SAFETY: the shared latch holds the frame still; a buffer is no frame.
        unsafe { std::ptr::copy_nonoverlapping(from, copy[..bytes].as_mut_ptr(), bytes) };
        entry.release_shared();
        seal(copy);
        lsn(copy)
    }

    pub(super) fn write_twice(&self, doublewrite: &mut Doublewrite, batch: &mut Batch) -> Result<()> {
        doublewrite.write(self.space(), batch)?;
        batch.write_in_place(self.space())?;
        doublewrite.end(self.space());
        Ok(())
    }

    /// Makes the place where recovery begins as late as the dirty pages allow; gives it.
    pub(crate) fn checkpoint(&self) -> Result<Lsn> {
        self.check_failed()?;
        let lsn = self.oldest_change();
        if lsn > self.log.checkpoint() {
            self.log.make_checkpoint(lsn, false).map_err(|error| self.fail(error))?;
        }
        Ok(lsn)
    }

    /// All changes before it are in pages that were written (and may not be synced yet).
    pub(super) fn oldest_change(&self) -> Lsn {
        // Changes that are not replayed yet are in no page and in no list.
        let replayed_from = self.replayed_from.load(Ordering::Acquire);
        if replayed_from != 0 {
            return Lsn(replayed_from);
        }
        // Before the lists are read: see the flush list's invariant.
        let end = self.log.next();
        let oldest = |instance: &CacheAligned<Instance>| instance.flush_list.oldest(&self.table);
        self.instances.iter().filter_map(oldest).fold(end, Lsn::min)
    }

    /// Notes that the page, whose exclusive latch the caller holds, is about to be changed.
    pub(super) fn note_dirty(&self, entry: &PageEntry, page: PageNo) {
        let instance = self.instance_of(page);
        let end = || match Lsn(self.replayed_from.load(Ordering::Acquire)) {
            Lsn(0) => self.log.next(),
            from => from,
        };
        instance.flush_list.enter(entry, page, end);
    }

    /// Reads a page into `buf` and verifies it, for a check. If the page is in memory, its image on disk is verified,
    /// too; otherwise it is read from disk, and the pool stays unchanged. No thread changes the page during the call.
    pub(crate) fn read_to_check(&self, page: PageNo, buf: &mut AlignedBuffer, waiter: &Waiter) -> Result<()> {
        if self.table.get(page).is_some_and(|entry| entry.is_resident()) {
            self.verify_on_disk(page, buf, waiter)?;
            return self.retry(waiter, || {
                buf.bytes_mut().copy_from_slice(self.optimistic(page)?.shared()?.bytes());
                Ok(())
            });
        }
        waiter.wait(WaitReason::DiskRead, || self.space().read(page.0, buf.bytes_mut()))?;
        verify(buf.bytes(), page)?;
        self.check_age(buf.bytes(), page)
    }

    /// Reads a clean page's image from disk and verifies it; a page that is dirty or written is not looked at.
    fn verify_on_disk(&self, page: PageNo, buf: &mut AlignedBuffer, waiter: &Waiter) -> Result<()> {
        let entry = self.entry(page)?;
        let writes =
            || (entry.state.load(Ordering::Acquire) & (VERSION | DIRTY | WRITING), self.stats().writes);
        let before = writes();
        if before.0 & (DIRTY | WRITING) != 0 {
            return Ok(());
        }
        waiter.wait(WaitReason::DiskRead, || self.space().read(page.0, buf.bytes_mut()))?;
        match verify(buf.bytes(), page) {
            // It may have been written while it was read.
            Err(_) if writes() != before => Ok(()),
            result => result,
        }
    }

    /// Keeps the first write error: from now on nothing is written.
    pub(super) fn fail(&self, error: Error) -> Error {
        self.stop(error.to_string());
        error
    }

    /// From now on nothing is written, neither pages nor redo.
    pub(crate) fn stop(&self, what: String) {
        self.log.stop(what.clone());
        let _ = self.failed.set(what);
    }

    pub(super) fn check_failed(&self) -> Result<()> {
        match self.failed.get() {
            Some(what) => Err(Error::Stopped { what: what.clone() }),
            None => Ok(()),
        }
    }
}
