//! Time waited, per reason.

/// Why a thread of the engine waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WaitReason {
    /// Its own read of a page from disk.
    DiskRead,
    /// A page that another thread is reading.
    PageLoad,
    /// A latch that another thread holds.
    PageLatch,
    /// A free frame, which a page cleaner must make.
    FreeFrame,
    /// A write of pages (background threads, clean close).
    DiskWrite,
    /// A sync of the data files.
    DiskSync,
}
