//! Atomics and locks: the standard library's, or a model checker's when the protocol is checked
//! (`RUSTFLAGS="--cfg loom"` or `"--cfg shuttle"`), so that the checkers run the code that ships.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

/// The queue uses it under its lock only, which is what the checkers check.
pub(crate) use std::cell::UnsafeCell;

/// Locks, also when another thread panicked while it held the lock: every critical section here leaves
/// the protected data sound at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A value on cache lines of its own (two: processors fetch lines in pairs).
#[repr(align(128))]
pub(crate) struct CacheAligned<T>(pub(crate) T);
