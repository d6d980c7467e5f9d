//! Memory that is a part of a file.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Words that are a part of a file ([`DiskFile::map`](super::DiskFile::map)): what is stored in them is in the file.
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    words: usize,
    /// Keeps what `start` points into.
    owner: Owner,
}

enum Owner {
    Memory { _words: Arc<[AtomicU64]> },
    Mapping,
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

    /// `words` of `file` from `offset` on, both not 0 and `offset` a multiple of a page. The file is that long, and stays
    /// so: who touches what is cut off dies of it (SIGBUS).
    pub(super) fn of_file(file: impl AsFd, offset: u64, words: usize) -> io::Result<Self> {
        let (bytes, access) = (words * size_of::<AtomicU64>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at an address of the system's choice.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, file, offset) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { start, words, owner: Owner::Mapping })
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: so many words begin there, aligned, initialised, and for as long as this lives; any bytes are a word.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Mapping) {
            // SAFETY: mapped with these bounds, and nobody borrows from it any more.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.words * size_of::<AtomicU64>()) };
        }
    }
}
