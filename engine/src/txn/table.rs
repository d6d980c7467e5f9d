//! Which transactions have committed, in which order, and who still looks at what was before.
//!
//! Ids are given in order at the first write. Commits are numbered in order; a snapshot is the number of the last
//! one, one atomic load. A version is visible to a snapshot if its transaction's commit has that number or a lower one.
//!
//! # Invariants
//! - `status[id % SLOTS]` is 0 while the transaction is active, and its commit's number afterwards, for every id from
//!   `settled` up to `next`. Every id below `settled` has ended, and is visible to each snapshot there is or will be.
//! - `next <= settled + SLOTS`: no slot has two owners. A transaction that would break this is refused.
//! - A commit's number is in its slot before `commits` has that number, and commits take turns: who loads `commits`
//!   finds every commit up to there in its slot.
//! - Ids below `reserved` may be given without asking; `reserved` is durable before one is used, so that an id is never
//!   given again after a crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::TxnId;
use crate::error::{Error, Result};
use crate::wait::look_out;

/// Transactions from the oldest one that somebody cannot see yet to the newest: 8 MiB, touched as it is needed.
const SLOTS: u64 = if cfg!(miri) { 1 << 10 } else { 1 << 20 };
/// Ids reserved at a time.
pub(super) const RESERVED_IDS: u64 = if cfg!(miri) { 1 << 8 } else { 1 << 16 };
const SHARDS: usize = 16;
/// The number that all commits before the opening have.
const FIRST_COMMIT: u64 = 1;
/// See [`TxnTable::ends_soon`]: about 10 us.
const END_LOOKS: u32 = 32;

/// A commit's number. What committed up to a snapshot's is visible to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommitNo(pub(super) u64);

#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<BTreeMap<CommitNo, usize>>);

/// What each first write of a transaction changes, on cache lines of its own: every look at a row's version reads the table.
#[repr(align(128))]
struct Ids {
    next: AtomicU64,
    reserved: AtomicU64,
    /// Held while ids are reserved or given.
    giving: Mutex<()>,
}

/// What each end of a transaction changes, likewise.
#[repr(align(128))]
struct Ends {
    commits: AtomicU64,
    /// Held by the one who commits.
    committing: Mutex<()>,
}

pub(super) struct TxnTable {
    status: Box<[AtomicU64]>,
    settled: AtomicU64,
    ids: Ids,
    ends: Ends,
    /// How many look at each snapshot.
    snapshots: [Shard; SHARDS],
    /// `next` less `commits` while nobody is active: each end has a number, a rollback's, too.
    idle_distance: u64,
}

/// A snapshot that holds up purge until it is dropped.
pub(super) struct Snapshot<'t> {
    table: &'t TxnTable,
    shard: usize,
    pub(super) commit: CommitNo,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TxnTable {
    /// Goes on with `next`. The transactions `unfinished`, all below it, are active.
    pub(super) fn new(next: TxnId, unfinished: &[TxnId]) -> Result<Self> {
        let settled = unfinished.iter().copied().min().unwrap_or(next).min(next);
        if next.0 - settled.0 >= SLOTS {
            let what =
                format!("transaction {} is unfinished, and the next one would be {}", settled.0, next.0);
            return Err(Error::CorruptUndo { what });
        }
        // As zeroed memory from the system, which costs nothing until it is touched.
        let status = Box::<[AtomicU64]>::new_zeroed_slice(SLOTS as usize);
        // SAFETY: zeroes are valid atomic numbers.
        let status = unsafe { status.assume_init() };
        // What ended before the opening is visible to all.
        for id in settled.0..next.0 {
            let ended = !unfinished.contains(&TxnId(id));
            status[(id % SLOTS) as usize].store(if ended { FIRST_COMMIT } else { 0 }, Ordering::Relaxed);
        }
        Ok(TxnTable {
            status,
            settled: AtomicU64::new(settled.0),
            ids: Ids {
                next: AtomicU64::new(next.0),
                reserved: AtomicU64::new(next.0),
                giving: Mutex::default(),
            },
            ends: Ends { commits: AtomicU64::new(FIRST_COMMIT), committing: Mutex::default() },
            snapshots: Default::default(),
            idle_distance: next.0.wrapping_sub(FIRST_COMMIT + unfinished.len() as u64),
        })
    }

    fn slot(&self, txn: TxnId) -> &AtomicU64 {
        &self.status[(txn.0 % SLOTS) as usize]
    }

    /// A new transaction's id. `reserve` is asked to make it durable, before they are used, that ids below its argument
    /// may have been given.
    pub(super) fn begin(&self, reserve: impl FnOnce(u64) -> Result<()>) -> Result<TxnId> {
        let Ids { next, reserved, giving } = &self.ids;
        let _giving = lock(giving);
        let id = next.load(Ordering::Relaxed);
        if id >= self.settled.load(Ordering::Acquire) + SLOTS {
            return Err(Error::TooManyTransactions { allowed: SLOTS });
        }
        if id >= reserved.load(Ordering::Relaxed) {
            reserve(id + RESERVED_IDS)?;
            reserved.store(id + RESERVED_IDS, Ordering::Relaxed);
        }
        self.slot(TxnId(id)).store(0, Ordering::Release);
        next.store(id + 1, Ordering::Release);
        Ok(TxnId(id))
    }

    /// The transaction has ended: its versions are visible to every snapshot from now on. (One that was rolled back has
    /// none.)
    pub(super) fn end(&self, txn: TxnId) {
        let Ends { commits, committing } = &self.ends;
        let _committing = lock(committing);
        let commit = commits.load(Ordering::Relaxed) + 1;
        self.slot(txn).store(commit, Ordering::Release);
        commits.store(commit, Ordering::Release);
    }

    /// Transactions that have written, and not ended.
    pub(super) fn active(&self) -> u64 {
        // Ends first, so that one that is active all the time is counted; each end was seen after its beginning.
        let ends = self.ends.commits.load(Ordering::Acquire);
        self.ids.next.load(Ordering::Acquire).wrapping_sub(ends).wrapping_sub(self.idle_distance)
    }

    /// The number of the transaction's commit; `None` while it is active. Ids that were never given have not ended.
    fn commit_of(&self, txn: TxnId) -> Option<CommitNo> {
        if txn.0 < self.settled.load(Ordering::Acquire) {
            return Some(CommitNo(0));
        }
        let commit = self.slot(txn).load(Ordering::Acquire);
        // Settled meanwhile, the slot may be another's.
        if txn.0 < self.settled.load(Ordering::Acquire) {
            return Some(CommitNo(0));
        }
        (commit != 0).then_some(CommitNo(commit))
    }

    pub(super) fn is_active(&self, txn: TxnId) -> bool {
        self.commit_of(txn).is_none()
    }

    /// Looks for the transaction's end for a moment; whether it came.
    pub(super) fn ends_soon(&self, txn: TxnId) -> bool {
        look_out(END_LOOKS, || !self.is_active(txn))
    }

    pub(super) fn is_visible(&self, txn: TxnId, snapshot: CommitNo) -> bool {
        self.commit_of(txn).is_some_and(|commit| commit <= snapshot)
    }

    /// What has committed until now. `lane` spreads callers.
    pub(super) fn snapshot(&self, lane: usize) -> Snapshot<'_> {
        Snapshot { table: self, shard: lane % SHARDS, commit: self.hold(lane, None) }
    }

    /// The same, or a snapshot that is held already once more, without a guard: [`Self::let_go`] is to follow, in the
    /// same lane.
    pub(super) fn hold(&self, lane: usize, held: Option<CommitNo>) -> CommitNo {
        let mut snapshots = lock(&self.snapshots[lane % SHARDS].0);
        // Within the lock: whoever looks for the oldest snapshot sees it, or began with a number as low.
        let commit = held.unwrap_or_else(|| CommitNo(self.ends.commits.load(Ordering::Acquire)));
        *snapshots.entry(commit).or_default() += 1;
        commit
    }

    /// See [`Self::hold`].
    pub(super) fn let_go(&self, lane: usize, commit: CommitNo) {
        let mut snapshots = lock(&self.snapshots[lane % SHARDS].0);
        if let Some(count) = snapshots.get_mut(&commit) {
            *count -= 1;
            if *count == 0 {
                snapshots.remove(&commit);
            }
        }
    }

    /// Every snapshot that there is or will be is this one or a later one.
    pub(super) fn oldest_snapshot(&self) -> CommitNo {
        let now = CommitNo(self.ends.commits.load(Ordering::Acquire));
        let of_shard = |shard: &Shard| lock(&shard.0).first_key_value().map(|(&commit, _)| commit);
        self.snapshots.iter().filter_map(of_shard).fold(now, CommitNo::min)
    }

    /// Whether anybody looks at one.
    pub(super) fn has_snapshots(&self) -> bool {
        self.snapshots.iter().any(|shard| !lock(&shard.0).is_empty())
    }

    /// Settles the ids at the beginning that have ended and are visible to `oldest`.
    pub(super) fn settle(&self, oldest: CommitNo) {
        let next = self.ids.next.load(Ordering::Acquire);
        let mut settled = self.settled.load(Ordering::Relaxed);
        while settled < next && self.is_visible(TxnId(settled), oldest) {
            settled += 1;
        }
        self.settled.fetch_max(settled, Ordering::AcqRel);
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.table.let_go(self.shard, self.commit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(table: &TxnTable) -> TxnId {
        table.begin(|_| Ok(())).unwrap()
    }

    #[test]
    fn a_snapshot_sees_what_had_committed() {
        let table = TxnTable::new(TxnId(10), &[]).unwrap();
        let (a, b) = (begin(&table), begin(&table));
        table.end(a);
        let snapshot = table.snapshot(0);
        table.end(b);
        assert!(table.is_visible(a, snapshot.commit) && !table.is_visible(b, snapshot.commit));
        assert!(table.is_visible(b, table.snapshot(1).commit));
        assert!(table.is_visible(TxnId(9), snapshot.commit), "it ended before the opening");
        assert_eq!(table.oldest_snapshot(), snapshot.commit);
        table.settle(table.oldest_snapshot());
        assert_eq!(table.settled.load(Ordering::Relaxed), b.0);
        drop(snapshot);
        table.settle(table.oldest_snapshot());
        assert_eq!(table.settled.load(Ordering::Relaxed), b.0 + 1);
    }

    #[test]
    fn the_unfinished_are_active_until_they_end() {
        let table = TxnTable::new(TxnId(10), &[TxnId(7), TxnId(4)]).unwrap();
        assert_eq!(table.active(), 2);
        for (id, active) in [(3, false), (4, true), (5, false), (7, true), (9, false), (10, true)] {
            assert_eq!(table.is_active(TxnId(id)), active, "{id}");
        }
        table.end(TxnId(4));
        table.end(TxnId(7));
        assert_eq!((table.active(), table.is_active(TxnId(4))), (0, false));
        assert_eq!(begin(&table), TxnId(10));
    }

    #[test]
    fn ids_are_reserved_before_they_are_given() {
        let table = TxnTable::new(TxnId(1), &[]).unwrap();
        let mut reserved = 0;
        for n in 0..3 * RESERVED_IDS {
            let id = table
                .begin(|to| {
                    reserved = to;
                    Ok(())
                })
                .unwrap();
            assert!(id.0 == n + 1 && id.0 < reserved);
            table.end(id);
        }
        let failed = TxnTable::new(TxnId(1), &[]).unwrap().begin(|_| Err(Error::Closed));
        assert!(matches!(failed, Err(Error::Closed)));
    }

    #[test]
    fn an_old_snapshot_stops_writers_before_slots_are_used_twice() {
        let table = TxnTable::new(TxnId(0), &[]).unwrap();
        let old = table.snapshot(0);
        for _ in 0..SLOTS {
            let id = begin(&table);
            table.end(id);
        }
        table.settle(table.oldest_snapshot());
        assert!(matches!(table.begin(|_| Ok(())), Err(Error::TooManyTransactions { .. })));
        assert!(!table.is_visible(TxnId(0), old.commit));
        drop(old);
        table.settle(table.oldest_snapshot());
        begin(&table);
    }
}
