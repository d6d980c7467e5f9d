//! Locks that ignore poisoning.
//!
//! The standard library poisons a lock when a thread panics while it holds the lock, since the data may be half
//! changed. In this repository each critical section keeps its data sound at every step that may panic. So poison says
//! nothing about the data, and returning it would only turn one thread's panic into a panic of every other thread.

use std::sync::{
    Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, TryLockResult,
};

/// Returns the guard of a lock, whether the lock is poisoned or not.
///
/// For every lock whose functions return the standard library's [`LockResult`](std::sync::LockResult): its own, those
/// of loom and of shuttle, and the waits of a condition variable.
///
/// ```
/// use std::sync::{Condvar, Mutex};
/// use flifo_base::{lock, unpoison};
///
/// let (ready, changed) = (Mutex::new(true), Condvar::new());
/// let ready = unpoison(changed.wait_while(lock(&ready), |ready| !*ready));
/// assert!(*ready);
/// ```
#[inline]
pub fn unpoison<T>(result: Result<T, PoisonError<T>>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// Returns the guard of a lock that was free, whether the lock is poisoned or not; `None` if it was taken.
#[inline]
pub fn unpoison_try<T>(result: TryLockResult<T>) -> Option<T> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Locks a mutex.
///
/// ```
/// use std::sync::Mutex;
///
/// let counter = Mutex::new(1);
/// *flifo_base::lock(&counter) += 1;
/// assert_eq!(*flifo_base::lock(&counter), 2);
/// ```
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    unpoison(mutex.lock())
}

/// Locks a mutex if it is free.
#[inline]
pub fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    unpoison_try(mutex.try_lock())
}

/// Locks for reading, shared with other readers.
#[inline]
pub fn read<T: ?Sized>(of: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    unpoison(of.read())
}

/// Locks for reading if no writer holds the lock.
#[inline]
pub fn try_read<T: ?Sized>(of: &RwLock<T>) -> Option<RwLockReadGuard<'_, T>> {
    unpoison_try(of.try_read())
}

/// Locks for writing, exclusively.
#[inline]
pub fn write<T: ?Sized>(of: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    unpoison(of.write())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Poisons the locks that `hold` takes.
    fn panic_with(hold: impl FnOnce() + Send) {
        let panicked = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                hold();
            });
            thread.join().is_err()
        });
        assert!(panicked);
    }

    #[test]
    fn a_poisoned_mutex_gives_its_data() {
        let mutex = Mutex::new(1);
        panic_with(|| {
            let mut guard = lock(&mutex);
            *guard = 2;
            panic!("on purpose");
        });
        assert!(mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
        assert_eq!(try_lock(&mutex).as_deref(), Some(&2));
    }

    #[test]
    fn a_poisoned_lock_of_readers_gives_its_data() {
        let of = RwLock::new(1);
        panic_with(|| {
            let mut guard = write(&of);
            *guard = 2;
            panic!("on purpose");
        });
        assert!(of.is_poisoned());
        assert_eq!(*read(&of), 2);
        assert_eq!(try_read(&of).as_deref(), Some(&2));
        *write(&of) = 3;
        assert_eq!(*read(&of), 3);
    }

    #[test]
    fn a_lock_that_is_taken_is_not_given_twice() {
        let (mutex, of) = (Mutex::new(()), RwLock::new(()));
        let (_held, _written) = (lock(&mutex), write(&of));
        assert!(try_lock(&mutex).is_none() && try_read(&of).is_none());
    }
}
