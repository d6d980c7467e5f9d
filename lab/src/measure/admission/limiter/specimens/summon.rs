//! Frees the slot and wakes the head of the queue, which competes for it when it runs: a slot is never reserved for a thread
//! that does not run yet.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use flifo_admission::WaitKind;
use flifo_base::lock;

use super::SpecimenGate;
use super::parker::Parker;
use crate::measure::admission::limiter::Limiter;

pub(super) struct Gate {
    limit: u32,
    state: Mutex<State>,
}

/// Invariant: `pending <= limit`, and threads wait only while a thread runs or is pending.
#[derive(Default)]
struct State {
    running: u32,
    /// Threads that were woken and do not compete yet. One for each slot is enough.
    pending: u32,
    waiting: VecDeque<Arc<Parker>>,
}

impl State {
    fn try_enter(&mut self, limit: u32) -> bool {
        let enters = self.running < limit;
        self.running += u32::from(enters);
        enters
    }

    /// Frees a slot; returns the thread that is woken for it.
    fn leave(&mut self, limit: u32) -> Option<Arc<Parker>> {
        let wakes = self.running <= limit && self.pending < limit;
        self.running -= 1;
        let next = if wakes { self.waiting.pop_front() } else { None };
        self.pending += u32::from(next.is_some());
        next
    }

    /// A woken thread competes. If it finds no slot, it is the head of the queue again.
    fn arrive(&mut self, parker: &Arc<Parker>, limit: u32) -> bool {
        self.pending -= 1;
        let enters = self.try_enter(limit);
        if !enters {
            parker.prepare();
            self.waiting.push_front(Arc::clone(parker));
        }
        enters
    }
}

impl Gate {
    pub(super) fn new(limit: u32) -> Self {
        Gate { limit, state: Mutex::default() }
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }
}

impl SpecimenGate for Gate {
    fn limiter(self: Arc<Self>) -> Box<dyn Limiter> {
        Box::new(Summon { gate: self, parker: Arc::default() })
    }
}

struct Summon {
    gate: Arc<Gate>,
    parker: Arc<Parker>,
}

impl Limiter for Summon {
    fn enter(&self) {
        let gate = &*self.gate;
        let mut state = lock(&gate.state);
        if state.try_enter(gate.limit) {
            return;
        }
        self.parker.prepare();
        state.waiting.push_back(Arc::clone(&self.parker));
        drop(state);
        loop {
            self.parker.sleep();
            if lock(&gate.state).arrive(&self.parker, gate.limit) {
                return;
            }
        }
    }

    fn exit(&self) {
        let next = lock(&self.gate.state).leave(self.gate.limit);
        if let Some(next) = next {
            next.wake();
        }
    }

    fn wait_end(&self, _kind: WaitKind) {
        lock(&self.gate.state).running += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summoned_thread_that_finds_no_slot_is_the_next_again() {
        let waiters: [Arc<Parker>; 2] = Default::default();
        let mut state = State { running: 1, waiting: waiters.iter().cloned().collect(), ..State::default() };
        let summoned = state.leave(1).expect("somebody waits");
        assert!(Arc::ptr_eq(&summoned, &waiters[0]));
        assert!(state.try_enter(1), "the slot is free until the woken thread runs");
        assert!(!state.arrive(&summoned, 1));
        let again = state.leave(1).expect("it waits still");
        assert!(Arc::ptr_eq(&again, &waiters[0]));
        assert!(state.arrive(&again, 1));
        assert_eq!((state.running, state.pending, state.waiting.len()), (1, 0, 1));
    }

    #[test]
    fn no_more_threads_are_summoned_than_there_are_slots() {
        let waiting: VecDeque<_> = (0..3).map(|_| Arc::new(Parker::default())).collect();
        let mut state = State { running: 1, waiting, ..State::default() };
        assert!(state.leave(1).is_some());
        assert!(state.try_enter(1));
        assert!(state.leave(1).is_none(), "one is on its way");
        assert_eq!((state.pending, state.waiting.len()), (1, 2));
    }
}
