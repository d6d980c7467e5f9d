//! Purge: removes what no snapshot needs, and rolls back transactions that a crash or an error interrupted.
//!
//! A background thread purges. It keeps up as long as the pages it reads are still in memory. Once it is behind by more
//! than the buffer pool holds, it waits for the disk at nearly every record, and falls further behind. So where purge
//! lags, transactions purge 64 records, more than most of them write, before their own first write
//! ([`TxnSystem::help_purge`]).
//!
//! A failure, because a page is corrupt or the disk is full, blocks nothing else: a failed rollback keeps blocking only
//! its own segment, and the pages that it needs may be ones that only purge can free.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use flifo_base::lock;

use super::TxnSystem;
use super::table::CommitNo;
use super::undo::{Purging, Record, RecordHead, Segment};
use super::version::{Header, UndoPtr};
use crate::background::{Task, Wake};
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::tree::Tree;
use crate::wait::Waiter;

/// Undo records of a segment that are looked at in one step.
const BATCH_RECORDS: usize = 256;
/// The same for a transaction that helps.
const HELP_RECORDS: usize = 64;
/// It looks around this often when there was nothing to do.
const ROUND: Duration = Duration::from_millis(20);

/// The task of one database.
pub(crate) struct Purger {
    system: Arc<TxnSystem>,
    waiter: Waiter,
    /// A rollback has failed; none is tried before.
    rolls_back_at: Option<Instant>,
}

/// What has come of purging a batch of each segment.
pub(super) struct Round {
    /// There may be more to purge.
    pub(super) more: bool,
    /// The first error. Its segment is unchanged except for the records before it.
    pub(super) failed: Option<Error>,
}

impl Purger {
    pub(crate) fn new(system: &Arc<TxnSystem>, waiter: Waiter) -> Self {
        Purger { system: Arc::clone(system), waiter, rolls_back_at: None }
    }

    /// One rollback, and a batch of each segment. After an error it tries again later.
    pub(crate) fn step(&mut self, now: Instant) -> Wake {
        let Some(_purging) = self.system.try_purge() else { return Wake::At(now + ROUND) };
        let mut more = false;
        if self.rolls_back_at.is_none_or(|at| at <= now) {
            let rolled_back = roll_back_one(&self.system, &self.waiter);
            self.rolls_back_at = rolled_back.is_err().then(|| now + ROUND);
            more = rolled_back.unwrap_or(false);
        }
        more |= purge_all(&self.system, &self.waiter).more;
        self.system.remove_left_behind(self.system.left_behind.next(), &self.waiter);
        if more { Wake::Now } else { Wake::At(now + ROUND) }
    }
}

/// Rolls back one unfinished transaction; returns whether there was one.
fn roll_back_one(system: &TxnSystem, waiter: &Waiter) -> Result<bool> {
    let Some(mut unfinished) = system.take_unfinished() else { return Ok(false) };
    if let Err(error) = system.undo_all(&mut unfinished, waiter) {
        // The disk may be full, say. Others come first.
        system.leave_unfinished(unfinished);
        return Err(error);
    }
    system.end_unfinished(unfinished);
    Ok(true)
}

/// Purges a batch of each segment.
pub(super) fn purge_all(system: &TxnSystem, waiter: &Waiter) -> Round {
    // Held to the end: the visibility of its transactions is known as long as it is held.
    let oldest = system.table.settle();
    let mut round = Round { more: false, failed: None };
    for segment in system.segments.iter().filter(|segment| segment.records() > 0) {
        // A segment that a transaction is purging needs no help.
        let Some(purging) = segment.try_purge() else { continue };
        match purge(system, purging, BATCH_RECORDS, oldest.commit, waiter) {
            Ok(more) => round.more |= more,
            Err(error) => {
                let ends_all = error.ends_all();
                round.failed.get_or_insert(error);
                if ends_all {
                    break;
                }
            }
        }
    }
    round
}

impl TxnSystem {
    /// Purges a part of a segment if purge lags there; for a transaction about to write that holds no locks yet. The
    /// purge thread retries failures.
    #[inline]
    pub(crate) fn help_purge(&self, waiter: &Waiter) {
        if self.lagging.any() {
            self.help_with_one(waiter);
        }
    }

    #[cold]
    fn help_with_one(&self, waiter: &Waiter) {
        let Some(_purging) = self.try_purge() else { return };
        let mut lagging = self.segments.rotation().filter(|segment| segment.lags());
        // Settles for nothing otherwise.
        let Some(purging) = lagging.find_map(Segment::try_purge) else { return };
        let oldest = self.table.settle();
        let _ = purge(self, purging, HELP_RECORDS, oldest.commit, waiter);
    }
}

/// Purges the records at the segment's beginning that every snapshot sees the newer versions of, `batch` at the most. Whether
/// there may be more.
fn purge(
    system: &TxnSystem,
    mut segment: Purging<'_>,
    batch: usize,
    oldest: CommitNo,
    waiter: &Waiter,
) -> Result<bool> {
    let (mut records, mut stopped_at) = (Vec::new(), None);
    segment.read(waiter, |number, record| {
        if !system.table.is_visible(record.txn, oldest) {
            stopped_at = Some((number, record.txn));
            return ControlFlow::Break(());
        }
        records.push((number, record));
        match records.len() < batch {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    let of_open = stopped_at.filter(|(_, txn)| records.is_empty() && system.table.is_active(*txn));
    let standstill = of_open.map(|(number, _)| number);
    system.segments.note_standstill(segment.index().into(), standstill, Instant::now());
    let (mut done, mut failed) = (0, Ok(()));
    for (number, record) in &records {
        match may_go(system, &segment, *number, record, waiter) {
            Ok(true) => done += 1,
            Ok(false) => break,
            Err(error) => {
                failed = Err(error);
                break;
            }
        }
    }
    let done_to = records[..done].last().map(|(last, _)| last + 1);
    // Records that purge was done with before, and whose neighbours on the page were rolled back since.
    let left_over = || (records.is_empty() && stopped_at.is_none()).then(|| segment.purged());
    if let Some(end) = done_to.or_else(left_over) {
        let removed = |records| _ = system.purged.fetch_add(records, Ordering::Relaxed);
        segment.purge_to(end, waiter, removed)?;
    }
    segment.more = failed.is_ok() && done == batch;
    failed.map(|()| segment.more)
}

/// Whether purge is done with a record, because its deleted row is gone.
fn may_go(
    system: &TxnSystem,
    segment: &Segment,
    number: u64,
    head: &RecordHead,
    waiter: &Waiter,
) -> Result<bool> {
    if !head.deletes {
        return Ok(true);
    }
    // The record's head does not have the row's key, so the whole record is read.
    let Some(record) = segment.get(number, waiter)? else { return Ok(true) };
    match remove_deleted(system, &record, UndoPtr::new(segment.index(), number), waiter) {
        // A lost row needs no removal. If the page becomes readable again, the row is a deleted one that no snapshot
        // sees. Otherwise all later records would stay forever, and no table could be dropped, including this one.
        Err(error) if error.is_damage() => Ok(true),
        removed => removed,
    }
}

/// As [`TxnSystem::remove_row`], with the deletion that a record describes.
fn remove_deleted(system: &TxnSystem, record: &Record, ptr: UndoPtr, waiter: &Waiter) -> Result<bool> {
    let is_it = |now: Header| now.deleted && now.is_of(record.txn, ptr);
    system.remove_row(&system.tree(record.tree), &record.key, is_it, waiter)
}

/// Deleted rows that have no record any more, since purge has passed it, and that had a gap lock at that time. They are
/// removed once no transaction has a gap lock there. Rows left at the end of the process stay until their key is
/// written again.
#[derive(Default)]
pub(super) struct LeftBehind(Mutex<Rows>);

/// A row's tree, and its key.
type RowPlace = (PageNo, Vec<u8>);

#[derive(Default)]
struct Rows {
    /// The versions that delete them, which every snapshot sees.
    deleted: BTreeMap<RowPlace, Header>,
    /// The row that was tried last, so that each is tried in its turn.
    last: Option<RowPlace>,
}

impl LeftBehind {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        lock(&self.0)
    }

    pub(super) fn add(&self, tree: PageNo, key: &[u8], deleted: Header) {
        self.rows().deleted.insert((tree, key.to_vec()), deleted);
    }

    /// The next rows to try.
    fn next(&self) -> Vec<(RowPlace, Header)> {
        let mut rows = self.rows();
        let from = rows.last.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = rows.deleted.range((from, Bound::Unbounded)).take(BATCH_RECORDS);
        let next: Vec<_> = next.map(|(place, deleted)| (place.clone(), *deleted)).collect();
        rows.last = next.last().filter(|_| next.len() == BATCH_RECORDS).map(|(place, _)| place.clone());
        next
    }

    pub(super) fn all(&self) -> Vec<(RowPlace, Header)> {
        self.rows().deleted.iter().map(|(place, deleted)| (place.clone(), *deleted)).collect()
    }

    /// It is gone, or was written again. If that one was left behind, too, it stays.
    fn remove(&self, place: &RowPlace, deleted: Header) {
        let mut rows = self.rows();
        if rows.deleted.get(place) == Some(&deleted) {
            rows.deleted.remove(place);
        }
    }

    /// These trees may go.
    pub(super) fn forget(&self, trees: &[PageNo]) {
        self.rows().deleted.retain(|(tree, _), _| !trees.contains(tree));
    }
}

impl TxnSystem {
    /// Removes the row if its newest version is still the given deletion and no snapshot sees another. Returns false if
    /// it has to stay for now because of a gap lock.
    pub(super) fn remove_row(
        &self,
        tree: &Tree,
        key: &[u8],
        is_it: impl Fn(Header) -> bool,
        waiter: &Waiter,
    ) -> Result<bool> {
        let held = Cell::new(false);
        tree.remove_if(waiter, key, |now| {
            let is_there = Header::of(now).is_some_and(&is_it);
            held.set(is_there && self.gaps.hold(&self.locks, tree, key));
            is_there && !held.get()
        })?;
        Ok(!held.get())
    }

    /// Removes these rows, as far as possible. The caller ensures that none of their trees is dropped during the call.
    pub(super) fn remove_left_behind(&self, rows: Vec<(RowPlace, Header)>, waiter: &Waiter) {
        for (place, deleted) in rows {
            let (root, key) = &place;
            let is_done = match self.remove_row(&self.tree(*root), key, |now| now == deleted, waiter) {
                Ok(is_done) => is_done,
                // As with a record's deletion, see above. All other errors are retried.
                Err(error) => error.is_damage(),
            };
            if is_done {
                self.left_behind.remove(&place, deleted);
            }
        }
    }
}

impl Task for Purger {
    fn step(&mut self, now: Instant) -> Wake {
        Purger::step(self, now)
    }
}
