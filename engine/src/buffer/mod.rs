//! The buffer pool.
#![allow(missing_docs, unused_variables)]
use std::sync::Arc;

use crate::disk::Tablespace;
use crate::error::Result;
use crate::metrics::Waits;
use crate::wait::Waiter;

pub mod latch {
    //! Latches.
    /// How many latches this thread holds; counted in debug builds only, 0 otherwise.
    pub fn held() -> u32 {
        0
    }
}

/// Size and division of a [`BufferPool`].
#[derive(Debug, Clone)]
pub struct PoolConfig {
    pub bytes: u64,
    pub instances: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct PoolStats {
    pub frames: u64,
    pub free_frames: u64,
    pub dirty_pages: u64,
    pub reads: u64,
    pub writes: u64,
    pub evictions: u64,
    pub free_frame_waits: u64,
}

pub struct BufferPool {
    _space: Arc<Tablespace>,
}

impl BufferPool {
    pub fn new(space: Arc<Tablespace>, config: PoolConfig, waits: Arc<Waits>) -> Result<Arc<BufferPool>> {
        todo!()
    }
    /// Starts the page cleaners' threads. Without them (or someone calling `Cleaner::step`) misses fail once
    /// every frame is dirty.
    pub fn start_cleaners(self: &Arc<Self>) -> Result<()> {
        todo!()
    }
    /// Ends the cleaners' threads and joins them; also done by nobody else: call it before the last drop.
    pub fn stop_cleaners(&self) {
        todo!()
    }
    /// Writes every dirty page, then syncs the tablespace.
    pub fn flush_all(&self, waiter: &Waiter) -> Result<()> {
        todo!()
    }
    pub fn stats(&self) -> PoolStats {
        todo!()
    }
    pub fn page_size(&self) -> usize {
        todo!()
    }
}
