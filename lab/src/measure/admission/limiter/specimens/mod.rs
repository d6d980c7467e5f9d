//! Policies kept for comparison, used elsewhere or rejected here: each in the shortest form that behaves like the real
//! one.
//!
//! They are compared with the policies of [`flifo_admission`] and are part of no product. None has tickets, timeouts,
//! classes or a bound on row-lock waiters. A thread that ends a wait enters above the limit, as under our policies, and
//! exits repay it.
//!
//! | specimen | newcomers | an exit while others wait |
//! |---|---|---|
//! | `lifo` | enter if a slot is free | hands its slot to the youngest waiter |
//! | `broadcast` | enter if a slot is free | frees its slot and wakes every waiter: the herd |
//! | `sleep` | enter if a slot is free, else poll | frees its slot without a wake-up (InnoDB 5.6 to 8) |
//! | `lease` | enter while fewer than the limit run | once in 0.5 ms hands off its slot, else frees it |
//! | `summon` | enter if a slot is free | frees its slot and wakes the head of the queue, which competes |

mod broadcast;
mod lease;
mod lifo;
mod parker;
mod sleep;
mod summon;

use std::sync::Arc;

use super::Limiter;

/// A policy kept for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Specimen {
    /// The youngest waiter is served first.
    Lifo,
    /// An exit wakes every waiter.
    Broadcast,
    /// Waiters poll with an adaptive delay.
    Sleep,
    /// The set of running threads changes once per lease.
    Lease,
    /// A woken thread competes for its slot.
    Summon,
}

impl Specimen {
    /// All of them.
    pub const ALL: [Specimen; 5] =
        [Specimen::Lifo, Specimen::Broadcast, Specimen::Sleep, Specimen::Lease, Specimen::Summon];

    /// The name as it is written on a command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Specimen::Lifo => "lifo",
            Specimen::Broadcast => "broadcast",
            Specimen::Sleep => "sleep",
            Specimen::Lease => "lease",
            Specimen::Summon => "summon",
        }
    }

    /// A gate of this kind for at most `limit` threads.
    pub(crate) fn gate(self, limit: u32) -> Arc<dyn SpecimenGate> {
        match self {
            Specimen::Lifo => Arc::new(lifo::Gate::new(limit)),
            Specimen::Broadcast => Arc::new(broadcast::Gate::new(limit)),
            Specimen::Sleep => Arc::new(sleep::Gate::new(limit)),
            Specimen::Lease => Arc::new(lease::Gate::new(limit)),
            Specimen::Summon => Arc::new(summon::Gate::new(limit)),
        }
    }
}

/// What all threads of a specimen share.
pub(crate) trait SpecimenGate: Send + Sync {
    /// One thread's way in and out.
    fn limiter(self: Arc<Self>) -> Box<dyn Limiter>;
}

#[cfg(test)]
mod tests;
