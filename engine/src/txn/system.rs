//! The state that all transactions of a database share, and its recovery after a crash.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use flifo_base::{lock, try_read, write};

use super::locking::Gaps;
use super::prepared::Prepared;
use super::purge::LeftBehind;
use super::segments::Segments;
use super::snapshot_read::HeldSnapshots;
use super::table::TxnTable;
use super::undo::{Lagging, Record, Segment, What};
use super::version::{Header, UndoPtr};
use super::{TxnId, TxnStats};
use crate::buffer::BufferPool;
use crate::error::{Error, Result};
use crate::lock::{LockConfig, LockTable};
use crate::metrics::WaitReason;
use crate::page::PageNo;
use crate::space::PageAllocator;
use crate::tree::Tree;
use crate::wait::Waiter;

/// Writes to the redo log that transaction ids below its argument may have been given.
pub(crate) type Reserve = Box<dyn Fn(u64) -> Result<()> + Send + Sync>;

/// What the system is made from.
pub(crate) struct SystemConfig {
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) alloc: Arc<PageAllocator>,
    /// The rollback segments' trees.
    pub(crate) segments: Vec<Tree>,
    /// No transaction had this id yet, or a later one.
    pub(crate) next: TxnId,
    pub(crate) reserve: Reserve,
    pub(crate) lock_wait_timeout: Duration,
}

/// The transactions of a database.
pub(crate) struct TxnSystem {
    pub(super) table: TxnTable,
    pub(super) locks: Arc<LockTable>,
    pub(super) gaps: Gaps,
    pub(super) segments: Segments,
    pub(super) lagging: Arc<Lagging>,
    pub(super) lock_wait_timeout: Duration,
    pool: Arc<BufferPool>,
    alloc: Arc<PageAllocator>,
    reserve: Reserve,
    /// Held shared during purge or rollback in the background, and exclusively by a thread that pauses both.
    purging: RwLock<()>,
    /// Transactions that a crash or an error interrupted, with their records.
    unfinished: Mutex<VecDeque<Unfinished>>,
    pub(super) prepared: Prepared,
    pub(super) left_behind: LeftBehind,
    pub(super) commits: AtomicU64,
    pub(super) rollbacks: AtomicU64,
    pub(super) purged: AtomicU64,
}

/// A transaction without a commit.
pub(super) struct Unfinished {
    pub(super) txn: TxnId,
    /// Its records that are not undone, the oldest first.
    pub(super) undo: Vec<UndoPtr>,
    /// The segment that they are in, which it uses, if it has any.
    pub(super) segment: Option<usize>,
    /// Counts as a holder of gap locks.
    pub(super) locks_gaps: bool,
    pub(super) held: HeldSnapshots,
}

impl TxnSystem {
    /// Reads the rollback segments. Unfinished transactions stay active until the purge thread has rolled them back.
    pub(crate) fn open(config: SystemConfig, waiter: &Waiter) -> Result<Arc<TxnSystem>> {
        let mut unfinished: BTreeMap<TxnId, Vec<UndoPtr>> = BTreeMap::new();
        let mut xids: BTreeMap<TxnId, Vec<u8>> = BTreeMap::new();
        let (mut segments, lagging) = (Vec::new(), Arc::<Lagging>::default());
        for (index, tree) in config.segments.into_iter().enumerate() {
            let index = u8::try_from(index)
                .map_err(|_| Error::CorruptUndo { what: "too many segments".to_owned() })?;
            let mut committed = Vec::new();
            let mut prepared = Vec::new();
            let segment = Segment::open(index, tree, Arc::clone(&lagging), waiter, |number, record| {
                if record.is_commit() {
                    committed.push(record.txn);
                    return;
                }
                unfinished.entry(record.txn).or_default().push(UndoPtr::new(index, number));
                if record.is_prepared() {
                    prepared.push(number);
                }
            })?;
            for number in prepared {
                if let Some(record) = segment.get(number, waiter)? {
                    xids.insert(record.txn, record.key);
                }
            }
            segments.push(segment);
            committed.iter().for_each(|txn| drop(unfinished.remove(txn)));
        }
        let active: Vec<TxnId> = unfinished.keys().copied().collect();
        if active.last().is_some_and(|&last| last >= config.next) {
            return Err(Error::CorruptUndo { what: "a record's transaction was never begun".to_owned() });
        }
        let segments = Segments::new(segments);
        let (mut in_doubt, mut losers) = (Vec::new(), VecDeque::new());
        for (txn, undo) in unfinished {
            let segment = undo.last().map(|last| last.segment());
            segment.iter().for_each(|&segment| segments.begin_use(segment));
            let unfinished =
                Unfinished { txn, undo, segment, locks_gaps: false, held: HeldSnapshots::default() };
            match xids.remove(&txn) {
                Some(xid) => in_doubt.push((xid, unfinished)),
                None => losers.push_back(unfinished),
            }
        }
        Ok(Arc::new(TxnSystem {
            table: TxnTable::new(config.next, &active),
            locks: Arc::new(LockTable::new(LockConfig::default())),
            gaps: Gaps::default(),
            segments,
            lagging,
            lock_wait_timeout: config.lock_wait_timeout,
            pool: config.pool,
            alloc: config.alloc,
            reserve: config.reserve,
            purging: RwLock::default(),
            unfinished: Mutex::new(losers),
            prepared: Prepared::new(in_doubt),
            left_behind: LeftBehind::default(),
            commits: AtomicU64::new(0),
            rollbacks: AtomicU64::new(0),
            purged: AtomicU64::new(0),
        }))
    }

    pub(super) fn begin(&self) -> Result<TxnId> {
        self.table.begin(&self.reserve)
    }

    /// An error if no transaction can end any more.
    pub(super) fn check_open(&self) -> Result<()> {
        self.pool.log().check_open()
    }

    pub(super) fn tree(&self, root: PageNo) -> Tree {
        Tree::open(&self.pool, &self.alloc, root)
    }

    /// The undo record; `None` if it was purged, or its transaction rolled back.
    pub(super) fn undo(&self, ptr: UndoPtr, waiter: &Waiter) -> Result<Option<Record>> {
        self.segment(ptr)?.get(ptr.number(), waiter)
    }

    /// The segment of the record.
    pub(super) fn segment(&self, ptr: UndoPtr) -> Result<&Segment> {
        let segment = self.segments.get(ptr.segment());
        segment.ok_or_else(|| Error::CorruptUndo { what: format!("there is no segment {}", ptr.segment()) })
    }

    /// Puts the version before in place again, if the record's change was made, and removes the record. That comes last: what a
    /// crash or an error cuts off is done again.
    pub(super) fn undo_one(&self, ptr: UndoPtr, waiter: &Waiter) -> Result<()> {
        let Some(record) = self.undo(ptr, waiter)? else { return Ok(()) };
        let tree = self.tree(record.tree);
        let is_own = |now: Option<&[u8]>| Header::of(now).is_some_and(|now| now.is_of(record.txn, ptr));
        match &record.what {
            What::Added => drop(tree.remove_if(waiter, &record.key, is_own)?),
            What::Replaced(before) => {
                tree.put_if(waiter, &record.key, before, is_own)?;
                self.remove_passed(&tree, &record.key, before, waiter)?;
            }
            What::Commit | What::Prepared => {}
        }
        self.segment(ptr)?.remove(ptr.number(), waiter)
    }

    /// Removes a deleted row that a rollback restored, if every snapshot sees the deletion: purge may have passed it
    /// while there was a newer version, and does not come back. A row with a gap lock is removed later. If some
    /// snapshot does not see the deletion, purge has not passed it.
    fn remove_passed(&self, tree: &Tree, key: &[u8], version: &[u8], waiter: &Waiter) -> Result<()> {
        let Some(deleted) = Header::of(Some(version)).filter(|version| version.deleted) else {
            return Ok(());
        };
        let oldest = self.table.settle();
        let is_passed = self.table.is_visible(deleted.txn, oldest.commit);
        if is_passed && !self.remove_row(tree, key, |now| now == deleted, waiter)? {
            self.left_behind.add(tree.root(), key, deleted);
        }
        Ok(())
    }

    /// Undoes the remaining records, the newest first. Undone records are removed from the list, also after an error.
    pub(super) fn undo_all(&self, unfinished: &mut Unfinished, waiter: &Waiter) -> Result<()> {
        unfinished.held.begin_undo(0);
        while let Some(&newest) = unfinished.undo.last() {
            self.undo_one(newest, waiter)?;
            unfinished.undo.pop();
        }
        unfinished.held.end_undo(0);
        self.rollbacks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The transaction has ended, and none of its versions is in doubt.
    pub(super) fn end(&self, txn: TxnId, locks_gaps: bool) {
        // In this order: see `LockTable::make_explicit`.
        self.table.end(txn);
        self.locks.release_all(txn);
        if locks_gaps {
            self.gaps.leave();
        }
    }

    /// As [`TxnSystem::end`], of an unfinished transaction.
    pub(super) fn end_unfinished(&self, unfinished: Unfinished) {
        if let Some(segment) = unfinished.segment {
            self.segments.end_use(segment);
        }
        self.end(unfinished.txn, unfinished.locks_gaps);
    }

    /// Takes an interrupted transaction that no thread is rolling back yet.
    pub(super) fn take_unfinished(&self) -> Option<Unfinished> {
        self.unfinished().pop_front()
    }

    /// Leaves a transaction for the purge thread to roll back.
    pub(super) fn leave_unfinished(&self, unfinished: Unfinished) {
        self.unfinished().push_back(unfinished);
    }

    fn unfinished(&self) -> MutexGuard<'_, VecDeque<Unfinished>> {
        lock(&self.unfinished)
    }

    /// The background neither purges nor rolls back until the result is dropped.
    pub(crate) fn pause_purge(&self, waiter: &Waiter) -> RwLockWriteGuard<'_, ()> {
        waiter.wait(WaitReason::Catalog, || write(&self.purging))
    }

    /// The right to purge and to roll back in the background; `None` while it is paused.
    pub(super) fn try_purge(&self) -> Option<RwLockReadGuard<'_, ()>> {
        try_read(&self.purging)
    }

    /// Purges all undo records, so that none refers to a table that is going to be dropped. Returns false if that is
    /// not possible, because transactions are active or hold old snapshots. Without older versions, present snapshots
    /// need none.
    ///
    /// Some records may have to stay, since their rollback or purge keeps failing. They block the dropping of the
    /// tables that they refer to. The roots `of` are those of the tables to be dropped.
    pub(crate) fn forget_history(&self, of: &[PageNo], waiter: &Waiter) -> Result<bool> {
        // Keeps purge and rollbacks of other threads out.
        let _no_purge = self.pause_purge(waiter);
        let (mut unfinished, mut failed);
        loop {
            // In this order: each unfinished transaction is active, so equal counts mean that no other transaction is.
            unfinished = self.unfinished().len() as u64;
            if self.table.active() != unfinished {
                return Ok(false);
            }
            if self.has_no_history(waiter)? {
                self.forget_left_behind(of, waiter);
                return Ok(true);
            }
            let is_looked_at = self.table.has_snapshots();
            let before = self.purge_position();
            failed = super::purge::purge_all(self, waiter).failed;
            // Even with readers, most of the history is there because purge has not come by yet, not because a reader
            // needs it.
            let stands_still = self.purge_position() == before;
            if stands_still && is_looked_at && unfinished == 0 && failed.is_none() {
                return Ok(false);
            }
            if stands_still && (failed.is_some() || is_looked_at || unfinished > 0) {
                break;
            }
        }
        // Unfinished transactions do not write to trees without a handle.
        match self.has_history_of(of, waiter)? {
            false => {
                self.forget_left_behind(of, waiter);
                Ok(true)
            }
            true => failed.map_or(Ok(false), Err),
        }
    }

    /// Only transactions whose rollback fails are active, so the left-behind rows are removed as far as possible,
    /// before the trees.
    fn forget_left_behind(&self, of: &[PageNo], waiter: &Waiter) {
        self.remove_left_behind(self.left_behind.all(), waiter);
        self.left_behind.forget(of);
    }

    /// How far purge is in each segment, and how much is there: the same again if it has done nothing.
    fn purge_position(&self) -> Vec<(u64, u64)> {
        self.segments.iter().map(|segment| (segment.purged(), segment.records())).collect()
    }

    fn has_no_history(&self, waiter: &Waiter) -> Result<bool> {
        self.segments.iter().try_fold(true, |none, segment| Ok(none && segment.is_empty(waiter)?))
    }

    fn has_history_of(&self, trees: &[PageNo], waiter: &Waiter) -> Result<bool> {
        self.segments.iter().try_fold(false, |any, segment| Ok(any || segment.has_any_of(trees, waiter)?))
    }

    /// All row locks.
    pub(crate) fn locks(&self) -> &Arc<LockTable> {
        &self.locks
    }

    /// How many transactions use a rollback segment.
    #[cfg(test)]
    pub(crate) fn segment_users(&self) -> u32 {
        self.segments.users()
    }

    pub(crate) fn stats(&self) -> TxnStats {
        TxnStats {
            active: self.table.active(),
            commits: self.commits.load(Ordering::Relaxed),
            rollbacks: self.rollbacks.load(Ordering::Relaxed),
            history: self.segments.iter().map(Segment::records).sum(),
            purged: self.purged.load(Ordering::Relaxed),
        }
    }
}
