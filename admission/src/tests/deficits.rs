//! What deficit a session has for long slices, and which sessions pass it for that, under [`Policy::Quantum`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::tasks::{admission_with, is_in, running};
use crate::quantum::fairness::CpuTime;
use crate::{Admission, Class, Config, Policy, Refused, Session, WaitKind};

const MS: u64 = 1_000_000;

/// Uses that much CPU time, ns.
fn work(ns: u64) {
    let began = CpuTime::now().unwrap();
    while began.elapsed_ns().unwrap() < ns {}
}

/// A scheduler with one slot whose slices are timed.
fn scheduler() -> Arc<Admission> {
    let scheduler = super::admission(Policy::Quantum, 1, 1);
    scheduler.reconfigure(Config { quantum: Duration::from_millis(1), ..scheduler.config() }).unwrap();
    scheduler
}

/// Makes a millisecond the usual slice of the queue.
fn make_ms_usual(scheduler: &Arc<Admission>) {
    for _ in 0..10 {
        let mut other = scheduler.session();
        other.slice.deficit.set_used(MS);
        assert!(!is_in(Box::pin(other.enter_async()).as_mut()));
    }
}

fn deficit_ns(session: &Session) -> u64 {
    session.slice.charge(session.admission().metrics.now_ns(), MS).1
}

/// Not the time that its thread sleeps, and no time in which nobody waits.
#[test]
#[cfg_attr(miri, ignore = "no CPU time passes there")]
fn a_slice_is_charged_the_cpu_time_used_while_others_wait() {
    const WORK_NS: u64 = 20 * MS;
    let scheduler = scheduler();
    let holder = scheduler.session();
    for (works, others_wait) in [(true, true), (false, true), (true, false)] {
        holder.enter().unwrap();
        let (session, other) = (scheduler.session(), scheduler.session());
        std::thread::scope(|scope| {
            let used = scope.spawn(move || {
                session.enter().unwrap();
                if !others_wait {
                    session.exit();
                    session.enter().unwrap();
                }
                work(if works { WORK_NS } else { 0 });
                std::thread::sleep(Duration::from_millis(3));
                session.exit_ending_slice();
                session.slice.deficit.slice_ns()
            });
            super::until_queued(&scheduler, 1);
            if others_wait {
                scope.spawn(move || other.enter().unwrap());
                super::until_queued(&scheduler, 2);
            }
            holder.exit_ending_slice();
            let used = used.join().unwrap();
            assert_eq!(used >= WORK_NS, works && others_wait, "{used} ns");
            assert_eq!(used == 0, !others_wait);
        });
    }
}

#[test]
#[cfg_attr(miri, ignore = "no CPU time passes there")]
fn after_a_long_slice_a_session_lets_the_next_pass_unless_it_was_away_as_long() {
    for away_ms in [0, 100] {
        let scheduler = scheduler();
        let (holder, [mut first, mut works, mut next]) =
            (running(&scheduler), std::array::from_fn(|_| scheduler.session()));
        let mut first_enters = Box::pin(first.enter_async());
        assert!(!is_in(first_enters.as_mut()));
        make_ms_usual(&scheduler);
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

/// An absence is taken off once and for all, and short slices do not add up to a long one.
#[test]
#[cfg_attr(miri, ignore = "no CPU time passes there")]
fn an_absence_is_taken_off_a_newcomers_deficit() {
    let scheduler = super::admission(Policy::Quantum, 2, 1);
    scheduler.reconfigure(Config { quantum: Duration::from_millis(1), ..scheduler.config() }).unwrap();
    let (_holder, second) = (running(&scheduler), running(&scheduler));
    let mut others: Vec<_> = (0..3).map(|_| scheduler.session()).collect();
    let mut entries: Vec<_> = others.iter_mut().map(|other| Box::pin(other.enter_async())).collect();
    entries.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
    // The session that gets this slot is pending until it is polled: so newcomers may barge.
    second.exit_ending_slice();
    let session = scheduler.session();
    session.enter_forced();
    work(40 * MS);
    session.exit();
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..15 {
        scheduler.barging.on_served();
        assert!(session.try_enter(), "its deficit is {}", session.slice.deficit.deficit_ns());
        work(MS);
        session.exit();
        std::thread::sleep(Duration::from_millis(4));
        assert_eq!(deficit_ns(&session), 0);
    }
}

/// Neither the work done while a wait has released the slot, nor what another thread did before the session came to it.
#[test]
#[cfg_attr(miri, ignore = "no CPU time passes there")]
fn work_outside_is_no_time_of_a_slice() {
    let scheduler = scheduler();
    let (_holder, mut waits) = (running(&scheduler), scheduler.session());
    let mut waits = Box::pin(waits.enter_async());
    assert!(!is_in(waits.as_mut()));
    let session = scheduler.session();
    session.enter_forced();
    session.wait_begin(WaitKind::LogSync);
    work(30 * MS);
    session.wait_end(WaitKind::LogSync);
    session.exit();
    assert_eq!(deficit_ns(&session), 0);
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
    assert_eq!(deficit_ns(&leaves.join().unwrap()), 0);
}

/// What the session does until its next entry is its own, though its slice goes on.
#[test]
#[cfg_attr(miri, ignore = "no CPU time passes there")]
fn a_hand_off_that_empties_the_queue_stops_the_clock() {
    let config = Config { thread_concurrency: 1, quantum: Duration::from_secs(10), ..Config::default() };
    let scheduler = admission_with(Config { stall_limit: None, ..config });
    let (session, mut other) = (running(&scheduler), scheduler.session());
    session.slice.begin_back_to_back(scheduler.metrics.now_ns());
    let mut enters = Box::pin(other.enter_async());
    assert!(!is_in(enters.as_mut()));
    // As an entry while others wait does.
    session.slice.deficit.start(MS);
    assert!(session.slice.deficit.is_timed());
    session.exit();
    assert!(is_in(enters.as_mut()), "too few sessions would run on");
    assert!(session.slice.has_begun() && !session.slice.deficit.is_timed());
}

#[test]
fn a_deficit_is_forgotten_where_nobody_waits() {
    for ends_slice in [false, true] {
        let scheduler = scheduler();
        let session = scheduler.session();
        session.slice.deficit.set_used(50 * MS);
        session.enter().unwrap();
        if ends_slice {
            session.exit_ending_slice()
        } else {
            session.exit()
        }
        assert_eq!(deficit_ns(&session), 0);
    }
}

/// The queue does not learn a slice from a session that it turns away, or from one that goes before the others. A deficit lasts until the
/// session is served.
#[test]
fn the_queue_learns_each_slice_once() {
    const USED_NS: u64 = 1 << 50;
    let config =
        Config { policy: Policy::Quantum, thread_concurrency: 1, queue_limit: 1, ..Config::default() };
    let scheduler = admission_with(Config { stall_limit: None, ..config });
    let holder = running(&scheduler);
    let [mut waits, mut session] = std::array::from_fn(|_| scheduler.session());
    let mut waits = Box::pin(waits.enter_async());
    assert!(!is_in(waits.as_mut()));
    session.slice.deficit.set_used(USED_NS);
    assert_eq!(session.enter(), Err(Refused::QueueFull));
    assert_eq!(session.slice.deficit.slice_ns(), USED_NS);
    drop(waits);
    for (class, not_learnt_ns) in [(Class::First, USED_NS), (Class::Normal, 0)] {
        session.set_class(class);
        assert!(!is_in(Box::pin(session.enter_async()).as_mut()));
        assert_eq!(session.slice.deficit.slice_ns(), not_learnt_ns, "{class:?}");
        assert_eq!(session.slice.deficit.deficit_ns(), USED_NS);
    }
    assert_eq!(session.enter_until(Instant::now()), Err(Refused::Timeout));
    assert_eq!(session.slice.deficit.deficit_ns(), USED_NS);
    let mut enters = Box::pin(session.enter_async());
    assert!(!is_in(enters.as_mut()));
    holder.exit_ending_slice();
    assert!(is_in(enters.as_mut()));
    drop(enters);
    assert_eq!(session.slice.deficit.deficit_ns(), 0);
}
