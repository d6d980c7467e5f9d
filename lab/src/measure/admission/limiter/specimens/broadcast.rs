//! Frees the slot and wakes every waiter (thundering herd).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use flifo_admission::WaitKind;
use rustix::thread::futex;

use super::SpecimenGate;
use crate::measure::admission::limiter::Limiter;

/// A count of running threads, on which those that find it full sleep.
///
/// Both words are sequentially consistent: an exit takes itself off `running` and then reads `sleepers`, a thread that
/// finds no slot counts itself in `sleepers` and then reads `running`, so one of the two sees the other.
pub(super) struct Gate {
    limit: u32,
    running: AtomicU32,
    /// Threads that sleep on `running`, or are about to.
    sleepers: AtomicU32,
}

impl Gate {
    pub(super) fn new(limit: u32) -> Self {
        Gate { limit, running: AtomicU32::new(0), sleepers: AtomicU32::new(0) }
    }

    /// Enters, or returns how many run instead.
    fn try_enter(&self) -> Result<u32, u32> {
        let enter = |running: u32| (running < self.limit).then_some(running + 1);
        self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enter)
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.sleepers.load(Ordering::SeqCst) as usize
    }
}

impl SpecimenGate for Gate {
    fn limiter(self: Arc<Self>) -> Box<dyn Limiter> {
        Box::new(Broadcast(self))
    }
}

struct Broadcast(Arc<Gate>);

impl Limiter for Broadcast {
    fn enter(&self) {
        let gate = &*self.0;
        if gate.try_enter().is_ok() {
            return;
        }
        gate.sleepers.fetch_add(1, Ordering::SeqCst);
        while let Err(running) = gate.try_enter() {
            // Every error (changed word, signal) means: look again.
            let _ = futex::wait(&gate.running, futex::Flags::PRIVATE, running, None);
        }
        gate.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn exit(&self) {
        let gate = &*self.0;
        let running = gate.running.fetch_sub(1, Ordering::SeqCst);
        // An exit above the limit frees no slot.
        if running <= gate.limit && gate.sleepers.load(Ordering::SeqCst) > 0 {
            // Waking a valid, aligned word cannot fail.
            let _ = futex::wake(&gate.running, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }

    fn wait_end(&self, _kind: WaitKind) {
        self.0.running.fetch_add(1, Ordering::SeqCst);
    }
}
