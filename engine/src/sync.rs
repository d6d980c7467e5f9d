//! What the protocols that are checked are made of: the standard library's, or loom's, so that the checker runs the
//! code that ships.

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

use std::sync::PoisonError;

/// Locks, also after a panic of another thread within: for data that is sound at each step that may panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], beside others that read.
pub(crate) fn read<T>(of: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    of.read().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], without readers.
pub(crate) fn write<T>(of: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    of.write().unwrap_or_else(PoisonError::into_inner)
}

/// A value on cache lines of its own (two: processors fetch lines in pairs).
#[repr(align(128))]
pub(crate) struct CacheAligned<T>(pub(crate) T);
