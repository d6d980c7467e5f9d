//! The hooks of the optional mechanisms ([`crate::extra`]): the only calls to them, and what they store.
//!
//! | feature | hooks |
//! |---|---|
//! | `percpu`: a slot per CPU while nobody queues | [`Extra::acquire`], [`Extra::release`], [`Extra::on_queued`] |
//! | `reservation`: a slot waits for a session expected back at once | [`Extra::reserve`], [`take_back`], [`Extra::take_expired`] |
//! | `futex-hash`: more kernel buckets for sleeping threads | [`on_watch`] |

use std::cell::Cell;

use crate::config::Config;
#[cfg(feature = "futex-hash")]
use crate::extra::futex_hash;
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

/// The CPU a session runs on, as far as it knows: any is right, but another CPU's slot is slower.
pub(crate) struct Cpu(Cell<usize>);

/// Where to look for a kept slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    OnThisCpu,
    Anywhere,
}

#[cfg_attr(not(all(feature = "percpu", feature = "reservation")), allow(unused_variables))]
impl Extra {
    pub(crate) fn new(cpus: u32) -> Self {
        Extra {
            #[cfg(feature = "percpu")]
            slots: Slots::new(cpus),
            #[cfg(feature = "reservation")]
            reservation: Reservation::new(),
        }
    }

    /// The CPU of the session numbered so, which the running thread serves.
    pub(crate) fn cpu(&self, session: u64) -> Cpu {
        let cpu = Cpu(Cell::new(0));
        self.update(&cpu, session);
        cpu
    }

    /// Notes the CPU that the session's thread runs on now.
    pub(crate) fn update(&self, cpu: &Cpu, session: u64) {
        #[cfg(feature = "percpu")]
        cpu.0.set(self.slots.index_of(current_cpu(session)));
    }

    /// Enters on a kept slot.
    #[inline]
    pub(crate) fn acquire(&self, gate: &Gate, cpu: &Cpu, caller: Caller, kept: Kept) -> Option<(Entered, Word)> {
        #[cfg(feature = "percpu")]
        return match kept {
            Kept::OnThisCpu => self.slots.take(gate, cpu.0.get(), caller),
            Kept::Anywhere => self.slots.take_any(gate, caller),
        };
        #[cfg(not(feature = "percpu"))]
        None
    }

    /// Exits, and keeps the slot: the word as it is then. `None` if nothing is done.
    #[inline]
    pub(crate) fn release(&self, gate: &Gate, cpu: &Cpu) -> Option<Word> {
        #[cfg(feature = "percpu")]
        return self.slots.keep(gate, cpu.0.get());
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

    /// Until when the slot of a session that leaves shall be reserved, ns; `None`: not at all.
    #[inline]
    pub(crate) fn reserves_until_ns(
        &self,
        gate: &Gate,
        slice: &Slice,
        holds_locks: bool,
        now_ns: impl FnOnce() -> u64,
        quantum_ns: u64,
    ) -> Option<u64> {
        #[cfg(feature = "reservation")]
        if self.reservation.is_on() {
            return self.reservation.until_ns(gate, slice, holds_locks, now_ns, quantum_ns);
        }
        None
    }

    /// Reserves a slot for a session that has left. Returns whether it waits; otherwise the session still has it.
    pub(crate) fn reserve(&self, hold: &Hold, until_ns: u64) -> bool {
        #[cfg(feature = "reservation")]
        return self.reservation.reserve(hold, until_ns);
        #[cfg(not(feature = "reservation"))]
        false
    }

    /// Takes a reserved slot whose time is over, or whatever its time if the caller is in a hurry. Returns whether the caller has it.
    pub(crate) fn take_expired(&self, hold: &Hold, now_ns: u64, hurry: bool) -> bool {
        #[cfg(feature = "reservation")]
        return self.reservation.take_expired(hold, now_ns, hurry);
        #[cfg(not(feature = "reservation"))]
        false
    }

    /// Whether slots may be reserved now.
    pub(crate) fn reserves(&self) -> bool {
        #[cfg(feature = "reservation")]
        return self.reservation.is_on();
        #[cfg(not(feature = "reservation"))]
        false
    }

    /// Does as the configuration says.
    pub(crate) fn configure(&self, config: &Config) {
        #[cfg(feature = "reservation")]
        self.reservation.set(config.reserve_slots && config.policy.rule().has_slices && config.first_limit() != 0);
    }
}

/// Takes a reserved slot back. Returns whether it is still the session's.
pub(crate) fn take_back(hold: &Hold) -> bool {
    #[cfg(feature = "reservation")]
    return hold.take_reserved();
    #[cfg(not(feature = "reservation"))]
    {
        let _ = hold;
        false
    }
}

/// The watchdog has found so many in the queue.
pub(crate) fn on_watch(queued: u32) {
    #[cfg(feature = "futex-hash")]
    futex_hash::make_room(queued);
    #[cfg(not(feature = "futex-hash"))]
    let _ = queued;
}

/// The CPU that this thread runs on. A model checker has none: each session is given one.
#[cfg(feature = "percpu")]
fn current_cpu(session: u64) -> usize {
    if cfg!(any(loom, shuttle, miri)) { session as usize } else { rustix::thread::sched_getcpu() }
}
