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
    pub(crate) leaver: Leaver,
    /// Whether the lease of those inside has run out: asked at most once, since asking renews it.
    pub(crate) lease_over: &'a dyn Fn() -> bool,
}

/// The session that leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaver {
    /// It comes back at once, and its quantum is not used up.
    pub(crate) in_quantum: bool,
    /// Others may wait for its locks, so it had better come back.
    pub(crate) holds_locks: bool,
}

/// What becomes of a place that somebody leaves, or that is free, while others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// It is free, although somebody waits.
    GiveBack,
    /// It goes to the next in the queue.
    HandOn,
    /// It is free; the next in the queue is woken and competes.
    Summon,
    /// It is free; all in the queue are woken and compete.
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
    fn at_exit(&self, exit: &Exit<'_>) -> Passing;

    /// Who is served first.
    fn end(&self) -> End {
        End::Front
    }

    /// What becomes of a place that is free for another reason than an exit: a higher limit, the end of
    /// congestion.
    fn at_rise(&self) -> Passing {
        Passing::HandOn
    }
}

const BARGE: Gate = Gate { lenient: false, strict: false };
const LENIENT: Gate = Gate { lenient: true, strict: false };
const STRICT: Gate = Gate { lenient: false, strict: true };

impl Policy {
    /// What the policy does.
    pub(crate) fn rule(self) -> &'static dyn Rule {
        match self {
            Policy::None => &Unlimited,
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

/// Everybody enters, so nobody waits.
struct Unlimited;

impl Rule for Unlimited {
    fn gate(&self) -> Gate {
        BARGE
    }

    fn at_exit(&self, _: &Exit<'_>) -> Passing {
        Passing::GiveBack
    }
}

/// Every exit hands its place on: `fifo`, `lifo`, `flifo` and `sleep`, by gate and end.
struct HandOn {
    gate: Gate,
    end: End,
}

impl Rule for HandOn {
    fn gate(&self) -> Gate {
        self.gate
    }

    fn at_exit(&self, _: &Exit<'_>) -> Passing {
        Passing::HandOn
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

    fn at_exit(&self, _: &Exit<'_>) -> Passing {
        Passing::Disperse
    }

    fn at_rise(&self) -> Passing {
        Passing::Disperse
    }
}

/// The set of threads inside changes by time: places are handed on only once in a lease, and those who
/// came in last keep coming back until then.
struct Lease;

impl Rule for Lease {
    fn gate(&self) -> Gate {
        LENIENT
    }

    fn at_exit(&self, exit: &Exit<'_>) -> Passing {
        if (exit.lease_over)() { Passing::HandOn } else { Passing::GiveBack }
    }
}

/// A place is never idle: it goes to a woken thread only when that thread runs.
struct Summon;

impl Rule for Summon {
    fn gate(&self) -> Gate {
        BARGE
    }

    fn at_exit(&self, exit: &Exit<'_>) -> Passing {
        // One summoned thread for each place is enough; more would only find the places taken.
        if exit.state.pending() < exit.state.limit() { Passing::Summon } else { Passing::GiveBack }
    }

    fn at_rise(&self) -> Passing {
        Passing::Summon
    }
}

/// Round robin with a quantum for those that come back at once, `flifo` for the others; see [`crate::turn`].
struct Quantum;

impl Rule for Quantum {
    fn gate(&self) -> Gate {
        LENIENT
    }

    fn at_exit(&self, exit: &Exit<'_>) -> Passing {
        if exit.leaver.in_quantum { Passing::GiveBack } else { Passing::HandOn }
    }
}
