//! Page cleaners: they keep free frames in stock, so that users never write.
//!
//! A [`Cleaner`] serves some of the pool's instances. [`Cleaner::step`] makes the stock of each full: it evicts
//! clean pages that were not used lately and writes dirty ones. There is no thread in it; [`BufferPool::start_cleaners`]
//! puts threads around it, a simulator calls it itself.
//!
//! Writing is by copy: shared latch (tried, never waited for), memory copy, unlatch, checksum, write. The page is
//! clean from the copy on; who changes it during the write makes it dirty again, and it stays in memory until
//! the write has ended. A write that fails makes it dirty again and ends all writing of the pool: the error is kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::BufferPool;
use super::frames::PageBuffer;
use super::instance::{Instance, Swept};
use crate::page::PageNo;
use crate::wait::Waiter;

/// Pages written in one go, in the order of their numbers.
const BATCH_PAGES: usize = 32;
/// Even if nobody rings, a cleaner looks around this often.
const ROUND: Duration = Duration::from_millis(100);
/// All that could be freed is in use at the moment.
const SOON: Duration = Duration::from_micros(200);

/// When a background task wants its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At once.
    Now,
    /// Then, or earlier if it is rung for.
    At(Instant),
}

/// What a user rings who takes one of the last free frames.
#[derive(Default)]
pub(super) struct Bell {
    rung: AtomicBool,
    target: Mutex<Option<Arc<Sleep>>>,
}

/// Where a cleaner's thread sleeps.
#[derive(Default)]
pub(super) struct Sleep {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleep {
    pub(super) fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn sleep(&self, time: Duration) {
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let slept = self.changed.wait_timeout_while(woken, time, |woken| !*woken);
        *slept.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

impl Bell {
    pub(super) fn ring(&self) {
        let first = !self.rung.load(Ordering::Relaxed) && !self.rung.swap(true, Ordering::AcqRel);
        if first && let Some(target) = &*self.target.lock().unwrap_or_else(PoisonError::into_inner) {
            target.wake();
        }
    }

    pub(super) fn heard(&self) {
        self.rung.store(false, Ordering::Release);
    }

    pub(super) fn set_target(&self, target: Option<Arc<Sleep>>) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }
}

/// Keeps free frames in stock for some instances.
pub struct Cleaner {
    pool: Arc<BufferPool>,
    instances: Vec<usize>,
    buffer: PageBuffer,
    batch: Vec<PageNo>,
    waiter: Waiter,
}

impl Cleaner {
    /// The `index`-th of `cleaners` that share the pool's instances.
    pub fn new(pool: &Arc<BufferPool>, index: usize, cleaners: usize) -> Self {
        Cleaner {
            pool: Arc::clone(pool),
            instances: (index..pool.instances.len()).step_by(cleaners.max(1)).collect(),
            buffer: PageBuffer::new(pool.page_size()),
            batch: Vec::with_capacity(BATCH_PAGES),
            waiter: Waiter::background().recording(&pool.waits),
        }
    }

    /// Refills the stock of each instance by at most one batch.
    pub fn step(&mut self, now: Instant) -> Wake {
        let mut wake = Wake::At(now + ROUND);
        for index in 0..self.instances.len() {
            let pool = Arc::clone(&self.pool);
            let instance = &pool.instances[self.instances[index]];
            instance.bell.heard();
            let progress = self.refill(instance);
            if instance.free_frames() < instance.stock() {
                wake = match (progress, wake) {
                    (true, _) | (_, Wake::Now) => Wake::Now,
                    (false, _) if instance.waiting() > 0 => Wake::At(now + SOON),
                    (false, wake) => wake,
                };
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
        for &page in &self.batch {
            match self.pool.write_back(page, self.buffer.bytes(), &self.waiter) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => break,
            }
            if let Some(frame) = instance.try_evict(&self.pool.table, page) {
                instance.give_back(frame);
                freed += 1;
            }
        }
        freed > 0
    }
}

/// A thread around a cleaner.
pub(super) fn run(mut cleaner: Cleaner, sleep: &Sleep, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Acquire) {
        let now = Instant::now();
        if let Wake::At(then) = cleaner.step(now) {
            sleep.sleep(then.saturating_duration_since(now));
        }
    }
}
