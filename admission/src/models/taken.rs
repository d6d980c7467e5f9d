//! Every interleaving of a session with another thread that takes its slot: a reclaimed one, a shared one, or a reserved one (loom).

use std::sync::Arc;
use std::time::Duration;

use loom::thread;

use super::interleavings::{config, enter_and_exit, explore, running, spawn};
use crate::{Admission, Config, Policy};

/// A session whose slot is published.
fn reclaims(policy: Policy, limit: u32) -> Config {
    Config { stall_limit: Some(Duration::from_secs(1)), ..config(policy, limit) }
}

/// Takes the slot of every session that has one, as the watchdog does after the stall limit.
fn reclaim(admission: &Admission) -> u32 {
    let taken = admission.metrics.reclaim(0, 0) + admission.metrics.reclaim(0, 0);
    (0..taken).for_each(|_| admission.release_for().call());
    taken
}

/// The session exits while its slot is reclaimed, beside another that comes.
#[test]
fn a_slot_that_is_reclaimed_against_its_sessions_exit() {
    for policy in [Policy::Fifo, Policy::Flifo, Policy::Quantum] {
        explore(2, reclaims(policy, 1), |admission| {
            let session = running(admission);
            // All sessions first: loom does not see that the registry's lock orders their making before the look at them.
            let next = spawn(admission, enter_and_exit);
            let watched = Arc::clone(admission);
            let watchdog = thread::spawn(move || reclaim(&watched));
            session.exit();
            watchdog.join().unwrap();
            next.join().unwrap();
        });
    }
}

/// The session exits and enters again: a stay that begins later is not reclaimed for an earlier one, nor is T too low.
#[test]
fn a_slot_that_is_reclaimed_against_its_sessions_next_entry() {
    explore(2, reclaims(Policy::Fifo, 1), |admission| {
        let session = running(admission);
        let watched = Arc::clone(admission);
        let watchdog = thread::spawn(move || reclaim(&watched));
        session.exit();
        session.enter().unwrap();
        let taken = watchdog.join().unwrap();
        assert!(taken <= 1);
        assert!(admission.gate.word().slots() <= 1);
        session.exit();
    });
}

/// The session's wait releases its slot while that is reclaimed.
#[test]
fn a_slot_that_is_reclaimed_against_a_wait() {
    explore(2, reclaims(Policy::Fifo, 1), |admission| {
        let session = running(admission);
        let watched = Arc::clone(admission);
        let watchdog = thread::spawn(move || reclaim(&watched));
        session.wait_begin(crate::WaitKind::Disk);
        session.wait_end(crate::WaitKind::Disk);
        session.exit();
        watchdog.join().unwrap();
    });
}

/// Another session of the thread runs on the slot and gives it back, while that is reclaimed from the one or the other.
#[test]
fn a_slot_that_is_reclaimed_against_sharing_it() {
    explore(2, reclaims(Policy::Fifo, 1), |admission| {
        let (host, guest) = (running(admission), admission.session());
        let watched = Arc::clone(admission);
        let watchdog = thread::spawn(move || reclaim(&watched));
        if guest.enter_on(&host.shared_slot()) {
            guest.exit_to(&host.shared_slot());
        }
        assert!(admission.gate.word().slots() <= 1);
        host.exit();
        watchdog.join().unwrap();
    });
}

#[cfg(feature = "reservation")]
mod reservation {
    use loom::future::block_on;

    use super::super::interleavings::queued;
    use super::*;
    use crate::Session;

    /// Long after anybody has left.
    const LATE_NS: u64 = u64::MAX;

    /// A session within its slice and another that queues, so that the slot is reserved when the first exits. The first does something while
    /// another thread acts; the other runs at last.
    fn beside(act: fn(&Admission), does: fn(&Session)) {
        let config = Config { reserve_slots: true, ..config(Policy::Quantum, 1) };
        explore(3, config, move |admission| {
            let session = running(admission);
            session.slice.begin_back_to_back(admission.metrics.now_ns());
            let mut other = admission.session();
            let entry = queued(other.enter_async());
            let acting = Arc::clone(admission);
            let actor = thread::spawn(move || act(&acting));
            does(&session);
            actor.join().unwrap();
            // The end of a session releases its reserved slot, so the other must not need it.
            block_on(entry).unwrap();
            assert_eq!(admission.gate.word().slots(), 1);
            other.exit();
            drop(session);
        });
    }

    fn switch_off(admission: &Admission) {
        admission.extra.reservation.set(false);
        admission.release_expired(0);
    }

    /// No slot is reserved any more once that is switched off, and nobody has to look again.
    #[test]
    fn a_slot_that_would_be_reserved_against_switching_it_off() {
        beside(switch_off, |session| session.exit());
    }

    /// One of the two has it, and T counts it once.
    #[test]
    fn a_reserved_slot_against_its_sessions_return() {
        beside(
            |admission| admission.release_expired(LATE_NS),
            |session| {
                session.exit();
                session.try_enter();
                session.exit_ending_slice();
            },
        );
    }

    /// The session leaves again and again, beside a watchdog that looks twice.
    #[test]
    fn a_reserved_slot_against_two_looks() {
        beside(
            |admission| {
                admission.release_expired(LATE_NS);
                switch_off(admission);
            },
            |session| {
                session.exit();
                if session.try_enter() {
                    session.exit();
                }
            },
        );
    }
}
