//! Taking a tree down, page by page.
//!
//! Each step is one mini-transaction: the last child of a node is cut off, and its page freed. So a crash at any moment
//! leaves a tree that has fewer pages and none that is free, and whoever begins anew goes on where the crash was. The
//! fences of what is left tell of keys that are gone: nobody but a further step can use such a tree.
//!
//! An inner node that has lost all its children has 0 as its first child, and is cut off next. The root becomes an
//! empty leaf.

use super::Tree;
use crate::buffer::{Mtr, Need, OptimisticGuard, Stop};
use crate::error::{Error, Result};
use crate::page::edit::NodeMut;
use crate::page::node::{AT_FIRST_CHILD, Fences};
use crate::page::op::Op;
use crate::page::{AT_KIND, AT_OWNER, Bytes, KIND_NODE, PageNo};
use crate::wait::Waiter;

type Attempt<T> = std::result::Result<T, Stop>;

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
        self.pool.change(waiter, &need, |mtr| self.try_cut(mtr))
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

    /// Cuts off the last child that has none itself; whether there may be more.
    fn try_cut<'p>(&'p self, mtr: Mtr<'p>) -> Attempt<bool> {
        let mut node = self.pool.optimistic(self.root)?;
        let mut level = node.checked(node.node().level())?;
        if level == 0 {
            return self.empty_root(mtr, node);
        }
        loop {
            let slots = node.checked(node.node().slots())?;
            let child = node.checked(node.node().child(slots))?;
            if level == 1 || child == PageNo(0) {
                return self.cut_off(mtr, node, slots, child);
            }
            let below = self.pool.child(child, &node)?;
            level -= 1;
            if below.checked(below.node().level())? != level {
                return Err(wrong_level(child));
            }
            if is_childless(&below)? {
                return self.cut_off(mtr, node, slots, child);
            }
            node = below;
        }
    }

    /// The root is a leaf: its rows go.
    fn empty_root<'p>(&'p self, mut mtr: Mtr<'p>, root: OptimisticGuard<'p>) -> Attempt<bool> {
        if root.checked(root.node().slots())? > 0 {
            let mut root = root.exclusive()?;
            mtr.rewrite(&mut root, |page| _ = NodeMut::new(page).reformat(0, &Fences::all()));
            mtr.commit(&mut [&mut root]);
        }
        Ok(false)
    }

    /// Cuts the last child, which has none itself, off a node with `slots`.
    fn cut_off<'p>(
        &'p self,
        mut mtr: Mtr<'p>,
        node: OptimisticGuard<'p>,
        slots: usize,
        child: PageNo,
    ) -> Attempt<bool> {
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
        Ok(true)
    }
}

fn is_childless(node: &OptimisticGuard<'_>) -> Attempt<bool> {
    Ok(node.checked(node.node().slots())? == 0 && node.checked(node.node().child(0))? == PageNo(0))
}

fn wrong_level(page: PageNo) -> Stop {
    let what = "its level is not one less than its parent's".to_owned();
    Stop::fail(Error::CorruptPage { page: page.0, what })
}
