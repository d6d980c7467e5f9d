//! The transaction table: which transactions have committed, in which order, and which snapshots are held.
//!
//! Ids are given in order at the first write. Commits are numbered in order; a snapshot is the number of the last one,
//! one atomic load. A version is visible to a snapshot if its transaction's commit has that number or a lower one.
//!
//! # Invariants
//! - `settled <= slotted_from <= next <= slotted_from + slots`: no slot has two owners.
//! - The slot of each id from `slotted_from` up to `next` is 0 while the transaction is active, and its commit's number
//!   afterwards. `evicted` covers ids below `slotted_from`. Every id below `settled` has ended, and is visible to each
//!   present and future snapshot.
//! - A slot is given to another transaction only after `slotted_from` has passed its owner. A reader that reads the
//!   slot first, and `slotted_from` afterwards, notices.
//! - A commit's number is in its slot before `commits` has that number, and commits are serialized. So a thread that
//!   loads `commits` finds every commit up to there in its slot.
//! - Ids below `reserved` may be given without a write to the log. The redo log has `reserved` before one of them is
//!   used, and every use of the id comes later in the log. A crash that loses the reservation loses the uses, so an id
//!   is given again only if no trace of its owner is left. No thread waits for a sync.
//!
//! Mutexes are locked in this order: `giving`, `committing`, `evicted`, `snapshots`.

use std::collections::BTreeMap;

use flifo_base::CacheAligned;

use super::TxnId;
use super::evicted::{Evicted, NO_SNAPSHOT};
use crate::error::Result;
use crate::sync::{AtomicU64, Mutex, Ordering, RwLock, lock, read, write};
use crate::wait::poll;

/// Transactions that have a slot: 512 KiB. A lookup of an older one costs a lock.
const SLOTS: usize = if cfg!(miri) { 1 << 10 } else { 1 << 16 };
/// The fraction of the slots that is freed at a time: one in `ROOM_SHARE`.
const ROOM_SHARE: usize = 16;
/// Ids reserved at a time.
pub(super) const RESERVED_IDS: u64 = if cfg!(miri) { 1 << 8 } else { 1 << 16 };
const SHARDS: usize = if cfg!(loom) { 2 } else { 16 };
/// The number that all commits before the opening have.
const FIRST_COMMIT: u64 = 1;
/// See [`TxnTable::poll_end`]: about 10 us.
const END_POLLS: u32 = 32;

/// A commit's number. What committed up to a snapshot's is visible to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CommitNo(pub(super) u64);

/// The number of holders of each snapshot.
type Shard = CacheAligned<Mutex<BTreeMap<CommitNo, usize>>>;

/// The fields that each first write of a transaction changes, on cache lines of their own: every read of a version uses
/// the table.
struct Ids {
    next: AtomicU64,
    reserved: AtomicU64,
    /// Held while ids are reserved or given.
    giving: Mutex<()>,
}

/// The fields that each end of a transaction changes, on cache lines of their own, too.
struct Ends {
    commits: AtomicU64,
    /// Held during a commit.
    committing: Mutex<()>,
}

pub(super) struct TxnTable {
    /// That of an id is at its remainder; as many as a power of two.
    slots: Box<[AtomicU64]>,
    slotted_from: AtomicU64,
    settled: AtomicU64,
    /// [`Evicted::visible_from`], never lower than required for ids below `slotted_from`.
    evicted_visible_from: AtomicU64,
    /// Apart, since its readers write to the lock.
    evicted: CacheAligned<RwLock<Evicted>>,
    ids: CacheAligned<Ids>,
    ends: CacheAligned<Ends>,
    snapshots: [Shard; SHARDS],
    /// The snapshots of purge; they keep nothing older alive.
    of_purge: Shard,
    /// `next` less `commits` while no transaction is active: each end has a number, including a rollback's.
    idle_distance: u64,
}

/// A snapshot that holds up purge until it is dropped.
pub(super) struct Snapshot<'t> {
    shard: &'t Shard,
    pub(super) commit: CommitNo,
}

/// The transactions that had ended at some time. It holds nothing back, so older state is not available.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    settled: TxnId,
    commit: CommitNo,
}

/// Where a transaction's state is.
enum Place {
    Settled,
    /// The content of its slot.
    Slot(u64),
    Evicted,
}

impl TxnTable {
    /// Creates a table that continues with `next`. The transactions `unfinished`, all below it, are active.
    pub(super) fn new(next: TxnId, unfinished: &[TxnId]) -> Self {
        Self::with_slots(SLOTS, next, unfinished)
    }

    fn with_slots(slots: usize, next: TxnId, unfinished: &[TxnId]) -> Self {
        debug_assert!(slots.is_power_of_two());
        let mut evicted = Evicted::default();
        unfinished.iter().for_each(|&txn| evicted.add_unfinished(txn));
        TxnTable {
            slots: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            slotted_from: AtomicU64::new(next.0),
            settled: AtomicU64::new(evicted.first().unwrap_or(next).0),
            evicted_visible_from: AtomicU64::new(evicted.visible_from().0),
            evicted: CacheAligned(RwLock::new(evicted)),
            ids: CacheAligned(Ids {
                next: AtomicU64::new(next.0),
                reserved: AtomicU64::new(next.0),
                giving: Mutex::new(()),
            }),
            ends: CacheAligned(Ends { commits: AtomicU64::new(FIRST_COMMIT), committing: Mutex::new(()) }),
            snapshots: std::array::from_fn(|_| CacheAligned(Mutex::new(BTreeMap::new()))),
            of_purge: CacheAligned(Mutex::new(BTreeMap::new())),
            idle_distance: next.0.wrapping_sub(FIRST_COMMIT + unfinished.len() as u64),
        }
    }

    fn slot(&self, id: u64) -> &AtomicU64 {
        &self.slots[id as usize & (self.slots.len() - 1)]
    }

    /// A new transaction's id. `reserve` is asked to write to the redo log, before they are used, that ids below its argument
    /// may have been given.
    pub(super) fn begin(&self, reserve: impl FnOnce(u64) -> Result<()>) -> Result<TxnId> {
        let Ids { next, reserved, giving } = &*self.ids;
        let _giving = lock(giving);
        let id = next.load(Ordering::Relaxed);
        if id >= reserved.load(Ordering::Relaxed) {
            reserve(id + RESERVED_IDS)?;
            reserved.store(id + RESERVED_IDS, Ordering::Relaxed);
        }
        if id >= self.slotted_from.load(Ordering::Acquire) + self.slots.len() as u64 {
            self.make_room();
        }
        // Release: a reader that takes this value, or a later one, for the previous owner's sees in `slotted_from` that
        // it is not.
        self.slot(id).store(0, Ordering::Release);
        next.store(id + 1, Ordering::Release);
        Ok(TxnId(id))
    }

    /// Takes the oldest slots from their owners, all slots being taken; the caller holds `giving`.
    #[cold]
    fn make_room(&self) {
        // Blocks commits, so no transaction ends, and no snapshot that begins now is older than the ended transactions.
        let _committing = lock(&self.ends.committing);
        let mut evicted = write(&self.evicted.0);
        // Another thread may have advanced it further: then this evicts more than necessary.
        let from = self.slotted_from.load(Ordering::Relaxed);
        let end =
            self.ids.next.load(Ordering::Relaxed).min(from + (self.slots.len() / ROOM_SHARE).max(1) as u64);
        let commit = |id| match self.slot(id).load(Ordering::Relaxed) {
            0 => None,
            commit => Some(CommitNo(commit)),
        };
        evicted.add(TxnId(from), (from..end).map(commit), &self.held_snapshots());
        // In this order: a reader that sees the second store sees the first.
        self.evicted_visible_from.store(evicted.visible_from().0, Ordering::Release);
        self.slotted_from.store(end, Ordering::Release);
    }

    /// The transaction has ended: its versions are visible to every snapshot from now on. (One that was rolled back has
    /// none.)
    pub(super) fn end(&self, txn: TxnId) {
        let Ends { commits, committing } = &*self.ends;
        let _committing = lock(committing);
        let commit = commits.load(Ordering::Relaxed) + 1;
        // The lock keeps others from reusing its slot, and from settling it.
        if txn.0 >= self.slotted_from.load(Ordering::Acquire) {
            self.slot(txn.0).store(commit, Ordering::Release);
        } else {
            write(&self.evicted.0).end(txn, CommitNo(commit));
        }
        commits.store(commit, Ordering::Release);
    }

    /// Transactions that have written, and not ended.
    pub(super) fn active(&self) -> u64 {
        // Loads the ends first, so that a transaction active all the time is counted; each end was seen after its
        // beginning.
        let ends = self.ends.commits.load(Ordering::Acquire);
        self.ids.next.load(Ordering::Acquire).wrapping_sub(ends).wrapping_sub(self.idle_distance)
    }

    #[inline]
    fn place(&self, txn: TxnId) -> Place {
        if txn.0 < self.settled.load(Ordering::Acquire) {
            return Place::Settled;
        }
        let found = self.slot(txn.0).load(Ordering::Acquire);
        // If it is another's already, this sees that.
        if txn.0 < self.slotted_from.load(Ordering::Acquire) { Place::Evicted } else { Place::Slot(found) }
    }

    /// Whether a snapshot taken from now on may not see it: it has not ended, or is about to.
    pub(super) fn is_active(&self, txn: TxnId) -> bool {
        // Loaded after its slot: by then `commits` has its number. Otherwise a thread that finds it inactive could take
        // a snapshot that does not see it.
        let commits = || CommitNo(self.ends.commits.load(Ordering::Acquire));
        match self.place(txn) {
            Place::Settled => false,
            Place::Slot(found) => found == 0 || found > commits().0,
            Place::Evicted => {
                self.evicted_visible_from.load(Ordering::Acquire) == NO_SNAPSHOT.0
                    && !read(&self.evicted.0).is_visible(txn, commits())
            }
        }
    }

    /// Looks for the transaction's end for a moment; whether it came.
    pub(super) fn poll_end(&self, txn: TxnId) -> bool {
        poll(END_POLLS, || !self.is_active(txn))
    }

    /// Whether the snapshot, which is held, sees what the transaction wrote.
    #[inline]
    pub(super) fn is_visible(&self, txn: TxnId, snapshot: CommitNo) -> bool {
        match self.place(txn) {
            Place::Settled => true,
            Place::Slot(found) => found != 0 && found <= snapshot.0,
            Place::Evicted => {
                snapshot.0 >= self.evicted_visible_from.load(Ordering::Acquire)
                    || read(&self.evicted.0).is_visible(txn, snapshot)
            }
        }
    }

    /// What has ended until now.
    pub(super) fn ended(&self) -> Ended {
        let settled = TxnId(self.settled.load(Ordering::Acquire));
        Ended { settled, commit: CommitNo(self.ends.commits.load(Ordering::Acquire)) }
    }

    /// Whether the transaction had certainly ended at that time, so that a version of it that is read afterwards is its
    /// last one of the row. Also false if it ended long ago, and its slot was reused.
    pub(super) fn had_ended(&self, txn: TxnId, by: Ended) -> bool {
        // Settled or evicted now says nothing about that time.
        let in_slot = || match self.place(txn) {
            Place::Slot(found) => found != 0 && found <= by.commit.0,
            Place::Settled | Place::Evicted => false,
        };
        txn.0 < by.settled.0 || in_slot()
    }

    /// What has committed until now. `lane` spreads callers.
    pub(super) fn snapshot(&self, lane: usize) -> Snapshot<'_> {
        self.snapshot_in(&self.snapshots[lane % SHARDS], None)
    }

    /// As above, or holds an already held snapshot once more, without a guard. The caller calls [`Self::release`] later,
    /// in the same lane.
    pub(super) fn hold(&self, lane: usize, held: Option<CommitNo>) -> CommitNo {
        self.hold_in(&self.snapshots[lane % SHARDS], held)
    }

    fn snapshot_in<'t>(&self, shard: &'t Shard, held: Option<CommitNo>) -> Snapshot<'t> {
        Snapshot { shard, commit: self.hold_in(shard, held) }
    }

    fn hold_in(&self, shard: &Shard, held: Option<CommitNo>) -> CommitNo {
        let mut snapshots = lock(&shard.0);
        // Within the lock: a search for the oldest snapshot sees it, or began with a number as low.
        let commit = held.unwrap_or_else(|| CommitNo(self.ends.commits.load(Ordering::Acquire)));
        *snapshots.entry(commit).or_default() += 1;
        commit
    }

    /// See [`Self::hold`].
    pub(super) fn release(&self, lane: usize, commit: CommitNo) {
        release_in(&self.snapshots[lane % SHARDS], commit);
    }

    /// Whether there are snapshots other than purge's.
    pub(super) fn has_snapshots(&self) -> bool {
        self.snapshots.iter().any(|shard| !lock(&shard.0).is_empty())
    }

    /// All held snapshots, ascending.
    fn held_snapshots(&self) -> Vec<CommitNo> {
        let mut held = Vec::new();
        for shard in self.snapshots.iter().chain([&self.of_purge]) {
            held.extend(lock(&shard.0).keys().copied());
        }
        held.sort_unstable();
        held.dedup();
        held
    }

    /// Settles the oldest ids that all snapshots see, and returns a snapshot. Every present and future snapshot is that
    /// one or a later one, except snapshots returned by earlier calls. If these counted, two concurrent purges would
    /// keep each other's snapshot alive forever.
    pub(super) fn settle(&self) -> Snapshot<'_> {
        // Within the lock: nothing is moved before the oldest one is held, without which there would be no view for it.
        let mut evicted = write(&self.evicted.0);
        let now = CommitNo(self.ends.commits.load(Ordering::Acquire));
        let of_shard = |shard: &Shard| lock(&shard.0).first_key_value().map(|(&commit, _)| commit);
        let oldest = self.snapshots.iter().filter_map(of_shard).fold(now, CommitNo::min);
        let oldest = self.snapshot_in(&self.of_purge, Some(oldest));
        if !evicted.is_empty() {
            evicted.forget(&self.held_snapshots(), oldest.commit);
            self.evicted_visible_from.store(evicted.visible_from().0, Ordering::Release);
        }
        let slotted_from = self.slotted_from.load(Ordering::Relaxed);
        let mut settled = evicted.first().map_or(slotted_from, |first| first.0);
        if settled == slotted_from {
            let next = self.ids.next.load(Ordering::Acquire);
            let is_seen = |found| found != 0 && found <= oldest.commit.0;
            while settled < next && is_seen(self.slot(settled).load(Ordering::Acquire)) {
                settled += 1;
            }
            self.slotted_from.store(settled, Ordering::Release);
        }
        self.settled.store(settled, Ordering::Release);
        oldest
    }
}

fn release_in(shard: &Shard, commit: CommitNo) {
    let mut snapshots = lock(&shard.0);
    if let Some(count) = snapshots.get_mut(&commit) {
        *count -= 1;
        if *count == 0 {
            snapshots.remove(&commit);
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        release_in(self.shard, self.commit);
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
