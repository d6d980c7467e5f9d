//! The one walk over all pages of a tree: which pages it reaches, and whether each matches its reference.
//!
//! Each page is read once, from disk, or from memory if it is there (and then its image on disk is verified, too). A
//! damaged page ends the walk only below it. No page is visited twice, by one walk or by several that share
//! [`Reached`], so damage cannot make a walk loop.
//!
//! The pages of large values are visited with the leaf that refers to them.

use super::large::pointer_of;
use super::{Tree, TreeStats};
use crate::disk::AlignedBuffer;
use crate::error::{Error, Result};
use crate::page::node::{Fences, LARGE_PREFIX_BYTES, Node};
use crate::page::overflow::Pointer;
use crate::page::{self, AT_KIND, AT_OWNER, KIND_NODE, PageNo, Torn, read_u64};
use crate::space::Reached;
use crate::wait::Waiter;

/// The callbacks of a walk. An error ends it.
pub(crate) trait Visit {
    /// A page was read, or tried to.
    fn page(&mut self) {}
    /// A leaf, in no order. Its keys are sorted; its values may be anything.
    fn leaf(&mut self, _page: PageNo, _leaf: Node<&[u8]>) -> Result<()> {
        Ok(())
    }
    /// Something is wrong with a page.
    fn damage(&mut self, page: PageNo, error: Error) -> Result<()>;
}

/// A node that is still to be looked at, and what its parent says about it.
struct Expected {
    page: PageNo,
    fences: Fences,
    /// `None` for the root.
    level: Option<u8>,
}

fn corrupt(page: PageNo, what: &str) -> Error {
    Error::CorruptPage { page: page.0, what: what.to_owned() }
}

impl Tree {
    /// Walks over the tree: checksums, kinds, owners, levels, fences, order of keys, and that no page is reached twice.
    /// No thread changes the tree during the walk.
    pub(crate) fn walk(
        &self,
        waiter: &Waiter,
        reached: &mut Reached,
        visit: &mut dyn Visit,
    ) -> Result<TreeStats> {
        let mut stats = TreeStats::default();
        let mut image = AlignedBuffer::new(self.pool.page_size());
        let mut to_do = vec![Expected { page: self.root, fences: Fences::all(), level: None }];
        while let Some(expected) = to_do.pop() {
            let no = expected.page;
            if reached.is_claimed(no) {
                visit.damage(no, corrupt(no, "something else refers to it, too"))?;
                continue;
            }
            reached.claim(no);
            let read = self.pool.read_to_check(no, &mut image, waiter);
            visit.page();
            let bytes = image.bytes();
            let level = match read.and_then(|()| self.check_head(bytes, &expected)) {
                Ok(level) => level,
                Err(error) => {
                    visit.damage(no, error)?;
                    continue;
                }
            };
            stats.height = stats.height.max(u32::from(level) + 1);
            let node = Node(bytes);
            let checked = check_node(node, level, &expected.fences)
                .and_then(|checked| count(&mut stats, node, level).map(|()| checked));
            match checked {
                Err(Torn) => visit.damage(no, corrupt(no, "its entries lie outside of it"))?,
                Ok((children, wrong)) => {
                    if let Some(wrong) = wrong {
                        visit.damage(no, corrupt(no, wrong))?;
                    }
                    to_do.extend(children);
                    if level == 0 && wrong.is_none() {
                        visit.leaf(no, node)?;
                        match large_values(node) {
                            Err(Torn) => visit.damage(no, corrupt(no, "its entries lie outside of it"))?,
                            Ok(values) => {
                                for value in values {
                                    stats.overflow_pages +=
                                        self.walk_large(&value, waiter, reached, visit)?;
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(stats)
    }

    /// Walks over the pages of a large value; how many they are.
    fn walk_large(
        &self,
        value: &Pointer,
        waiter: &Waiter,
        reached: &mut Reached,
        visit: &mut dyn Visit,
    ) -> Result<u64> {
        let (mut pages, mut at) = (0, value.first);
        let (mut bytes, mut image) = (vec![0; LARGE_PREFIX_BYTES], AlignedBuffer::new(self.pool.page_size()));
        let read = self.read_pages(waiter, value, &mut bytes, |page| {
            at = page;
            if reached.is_claimed(page) {
                return Err(corrupt(page, "something else refers to it, too"));
            }
            reached.claim(page);
            pages += 1;
            visit.page();
            self.pool.read_to_check(page, &mut image, waiter)
        });
        if let Err(error) = read {
            visit.damage(at, error)?;
        }
        Ok(pages)
    }

    /// What the header says of a page that was verified; its level.
    fn check_head(&self, bytes: &[u8], expected: &Expected) -> Result<u8> {
        let corrupt = |what: &str| Err(corrupt(expected.page, what));
        if bytes[AT_KIND] != KIND_NODE {
            return corrupt("a tree refers to it, and it is not a node");
        }
        if read_u64(bytes, AT_OWNER) != self.root.0 {
            return corrupt(&format!(
                "it belongs to tree {}, and tree {} refers to it",
                read_u64(bytes, AT_OWNER),
                self.root.0
            ));
        }
        let level = bytes[page::AT_LEVEL];
        match expected.level.is_none_or(|expected| expected == level) {
            true => Ok(level),
            false => corrupt("its level is not one less than its parent's"),
        }
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

fn count(stats: &mut TreeStats, node: Node<&[u8]>, level: u8) -> std::result::Result<(), Torn> {
    if level > 0 {
        stats.inner_pages += 1;
        return Ok(());
    }
    stats.leaf_pages += 1;
    stats.rows += node.slots()? as u64;
    stats.leaf_bytes_used += node.used_bytes()? as u64;
    Ok(())
}

/// The children of a node, and its defects. Children are checked against the node's own separators, so that one wrong
/// fence is reported once, and not for every node below.
fn check_node(
    node: Node<&[u8]>,
    level: u8,
    expected: &Fences,
) -> std::result::Result<(Vec<Expected>, Option<&'static str>), Torn> {
    let fences = node.fences()?;
    let slots = node.slots()?;
    let keys = (0..slots).map(|slot| node.key(slot)).collect::<std::result::Result<Vec<_>, Torn>>()?;
    let wrong = if fences != *expected {
        Some("its fences are not what its parent says")
    } else if !keys.is_sorted_by(|a, b| a < b) {
        Some("its keys are out of order")
    } else if !keys.iter().all(|key| fences.contain(key)) {
        Some("a key lies beyond its fences")
    } else {
        None
    };
    let mut children = Vec::new();
    for index in 0..if level > 0 { slots + 1 } else { 0 } {
        let lower = if index == 0 { fences.lower.clone() } else { keys[index - 1].clone() };
        let upper = if index == slots { fences.upper.clone() } else { Some(keys[index].clone()) };
        let fences = Fences { lower, upper };
        children.push(Expected { page: node.child(index)?, fences, level: Some(level - 1) });
    }
    Ok((children, wrong))
}
