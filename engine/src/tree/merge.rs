//! Merging underfull nodes with their neighbours, or balancing the two.

use std::ops::Range;

use super::entries::{Entries, NodeKind};
use super::{Attempt, Tree};
use crate::buffer::{ExclusiveGuard, Mtr, Need, OptimisticGuard, Stop};
use crate::error::Result;
use crate::page::edit::NodeMut;
use crate::page::node::{AT_FIRST_CHILD, CHILD_BYTES, Fences, separator};
use crate::page::op::Op;
use crate::page::{AT_OWNER, PageNo, read_u64};
use crate::wait::Waiter;

enum Outcome {
    /// There was nothing to do, or nothing could be done.
    Nothing,
    /// The node has no neighbour under the same parent; perhaps the parent has.
    Alone,
    /// Two nodes were evened out.
    Evened,
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
    /// Merges the underfull nodes on the path to `key`, from the leaf upwards.
    pub(super) fn shrink(&self, waiter: &Waiter, key: &[u8]) -> Result<()> {
        self.shrink_from(waiter, key, 0).map(drop)
    }

    /// As [`Self::shrink`], from the node of that level upwards; returns whether any node changed.
    pub(super) fn shrink_from(&self, waiter: &Waiter, key: &[u8], lowest: u8) -> Result<bool> {
        let need = Need::nodes(self.pool.page_size());
        let mut changed = false;
        for level in lowest..u8::MAX {
            match self.pool.change(waiter, &need, |mtr| self.try_merge(mtr, key, level))? {
                Outcome::Merged(page) => self.alloc.free(page, waiter)?,
                Outcome::Alone => continue,
                Outcome::Evened => return Ok(true),
                Outcome::Nothing => break,
            }
            changed = true;
        }
        while let Some(page) = self.pool.change(waiter, &need, |mtr| self.try_collapse(mtr))? {
            self.alloc.free(page, waiter)?;
            changed = true;
        }
        Ok(changed)
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
        if !self.is_underfull(path.node.checked(path.node.node().used_bytes())?) {
            return Ok(Outcome::Nothing);
        }
        let slots = parent.checked(parent.node().slots())?;
        if slots == 0 {
            return Ok(Outcome::Alone);
        }
        let pair = self.latch_pair(path.node, parent, index, slots, level)?;
        self.merge(mtr, pair)
    }

    /// The node together with its right neighbour, or with the left if it is the last.
    fn latch_pair<'p>(
        &'p self,
        node: OptimisticGuard<'p>,
        parent: OptimisticGuard<'p>,
        index: usize,
        slots: usize,
        level: u8,
    ) -> Attempt<Pair<'p>> {
        let left_index = index.min(slots - 1);
        let other_index = if left_index == index { index + 1 } else { left_index };
        let other = self.pool.child(parent.checked(parent.node().child(other_index))?, &parent)?;
        // Two children that are the same page, or of different levels, would deadlock, or be misread.
        if other.page() == node.page() || other.checked(other.node().level())? != level {
            return Err(Stop::corrupt(parent.page()));
        }
        let (left, right) = if left_index == index { (node, other) } else { (other, node) };
        Ok(Pair {
            parent: parent.exclusive()?,
            slot: left_index,
            left: left.exclusive()?,
            right: right.exclusive()?,
            level,
        })
    }

    fn merge<'p>(&'p self, mut mtr: Mtr<'p>, mut pair: Pair<'p>) -> Attempt<Outcome> {
        let entries = pair.entries()?;
        let fences = pair.fences()?;
        pair.left.checked(entries.check(&fences))?;
        let size = entries.node_bytes(0..entries.len(), &fences);
        if size > self.pool.page_size() / 8 * 7 {
            return self.even_out(mtr, pair, &entries, &fences);
        }
        let mut merged = vec![0; self.pool.page_size()];
        let kind = self.kind(&pair.left, pair.level, first_child(&pair.left));
        if !entries.build(0..entries.len(), &kind, &fences, &mut merged) {
            return Ok(Outcome::Nothing);
        }
        mtr.rewrite(&mut pair.left, |page| page.copy_from_slice(&merged));
        mtr.apply(&mut pair.parent, &Op::Remove { slot: pair.slot });
        retire(&mut mtr, &mut pair.right);
        mtr.commit(&mut [&mut pair.parent, &mut pair.left, &mut pair.right]);
        Ok(Outcome::Merged(pair.right.page()))
    }

    /// Gives both nodes about the same.
    fn even_out<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        mut pair: Pair<'p>,
        entries: &Entries,
        fences: &Fences,
    ) -> Attempt<Outcome> {
        if entries.len() < 2 {
            return Ok(Outcome::Nothing);
        }
        let at = entries.middle();
        let leaf = pair.level == 0;
        let separator = match leaf {
            true => separator(entries.key(at - 1), entries.key(at)).to_vec(),
            false => entries.key(at).to_vec(),
        };
        let room = pair.parent.node().free_bytes().and_then(|free| {
            let node = pair.parent.node();
            let old_len = node.key(pair.slot)?.len();
            Ok(separator.len() <= old_len || separator.len() - old_len + 8 <= free)
        });
        if !pair.parent.checked(room)? {
            return Ok(Outcome::Nothing);
        }
        let left_fences = Fences { lower: fences.lower.clone(), upper: Some(separator.clone()) };
        let right_fences = Fences { lower: separator.clone(), upper: fences.upper.clone() };
        let right_first = if leaf { PageNo(0) } else { entries.child(at) };
        let kinds = [
            self.kind(&pair.left, pair.level, first_child(&pair.left)),
            self.kind(&pair.right, pair.level, right_first),
        ];
        let ranges: [Range<usize>; 2] = [0..at, at + usize::from(!leaf)..entries.len()];
        let mut pages = [vec![0; self.pool.page_size()], vec![0; self.pool.page_size()]];
        for (index, fences) in [left_fences, right_fences].iter().enumerate() {
            if !entries.build(ranges[index].clone(), &kinds[index], fences, &mut pages[index]) {
                return Ok(Outcome::Nothing);
            }
        }
        mtr.rewrite(&mut pair.left, |page| page.copy_from_slice(&pages[0]));
        mtr.rewrite(&mut pair.right, |page| page.copy_from_slice(&pages[1]));
        let right_no = pair.right.page().0.to_le_bytes();
        mtr.apply(&mut pair.parent, &Op::Remove { slot: pair.slot });
        mtr.apply(
            &mut pair.parent,
            &Op::Insert { slot: pair.slot, key: &separator, value: (&right_no).into() },
        );
        mtr.commit(&mut [&mut pair.parent, &mut pair.left, &mut pair.right]);
        Ok(Outcome::Evened)
    }

    fn kind(&self, page: &ExclusiveGuard<'_>, level: u8, first_child: PageNo) -> NodeKind {
        NodeKind { no: page.page(), owner: self.root, level, first_child }
    }
}

impl Pair<'_> {
    /// All entries of both nodes; for inner nodes, with the separator and the right node's first child between them.
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

/// Marks a page that is no longer part of the tree as changed, so that readers of the old version restart.
pub(super) fn retire<'p>(mtr: &mut Mtr<'p>, page: &mut ExclusiveGuard<'p>) {
    mtr.apply(page, &Op::Write { at: AT_OWNER, bytes: &0_u64.to_le_bytes() });
}
