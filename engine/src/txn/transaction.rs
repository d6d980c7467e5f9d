//! A transaction from its beginning to its end.

use std::sync::atomic::Ordering;

use super::segments::SegmentUse;
use super::snapshot_read::HeldSnapshots;
use super::system::Unfinished;
use super::table::{CommitNo, Snapshot};
use super::undo::{Record, What};
use super::version::{Header, UndoPtr};
use super::{Isolation, TxnId, TxnSystem};
use crate::error::{Error, Result};
use crate::wait::Waiter;

/// A transaction. One that is dropped without an end is rolled back by purge's thread.
pub(crate) struct Txn<'s> {
    pub(super) system: &'s TxnSystem,
    pub(super) isolation: Isolation,
    pub(super) lane: usize,
    pub(super) writing: Option<Writing<'s>>,
    /// Counts as a holder of gap locks.
    pub(super) locks_gaps: bool,
    snapshot: Option<Snapshot<'s>>,
    ended: bool,
}

/// What a transaction has from its first write on.
pub(super) struct Writing<'s> {
    pub(super) id: TxnId,
    /// The segment of its records, from the first one on. So a thousand transactions that wait for their first row use
    /// no segment, and running ones find free segments.
    segment: Option<SegmentUse<'s>>,
    /// Its records, the oldest first.
    pub(super) undo: Vec<UndoPtr>,
    /// In which records and versions are put together.
    pub(super) buffer: Vec<u8>,
    pub(super) held: HeldSnapshots,
}

/// How much a transaction had written; the default is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Savepoint {
    records: usize,
    /// The newest of these records. No open of the database reuses a record's number, so this distinguishes a valid
    /// savepoint from one beyond which the transaction was rolled back.
    last: Option<UndoPtr>,
}

/// The snapshot of an operation; under read committed it holds one of its own.
pub(super) struct View<'s> {
    pub(super) commit: CommitNo,
    /// The transaction whose changes it sees, whether committed or not.
    pub(super) own: Option<Own>,
    _held: Option<Snapshot<'s>>,
}

/// The visible part of a transaction's own changes.
#[derive(Clone, Copy)]
pub(super) struct Own {
    txn: TxnId,
    /// Sees changes up to this record; `None`: all.
    to: Option<UndoPtr>,
}

impl Own {
    pub(super) fn sees(&self, version: &Header) -> bool {
        // All records of a transaction are in one segment, in order; after it has undone all, perhaps in another.
        let is_old =
            |to: UndoPtr| version.undo.segment() == to.segment() && version.undo.number() <= to.number();
        version.txn == self.txn && self.to.is_none_or(is_old)
    }
}

impl<'s> Writing<'s> {
    /// Writes an undo record. The caller adds it to `undo`, if it is not the last of all.
    pub(super) fn append<B: AsRef<[u8]>>(
        &mut self,
        system: &'s TxnSystem,
        record: &Record<B>,
        waiter: &Waiter,
    ) -> Result<UndoPtr> {
        let segment = self.segment.get_or_insert_with(|| system.segments.take());
        segment.append(record, &mut self.buffer, waiter)
    }

    /// Removes its newest record, which has no change.
    pub(super) fn take_back(&mut self, waiter: &Waiter) -> Result<()> {
        if let (Some(segment), Some(newest)) = (&self.segment, self.undo.last()) {
            segment.remove(newest.number(), waiter)?;
            self.undo.pop();
        }
        if self.undo.is_empty() {
            self.segment = None;
        }
        Ok(())
    }
}

impl View<'_> {
    /// A view of a snapshot that another object holds.
    pub(super) fn held_elsewhere(commit: CommitNo, own: Option<Own>) -> Self {
        View { commit, own, _held: None }
    }
}

impl<'s> Txn<'s> {
    /// `lane` spreads concurrent transactions over shards.
    pub(crate) fn begin(system: &'s TxnSystem, isolation: Isolation, lane: usize) -> Self {
        Txn { system, isolation, lane, writing: None, locks_gaps: false, snapshot: None, ended: false }
    }

    pub(super) fn check_active(&self) -> Result<()> {
        if self.ended { Err(Error::TransactionEnded) } else { Ok(()) }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether others may wait for it.
    pub(crate) fn has_written(&self) -> bool {
        self.writing.is_some()
    }

    /// What the next operation sees.
    pub(super) fn view(&mut self) -> View<'s> {
        let own = self.writing.as_ref().map(|writing| Own { txn: writing.id, to: None });
        match self.isolation {
            Isolation::ReadCommitted | Isolation::Serializable => {
                let held = self.system.table.snapshot(self.lane);
                View { commit: held.commit, own, _held: Some(held) }
            }
            Isolation::RepeatableRead => {
                let snapshot = self.snapshot.get_or_insert_with(|| self.system.table.snapshot(self.lane));
                View { commit: snapshot.commit, own, _held: None }
            }
        }
    }

    /// Its own changes so far.
    pub(super) fn own_until_now(&self) -> Option<Own> {
        let writing = self.writing.as_ref()?;
        writing.undo.last().map(|&last| Own { txn: writing.id, to: Some(last) })
    }

    /// Assigns an id, if it has none. From here on the transaction counts as active.
    pub(crate) fn begin_writing(&mut self) -> Result<()> {
        self.check_active()?;
        self.writing().map(drop)
    }

    pub(super) fn writing(&mut self) -> Result<&mut Writing<'s>> {
        if self.writing.is_none() {
            let id = self.system.begin()?;
            let (undo, buffer, held) = (Vec::new(), Vec::new(), HeldSnapshots::default());
            self.writing = Some(Writing { id, segment: None, undo, buffer, held });
        }
        Ok(self.writing.as_mut().expect("there is one now"))
    }

    /// A place to come back to with [`Txn::rollback_to`].
    pub(crate) fn savepoint(&self) -> Savepoint {
        self.writing.as_ref().map_or(Savepoint::default(), |writing| Savepoint {
            records: writing.undo.len(),
            last: writing.undo.last().copied(),
        })
    }

    /// Undoes the changes after the savepoint. Locks that were waited for stay. If the undo fails, the transaction has
    /// ended, and the purge thread rolls it back as a whole.
    pub(crate) fn rollback_to(&mut self, savepoint: Savepoint, waiter: &Waiter) -> Result<()> {
        self.check_active()?;
        let undo = self.writing.as_ref().map_or(&[][..], |writing| &writing.undo);
        let is_there = match savepoint.records.checked_sub(1) {
            None => true,
            Some(last) => undo.get(last).copied() == savepoint.last,
        };
        if !is_there {
            return Err(Error::UnknownSavepoint);
        }
        let undone = self.undo_to(savepoint.records, |txn, next| txn.keep_locks_of(next, waiter), waiter);
        undone.inspect_err(|_| self.leave())
    }

    /// Undoes the changes after the savepoint, the newest first; calls `before` for each record.
    fn undo_to(
        &mut self,
        savepoint: usize,
        mut before: impl FnMut(&Self, UndoPtr) -> Result<()>,
        waiter: &Waiter,
    ) -> Result<()> {
        self.check_active()?;
        if let Some(writing) = &mut self.writing {
            writing.held.begin_undo(savepoint);
        }
        let records = |txn: &Self| txn.writing.as_ref().map_or(0, |writing| writing.undo.len());
        while records(self) > savepoint {
            let writing = self.writing.as_ref().expect("it has records");
            let last = *writing.undo.last().expect("it is not empty");
            before(self, last)?;
            self.system.undo_one(last, waiter)?;
            self.writing.as_mut().expect("it has records").undo.pop();
        }
        if let Some(writing) = &mut self.writing {
            writing.held.end_undo(savepoint);
        }
        Ok(())
    }

    /// What reads have seen stays locked when a change is undone, though its id is not in the row any more.
    fn keep_locks_of(&self, ptr: UndoPtr, waiter: &Waiter) -> Result<()> {
        if !self.reads_lock() {
            return Ok(());
        }
        match self.system.undo(ptr, waiter)? {
            Some(Record { what: What::Commit | What::Prepared, .. }) | None => Ok(()),
            Some(record) => self.keep_locks(ptr, &record, waiter),
        }
    }

    /// Becomes visible, and releases its locks. It is durable once the redo log is durable up to its present end.
    /// Returns whether there is anything to make durable.
    pub(crate) fn commit(&mut self, waiter: &Waiter) -> Result<bool> {
        self.check_active()?;
        let wrote = self.writing.as_ref().is_some_and(|writing| !writing.undo.is_empty());
        if let Some(writing) = &mut self.writing
            && wrote
        {
            writing.append(self.system, &Record::commit(writing.id), waiter)?;
            self.system.commits.fetch_add(1, Ordering::Relaxed);
        }
        self.end();
        Ok(wrote)
    }

    /// Undoes all that it has written.
    pub(crate) fn rollback(&mut self, waiter: &Waiter) -> Result<()> {
        // One that has only locked rows is not counted, as it is not when it commits.
        let wrote = self.writing.as_ref().is_some_and(|writing| !writing.undo.is_empty());
        self.undo_to(0, |_, _| Ok(()), waiter)?;
        if wrote {
            self.system.rollbacks.fetch_add(1, Ordering::Relaxed);
        }
        self.end();
        Ok(())
    }

    /// Runs a statement of several changes, and undoes all of them after an error. The transaction continues. If the
    /// undo fails, the transaction has ended, and the purge thread rolls it back.
    pub(crate) fn statement<T>(
        &mut self,
        waiter: &Waiter,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let savepoint = self.savepoint();
        f(self).inspect_err(|_| {
            if !self.ended {
                let _ = self.rollback_to(savepoint, waiter);
            }
        })
    }

    /// Its rollback has failed, or was not tried: others wait for its rows, so purge's thread does it.
    pub(super) fn leave(&mut self) {
        if self.writing.is_some() {
            let unfinished = self.detach();
            self.system.leave_unfinished(unfinished);
        }
    }

    /// Ends the transaction for its owner, and moves its state to the thread that finishes it.
    pub(super) fn detach(&mut self) -> Unfinished {
        let Writing { id, segment, undo, held, .. } = self.writing.take().expect("it has written");
        let used = undo.last().map(|last| last.segment());
        if used.is_some() {
            // It ends with `TxnSystem::end_unfinished`.
            std::mem::forget(segment);
        }
        self.snapshot = None;
        self.ended = true;
        Unfinished { txn: id, undo, segment: used, locks_gaps: self.locks_gaps, held }
    }

    /// As it is after [`Txn::commit`] or [`Txn::rollback`].
    pub(super) fn end(&mut self) {
        if let Some(writing) = self.writing.take() {
            self.system.end(writing.id, self.locks_gaps);
        }
        self.snapshot = None;
        self.ended = true;
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}
