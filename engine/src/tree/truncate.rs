//! Removing a tree's first rows, a leaf at a time: for trees used as queues, such as undo records.
//!
//! Removing rows one by one, in order, leaves a first leaf that becomes underfull again and again; each time it is
//! balanced with the next one, with two page images in the log. Here the first leaf stays, empty, and takes the next
//! one's place as soon as that one can be emptied as a whole: three small records. A large value is removed with its
//! row alone.
//!
//! Invariant: a row is removed after, or together with, all rows before it. So a crash leaves all rows from some row
//! on.

use std::ops::{Bound, ControlFlow};

use super::descend::Path;
use super::merge::retire;
use super::{Attempt, Tree};
use crate::buffer::{Mtr, Need, OptimisticGuard, Stop};
use crate::error::Result;
use crate::page::PageNo;
use crate::page::edit::NodeMut;
use crate::page::node::Fences;
use crate::page::op::Op;
use crate::wait::Waiter;

enum Outcome {
    /// The first leaf has a row that stays, or there is no row.
    Done,
    /// Removed this many rows: all of the first leaf, or those before a row whose value is large.
    Removed(u64),
    /// The first leaf and the next one lost their rows; the first took the next one's place, whose page is free.
    Advanced(u64, PageNo),
    /// The first leaf is empty, and its parent's only child.
    Alone,
    /// The first row must be removed alone: its value is large.
    Large(Vec<u8>),
}

/// The removable rows of a leaf.
enum Found {
    /// Every row of the leaf is removable; their number.
    Only(u64),
    /// At least one row stays.
    More,
    /// A row whose value is large, after this many others.
    Large(u64, Vec<u8>),
}

impl Tree {
    /// Removes the rows with keys less than `end`, except rows that share a leaf with a row that stays. Repeatedly
    /// calls `dropped` with the number of removed rows. Rows less than `end` that are inserted during the call may or
    /// may not be removed.
    pub(crate) fn truncate_before(
        &self,
        waiter: &Waiter,
        end: &[u8],
        mut dropped: impl FnMut(u64),
    ) -> Result<()> {
        let need = Need::nodes(self.pool.page_size());
        loop {
            match self.pool.change(waiter, &need, |mtr| self.try_truncate(mtr, end))? {
                Outcome::Done => return Ok(()),
                Outcome::Removed(rows) => dropped(rows),
                Outcome::Advanced(rows, page) => {
                    dropped(rows);
                    self.alloc.free(page, waiter)?;
                }
                Outcome::Large(key) => dropped(self.delete(waiter, &key)?.into()),
                Outcome::Alone if self.shrink_from(waiter, &[], 1)? => {}
                // Its parent can be neither merged nor evened out: then row by row.
                Outcome::Alone => match self.first_before(waiter, end)? {
                    Some(key) => dropped(self.delete(waiter, &key)?.into()),
                    None => return Ok(()),
                },
            }
        }
    }

    /// The first row's key, if it is less than `end`.
    fn first_before(&self, waiter: &Waiter, end: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut first = None;
        self.scan_prefixes(waiter, Bound::Unbounded, Bound::Excluded(end), |key, _| {
            first = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    fn try_truncate<'p>(&'p self, mtr: Mtr<'p>, end: &[u8]) -> Attempt<Outcome> {
        let Some(Path { node: leaf, parent }) = self.path(&[], 0)? else { return Ok(Outcome::Done) };
        // Read without a latch: usually there is nothing to do, and other threads may be about to write there.
        let rows = match look(&leaf, end)? {
            Found::Only(rows) => rows,
            Found::More => return Ok(Outcome::Done),
            Found::Large(before, key) => return before_large(mtr, leaf, before, key),
        };
        if let Some((parent, _)) = parent {
            let has_next = parent.checked(parent.node().slots())? > 0;
            if !has_next && rows == 0 {
                return Ok(Outcome::Alone);
            }
            if has_next {
                let next = self.pool.child(parent.checked(parent.node().child(1))?, &parent)?;
                if next.page() == leaf.page() || next.checked(next.node().level())? != 0 {
                    return Err(Stop::corrupt(parent.page()));
                }
                match look(&next, end)? {
                    // Where the tree ends others are about to write.
                    Found::Only(0) if next.checked(next.node().is_last())? => {}
                    Found::More => {}
                    Found::Only(more) => return advance(mtr, parent, leaf, next, rows + more),
                    Found::Large(before, key) if rows == 0 => return before_large(mtr, next, before, key),
                    Found::Large(..) => {}
                }
            }
        }
        if rows == 0 {
            return Ok(Outcome::Done);
        }
        clear(mtr, leaf, rows)
    }
}

/// Finds the removable rows of a leaf.
fn look(leaf: &OptimisticGuard<'_>, end: &[u8]) -> Attempt<Found> {
    let node = leaf.node();
    let slots = leaf.unchecked(node.slots())?;
    let Some(last) = slots.checked_sub(1) else { return leaf.checked(Ok(Found::Only(0))) };
    if leaf.unchecked(node.key(last))?.as_slice() >= end {
        return leaf.checked(Ok(Found::More));
    }
    for slot in 0..slots {
        if leaf.unchecked(node.is_large(slot))? {
            return leaf.checked(node.key(slot)).map(|key| Found::Large(slot as u64, key));
        }
    }
    leaf.checked(Ok(Found::Only(slots as u64)))
}

/// Removes all rows of a leaf.
fn clear<'p>(mut mtr: Mtr<'p>, leaf: OptimisticGuard<'p>, rows: u64) -> Attempt<Outcome> {
    let mut leaf = leaf.exclusive()?;
    let fences = leaf.checked(leaf.node().fences())?;
    mtr.rewrite(&mut leaf, |page| _ = NodeMut::new(page).reformat(0, &fences));
    mtr.commit(&mut [&mut leaf]);
    Ok(Outcome::Removed(rows))
}

/// Removes the rows of the first non-empty leaf that precede a row whose value is large, if any.
fn before_large<'p>(
    mut mtr: Mtr<'p>,
    leaf: OptimisticGuard<'p>,
    rows: u64,
    large: Vec<u8>,
) -> Attempt<Outcome> {
    if rows == 0 {
        return Ok(Outcome::Large(large));
    }
    let mut leaf = leaf.exclusive()?;
    (0..rows).for_each(|_| mtr.apply(&mut leaf, &Op::Remove { slot: 0 }));
    mtr.commit(&mut [&mut leaf]);
    Ok(Outcome::Removed(rows))
}

/// Removes all rows of the first leaf and of the next one, and lets the first take the next one's place, too.
fn advance<'p>(
    mut mtr: Mtr<'p>,
    parent: OptimisticGuard<'p>,
    leaf: OptimisticGuard<'p>,
    next: OptimisticGuard<'p>,
    rows: u64,
) -> Attempt<Outcome> {
    let (mut parent, mut leaf, mut next) = (parent.exclusive()?, leaf.exclusive()?, next.exclusive()?);
    let lower = leaf.checked(leaf.node().fences())?.lower;
    let upper = next.checked(next.node().fences())?.upper;
    mtr.rewrite(&mut leaf, |page| _ = NodeMut::new(page).reformat(0, &Fences { lower, upper }));
    mtr.apply(&mut parent, &Op::Remove { slot: 0 });
    retire(&mut mtr, &mut next);
    mtr.commit(&mut [&mut parent, &mut leaf, &mut next]);
    Ok(Outcome::Advanced(rows, next.page()))
}
