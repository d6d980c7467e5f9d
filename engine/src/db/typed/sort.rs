//! Entries of an index, sorted.

use crate::error::{Error, Result};
use crate::row::IndexFormat;
use crate::tree::Tree;
use crate::txn::load_versions;
use crate::wait::Waiter;

/// Entries in memory: their bytes, and twelve more for each.
#[derive(Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    /// Where each begins, and its length.
    places: Vec<(u64, u32)>,
}

impl Entries {
    pub(super) fn push(&mut self, entry: &[u8]) {
        self.places.push((self.bytes.len() as u64, entry.len() as u32));
        self.bytes.extend_from_slice(entry);
    }

    /// Sorts them; if the index is unique, it has no duplicates.
    pub(super) fn sort(&mut self, index: &IndexFormat) -> Result<()> {
        let bytes = &self.bytes;
        self.places.sort_unstable_by(|&a, &b| slice(bytes, a).cmp(slice(bytes, b)));
        if !index.definition().unique {
            return Ok(());
        }
        let mut last = None;
        for entry in self.iter() {
            let part = index.unique_part(entry)?;
            if part.is_some() && part == last {
                return Err(Error::DuplicateKey { index: index.definition().name.clone() });
            }
            last = part;
        }
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|&place| slice(&self.bytes, place))
    }

    /// Loads them into an empty tree.
    pub(super) fn load(&self, tree: &Tree, fill: f64, waiter: &Waiter) -> Result<()> {
        let mut entries = self.iter();
        let next = |key: &mut Vec<u8>, _: &mut Vec<u8>| {
            let Some(entry) = entries.next() else { return Ok(false) };
            key.extend_from_slice(entry);
            Ok(true)
        };
        load_versions(tree, waiter, fill, |_| {}, next).map(drop)
    }
}

fn slice(bytes: &[u8], (at, len): (u64, u32)) -> &[u8] {
    &bytes[at as usize..at as usize + len as usize]
}
