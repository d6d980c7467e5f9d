//! Index-organised B+trees of byte strings.
//!
//! # Protocol
//! The root's page never moves. A read descends with optimistic lock coupling and holds nothing (`descend`). A change
//! of a leaf latches that leaf alone, if it is unchanged since it was read, even long ago (`put`). A change of several
//! nodes (split, merge) is a mini-transaction of its own before or after: it reserves what it needs, then latches at
//! most three nodes, and only tries for each latch. An attempt that meets a latched, changed or missing page drops
//! everything, waits, and restarts from the root (`BufferPool::retry`). So no thread waits with a latch held.
//!
//! # Shape
//! A node has the keys in `[lower fence, upper fence)`, its own copies of both, and no pointers to its neighbours. A
//! scan copies a leaf, returns its rows with nothing held, and continues at the upper fence. A full node is split (its
//! parent first, if that has no room for the separator); a full root moves its content to a new child. A node under a
//! quarter full is merged with a neighbour, or balanced with it; a root with one child is replaced by it.
//!
//! Values over a quarter of a page are in overflow pages, except their first bytes (`large`).
//!
//! # Failure
//! An error leaves the rows as they were; a split or a merge may have happened.

mod bulk;
mod check;
mod descend;
mod entries;
mod large;
mod latched_read;
mod lifecycle;
mod merge;
mod put;
mod scan;
mod split;
mod truncate;
mod walk;

use std::sync::Arc;

pub use check::TreeStats;
use large::Suspect;
pub use large::VALUE_BYTES_MAX;
pub(crate) use put::{End, Place};
pub(crate) use walk::Visit;

use crate::buffer::{BufferPool, ExclusiveGuard, Mtr, Need, OptimisticGuard, Stop};
use crate::error::Result;
use crate::page::edit::NodeMut;
use crate::page::node::{Fences, Stored, entry_bytes_max};
use crate::page::op::Op;
use crate::page::overflow::Pointer;
use crate::page::pending::PendingChain;
use crate::page::{PageNo, Torn};
use crate::space::{PageAllocator, PendingSlot};
use crate::wait::Waiter;

/// Optimistic attempts to read a leaf before a shared latch is taken, so that writers cannot starve a reader.
const OPTIMISTIC_ATTEMPTS: u32 = 16;

/// A B+tree in a tablespace.
#[derive(Clone)]
pub struct Tree {
    pool: Arc<BufferPool>,
    alloc: Arc<PageAllocator>,
    root: PageNo,
}

type Attempt<T> = std::result::Result<T, Stop>;

/// How an attempt to remove a row ended.
enum Removed {
    /// The pages of its value, and whether the leaf is underfull now.
    Done { old: PendingChain, underfull: bool },
    /// There is no such row, or the caller's condition rejects it.
    Nothing,
    /// The value is large, and the caller has no pending slot for its pages.
    NoSlot,
}

/// What a leaf has of a row.
struct Looked {
    found: bool,
    place: Place,
    /// The value is large: these are its first bytes and a pointer.
    large: bool,
}

/// Bytes of a record about a slot of the pending page, at most.
const PENDING_RECORD_BYTES: usize = 64;

impl Tree {
    /// Creates an empty tree.
    pub fn create(pool: &Arc<BufferPool>, alloc: &Arc<PageAllocator>, waiter: &Waiter) -> Result<Tree> {
        let root = alloc.allocate(None, waiter)?;
        pool.change(waiter, &Need::nodes(pool.page_size()).making(root), |mut mtr| {
            let mut page = mtr.create(root)?;
            mtr.rewrite(&mut page, |page| _ = NodeMut::format(page, root, root, 0, &Fences::all()));
            mtr.commit(&mut [&mut page]);
            Ok(())
        })?;
        Ok(Tree::open(pool, alloc, root))
    }

    /// Opens the tree whose root is page `root`.
    pub fn open(pool: &Arc<BufferPool>, alloc: &Arc<PageAllocator>, root: PageNo) -> Tree {
        Tree { pool: Arc::clone(pool), alloc: Arc::clone(alloc), root }
    }

    /// The root's page, by which the tree is opened again.
    pub fn root(&self) -> PageNo {
        self.root
    }

    /// Replaces `out` by the value of `key`; returns false, and empties `out`, if there is none.
    pub fn get(&self, waiter: &Waiter, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        self.get_to_put(waiter, key, out).map(|(found, _)| found)
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
            let Looked { found, large, .. } = self.get_stored(waiter, key, out)?;
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
            Ok(Looked { found, place: Place::of(&leaf, slot, found), large })
        })
    }

    #[cold]
    fn get_latched(&self, leaf: OptimisticGuard<'_>, key: &[u8], out: &mut Vec<u8>) -> Attempt<Looked> {
        let latched = leaf.shared()?;
        let read = latched.node().search(key).and_then(|(slot, found)| {
            let large = found && latched.node().append_value(slot, out)?;
            Ok(Looked { found, place: Place::of(&leaf, slot, found), large })
        });
        read.map_err(|_| Stop::corrupt(leaf.page()))
    }

    /// The most bytes of key and value of a row that lies in a leaf as a whole.
    pub(crate) fn inline_bytes_max(&self) -> usize {
        entry_bytes_max(self.pool.page_size())
    }

    /// Removes a row; false if there is none.
    pub fn delete(&self, waiter: &Waiter, key: &[u8]) -> Result<bool> {
        self.remove_if(waiter, key, |_| true)
    }

    /// Removes a row, if `agrees` returns true for its value; returns false, and changes nothing, if not, or if there
    /// is no such row. `agrees` is called as in [`Tree::put_if`].
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
            // The row is gone, whether its leaf can be merged or not.
            Removed::Done { underfull: true, .. } => match self.shrink(waiter, key) {
                Err(error) if error.ends_all() => Err(error),
                _ => Ok(true),
            },
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
        let (leaf, slot, found) = self.find(key)?;
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

    /// The key in that slot of a latched leaf, where `key` belongs; after the last slot, the first key of the following
    /// leaves.
    fn key_from(&self, leaf: &ExclusiveGuard<'_>, slot: usize, key: &[u8]) -> Attempt<Option<Vec<u8>>> {
        let mut key = key.to_vec();
        if slot < leaf.checked(leaf.node().slots())? {
            leaf.checked(leaf.node().key_into(slot, &mut key))?;
            return Ok(Some(key));
        }
        let mut more = leaf.checked(leaf.node().advance_key(&mut key))?;
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
            more = next.unchecked(next.node().advance_key(&mut key))?;
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
