//! Reads of latched rows, for decisions that need the row unchanged, such as whether to lock it.

use std::ops::Bound;

use super::{Attempt, Tree};
use crate::buffer::{SharedGuard, Stop};
use crate::error::Result;
use crate::page::node::Stored;
use crate::page::{PageNo, Torn};
use crate::wait::Waiter;

/// A leaf under a shared latch.
struct SharedLeaf<'p> {
    page: PageNo,
    leaf: SharedGuard<'p>,
}

impl SharedLeaf<'_> {
    fn checked<T>(&self, read: std::result::Result<T, Torn>) -> Attempt<T> {
        read.map_err(|Torn| Stop::corrupt(self.page))
    }

    fn value(&self, slot: usize) -> Attempt<Stored<'_>> {
        self.checked(self.leaf.node().stored(slot))
    }
}

impl Tree {
    /// Calls `look` once with the leaf's value of `key` (`None`: no such row). The row can be neither changed nor added
    /// during the call. `look` must not wait.
    pub fn read_latched<T>(
        &self,
        waiter: &Waiter,
        key: &[u8],
        look: impl FnOnce(Option<Stored<'_>>) -> T,
    ) -> Result<T> {
        let mut look = Some(look);
        self.pool.retry(waiter, || {
            let leaf = self.shared_leaf(key)?;
            let (slot, found) = leaf.checked(leaf.leaf.node().search(key))?;
            let value = if found { Some(leaf.value(slot)?) } else { None };
            Ok(look.take().expect("it is called once")(value))
        })
    }

    /// Calls `look` once with the first row from `from` on (`None`: there is none). The row cannot be changed, nor
    /// another one added before it, during the call. `look` must not wait.
    pub fn read_latched_first<T>(
        &self,
        waiter: &Waiter,
        from: Bound<&[u8]>,
        look: impl FnOnce(Option<(&[u8], Stored<'_>)>) -> T,
    ) -> Result<T> {
        let start = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        let mut look = Some(look);
        let mut key = Vec::new();
        self.pool.retry(waiter, || {
            // All leaves from the first to the row's: mostly one, rarely two.
            start.clone_into(&mut key);
            let mut leaves = vec![self.shared_leaf(start)?];
            let leaf = &leaves[0];
            let (mut slot, found) = leaf.checked(leaf.leaf.node().search(start))?;
            slot += usize::from(found && matches!(from, Bound::Excluded(_)));
            loop {
                let leaf = leaves.last().expect("there is one");
                if slot < leaf.checked(leaf.leaf.node().slots())? {
                    leaf.checked(leaf.leaf.node().key_into(slot, &mut key))?;
                    let row = (&key[..], leaf.value(slot)?);
                    return Ok(look.take().expect("it is called once")(Some(row)));
                }
                if !leaf.checked(leaf.leaf.node().advance_key(&mut key))? {
                    return Ok(look.take().expect("it is called once")(None));
                }
                leaves.push(self.shared_leaf(&key)?);
                slot = 0;
            }
        })
    }

    /// The leaf where `key` is or belongs, held still. It is only tried for.
    fn shared_leaf(&self, key: &[u8]) -> Attempt<SharedLeaf<'_>> {
        let leaf = self.leaf(key)?;
        Ok(SharedLeaf { page: leaf.page(), leaf: leaf.shared()? })
    }
}
