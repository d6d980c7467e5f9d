//! The policies, as a table: what each does with newcomers and with a released slot.
//!
//! | policy | limit | counts as running | who may pass a non-empty queue | an exit while others queue |
//! |---|---|---|---|---|
//! | `none` | no | - | everybody: nobody queues | releases |
//! | `fifo` | yes | every slot out | nobody | hands off |
//! | `flifo` | yes | slots whose threads run | every newcomer | hands off |
//! | `quantum` | yes | slots whose threads run | sessions in their time slice; newcomers within the barging limit | hands off, unless its time slice goes on |

use std::fmt;

/// Which thread enters when the limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Policy {
    /// No limit: every thread enters at once.
    None = 0,
    /// Strict order: an exit hands its slot to the head of the queue, and newcomers queue behind.
    Fifo = 1,
    /// FIFO hand-off, but a newcomer enters at once while woken threads are still pending (published in 2009).
    Flifo = 2,
    /// Round robin with a time slice, FLIFO for newcomers. The default.
    ///
    /// A session that comes back as soon as it has left keeps coming back for a [`quantum`](crate::Config::quantum); then
    /// its exit hands the slot to the head of the queue, and the session queues at the tail. With a quantum of a millisecond or
    /// longer, a session that used far more CPU time than others lets them pass (deficit round robin).
    Quantum = 3,
}

/// What one policy does: a row of the table.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// There is a limit at all.
    pub(crate) has_limit: bool,
    /// A pending thread does not count as running, so a newcomer may take its time.
    pub(crate) ignores_pending: bool,
    /// Which callers may pass a non-empty queue.
    pub(crate) passes: Passes,
    /// An exit whose time slice goes on releases its slot instead of handing it off.
    pub(crate) has_slices: bool,
}

/// Which callers may pass a non-empty queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passes {
    Nobody,
    Everybody,
    /// Sessions that [`Caller::may_barge`](super::word::Caller) says may.
    MayBarge,
}

#[rustfmt::skip]
const RULES: [Rule; 4] = [
    //   name       limit  ignores P  who passes       slices
    rule("none",    false, false, Passes::Everybody, false),
    rule("fifo",    true,  false, Passes::Nobody,    false),
    rule("flifo",   true,  true,  Passes::Everybody, false),
    rule("quantum", true,  true,  Passes::MayBarge,  true),
];

const fn rule(name: &'static str, limit: bool, pending: bool, passes: Passes, slices: bool) -> Rule {
    Rule { name, has_limit: limit, ignores_pending: pending, passes, has_slices: slices }
}

impl Policy {
    /// All policies, in the order of their numbers.
    pub const ALL: [Policy; 4] = [Policy::None, Policy::Fifo, Policy::Flifo, Policy::Quantum];

    /// The name as it is written on a command line.
    pub fn name(self) -> &'static str {
        self.rule().name
    }

    #[inline]
    pub(crate) const fn rule(self) -> &'static Rule {
        &RULES[self as usize]
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
