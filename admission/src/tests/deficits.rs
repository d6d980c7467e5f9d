//! What a session owes others for long turns, and who passes it for that, under [`Policy::Quantum`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tasks::{admission_with, inside, is_in};
use crate::cpu_time::CpuTime;
use crate::{Admission, Class, Config, Policy, Refused, Session, WaitKind};

const MS: u64 = 1_000_000;

/// Works for so long, of the processor's time.
fn work(ns: u64) {
    let began = CpuTime::now().unwrap();
    while began.elapsed_ns().unwrap() < ns {}
}

/// A scheduler that times turns, with a place for one.
fn scheduler() -> Arc<Admission> {
    let scheduler = super::admission(Policy::Quantum, 1, 1);
    scheduler.reconfigure(Config { quantum: Duration::from_millis(1), ..scheduler.config() }).unwrap();
    scheduler
}

/// The queue learns that a millisecond is usual.
fn learns(scheduler: &Arc<Admission>) {
    for _ in 0..10 {
        let mut other = scheduler.session();
        other.turn.deficit.took(MS);
        assert!(!is_in(Box::pin(other.enter_async()).as_mut()));
    }
}

fn owed_ns(session: &Session) -> u64 {
    session.turn.joins(session.admission().metrics.now_ns(), MS).1
}

/// The queue is told what a turn took of the processor: not what its thread slept, and nothing of a time when nobody waited.
#[test]
#[cfg_attr(miri, ignore)] // No processor time passes there.
fn a_turn_takes_what_its_thread_works_while_others_wait() {
    const WORK_NS: u64 = 20 * MS;
    let scheduler = scheduler();
    let holder = scheduler.session();
    for (works, others_wait) in [(true, true), (false, true), (true, false)] {
        holder.enter().unwrap();
        let (session, other) = (scheduler.session(), scheduler.session());
        std::thread::scope(|scope| {
            let took = scope.spawn(move || {
                session.enter().unwrap();
                if !others_wait {
                    session.exit();
                    session.enter().unwrap();
                }
                work(if works { WORK_NS } else { 0 });
                std::thread::sleep(Duration::from_millis(3));
                session.exit_ending_slice();
                session.turn.deficit.turn_ns()
            });
            super::until_queued(&scheduler, 1);
            if others_wait {
                scope.spawn(move || other.enter().unwrap());
                super::until_queued(&scheduler, 2);
            }
            holder.exit_ending_slice();
            let took = took.join().unwrap();
            assert_eq!(took >= WORK_NS, works && others_wait, "{took} ns");
            assert_eq!(took == 0, !others_wait);
        });
    }
}

#[test]
#[cfg_attr(miri, ignore)] // No processor time passes there.
fn who_worked_long_lets_the_next_pass_unless_it_was_away_as_long() {
    for away_ms in [0, 100] {
        let scheduler = scheduler();
        let (holder, [mut first, mut works, mut next]) =
            (inside(&scheduler), std::array::from_fn(|_| scheduler.session()));
        let mut first_enters = Box::pin(first.enter_async());
        assert!(!is_in(first_enters.as_mut()));
        learns(&scheduler);
        works.enter_forced();
        work(30 * MS);
        works.exit_ending_slice();
        std::thread::sleep(Duration::from_millis(away_ms));
        let (mut comes_back, mut next) = (Box::pin(works.enter_async()), Box::pin(next.enter_async()));
        assert!(!is_in(comes_back.as_mut()) && !is_in(next.as_mut()));
        assert_eq!(scheduler.snapshot().queued_with_deficit, u64::from(away_ms == 0));
        holder.exit_ending_slice();
        assert!(is_in(first_enters.as_mut()));
        drop(first_enters);
        first.exit_ending_slice();
        assert_eq!((is_in(next.as_mut()), is_in(comes_back.as_mut())), (away_ms == 0, away_ms != 0));
    }
}

/// What was forgiven does not come back, and short turns are no long one.
#[test]
#[cfg_attr(miri, ignore)] // No processor time passes there.
fn an_absence_is_taken_off_what_newcomers_owe() {
    let scheduler = super::admission(Policy::Quantum, 2, 1);
    let quantum = Duration::from_millis(1);
    scheduler.reconfigure(Config { quantum, overtakes_max: 0, ..scheduler.config() }).unwrap();
    let (_holder, second) = (inside(&scheduler), inside(&scheduler));
    let mut others: Vec<_> = (0..3).map(|_| scheduler.session()).collect();
    let mut entries: Vec<_> = others.iter_mut().map(|other| Box::pin(other.enter_async())).collect();
    entries.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
    // Who gets this place is pending, as long as it is not polled: so newcomers may overtake.
    second.exit_ending_slice();
    let session = scheduler.session();
    session.enter_forced();
    work(40 * MS);
    session.exit();
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..15 {
        assert!(session.try_enter(), "it owes {}", session.turn.deficit.owed_ns());
        work(MS);
        session.exit();
        std::thread::sleep(Duration::from_millis(4));
        assert_eq!(owed_ns(&session), 0);
    }
}

/// Neither what it does while a wait has given its place up, nor what another thread did before the session came to it.
#[test]
#[cfg_attr(miri, ignore)] // No processor time passes there.
fn work_outside_is_no_time_of_a_turn() {
    let scheduler = scheduler();
    let (_holder, mut waits) = (inside(&scheduler), scheduler.session());
    let mut waits = Box::pin(waits.enter_async());
    assert!(!is_in(waits.as_mut()));
    let session = scheduler.session();
    session.enter_forced();
    session.wait_begin(WaitKind::LogSync);
    work(30 * MS);
    session.wait_end(WaitKind::LogSync);
    session.exit();
    assert_eq!(owed_ns(&session), 0);
    // The second thread may have the stack of the first.
    let enters = std::thread::spawn(move || {
        session.enter_forced();
        session
    });
    let session = enters.join().unwrap();
    let leaves = std::thread::spawn(move || {
        work(30 * MS);
        session.exit();
        session
    });
    assert_eq!(owed_ns(&leaves.join().unwrap()), 0);
}

#[test]
fn what_it_took_is_forgotten_where_nobody_waits() {
    for for_good in [false, true] {
        let scheduler = scheduler();
        let session = scheduler.session();
        session.turn.deficit.took(50 * MS);
        session.enter().unwrap();
        if for_good {
            session.exit_ending_slice()
        } else {
            session.exit()
        }
        assert_eq!(owed_ns(&session), 0);
    }
}

/// Not to one that turns it away, and not when it goes before the others. What it owes it owes until it is served.
#[test]
fn what_a_turn_took_is_told_to_the_queue_once() {
    const TOOK_NS: u64 = 1 << 50;
    let config =
        Config { policy: Policy::Quantum, thread_concurrency: 1, queue_limit: 1, ..Config::default() };
    let scheduler = admission_with(Config { stall_limit: None, ..config });
    let holder = inside(&scheduler);
    let [mut waits, mut session] = std::array::from_fn(|_| scheduler.session());
    let mut waits = Box::pin(waits.enter_async());
    assert!(!is_in(waits.as_mut()));
    session.turn.deficit.took(TOOK_NS);
    assert_eq!(session.enter(), Err(Refused::QueueFull));
    assert_eq!(session.turn.deficit.turn_ns(), TOOK_NS);
    drop(waits);
    for (class, untold_ns) in [(Class::First, TOOK_NS), (Class::Normal, 0)] {
        session.set_class(class);
        assert!(!is_in(Box::pin(session.enter_async()).as_mut()));
        assert_eq!(session.turn.deficit.turn_ns(), untold_ns, "{class:?}");
        assert_eq!(session.turn.deficit.owed_ns(), TOOK_NS);
    }
    assert_eq!(session.enter_until(Instant::now()), Err(Refused::Timeout));
    assert_eq!(session.turn.deficit.owed_ns(), TOOK_NS);
    let mut enters = Box::pin(session.enter_async());
    assert!(!is_in(enters.as_mut()));
    holder.exit_ending_slice();
    assert!(is_in(enters.as_mut()));
    drop(enters);
    assert_eq!(session.turn.deficit.owed_ns(), 0);
}
