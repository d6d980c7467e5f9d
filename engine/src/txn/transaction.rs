//! A transaction's life.

use std::sync::atomic::Ordering;

use super::system::Unfinished;
use super::table::{CommitNo, Snapshot};
use super::undo::{Record, Segment};
use super::version::UndoPtr;
use super::{Isolation, TxnId, TxnSystem};
use crate::error::{Error, Result};
use crate::wait::Waiter;

/// A transaction. One that is dropped without an end is rolled back by purge's thread.
pub(crate) struct Txn<'s> {
    pub(super) system: &'s TxnSystem,
    pub(super) isolation: Isolation,
    pub(super) lane: usize,
    pub(super) writing: Option<Writing<'s>>,
    snapshot: Option<Snapshot<'s>>,
    ended: bool,
}

/// What a transaction has from its first write on.
pub(super) struct Writing<'s> {
    pub(super) id: TxnId,
    pub(super) segment: &'s Segment,
    /// Its records, the oldest first.
    pub(super) undo: Vec<UndoPtr>,
}

/// What an operation sees: for read committed a snapshot of its own, which it holds.
pub(super) struct View<'s> {
    pub(super) commit: CommitNo,
    pub(super) own: Option<TxnId>,
    _held: Option<Snapshot<'s>>,
}

impl View<'_> {
    /// What somebody else holds.
    pub(super) fn held_elsewhere(commit: CommitNo, own: Option<TxnId>) -> Self {
        View { commit, own, _held: None }
    }
}

impl<'s> Txn<'s> {
    /// `lane` spreads transactions that go on beside each other.
    pub(crate) fn begin(system: &'s TxnSystem, isolation: Isolation, lane: usize) -> Self {
        Txn { system, isolation, lane, writing: None, snapshot: None, ended: false }
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
        let own = self.writing.as_ref().map(|writing| writing.id);
        match self.isolation {
            Isolation::ReadCommitted => {
                let held = self.system.table.snapshot(self.lane);
                View { commit: held.commit, own, _held: Some(held) }
            }
            Isolation::RepeatableRead => {
                let snapshot = self.snapshot.get_or_insert_with(|| self.system.table.snapshot(self.lane));
                View { commit: snapshot.commit, own, _held: None }
            }
        }
    }

    /// Gets an id, if it has none: it is active, and counted as such, from here on.
    pub(crate) fn begin_writing(&mut self) -> Result<()> {
        self.check_active()?;
        self.writing().map(drop)
    }

    pub(super) fn writing(&mut self) -> Result<&mut Writing<'s>> {
        if self.writing.is_none() {
            let (id, segment) = (self.system.begin()?, self.system.segment());
            self.writing = Some(Writing { id, segment, undo: Vec::new() });
        }
        Ok(self.writing.as_mut().expect("there is one now"))
    }

    /// A place to come back to with [`Txn::rollback_to`].
    pub(crate) fn savepoint(&self) -> usize {
        self.writing.as_ref().map_or(0, |writing| writing.undo.len())
    }

    /// Undoes what was written after the savepoint. Locks that were waited for stay.
    pub(crate) fn rollback_to(&mut self, savepoint: usize, waiter: &Waiter) -> Result<()> {
        self.check_active()?;
        let system = self.system;
        let Some(writing) = &mut self.writing else { return Ok(()) };
        while writing.undo.len() > savepoint {
            let last = *writing.undo.last().expect("it is not empty");
            system.undo_one(last, waiter)?;
            writing.undo.pop();
        }
        Ok(())
    }

    /// Becomes visible, and lets go of its locks. It is durable when the redo log is, up to its end as it is then.
    /// Whether there is anything to be durable.
    pub(crate) fn commit(&mut self, waiter: &Waiter) -> Result<bool> {
        self.check_active()?;
        let wrote = self.writing.as_ref().is_some_and(|writing| !writing.undo.is_empty());
        if let Some(writing) = &self.writing
            && wrote
        {
            writing.segment.append(&Record::commit(writing.id), waiter)?;
            self.system.commits.fetch_add(1, Ordering::Relaxed);
        }
        self.end();
        Ok(wrote)
    }

    /// Undoes all that it has written.
    pub(crate) fn rollback(&mut self, waiter: &Waiter) -> Result<()> {
        self.rollback_to(0, waiter)?;
        if self.writing.is_some() {
            self.system.rollbacks.fetch_add(1, Ordering::Relaxed);
        }
        self.end();
        Ok(())
    }

    /// Runs a statement of several changes: after an error, all that it has changed is undone. The transaction goes on,
    /// but if that cannot be done now, it has ended, and purge's thread does it.
    pub(crate) fn statement<T>(
        &mut self,
        waiter: &Waiter,
        f: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let savepoint = self.savepoint();
        f(self).inspect_err(|_| {
            if !self.ended && self.rollback_to(savepoint, waiter).is_err() {
                self.leave();
                (self.snapshot, self.ended) = (None, true);
            }
        })
    }

    /// As it is after [`Txn::commit`] or [`Txn::rollback`].
    fn end(&mut self) {
        if let Some(writing) = self.writing.take() {
            self.system.end(writing.id);
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

impl Txn<'_> {
    /// Its rollback has failed, or was not tried: others wait for its rows.
    fn leave(&mut self) {
        if let Some(Writing { id, undo, .. }) = self.writing.take() {
            self.system.leave_unfinished(Unfinished { txn: id, undo });
        }
    }
}
