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
//! # Failure
//! An error leaves the tree as it was, or split or merged without effect on its rows.

mod bulk;
mod check;
mod descend;
mod entries;
mod look;
mod merge;
mod scan;
mod split;
mod walk;

use std::sync::Arc;

pub use check::TreeStats;
pub(crate) use walk::Visit;

use crate::buffer::{BufferPool, ExclusiveGuard, Mtr, Need, Stop};
use crate::error::{Error, Result};
use crate::page::edit::NodeMut;
use crate::page::node::{Fences, entry_bytes_max};
use crate::page::op::Op;
use crate::page::{PageNo, Torn};
use crate::space::PageAllocator;
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
    /// The key was there, or was not.
    Done { found: bool },
    /// What is there, or is not, was not what the caller wants to write over.
    Refused,
    /// The leaf has no room.
    Full,
}

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
        let mut attempts = 0;
        self.pool.retry(waiter, || {
            attempts += 1;
            out.clear();
            let leaf = self.leaf(key)?;
            if attempts > OPTIMISTIC_ATTEMPTS {
                return self.get_latched(leaf, key, out);
            }
            let (slot, found) = leaf.unchecked(leaf.node().search(key))?;
            if found {
                leaf.unchecked(leaf.node().append_value(slot, out))?;
            }
            leaf.validate()?;
            Ok(found)
        })
    }

    #[cold]
    fn get_latched(
        &self,
        leaf: crate::buffer::OptimisticGuard<'_>,
        key: &[u8],
        out: &mut Vec<u8>,
    ) -> Attempt<bool> {
        let page = leaf.page();
        let leaf = leaf.shared()?;
        let read = leaf.node().search(key).and_then(|(slot, found)| {
            if found {
                leaf.node().append_value(slot, out)?;
            }
            Ok(found)
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
    /// false, and nothing changed, if it says no. It is asked under the leaf's latch, perhaps more than once.
    pub fn put_if(
        &self,
        waiter: &Waiter,
        key: &[u8],
        value: &[u8],
        agrees: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let agrees = |leaf: &ExclusiveGuard<'_>, slot, found| Ok(agrees(value_at(leaf, slot, found)?));
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

    /// The most bytes that a row's key and value may have together.
    pub fn row_bytes_max(&self) -> usize {
        entry_bytes_max(self.pool.page_size())
    }

    fn check_size(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let (size, max) = (key.len() + value.len(), self.row_bytes_max());
        if size > max { Err(Error::EntryTooLarge { size, max }) } else { Ok(()) }
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
        self.check_size(key, value)?;
        let need = Need::records(Op::Insert { slot: 0, key, value }.record_bytes());
        for _ in 0..SPLITS_MAX {
            match self.pool.change(waiter, &need, |mtr| self.try_write(mtr, key, value, agrees))? {
                Written::Done { found } => return Ok(Some(found)),
                Written::Refused => return Ok(None),
                Written::Full => self.split(waiter, key, 0)?,
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
        value: &[u8],
        agrees: &impl Fn(&ExclusiveGuard<'_>, usize, bool) -> Attempt<bool>,
    ) -> Attempt<Written> {
        let leaf = self.leaf(key)?;
        let (slot, found) = leaf.checked(leaf.node().search(key))?;
        let mut leaf = leaf.exclusive()?;
        if !agrees(&leaf, slot, found)? {
            return Ok(Written::Refused);
        }
        let node = leaf.node();
        let fits = match found {
            true => node.fits_instead(slot, key.len(), value.len()),
            false => node.fits(key.len(), value.len()),
        };
        if !leaf.checked(fits)? {
            return Ok(Written::Full);
        }
        match found {
            true => mtr.apply(&mut leaf, &Op::Replace { slot, value }),
            false => mtr.apply(&mut leaf, &Op::Insert { slot, key, value }),
        }
        mtr.commit(&mut [&mut leaf]);
        Ok(Written::Done { found })
    }

    /// Removes a row; false if there is none.
    pub fn delete(&self, waiter: &Waiter, key: &[u8]) -> Result<bool> {
        self.remove_if(waiter, key, |_| true)
    }

    /// Removes a row, if `agrees` says yes to its value; false, and nothing changed, if it says no or there is no such
    /// row. It is asked under the leaf's latch, perhaps more than once.
    pub fn remove_if(
        &self,
        waiter: &Waiter,
        key: &[u8],
        agrees: impl Fn(Option<&[u8]>) -> bool,
    ) -> Result<bool> {
        let need = Need::records(Op::Remove { slot: 0 }.record_bytes());
        let (removed, underfull) = self.pool.change(waiter, &need, |mut mtr| {
            let leaf = self.leaf(key)?;
            let (slot, found) = leaf.checked(leaf.node().search(key))?;
            if !found {
                return Ok((false, false));
            }
            let mut leaf = leaf.exclusive()?;
            if !agrees(value_at(&leaf, slot, found)?) {
                return Ok((false, false));
            }
            mtr.apply(&mut leaf, &Op::Remove { slot });
            mtr.commit(&mut [&mut leaf]);
            let used = leaf.checked(leaf.node().used_bytes())?;
            Ok((true, leaf.page() != self.root && self.is_underfull(used)))
        })?;
        if underfull {
            self.shrink(waiter, key)?;
        }
        Ok(removed)
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
fn value_at<'g>(leaf: &'g ExclusiveGuard<'_>, slot: usize, found: bool) -> Attempt<Option<&'g [u8]>> {
    if !found {
        return Ok(None);
    }
    let (at, len) = leaf.checked(leaf.node().value(slot))?;
    leaf.checked(leaf.bytes().get(at..at + len).ok_or(Torn)).map(Some)
}

#[cfg(test)]
mod tests;
