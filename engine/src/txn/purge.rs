//! Purge: removes what no snapshot can ask for any more; before that, after a crash, rolls back what was cut off.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::TxnSystem;
use super::table::CommitNo;
use super::undo::{Record, Segment};
use super::version::{Header, UndoPtr};
use crate::background::{Task, Wake};
use crate::error::Result;
use crate::wait::Waiter;

/// Undo records of a segment that are looked at in one step.
const BATCH_RECORDS: usize = 256;
/// It looks around this often when there was nothing to do.
const ROUND: Duration = Duration::from_millis(20);

/// The task of one database.
pub(crate) struct Purger {
    system: Arc<TxnSystem>,
    waiter: Waiter,
}

impl Purger {
    pub(crate) fn new(system: &Arc<TxnSystem>, waiter: Waiter) -> Self {
        Purger { system: Arc::clone(system), waiter }
    }

    /// A batch of each segment, or one rollback. After an error it tries again later.
    pub(crate) fn step(&mut self, now: Instant) -> Wake {
        match self.try_step() {
            Ok(true) => Wake::Now,
            Ok(false) | Err(_) => Wake::At(now + ROUND),
        }
    }

    fn try_step(&mut self) -> Result<bool> {
        let Some(_purging) = self.system.try_purge() else { return Ok(false) };
        if let Some(mut unfinished) = self.system.take_unfinished() {
            if let Err(error) = self.system.undo_all(&mut unfinished, &self.waiter) {
                // The disk may be full, say. Others come first.
                self.system.leave_unfinished(unfinished);
                return Err(error);
            }
            self.system.end_unfinished(unfinished);
            return Ok(true);
        }
        purge_all(&self.system, &self.waiter)
    }
}

/// Purges a batch of each segment; whether there may be more.
pub(super) fn purge_all(system: &TxnSystem, waiter: &Waiter) -> Result<bool> {
    // Held to the end: what it sees can be told as long as it is.
    let oldest = system.table.settle();
    let mut more = false;
    for segment in system.segments.iter().filter(|segment| segment.records() > 0) {
        more |= purge(system, segment, oldest.commit, waiter)?;
    }
    Ok(more)
}

/// Purges the records at the segment's beginning that every snapshot sees the newer versions of.
fn purge(system: &TxnSystem, segment: &Segment, oldest: CommitNo, waiter: &Waiter) -> Result<bool> {
    let (mut records, mut stopped_at) = (Vec::new(), None);
    segment.read(waiter, |number, record| {
        if !system.table.is_visible(record.txn, oldest) {
            stopped_at = Some((number, record.txn));
            return ControlFlow::Break(());
        }
        records.push((number, record));
        match records.len() < BATCH_RECORDS {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    let of_open = stopped_at.filter(|(_, txn)| records.is_empty() && system.table.is_active(*txn));
    let standstill = of_open.map(|(number, _)| number);
    system.segments.note_standstill(segment.index().into(), standstill, Instant::now());
    let mut done = 0;
    for (number, record) in &records {
        // Its beginning says nothing of the row: the whole record is read.
        if record.deletes
            && let Some(record) = segment.get(*number, waiter)?
            && !remove_deleted(system, &record, UndoPtr::new(segment.index(), *number), waiter)?
        {
            break;
        }
        done += 1;
    }
    let done_to = records[..done].last().map(|(last, _)| last + 1);
    // Some that it was done with before, and what they shared a page with was rolled back since.
    let left_over = || (records.is_empty() && stopped_at.is_none()).then(|| segment.purged());
    if let Some(end) = done_to.or_else(left_over) {
        let removed = |records| _ = system.purged.fetch_add(records, Ordering::Relaxed);
        segment.purge_to(end, waiter, removed)?;
    }
    Ok(done == BATCH_RECORDS)
}

/// If the deletion is the row's newest version still, nobody sees another, and the row goes. False if it has to stay for
/// now: somebody has a gap lock there.
fn remove_deleted(system: &TxnSystem, record: &Record, ptr: UndoPtr, waiter: &Waiter) -> Result<bool> {
    let tree = system.tree(record.tree);
    let held = Cell::new(false);
    tree.remove_if(waiter, &record.key, |now| {
        held.set(false);
        if !Header::of(now).is_some_and(|now| now.deleted && now.is_of(record.txn, ptr)) {
            return false;
        }
        held.set(system.gaps.hold(&system.locks, &tree, &record.key));
        !held.get()
    })?;
    Ok(!held.get())
}

impl Task for Purger {
    fn step(&mut self, now: Instant) -> Wake {
        Purger::step(self, now)
    }
}
