//! The checkpointer: writes the log in the background, and makes checkpoints.
//!
//! A checkpoint is fuzzy: it writes no page. It takes the LSN of the oldest change in a dirty page, syncs the data
//! files, and makes that LSN durable as the start of recovery. The cleaners ensure that the oldest change advances.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::BufferPool;
use crate::background::{Task, Wake};
use crate::redo::Durability;
use crate::wait::Waiter;

/// The interval of its steps.
const ROUND: Duration = Duration::from_millis(50);
/// The latest time for a sync of unsynced log, and for a checkpoint.
const LATEST: Duration = Duration::from_secs(1);
/// A checkpoint is made at once when it would free this share of the log.
pub(super) const CHECKPOINT_SHARE: u64 = 32;

/// Writes log that no commit waits for, and makes checkpoints.
pub struct Checkpointer {
    pool: Arc<BufferPool>,
    waiter: Waiter,
    synced: Instant,
    checkpointed: Instant,
}

impl Checkpointer {
    /// Creates the pool's only checkpointer.
    pub fn new(pool: &Arc<BufferPool>, now: Instant) -> Self {
        let waiter = Waiter::background().recording(&pool.waits);
        Checkpointer { pool: Arc::clone(pool), waiter, synced: now, checkpointed: now }
    }

    /// Does the work that is due. The pool and the log keep errors.
    pub fn step(&mut self, now: Instant) -> Wake {
        if self.pool.is_failed() {
            return Wake::At(now + LATEST);
        }
        let log = Arc::clone(&self.pool.log);
        let _ = match now.duration_since(self.synced) >= LATEST {
            true => {
                self.synced = now;
                log.make_durable(log.next(), Durability::Synced, &self.waiter)
            }
            false => log.write_out(&self.waiter),
        };
        let gain = self.pool.oldest_change().0.saturating_sub(log.checkpoint().0);
        let due = now.duration_since(self.checkpointed) >= LATEST && gain > 0;
        if due || gain > log.capacity_bytes() / CHECKPOINT_SHARE {
            self.checkpointed = now;
            let _ = self.pool.checkpoint();
        }
        Wake::At(now + ROUND)
    }
}

impl Task for Checkpointer {
    fn step(&mut self, now: Instant) -> Wake {
        Checkpointer::step(self, now)
    }
}
