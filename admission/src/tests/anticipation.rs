//! Places that wait for their sessions.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use super::assert_drained;
use super::tasks::{admission_with, is_in, poll};
use crate::anticipation::{QUEUED_NS, SHORT_NS};
use crate::{Admission, AutoLimit, Class, Config, Enter, Policy, Session};

/// Longer than any test.
const QUANTUM: Duration = Duration::from_secs(3600);
/// So many queue that a place may wait.
const MANY: usize = 8;

fn config() -> Config {
    Config {
        thread_concurrency: 1,
        quantum: QUANTUM,
        anticipate: true,
        stall_after: None,
        ..Config::default()
    }
}

/// The entries of those who queue.
type Queue<'a> = Vec<Pin<Box<Enter<'a>>>>;

/// One session has the only place, and is in its turn; so many queue, and places may wait.
fn before_a_queue(of: usize, then: impl FnOnce(&Arc<Admission>, Session, &mut Queue<'_>)) {
    let admission = admission_with(config());
    let session = admission.session();
    session.enter().unwrap();
    session.turn.loops_since(admission.metrics.now_ns());
    let mut sessions: Vec<_> = (0..of).map(|_| admission.session()).collect();
    let mut queue: Queue<'_> = sessions.iter_mut().map(|session| Box::pin(session.enter_async())).collect();
    queue.iter_mut().for_each(|entry| assert!(poll(entry.as_mut()).is_pending()));
    admission.anticipate(|| true, admission.metrics.now_ns());
    then(&admission, session, &mut queue);
    drop(queue);
    drop(sessions);
    assert_drained(&admission.snapshot());
}

/// As [`before_a_queue`]; and the session has left, and its place waits for it.
fn one_is_away(then: impl FnOnce(&Arc<Admission>, Session, &mut Queue<'_>)) {
    before_a_queue(MANY, |admission, session, queue| {
        session.exit();
        assert!(!session.is_inside() && !is_in(queue[0].as_mut()));
        assert_eq!(admission.snapshot().inside, 1, "its place is out");
        then(admission, session, queue);
    });
}

#[test]
fn a_place_waits_until_its_session_is_back() {
    one_is_away(|admission, session, queue| {
        for returns in 1..=3 {
            assert!(session.try_enter() && session.is_inside());
            assert_eq!(admission.snapshot().anticipated, returns);
            session.exit();
            session.exit();
            assert!(!is_in(queue[0].as_mut()));
        }
        session.enter_past_limit();
        assert_eq!(admission.snapshot().inside, 1, "it needs no other");
        session.exit_for_good();
        assert!(is_in(queue[0].as_mut()));
    });
}

/// Whoever is next has the place, and its session holds nothing.
fn is_taken_by(act: impl FnOnce(&Arc<Admission>, &mut Session)) {
    one_is_away(|admission, mut session, queue| {
        act(admission, &mut session);
        assert!(is_in(queue[0].as_mut()) && !session.is_inside());
        assert_eq!(admission.snapshot().inside, 1);
        assert!(!session.try_enter());
    });
}

#[test]
fn a_place_that_has_waited_for_a_quantum_is_taken() {
    one_is_away(|admission, session, queue| {
        admission.anticipate(|| true, admission.metrics.now_ns());
        assert!(!is_in(queue[0].as_mut()), "not before");
        assert!(session.try_enter());
        session.exit();
        admission.anticipate(|| true, 0);
        assert!(!is_in(queue[0].as_mut()), "nor by a clock that is behind");
    });
    let quantum_ns = QUANTUM.as_nanos() as u64;
    is_taken_by(|admission, _| admission.anticipate(|| true, admission.metrics.now_ns() + quantum_ns));
    // Its turn may be longer, but it may never come back.
    is_taken_by(|admission, session| {
        assert!(session.try_enter());
        session.set_in_transaction(true);
        session.exit();
        admission.anticipate(|| true, admission.metrics.now_ns() + quantum_ns);
    });
}

#[test]
fn a_place_is_taken_when_places_may_wait_no_more() {
    is_taken_by(|admission, _| admission.anticipate(|| false, 0));
    is_taken_by(|admission, _| {
        admission.reconfigure(Config { anticipate: false, ..admission.config() }).unwrap()
    });
    is_taken_by(|admission, _| {
        admission.reconfigure(Config { policy: Policy::Fifo, ..admission.config() }).unwrap()
    });
    is_taken_by(|admission, _| {
        let auto = Some(AutoLimit { floor: 1, ceiling: 1 });
        admission.reconfigure(Config { auto, ..admission.config() }).unwrap()
    });
}

#[test]
fn who_will_not_be_back_leaves_its_place_to_the_next() {
    is_taken_by(|_, session| session.exit_for_good());
    is_taken_by(|_, session| session.set_lendable(true));
    is_taken_by(|admission, session| *session = admission.session());
}

#[test]
fn a_place_that_waits_is_not_lent() {
    before_a_queue(MANY, |_, session, queue| {
        session.set_lendable(true);
        session.exit();
        assert!(!session.canceller().lend_place());
        assert!(!is_in(queue[0].as_mut()) && session.try_enter());
        assert!(session.canceller().lend_place());
        assert!(is_in(queue[0].as_mut()), "now it is inside, and is");
        session.exit_for_good();
    });
}

/// What the exit of one in its turn does where nothing is anticipated, with one place: it goes to the next.
fn is_handed_on(before: impl FnOnce(&Arc<Admission>, &Session)) {
    before_a_queue(MANY, |admission, session, queue| {
        before(admission, &session);
        session.exit();
        assert!(is_in(queue[0].as_mut()));
        assert_eq!(admission.snapshot().anticipated, 0);
    });
}

#[test]
fn only_in_its_turn_a_place_waits() {
    is_handed_on(|admission, _| admission.anticipate(|| false, 0));
    is_handed_on(|_, session| session.turn.forfeit());
    is_handed_on(|_, session| session.end_turn());
}

#[test]
fn a_holder_of_locks_that_queues_has_the_place_of_one_that_is_none() {
    for class in [Class::Normal, Class::First] {
        before_a_queue(MANY, |admission, session, _| {
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

/// Whoever comes back finds its place taken at the very moment, or not.
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
                        session.turn.loops_since(session.admission().metrics.now_ns());
                        thread::yield_now();
                        session.exit();
                        thread::yield_now();
                        if round % 16 == 7 {
                            session.exit_for_good();
                        }
                    }
                })
            })
            .collect();
        let (over, begin, taker) = (&over, &begin, &admission);
        scope.spawn(move || {
            begin.wait();
            for look in 0u64.. {
                // Long after all have left, or at once, or none.
                taker.anticipate(
                    || !look.is_multiple_of(3),
                    if look.is_multiple_of(2) { u64::MAX } else { 0 },
                );
                if over.load(Ordering::Relaxed) {
                    break;
                }
                thread::sleep(Duration::from_micros(look % 64));
            }
        });
        let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(joined.iter().all(Result::is_ok));
    });
    assert_drained(&admission.snapshot());
    assert!(cfg!(miri) || admission.snapshot().anticipated > 0);
}

/// As its watchdog would, without one.
#[test]
fn steps_let_places_wait_where_the_configuration_does() {
    let waits = |config: Config| {
        let admission = admission_with(config);
        let session = admission.session();
        session.enter().unwrap();
        let mut sessions: Vec<_> = (0..MANY).map(|_| admission.session()).collect();
        let mut queue: Queue<'_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
        queue.iter_mut().for_each(|entry| _ = poll(entry.as_mut()));
        let now = Instant::now();
        admission.step(now);
        assert!(!admission.anticipation.is_on(), "it may be a moment's");
        admission.step(now + Duration::from_nanos(QUEUED_NS));
        session.turn.loops_since(admission.metrics.now_ns());
        session.exit();
        let waits = !is_in(queue[0].as_mut());
        session.exit_for_good();
        waits
    };
    assert!(waits(config()));
    assert!(!waits(Config { anticipate: false, ..config() }));
    assert!(!waits(Config { policy: Policy::Flifo, ..config() }));
    assert!(!waits(Config { auto: Some(AutoLimit { floor: 1, ceiling: 1 }), ..config() }));
}

#[test]
fn where_the_queue_is_short_again_no_place_waits() {
    before_a_queue(MANY, |admission, session, queue| {
        let now = Instant::now();
        admission.step(now);
        admission.step(now + Duration::from_nanos(QUEUED_NS));
        assert!(admission.anticipation.is_on());
        session.exit();
        queue.pop();
        let is_short = now + Duration::from_nanos(QUEUED_NS);
        admission.step(is_short);
        assert!(!is_in(queue[0].as_mut()), "it may be a moment's");
        admission.step(is_short + Duration::from_nanos(SHORT_NS));
        assert!(is_in(queue[0].as_mut()) && !admission.anticipation.is_on());
    });
}

/// Nobody may be inside whose exit would hand on to it.
#[test]
fn a_holder_of_locks_need_not_wait_until_the_turn_is_over() {
    one_is_away(|admission, session, _| {
        let mut holder = admission.session();
        holder.set_class(Class::First);
        let mut entry = Box::pin(holder.enter_async());
        assert!(!is_in(entry.as_mut()));
        let left_ns = session.turn.left_ns();
        admission.anticipate(|| true, left_ns + 999_999);
        assert!(!is_in(entry.as_mut()), "it is about to be back");
        admission.anticipate(|| true, left_ns + 1_000_000);
        assert!(is_in(entry.as_mut()));
    });
}

/// It compares: with the same work done both ways places wait some of the time.
#[test]
fn steps_try_both_ways() {
    before_a_queue(MANY, |admission, _session, _queue| {
        let mut now = Instant::now();
        let quantum = Duration::from_millis(5);
        admission.reconfigure(Config { quantum, ..admission.config() }).unwrap();
        let worker = admission.session();
        let mut waits = || {
            for _ in 0..300 {
                worker.enter_past_limit();
                worker.exit();
            }
            now += Duration::from_millis(10);
            admission.step(now);
            admission.anticipation.is_on()
        };
        // A step that is kept from its processor is followed by a pause.
        for wanted in [true, false, true] {
            assert!((0..2000).any(|_| waits() == wanted), "never {wanted}");
        }
    });
}
