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

/// Where the threads of a task, or of several alike, sleep.
#[derive(Default)]
pub(crate) struct Sleep {
    /// Wake-ups that no thread has taken yet.
    woken: Mutex<u32>,
    changed: Condvar,
}

/// More wake-ups than that wake nobody.
const WAKE_UPS_MAX: u32 = 64;

impl Sleep {
    /// Wakes one of the threads; if none sleeps, the next one that would.
    pub(crate) fn wake(&self) {
        let mut woken = lock(&self.woken);
        *woken = (*woken + 1).min(WAKE_UPS_MAX);
        self.changed.notify_one();
    }

    fn sleep(&self, time: Duration) {
        let woken = lock(&self.woken);
        let mut woken = unpoison(self.changed.wait_timeout_while(woken, time, |woken| *woken == 0)).0;
        *woken = woken.saturating_sub(1);
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
