//! Locks whose poison is of no interest; and what the protocols that loom checks are made of.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

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
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct CacheAligned<T>(pub(crate) T);

/// The standard library's, so that what ships is what loom checks.
#[cfg(not(loom))]
pub(crate) mod checked {
    pub(crate) use std::sync::{
        Mutex, RwLock,
        atomic::{AtomicU64, Ordering, fence},
    };

    pub(crate) use super::{lock, read, write};
}

/// Loom's.
#[cfg(loom)]
pub(crate) mod checked {
    pub(crate) use loom::sync::{
        Mutex, RwLock,
        atomic::{AtomicU64, Ordering, fence},
    };
    use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    pub(crate) fn read<T>(of: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        of.read().unwrap()
    }

    pub(crate) fn write<T>(of: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
        of.write().unwrap()
    }
}
