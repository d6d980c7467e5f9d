//! Locks and atomics of the protocols that loom checks: the standard library's, or loom's (`RUSTFLAGS="--cfg loom"`), so
//! that the checker runs the code that ships.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{AtomicU64, Ordering, fence},
};

use flifo_base::unpoison;

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoison(mutex.lock())
}

/// Locks for reading, shared with other readers.
pub(crate) fn read<T>(of: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    unpoison(of.read())
}

/// Locks for writing, alone.
pub(crate) fn write<T>(of: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    unpoison(of.write())
}
