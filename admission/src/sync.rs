//! Atomics and locks: the standard library's, or loom's when the protocol is model-checked
//! (`RUSTFLAGS="--cfg loom"`), so that the checker runs the code that ships.

#[cfg(not(loom))]
pub(crate) use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    sync::{Mutex, MutexGuard},
};

/// loom's `UnsafeCell` under the standard one's interface; the queue uses it under its lock only.
#[cfg(loom)]
pub(crate) use std::cell::UnsafeCell;

/// Locks, also when another thread panicked while it held the lock: every critical section here leaves
/// the protected data sound at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A value on cache lines of its own (two: processors fetch lines in pairs).
#[repr(align(128))]
pub(crate) struct CacheAligned<T>(pub(crate) T);
