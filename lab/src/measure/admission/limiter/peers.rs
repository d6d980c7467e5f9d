//! Semaphores of well-known libraries, used as their documentation shows, from threads that block.
//!
//! A permit is taken out of its guard and given back by `add_permits`, which is what dropping the guard
//! does: enter and exit are two calls here.

use std::sync::Arc;

use super::Limiter;

/// tokio's semaphore. A free slot is taken without making a waker; only a thread that must wait
/// pays for tokio's way of parking threads, as a task would not.
pub(crate) struct Tokio(pub(crate) Arc<tokio::sync::Semaphore>);

impl Limiter for Tokio {
    #[inline]
    fn enter(&self) {
        let permit = match self.0.try_acquire() {
            Ok(permit) => permit,
            Err(_) => self.0.blocking_acquire().expect("nobody closes the semaphore"),
        };
        permit.forget();
    }

    #[inline]
    fn exit(&self) {
        self.0.add_permits(1);
    }
}

/// async-lock's semaphore.
pub(crate) struct AsyncLock(pub(crate) Arc<async_lock::Semaphore>);

impl Limiter for AsyncLock {
    #[inline]
    fn enter(&self) {
        self.0.acquire_blocking().forget();
    }

    #[inline]
    fn exit(&self) {
        self.0.add_permits(1);
    }
}
