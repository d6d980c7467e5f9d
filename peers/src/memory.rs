//! Memory that the machine can provide quickly.
//!
//! The first touch of memory that a virtual machine's host has not provided yet costs tens of microseconds a page;
//! memory that another process has just freed costs a twentieth. Which case a load meets is chance, and differs between
//! a peer that allocates its cache each time and a peer that reuses its process's memory. So before each load this
//! module touches memory and frees it.

use flifo::support::limits;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes from one touch to the next: no page is smaller.
const STEP: usize = 4096;

/// This many bytes, or what is available now: a database that has grown must not make the kernel end the run.
pub(crate) fn at_hand(bytes: u64) -> u64 {
    limits::available_memory().map_or(bytes, |available| bytes.min(available))
}

/// Touches `bytes` bytes, in huge pages if possible, and frees them. Does nothing if the memory is not available.
pub(crate) fn touch(bytes: u64) {
    let Ok(bytes) = usize::try_from(bytes) else { return };
    let read_write = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping anywhere replaces none.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, read_write, MapFlags::PRIVATE) };
    let Ok(start) = mapped else { return };
    // SAFETY: the mapping is this function's own, and has that length; an advice changes no byte of it.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
    for at in (0..bytes).step_by(STEP) {
        // SAFETY: inside the mapping, which is private to this function. Volatile, since the byte is never read.
        unsafe { start.cast::<u8>().add(at).write_volatile(1) };
    }
    // SAFETY: mapped above, and nothing refers to it.
    let _ = unsafe { munmap(start, bytes) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_more_is_touched_than_there_is() {
        assert_eq!(super::at_hand(1 << 12), 1 << 12);
        assert!(super::at_hand(u64::MAX) < u64::MAX);
    }

    #[test]
    fn memory_is_given_back() {
        for _ in 0..100 {
            super::touch(64 << 20);
        }
        super::touch(0);
        super::touch(u64::MAX);
    }
}
