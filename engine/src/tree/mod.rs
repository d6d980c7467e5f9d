//! Index-organised B+trees.
#![allow(missing_docs, unused_variables)]
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::page::PageNo;
use crate::space::PageAllocator;
use crate::wait::Waiter;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeStats {
    pub height: u32,
    pub rows: u64,
    pub leaf_pages: u64,
    pub inner_pages: u64,
    pub leaf_bytes_used: u64,
}

pub struct Tree {
    root: PageNo,
}

impl Tree {
    pub fn create(pool: &Arc<BufferPool>, alloc: &Arc<PageAllocator>, waiter: &Waiter) -> Result<Tree> {
        todo!()
    }
    pub fn open(pool: &Arc<BufferPool>, alloc: &Arc<PageAllocator>, root: PageNo) -> Tree {
        todo!()
    }
    pub fn root(&self) -> PageNo {
        self.root
    }
    /// Frees every page of the tree. Nobody else uses it, now or later.
    pub fn destroy(self, waiter: &Waiter) -> Result<()> {
        todo!()
    }
    /// Replaces `out` by the value at `key`; false (and an empty `out`) if there is none.
    pub fn get(&self, waiter: &Waiter, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        todo!()
    }
    pub fn insert(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        todo!()
    }
    pub fn update(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        todo!()
    }
    /// True if the key was new.
    pub fn upsert(&self, waiter: &Waiter, key: &[u8], value: &[u8]) -> Result<bool> {
        todo!()
    }
    pub fn delete(&self, waiter: &Waiter, key: &[u8]) -> Result<bool> {
        todo!()
    }
    pub fn scan(
        &self,
        waiter: &Waiter,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        each: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        todo!()
    }
    /// `fill` is the share of a page to fill, 0.5 to 1.0. Progress gets the rows loaded so far.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        waiter: &Waiter,
        rows: impl IntoIterator<Item = (K, V)>,
        fill: f64,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        todo!()
    }
    pub fn check(&self, waiter: &Waiter) -> Result<TreeStats> {
        todo!()
    }
}
