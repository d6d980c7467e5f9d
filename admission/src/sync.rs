//! Atomics and locks: the standard library's, or a model checker's when the protocol is checked (`RUSTFLAGS="--cfg loom"` or
//! `"--cfg shuttle"`), so that the checkers run the code that ships.

pub(crate) use flifo_base::CacheAligned;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::thread_local;

#[cfg(loom)]
pub(crate) use loom::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
#[cfg(loom)]
pub(crate) use loom::thread_local;

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
#[cfg(shuttle)]
pub(crate) use shuttle::thread_local;

/// With loom, every access through it is checked to be ordered after the one before.
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;

/// The standard library's, with the interface of loom's.
#[cfg(not(loom))]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    #[inline]
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

/// Loom orders no two sequentially consistent operations, only fences, so it is given one wherever a protocol rests upon that order;
/// elsewhere the operations themselves suffice.
#[cfg_attr(not(any(feature = "percpu", feature = "reservation")), allow(dead_code))]
#[inline]
pub(crate) fn fence_for_models() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// Locks, also after a panic of another thread that held the lock: every critical section here leaves its data sound at each step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    flifo_base::unpoison(mutex.lock())
}
