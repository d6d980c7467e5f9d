//! The gate between changes of rows and the close.
//!
//! A database is *clean*, with no need of its redo log, at a moment when no change is in progress and no changed page is
//! in memory alone. The close makes such a moment: it shuts the gate, waits for the changes inside, writes all
//! pages and marks the database clean. Changes wait at the gate meanwhile; reads do not know of it.
//!
//! It is a readers-writer lock in shards, so that changes on different sessions share no cache line. Lock
//! order: before the tablespace's locks and all latches. A closed gate lets those inside finish, and whoever
//! waits for it has left admission, so the ones inside can always get on.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use crate::metrics::WaitReason;
use crate::wait::Waiter;

const SHARDS: usize = 16;

#[derive(Default)]
#[repr(align(128))]
struct Shard(RwLock<()>);

/// Changes pass, or one close.
#[derive(Default)]
pub(super) struct Gate {
    shards: [Shard; SHARDS],
}

/// A change is in progress.
pub(super) struct Passing<'a> {
    _shard: RwLockReadGuard<'a, ()>,
}

/// No change is in progress.
pub(super) struct Shut<'a> {
    _shards: Vec<RwLockWriteGuard<'a, ()>>,
}

impl Gate {
    /// Passes, after a close in progress. `lane` spreads callers over the shards.
    pub(super) fn pass(&self, waiter: &Waiter, lane: usize) -> Passing<'_> {
        let lock = &self.shards[lane % SHARDS].0;
        let shard = match lock.try_read() {
            Ok(shard) => shard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                waiter.wait(WaitReason::Close, || lock.read().unwrap_or_else(PoisonError::into_inner))
            }
        };
        Passing { _shard: shard }
    }

    /// Shuts the gate and waits for those who passed.
    pub(super) fn shut(&self, waiter: &Waiter) -> Shut<'_> {
        waiter.wait(WaitReason::Close, || Shut { _shards: self.shards.iter().map(shut_one).collect() })
    }
}

fn shut_one(shard: &Shard) -> RwLockWriteGuard<'_, ()> {
    shard.0.write().unwrap_or_else(PoisonError::into_inner)
}
