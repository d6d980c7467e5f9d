//! Slot reservation ([`crate::extra::reservation`]): slots that wait for their sessions.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use super::tasks::{admission_with, is_in, poll};
use super::{Ends, assert_drained};
use crate::{Admission, Class, Config, Enter, Policy, Session};

/// Longer than any test.
const QUANTUM: Duration = Duration::from_secs(3600);
const QUANTUM_NS: u64 = QUANTUM.as_nanos() as u64;
/// The shortest queue for one slot with which slots are reserved.
const MANY: usize = 8;

fn config() -> Config {
    Config {
        thread_concurrency: 1,
        quantum: QUANTUM,
        reserve_slots: true,
        stall_limit: None,
        ..Config::default()
    }
}

/// Entries that queue.
type Queue<'a> = Vec<Pin<Box<Enter<'a>>>>;

/// A session has the only slot, and is within its slice; `length` others queue.
fn before_a_queue(
    config: Config,
    length: usize,
    then: impl FnOnce(&Arc<Admission>, Session, &mut Queue<'_>),
) {
    let admission = admission_with(config);
    let session = admission.session();
    session.enter().unwrap();
    session.slice.begin_back_to_back(admission.metrics.now_ns());
    let mut sessions: Vec<_> = (0..length).map(|_| admission.session()).collect();
    let mut queue: Queue<'_> = sessions.iter_mut().map(|session| Box::pin(session.enter_async())).collect();
    queue.iter_mut().for_each(|entry| assert!(poll(entry.as_mut()).is_pending()));
    then(&admission, session, &mut queue);
    drop(queue);
    drop(sessions);
    assert_drained(&admission.snapshot());
}

/// As [`before_a_queue`]; and the session has left, and its slot waits for it.
fn while_reserved(then: impl FnOnce(&Arc<Admission>, Session, &mut Queue<'_>)) {
    before_a_queue(config(), MANY, |admission, session, queue| {
        session.exit();
        assert!(!session.is_running() && !is_in(queue[0].as_mut()));
        assert_eq!(admission.snapshot().running, 1, "its slot is out");
        then(admission, session, queue);
    });
}

#[test]
fn a_slot_waits_until_its_session_is_back() {
    while_reserved(|admission, session, queue| {
        for returns in 1..=3 {
            assert!(session.try_enter() && session.is_running());
            assert_eq!(admission.snapshot().reserved, returns);
            session.exit();
            session.exit();
            assert!(!is_in(queue[0].as_mut()));
        }
        session.enter_forced();
        assert_eq!(admission.snapshot().running, 1, "it needs no other");
        session.exit_ending_slice();
        assert!(is_in(queue[0].as_mut()));
    });
}

#[test]
fn a_task_takes_its_reserved_slot_back() {
    while_reserved(|admission, mut session, queue| {
        assert!(is_in(Box::pin(session.enter_async()).as_mut()));
        assert_eq!((admission.snapshot().reserved, admission.snapshot().running), (1, 1));
        session.exit_ending_slice();
        assert!(is_in(queue[0].as_mut()));
    });
}

/// The slot is the next waiter's, and its session holds nothing.
fn is_taken_by(act: impl FnOnce(&Arc<Admission>, &mut Session)) {
    while_reserved(|admission, mut session, queue| {
        act(admission, &mut session);
        assert!(is_in(queue[0].as_mut()) && !session.is_running());
        assert_eq!(admission.snapshot().running, 1);
        assert!(!session.try_enter());
    });
}

#[test]
fn a_slot_reserved_for_a_quantum_is_taken() {
    while_reserved(|admission, session, queue| {
        admission.release_expired(admission.metrics.now_ns());
        admission.step(Instant::now());
        assert!(!is_in(queue[0].as_mut()), "not before");
        assert!(session.try_enter());
        session.exit();
        admission.release_expired(0);
        assert!(!is_in(queue[0].as_mut()), "nor by a clock that is behind");
    });
    is_taken_by(|admission, _| admission.release_expired(admission.metrics.now_ns() + QUANTUM_NS));
    is_taken_by(|admission, _| admission.step(Instant::now() + QUANTUM));
    // Its slice may be longer, but it may never come back.
    is_taken_by(|admission, session| {
        assert!(session.try_enter());
        session.set_in_transaction(true);
        session.exit();
        admission.release_expired(admission.metrics.now_ns() + QUANTUM_NS);
    });
}

#[test]
fn a_reserved_slot_is_taken_when_reservation_ends() {
    is_taken_by(|admission, _| {
        admission.reconfigure(Config { reserve_slots: false, ..admission.config() }).unwrap()
    });
    is_taken_by(|admission, _| {
        admission.reconfigure(Config { policy: Policy::Fifo, ..admission.config() }).unwrap()
    });
}

#[test]
fn without_a_limit_no_slot_waits() {
    while_reserved(|admission, session, queue| {
        admission.set_thread_concurrency(0).unwrap();
        assert_eq!(admission.snapshot().running, 0, "the reserved slot is released");
        queue.iter_mut().for_each(|entry| assert!(is_in(entry.as_mut())));
        assert!(session.try_enter());
    });
}

#[test]
fn a_session_that_will_not_be_back_releases_its_reserved_slot() {
    is_taken_by(|_, session| session.exit_ending_slice());
    is_taken_by(|admission, session| *session = admission.session());
}

#[test]
fn a_reserved_slot_is_not_reclaimed() {
    let limit = Duration::from_millis(100);
    before_a_queue(Config { stall_limit: Some(limit), ..config() }, MANY, |admission, session, queue| {
        let now = Instant::now();
        admission.step(now);
        session.exit();
        // Nor is there a stall to break, before the session is back or its slice is over.
        for looks in 1..4 {
            admission.step(now + looks * limit / 4);
        }
        assert!(!is_in(queue[0].as_mut()) && session.try_enter());
        let snapshot = admission.snapshot();
        assert_eq!((snapshot.slots_reclaimed, snapshot.stalls_broken, snapshot.reserved), (0, 0, 1));
        session.exit_ending_slice();
    });
}

/// A session that runs on without a slot has none to reserve.
#[test]
fn a_reclaimed_slot_is_not_reserved() {
    before_a_queue(
        Config { stall_limit: Some(QUANTUM), ..config() },
        MANY + 1,
        |admission, session, queue| {
            let now_ns = admission.metrics.now_ns();
            assert_eq!(admission.metrics.reclaim(0, now_ns), 0);
            assert_eq!(admission.metrics.reclaim(0, now_ns), 1);
            admission.release_for().call();
            assert!(is_in(queue[0].as_mut()));
            session.exit();
            assert_eq!(admission.snapshot().running, 1);
            assert!(!session.try_enter());
        },
    );
}

/// With one slot, an exit within a slice hands off where no slot is reserved.
fn is_handed_off(config: Config, length: usize, before: impl FnOnce(&Session)) {
    before_a_queue(config, length, |admission, session, queue| {
        before(&session);
        session.exit();
        assert!(is_in(queue[0].as_mut()));
        assert_eq!(admission.snapshot().reserved, 0);
    });
}

#[test]
fn a_slot_is_reserved_only_within_a_slice() {
    is_handed_off(config(), MANY, |session| session.slice.forfeit());
    is_handed_off(config(), MANY, Session::end_slice);
}

#[test]
fn a_slot_is_reserved_only_where_the_configuration_says_so() {
    is_handed_off(Config { reserve_slots: false, ..config() }, MANY, |_| {});
    is_handed_off(Config { policy: Policy::Flifo, ..config() }, MANY, |_| {});
    is_handed_off(Config { policy: Policy::Fifo, ..config() }, MANY, |_| {});
    assert!(!Config::default().reserve_slots, "off by default");
}

#[test]
fn a_slot_is_reserved_only_while_eight_queue_for_each() {
    is_handed_off(config(), MANY - 1, |_| {});
    is_handed_off(Config { thread_concurrency: 1, ..config() }, 1, |_| {});
    let admission = admission_with(Config { thread_concurrency: 2, ..config() });
    for (length, is_reserved) in [(2 * MANY - 1, false), (2 * MANY, true)] {
        let running: [Session; 2] = std::array::from_fn(|_| admission.session());
        running.iter().for_each(|session| session.enter().unwrap());
        running[0].slice.begin_back_to_back(admission.metrics.now_ns());
        let mut sessions: Vec<_> = (0..length).map(|_| admission.session()).collect();
        let mut queue: Queue<'_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
        queue.iter_mut().for_each(|entry| assert!(poll(entry.as_mut()).is_pending()));
        running[0].exit();
        assert_eq!(running[0].state.get() == crate::session::State::Reserved, is_reserved, "{length}");
        drop(queue);
    }
    assert_drained(&admission.snapshot());
}

#[test]
fn a_lock_holder_that_queues_takes_the_slot_of_a_session_without_locks() {
    for class in [Class::Normal, Class::First] {
        before_a_queue(config(), MANY, |admission, session, _| {
            let mut holder = admission.session();
            holder.set_class(Class::First);
            let mut entry = Box::pin(holder.enter_async());
            assert!(!is_in(entry.as_mut()));
            session.set_class(class);
            session.exit();
            assert_eq!(is_in(entry.as_mut()), class == Class::Normal);
        });
    }
}

/// Nobody may run whose exit would hand off to it.
#[test]
fn a_lock_holder_that_queues_later_takes_a_reserved_slot_at_the_next_step() {
    while_reserved(|admission, session, _| {
        let mut holder = admission.session();
        holder.set_class(Class::First);
        let mut entry = Box::pin(holder.enter_async());
        assert!(!is_in(entry.as_mut()));
        admission.step(Instant::now());
        assert!(is_in(entry.as_mut()));
        assert!(!session.try_enter());
    });
}

/// The first slice of a session within a transaction: nothing else says that it will be back.
#[test]
fn a_session_that_begins_a_transaction_is_expected_back() {
    let admission = admission_with(config());
    for (in_transaction, is_reserved) in [(false, false), (true, true)] {
        let (first, mut session) = (admission.session(), admission.session());
        first.enter().unwrap();
        let mut entry = Box::pin(session.enter_async());
        assert!(!is_in(entry.as_mut()));
        let mut sessions: Vec<_> = (0..MANY).map(|_| admission.session()).collect();
        let mut queue: Queue<'_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
        queue.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
        first.exit();
        assert!(is_in(entry.as_mut()));
        drop(entry);
        session.set_in_transaction(in_transaction);
        session.exit();
        assert_eq!(!is_in(queue[0].as_mut()), is_reserved);
        if is_reserved {
            session.exit_ending_slice();
            assert!(is_in(queue[0].as_mut()));
        }
    }
    assert_drained(&admission.snapshot());
}

/// A slot is taken at the very moment at which its session comes back, or not.
#[test]
fn taking_at_any_moment_leaves_nothing_behind() {
    let rounds = if cfg!(miri) { 20 } else { 3000 };
    let admission = admission_with(Config { thread_concurrency: 2, ..config() });
    let (over, begin) = (AtomicBool::new(false), Barrier::new(25));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..24)
            .map(|_| admission.session())
            .map(|session| {
                let begin = &begin;
                scope.spawn(move || {
                    begin.wait();
                    for round in 0..rounds {
                        session.enter().unwrap();
                        session.slice.begin_back_to_back(session.admission().metrics.now_ns());
                        thread::yield_now();
                        session.exit();
                        session.check();
                        thread::yield_now();
                        if round % 16 == 7 {
                            session.exit_ending_slice();
                        }
                    }
                })
            })
            .collect();
        let _ends = Ends(&over);
        let (over, begin, taker) = (&over, &begin, &admission);
        scope.spawn(move || {
            begin.wait();
            for look in 0u64.. {
                if look % 16 < 2 {
                    let reserve_slots = look.is_multiple_of(2);
                    taker.reconfigure(Config { reserve_slots, ..taker.config() }).unwrap();
                    taker.reconfigure(Config { reserve_slots: true, ..taker.config() }).unwrap();
                }
                // Long after all have left, or before.
                taker.release_expired(if look.is_multiple_of(2) { u64::MAX } else { 0 });
                if over.load(Ordering::Relaxed) {
                    break;
                }
                thread::sleep(Duration::from_micros(look % 64));
            }
        });
        let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        assert!(joined.iter().all(Result::is_ok));
    });
    assert_drained(&admission.snapshot());
    assert!(cfg!(miri) || admission.snapshot().reserved > 0);
}
