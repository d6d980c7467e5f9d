//! Memory that the machine has at hand.
//!
//! The first touch of memory that a virtual machine's host has not given yet costs tens of microseconds a page; that of memory
//! which another process has just given back costs a twentieth. Which of the two a load meets is chance, and differs between
//! a peer that asks for its cache anew each time and one that uses what its process has. So before each load memory is
//! touched, and given back.

use flifo::limits;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes from one touch to the next: no page is smaller.
const STEP: usize = 4096;

/// So many bytes, or what is available by now: a database that grew meanwhile must not make the kernel end the run.
pub(crate) fn at_hand(bytes: u64) -> u64 {
    limits::available_memory().map_or(bytes, |available| bytes.min(available))
}

/// Touches so many bytes, in huge pages where there are such, and gives them back. Does nothing if there are not so many.
pub(crate) fn touch(bytes: u64) {
    let Ok(bytes) = usize::try_from(bytes) else { return };
    let read_write = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping anywhere replaces none.
    let mapped = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, read_write, MapFlags::PRIVATE) };
    let Ok(start) = mapped else { return };
    // SAFETY: the mapping is this function's own, and so long; an advice changes no byte of it.
    let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
    for at in (0..bytes).step_by(STEP) {
        // SAFETY: inside the mapping, which nobody else knows. Volatile, as nobody reads it.
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
