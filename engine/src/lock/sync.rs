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

/// Locks a mutex.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    flifo_base::unpoison(mutex.lock())
}
