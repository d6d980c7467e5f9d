//! Memory mapped from a file.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A multiple of the pages of every system: a mapping begins at a multiple of its system's (4 to 64 KiB).
const PAGES_BYTES: u64 = 64 << 10;

/// Words mapped from a file ([`DiskFile::map`](super::DiskFile::map)): a store changes the file.
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
    /// Keeps what `start` points into.
    owner: Owner,
}

enum Owner {
    Memory {
        _words: Arc<[AtomicU64]>,
    },
    /// It begins before the words, with what else its first page has.
    Mapping {
        begin: NonNull<u8>,
        bytes: usize,
    },
}

// SAFETY: atomics, which live as long as this does.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Words in memory, which others may share.
    pub fn in_memory(words: Arc<[AtomicU64]>) -> Self {
        let start = NonNull::from(&*words).cast();
        SharedWords { start, words: words.len(), owner: Owner::Memory { _words: words } }
    }

    /// Maps `words` words of `file` from `offset` on, a multiple of a word; at least one. The file has that length, and
    /// keeps it: an access beyond the end of a truncated file raises SIGBUS.
    pub(super) fn of_file(file: impl AsFd, offset: u64, words: usize) -> io::Result<Self> {
        assert!(offset.is_multiple_of(size_of::<AtomicU64>() as u64), "words at {offset}");
        let before = (offset % PAGES_BYTES) as usize;
        let bytes = before + words * size_of::<AtomicU64>();
        let (access, from) = (ProtFlags::READ | ProtFlags::WRITE, offset - before as u64);
        // SAFETY: a new mapping, at an address of the system's choice.
        let begin = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, from) }?;
        let begin: NonNull<u8> = NonNull::new(begin.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: within the mapping, and aligned as a page and `before` are.
        let start = unsafe { begin.add(before) }.cast();
        Ok(SharedWords { start, words, owner: Owner::Mapping { begin, bytes } })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: this many aligned, initialised words begin there, and live as long as `self`; any bytes are a valid
        // word.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        if let Owner::Mapping { begin, bytes } = self.owner {
            // SAFETY: mapped with these bounds, and no borrow is left.
            let _ = unsafe { munmap(begin.as_ptr().cast(), bytes) };
        }
    }
}
