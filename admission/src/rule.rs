//! The policies: what each does at the gate and at an exit.
//!
//! All policies share one word, one queue and one protocol ([`crate::core`]). They differ in the gate that
//! newcomers find ([`Gate`], which the word's flags carry), in what an exit does while somebody waits, and
//! in the end of the queue that is served.

use crate::Policy;
use crate::state::{Gate, State};

/// A thread leaves, T <= L, and somebody waits.
pub(crate) struct Exit<'a> {
    /// The word before the exit.
    pub(crate) state: State,
    /// The session's quantum is not used up.
    pub(crate) in_quantum: bool,
    /// Whether the lease of those inside has run out: asked at most once, since asking renews it.
    pub(crate) lease_over: &'a dyn Fn() -> bool,
}

/// What an exit does with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtExit {
    /// T - 1, although somebody waits.
    GiveBack,
    /// It goes to the next in the queue.
    HandOn,
    /// T - 1; the next in the queue is woken and competes.
    Summon,
    /// T - 1; all in the queue are woken and compete.
    Disperse,
}

/// The end of the queue that is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// First come, first served.
    Front,
    /// A stack.
    Back,
}

/// A policy.
pub(crate) trait Rule: Sync {
    /// How newcomers are treated.
    fn gate(&self) -> Gate;

    /// What an exit does while somebody waits. `GiveBack` is overruled when too few would run on, and
    /// while the gate is closed for the sake of the queue's head.
    fn at_exit(&self, exit: &Exit<'_>) -> AtExit;

    /// Who is served first.
    fn end(&self) -> End {
        End::Front
    }

    /// Whether a free place may be handed to a queued thread from outside an exit.
    fn grants(&self) -> bool {
        true
    }
}

const BARGE: Gate = Gate { lenient: false, strict: false };
const LENIENT: Gate = Gate { lenient: true, strict: false };
const STRICT: Gate = Gate { lenient: false, strict: true };

impl Policy {
    /// What the policy does.
    pub(crate) fn rule(self) -> &'static dyn Rule {
        match self {
            Policy::None => &Unqueued,
            // The queue is for those that cannot poll: tasks, and sessions that were in it when the policy
            // changed.
            Policy::Sleep => &HandOn { gate: BARGE, end: End::Front },
            Policy::Fifo => &HandOn { gate: STRICT, end: End::Front },
            Policy::Lifo => &HandOn { gate: BARGE, end: End::Back },
            Policy::Flifo => &HandOn { gate: LENIENT, end: End::Front },
            Policy::Broadcast => &Broadcast,
            Policy::Lease => &Lease,
            Policy::Summon => &Summon,
            Policy::Quantum => &Quantum,
        }
    }
}

/// No queue: `none`, where everybody enters.
struct Unqueued;

impl Rule for Unqueued {
    fn gate(&self) -> Gate {
        BARGE
    }

    fn at_exit(&self, _: &Exit<'_>) -> AtExit {
        AtExit::GiveBack
    }

    fn grants(&self) -> bool {
        false
    }
}

/// Every exit hands its place on: `fifo`, `lifo` and `flifo`, by gate and end.
struct HandOn {
    gate: Gate,
    end: End,
}

impl Rule for HandOn {
    fn gate(&self) -> Gate {
        self.gate
    }

    fn at_exit(&self, _: &Exit<'_>) -> AtExit {
        AtExit::HandOn
    }

    fn end(&self) -> End {
        self.end
    }
}

/// An exit wakes everybody.
struct Broadcast;

impl Rule for Broadcast {
    fn gate(&self) -> Gate {
        BARGE
    }

    fn at_exit(&self, _: &Exit<'_>) -> AtExit {
        AtExit::Disperse
    }

    fn grants(&self) -> bool {
        false
    }
}

/// The set of threads inside changes by time: places are handed on only once in a lease, and those who
/// came in last keep coming back until then.
struct Lease;

impl Rule for Lease {
    fn gate(&self) -> Gate {
        LENIENT
    }

    fn at_exit(&self, exit: &Exit<'_>) -> AtExit {
        if (exit.lease_over)() { AtExit::HandOn } else { AtExit::GiveBack }
    }
}

/// A place is never idle: it goes to a woken thread only when that thread runs.
struct Summon;

impl Rule for Summon {
    fn gate(&self) -> Gate {
        BARGE
    }

    fn at_exit(&self, exit: &Exit<'_>) -> AtExit {
        // One summoned thread for each place is enough; more would only find the places taken.
        if exit.state.pending() < exit.state.limit() { AtExit::Summon } else { AtExit::GiveBack }
    }

    fn grants(&self) -> bool {
        false
    }
}

/// Round robin with a quantum: whoever came in through the queue may come back at once until it has
/// made its quantum of statements; then its place goes to the head, and itself to the tail.
struct Quantum;

impl Rule for Quantum {
    fn gate(&self) -> Gate {
        BARGE
    }

    fn at_exit(&self, exit: &Exit<'_>) -> AtExit {
        if exit.in_quantum { AtExit::GiveBack } else { AtExit::HandOn }
    }
}
