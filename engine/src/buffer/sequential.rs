//! Sequential flushing: a specimen for comparison, after what MySQL 5.6 did. Not for data of value.
//!
//! One thread writes pages for their age. Once a second it shares a number of pages out to the instances in equal parts
//! and writes them instance after instance, however old the pages of each instance are. So an instance whose pages are
//! older than others' falls behind. When the log is filled to [`SYNC_AGE`], each statement that is about to write waits
//! for a *sync flush*: the thread writes the oldest pages of all instances, one instance after the other, makes a
//! checkpoint, and then lets all go on at once.
//!
//! | filled to | what happens |
//! |---|---|
//! | 10% of [`ASYNC_AGE`] | rounds begin; their pages per second rise with the power 1.5 of the age |
//! | [`SYNC_AGE`] | writers wait for sync flushes |
//! | 100% | writers stop hard, as in the other mode |
//!
//! One difference: in MySQL 5.6 the first statement that waits writes the pages itself. Here the flusher does, since no
//! statement writes pages in this engine. Either way all statements wait until it is done.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use flifo_base::{lock, unpoison};

use super::BufferPool;
use super::batch::{BATCH_PAGES, Batch};
use super::flush_list::{Due, Which};
use super::flushing::Cause;
use super::instance::Instance;
use crate::background::{Sleep, Task, Wake};
use crate::error::Result;
use crate::metrics::WaitReason;
use crate::page::{Lsn, PageNo};
use crate::wait::Waiter;

/// MySQL's margins: nine tenths of the capacity, of which 7/8 and 15/16.
pub(super) const ASYNC_AGE: f64 = 0.9 * 7.0 / 8.0;
pub(super) const SYNC_AGE: f64 = 0.9 * 15.0 / 16.0;
/// Rounds begin at this share of [`ASYNC_AGE`].
const ROUNDS_FROM: f64 = 0.1;
/// The interval of the rounds.
const ROUND: Duration = Duration::from_secs(1);
/// It looks at the log this often between two rounds, and so does a statement that waits.
const LOOK: Duration = Duration::from_millis(50);

/// Where statements wait for a sync flush.
#[derive(Default)]
pub(super) struct SyncGate {
    /// Sync flushes so far.
    flushes: Mutex<u64>,
    ended: Condvar,
    /// Wakes the flusher.
    sleep: Arc<Sleep>,
}

impl SyncGate {
    pub(super) fn sleep(&self) -> &Arc<Sleep> {
        &self.sleep
    }

    /// Waits until a sync flush has ended; returns early when `is_over`.
    fn wait(&self, is_over: impl Fn() -> bool) {
        let mut flushes = lock(&self.flushes);
        let before = *flushes;
        self.sleep.wake();
        while *flushes == before && !is_over() {
            flushes = unpoison(self.ended.wait_timeout(flushes, LOOK)).0;
        }
    }

    fn end_flush(&self) {
        *lock(&self.flushes) += 1;
        self.ended.notify_all();
    }
}

impl BufferPool {
    /// Waits for a sync flush, where one is due. The caller holds no latch.
    pub(super) fn wait_for_sync_flush(&self, waiter: &Waiter) {
        let is_closed = || self.log.check_open().is_err() || self.check_writable().is_err();
        while self.log.checkpoint_age_share() > SYNC_AGE && !is_closed() {
            self.flushing.sync_waits.fetch_add(1, Ordering::Relaxed);
            waiter.wait(WaitReason::SyncFlush, || self.sync_gate.wait(is_closed));
        }
    }
}

/// The one thread that writes pages for their age in this mode.
pub(super) struct SequentialFlusher {
    pool: Arc<BufferPool>,
    pages: Vec<PageNo>,
    batch: Batch,
    waiter: Waiter,
    next_round: Instant,
}

impl SequentialFlusher {
    pub(super) fn new(pool: &Arc<BufferPool>, now: Instant) -> Self {
        SequentialFlusher {
            pool: Arc::clone(pool),
            pages: Vec::with_capacity(BATCH_PAGES),
            batch: Batch::new(pool.page_size()),
            waiter: Waiter::background().recording(&pool.waits),
            next_round: now + ROUND,
        }
    }

    /// The oldest pages of each instance in turn, and a checkpoint.
    fn flush_sync(&mut self) -> Result<()> {
        let pool = Arc::clone(&self.pool);
        let capacity = pool.log.capacity_bytes() as f64;
        let beyond = pool.log.checkpoint_age_share() - SYNC_AGE;
        // Twice as far as needed, as in MySQL.
        let goal = Lsn(pool.oldest_change().0 + (2.0 * beyond.max(0.0) * capacity) as u64 + 1);
        for instance in &pool.instances {
            while self.write_oldest(instance, goal, BATCH_PAGES, Cause::Sync)? > 0 {}
        }
        pool.checkpoint().map(drop)
    }

    /// A second's pages, in equal parts.
    fn flush_round(&mut self) -> Result<()> {
        let pool = Arc::clone(&self.pool);
        let share = pages_per_instance(&pool);
        for instance in &pool.instances {
            let mut left = share;
            while left > 0 && pool.log.checkpoint_age_share() <= SYNC_AGE {
                match self.write_oldest(instance, Lsn(u64::MAX), left.min(BATCH_PAGES), Cause::Plan)? {
                    0 => break,
                    written => left -= written,
                }
            }
        }
        Ok(())
    }

    /// Writes up to `max` of the instance's pages that became dirty before `limit`; how many.
    fn write_oldest(&mut self, instance: &Instance, limit: Lsn, max: usize, cause: Cause) -> Result<usize> {
        self.pages.clear();
        let due = Due { due: limit, limit };
        instance.flush_list.oldest_pages(&self.pool.table, due, Which::Writable, max, &mut self.pages);
        self.pages.sort_unstable();
        match self.pages.is_empty() {
            true => Ok(0),
            false => self.pool.write_batch(instance, &self.pages, cause, &mut self.batch, &self.waiter),
        }
    }
}

/// Pages that a round writes of each instance: MySQL 5.6's formula.
fn pages_per_instance(pool: &BufferPool) -> usize {
    let config = pool.flushing.config;
    let age = pool.log.checkpoint_age_share() / ASYNC_AGE;
    if age < ROUNDS_FROM {
        return 0;
    }
    let percent = 100.0 * age;
    let ratio = f64::from(config.io_capacity_max) / f64::from(config.io_capacity);
    let share = ratio * percent * percent.sqrt() / 7.5 / 100.0;
    let pages = (f64::from(config.io_capacity) * share).min(f64::from(config.io_capacity_max));
    (pages as usize).div_ceil(pool.instances.len())
}

impl Task for SequentialFlusher {
    fn step(&mut self, now: Instant) -> Wake {
        if self.pool.is_replaying() || self.pool.is_failed() {
            return Wake::At(now + LOOK);
        }
        // The pool keeps an error, and who waits looks there.
        if self.pool.log.checkpoint_age_share() > SYNC_AGE {
            let _ = self.flush_sync();
            self.pool.sync_gate.end_flush();
            return Wake::Now;
        }
        // A statement may have come to the gate just before.
        self.pool.sync_gate.end_flush();
        if now >= self.next_round {
            self.next_round = now + ROUND;
            let _ = self.flush_round();
            return Wake::Now;
        }
        Wake::At(now + LOOK)
    }
}
