//! Page cleaners: they keep free frames in stock, so that user threads never write, and write pages that delay the
//! checkpoint.
//!
//! A [`Cleaner`] serves some of the pool's instances. [`Cleaner::step`] writes finished pages of a bulk load, so that
//! these can be evicted. It fills the stock of each instance: it evicts clean pages that were not used lately and
//! writes dirty ones. It also writes pages whose oldest change is more than [`FLUSH_AGE_SHARE`] of the log's capacity
//! old, pages that soon will be, and pages that a flush of the whole pool waits for. A cleaner has no thread;
//! [`BufferPool::start_background`] adds threads, a simulator calls it itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::BufferPool;
use super::batch::{BATCH_PAGES, Batch};
use super::flush_list::Due;
use super::instance::{Instance, Swept};
use crate::background::{Task, Wake};
use crate::page::{Lsn, PageNo};
use crate::wait::Waiter;

/// The interval of a cleaner's steps without a notification.
const ROUND: Duration = Duration::from_millis(50);
/// All frames that could be freed are in use.
const SOON: Duration = Duration::from_micros(200);
/// Changes further back than this share of the log's capacity are written to their pages.
const FLUSH_AGE_SHARE: f64 = 0.4;
/// Pages that are younger by this share of the capacity are written with the due ones. So batches are full, each of
/// which costs syncs, even if few pages become due at a time.
const FLUSH_AHEAD_SHARE: f64 = 1.0 / 32.0;

/// Keeps free frames in stock for some instances.
pub struct Cleaner {
    pool: Arc<BufferPool>,
    instances: Vec<usize>,
    batch: Vec<PageNo>,
    copies: Batch,
    waiter: Waiter,
}

impl Cleaner {
    /// Creates the `index`-th of `cleaners` that share the pool's instances.
    pub fn new(pool: &Arc<BufferPool>, index: usize, cleaners: usize) -> Self {
        Cleaner {
            pool: Arc::clone(pool),
            instances: (index..pool.instances.len()).step_by(cleaners.max(1)).collect(),
            batch: Vec::with_capacity(BATCH_PAGES),
            copies: Batch::new(pool.page_size()),
            waiter: Waiter::background().recording(&pool.waits),
        }
    }

    /// Refills the stock of each instance, and writes old changes, by at most one batch each.
    pub fn step(&mut self, now: Instant) -> Wake {
        let mut wake = Wake::At(now + ROUND);
        for index in 0..self.instances.len() {
            let pool = Arc::clone(&self.pool);
            let instance = &pool.instances[self.instances[index]];
            instance.wake_signal.clear();
            // All three each time: neither a long load nor a lack of frames must hold up the checkpoint. The pool keeps an
            // error.
            let finished = pool.write_finished(instance, &mut self.copies, &self.waiter).unwrap_or(false);
            let progress = self.refill(instance);
            if instance.free_frames() < instance.stock() {
                wake = match (progress, wake) {
                    (true, _) | (_, Wake::Now) => Wake::Now,
                    (false, _) if instance.waiting() > 0 => Wake::At(now + SOON),
                    (false, wake) => wake,
                };
            }
            if self.flush_old(instance) || finished {
                wake = Wake::Now;
            }
        }
        wake
    }

    /// One batch for one instance; whether a frame was freed.
    fn refill(&mut self, instance: &Instance) -> bool {
        let mut freed = 0;
        let wanted = instance.stock().saturating_sub(instance.free_frames());
        let writable = !self.pool.is_failed();
        self.batch.clear();
        for _ in 0..2 * instance.frames() {
            if freed + self.batch.len() as u32 >= wanted || self.batch.len() == BATCH_PAGES {
                break;
            }
            match instance.sweep(&self.pool.table) {
                Swept::Frame(frame) => {
                    instance.give_back(frame);
                    freed += 1;
                }
                Swept::Cold(page) if writable && !self.batch.contains(&page) => self.batch.push(page),
                Swept::Cold(_) | Swept::Nothing => {}
            }
        }
        self.batch.sort_unstable();
        // The pool keeps an error, and returns it to threads that need a frame.
        let written = match self.batch.is_empty() {
            true => 0,
            false => {
                self.pool.write_batch(instance, &self.batch, &mut self.copies, &self.waiter).unwrap_or(0)
            }
        };
        for &page in self.batch.iter().filter(|_| written > 0) {
            if let Some(frame) = instance.try_evict(&self.pool.table, page) {
                instance.give_back(frame);
                freed += 1;
            }
        }
        freed > 0
    }

    /// Writes a batch of the pages that hold up the checkpoint; whether there may be more.
    fn flush_old(&mut self, instance: &Instance) -> bool {
        let log = &self.pool.log;
        let before = |share| log.next().0.saturating_sub((log.capacity_bytes() as f64 * share) as u64);
        let asked_for = self.pool.flush_to.load(Ordering::Relaxed);
        let due = Due {
            due: Lsn(before(FLUSH_AGE_SHARE).max(asked_for)),
            limit: Lsn(before(FLUSH_AGE_SHARE - FLUSH_AHEAD_SHARE).max(asked_for)),
        };
        self.batch.clear();
        instance.flush_list.oldest_pages(&self.pool.table, due, BATCH_PAGES, &mut self.batch);
        if self.batch.is_empty() || self.pool.is_failed() {
            return false;
        }
        self.batch.sort_unstable();
        matches!(self.pool.write_batch(instance, &self.batch, &mut self.copies, &self.waiter), Ok(1..))
    }
}

impl Task for Cleaner {
    fn step(&mut self, now: Instant) -> Wake {
        Cleaner::step(self, now)
    }
}
