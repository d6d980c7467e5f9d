//! How many statements make a quantum.
//!
//! [`crate::Policy::Quantum`] gives each session the same *time* inside per turn, but reads no clock for it:
//! the quantum is divided by the mean time inside of the places that are timed anyway.

use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A new time counts one part in so many.
const WEIGHT: u64 = 16;
/// A time so many times the mean counts as that: a thread that lost its processor for a while says little
/// about the work.
const OUTLIER: u64 = 16;
/// Until the first time is measured.
const STATEMENTS_AT_FIRST: u32 = 4;
/// Statements in a quantum at most.
const STATEMENTS_MAX: u64 = 1 << 16;

pub(crate) struct QuantumStatements {
    quantum_ns: AtomicU64,
    /// Moving mean of the time inside, ns; 0: not known. Concurrent updates may overwrite each other, and
    /// lose a sample.
    mean_ns: AtomicU64,
    /// What sessions read: `quantum_ns / mean_ns`.
    statements: AtomicU32,
}

impl QuantumStatements {
    pub(crate) fn new(quantum: Duration) -> Self {
        let this = QuantumStatements {
            quantum_ns: AtomicU64::new(0),
            mean_ns: AtomicU64::new(0),
            statements: AtomicU32::new(STATEMENTS_AT_FIRST),
        };
        this.set(quantum);
        this
    }

    pub(crate) fn set(&self, quantum: Duration) {
        let ns = quantum.as_nanos().try_into().unwrap_or(u64::MAX);
        self.quantum_ns.store(ns, Ordering::Relaxed);
    }

    /// Statements a session makes in its quantum.
    #[inline]
    pub(crate) fn statements(&self) -> u32 {
        self.statements.load(Ordering::Relaxed)
    }

    /// A place was held for so long.
    pub(crate) fn inside(&self, ns: u64) {
        let mean_ns = self.mean_ns.load(Ordering::Relaxed);
        let new_ns = match mean_ns {
            0 => ns.max(1),
            _ => {
                let ns = ns.clamp(mean_ns / OUTLIER, mean_ns.saturating_mul(OUTLIER));
                ((mean_ns * (WEIGHT - 1) + ns) / WEIGHT).max(1)
            }
        };
        self.mean_ns.store(new_ns, Ordering::Relaxed);
        let statements = (self.quantum_ns.load(Ordering::Relaxed) / new_ns).clamp(1, STATEMENTS_MAX);
        self.statements.store(statements as u32, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_quantum_has_as_many_statements_as_fit() {
        let quantum = QuantumStatements::new(Duration::from_micros(100));
        assert_eq!(quantum.statements(), STATEMENTS_AT_FIRST);
        (0..200).for_each(|_| quantum.inside(20_000));
        assert_eq!(quantum.statements(), 5);
        quantum.inside(1_000_000_000);
        assert!(quantum.statements() >= 2, "one that lost its processor says little");
        (0..500).for_each(|_| quantum.inside(3_000_000));
        assert_eq!(quantum.statements(), 1);
        (0..2000).for_each(|_| quantum.inside(0));
        assert_eq!(quantum.statements(), STATEMENTS_MAX as u32);
    }
}
