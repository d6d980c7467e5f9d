//! The memory of the frames, contiguous, so that a frame's address is one multiplication.

#[cfg(miri)]
use std::alloc::Layout;

use crate::error::{Error, Result};

/// Frames begin at multiples of this, so that huge pages can hold them.
const ALIGNMENT: usize = if cfg!(miri) { 4096 } else { 2 << 20 };

/// Page-aligned memory for frames, zeroed.
pub(crate) struct Frames {
    base: *mut u8,
    /// Keeps the memory that `base` points into.
    _mapping: Mapping,
    page_bytes: usize,
    frames: usize,
}

// SAFETY: plain memory; the latches control the access to each part.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

impl Frames {
    pub(crate) fn new(frames: usize, page_bytes: usize) -> Result<Self> {
        let bytes = (frames as u64).saturating_mul(page_bytes as u64);
        let mapping = usize::try_from(bytes).ok().and_then(|bytes| Mapping::new(bytes + ALIGNMENT));
        let mapping = mapping.ok_or_else(|| Error::BadOption {
            option: "buffer_pool_bytes",
            value: bytes,
            allowed: "less: the system has not that much memory to give".to_owned(),
        })?;
        let before = mapping.start.align_offset(ALIGNMENT);
        // SAFETY: the mapping is larger than required by the alignment.
        let base = unsafe { mapping.start.add(before) };
        Ok(Frames { base, _mapping: mapping, page_bytes, frames })
    }

    /// Where a frame begins.
    #[inline]
    pub(crate) fn address(&self, frame: u32) -> *mut u8 {
        debug_assert!((frame as usize) < self.frames);
        // SAFETY: callers have frame numbers from this pool, so the result lies within the mapping.
        unsafe { self.base.add(frame as usize * self.page_bytes) }
    }

    /// Bytes per frame.
    #[inline]
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }
}

/// Memory from the system, given back when dropped. It costs nothing until it is touched.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

#[cfg(not(miri))]
impl Mapping {
    fn new(bytes: usize) -> Option<Self> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let (read_write, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a new mapping, at an address of the system's choice.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, read_write, flags) }.ok()?;
        // Huge pages reduce TLB misses; a refusal costs only time. SAFETY: the range is this mapping's, and the advice
        // does not change its content.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        Some(Mapping { start: start.cast(), bytes })
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with these bounds; no guard outlives the pool.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(miri)]
impl Mapping {
    fn new(bytes: usize) -> Option<Self> {
        // SAFETY: not empty.
        let start = unsafe { std::alloc::alloc_zeroed(Layout::from_size_align(bytes, 8).ok()?) };
        (!start.is_null()).then_some(Mapping { start, bytes })
    }
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe {
            std::alloc::dealloc(self.start, Layout::from_size_align(self.bytes, 8).expect("as before"))
        };
    }
}
