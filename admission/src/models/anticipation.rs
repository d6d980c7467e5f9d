//! Every interleaving of a session whose place waits for it, of who takes it, and of the one that queues (loom).

use std::sync::Arc;

use loom::future::block_on;
use loom::thread;

use super::interleavings::{config, explore, inside, queued};
use crate::{Admission, Canceller, Config, Policy, Session};

/// Long after anybody has left.
const LATE_NS: u64 = u64::MAX;

/// A session in its turn, another that queues, and places may wait. The one does something while another thread acts, and is gone then; the
/// other has the place at last.
fn beside(act: fn(Arc<Admission>, Canceller), does: fn(&Session)) {
    let config = Config { anticipate: true, ..config(Policy::Quantum, 1) };
    explore(3, config, move |admission| {
        let session = inside(admission);
        session.set_lendable(true);
        session.turn.loops_since(admission.metrics.now_ns());
        let mut other = admission.session();
        let entry = queued(other.enter_async());
        admission.anticipate(|| true, 0);
        let (acting, canceller) = (Arc::clone(admission), session.canceller());
        let actor = thread::spawn(move || act(acting, canceller));
        does(&session);
        actor.join().unwrap();
        block_on(entry).unwrap();
        assert_eq!(admission.core.state().places(), 1);
        other.exit();
        drop(session);
    });
}

/// No place waits any more when that is said, and nobody has to look again.
#[test]
fn a_place_that_would_wait_against_the_end_of_waiting() {
    beside(|admission, _| admission.anticipate(|| false, 0), |session| session.exit());
}

/// One of the two has it, and T counts it once.
#[test]
fn a_place_that_waits_against_its_sessions_return() {
    beside(
        |admission, _| admission.anticipate(|| true, LATE_NS),
        |session| {
            session.exit();
            session.try_enter();
            session.exit_for_good();
        },
    );
}

/// It leaves again and again, beside one that goes through the list twice: it is not left out.
#[test]
fn a_place_that_waits_against_the_list() {
    beside(
        |admission, _| {
            admission.anticipate(|| true, LATE_NS);
            admission.anticipate(|| false, LATE_NS);
        },
        |session| {
            session.exit();
            if session.try_enter() {
                session.exit();
            }
        },
    );
}

/// Its place is lent while it leaves, and taken back when it may be away.
#[test]
fn a_place_that_waits_against_who_lends_it() {
    beside(
        |admission, lender| {
            if lender.lend_place() {
                lender.take_back_place();
            }
            admission.anticipate(|| false, 0);
        },
        |session| session.exit(),
    );
}
