//! The descent: optimistic lock coupling.
//!
//! A reader reads a node's version, looks up the child's number, reads the child's version, and then validates the
//! node's version. So the child was the right one when its version was read. A later validation of the child proves
//! that no change since then concerns the key.

use super::{Attempt, Tree};
use crate::buffer::OptimisticGuard;
use crate::page::Torn;
use crate::page::node::NODE_HEADER_BYTES;

/// A node and how it was reached.
pub(super) struct Path<'p> {
    pub(super) node: OptimisticGuard<'p>,
    /// The parent, and which of its children the node is; `None` for the root.
    pub(super) parent: Option<(OptimisticGuard<'p>, usize)>,
}

/// Prefetched bytes of slots: a search needs several lines of them one after the other.
const PREFETCH_BYTES: usize = 640;

impl Tree {
    /// The leaf where `key` is or belongs.
    #[inline]
    pub(super) fn leaf(&self, key: &[u8]) -> Attempt<OptimisticGuard<'_>> {
        let mut node = self.pool.optimistic(self.root)?;
        let mut level = node.unchecked(node.node().level())?;
        while level > 0 {
            let index = node.unchecked(node.node().child_index(key))?;
            (node, level) = self.step_down(&node, level, index)?;
        }
        Ok(node)
    }

    /// The leaf and the slot where `key` is or belongs, and whether it is there.
    pub(super) fn find(&self, key: &[u8]) -> Attempt<(OptimisticGuard<'_>, usize, bool)> {
        let leaf = self.leaf(key)?;
        let (slot, found) = leaf.checked(leaf.node().search(key))?;
        Ok((leaf, slot, found))
    }

    /// From a node to its child.
    #[inline]
    fn step_down<'p>(
        &'p self,
        node: &OptimisticGuard<'p>,
        level: u8,
        index: usize,
    ) -> Attempt<(OptimisticGuard<'p>, u8)> {
        let child = self.pool.child(node.unchecked(node.node().child(index))?, node)?;
        child.prefetch(0, NODE_HEADER_BYTES + PREFETCH_BYTES);
        let child_level = child.unchecked(child.node().level())?;
        match child_level == level - 1 {
            true => Ok((child, child_level)),
            // A level that is not the next one cannot be, unless the child is just being changed.
            false => child.checked(Err(Torn)),
        }
    }

    /// The node of `level` on the way to `key`, and its parent; `None` if the tree is not that high.
    pub(super) fn path(&self, key: &[u8], target: u8) -> Attempt<Option<Path<'_>>> {
        let node = self.pool.optimistic(self.root)?;
        let mut level = node.checked(node.node().level())?;
        if level < target {
            return Ok(None);
        }
        let mut path = Path { node, parent: None };
        while level > target {
            let index = path.node.unchecked(path.node.node().child_index(key))?;
            let (child, child_level) = self.step_down(&path.node, level, index)?;
            path = Path { node: child, parent: Some((path.node, index)) };
            level = child_level;
        }
        Ok(Some(path))
    }
}
