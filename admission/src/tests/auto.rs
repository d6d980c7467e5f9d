//! The adaptive limit: in force only while it pays.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::assert_drained;
use super::tasks::running;
use crate::{Admission, AutoState, Config, Policy, Session, WaitKind};

fn admission() -> std::sync::Arc<Admission> {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 2, auto: true, ..Config::default() };
    Admission::new(Config { stall_limit: None, watchdog: false, ..config }).unwrap()
}

/// Steps the scheduler for this time.
fn pass(admission: &Admission, begin: &mut Instant, ms: u64) {
    for _ in 0..ms / 10 {
        *begin += Duration::from_millis(10);
        admission.step(*begin);
    }
}

#[test]
fn few_threads_find_no_limit() {
    let admission = admission();
    let (sessions, mut now) = ([(); 8].map(|()| running(&admission)), Instant::now());
    pass(&admission, &mut now, 1000);
    assert_eq!((admission.thread_concurrency(), admission.auto_state()), (0, Some(AutoState::Calm)));
    assert!(admission.is_dormant());
    drop(sessions);
    assert_drained(&admission.snapshot());
}

#[test]
fn a_crowd_meets_the_limit_and_its_end_lifts_it() {
    let admission = admission();
    let (crowd, mut now) = ([(); 20].map(|()| running(&admission)), Instant::now());
    pass(&admission, &mut now, 300);
    assert_eq!((admission.thread_concurrency(), admission.auto_state()), (2, Some(AutoState::Comparing)));
    assert!(!admission.is_dormant());
    let newcomers = [(); 3].map(|()| admission.session());
    assert_eq!(newcomers.each_ref().map(Session::try_enter), [true, true, false]);
    drop((crowd, newcomers));
    pass(&admission, &mut now, 6000);
    assert_eq!((admission.thread_concurrency(), admission.auto_state()), (0, Some(AutoState::Calm)));
    assert_drained(&admission.snapshot());
}

#[test]
fn sessions_that_are_only_counted_make_a_crowd_and_take_no_slots() {
    let admission = admission();
    let (crowd, mut now) = ([(); 20].map(|()| admission.session()), Instant::now());
    assert!(crowd.iter().all(Session::enter_uncounted));
    assert!(crowd[0].enter_uncounted(), "does nothing");
    assert_eq!(admission.snapshot().admitted_at_once, 20);
    pass(&admission, &mut now, 300);
    assert_eq!((admission.thread_concurrency(), admission.snapshot().running), (2, 0));
    let late = admission.session();
    assert!(!late.enter_uncounted() && !late.is_running(), "the limit is in force");
    assert!(late.try_enter() && late.enter_uncounted());
    assert_eq!(admission.snapshot().running, 1);
    drop((crowd, late));
    assert_drained(&admission.snapshot());
}

/// Of a thousand threads that update one row, one runs.
#[test]
fn sessions_that_wait_for_a_row_make_a_crowd() {
    let admission = admission();
    let (crowd, mut now) = ([(); 20].map(|()| running(&admission)), Instant::now());
    for session in &crowd[1..] {
        session.wait_begin(WaitKind::RowLock);
        session.mark_wait_long();
    }
    pass(&admission, &mut now, 300);
    assert_eq!((admission.thread_concurrency(), admission.auto_state()), (2, Some(AutoState::Comparing)));
    assert_eq!(crate::sync::lock(&admission.tuner).work(), 0, "they have done nothing yet");
    crowd[1].wait_end(WaitKind::RowLock);
    crowd[2].exit();
    assert_eq!(admission.metrics.work().waits_for_row, 17);
    drop(crowd);
    assert_eq!(admission.metrics.work().waits_for_row, 0);
    assert_drained(&admission.snapshot());
}

/// The watchdog's thread sleeps while there is nothing to do.
#[test]
fn a_limit_that_becomes_adaptive_wakes_the_watchdog() {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 2, ..Config::default() };
    let admission = Admission::new(Config { thread_concurrency: 0, ..config.clone() }).unwrap();
    while !admission.alarm.asleep.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let crowd = [(); 20].map(|()| running(&admission));
    admission.reconfigure(Config { auto: true, ..config }).unwrap();
    while admission.auto_state() != Some(AutoState::Comparing) {
        std::thread::yield_now();
    }
    drop(crowd);
}

/// A thousand threads that come at once may keep the watchdog's thread from the CPU.
#[test]
fn entries_sample_too() {
    let admission = admission();
    admission.metrics.clock_ns.store(1, Ordering::Relaxed);
    let mut sessions = Vec::new();
    while admission.thread_concurrency() == 0 && sessions.len() < 1000 {
        admission.metrics.clock_ns.fetch_add(50_000, Ordering::Relaxed);
        sessions.push(admission.session());
        assert!(sessions.last().unwrap().try_enter());
    }
    assert_eq!(admission.auto_state(), Some(AutoState::Comparing), "nobody has called step");
    assert!(sessions.len() < 500, "{}", sessions.len());
    drop(sessions);
    assert_drained(&admission.snapshot());
}

#[test]
fn a_change_of_another_setting_leaves_the_limit_in_force() {
    let admission = admission();
    let (crowd, mut now) = ([(); 20].map(|()| running(&admission)), Instant::now());
    pass(&admission, &mut now, 300);
    admission.reconfigure(Config { concurrency_tickets: 7, ..admission.config() }).unwrap();
    assert_eq!(admission.thread_concurrency(), 2);
    admission.set_thread_concurrency(2).unwrap();
    assert_eq!((admission.thread_concurrency(), admission.auto_state()), (0, Some(AutoState::Calm)));
    admission.reconfigure(Config { auto: false, ..admission.config() }).unwrap();
    assert_eq!((admission.thread_concurrency(), admission.auto_state()), (2, None));
    drop(crowd);
}

/// A pile of statements that the stall rule took the slots from is neither gone nor work done.
#[test]
fn sessions_without_their_slots_still_run() {
    let config = Config { stall_limit: Some(Duration::from_millis(50)), ..admission().config() };
    let admission = Admission::new(config).unwrap();
    let (crowd, mut now) = ([(); 20].map(|()| running(&admission)), Instant::now());
    pass(&admission, &mut now, 300);
    let long = [(); 2].map(|()| running(&admission));
    let mut next = admission.session();
    let mut queued = std::pin::pin!(next.enter_async());
    assert!(!super::tasks::is_in(queued.as_mut()));
    pass(&admission, &mut now, 200);
    assert_eq!(admission.snapshot().slots_reclaimed, 2);
    assert_eq!(admission.metrics.work().without_slot, 22);
    assert_eq!(crate::sync::lock(&admission.tuner).work(), 0);
    drop((crowd, long));
    assert_eq!(admission.metrics.work().without_slot, 0);
}

/// In a collapse all sessions run for long, and a trial must not admit more than its limit.
#[test]
fn a_trial_reclaims_no_slots() {
    let config = Config { stall_limit: Some(Duration::from_millis(20)), ..admission().config() };
    let admission = Admission::new(config).unwrap();
    let (crowd, mut now) = ([(); 20].map(|()| running(&admission)), Instant::now());
    pass(&admission, &mut now, 300);
    let worker = running(&admission);
    while admission.thread_concurrency() == 2 {
        (0..40).for_each(|_| {
            worker.exit();
            assert!(worker.try_enter());
        });
        pass(&admission, &mut now, 10);
    }
    assert_eq!(admission.thread_concurrency(), 4, "the first step of a trial");
    let others = [(); 3].map(|()| running(&admission));
    let mut next = admission.session();
    let mut queued = std::pin::pin!(next.enter_async());
    assert!(!super::tasks::is_in(queued.as_mut()));
    let mut steps = 0;
    while admission.thread_concurrency() == 4 {
        assert_eq!(admission.snapshot().slots_reclaimed, 0);
        pass(&admission, &mut now, 10);
        steps += 1;
    }
    assert!(steps > 3, "the trial was longer than the stall limit");
    assert_eq!(admission.thread_concurrency(), 2, "nothing was done: a collapse");
    assert!(super::tasks::is_in(queued.as_mut()), "nobody came or left for the stall limit");
    let mut last = admission.session();
    let mut queued = std::pin::pin!(last.enter_async());
    assert!(!super::tasks::is_in(queued.as_mut()));
    pass(&admission, &mut now, 200);
    assert_eq!(admission.snapshot().slots_reclaimed, 5);
    drop((crowd, worker, others));
}

/// Many that enter at once have done nothing yet.
#[test]
fn work_is_counted_when_it_is_done() {
    let admission = admission();
    let (crowd, mut now) = ([(); 20].map(|()| running(&admission)), Instant::now());
    pass(&admission, &mut now, 100);
    let done = |admission: &Admission| crate::sync::lock(&admission.tuner).work();
    assert_eq!(done(&admission), 0);
    crowd.iter().for_each(Session::exit);
    pass(&admission, &mut now, 100);
    assert_eq!(done(&admission), 20);
    drop(crowd);
}
