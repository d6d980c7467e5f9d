//! Taking a tree's first rows away, a leaf at a time: for trees that are queues, as those of undo records are.
//!
//! Rows that are removed one by one, in their order, leave a first leaf that is underfull again and again; each time it is
//! evened out with the next one, with two images in the log. Here the first leaf stays, empty, and takes the next one's place
//! as soon as that may be emptied as a whole: three small records. A large value is removed with its row alone.
//!
//! Invariant: a row goes after all that come before it, or with them. So what a crash leaves is all from some row on.

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
    /// The first leaf has a row that stays, or there is none.
    Done,
    /// So many rows have gone: all of the first leaf, or those before one whose value is large.
    Removed(u64),
    /// It lost its rows, and took the place of the next one, which lost its own. That page is free.
    Advanced(u64, PageNo),
    /// It has nothing, and is its parent's only child.
    Alone,
    /// The first row is to be removed by itself: its value is large.
    Large(Vec<u8>),
}

/// What a leaf has of the rows that are to go.
enum Found {
    /// Nothing else: so many.
    Only(u64),
    /// One that stays.
    More,
    /// One whose value is large, behind so many others.
    Large(u64, Vec<u8>),
}

impl Tree {
    /// Removes the rows with keys less than `end`, but for those that share a leaf with one that is not. Tells `dropped`
    /// again and again how many they are. Rows less than `end` that others insert meanwhile may be removed or not.
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
        // Looked at without a latch: mostly there is nothing to do, and others may be about to write there.
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

/// What of a leaf's rows is to go.
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

/// Removes the rows before one whose value is large, of the first leaf that has any, if there are some.
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
