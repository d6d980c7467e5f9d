//! How the watchdog's thread sleeps while nobody queues, and is roused.

use std::sync::Mutex;
use std::thread::Thread;

use flifo_base::lock;

use crate::gate::Gate;
use crate::sync::{AtomicBool, Ordering};

/// Rouses the watchdog's thread, if there is one and it sleeps.
pub(crate) struct Alarm {
    /// The thread sleeps until it is roused. Set by the thread, before it looks whether anybody queues and sleeps; cleared by
    /// whoever rouses it, after it joined the queue. Sequentially consistent on both sides, so one of the two sees the other.
    pub(crate) asleep: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Alarm {
    pub(crate) fn new() -> Self {
        Alarm { asleep: AtomicBool::new(false), thread: Mutex::new(None) }
    }

    /// Starts the thread, unless there is one.
    pub(crate) fn start(&self, spawn: impl FnOnce() -> std::io::Result<Thread>) -> std::io::Result<()> {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            *thread = Some(spawn()?);
        }
        Ok(())
    }

    /// The thread wants to sleep. Returns whether it may: whoever joins from now on rouses it.
    pub(crate) fn fall_asleep(&self, gate: &Gate) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        gate.word_after_all().queued() == 0
    }

    /// Rouses the thread: a session has joined the queue.
    pub(crate) fn rouse(&self) {
        // After the join's swap; see `asleep`.
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            self.unpark();
        }
    }

    /// Wakes the thread, if there is one.
    pub(crate) fn unpark(&self) {
        if let Some(thread) = &*lock(&self.thread) {
            thread.unpark();
        }
    }
}
