//! Merging underfull nodes with their neighbours.
//!
//! Nodes are merged where they fit into one, and else left alone, as InnoDB does it: to even two nodes out logs both of them
//! whole. So a tree that loses its rows from one end, as undo does, logs little more than what it still has of
//! each leaf when that is merged with the nearly empty one before it.

use super::entries::{Entries, NodeKind};
use super::{Attempt, Tree};
use crate::buffer::{ExclusiveGuard, Mtr, Need, OptimisticGuard, Stop};
use crate::error::Result;
use crate::page::edit::NodeMut;
use crate::page::node::{AT_FIRST_CHILD, CHILD_BYTES, Fences};
use crate::page::op::Op;
use crate::page::{AT_OWNER, PageNo, read_u64};
use crate::wait::Waiter;

enum Outcome {
    /// There was nothing to do, or nothing could be done.
    Nothing,
    /// The node has no neighbour under the same parent; perhaps the parent has.
    Alone,
    /// Two nodes became one; this page is free.
    Merged(PageNo),
}

/// Two neighbours under one parent, all latched.
struct Pair<'p> {
    parent: ExclusiveGuard<'p>,
    /// The parent's slot of the right one.
    slot: usize,
    left: ExclusiveGuard<'p>,
    right: ExclusiveGuard<'p>,
    level: u8,
}

impl Tree {
    /// Merges what is underfull on the way to `key`, from the leaf upwards.
    pub(super) fn shrink(&self, waiter: &Waiter, key: &[u8]) -> Result<()> {
        let need = Need::nodes(self.pool.page_size(), &[]);
        for level in 0..u8::MAX {
            match self.pool.change(waiter, &need, |mtr| self.try_merge(mtr, key, level))? {
                Outcome::Merged(page) => self.alloc.free(page, waiter)?,
                Outcome::Alone => {}
                Outcome::Nothing => break,
            }
        }
        while let Some(page) = self.pool.change(waiter, &need, |mtr| self.try_collapse(mtr))? {
            self.alloc.free(page, waiter)?;
        }
        Ok(())
    }

    /// A root with one child becomes what the child is; the child's page, which is free then.
    fn try_collapse<'p>(&'p self, mut mtr: Mtr<'p>) -> Attempt<Option<PageNo>> {
        let root = self.pool.optimistic(self.root)?;
        if root.checked(root.node().level())? == 0 || root.checked(root.node().slots())? > 0 {
            return Ok(None);
        }
        let child = self.pool.child(root.checked(root.node().child(0))?, &root)?;
        let (mut root, mut child) = (root.exclusive()?, child.exclusive()?);
        mtr.rewrite(&mut root, |page| _ = NodeMut::new(page).take_over(child.bytes()));
        retire(&mut mtr, &mut child);
        mtr.commit(&mut [&mut root, &mut child]);
        Ok(Some(child.page()))
    }

    fn try_merge<'p>(&'p self, mtr: Mtr<'p>, key: &[u8], level: u8) -> Attempt<Outcome> {
        let Some(path) = self.path(key, level)? else { return Ok(Outcome::Nothing) };
        let Some((parent, index)) = path.parent else { return Ok(Outcome::Nothing) };
        let used_bytes = path.node.checked(path.node.node().used_bytes())?;
        if !self.is_underfull(used_bytes) {
            return Ok(Outcome::Nothing);
        }
        let slots = parent.checked(parent.node().slots())?;
        if slots == 0 {
            return Ok(Outcome::Alone);
        }
        for other_index in [index + 1, index.wrapping_sub(1)].into_iter().filter(|&other| other <= slots) {
            let other = self.neighbour(&path.node, &parent, other_index, level)?;
            let other_bytes = other.checked(other.node().used_bytes())?;
            if self.is_worth_merging(used_bytes + other_bytes) {
                let slot = index.min(other_index);
                let (left, right) = if slot == index { (path.node, other) } else { (other, path.node) };
                let (parent, left, right) = (parent.exclusive()?, left.exclusive()?, right.exclusive()?);
                return self.merge(mtr, Pair { parent, slot, left, right, level });
            }
        }
        Ok(Outcome::Nothing)
    }

    /// The node's neighbour under the same parent.
    fn neighbour<'p>(
        &'p self,
        node: &OptimisticGuard<'p>,
        parent: &OptimisticGuard<'p>,
        index: usize,
        level: u8,
    ) -> Attempt<OptimisticGuard<'p>> {
        let other = self.pool.child(parent.checked(parent.node().child(index))?, parent)?;
        // Two of a parent that are one, or not of one level, would be waited for for ever, or taken for what they are not.
        if other.page() == node.page() || other.checked(other.node().level())? != level {
            return Err(Stop::corrupt(parent.page()));
        }
        Ok(other)
    }

    /// Whether a node of so many bytes has some room left.
    fn is_worth_merging(&self, bytes: usize) -> bool {
        bytes <= self.pool.page_size() / 8 * 7
    }

    fn merge<'p>(&'p self, mut mtr: Mtr<'p>, mut pair: Pair<'p>) -> Attempt<Outcome> {
        let entries = pair.entries()?;
        let fences = pair.fences()?;
        pair.left.checked(entries.check(&fences))?;
        // With the longer prefix of narrower fences they took less.
        if !self.is_worth_merging(entries.node_bytes(0..entries.len(), &fences)) {
            return Ok(Outcome::Nothing);
        }
        let mut merged = vec![0; self.pool.page_size()];
        let (no, first_child) = (pair.left.page(), first_child(&pair.left));
        let kind = NodeKind { no, owner: self.root, level: pair.level, first_child };
        if !entries.build(0..entries.len(), &kind, &fences, &mut merged) {
            return Ok(Outcome::Nothing);
        }
        mtr.rewrite(&mut pair.left, |page| page.copy_from_slice(&merged));
        mtr.apply(&mut pair.parent, &Op::Remove { slot: pair.slot });
        retire(&mut mtr, &mut pair.right);
        mtr.commit(&mut [&mut pair.parent, &mut pair.left, &mut pair.right]);
        Ok(Outcome::Merged(pair.right.page()))
    }
}

impl Pair<'_> {
    /// All entries of both; between those of inner nodes the separator, with the right one's first child.
    fn entries(&self) -> Attempt<Entries> {
        let mut entries = Entries::default();
        self.left.checked(entries.push_node(self.left.node()))?;
        if self.level > 0 {
            let separator = self.parent.checked(self.parent.node().key(self.slot))?;
            debug_assert_eq!(CHILD_BYTES, 8);
            entries.push(&separator, &first_child(&self.right).0.to_le_bytes());
        }
        self.right.checked(entries.push_node(self.right.node()))?;
        Ok(entries)
    }

    fn fences(&self) -> Attempt<Fences> {
        let left = self.left.checked(self.left.node().fences())?;
        let right = self.right.checked(self.right.node().fences())?;
        Ok(Fences { lower: left.lower, upper: right.upper })
    }
}

fn first_child(page: &ExclusiveGuard<'_>) -> PageNo {
    PageNo(read_u64(page.bytes(), AT_FIRST_CHILD))
}

/// Marks a page that is no longer part of the tree as changed, so that nobody who read it before goes on with it.
fn retire<'p>(mtr: &mut Mtr<'p>, page: &mut ExclusiveGuard<'p>) {
    mtr.apply(page, &Op::Write { at: AT_OWNER, bytes: &0_u64.to_le_bytes() });
}
