//! Hands each slot to the youngest waiter: warm caches, and starvation.

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

/// Invariant: threads wait only while `running >= limit`.
#[derive(Default)]
struct State {
    running: u32,
    /// The youngest last.
    waiting: Vec<Arc<Parker>>,
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
        Box::new(Lifo { gate: self, parker: Arc::default() })
    }
}

struct Lifo {
    gate: Arc<Gate>,
    parker: Arc<Parker>,
}

impl Limiter for Lifo {
    fn enter(&self) {
        let mut state = lock(&self.gate.state);
        if state.running < self.gate.limit {
            state.running += 1;
            return;
        }
        self.parker.prepare();
        state.waiting.push(Arc::clone(&self.parker));
        drop(state);
        // The thread that wakes it has handed off its slot.
        self.parker.sleep();
    }

    fn exit(&self) {
        let mut state = lock(&self.gate.state);
        let is_above = state.running > self.gate.limit;
        let next = if is_above { None } else { state.waiting.pop() };
        if next.is_none() {
            state.running -= 1;
        }
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
    }

    fn wait_end(&self, _kind: WaitKind) {
        lock(&self.gate.state).running += 1;
    }
}
