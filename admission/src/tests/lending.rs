//! Places of threads that sleep inside, lent by who saw them asleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{admission, assert_drained};
use crate::{Admission, Canceller, Policy, Session, WaitKind};

/// Ends the loops of a test, also of one that fails: its threads are waited for.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn lendable(of: &Arc<Admission>) -> (Session, Canceller) {
    let session = of.session();
    session.set_lendable(true);
    let lender = session.canceller();
    (session, lender)
}

#[test]
fn the_place_of_a_sleeper_is_the_nexts_until_it_runs_again() {
    let scheduler = admission(Policy::Quantum, 1, 1);
    let (sleeper, lender) = lendable(&scheduler);
    let next = scheduler.session();
    assert!(!lender.lend_place(), "it holds none");
    sleeper.enter().unwrap();
    assert!(!next.try_enter());
    assert!(lender.lend_place() && !lender.lend_place());
    assert!(next.try_enter(), "the sleeper's place is free");
    assert!(lender.take_back_place() && !lender.take_back_place());
    assert_eq!(scheduler.snapshot().inside, 2, "past the limit");
    next.exit();
    assert!(!next.try_enter(), "that repaid the overshoot");
    sleeper.exit();
    assert!(!lender.lend_place(), "it is outside");
    assert!(next.try_enter());
}

#[test]
fn who_leaves_while_its_place_is_lent_leaves_the_place_of_the_one_that_has_it_alone() {
    let scheduler = admission(Policy::Fifo, 1, 1);
    let (sleeper, lender) = lendable(&scheduler);
    let (next, third) = (scheduler.session(), scheduler.session());
    sleeper.enter().unwrap();
    assert!(lender.lend_place() && next.try_enter());
    sleeper.exit();
    assert!(!third.try_enter(), "the next still has the only place");
    next.exit();
    assert_eq!(scheduler.snapshot().inside, 0);
}

#[test]
fn only_places_that_are_counted_and_lendable_are_lent() {
    let scheduler = admission(Policy::Flifo, 0, 1);
    let (session, lender) = lendable(&scheduler);
    session.enter().unwrap();
    assert!(!lender.lend_place(), "without a limit none is counted");
    session.exit();
    scheduler.set_thread_concurrency(1).unwrap();
    session.enter().unwrap();
    session.set_lendable(false);
    assert!(!lender.lend_place());
    session.set_lendable(true);
    assert!(lender.lend_place());
    session.set_lendable(false);
    assert_eq!(scheduler.snapshot().inside, 1, "it has its place back");
    drop(session);
    assert!(!lender.lend_place(), "it is gone");
    assert_eq!(scheduler.snapshot().inside, 0);
}

#[test]
fn lending_at_any_moment_leaves_nothing_behind() {
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    for policy in
        [Policy::Fifo, Policy::Flifo, Policy::Quantum, Policy::Lease, Policy::Summon, Policy::Broadcast]
    {
        let scheduler = admission(policy, 2, 3);
        let sessions: Vec<_> = (0..6).map(|_| lendable(&scheduler)).collect();
        let (sessions, lenders): (Vec<_>, Vec<_>) = sessions.into_iter().unzip();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let workers: Vec<_> = sessions
                .into_iter()
                .map(|session| {
                    scope.spawn(move || {
                        for round in 0..rounds {
                            session.enter().unwrap();
                            if round % 7 == 0 {
                                session.wait_begin(WaitKind::User);
                                session.wait_end(WaitKind::User);
                            }
                            if round % 5 == 0 {
                                thread::yield_now();
                            }
                            session.exit();
                        }
                    })
                })
                .collect();
            let (over, lenders) = (&over, &lenders);
            let _over = Ends(over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    for lender in lenders {
                        if lender.lend_place() {
                            thread::yield_now();
                            lender.take_back_place();
                        }
                    }
                }
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        assert_drained(&scheduler.snapshot());
    }
}

#[test]
fn more_are_let_in_past_the_limit_if_nobody_is_on_the_way() {
    let scheduler = admission(Policy::Quantum, 1, 1);
    let (sleeper, _) = lendable(&scheduler);
    sleeper.enter().unwrap();
    assert_eq!(scheduler.admit_past_limit(3), 0, "nobody waits");
    let over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let ends = Ends(over);
        for _ in 0..3 {
            let session = scheduler.session();
            scope.spawn(move || {
                session.enter().unwrap();
                while !over.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
            });
        }
        super::until_queued(&scheduler, 3);
        assert_eq!(scheduler.admit_past_limit(2), 2);
        while scheduler.snapshot().pending != 0 {
            thread::yield_now();
        }
        assert_eq!((scheduler.snapshot().inside, scheduler.snapshot().queued), (3, 1));
        drop(ends);
        sleeper.exit();
    });
    assert_drained(&scheduler.snapshot());
}
