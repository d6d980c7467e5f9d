//! Locks and atomics: the standard library's, or a model checker's (`RUSTFLAGS="--cfg shuttle"`), so that the
//! checker runs the code that ships.

#[cfg(not(shuttle))]
pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(shuttle)]
pub(super) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// Locks, also after a panic of another thread within: every critical section of this room leaves its data
/// sound at each step that may panic (it may only run out of memory).
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
