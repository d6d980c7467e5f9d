//! Every interleaving of a session whose place is lent, of who lends it, and of who gets it (loom).

use std::sync::Arc;

use loom::thread;

use super::interleavings::{config, enter_and_exit, explore, inside, spawn};
use crate::{Admission, Policy};

/// A session that leaves while its place is lent, and taken back, beside another that comes.
fn is_lent(admission: &Arc<Admission>) {
    let sleeper = inside(admission);
    sleeper.set_lendable(true);
    let lender = sleeper.canceller();
    let watcher = thread::spawn(move || {
        if lender.lend_place() {
            lender.take_back_place();
        }
    });
    let next = spawn(admission, enter_and_exit);
    sleeper.exit();
    [watcher, next].into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_place_that_is_lent_against_its_sessions_exit() {
    for policy in [Policy::Fifo, Policy::Flifo, Policy::Quantum] {
        explore(2, config(policy, 1), is_lent);
    }
}

/// It comes in again and again, and no later place of its is lent twice.
#[test]
fn a_place_that_is_lent_against_its_sessions_next_entry() {
    explore(2, config(Policy::Fifo, 1), |admission| {
        let sleeper = inside(admission);
        sleeper.set_lendable(true);
        let lender = sleeper.canceller();
        let watcher = thread::spawn(move || lender.lend_place());
        sleeper.exit();
        sleeper.enter().unwrap();
        let is_lent = watcher.join().unwrap() && admission.core.state().places() == 0;
        let next = spawn(admission, |session| session.try_enter().then(|| session.exit()).is_some());
        assert_eq!(next.join().unwrap(), is_lent);
        sleeper.exit();
    });
}
