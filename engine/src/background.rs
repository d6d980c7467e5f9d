//! Background work: tasks that are stepped, and threads around them.
//!
//! A task is free of threads and of sleep ([`Task::step`]), so that a simulator can drive it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use flifo_base::{lock, unpoison};

/// When a background task runs its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// At once.
    Now,
    /// Then, or earlier if it is raised for.
    At(Instant),
}

/// What a thread of the background does again and again.
pub(crate) trait Task: Send + 'static {
    /// Does a part of the work that is due at `now`.
    fn step(&mut self, now: Instant) -> Wake;
}

/// Rung by a thread that takes one of the last free frames, to wake the page cleaner.
#[derive(Default)]
pub(crate) struct WakeSignal {
    raised: AtomicBool,
    target: Mutex<Option<Arc<Sleep>>>,
}

/// Where a task's thread sleeps.
#[derive(Default)]
pub(crate) struct Sleep {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleep {
    pub(crate) fn wake(&self) {
        *lock(&self.woken) = true;
        self.changed.notify_one();
    }

    fn sleep(&self, time: Duration) {
        let woken = lock(&self.woken);
        *unpoison(self.changed.wait_timeout_while(woken, time, |woken| !*woken)).0 = false;
    }
}

impl WakeSignal {
    pub(crate) fn raise(&self) {
        let first = !self.raised.load(Ordering::Relaxed) && !self.raised.swap(true, Ordering::AcqRel);
        if first && let Some(target) = &*lock(&self.target) {
            target.wake();
        }
    }

    pub(crate) fn clear(&self) {
        self.raised.store(false, Ordering::Release);
    }

    pub(crate) fn set_target(&self, target: Option<Arc<Sleep>>) {
        *lock(&self.target) = target;
    }
}

/// A thread around a task.
pub(crate) fn run(mut task: impl Task, sleep: &Sleep, stopped: &AtomicBool) {
    while !stopped.load(Ordering::Acquire) {
        let now = Instant::now();
        if let Wake::At(then) = task.step(now) {
            sleep.sleep(then.saturating_duration_since(now));
        }
    }
}
