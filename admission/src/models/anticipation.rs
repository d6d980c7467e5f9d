//! Every interleaving of a session whose place waits for it, of who takes it, and of who gets it (loom).

use std::sync::Arc;

use loom::thread;

use super::interleavings::{config, enter_and_exit, explore, inside, spawn};
use crate::{Admission, Config, Policy, Session};

/// Long after anybody has left.
const LATE_NS: u64 = u64::MAX;

fn anticipating() -> Config {
    Config { anticipate: true, ..config(Policy::Quantum, 1) }
}

/// A session in its turn, where places may wait.
fn in_turn(admission: &Arc<Admission>) -> Session {
    let session = inside(admission);
    session.turn.loops_since(admission.metrics.now_ns());
    admission.anticipate(|| true, 0);
    session
}

/// It leaves, beside another that comes, and one that says that places may wait no more: none does then.
#[test]
fn a_place_that_would_wait_against_the_end_of_waiting() {
    explore(2, anticipating(), |admission| {
        let session = in_turn(admission);
        let taker = Arc::clone(admission);
        let taker = thread::spawn(move || taker.anticipate(|| false, 0));
        let next = spawn(admission, enter_and_exit);
        session.exit();
        [taker, next].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(admission.snapshot().inside, 0);
    });
}

/// It comes back while its place is taken: one of the two has it.
#[test]
fn a_place_that_waits_against_its_sessions_return() {
    explore(2, anticipating(), |admission| {
        let session = in_turn(admission);
        let next = spawn(admission, enter_and_exit);
        let taker = Arc::clone(admission);
        let taker = thread::spawn(move || taker.anticipate(|| true, LATE_NS));
        session.exit();
        session.enter().unwrap();
        session.exit_for_good();
        [taker, next].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Its place is lent while it leaves, and taken back when it may be away.
#[test]
fn a_place_that_waits_against_who_lends_it() {
    explore(2, anticipating(), |admission| {
        let session = admission.session();
        session.set_lendable(true);
        session.enter().unwrap();
        session.turn.loops_since(admission.metrics.now_ns());
        admission.anticipate(|| true, 0);
        let lender = session.canceller();
        let lender = thread::spawn(move || {
            if lender.lend_place() {
                lender.take_back_place();
            }
        });
        let next = spawn(admission, enter_and_exit);
        session.exit();
        admission.anticipate(|| false, 0);
        [lender, next].into_iter().for_each(|thread| thread.join().unwrap());
        drop(session);
    });
}

/// It leaves again and again, beside one that goes through the list twice: none is left out of it.
#[test]
fn a_place_that_waits_against_the_list() {
    explore(2, anticipating(), |admission| {
        let session = in_turn(admission);
        let next = spawn(admission, enter_and_exit);
        let taker = Arc::clone(admission);
        let taker = thread::spawn(move || {
            taker.anticipate(|| true, LATE_NS);
            taker.anticipate(|| false, LATE_NS);
        });
        session.exit();
        if session.try_enter() {
            session.exit();
        }
        [taker, next].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(admission.snapshot().inside, 0);
        drop(session);
    });
}
