//! Index-organised B+trees of byte strings.
//!
//! # Protocol
//! The root's page never moves. Reading goes down with optimistic lock coupling and holds nothing (`descend`);
//! changing a leaf latches that leaf alone, if it is still as it was read. What changes more than one node (split, merge)
//! is a mini-transaction of its own before or after: it reserves what it needs, then latches at most three nodes,
//! each only tried for. Every attempt that meets a latched, changed or missing page drops all, waits, and starts
//! again from the root (`BufferPool::retry`). So no thread waits with a latch held.
//!
//! # Shape
//! A node has the keys in `[lower fence, upper fence)`, its own copies of both, and no pointers to its neighbours: a scan
//! copies a leaf, gives its rows out with nothing held, and goes on at the upper fence. A node that has no room is split
//! (its parent first, if that has none for the separator); a root that has no room gets a child with all it has. A
//! node under a quarter full is merged with a neighbour, or evened out with it; a root with one child takes its place.
//!
//! Values over a quarter of a page lie in overflow pages, but for their first bytes (`large`).
//!
//! # Failure
//! An error leaves the tree as it was, or split or merged without effect on its rows.

mod bulk;
mod check;
mod descend;
mod entries;
mod front;
mod large;
mod life;
mod look;
mod merge;
mod scan;
mod split;
mod walk;

use std::sync::Arc;

pub use check::TreeStats;
use large::Suspect;
pub use large::VALUE_BYTES_MAX;
pub(crate) use walk::Visit;

use crate::buffer::{BufferPool, ExclusiveGuard, Mtr, Need, Stop};
use crate::error::{Error, Result};
use crate::page::edit::NodeMut;
use crate::page::node::{Fences, Stored, entry_bytes_max};
use crate::page::op::Op;
use crate::page::overflow::Pointer;
use crate::page::pending::PendingChain;
use crate::page::{PageNo, Torn};
use crate::space::{PageAllocator, PendingSlot};
use crate::wait::Waiter;

/// Optimistic attempts at reading a leaf before it is latched (shared), so that a reader is not kept off for ever.
const OPTIMISTIC_ATTEMPTS: u32 = 16;

/// Splits for one row before the tree is taken for damaged: one makes room, unless others were faster to use it.
const SPLITS_MAX: u32 = 100;

/// A B+tree in a tablespace.
#[derive(Clone)]
pub struct Tree {
    pool: Arc<BufferPool>,
    alloc: Arc<PageAllocator>,
    root: PageNo,
}

type Attempt<T> = std::result::Result<T, Stop>;

/// How an attempt to write ended.
enum Written {
    /// The key was there, or was not; the pages of the value before.
    Done { found: bool, old: PendingChain },
    /// What is there, or is not, was not what the caller wants to write over.
    Refused,
    /// The leaf has no room.
    Full,
    /// The value that is there is large, and there is no slot for its pages.
    NoSlot,
}

/// How an attempt to remove a row ended.
enum Removed {
    /// The pages of its value, and whether the leaf is underfull now.
    Done { old: PendingChain, underfull: bool },
    /// There is no such row, or it is not what the caller wants to remove.
    Nothing,
    /// Its value is large, and there is no slot for its pages.
    NoSlot,
}

/// What a leaf has of a row.
struct Looked {
    found: bool,
    /// The value is large: what was read are its first bytes and a pointer.
    large: bool,
}

/// Bytes of a record about a slot of the pending page, at most.
const PENDING_RECORD_BYTES: usize = 64;

impl Tree {
    /// Makes an empty tree.
    pub fn create(pool: &Arc<BufferPool>, alloc: &Arc<PageAllocator>, waiter: &Waiter) -> Result<Tree> {
        let root = alloc.allocate(None, waiter)?;
        pool.change(waiter, &Need::nodes(pool.page_size(), &[root]), |mut mtr| {
            let mut page = mtr.create(root)?;
            mtr.rewrite(&mut page, |page| _ = NodeMut::format(page, root, root, 0, &Fences::all()));
            mtr.commit(&mut [&mut page]);
            Ok(())
        })?;
        Ok(Tree::open(pool, alloc, root))
    }

    /// The tree whose root is page `root`.
    pub fn open(pool: &Arc<BufferPool>, alloc: &Arc<PageAllocator>, root: PageNo) -> Tree {
        Tree { pool: Arc::clone(pool), alloc: Arc::clone(alloc), root }
    }

    /// The root's page, by which the tree is opened again.
    pub fn root(&self) -> PageNo {
        self.root
    }

    /// Replaces `out` by the value of `key`; false, and `out` empty, if there is none.
    pub fn get(&self, waiter: &Waiter, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let Looked { found, large } = self.get_stored(waiter, key, out)?;
        if !large {
            return Ok(found);
        }
        let mut suspect = Suspect::default();
        Ok(self.read_large(waiter, &mut suspect, out)? || self.get_again(waiter, suspect, key, out)?)
    }

    /// The same, after the pages of a large value were not there any more.
    #[cold]
    fn get_again(
        &self,
        waiter: &Waiter,
        mut suspect: Suspect,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        loop {
            let Looked { found, large } = self.get_stored(waiter, key, out)?;
            if !large || self.read_large(waiter, &mut suspect, out)? {
                return Ok(found);
            }
        }
    }

    /// Replaces `out` by what the leaf has as the value of `key`.
    #[inline]
    fn get_stored(&self, waiter: &Waiter, key: &[u8], out: &mut Vec<u8>) -> Result<Looked> {
        let mut attempts = 0;
        self.pool.retry(waiter, || {
            attempts += 1;
            out.clear();
            let leaf = self.leaf(key)?;
            if attempts > OPTIMISTIC_ATTEMPTS {
                return self.get_latched(leaf, key, out);
            }
            let (slot, found) = leaf.unchecked(leaf.node().search(key))?;
            let large = found && leaf.unchecked(leaf.node().append_value(slot, out))?;
            leaf.validate()?;
            Ok(Looked { found, large })
        })
    }

    #[cold]
    fn get_latched(
        &self,
        leaf: crate::buffer::OptimisticGuard<'_>,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Attempt<Looked> {
        let page = leaf.page();
        let leaf = leaf.shared()?;
        let read = leaf.node().search(key).and_then(|(slot, found)| {
            let large = found && leaf.node().append_value(slot, out)?;
            Ok(Looked { found, large })
        });
        read.map_err(|_| Stop::corrupt(page))
    }

    /// Adds a row; false, and nothing changed, if the key is there.
    pub fn insert(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        self.put_if(waiter, key, value, |now| now.is_none())
    }

    /// Replaces the value of `key`; false, and nothing changed, if it is not there.
    pub fn update(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        self.put_if(waiter, key, value, |now| now.is_some())
    }

    /// Adds a row or replaces its value; true if the key was not there.
    pub fn upsert(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        let found = self.write(waiter, key, value, &|_, _, _| Ok(true))?;
        Ok(found == Some(false))
    }

    /// Adds a row or replaces its value, if `agrees` says yes to the value that is there now (`None`: no such row);
    /// false, and nothing changed, if it says no. It is asked under the leaf's latch, perhaps more than once, and sees no
    /// more of a large value than its first [`LARGE_PREFIX_BYTES`](crate::page::node::LARGE_PREFIX_BYTES).
    pub fn put_if(
        &self,
        waiter: &Waiter,
        key: &[u8],
        value: &[u8],
        agrees: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let agrees = |leaf: &ExclusiveGuard<'_>, slot, found| {
            Ok(agrees(value_at(leaf, slot, found)?.as_ref().map(Stored::prefix)))
        };
        self.write(waiter, key, value, &agrees).map(|found| found.is_some())
    }

    /// Adds a row, if the key is not there and `agrees` says yes to the key that comes after it (`None`: there is none);
    /// false, and nothing changed, if not. It is asked under the leaf's latch, perhaps more than once: until the row is
    /// in, no other comes between the two in this leaf, and who reads both leaves sees it.
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
        self.write(waiter, key, value, &agrees).map(|found| found.is_some())
    }

    /// The most bytes of key and value of a row that lies in a leaf as a whole.
    pub(crate) fn inline_bytes_max(&self) -> usize {
        entry_bytes_max(self.pool.page_size())
    }

    /// Writes a row; whether the key was there, or `None` if `agrees` does not: it is given the leaf, the key's slot
    /// there, and whether the key is in it.
    fn write(
        &self,
        waiter: &Waiter,
        key: &[u8],
        value: &[u8],
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
    ) -> Result<Option<bool>> {
        self.check_size(key.len(), value.len())?;
        let mut slot = None;
        let written = match self.is_large(key.len(), value.len()) {
            false => self.put_stored(waiter, key, value.into(), agrees, &mut slot),
            // No pages are written for what is going to be refused.
            true if !self.agrees_now(waiter, key, agrees)? => return Ok(None),
            true => {
                let slot_now = slot.insert(self.alloc.pending_slot(waiter)?);
                self.write_large(waiter, slot_now, value).and_then(|entry| {
                    let stored = Stored { bytes: &entry, large: true };
                    self.put_stored(waiter, key, stored, agrees, &mut slot)
                })
            }
        };
        // The pages of the value before; or of this one, if it was not put.
        if let Some(slot) = slot {
            slot.finish(waiter);
        }
        written
    }

    fn agrees_now(
        &self,
        waiter: &Waiter,
        key: &[u8],
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
    ) -> Result<bool> {
        self.pool.retry(waiter, || {
            let leaf = self.leaf(key)?;
            let (slot, found) = leaf.checked(leaf.node().search(key))?;
            agrees(&leaf.exclusive()?, slot, found)
        })
    }

    /// Puts what is to lie in the leaf. If one of the two values is large, then with a slot.
    fn put_stored<'a>(
        &'a self,
        waiter: &Waiter,
        key: &[u8],
        value: Stored<'_>,
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
        slot: &mut Option<PendingSlot<'a>>,
    ) -> Result<Option<bool>> {
        let need = Need::records(Op::Insert { slot: 0, key, value }.record_bytes() + PENDING_RECORD_BYTES);
        for _ in 0..SPLITS_MAX {
            let attempt = |mtr| self.try_write(mtr, key, value, agrees, slot.as_ref());
            match self.pool.change(waiter, &need, attempt)? {
                Written::Done { found, old } => {
                    if let Some(slot) = slot {
                        slot.has_now(old);
                    }
                    return Ok(Some(found));
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
        key: &[u8],
        value: Stored<'_>,
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
        pending: Option<&PendingSlot<'p>>,
    ) -> Attempt<Written> {
        let leaf = self.leaf(key)?;
        let (slot, found) = leaf.checked(leaf.node().search(key))?;
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
        let mut noted = pending.map(PendingSlot::latch).transpose()?;
        match found {
            true => mtr.apply(&mut leaf, &Op::Replace { slot, value }),
            false => mtr.apply(&mut leaf, &Op::Insert { slot, key, value }),
        }
        commit_with(mtr, &mut leaf, pending.zip(noted.as_mut()), &old);
        Ok(Written::Done { found, old })
    }

    /// Removes a row; false if there is none.
    pub fn delete(&self, waiter: &Waiter, key: &[u8]) -> Result<bool> {
        self.remove_if(waiter, key, |_| true)
    }

    /// Removes a row, if `agrees` says yes to its value; false, and nothing changed, if it says no or there is no such
    /// row. It is asked as by [`Tree::put_if`].
    pub fn remove_if(
        &self,
        waiter: &Waiter,
        key: &[u8],
        agrees: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let mut slot = None;
        let removed = self.remove(waiter, key, &agrees, &mut slot);
        if let Some(slot) = slot {
            slot.finish(waiter);
        }
        match removed? {
            Removed::Done { underfull: true, .. } => self.shrink(waiter, key).map(|()| true),
            Removed::Done { .. } => Ok(true),
            Removed::Nothing | Removed::NoSlot => Ok(false),
        }
    }

    fn remove<'a>(
        &'a self,
        waiter: &Waiter,
        key: &[u8],
        agrees: &impl Fn(Option<&[u8]>) -> bool,
        slot: &mut Option<PendingSlot<'a>>,
    ) -> Result<Removed> {
        let need = Need::records(Op::Remove { slot: 0 }.record_bytes() + PENDING_RECORD_BYTES);
        loop {
            let removed =
                self.pool.change(waiter, &need, |mtr| self.try_remove(mtr, key, agrees, slot.as_ref()))?;
            match (&removed, slot.as_mut()) {
                (Removed::NoSlot, _) => *slot = Some(self.alloc.pending_slot(waiter)?),
                (Removed::Done { old, .. }, Some(slot)) => {
                    slot.has_now(*old);
                    return Ok(removed);
                }
                _ => return Ok(removed),
            }
        }
    }

    fn try_remove<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        key: &[u8],
        agrees: &impl Fn(Option<&[u8]>) -> bool,
        pending: Option<&PendingSlot<'p>>,
    ) -> Attempt<Removed> {
        let leaf = self.leaf(key)?;
        let (slot, found) = leaf.checked(leaf.node().search(key))?;
        if !found {
            return Ok(Removed::Nothing);
        }
        let mut leaf = leaf.exclusive()?;
        let now = value_at(&leaf, slot, found)?;
        if !agrees(now.as_ref().map(Stored::prefix)) {
            return Ok(Removed::Nothing);
        }
        let old = leaf.checked(chain_of(now))?;
        if pending.is_none() && !old.is_empty() {
            return Ok(Removed::NoSlot);
        }
        let mut noted = pending.map(PendingSlot::latch).transpose()?;
        mtr.apply(&mut leaf, &Op::Remove { slot });
        commit_with(mtr, &mut leaf, pending.zip(noted.as_mut()), &old);
        let used = leaf.checked(leaf.node().used_bytes())?;
        Ok(Removed::Done { old, underfull: leaf.page() != self.root && self.is_underfull(used) })
    }

    /// The key in that slot of a leaf that is held still, where `key` belongs; behind its last one, the first key of those
    /// that follow.
    fn key_from(&self, leaf: &ExclusiveGuard<'_>, slot: usize, key: &[u8]) -> Attempt<Option<Vec<u8>>> {
        let mut key = key.to_vec();
        if slot < leaf.checked(leaf.node().slots())? {
            leaf.checked(leaf.node().key_into(slot, &mut key))?;
            return Ok(Some(key));
        }
        let mut more = leaf.checked(leaf.node().go_on(&mut key))?;
        while more {
            let next = match self.leaf(&key) {
                // Its fence is not what its parent says. To wait for it would be to wait for this thread itself.
                Err(Stop::Latched(page)) if page == leaf.page() => return Err(Stop::corrupt(page)),
                next => next?,
            };
            if next.unchecked(next.node().slots())? > 0 {
                next.unchecked(next.node().key_into(0, &mut key))?;
                next.validate()?;
                return Ok(Some(key));
            }
            more = next.unchecked(next.node().go_on(&mut key))?;
            next.validate()?;
        }
        Ok(None)
    }

    fn is_underfull(&self, used_bytes: usize) -> bool {
        used_bytes < self.pool.page_size() / 4
    }
}

/// The value of a slot of a leaf that is held still, if the key was found there.
fn value_at<'g>(leaf: &'g ExclusiveGuard<'_>, slot: usize, found: bool) -> Attempt<Option<Stored<'g>>> {
    if found { leaf.checked(leaf.node().stored(slot)).map(Some) } else { Ok(None) }
}

/// The overflow pages of a value.
fn chain_of(value: Option<Stored<'_>>) -> std::result::Result<PendingChain, Torn> {
    let large = value.filter(|value| value.large).map(|value| Pointer::of_entry(value.bytes)).transpose()?;
    Ok(large.map_or_else(PendingChain::default, |pointer| PendingChain {
        head: pointer.first.0,
        stamp: pointer.stamp,
        ..PendingChain::default()
    }))
}

/// Commits the change of a leaf, and with it that a slot of the pending page has the chain `old` from now on.
fn commit_with<'p>(
    mut mtr: Mtr<'p>,
    leaf: &mut ExclusiveGuard<'p>,
    pending: Option<(&PendingSlot<'p>, &mut ExclusiveGuard<'p>)>,
    old: &PendingChain,
) {
    match pending {
        None => mtr.commit(&mut [leaf]),
        Some((slot, page)) => {
            slot.put(&mut mtr, page, old);
            mtr.commit(&mut [leaf, page]);
        }
    }
}

#[cfg(test)]
mod tests;
