//! Which pages of a tablespace are in use.
#![allow(missing_docs, unused_variables)]
use std::sync::Arc;

use crate::buffer::BufferPool;
use crate::error::Result;
use crate::wait::Waiter;

pub struct PageAllocator {
    _pool: Arc<BufferPool>,
}

impl PageAllocator {
    /// For a new, empty tablespace: writes its first bitmap page (page 1; page 0 is never used).
    pub fn create(pool: &Arc<BufferPool>, waiter: &Waiter) -> Result<Arc<PageAllocator>> {
        todo!()
    }
    /// For a tablespace that has one.
    pub fn open(pool: &Arc<BufferPool>) -> Arc<PageAllocator> {
        todo!()
    }
}
