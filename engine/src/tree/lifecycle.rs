//! Trees that are created and dropped atomically with a row of another tree that refers to them, so that a crash at any
//! point leaks no page.
//!
//! - [`Tree::create_tree`] allocates and writes the root's page, and adds the row, in one mini-transaction.
//! - [`Tree::free_nodes`] frees a tree's nodes in steps, each a mini-transaction that frees some pages together with
//!   the references to them; the same steps free the rest. [`Tree::drop_tree`] frees a root together with its row.
//! - A leaf's large values are freed before the leaf, one by one: one mini-transaction removes the row and moves its
//!   pages into a slot of the pending page; then they are freed.
//!
//! A tree that is being freed has nodes with one child, and leaves at different levels: it has no readers.

use super::split::marked_free;
use super::{Attempt, Tree, chain_of, commit_with};
use crate::buffer::{ExclusiveGuard, Mtr, Need, OptimisticGuard, Stop};
use crate::error::{Error, Result};
use crate::page::edit::NodeMut;
use crate::page::node::{Fences, Stored};
use crate::page::op::Op;
use crate::page::pending::PendingChain;
use crate::page::{PageNo, Torn};
use crate::wait::Waiter;

enum Creation {
    Done,
    /// A row with that key exists.
    Refused,
    /// The leaf has no room for the row.
    Full,
    /// Another thread has taken the page.
    Taken,
}

/// What an attempt at a step did.
enum FreeStep {
    /// Some pages were freed; there may be more.
    Some,
    /// The root is empty.
    All,
    /// No page: these leaves may have large values, which must be freed first.
    Leaves(Vec<PageNo>),
}

impl Tree {
    /// Creates an empty tree, and adds to this tree the row that `row` returns for its root; returns `None`, and
    /// changes nothing, if a row with that key exists.
    pub(crate) fn create_tree(
        &self,
        waiter: &Waiter,
        row: impl Fn(PageNo) -> (Vec<u8>, Vec<u8>),
    ) -> Result<Option<Tree>> {
        loop {
            let root = self.alloc.choose(waiter)?;
            let (key, value) = row(root);
            self.check_size(key.len(), value.len())?;
            debug_assert!(!self.is_large(key.len(), value.len()));
            let need = Need::nodes(self.pool.page_size()).making(root);
            match self.pool.change(waiter, &need, |mtr| self.try_create_tree(mtr, root, &key, &value))? {
                Creation::Done => return Ok(Some(Tree::open(&self.pool, &self.alloc, root))),
                Creation::Refused => return Ok(None),
                Creation::Full => self.split(waiter, &key, 0)?,
                Creation::Taken => {}
            }
        }
    }

    fn try_create_tree<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        root: PageNo,
        key: &[u8],
        value: &[u8],
    ) -> Attempt<Creation> {
        let (leaf, slot, found) = self.find(key)?;
        let mut leaf = leaf.exclusive()?;
        if found {
            return Ok(Creation::Refused);
        }
        if !leaf.checked(leaf.node().fits(key.len(), value.len()))? {
            return Ok(Creation::Full);
        }
        if root == leaf.page() || !self.alloc.is_for_trees(root) {
            return Err(marked_free(root));
        }
        let mut bitmap = self.alloc.bitmap(root)?.exclusive()?;
        let Some(taken) = self.alloc.mark(&bitmap, &[root], true) else { return Ok(Creation::Taken) };
        // From here on nothing fails.
        let mut page = mtr.create(root)?;
        mtr.rewrite(&mut page, |page| _ = NodeMut::format(page, root, root, 0, &Fences::all()));
        mtr.apply(&mut bitmap, &Op::Write { at: taken.0, bytes: &taken.1 });
        mtr.apply(&mut leaf, &Op::Insert { slot, key, value: value.into() });
        mtr.commit(&mut [&mut leaf, &mut bitmap, &mut page]);
        Ok(Creation::Done)
    }

    /// Frees all pages but the root, which is empty then. The tree has no other users.
    pub(crate) fn free_nodes(&self, waiter: &Waiter) -> Result<()> {
        while self.free_step(waiter)? {}
        Ok(())
    }

    /// One step; false if the root is empty.
    pub(super) fn free_step(&self, waiter: &Waiter) -> Result<bool> {
        let need = Need::nodes(self.pool.page_size());
        let mut bare = Vec::new();
        loop {
            match self.pool.change(waiter, &need, |mtr| self.try_free_step(mtr, &bare))? {
                FreeStep::Some => return Ok(true),
                FreeStep::All => return Ok(false),
                FreeStep::Leaves(leaves) => {
                    leaves.iter().try_for_each(|&leaf| self.free_large(waiter, leaf))?;
                    bare = leaves;
                }
            }
        }
    }

    /// Frees the large values of a leaf, and removes their rows.
    fn free_large(&self, waiter: &Waiter, leaf: PageNo) -> Result<()> {
        let last = || last_large(&self.pool.optimistic(leaf)?);
        while let Some((row, chain)) = self.pool.retry(waiter, last)? {
            let mut slot = self.alloc.pending_slot(waiter)?;
            self.pool.change(waiter, &Need::nodes(self.pool.page_size()), |mut mtr| {
                let mut leaf = self.pool.optimistic(leaf)?.exclusive()?;
                let mut noted = slot.latch()?;
                mtr.apply(&mut leaf, &Op::Remove { slot: row });
                commit_with(mtr, &mut leaf, Some((&slot, &mut noted)), &chain);
                Ok(())
            })?;
            slot.has_now(chain);
            slot.free_all(waiter)?;
        }
        Ok(())
    }

    /// One step; `bare` are leaves without large values.
    fn try_free_step<'p>(&'p self, mtr: Mtr<'p>, bare: &[PageNo]) -> Attempt<FreeStep> {
        let mut node = self.pool.optimistic(self.root)?;
        loop {
            let (level, slots) = (node.checked(node.node().level())?, node.checked(node.node().slots())?);
            if level == 0 {
                // Only the root is come to as a leaf.
                return self.empty(mtr, node, slots, bare);
            }
            let last = node.checked(node.node().child(slots))?;
            if level == 1 && slots > 0 {
                return self.drop_leaves(mtr, node, slots, bare);
            }
            let child = self.pool.child(last, &node)?;
            let below = child.checked(child.node().level())?;
            if below >= level {
                let what = "its level is not less than its parent's".to_owned();
                return Err(Stop::fail(Error::CorruptPage { page: last.0, what }));
            }
            if slots == 0 {
                return self.take_over_child(mtr, node, child);
            }
            if below == 0 {
                return self.drop_child(mtr, node, slots, last, bare);
            }
            node = child;
        }
    }

    fn empty<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        root: OptimisticGuard<'p>,
        slots: usize,
        bare: &[PageNo],
    ) -> Attempt<FreeStep> {
        // One that was a leaf below, and has lost its large rows, has no rows left, and its fences still.
        if slots > 0 || root.checked(root.node().upper_into(&mut Vec::new()))? {
            if bare != [self.root] {
                return Ok(FreeStep::Leaves(vec![self.root]));
            }
            let mut root = root.exclusive()?;
            mtr.rewrite(&mut root, |page| _ = NodeMut::new(page).reformat(0, &Fences::all()));
            mtr.commit(&mut [&mut root]);
        }
        Ok(FreeStep::All)
    }

    /// Frees the last leaves of a node, except its first child: those whose bits are in one bitmap.
    fn drop_leaves<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        node: OptimisticGuard<'p>,
        slots: usize,
        bare: &[PageNo],
    ) -> Attempt<FreeStep> {
        let mut node = node.exclusive()?;
        let child = |slot: usize| node.checked(node.node().child(slot));
        let last = child(slots)?;
        let mut leaves = vec![last];
        for slot in (1..slots).rev() {
            let leaf = child(slot)?;
            if !self.alloc.have_one_bitmap(last, leaf) {
                break;
            }
            leaves.push(leaf);
        }
        if bare != leaves {
            return Ok(FreeStep::Leaves(leaves));
        }
        let mut bitmap = self.alloc.bitmap(last)?.exclusive()?;
        let freed = self.freed(&bitmap, &leaves)?;
        mtr.apply(&mut bitmap, &Op::Write { at: freed.0, bytes: &freed.1 });
        for slot in (slots - leaves.len()..slots).rev() {
            mtr.apply(&mut node, &Op::Remove { slot });
        }
        mtr.commit(&mut [&mut node, &mut bitmap]);
        Ok(FreeStep::Some)
    }

    /// Frees the last child, which has no children.
    fn drop_child<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        node: OptimisticGuard<'p>,
        slots: usize,
        child: PageNo,
        bare: &[PageNo],
    ) -> Attempt<FreeStep> {
        if bare != [child] {
            return Ok(FreeStep::Leaves(vec![child]));
        }
        let mut node = node.exclusive()?;
        let mut bitmap = self.alloc.bitmap(child)?.exclusive()?;
        let freed = self.freed(&bitmap, &[child])?;
        mtr.apply(&mut bitmap, &Op::Write { at: freed.0, bytes: &freed.1 });
        mtr.apply(&mut node, &Op::Remove { slot: slots - 1 });
        mtr.commit(&mut [&mut node, &mut bitmap]);
        Ok(FreeStep::Some)
    }

    /// Replaces a node by its only child, and frees the child's page.
    fn take_over_child<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        node: OptimisticGuard<'p>,
        child: OptimisticGuard<'p>,
    ) -> Attempt<FreeStep> {
        let (mut node, child) = (node.exclusive()?, child.exclusive()?);
        let mut bitmap = self.alloc.bitmap(child.page())?.exclusive()?;
        let freed = self.freed(&bitmap, &[child.page()])?;
        mtr.rewrite(&mut node, |page| _ = NodeMut::new(page).take_over(child.bytes()));
        mtr.apply(&mut bitmap, &Op::Write { at: freed.0, bytes: &freed.1 });
        mtr.commit(&mut [&mut node, &mut bitmap]);
        Ok(FreeStep::Some)
    }

    /// Frees the root of a tree without nodes, and removes the row `key` of this tree, which refers to it.
    pub(crate) fn drop_tree(&self, waiter: &Waiter, key: &[u8], root: PageNo) -> Result<()> {
        let need = Need::nodes(self.pool.page_size());
        self.pool.change(waiter, &need, |mut mtr| {
            let (leaf, slot, found) = self.find(key)?;
            if !found {
                return Ok(());
            }
            let mut leaf = leaf.exclusive()?;
            let mut bitmap = self.alloc.bitmap(root)?.exclusive()?;
            let freed = self.freed(&bitmap, &[root])?;
            mtr.apply(&mut bitmap, &Op::Write { at: freed.0, bytes: &freed.1 });
            mtr.apply(&mut leaf, &Op::Remove { slot });
            mtr.commit(&mut [&mut leaf, &mut bitmap]);
            Ok(())
        })
    }

    /// The bytes of a bitmap without these pages, and where they are. A page that is free already is corrupt.
    fn freed(&self, bitmap: &ExclusiveGuard<'_>, pages: &[PageNo]) -> Attempt<(usize, Vec<u8>)> {
        if let Some(page) = pages.iter().find(|&&page| !self.alloc.is_for_trees(page)) {
            return Err(Stop::corrupt(*page));
        }
        self.alloc.mark(bitmap, pages, false).ok_or_else(|| Stop::corrupt(bitmap.page()))
    }
}

/// The last large value of a leaf: its slot, and its pages.
fn last_large(leaf: &OptimisticGuard<'_>) -> Attempt<Option<(usize, PendingChain)>> {
    let node = leaf.node();
    let find = || -> std::result::Result<_, Torn> {
        if node.level()? != 0 {
            return Err(Torn);
        }
        for slot in (0..node.slots()?).rev() {
            if node.is_large(slot)? {
                let mut entry = Vec::new();
                node.append_value(slot, &mut entry)?;
                return Ok(Some((slot, chain_of(Some(Stored { bytes: &entry, large: true }))?)));
            }
        }
        Ok(None)
    };
    leaf.checked(find())
}
