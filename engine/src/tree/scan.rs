//! Range scans.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use super::{Attempt, Tree};
use crate::error::{Error, Result};
use crate::page::node::Node;
use crate::page::{Bytes, PageNo, Torn};
use crate::wait::Waiter;

/// What a scan needs besides the tree.
#[derive(Default)]
struct Scratch {
    leaf: Vec<u8>,
    start: Vec<u8>,
    key: Vec<u8>,
}

thread_local! {
    /// Kept between scans; one that is nested in another's callback finds none and makes its own.
    static SCRATCH: Cell<Option<Scratch>> = const { Cell::new(None) };
}

impl Tree {
    /// Gives the rows between `from` and `to` to `each`, in order, until it breaks. No latch is held meanwhile: `each`
    /// may wait, and use the tree. Each leaf is seen at one moment, different leaves at different ones.
    pub fn scan(
        &self,
        waiter: &Waiter,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut scratch = SCRATCH.take().unwrap_or_default();
        let result = self.scan_with(&mut scratch, waiter, from, to, each);
        SCRATCH.set(Some(scratch));
        result
    }

    fn scan_with(
        &self,
        scratch: &mut Scratch,
        waiter: &Waiter,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let Scratch { leaf, start, key } = scratch;
        start.clear();
        let mut after_start = matches!(from, Bound::Excluded(_));
        if let Bound::Included(from) | Bound::Excluded(from) = from {
            start.extend_from_slice(from);
        }
        while !is_beyond(start, to) {
            let page = self.pool.retry(waiter, || self.copy_leaf(start, leaf))?;
            let given = give_rows(Node(&leaf[..]), start, after_start, to, key, &mut each);
            match given.map_err(|Torn| corrupt(page))? {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(()) => after_start = false,
            }
            if !Node(&leaf[..]).go_on(start).map_err(|Torn| corrupt(page))? {
                break;
            }
        }
        Ok(())
    }

    /// Copies the leaf where `key` is or belongs.
    fn copy_leaf(&self, key: &[u8], copy: &mut Vec<u8>) -> Attempt<PageNo> {
        let leaf = self.leaf(key)?;
        copy.clear();
        let racy = leaf.node().0;
        leaf.unchecked(racy.append_to(0, racy.bytes(), copy))?;
        leaf.validate()?;
        Ok(leaf.page())
    }
}

fn corrupt(page: PageNo) -> Error {
    Error::CorruptPage { page: page.0, what: "its entries lie outside of it".to_owned() }
}

/// Whether no key from `start` on is within the bound.
fn is_beyond(start: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Unbounded => false,
        Bound::Included(to) => start > to,
        Bound::Excluded(to) => start >= to,
    }
}

/// The rows of one leaf that are within the bounds.
fn give_rows(
    node: Node<&[u8]>,
    start: &[u8],
    after_start: bool,
    to: Bound<&[u8]>,
    key: &mut Vec<u8>,
    each: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> std::result::Result<ControlFlow<()>, Torn> {
    let (first, found) = node.search(start)?;
    let first = first + usize::from(found && after_start);
    let (end, last) = end_of_rows(node, to)?;
    key.clear();
    node.append_prefix(key)?;
    let prefix_len = key.len();
    for slot in first..end {
        key.truncate(prefix_len);
        node.append_suffix(slot, key)?;
        let (at, len) = node.value(slot)?;
        let value = node.0.get(at..at + len).ok_or(Torn)?;
        if each(key, value).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(if last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

/// Where the rows within the bound end in a leaf, and whether the range ends there.
fn end_of_rows(node: Node<&[u8]>, to: Bound<&[u8]>) -> std::result::Result<(usize, bool), Torn> {
    let (Bound::Included(key) | Bound::Excluded(key)) = to else { return Ok((node.slots()?, false)) };
    let mut upper = Vec::new();
    if node.upper_into(&mut upper)? && *upper <= *key {
        return Ok((node.slots()?, false));
    }
    // The leaf's lower fence is not beyond the bound, or the leaf would not have been read.
    let (slot, found) = node.search(key)?;
    Ok((slot + usize::from(found && matches!(to, Bound::Included(_))), true))
}
