//! Checking a tree.

use std::collections::HashSet;

use super::Tree;
use super::large::pointer_of;
use crate::disk::AlignedBuffer;
use crate::error::{Error, Result};
use crate::page::node::{Fences, LARGE_PREFIX_BYTES, Node};
use crate::page::overflow::Pointer;
use crate::page::{PageNo, Torn};
use crate::wait::Waiter;

/// What a tree consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Levels, 1 if the root is a leaf.
    pub height: u32,
    /// Rows.
    pub rows: u64,
    /// Nodes with rows.
    pub leaf_pages: u64,
    /// Nodes above them.
    pub inner_pages: u64,
    /// Pages with the bytes of large values that do not lie in leaves.
    pub overflow_pages: u64,
    /// Bytes of rows and their slots in all leaves.
    pub leaf_bytes_used: u64,
}

impl TreeStats {
    /// Pages of the tree.
    pub fn pages(&self) -> u64 {
        self.leaf_pages + self.inner_pages + self.overflow_pages
    }
}

/// A node that is still to be looked at, and what its parent says about it.
struct Expected {
    page: PageNo,
    fences: Fences,
    /// `None` for the root.
    level: Option<u8>,
}

impl Tree {
    /// Reads the whole tree, also the disk's image of pages that are in memory unchanged: checksums, order of keys,
    /// fences, levels, the pages of large values, and that no page is part of it twice. Nobody changes the tree meanwhile.
    pub fn check(&self, waiter: &Waiter) -> Result<TreeStats> {
        let mut stats = TreeStats::default();
        let mut seen = HashSet::new();
        let (mut copy, mut image) = (Vec::new(), AlignedBuffer::new(self.pool.page_size()));
        let mut to_do = vec![Expected { page: self.root, fences: Fences::all(), level: None }];
        while let Some(expected) = to_do.pop() {
            let page = expected.page;
            let corrupt = |what: &str| Error::CorruptPage { page: page.0, what: what.to_owned() };
            if !seen.insert(page) {
                return Err(corrupt("two nodes refer to it"));
            }
            self.copy_page(page, &mut copy, waiter)?;
            self.pool.verify_on_disk(page, &mut image, waiter)?;
            let level = Node(&copy[..]).level().map_err(|Torn| corrupt("it has no level"))?;
            if expected.level.is_some_and(|expected| expected != level) {
                return Err(corrupt("its level is not one less than its parent's"));
            }
            let children = check_node(Node(&copy[..]), level, &expected.fences, &mut stats);
            let children = children.map_err(|Torn| corrupt("its entries lie outside of it"))?;
            to_do.extend(children.map_err(corrupt)?);
            if level == 0 {
                let large =
                    large_values(Node(&copy[..])).map_err(|Torn| corrupt("its entries lie outside of it"))?;
                for pointer in large {
                    stats.overflow_pages += self.check_large(&pointer, &mut seen, &mut image, waiter)?;
                }
            }
            stats.height = stats.height.max(u32::from(level) + 1);
        }
        Ok(stats)
    }

    /// Reads a large value, and its pages on disk; how many they are.
    fn check_large(
        &self,
        pointer: &Pointer,
        seen: &mut HashSet<PageNo>,
        image: &mut AlignedBuffer,
        waiter: &Waiter,
    ) -> Result<u64> {
        let (mut pages, mut value) = (0, vec![0; LARGE_PREFIX_BYTES]);
        self.read_pages(waiter, pointer, &mut value, |page| {
            pages += 1;
            match seen.insert(page) {
                true => self.pool.verify_on_disk(page, image, waiter),
                false => Err(Error::CorruptPage { page: page.0, what: "it is used twice".to_owned() }),
            }
        })?;
        Ok(pages)
    }

    fn copy_page(&self, page: PageNo, copy: &mut Vec<u8>, waiter: &Waiter) -> Result<()> {
        self.pool.retry(waiter, || {
            copy.clear();
            copy.extend_from_slice(self.pool.optimistic(page)?.shared()?.bytes());
            Ok(())
        })
    }
}

/// Where the large values of a leaf are.
fn large_values(leaf: Node<&[u8]>) -> std::result::Result<Vec<Pointer>, Torn> {
    let values = (0..leaf.slots()?).map(|slot| leaf.stored(slot));
    values
        .filter(|value| value.is_ok_and(|value| value.large) || value.is_err())
        .map(|value| pointer_of(value?.bytes))
        .collect()
}

type Checked = std::result::Result<std::result::Result<Vec<Expected>, &'static str>, Torn>;

/// Checks one node and gives its children; the inner error says what is wrong.
fn check_node(node: Node<&[u8]>, level: u8, expected: &Fences, stats: &mut TreeStats) -> Checked {
    let fences = node.fences()?;
    if fences != *expected {
        return Ok(Err("its fences are not what its parent says"));
    }
    let slots = node.slots()?;
    let mut keys = Vec::with_capacity(slots);
    for slot in 0..slots {
        keys.push(node.key(slot)?);
    }
    if !keys.is_sorted_by(|a, b| a < b) {
        return Ok(Err("its keys are out of order"));
    }
    if !keys.iter().all(|key| fences.contain(key)) {
        return Ok(Err("a key lies beyond its fences"));
    }
    if level == 0 {
        stats.rows += slots as u64;
        stats.leaf_pages += 1;
        stats.leaf_bytes_used += node.used_bytes()? as u64;
        return Ok(Ok(Vec::new()));
    }
    stats.inner_pages += 1;
    let mut children = Vec::with_capacity(slots + 1);
    for index in 0..=slots {
        let lower = if index == 0 { fences.lower.clone() } else { keys[index - 1].clone() };
        let upper = if index == slots { fences.upper.clone() } else { Some(keys[index].clone()) };
        children.push(Expected {
            page: node.child(index)?,
            fences: Fences { lower, upper },
            level: Some(level - 1),
        });
    }
    Ok(Ok(children))
}
