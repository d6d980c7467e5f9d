//! Page cleaners: they keep free frames in stock, so that user threads never write, and write pages that delay the
//! checkpoint.
//!
//! Every [`Cleaner`] works for every instance of the pool. [`Cleaner::step`] looks at each instance that no other
//! cleaner serves: it writes finished pages of a bulk load, so that these can be evicted, and fills the stock. It evicts
//! clean pages that were not used lately and writes dirty ones.
//!
//! Between two instances, and as long as there are such pages, it writes the oldest pages of the whole pool, wherever
//! they are: pages that the plan has as due ([`super::adaptive`]), and pages that a flush of the whole pool waits for.
//! There are no rounds and no shares: the instance with the globally oldest page is next, also while another cleaner
//! writes pages of it. So the page that limits the checkpoint never waits behind another instance.
//!
//! A cleaner has no thread; [`BufferPool::start_background`] adds threads, a simulator calls it itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::BufferPool;
use super::batch::{BATCH_PAGES, Batch};
use super::flush_list::{Due, Which};
use super::flushing::Cause;
use super::instance::{Instance, Swept};
use crate::background::{Task, Wake};
use crate::page::{Lsn, PageNo};
use crate::wait::Waiter;

/// The interval of a cleaner's steps without a notification.
const ROUND: Duration = Duration::from_millis(50);
/// All frames that could be freed are in use.
const SOON: Duration = Duration::from_micros(200);
/// Pages that are younger by this share of the capacity are written with the due ones. So batches are full, each of
/// which costs syncs, even if few pages become due at a time.
pub(super) const AHEAD_SHARE: f64 = 1.0 / 32.0;

/// Keeps free frames in stock, and writes old pages.
pub struct Cleaner {
    pool: Arc<BufferPool>,
    /// The instance that it looks at first.
    home: usize,
    batch: Vec<PageNo>,
    copies: Batch,
    waiter: Waiter,
}

impl Cleaner {
    /// Creates the `index`-th of `cleaners`, which begin at different instances.
    pub fn new(pool: &Arc<BufferPool>, index: usize, cleaners: usize) -> Self {
        Cleaner {
            pool: Arc::clone(pool),
            home: index * pool.instances.len() / cleaners.max(1),
            batch: Vec::with_capacity(BATCH_PAGES),
            copies: Batch::new(pool.page_size()),
            waiter: Waiter::background().recording(&pool.waits),
        }
    }

    /// Serves each instance by at most one batch, and writes old pages.
    pub fn step(&mut self, now: Instant) -> Wake {
        let mut wake = Wake::At(now + ROUND);
        let pool = Arc::clone(&self.pool);
        let instances = pool.instances.len();
        let mut has_old = true;
        for index in (self.home..self.home + instances).map(|index| index % instances) {
            let instance = &pool.instances[index];
            if let Some(_serving) = instance.try_serve() {
                wake = earlier(wake, self.serve(instance, now));
            }
            // After each: neither a long load nor a lack of frames must hold up the checkpoint.
            has_old = has_old && self.flush_oldest();
            if has_old {
                wake = Wake::Now;
            }
        }
        wake
    }

    /// A batch of a load, and a batch for the stock.
    fn serve(&mut self, instance: &Instance, now: Instant) -> Wake {
        instance.wake_signal.clear();
        // The pool keeps an error.
        let finished = self.pool.write_finished(instance, &mut self.copies, &self.waiter).unwrap_or(false);
        let progress = self.refill(instance);
        match instance.free_frames() < instance.stock() {
            _ if finished => Wake::Now,
            true if progress => Wake::Now,
            true if instance.waiting() > 0 => Wake::At(now + SOON),
            _ => Wake::At(now + ROUND),
        }
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
                let (pages, copies) = (&self.batch, &mut self.copies);
                self.pool.write_batch(instance, pages, Cause::Frames, copies, &self.waiter).unwrap_or(0)
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

    /// Writes a batch of the oldest pages of the pool, if they are due; whether there may be more.
    fn flush_oldest(&mut self) -> bool {
        let pool = Arc::clone(&self.pool);
        let oldest = |instance: &Instance| instance.flush_list.oldest_writable(&pool.table);
        let instances = pool.instances.iter().filter_map(|instance| Some((oldest(instance)?, instance)));
        let Some((oldest, instance)) = instances.min_by_key(|(oldest, _)| *oldest) else { return false };
        let Some((due, cause)) = self.due(oldest) else { return false };
        self.batch.clear();
        instance.flush_list.oldest_pages(&pool.table, due, Which::Writable, BATCH_PAGES, &mut self.batch);
        if self.batch.is_empty() || pool.is_failed() {
            return false;
        }
        self.batch.sort_unstable();
        matches!(pool.write_batch(instance, &self.batch, cause, &mut self.copies, &self.waiter), Ok(1..))
    }

    /// Which pages are due, and why, if one that became dirty at `oldest` is.
    fn due(&self, oldest: Lsn) -> Option<(Due, Cause)> {
        let flushing = &self.pool.flushing;
        let requested = flushing.requested();
        if oldest < requested {
            return Some((Due { due: requested, limit: requested }, Cause::Request));
        }
        let target = flushing.target().filter(|&target| oldest < target)?;
        let ahead = (self.pool.log.capacity_bytes() as f64 * AHEAD_SHARE) as u64;
        Some((Due { due: target, limit: Lsn(target.0 + ahead) }, Cause::Plan))
    }
}

/// The earlier of two.
fn earlier(one: Wake, other: Wake) -> Wake {
    match (one, other) {
        (Wake::At(one), Wake::At(other)) => Wake::At(one.min(other)),
        _ => Wake::Now,
    }
}

impl Task for Cleaner {
    fn step(&mut self, now: Instant) -> Wake {
        Cleaner::step(self, now)
    }
}
