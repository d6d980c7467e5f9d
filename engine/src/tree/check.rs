//! Checking a tree.

use super::Tree;
use super::walk::Visit;
use crate::error::{Error, Result};
use crate::page::node::NODE_HEADER_BYTES;
use crate::page::{PageNo, TRAILER_BYTES};
use crate::space::Reached;
use crate::wait::Waiter;

/// The size of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Levels, 1 if the root is a leaf.
    pub height: u32,
    /// Rows.
    pub rows: u64,
    /// Nodes with rows.
    pub leaf_pages: u64,
    /// Nodes above the leaves.
    pub inner_pages: u64,
    /// Overflow pages of large values.
    pub overflow_pages: u64,
    /// Bytes of rows and their slots in all leaves.
    pub leaf_bytes_used: u64,
}

impl TreeStats {
    /// Leaf and inner pages.
    pub fn pages(&self) -> u64 {
        self.leaf_pages + self.inner_pages + self.overflow_pages
    }

    /// The used share of the leaves' space, for pages of `page_bytes`; 0 to 1.
    pub fn fill(&self, page_bytes: usize) -> f64 {
        let room = self.leaf_pages * (page_bytes - NODE_HEADER_BYTES - TRAILER_BYTES) as u64;
        if room == 0 { 0.0 } else { self.leaf_bytes_used as f64 / room as f64 }
    }
}

/// The first damage ends the walk.
struct First;

impl Visit for First {
    fn damage(&mut self, _page: PageNo, error: Error) -> Result<()> {
        Err(error)
    }
}

impl Tree {
    /// Reads the whole tree (see `walk`); the error is the first damage. No thread changes the tree during the check.
    pub fn check(&self, waiter: &Waiter) -> Result<TreeStats> {
        self.walk(waiter, &mut Reached::of(self.pool.space().pages()), &mut First)
    }
}
