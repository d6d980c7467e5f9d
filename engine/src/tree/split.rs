//! Splitting nodes.

use super::entries::{Entries, NodeKind};
use super::{Attempt, Tree};
use crate::buffer::{ExclusiveGuard, Mtr, Need, Stop};
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::page::edit::NodeMut;
use crate::page::node::{CHILD_BYTES, Fences, separator};
use crate::page::op::Op;
use crate::wait::Waiter;

/// Consecutive inserts, each right after the previous one, from which on more are expected.
const ASCENDING_RUN: usize = 4;

#[derive(PartialEq, Eq)]
enum Outcome {
    /// The new page is in use.
    Done,
    /// The parent has no room for the separator.
    ParentFull,
    /// Another thread changed the tree, so that no split is needed.
    Moot,
}

/// Where a node is cut.
struct Cut {
    /// Entries that stay.
    left: usize,
    /// The new node.
    right: Vec<u8>,
    separator: Vec<u8>,
}

impl Tree {
    /// Makes room on the way to `key` at `level`: the caller tries again, and may come back.
    pub(super) fn split(&self, waiter: &Waiter, key: &[u8], level: u8) -> Result<()> {
        let near = self.pool.retry(waiter, || Ok(self.path(key, level)?.map(|path| path.node.page())))?;
        let new = self.alloc.allocate(near, waiter)?;
        let outcome = self.split_to(waiter, key, level, new);
        if !matches!(outcome, Ok(Outcome::Done)) {
            self.alloc.free(new, waiter)?;
        }
        match outcome? {
            Outcome::Done | Outcome::Moot => Ok(()),
            Outcome::ParentFull => self.split(waiter, key, level + 1),
        }
    }

    fn split_to(&self, waiter: &Waiter, key: &[u8], level: u8, new: PageNo) -> Result<Outcome> {
        let need = Need::nodes(self.pool.page_size()).making(new);
        self.pool.change(waiter, &need, |mtr| self.try_split(mtr, key, level, new))
    }

    fn try_split<'p>(&'p self, mut mtr: Mtr<'p>, key: &[u8], level: u8, new: PageNo) -> Attempt<Outcome> {
        let Some(path) = self.path(key, level)? else { return Ok(Outcome::Moot) };
        let mut node = path.node.exclusive()?;
        let Some((parent, index)) = path.parent else {
            return self.raise(mtr, node, new);
        };
        if new == node.page() || new == parent.page() {
            return Err(marked_free(new));
        }
        let mut parent = parent.exclusive()?;
        let Some(cut) = self.cut(&node, key, level, new)? else { return Ok(Outcome::Moot) };
        if !parent.checked(parent.node().fits(cut.separator.len(), CHILD_BYTES))? {
            return Ok(Outcome::ParentFull);
        }
        // From here on nothing fails.
        let mut right = mtr.create(new)?;
        mtr.rewrite(&mut right, |page| page.copy_from_slice(&cut.right));
        mtr.apply(&mut node, &Op::Cut { slot: cut.left, upper: &cut.separator });
        let child = new.0.to_le_bytes();
        let separator = Op::Insert { slot: index, key: &cut.separator, value: (&child).into() };
        mtr.apply(&mut parent, &separator);
        mtr.commit(&mut [&mut parent, &mut node, &mut right]);
        Ok(Outcome::Done)
    }

    /// The root gets a child that has all that it had.
    fn raise<'p>(&'p self, mut mtr: Mtr<'p>, mut root: ExclusiveGuard<'p>, new: PageNo) -> Attempt<Outcome> {
        let level = root.checked(root.node().level())?;
        if level == u8::MAX {
            return Err(Stop::corrupt(root.page()));
        }
        if new == root.page() {
            return Err(marked_free(new));
        }
        let mut child = mtr.create(new)?;
        mtr.rewrite(&mut child, |page| {
            page.copy_from_slice(root.bytes());
            crate::page::write_u64(page, crate::page::AT_PAGE_NO, new.0);
        });
        mtr.rewrite(&mut root, |page| {
            NodeMut::new(page).reformat(level + 1, &Fences::all()).set_first_child(new);
        });
        mtr.commit(&mut [&mut root, &mut child]);
        Ok(Outcome::Done)
    }

    /// Cuts a node in two so that `key` fits; `None` if it is too small to be cut.
    fn cut(&self, node: &ExclusiveGuard<'_>, key: &[u8], level: u8, new: PageNo) -> Attempt<Option<Cut>> {
        let mut entries = Entries::default();
        node.checked(entries.push_node(node.node()))?;
        if entries.len() < 2 {
            return Ok(None);
        }
        let fences = node.checked(node.node().fences())?;
        node.checked(entries.check(&fences))?;
        if !fences.contain(key) {
            return Err(Stop::corrupt(node.page()));
        }
        let (at, _) = node.checked(node.node().search(key))?;
        let (last, run) = node.checked(node.node().insert_pattern())?;
        let ascending = run >= ASCENDING_RUN && at == last + 1;
        let kind = NodeKind { no: new, owner: self.root, level, first_child: PageNo(0) };
        let middle = entries.middle();
        let cuts = [ascending.then_some((at, key)), Some((middle, entries.key(middle)))];
        let cut = cuts.into_iter().flatten().find_map(|(at, right_key)| match level {
            0 => self.cut_leaf(&entries, &fences, kind, at, right_key),
            _ => self.cut_inner(&entries, &fences, kind, at.min(entries.len() - 1)),
        });
        Ok(cut)
    }

    /// The right node begins after entry `at - 1`, at `right_key` or before. It may be empty for now.
    fn cut_leaf(
        &self,
        entries: &Entries,
        fences: &Fences,
        right: NodeKind,
        at: usize,
        right_key: &[u8],
    ) -> Option<Cut> {
        let separator = separator(entries.key(at.checked_sub(1)?), right_key).to_vec();
        self.build(entries, fences, right, [at, at], separator)
    }

    /// Entry `at` goes up: its key as separator, its child as the right node's first.
    fn cut_inner(&self, entries: &Entries, fences: &Fences, right: NodeKind, at: usize) -> Option<Cut> {
        let right = NodeKind { first_child: entries.child(at), ..right };
        self.build(entries, fences, right, [at, at + 1], entries.key(at).to_vec())
    }

    /// `left` entries stay, the entries from `begin` on form the right node; `None` if either part does not fit.
    fn build(
        &self,
        entries: &Entries,
        fences: &Fences,
        kind: NodeKind,
        [left, begin]: [usize; 2],
        separator: Vec<u8>,
    ) -> Option<Cut> {
        let left_fences = Fences { lower: fences.lower.clone(), upper: Some(separator.clone()) };
        let right_fences = Fences { lower: separator.clone(), upper: fences.upper.clone() };
        let mut right = vec![0; self.pool.page_size()];
        let fit = entries.node_bytes(0..left, &left_fences) <= right.len()
            && entries.build(begin..entries.len(), &kind, &right_fences, &mut right);
        fit.then_some(Cut { left, right, separator })
    }
}

/// The page for a new node is one that this thread has latched: waiting for it would be a deadlock with itself.
pub(super) fn marked_free(page: PageNo) -> Stop {
    let what = "it is in use, and its bitmap says that it is free".to_owned();
    Stop::fail(Error::CorruptPage { page: page.0, what })
}
