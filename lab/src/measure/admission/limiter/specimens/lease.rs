//! The set of running threads changes once per lease: an exit hands off its slot only then, and frees it otherwise, so
//! that the threads that came in last keep coming back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use flifo_admission::WaitKind;
use flifo_base::{cpu_count, lock};

use super::SpecimenGate;
use super::parker::Parker;
use crate::measure::admission::limiter::Limiter;
use crate::support::clock;

const LEASE_NS: u64 = 500_000;

pub(super) struct Gate {
    limit: u32,
    /// An exit frees its slot only while at least this many slots stay out. At least 1: the last thread to exit hands off.
    enough: u32,
    lease_ns: u64,
    state: Mutex<State>,
}

/// Invariant: `pending <= slots`, `slots <= 2 * limit` except for ends of waits, and threads wait only while `slots >
/// 0`.
#[derive(Default)]
struct State {
    /// Slots out: to running threads, and to pending ones.
    slots: u32,
    /// Threads that were handed a slot and do not run yet.
    pending: u32,
    waiting: VecDeque<Arc<Parker>>,
    /// When the lease began.
    since_ns: u64,
}

impl Gate {
    pub(super) fn new(limit: u32) -> Self {
        Self::with_lease(limit, cpu_count() as u32, LEASE_NS)
    }

    fn with_lease(limit: u32, cpus: u32, lease_ns: u64) -> Self {
        let enough = if limit > cpus { cpus } else { (limit - 1).max(1) };
        Gate { limit, enough, lease_ns, state: Mutex::default() }
    }

    /// Releases a slot; `for_good` if its thread does not come back at once.
    fn release(&self, for_good: bool) {
        let mut state = lock(&self.state);
        let mut handed = VecDeque::new();
        let is_above = state.slots > self.limit;
        if !is_above && !state.waiting.is_empty() && self.hands_off(&mut state, for_good) {
            handed = state.hand_off(self.limit);
        } else {
            state.slots -= 1;
        }
        drop(state);
        handed.iter().for_each(|next| next.wake());
    }

    /// Whether an exit hands off its slot. The first exit after the end of a lease begins the next one.
    fn hands_off(&self, state: &mut State, for_good: bool) -> bool {
        if for_good || state.slots - 1 < self.enough {
            return true;
        }
        let now_ns = clock::now_ns();
        let is_over = now_ns.saturating_sub(state.since_ns) >= self.lease_ns;
        if is_over {
            state.since_ns = now_ns;
        }
        is_over
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }
}

impl State {
    /// Frees a slot, and takes as many waiters out of the queue as there are free slots.
    fn hand_off(&mut self, limit: u32) -> VecDeque<Arc<Parker>> {
        self.slots -= 1;
        let count = (limit.saturating_sub(self.slots) as usize).min(self.waiting.len());
        self.slots += count as u32;
        self.pending += count as u32;
        self.waiting.drain(..count).collect()
    }
}

impl SpecimenGate for Gate {
    fn limiter(self: Arc<Self>) -> Box<dyn Limiter> {
        Box::new(Lease { gate: self, parker: Arc::default() })
    }
}

struct Lease {
    gate: Arc<Gate>,
    parker: Arc<Parker>,
}

impl Limiter for Lease {
    fn enter(&self) {
        let mut state = lock(&self.gate.state);
        // FLIFO's gate: pending threads do not count.
        if state.slots - state.pending < self.gate.limit {
            state.slots += 1;
            return;
        }
        self.parker.prepare();
        state.waiting.push_back(Arc::clone(&self.parker));
        drop(state);
        self.parker.sleep();
        lock(&self.gate.state).pending -= 1;
    }

    fn exit(&self) {
        self.gate.release(false);
    }

    fn wait_begin(&self, _kind: WaitKind) {
        self.gate.release(true);
    }

    fn wait_end(&self, _kind: WaitKind) {
        lock(&self.gate.state).slots += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Runs `then` while three threads are inside and a fourth waits.
    fn with_a_waiter(lease_ns: u64, then: impl FnOnce(&Gate, &dyn Limiter)) {
        let gate = Arc::new(Gate::with_lease(3, 2, lease_ns));
        let running = Arc::clone(&gate).limiter();
        (0..3).for_each(|_| running.enter());
        thread::scope(|scope| {
            let waiter = Arc::clone(&gate);
            scope.spawn(move || waiter.limiter().enter());
            while gate.waiting() == 0 {
                thread::yield_now();
            }
            then(&gate, &*running);
        });
        assert_eq!((gate.waiting(), lock(&gate.state).pending), (0, 0));
    }

    #[test]
    fn within_a_lease_a_slot_is_freed_while_enough_others_run() {
        with_a_waiter(u64::MAX, |gate, running| {
            running.exit();
            assert_eq!((gate.waiting(), lock(&gate.state).slots), (1, 2), "two CPUs have two threads");
            running.enter();
            running.exit();
            assert_eq!(gate.waiting(), 1);
            running.exit();
            assert_eq!((gate.waiting(), lock(&gate.state).slots), (0, 2), "too few would run");
        });
    }

    #[test]
    fn after_a_lease_a_slot_is_handed_off() {
        with_a_waiter(0, |gate, running| {
            running.exit();
            assert_eq!((gate.waiting(), lock(&gate.state).slots), (0, 3));
        });
    }

    #[test]
    fn a_thread_that_waits_hands_off_its_slot() {
        with_a_waiter(u64::MAX, |gate, running| {
            running.wait_begin(WaitKind::Disk);
            assert_eq!(gate.waiting(), 0);
        });
    }
}
