//! Aligned buffers for transfers.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use super::ALIGNMENT_BYTES;

/// Zeroed memory, aligned as transfers want it.
pub(crate) struct AlignedBuffer {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: it owns its memory.
unsafe impl Send for AlignedBuffer {}

impl AlignedBuffer {
    /// `bytes` is not 0.
    pub(crate) fn new(bytes: usize) -> Self {
        assert_ne!(bytes, 0);
        let layout = Layout::from_size_align(bytes, ALIGNMENT_BYTES).expect("a buffer that fits the memory");
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        AlignedBuffer { base, layout }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the memory is this buffer's, initialised, and lives as long as the borrow.
        unsafe { std::slice::from_raw_parts(self.base, self.layout.size()) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is this buffer's alone, initialised, and lives as long as the borrow.
        unsafe { std::slice::from_raw_parts_mut(self.base, self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base, self.layout) };
    }
}
