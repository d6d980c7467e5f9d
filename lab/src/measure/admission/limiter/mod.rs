//! Limiters: the scheduler, and common alternatives.
//!
//! All threads share a [`Gate`]; each has a [`Limiter`] of its own to enter and exit. Every variant releases the slot
//! during a wait. A user of a peer would release before the wait and acquire after it, so the peers do that.
//!
//! | variant | admits by | a thread that finds no slot |
//! |---|---|---|
//! | a policy | [`flifo_admission`] | as the policy says |
//! | `tokio` | `tokio::sync::Semaphore`: fair, a permit goes to the head of its queue | its thread-parking `blocking_acquire` |
//! | `async-lock` | `async_lock::Semaphore`: the first to come after a wake-up; not fair by its own documentation | `acquire_blocking` |
//! | `mutex-condvar` | a count under a `Mutex`, a `Condvar` | waits, as in most hand-written semaphores |
//! | `futex` | one atomic count | sleeps on the count: the least that Linux needs |
//! | a specimen | see `specimens` | as the specimen says |
//! | `none` | no limit | - |

mod flifo;
mod handwritten;
mod peers;
mod running;
mod specimens;

use std::sync::Arc;
use std::time::Duration;

use flifo_admission::{Admission, Config, ConfigError, Policy, Snapshot, WaitKind};

pub(crate) use flifo::FlifoSession;
pub(crate) use handwritten::{Futex, FutexGate, MutexCondvar, MutexCondvarGate};
pub(crate) use peers::{AsyncLock, Tokio};
pub(crate) use running::{Counted, Running};
pub use specimens::Specimen;
pub(crate) use specimens::SpecimenGate;

/// One thread's way in and out.
pub(crate) trait Limiter {
    /// Returns once the thread has a slot.
    fn enter(&self);

    /// Releases the slot, which the thread holds.
    fn exit(&self);

    /// Releases the slot for a wait.
    fn wait_begin(&self, _kind: WaitKind) {
        self.exit();
    }

    /// Has a slot again after a wait.
    fn wait_end(&self, _kind: WaitKind) {
        self.enter();
    }
}

impl Limiter for Box<dyn Limiter> {
    #[inline]
    fn enter(&self) {
        (**self).enter();
    }

    #[inline]
    fn exit(&self) {
        (**self).exit();
    }

    fn wait_begin(&self, kind: WaitKind) {
        (**self).wait_begin(kind);
    }

    fn wait_end(&self, kind: WaitKind) {
        (**self).wait_end(kind);
    }
}

/// A common alternative to the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Peer {
    /// tokio's semaphore.
    Tokio,
    /// async-lock's semaphore.
    AsyncLock,
    /// A mutex and a condition variable.
    MutexCondvar,
    /// A count in memory and two system calls.
    Futex,
    /// No limit.
    None,
}

impl Peer {
    /// All of them.
    pub const ALL: [Peer; 5] = [Peer::Tokio, Peer::AsyncLock, Peer::MutexCondvar, Peer::Futex, Peer::None];

    /// The name as it is written on a command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Peer::Tokio => "tokio",
            Peer::AsyncLock => "async-lock",
            Peer::MutexCondvar => "mutex-condvar",
            Peer::Futex => "futex",
            Peer::None => "none",
        }
    }
}

/// A variant in the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Our scheduler under a policy.
    Policy(Policy),
    /// Our scheduler under its default policy, with an adaptive limit.
    Auto,
    /// A policy that is kept for comparison.
    Specimen(Specimen),
    /// What a user would pick instead.
    Peer(Peer),
}

impl Variant {
    /// The variants with names of policies: the scheduler's, then the specimens.
    pub const POLICIES: [Variant; 9] = [
        Variant::Policy(Policy::None),
        Variant::Policy(Policy::Fifo),
        Variant::Policy(Policy::Flifo),
        Variant::Policy(Policy::Quantum),
        Variant::Specimen(Specimen::Lifo),
        Variant::Specimen(Specimen::Broadcast),
        Variant::Specimen(Specimen::Sleep),
        Variant::Specimen(Specimen::Lease),
        Variant::Specimen(Specimen::Summon),
    ];

    /// Returns the kind of variant, as in results.
    pub fn target(self) -> &'static str {
        match self {
            Variant::Policy(_) | Variant::Auto => "admission",
            Variant::Specimen(_) => "specimen",
            Variant::Peer(_) => "peer",
        }
    }

    /// The policy's name, the specimen's or the peer's.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Policy(policy) => policy.name(),
            Variant::Auto => "auto",
            Variant::Specimen(specimen) => specimen.name(),
            Variant::Peer(peer) => peer.name(),
        }
    }

    /// Whether the variant has a limit.
    pub fn is_limited(self) -> bool {
        !matches!(self, Variant::Policy(Policy::None) | Variant::Auto | Variant::Peer(Peer::None))
    }
}

/// Settings of our scheduler besides policy and limit; other variants have none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuning {
    /// [`Config::lock_waiters_max`].
    pub(crate) lock_waiters_max: u32,
    /// [`Config::quantum`].
    pub(crate) quantum: Duration,
    /// Without [`Config::stall_limit`], which admits more than the limit on purpose.
    pub(crate) is_strict: bool,
}

/// What all threads of a cell share.
#[derive(Clone)]
pub(crate) enum Gate {
    FlifoSession(Arc<Admission>),
    Tokio(Arc<tokio::sync::Semaphore>),
    AsyncLock(Arc<async_lock::Semaphore>),
    MutexCondvar(Arc<MutexCondvarGate>),
    Futex(Arc<FutexGate>),
    Specimen(Arc<dyn SpecimenGate>),
    Open,
}

impl Gate {
    /// A gate for at most `limit` threads; a variant without a limit ignores it.
    pub(crate) fn new(variant: Variant, limit: u32, tuning: Tuning) -> Result<Self, ConfigError> {
        let permits = limit as usize;
        let default = Config::default();
        let tuned = Config {
            lock_waiters_max: tuning.lock_waiters_max,
            quantum: tuning.quantum,
            stall_limit: default.stall_limit.filter(|_| !tuning.is_strict),
            ..default
        };
        Ok(match variant {
            Variant::Policy(policy) => {
                Gate::FlifoSession(Admission::new(Config { policy, thread_concurrency: limit, ..tuned })?)
            }
            Variant::Auto => Gate::FlifoSession(Admission::new(Config { auto: true, ..tuned })?),
            Variant::Specimen(specimen) => Gate::Specimen(specimen.gate(limit)),
            Variant::Peer(Peer::Tokio) => Gate::Tokio(Arc::new(tokio::sync::Semaphore::new(permits))),
            Variant::Peer(Peer::AsyncLock) => Gate::AsyncLock(Arc::new(async_lock::Semaphore::new(permits))),
            Variant::Peer(Peer::MutexCondvar) => Gate::MutexCondvar(Arc::new(MutexCondvarGate::new(limit))),
            Variant::Peer(Peer::Futex) => Gate::Futex(Arc::new(FutexGate::new(limit))),
            Variant::Peer(Peer::None) => Gate::Open,
        })
    }

    /// Returns our scheduler's limit now.
    pub(crate) fn limit(&self) -> Option<u32> {
        match self {
            Gate::FlifoSession(admission) => Some(admission.thread_concurrency()),
            _ => None,
        }
    }

    /// Returns what our scheduler counted; other variants count nothing.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        match self {
            Gate::FlifoSession(admission) => Some(admission.snapshot()),
            _ => None,
        }
    }
}

/// No limit: does nothing.
pub(crate) struct Unlimited;

impl Limiter for Unlimited {
    #[inline]
    fn enter(&self) {}

    #[inline]
    fn exit(&self) {}
}

#[cfg(test)]
mod tests;
