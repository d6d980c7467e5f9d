//! The hooks of the optional mechanisms ([`crate::extra`]): the only calls to them, and what they store.
//!
//! | feature | hooks |
//! |---|---|
//! | `percpu`: a slot per CPU while nobody queues | [`Extra::acquire`], [`Extra::release`], [`Extra::on_queued`] |
//! | `reservation`: a slot waits for a session expected back at once | [`Extra::reserve_until_ns`], [`take_back`], [`Extra::take_expired`] |
//! | `futex-hash`: more kernel buckets for sleeping threads | [`on_watch`] |

// Without a feature its hooks do nothing with what they are passed.
#![cfg_attr(not(all(feature = "percpu", feature = "reservation")), allow(unused_variables))]

use crate::config::Config;
#[cfg(feature = "percpu")]
use crate::extra::percpu::Slots;
#[cfg(feature = "reservation")]
use crate::extra::reservation::Reservation;
use crate::gate::hold::Hold;
use crate::gate::word::{Caller, Word};
use crate::gate::{Entered, Gate};
use crate::quantum::slice::Slice;

/// What the mechanisms store for a scheduler.
pub(crate) struct Extra {
    #[cfg(feature = "percpu")]
    pub(crate) slots: Slots,
    #[cfg(feature = "reservation")]
    pub(crate) reservation: Reservation,
}

impl Extra {
    pub(crate) fn new(cpus: u32) -> Self {
        Extra {
            #[cfg(feature = "percpu")]
            slots: Slots::new(cpus),
            #[cfg(feature = "reservation")]
            reservation: Reservation::new(),
        }
    }

    /// The CPU that runs this thread, which serves the session numbered so. A model checker has none: each session is given one.
    pub(crate) fn current_cpu(&self, session: u64) -> usize {
        #[cfg(feature = "percpu")]
        return self.slots.index_of(match cfg!(any(loom, shuttle, miri)) {
            true => session as usize,
            false => flifo_base::current_cpu(),
        });
        #[cfg(not(feature = "percpu"))]
        0
    }

    /// Enters on a slot that this CPU keeps, or any.
    #[inline]
    pub(crate) fn acquire(&self, gate: &Gate, cpu: Option<usize>, caller: Caller) -> Option<(Entered, Word)> {
        #[cfg(feature = "percpu")]
        return match cpu {
            Some(cpu) => self.slots.take(gate, cpu, caller),
            None => self.slots.take_any(gate, caller),
        };
        #[cfg(not(feature = "percpu"))]
        None
    }

    /// Exits, and the CPU keeps the slot: the word as it is then. `None` if nothing is done.
    #[inline]
    pub(crate) fn release(&self, gate: &Gate, cpu: usize) -> Option<Word> {
        #[cfg(feature = "percpu")]
        return self.slots.keep(gate, cpu);
        #[cfg(not(feature = "percpu"))]
        None
    }

    /// A session has joined the queue: gives kept slots back. Returns whether the queue is to be served.
    pub(crate) fn on_queued(&self, gate: &Gate) -> bool {
        #[cfg(feature = "percpu")]
        return self.slots.give_back(gate);
        #[cfg(not(feature = "percpu"))]
        false
    }

    /// Slots out that no thread has.
    pub(crate) fn kept(&self) -> u32 {
        #[cfg(feature = "percpu")]
        return self.slots.count();
        #[cfg(not(feature = "percpu"))]
        0
    }

    /// Whether slots may be reserved now.
    #[inline]
    pub(crate) fn reserves(&self) -> bool {
        #[cfg(feature = "reservation")]
        return self.reservation.is_on();
        #[cfg(not(feature = "reservation"))]
        false
    }

    /// Until when the slot of a session that leaves shall be reserved, ns; `None`: not at all.
    pub(crate) fn reserve_until_ns(
        &self,
        (gate, slice, holds_locks): (&Gate, &Slice, bool),
        (now_ns, quantum_ns): (u64, u64),
    ) -> Option<u64> {
        #[cfg(feature = "reservation")]
        return self.reservation.until_ns(gate, slice, holds_locks, now_ns, quantum_ns);
        #[cfg(not(feature = "reservation"))]
        None
    }

    /// Reserves a slot for a session that has left. Returns whether it waits; otherwise the session still has it.
    pub(crate) fn reserve(&self, hold: &Hold, until_ns: u64) -> bool {
        #[cfg(feature = "reservation")]
        return self.reservation.reserve(hold, until_ns);
        #[cfg(not(feature = "reservation"))]
        false
    }

    /// Takes a reserved slot whose time is over, or any in a hurry. Returns whether the caller has it.
    pub(crate) fn take_expired(&self, hold: &Hold, now_ns: u64, hurry: bool) -> bool {
        #[cfg(feature = "reservation")]
        return self.reservation.take_expired(hold, now_ns, hurry);
        #[cfg(not(feature = "reservation"))]
        false
    }

    /// Does as the configuration says.
    pub(crate) fn configure(&self, config: &Config) {
        #[cfg(feature = "reservation")]
        self.reservation
            .set(config.reserve_slots && config.policy.rule().has_slices && config.first_limit() != 0);
    }
}

/// Takes a reserved slot back. Returns whether it is still the session's.
pub(crate) fn take_back(hold: &Hold) -> bool {
    #[cfg(feature = "reservation")]
    return hold.take_reserved();
    #[cfg(not(feature = "reservation"))]
    false
}

/// The watchdog has found `queued` sessions in the queue.
pub(crate) fn on_watch(queued: u32) {
    #[cfg(feature = "futex-hash")]
    crate::extra::futex_hash::make_room(queued);
}
