//! Range scans.

use std::ops::{Bound, ControlFlow, Range};

use super::large::Suspect;
use super::{Attempt, Tree};
use crate::buffer::OptimisticGuard;
use crate::error::{Error, Result};
use crate::page::node::{Node, Stored};
use crate::page::{Bytes, PageNo, Torn};
use crate::scratch::ScratchPool;
use crate::wait::Waiter;

/// What a scan needs besides the tree.
#[derive(Default)]
struct Scratch {
    leaf: Vec<u8>,
    start: Vec<u8>,
    next: Vec<u8>,
    key: Vec<u8>,
    large: Vec<u8>,
}

/// A large value's memory is kept for the next scan up to this size.
const KEPT_BYTES: usize = 1 << 20;

/// One that is nested in another's callback has its own.
static SCRATCH: ScratchPool<Scratch> = ScratchPool::new();

impl Tree {
    /// Passes the rows between `from` and `to` to `each`, in order, until it breaks. No latch is held during `each`,
    /// which may wait, and use the tree. Each leaf is read at one point in time, different leaves at different ones. A
    /// large value that was replaced since its leaf was read has its present value; if its row was removed, it is left
    /// out.
    pub fn scan(
        &self,
        waiter: &Waiter,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut scratch = SCRATCH.take();
        let mut large = std::mem::take(&mut scratch.large);
        let result = self.scan_with(&mut scratch, waiter, from, to, |key, value| {
            if !value.large {
                return Ok(each(key, value.bytes));
            }
            large.clear();
            large.extend_from_slice(value.bytes);
            let mut suspect = Suspect::default();
            match self.read_large(waiter, &mut suspect, &mut large)?
                || self.get_again(waiter, suspect, key, &mut large)?
            {
                true => Ok(each(key, &large)),
                false => Ok(ControlFlow::Continue(())),
            }
        });
        // One of many MiB is not kept.
        if large.capacity() <= KEPT_BYTES {
            scratch.large = large;
        }
        result
    }

    /// As [`Tree::scan`], with no more of a large value than its first
    /// [`LARGE_PREFIX_BYTES`](crate::page::node::LARGE_PREFIX_BYTES).
    pub(crate) fn scan_prefixes(
        &self,
        waiter: &Waiter,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut scratch = Scratch::default();
        self.scan_with(&mut scratch, waiter, from, to, |key, value| Ok(each(key, value.prefix())))
    }

    fn scan_with(
        &self,
        scratch: &mut Scratch,
        waiter: &Waiter,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut each: impl FnMut(&[u8], Stored<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let Scratch { leaf, start, next, key, .. } = scratch;
        start.clear();
        let mut after_start = matches!(from, Bound::Excluded(_));
        if let Bound::Included(from) | Bound::Excluded(from) = from {
            start.extend_from_slice(from);
        }
        let mut ahead: Option<OptimisticGuard<'_>> = None;
        while !is_beyond(start, to) {
            // The prefetched leaf is still the leaf of `start` if it has not changed since.
            let copied = ahead.take().and_then(|found| copy_leaf(&found, leaf).ok());
            let page = match copied {
                Some(page) => page,
                None => self.pool.retry(waiter, || copy_leaf(&self.leaf(start)?, leaf))?,
            };
            let node = Node(&leaf[..]);
            let (rows, last) = rows(node, start, after_start, to).map_err(|Torn| corrupt(page))?;
            next.clone_from(start);
            let more = !last && node.advance_key(next).map_err(|Torn| corrupt(page))?;
            if more {
                // One that is not in memory is read when its time has come.
                ahead = self.leaf(next).ok();
            }
            let given = visit_rows(node, rows, ahead.as_ref(), key, &mut each);
            if given.map_err(|Torn| corrupt(page))??.is_break() || !more {
                break;
            }
            std::mem::swap(start, next);
            after_start = false;
        }
        Ok(())
    }
}

/// Copies a leaf, except its unused middle.
fn copy_leaf(leaf: &OptimisticGuard<'_>, copy: &mut Vec<u8>) -> Attempt<PageNo> {
    copy.clear();
    let racy = leaf.node().0;
    let (begin, end) = leaf.unchecked(leaf.node().hole())?;
    leaf.unchecked(racy.append_to(0, begin, copy))?;
    copy.resize(end, 0);
    leaf.unchecked(racy.append_to(end, racy.bytes() - end, copy))?;
    leaf.validate()?;
    Ok(leaf.page())
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

/// Which rows of a leaf are within the bounds, and whether the range ends there.
fn rows(
    node: Node<&[u8]>,
    start: &[u8],
    after_start: bool,
    to: Bound<&[u8]>,
) -> std::result::Result<(Range<usize>, bool), Torn> {
    let (first, found) = node.search(start)?;
    let first = first + usize::from(found && after_start);
    let (end, last) = end_of_rows(node, to)?;
    Ok((first..end, last))
}

/// Passes a leaf's rows to `each`, and prefetches the cache lines of the next row: reading a leaf from memory takes
/// about as long as processing its rows.
fn visit_rows(
    node: Node<&[u8]>,
    rows: Range<usize>,
    ahead: Option<&OptimisticGuard<'_>>,
    key: &mut Vec<u8>,
    each: &mut impl FnMut(&[u8], Stored<'_>) -> Result<ControlFlow<()>>,
) -> std::result::Result<Result<ControlFlow<()>>, Torn> {
    key.clear();
    node.append_prefix(key)?;
    let prefix_len = key.len();
    let step = node.0.len().div_ceil(rows.len().max(1));
    for (at, slot) in (0..).step_by(step).zip(rows) {
        if let Some(ahead) = ahead {
            ahead.prefetch(at, step);
        }
        key.truncate(prefix_len);
        node.append_suffix(slot, key)?;
        match each(key, node.stored(slot)?) {
            Ok(ControlFlow::Continue(())) => {}
            ended => return Ok(ended),
        }
    }
    Ok(Ok(ControlFlow::Continue(())))
}

/// Where the rows within the bound end in a leaf, and whether the range ends there.
fn end_of_rows(node: Node<&[u8]>, to: Bound<&[u8]>) -> std::result::Result<(usize, bool), Torn> {
    let (Bound::Included(key) | Bound::Excluded(key)) = to else { return Ok((node.slots()?, false)) };
    if node.ends_before(key)? {
        return Ok((node.slots()?, false));
    }
    // The leaf's lower fence is not beyond the bound, or the leaf would not have been read.
    let (slot, found) = node.search(key)?;
    Ok((slot + usize::from(found && matches!(to, Bound::Included(_))), true))
}
