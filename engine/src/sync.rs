//! What the lock-free protocols are made of: the standard library's, or loom's, so that the checker runs the code
//! that ships.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
