//! Taking a tree down, page by page.
//!
//! Each step is one mini-transaction: the last child of a node is cut off, and its page freed. So a crash at any moment
//! leaves a tree that has fewer pages and none that is free, and whoever begins anew goes on where the crash was. The
//! fences of what is left tell of keys that are gone: nobody but a further step can use such a tree.
//!
//! A leaf's large values go first, one by one: its row goes, and its pages into a slot of the pending page, in one
//! mini-transaction; then they are freed.
//!
//! An inner node that has lost all its children has 0 as its first child, and is cut off next. The root becomes an
//! empty leaf.

use super::{Tree, chain_of, commit_with};
use crate::buffer::{Mtr, Need, OptimisticGuard, Stop};
use crate::error::{Error, Result};
use crate::page::edit::NodeMut;
use crate::page::node::{AT_FIRST_CHILD, Fences, Stored};
use crate::page::op::Op;
use crate::page::pending::PendingChain;
use crate::page::{AT_KIND, AT_OWNER, Bytes, KIND_NODE, PageNo, Torn};
use crate::space::PendingSlot;
use crate::wait::Waiter;

type Attempt<T> = std::result::Result<T, Stop>;

/// What a step did.
enum Cut {
    /// A page was cut off, or the root emptied; whether there may be more to do.
    Done { more: bool },
    /// The last leaf has a large value, or had until now.
    Large { chain: PendingChain },
}

impl Tree {
    /// Frees all pages of the tree but the root, which is an empty leaf then. Nobody else uses the tree meanwhile. What
    /// was cut off, by a crash or an error, is finished by calling this again.
    pub fn clear(&self, waiter: &Waiter) -> Result<()> {
        while self.clear_step(waiter)? {}
        Ok(())
    }

    /// One step of [`Tree::clear`]; whether there is more to do.
    pub(super) fn clear_step(&self, waiter: &Waiter) -> Result<bool> {
        let need = Need::nodes(self.pool.page_size(), &[]);
        match self.pool.change(waiter, &need, |mtr| self.try_cut(mtr, None))? {
            Cut::Done { more } => Ok(more),
            Cut::Large { .. } => {
                let mut slot = self.alloc.pending_slot(waiter)?;
                if let Cut::Large { chain } =
                    self.pool.change(waiter, &need, |mtr| self.try_cut(mtr, Some(&slot)))?
                {
                    slot.has_now(chain);
                }
                slot.free_all(waiter).map(|()| true)
            }
        }
    }

    /// Frees all pages of the tree, the root last. Nobody uses the tree, now or later. It may be called again for a tree
    /// that is partly destroyed, or wholly, as long as the root's page is not in use for something else. One who notes
    /// in a tree which one is to be destroyed takes that note away together with the root: [`Tree::clear`], then
    /// [`Tree::delete_and_free`].
    pub fn destroy(self, waiter: &Waiter) -> Result<()> {
        if !self.is_there(waiter)? {
            return Ok(());
        }
        self.clear(waiter)?;
        self.pool.change(waiter, &Need::nodes(self.pool.page_size(), &[]), |mut mtr| {
            let mut bitmap = self.alloc.latch_to_free(self.root)?;
            let mut root = self.pool.optimistic(self.root)?.exclusive()?;
            mtr.apply(&mut root, &Op::Write { at: AT_OWNER, bytes: &[0; 8] });
            self.alloc.free_in(&mut mtr, &mut bitmap, self.root);
            mtr.commit(&mut [&mut root, &mut bitmap]);
            Ok(())
        })
    }

    /// Removes a row, and frees `page`, in one mini-transaction: the row said that the page, the root of a tree that was
    /// cleared, is to be freed. False, and nothing changed, if there is no such row.
    pub fn delete_and_free(&self, waiter: &Waiter, key: &[u8], page: PageNo) -> Result<bool> {
        self.pool.change(waiter, &Need::nodes(self.pool.page_size(), &[]), |mut mtr| {
            let leaf = self.leaf(key)?;
            let (slot, found) = leaf.checked(leaf.node().search(key))?;
            if !found {
                return Ok(false);
            }
            let (mut leaf, mut bitmap) = (leaf.exclusive()?, self.alloc.latch_to_free(page)?);
            let mut freed = self.pool.optimistic(page)?.exclusive()?;
            mtr.apply(&mut leaf, &Op::Remove { slot });
            mtr.apply(&mut freed, &Op::Write { at: AT_OWNER, bytes: &[0; 8] });
            self.alloc.free_in(&mut mtr, &mut bitmap, page);
            mtr.commit(&mut [&mut leaf, &mut freed, &mut bitmap]);
            Ok(true)
        })
    }

    /// Whether the root's page is the root of a tree.
    fn is_there(&self, waiter: &Waiter) -> Result<bool> {
        self.pool.retry(waiter, || {
            let root = self.pool.optimistic(self.root)?;
            let ([kind], owner) = (
                root.checked(root.node().0.array::<1>(AT_KIND))?,
                root.checked(root.node().0.u64(AT_OWNER))?,
            );
            Ok(kind == KIND_NODE && owner == self.root.0)
        })
    }

    /// Cuts off the last child that has none itself. If it has a large value, that is put into `slot`; without one, nothing
    /// is done.
    fn try_cut<'p>(&'p self, mtr: Mtr<'p>, slot: Option<&PendingSlot<'p>>) -> Attempt<Cut> {
        let mut node = self.pool.optimistic(self.root)?;
        let mut level = node.checked(node.node().level())?;
        if level == 0 {
            return match last_large(&node)? {
                Some(large) => self.cut_large(mtr, node, large, slot),
                None => self.empty_root(mtr, node),
            };
        }
        loop {
            let slots = node.checked(node.node().slots())?;
            let child = node.checked(node.node().child(slots))?;
            if child == PageNo(0) {
                return Err(Stop::corrupt(node.page()));
            }
            let below = self.pool.child(child, &node)?;
            level -= 1;
            if below.checked(below.node().level())? != level {
                return Err(wrong_level(child));
            }
            if level == 0
                && let Some(large) = last_large(&below)?
            {
                return self.cut_large(mtr, below, large, slot);
            }
            if level == 0 || is_childless(&below)? {
                return self.cut_off(mtr, node, slots, child);
            }
            node = below;
        }
    }

    /// The root is a leaf: its rows go.
    fn empty_root<'p>(&'p self, mut mtr: Mtr<'p>, root: OptimisticGuard<'p>) -> Attempt<Cut> {
        if root.checked(root.node().slots())? > 0 {
            let mut root = root.exclusive()?;
            mtr.rewrite(&mut root, |page| _ = NodeMut::new(page).reformat(0, &Fences::all()));
            mtr.commit(&mut [&mut root]);
        }
        Ok(Cut::Done { more: false })
    }

    /// Removes the row of a large value, and puts its pages into the slot.
    fn cut_large<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        leaf: OptimisticGuard<'p>,
        (at, chain): (usize, PendingChain),
        slot: Option<&PendingSlot<'p>>,
    ) -> Attempt<Cut> {
        if let Some(slot) = slot {
            let (mut leaf, mut noted) = (leaf.exclusive()?, slot.latch()?);
            mtr.apply(&mut leaf, &Op::Remove { slot: at });
            commit_with(mtr, &mut leaf, Some((slot, &mut noted)), &chain);
        }
        Ok(Cut::Large { chain })
    }

    /// Cuts the last child, which has none itself, off a node with `slots`.
    fn cut_off<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        node: OptimisticGuard<'p>,
        slots: usize,
        child: PageNo,
    ) -> Attempt<Cut> {
        let mut node = node.exclusive()?;
        // A root whose last child was cut off is a leaf already; so there is a child.
        let mut bitmap = self.alloc.latch_to_free(child)?;
        match slots.checked_sub(1) {
            Some(slot) => mtr.apply(&mut node, &Op::Remove { slot }),
            None if node.page() == self.root => {
                mtr.rewrite(&mut node, |page| _ = NodeMut::new(page).reformat(0, &Fences::all()));
            }
            None => mtr.apply(&mut node, &Op::Write { at: AT_FIRST_CHILD, bytes: &[0; 8] }),
        }
        self.alloc.free_in(&mut mtr, &mut bitmap, child);
        mtr.commit(&mut [&mut node, &mut bitmap]);
        Ok(Cut::Done { more: true })
    }
}

/// The last large value of a leaf: its slot, and its pages.
fn last_large(leaf: &OptimisticGuard<'_>) -> Attempt<Option<(usize, PendingChain)>> {
    let slots = leaf.checked(leaf.node().slots())?;
    let find = || -> std::result::Result<_, Torn> {
        for slot in (0..slots).rev() {
            if leaf.node().is_large(slot)? {
                let mut entry = Vec::new();
                leaf.node().append_value(slot, &mut entry)?;
                return Ok(Some((slot, chain_of(Some(Stored { bytes: &entry, large: true }))?)));
            }
        }
        Ok(None)
    };
    leaf.checked(find())
}

fn is_childless(node: &OptimisticGuard<'_>) -> Attempt<bool> {
    Ok(node.checked(node.node().slots())? == 0 && node.checked(node.node().child(0))? == PageNo(0))
}

fn wrong_level(page: PageNo) -> Stop {
    let what = "its level is not one less than its parent's".to_owned();
    Stop::fail(Error::CorruptPage { page: page.0, what })
}
