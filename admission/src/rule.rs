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
pub(crate) struct Rule {
    /// How newcomers are treated.
    pub(crate) gate: Gate,
    /// What an exit does while somebody waits, if its place does not stay with the processor. `GiveBack` is overruled when too few would run on, and
    /// while the gate is closed for the sake of the queue's head.
    pub(crate) at_exit: fn(&Exit<'_>) -> Passing,
    /// Who is served first.
    pub(crate) end: End,
    /// What becomes of a place that is free for another reason than an exit: a higher limit, the end of
    /// congestion.
    pub(crate) at_rise: Passing,
}

const BARGE: Gate = Gate { lenient: false, strict: false };
const LENIENT: Gate = Gate { lenient: true, strict: false };
const STRICT: Gate = Gate { lenient: false, strict: true };

/// Every exit hands its place on to the one that waits longest. The others say in what they differ.
const HAND_ON: Rule =
    Rule { gate: BARGE, at_exit: |_| Passing::HandOn, end: End::Front, at_rise: Passing::HandOn };

impl Policy {
    /// What the policy does.
    pub(crate) fn rule(self) -> Rule {
        match self {
            // Everybody enters, so nobody waits.
            Policy::None => Rule { at_exit: |_| Passing::GiveBack, ..HAND_ON },
            // The queue is for those that cannot poll: tasks, and sessions that were in it when the policy
            // changed.
            Policy::Sleep => HAND_ON,
            Policy::Fifo => Rule { gate: STRICT, ..HAND_ON },
            Policy::Lifo => Rule { end: End::Back, ..HAND_ON },
            Policy::Flifo => Rule { gate: LENIENT, ..HAND_ON },
            // An exit wakes everybody.
            Policy::Broadcast => {
                Rule { at_exit: |_| Passing::Disperse, at_rise: Passing::Disperse, ..HAND_ON }
            }
            // The set of threads inside changes by time: places are handed on only once in a lease, and those who
            // came in last keep coming back until then.
            Policy::Lease => {
                Rule { gate: LENIENT, at_exit: |exit| hand_on_if((exit.lease_over)()), ..HAND_ON }
            }
            // A place is never idle: it goes to a woken thread only when that thread runs.
            Policy::Summon => Rule { at_exit: summon, at_rise: Passing::Summon, ..HAND_ON },
            // Round robin with a quantum for those that come back at once, `flifo` for the others; see `crate::turn`.
            Policy::Quantum => {
                Rule { gate: LENIENT, at_exit: |exit| hand_on_if(!exit.leaver.in_quantum), ..HAND_ON }
            }
        }
    }
}

fn hand_on_if(over: bool) -> Passing {
    if over { Passing::HandOn } else { Passing::GiveBack }
}

fn summon(exit: &Exit<'_>) -> Passing {
    // One summoned thread for each place is enough; more would only find the places taken.
    if exit.state.pending() < exit.state.limit() { Passing::Summon } else { Passing::GiveBack }
}
