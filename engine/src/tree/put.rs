//! Writing rows: inserts and updates.
//!
//! A caller that reads a row and then writes it descends the tree once: if the leaf is unchanged, so is the row's place
//! in it ([`Place`]). A caller that appends rows at a tree's end does not descend at all, until the last leaf is full
//! ([`End`]).

use super::large::Suspect;
use super::{Attempt, PENDING_RECORD_BYTES, Tree, chain_of, commit_with, value_at};
use crate::buffer::{ExclusiveGuard, Mtr, Need, OptimisticGuard, PageVersion};
use crate::error::{Error, Result};
use crate::page::node::Stored;
use crate::page::op::Op;
use crate::page::pending::PendingChain;
use crate::space::PendingSlot;
use crate::wait::Waiter;

/// Splits for one row before the tree is taken for damaged: one makes room, unless others were faster to use it.
const SPLITS_MAX: u32 = 100;

/// Where a row is, or would be, as long as its leaf does not change.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    leaf: PageVersion,
    slot: usize,
    found: bool,
}

/// Where a tree ends, as long as its last leaf does not change: what comes after the row that was put last belongs there.
#[derive(Clone, Copy)]
pub(crate) struct End(Place);

/// What a write has found, and where it has left the tree's end, if it is the last row.
pub(super) struct Put {
    pub(super) found: bool,
    end: Option<End>,
}

/// How an attempt to write ended.
enum Written {
    /// The pages of the value before.
    Done { put: Put, old: PendingChain },
    /// The caller's condition rejects the existing row, or its absence.
    Refused,
    /// The leaf has no room.
    Full,
    /// The present value is large, and the caller has no pending slot for its pages.
    NoSlot,
}

impl Place {
    pub(super) fn of(leaf: &OptimisticGuard<'_>, slot: usize, found: bool) -> Self {
        Place { leaf: leaf.page_version(), slot, found }
    }
}

#[cfg(test)]
impl End {
    pub(super) fn is_known(&self, tree: &Tree) -> bool {
        tree.pool.reopen(self.0.leaf).is_some()
    }
}

impl Tree {
    /// Adds a row; returns false, and changes nothing, if the key exists.
    pub fn insert(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        self.put_if(waiter, key, value, |now| now.is_none())
    }

    /// Adds a row; returns false, and changes nothing, if the key exists. `end` comes from the insert of a row with a
    /// smaller key; returns the new end, if this row is the last.
    pub(crate) fn insert_last(
        &self,
        waiter: &Waiter,
        key: &[u8],
        value: &[u8],
        end: Option<End>,
    ) -> Result<(bool, Option<End>)> {
        let put = self.write(waiter, (key, value), end.map(|end| end.0), &|_, _, found| Ok(!found))?;
        Ok((put.is_some(), put.and_then(|put| put.end)))
    }

    /// Replaces the value of `key`; returns false, and changes nothing, if it does not exist.
    pub fn update(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        self.put_if(waiter, key, value, |now| now.is_some())
    }

    /// Adds a row or replaces its value; true if the key did not exist.
    pub fn upsert(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        let put = self.write(waiter, (key, value), None, &|_, _, _| Ok(true))?;
        Ok(put.is_some_and(|put| !put.found))
    }

    /// Adds a row or replaces its value, if `agrees` returns true for the present value (`None`: no such row); returns
    /// false, and changes nothing, if not. `agrees` runs under the leaf's latch, perhaps more than once, and sees only
    /// the first [`LARGE_PREFIX_BYTES`](crate::page::node::LARGE_PREFIX_BYTES) of a large value.
    pub fn put_if(
        &self,
        waiter: &Waiter,
        key: &[u8],
        value: &[u8],
        agrees: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        self.put_at(waiter, (key, value), None, agrees)
    }

    /// As [`Tree::put_if`], of a row that was looked at before ([`Tree::get_to_put`]).
    pub(crate) fn put_at(
        &self,
        waiter: &Waiter,
        row: (&[u8], &[u8]),
        place: Option<Place>,
        agrees: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let agrees = |leaf: &ExclusiveGuard<'_>, slot, found| {
            Ok(agrees(value_at(leaf, slot, found)?.as_ref().map(Stored::prefix)))
        };
        self.write(waiter, row, place, &agrees).map(|put| put.is_some())
    }

    /// Adds a row, if the key does not exist and `agrees` returns true for the next key (`None`: there is none);
    /// returns false, and changes nothing, if not. `agrees` runs under the leaf's latch, perhaps more than once. Until
    /// the row is added, no other row is added between the two in this leaf, and a reader of both leaves notices one
    /// added in the next.
    pub fn insert_before(
        &self,
        waiter: &Waiter,
        key: &[u8],
        value: &[u8],
        agrees: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let agrees = |leaf: &ExclusiveGuard<'_>, slot, found: bool| {
            Ok(!found && agrees(self.key_from(leaf, slot, key)?.as_deref()))
        };
        self.write(waiter, (key, value), None, &agrees).map(|put| put.is_some())
    }

    /// As [`Tree::get`]; also returns the place where the row is or would be, for a following put.
    #[inline]
    pub(crate) fn get_to_put(&self, waiter: &Waiter, key: &[u8], out: &mut Vec<u8>) -> Result<(bool, Place)> {
        let looked = self.get_stored(waiter, key, out)?;
        if !looked.large {
            return Ok((looked.found, looked.place));
        }
        let mut suspect = Suspect::default();
        let found =
            self.read_large(waiter, &mut suspect, out)? || self.get_again(waiter, suspect, key, out)?;
        Ok((found, looked.place))
    }

    /// Writes a row (key, value); `None` if `agrees` does not: it is given the leaf, the key's slot there, and whether the
    /// key is in it.
    fn write(
        &self,
        waiter: &Waiter,
        (key, value): (&[u8], &[u8]),
        place: Option<Place>,
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
    ) -> Result<Option<Put>> {
        self.check_size(key.len(), value.len())?;
        let mut slot = None;
        let written = match self.is_large(key.len(), value.len()) {
            false => self.put_stored(waiter, (key, value.into()), place, agrees, &mut slot),
            // No pages are written for a row that will be refused.
            true if !self.check_agrees(waiter, key, agrees)? => return Ok(None),
            true => {
                let slot_now = slot.insert(self.alloc.pending_slot(waiter)?);
                self.write_large(waiter, slot_now, value).and_then(|entry| {
                    let stored = Stored { bytes: &entry, large: true };
                    self.put_stored(waiter, (key, stored), place, agrees, &mut slot)
                })
            }
        };
        // The pages of the value before; or of this one, if it was not put.
        if let Some(slot) = slot {
            slot.finish(waiter);
        }
        written
    }

    fn check_agrees(
        &self,
        waiter: &Waiter,
        key: &[u8],
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
    ) -> Result<bool> {
        self.pool.retry(waiter, || {
            let (leaf, slot, found) = self.find(key)?;
            agrees(&leaf.exclusive()?, slot, found)
        })
    }

    /// Writes the leaf's part of a row; with a pending slot if the old or the new value is large.
    fn put_stored<'a>(
        &'a self,
        waiter: &Waiter,
        (key, value): (&[u8], Stored<'_>),
        mut place: Option<Place>,
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
        slot: &mut Option<PendingSlot<'a>>,
    ) -> Result<Option<Put>> {
        let need = Need::records(Op::Insert { slot: 0, key, value }.record_bytes() + PENDING_RECORD_BYTES);
        for _ in 0..SPLITS_MAX {
            let attempt = |mtr| self.try_write(mtr, (key, value), place.take(), agrees, slot.as_ref());
            match self.pool.change(waiter, &need, attempt)? {
                Written::Done { put, old } => {
                    if let Some(slot) = slot {
                        slot.has_now(old);
                    }
                    return Ok(Some(put));
                }
                Written::Refused => return Ok(None),
                Written::Full => self.split(waiter, key, 0)?,
                Written::NoSlot => *slot = Some(self.alloc.pending_slot(waiter)?),
            }
        }
        let leaf = self.pool.retry(waiter, || Ok(self.leaf(key)?.page()))?;
        let what = "it has no room, however often it is divided".to_owned();
        Err(Error::CorruptPage { page: leaf.0, what })
    }

    fn try_write<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        (key, value): (&[u8], Stored<'_>),
        place: Option<Place>,
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
        pending: Option<&PendingSlot<'p>>,
    ) -> Attempt<Written> {
        let (leaf, slot, found) = self.place_of(key, place)?;
        let mut leaf = leaf.exclusive()?;
        if !agrees(&leaf, slot, found)? {
            return Ok(Written::Refused);
        }
        let old = leaf.checked(chain_of(value_at(&leaf, slot, found)?))?;
        if pending.is_none() && !old.is_empty() {
            return Ok(Written::NoSlot);
        }
        let node = leaf.node();
        let fits = match found {
            true => node.fits_instead(slot, key.len(), value.len()),
            false => node.fits(key.len(), value.len()),
        };
        if !leaf.checked(fits)? {
            return Ok(Written::Full);
        }
        let is_last =
            leaf.checked(node.is_last())? && slot + usize::from(found) == leaf.checked(node.slots())?;
        let mut noted = pending.map(PendingSlot::latch).transpose()?;
        match found {
            true => mtr.apply(&mut leaf, &Op::Replace { slot, value }),
            false => mtr.apply(&mut leaf, &Op::Insert { slot, key, value }),
        }
        commit_with(mtr, &mut leaf, pending.zip(noted.as_mut()), &old);
        let end =
            is_last.then(|| End(Place { leaf: leaf.page_version_after(), slot: slot + 1, found: false }));
        Ok(Written::Done { put: Put { found, end }, old })
    }

    /// The leaf and the slot where a key is or belongs, and whether it is there: where it was seen, if nothing has changed
    /// there since, or from the root down.
    fn place_of(&self, key: &[u8], place: Option<Place>) -> Attempt<(OptimisticGuard<'_>, usize, bool)> {
        if let Some(Place { leaf, slot, found }) = place
            && let Some(leaf) = self.pool.reopen(leaf)
        {
            return Ok((leaf, slot, found));
        }
        self.find(key)
    }
}
