//! Entries of nodes in private memory, and nodes built from them: shared by splits, merges and bulk loads.

use crate::page::edit::{NodeMut, entry_bytes, fixed_bytes};
use crate::page::node::{Fences, Node, Stored};
use crate::page::{Bytes, PageNo, Torn};
use std::ops::Range;

/// Keys and values in order.
#[derive(Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    ends: Vec<Ends>,
}

/// Where an entry ends.
#[derive(Clone, Copy)]
struct Ends {
    key: usize,
    value: usize,
    /// The value is large.
    large: bool,
}

/// What a node is, besides its entries.
#[derive(Clone, Copy)]
pub(super) struct NodeKind {
    pub(super) no: PageNo,
    pub(super) owner: PageNo,
    pub(super) level: u8,
    pub(super) first_child: PageNo,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn begin(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before].value)
    }

    pub(super) fn key(&self, index: usize) -> &[u8] {
        &self.bytes[self.begin(index)..self.ends[index].key]
    }

    pub(super) fn value(&self, index: usize) -> Stored<'_> {
        let ends = self.ends[index];
        Stored { bytes: &self.bytes[ends.key..ends.value], large: ends.large }
    }

    /// The value of an inner node's entry.
    pub(super) fn child(&self, index: usize) -> PageNo {
        PageNo(u64::from_le_bytes(
            self.value(index).bytes.try_into().expect("an inner node's value has 8 bytes"),
        ))
    }

    pub(super) fn push<'v>(&mut self, key: &[u8], value: impl Into<Stored<'v>>) {
        let value = value.into();
        self.bytes.extend_from_slice(key);
        let key = self.bytes.len();
        self.bytes.extend_from_slice(value.bytes);
        self.ends.push(Ends { key, value: self.bytes.len(), large: value.large });
    }

    /// Appends all entries of a node.
    pub(super) fn push_node<B: Bytes>(&mut self, node: Node<B>) -> Result<(), Torn> {
        for index in 0..node.slots()? {
            node.append_prefix(&mut self.bytes)?;
            node.append_suffix(index, &mut self.bytes)?;
            let key = self.bytes.len();
            let large = node.append_value(index, &mut self.bytes)?;
            self.ends.push(Ends { key, value: self.bytes.len(), large });
        }
        Ok(())
    }

    /// Checks what splits and merges rely on, for the first time since the page was read: keys ascend, within the
    /// fences.
    pub(super) fn check(&self, fences: &Fences) -> Result<(), Torn> {
        let keys = || (0..self.len()).map(|index| self.key(index));
        match keys().is_sorted_by(|a, b| a < b) && keys().all(|key| fences.contain(key)) {
            true => Ok(()),
            false => Err(Torn),
        }
    }

    /// Forgets all but the last entry.
    pub(super) fn keep_last(&mut self) {
        let last = self.len() - 1;
        let (begin, ends) = (self.begin(last), self.ends[last]);
        self.bytes.copy_within(begin..ends.value, 0);
        self.bytes.truncate(ends.value - begin);
        self.ends.clear();
        self.ends.push(Ends { key: ends.key - begin, value: ends.value - begin, ..ends });
    }

    /// Bytes of a node with these entries and fences.
    pub(super) fn node_bytes(&self, range: Range<usize>, fences: &Fences) -> usize {
        let prefix = fences.prefix_len();
        let entries: usize =
            range.map(|index| entry_bytes(prefix, self.key(index).len(), self.value(index).len())).sum();
        fixed_bytes(fences) + entries
    }

    /// The position of a cut that gives both sides about the same bytes, and at least one entry each if there are two.
    pub(super) fn middle(&self) -> usize {
        let weight = |index: usize| self.ends[index].value + 10 * (index + 1);
        let half = weight(self.len() - 1) / 2;
        let cut = (0..self.len()).find(|&index| weight(index) >= half).expect("the last one's is the total");
        (cut + 1).min(self.len() - 1).max(1)
    }

    /// Makes `page` a node with the entries `range`; false if they do not fit.
    pub(super) fn build(
        &self,
        range: Range<usize>,
        kind: &NodeKind,
        fences: &Fences,
        page: &mut [u8],
    ) -> bool {
        if self.node_bytes(range.clone(), fences) > page.len() {
            return false;
        }
        let mut node = NodeMut::format(page, kind.no, kind.owner, kind.level, fences);
        node.set_first_child(kind.first_child);
        range.into_iter().all(|index| node.push(self.key(index), self.value(index)))
    }
}
