//! Writing pages to disk.

use std::sync::atomic::Ordering;

use super::BufferPool;
use super::frames::PageBuffer;
use super::latch::{DIRTY, EXCLUSIVE, VERSION, WRITING};
use crate::error::{Error, Result};
use crate::metrics::WaitReason;
use crate::page::{PageNo, seal, verify};
use crate::wait::Waiter;

impl BufferPool {
    /// Writes every page that is dirty now, then syncs the tablespace. Pages that are changed meanwhile may be
    /// written or not. Fails if any write failed before: then what is on disk cannot be trusted any more.
    pub fn flush_all(&self, waiter: &Waiter) -> Result<()> {
        let mut buffer = PageBuffer::new(self.page_size());
        let mut dirty = Vec::new();
        for instance in &self.instances {
            dirty.extend((0..instance.frames()).filter_map(|frame| instance.page(frame)));
        }
        dirty.retain(|&page| {
            let entry = self.table.get(page);
            entry.is_some_and(|entry| entry.state.load(Ordering::Acquire) & (DIRTY | WRITING) != 0)
        });
        dirty.sort_unstable();
        for page in dirty {
            self.flush(page, buffer.bytes(), waiter)?;
        }
        self.check_failed()?;
        waiter.wait(WaitReason::DiskSync, || self.space().sync()).map_err(|error| self.fail(error))
    }

    fn flush(&self, page: PageNo, buf: &mut [u8], waiter: &Waiter) -> Result<()> {
        let entry = self.entry(page)?;
        loop {
            self.check_failed()?;
            entry.wait_while(waiter, WaitReason::DiskWrite, |state| state & WRITING != 0);
            if entry.state.load(Ordering::Acquire) & DIRTY == 0 {
                return Ok(());
            }
            entry.wait_while(waiter, WaitReason::PageLatch, |state| state & EXCLUSIVE != 0);
            if self.write_back(page, buf, waiter)? {
                return Ok(());
            }
        }
    }

    /// Writes a dirty page by copy; false if it is not dirty, latched, or being written.
    pub(super) fn write_back(&self, page: PageNo, buf: &mut [u8], waiter: &Waiter) -> Result<bool> {
        self.check_failed()?;
        let entry = self.entry(page)?;
        if !entry.try_begin_write() {
            return Ok(false);
        }
        let instance = self.instance_of(page);
        instance.count_dirty(-1);
        let (from, bytes) = self.bytes_of(entry);
        // SAFETY: the shared latch holds the frame still; a buffer is no frame.
        unsafe { std::ptr::copy_nonoverlapping(from, buf[..bytes].as_mut_ptr(), bytes) };
        entry.release_shared();
        seal(buf);
        let written = waiter.wait(WaitReason::DiskWrite, || self.space().write(page.0, buf));
        if written.is_err() {
            instance.count_dirty(1);
        }
        let written = written.map_err(|error| self.fail(error));
        entry.end_write(written.is_err());
        instance.counts.writes.fetch_add(u64::from(written.is_ok()), Ordering::Relaxed);
        written.map(|()| true)
    }

    /// Reads a clean page's image from disk and verifies it; a page that is dirty or written is not looked at.
    pub(crate) fn verify_on_disk(&self, page: PageNo, buf: &mut [u8], waiter: &Waiter) -> Result<()> {
        let entry = self.entry(page)?;
        let writes =
            || (entry.state.load(Ordering::Acquire) & (VERSION | DIRTY | WRITING), self.stats().writes);
        let before = writes();
        if before.0 & (DIRTY | WRITING) != 0 {
            return Ok(());
        }
        waiter.wait(WaitReason::DiskRead, || self.space().read(page.0, buf))?;
        match verify(buf, page) {
            // It may have been written while it was read.
            Err(_) if writes() != before => Ok(()),
            result => result,
        }
    }

    /// Keeps the first write error: from now on nothing is written.
    fn fail(&self, error: Error) -> Error {
        let _ = self.failed.set(error.to_string());
        error
    }

    fn check_failed(&self) -> Result<()> {
        match self.failed.get() {
            Some(what) => Err(Error::Stopped { what: what.clone() }),
            None => Ok(()),
        }
    }
}
