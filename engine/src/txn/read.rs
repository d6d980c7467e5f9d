//! Reads: from the newest version back to the one that the view sees.

use std::ops::{Bound, ControlFlow};

use super::transaction::View;
use super::undo::What;
use super::version::{Chain, HEADER_BYTES, Header};
use super::{Isolation, Txn};
use crate::error::{Error, Result};
use crate::lock::LockMode;
use crate::tree::Tree;
use crate::wait::Waiter;

/// What became of a search for the visible version.
enum Found {
    Value(Vec<u8>),
    Nothing,
    /// An undo record on the way is gone: its transaction was rolled back, so the row has changed.
    Changed,
}

impl<'s> Txn<'s> {
    /// Replaces `out` by the row's value; returns false, and empties `out`, if this transaction sees none.
    pub(crate) fn get(
        &mut self,
        tree: &Tree,
        key: &[u8],
        out: &mut Vec<u8>,
        waiter: &Waiter,
    ) -> Result<bool> {
        if self.reads_lock() {
            return self.get_locked(tree, key, LockMode::Shared, out, waiter);
        }
        self.check_active()?;
        if self.isolation == Isolation::ReadCommitted
            && let Some(found) = self.get_newest(tree, key, out, waiter)?
        {
            return Ok(found);
        }
        let view = self.view();
        self.get_in(&view, tree, key, out, waiter)
    }

    /// As [`Txn::get`] under read committed, without a snapshot: the newest version, if it is this transaction's, or its
    /// transaction had ended before. `None` if an older one may be called for.
    fn get_newest(
        &self,
        tree: &Tree,
        key: &[u8],
        out: &mut Vec<u8>,
        waiter: &Waiter,
    ) -> Result<Option<bool>> {
        // Before the row is read: one that ends afterwards may have changed it again before it did.
        let before = self.system.table.ended();
        if !tree.get(waiter, key, out)? {
            return Ok(Some(false));
        }
        let (header, _) = Header::decode(out).map_err(|_| bad_version(tree))?;
        let is_own = || self.writing.as_ref().is_some_and(|writing| writing.id == header.txn);
        let is_seen = self.system.table.had_ended(header.txn, before) || is_own();
        Ok(is_seen.then(|| given(&header, out)))
    }

    pub(super) fn get_in(
        &self,
        view: &View<'_>,
        tree: &Tree,
        key: &[u8],
        out: &mut Vec<u8>,
        waiter: &Waiter,
    ) -> Result<bool> {
        let mut before = None;
        loop {
            if !tree.get(waiter, key, out)? {
                return Ok(false);
            }
            let (header, _) = Header::decode(out).map_err(|_| bad_version(tree))?;
            if self.sees(view, &header) {
                return Ok(given(&header, out));
            }
            match self.search(view, tree, key, out, waiter)? {
                Found::Value(value) => {
                    *out = value;
                    return Ok(true);
                }
                Found::Nothing => {
                    out.clear();
                    return Ok(false);
                }
                // A rollback puts the version before in its place first, and removes the record then.
                Found::Changed if before == Some(header) => return Err(missing(&header)),
                Found::Changed => before = Some(header),
            }
        }
    }

    fn sees(&self, view: &View<'_>, header: &Header) -> bool {
        view.own.is_some_and(|own| own.sees(header)) || self.system.table.is_visible(header.txn, view.commit)
    }

    /// The version that the view sees, from `newest` backwards.
    fn search(
        &self,
        view: &View<'_>,
        tree: &Tree,
        key: &[u8],
        newest: &[u8],
        waiter: &Waiter,
    ) -> Result<Found> {
        let (mut version, mut chain) = (newest.to_vec(), Chain::default());
        loop {
            let (header, value) = Header::decode(&version).map_err(|_| bad_version(tree))?;
            if self.sees(view, &header) {
                return Ok(if header.deleted { Found::Nothing } else { Found::Value(value.to_vec()) });
            }
            chain.step(header.undo)?;
            let Some(record) = self.system.undo(header.undo, waiter)? else { return Ok(Found::Changed) };
            if record.txn != header.txn || record.key != key || record.tree != tree.root() {
                let what = format!("a version of transaction {} has another's record", header.txn.0);
                return Err(Error::CorruptUndo { what });
            }
            match record.what {
                What::Added => return Ok(Found::Nothing),
                What::Replaced(before) => version = before,
                What::Commit | What::Prepared => {
                    return Err(Error::CorruptUndo {
                        what: "a version's record is of its transaction".to_owned(),
                    });
                }
            }
        }
    }

    /// Passes the rows between `from` and `to` that this transaction sees to `each`, ascending, until it breaks. No
    /// latch is held during `each`.
    pub(crate) fn scan(
        &mut self,
        tree: &Tree,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        waiter: &Waiter,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.check_active()?;
        if self.reads_lock() {
            return self.scan_locked(tree, (from, to), waiter, |_, key, value| Ok(each(key, value)));
        }
        let view = self.view();
        self.scan_in(&view, tree, (from, to), waiter, each)
    }

    pub(super) fn scan_in(
        &self,
        view: &View<'_>,
        tree: &Tree,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        waiter: &Waiter,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut failed, mut again) = (None, Vec::new());
        let mut call = |key: &[u8], value: &[u8]| waiter.call_back(|| each(key, value));
        tree.scan(waiter, from, to, |key, newest| {
            let mut give = || -> Result<ControlFlow<()>> {
                // A ticket a row, outside of latches; out of tickets it queues again.
                waiter.take_ticket()?;
                let (header, value) = Header::decode(newest).map_err(|_| bad_version(tree))?;
                if self.sees(view, &header) {
                    return Ok(if header.deleted { ControlFlow::Continue(()) } else { call(key, value)? });
                }
                match self.search(view, tree, key, newest, waiter)? {
                    Found::Value(value) => call(key, &value),
                    Found::Nothing => Ok(ControlFlow::Continue(())),
                    Found::Changed => match self.get_in(view, tree, key, &mut again, waiter)? {
                        true => call(key, &again),
                        false => Ok(ControlFlow::Continue(())),
                    },
                }
            };
            give().unwrap_or_else(|error| {
                failed = Some(error);
                ControlFlow::Break(())
            })
        })?;
        failed.map_or(Ok(()), Err)
    }
}

/// Reduces a version to its value; false if it is a deletion.
fn given(header: &Header, version: &mut Vec<u8>) -> bool {
    version.drain(..HEADER_BYTES);
    !header.deleted
}

pub(super) fn bad_version(tree: &Tree) -> Error {
    let what = "a row of it does not begin as a version does".to_owned();
    Error::CorruptPage { page: tree.root().0, what }
}

fn missing(header: &Header) -> Error {
    let (number, segment) = (header.undo.number(), header.undo.segment());
    let what = format!(
        "a version of transaction {} needs record {number} of segment {segment}, or one that it leads to, which is missing",
        header.txn.0
    );
    Error::CorruptUndo { what }
}
