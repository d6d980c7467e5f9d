//! The stall rule: slots are reclaimed from sessions that run for long while others queue, and a queue that does not move is served above the
//! limit. Each test steps the scheduler by hand and passes the time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::tasks::{QUEUEING, admission_with, is_in, running};
use super::{Ends, assert_drained};
use crate::shared::in_ns;
use crate::sync::lock;
use crate::{Admission, Class, Config, Policy, Session, WaitKind, WaitMask};

const LIMIT: Duration = Duration::from_millis(100);
/// Shorter than [`LIMIT`].
const SHORTER: Duration = Duration::from_millis(90);

/// One slot, a stall limit of [`LIMIT`] and no watchdog.
fn admission(policy: Policy) -> Arc<Admission> {
    admission_with(Config { policy, thread_concurrency: 1, stall_limit: Some(LIMIT), ..Config::default() })
}

/// Steps at `now`. On a busy machine a look can take long, and the rule pauses after it; not here.
fn look(admission: &Admission, now: Instant) {
    let limit_ns = admission.config().stall_limit.map(in_ns);
    lock(&admission.stall).set_limit(None);
    lock(&admission.stall).set_limit(limit_ns);
    admission.step(now);
}

/// Two looks with the stall limit between them.
fn look_twice(admission: &Admission) {
    let now = Instant::now();
    look(admission, now);
    look(admission, now + LIMIT);
}

fn reclaimed(admission: &Admission) -> u64 {
    admission.snapshot().slots_reclaimed
}

/// Every policy with a limit, one session that has lost its slot and goes on, and the next, which has it.
fn after_a_reclaim(then: impl Fn(&Arc<Admission>, Session, Session)) {
    for policy in QUEUEING {
        let admission = admission(policy);
        let (long, mut next) = (running(&admission), admission.session());
        let mut enters = Box::pin(next.enter_async());
        assert!(!is_in(enters.as_mut()));
        look_twice(&admission);
        assert!(is_in(enters.as_mut()), "{policy}");
        drop(enters);
        assert!(long.is_running() && next.is_running(), "{policy}: both run");
        assert_eq!((admission.snapshot().running, reclaimed(&admission)), (1, 1), "{policy}: one has a slot");
        then(&admission, long, next);
        assert_drained(&admission.snapshot());
    }
}

#[test]
fn a_session_that_runs_for_the_stall_limit_loses_its_slot_to_the_next() {
    for policy in QUEUEING {
        let admission = admission(policy);
        let (long, mut next) = (running(&admission), admission.session());
        let mut enters = Box::pin(next.enter_async());
        assert!(!is_in(enters.as_mut()));
        let now = Instant::now();
        look(&admission, now);
        look(&admission, now + SHORTER);
        assert!(!is_in(enters.as_mut()), "{policy}: too early");
        look(&admission, now + LIMIT);
        assert!(is_in(enters.as_mut()), "{policy}");
        assert!(long.is_running(), "{policy}: it goes on");
        assert_eq!((reclaimed(&admission), admission.snapshot().stalls_broken), (1, 0), "{policy}");
        drop(enters);
        long.exit();
        assert_eq!(admission.snapshot().running, 1, "{policy}: its exit releases nothing");
        drop((long, next));
        assert_drained(&admission.snapshot());
    }
}

#[test]
fn an_exit_after_a_reclaim_releases_nothing() {
    after_a_reclaim(|admission, long, next| {
        long.exit();
        long.exit_ending_slice();
        assert_eq!(admission.snapshot().running, 1);
        next.exit();
        assert_eq!(admission.snapshot().running, 0);
    });
    after_a_reclaim(|admission, long, next| {
        next.exit();
        assert_eq!(admission.snapshot().running, 0);
        long.exit_ending_slice();
        assert_eq!(admission.snapshot().running, 0);
    });
    after_a_reclaim(|admission, long, next| {
        drop(long);
        assert_eq!(admission.snapshot().running, 1);
        drop(next);
    });
}

#[test]
fn a_reclaimed_session_acquires_its_next_slot_as_others_do() {
    after_a_reclaim(|admission, mut long, next| {
        long.exit();
        assert!(!long.try_enter(), "the next has the only slot");
        let mut enters = Box::pin(long.enter_async());
        assert!(!is_in(enters.as_mut()));
        next.exit_ending_slice();
        assert!(is_in(enters.as_mut()));
        assert_eq!(admission.snapshot().running, 1);
    });
}

#[test]
fn a_reclaimed_session_that_is_out_of_tickets_queues() {
    after_a_reclaim(|admission, mut long, next| {
        let mut third = admission.session();
        let mut third_enters = Box::pin(third.enter_async());
        assert!(!is_in(third_enters.as_mut()));
        let mut goes_on = Box::pin(long.enter_async());
        assert!(!is_in(goes_on.as_mut()));
        next.exit_ending_slice();
        assert!(is_in(third_enters.as_mut()) && !is_in(goes_on.as_mut()));
        drop(third_enters);
        third.exit_ending_slice();
        assert!(is_in(goes_on.as_mut()));
        assert_eq!(admission.snapshot().running, 1);
    });
    after_a_reclaim(|admission, long, next| {
        let mut third = admission.session();
        let mut third_enters = Box::pin(third.enter_async());
        assert!(!is_in(third_enters.as_mut()));
        assert!(!long.try_enter() && !long.is_running());
        assert_eq!(admission.snapshot().running, 1);
        next.exit_ending_slice();
        assert!(is_in(third_enters.as_mut()));
    });
}

#[test]
fn a_forced_entry_of_a_reclaimed_session_takes_no_slot() {
    after_a_reclaim(|admission, long, next| {
        (0..3).for_each(|_| long.enter_forced());
        assert_eq!(admission.snapshot().running, 1, "it runs already");
        drop((long, next));
    });
}

#[test]
fn a_reclaimed_session_has_no_slot_after_its_waits() {
    after_a_reclaim(|admission, long, next| {
        long.wait_begin(WaitKind::Disk);
        assert_eq!(admission.snapshot().running, 1, "it had no slot to release");
        long.wait_end(WaitKind::Disk);
        assert!(long.is_running());
        assert_eq!(admission.snapshot().running, 1, "each wait would bring it a slot again");
        long.exit();
        assert_eq!(admission.snapshot().running, 1);
        drop(next);
    });
    after_a_reclaim(|admission, long, next| {
        long.wait_begin(WaitKind::User);
        long.exit();
        long.wait_end(WaitKind::User);
        assert!(!long.is_running());
        assert_eq!(admission.snapshot().running, 1);
        drop(next);
    });
}

/// Also if it is begun before the observer looks again.
#[test]
fn a_new_stay_is_not_reclaimed_early() {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 2, ..Config::default() };
    let admission = admission_with(Config { stall_limit: Some(LIMIT), ..config });
    let (comes_back, long) = (running(&admission), running(&admission));
    let mut sessions: [Session; 4] = std::array::from_fn(|_| admission.session());
    let mut queue: Vec<_> = sessions.iter_mut().map(|session| Box::pin(session.enter_async())).collect();
    queue.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
    let now = Instant::now();
    look(&admission, now);
    comes_back.exit();
    comes_back.enter_forced();
    assert!(is_in(queue[0].as_mut()), "it was handed the slot");
    look(&admission, now + SHORTER);
    assert_eq!(reclaimed(&admission), 0);
    look(&admission, now + LIMIT);
    assert_eq!(reclaimed(&admission), 1, "the long one");
    look(&admission, now + SHORTER + SHORTER);
    assert_eq!(reclaimed(&admission), 1);
    look(&admission, now + SHORTER + LIMIT);
    assert_eq!(reclaimed(&admission), 3, "the two that began after the first look");
    drop(queue);
    drop((comes_back, long, sessions));
    assert_drained(&admission.snapshot());
}

#[test]
fn a_stay_that_renews_its_tickets_is_one_stay() {
    let admission = admission(Policy::Fifo);
    let (long, mut next) = (running(&admission), admission.session());
    let now = Instant::now();
    look(&admission, now);
    long.enter().unwrap();
    long.enter_forced();
    let mut enters = Box::pin(next.enter_async());
    assert!(!is_in(enters.as_mut()));
    look(&admission, now);
    long.enter_forced();
    look(&admission, now + LIMIT);
    assert_eq!(reclaimed(&admission), 1);
    assert!(is_in(enters.as_mut()));
}

#[test]
fn a_session_in_a_wait_that_released_its_slot_has_none_to_reclaim() {
    for policy in QUEUEING {
        let admission = admission(policy);
        let waits = running(&admission);
        waits.wait_begin(WaitKind::Network);
        let (runs, mut next) = (running(&admission), admission.session());
        let mut enters = Box::pin(next.enter_async());
        assert!(!is_in(enters.as_mut()));
        look_twice(&admission);
        assert_eq!(reclaimed(&admission), 1, "{policy}: the slot of the session that runs");
        assert!(is_in(enters.as_mut()), "{policy}");
        drop(enters);
        waits.wait_end(WaitKind::Network);
        assert!(waits.is_running());
        assert_eq!(admission.snapshot().running, 2, "{policy}");
        drop((waits, runs, next));
        assert_drained(&admission.snapshot());
    }
}

#[test]
fn the_slot_of_a_session_in_a_wait_that_keeps_it_is_reclaimed() {
    let admission = admission(Policy::Quantum);
    admission.reconfigure(Config { wait_mask: WaitMask::NONE, ..admission.config() }).unwrap();
    let (waits, mut next) = (running(&admission), admission.session());
    waits.wait_begin(WaitKind::Network);
    let mut enters = Box::pin(next.enter_async());
    assert!(!is_in(enters.as_mut()));
    look_twice(&admission);
    assert!(is_in(enters.as_mut()));
    drop(enters);
    waits.wait_end(WaitKind::Network);
    assert!(waits.is_running());
    assert_eq!(admission.snapshot().running, 1);
    drop((waits, next));
    assert_drained(&admission.snapshot());
}

#[test]
fn a_slot_is_reclaimed_only_while_others_queue() {
    let admission = admission(Policy::Quantum);
    let (long, mut next) = (running(&admission), admission.session());
    look_twice(&admission);
    assert_eq!(reclaimed(&admission), 0, "nobody queues");
    let mut enters = Box::pin(next.enter_async());
    assert!(!is_in(enters.as_mut()));
    look_twice(&admission);
    assert_eq!(reclaimed(&admission), 1);
    look_twice(&admission);
    assert_eq!(reclaimed(&admission), 1, "once");
    assert!(is_in(enters.as_mut()) && long.is_running());
}

#[test]
fn a_slot_of_congestion_is_reclaimed_for_a_lock_holder() {
    let admission = admission(Policy::Quantum);
    let waits = running(&admission);
    admission.reconfigure(Config { lock_waiters_max: 1, ..admission.config() }).unwrap();
    waits.wait_begin(WaitKind::RowLock);
    let long = running(&admission);
    let [mut normal, mut holder] = std::array::from_fn(|_| admission.session());
    holder.set_class(Class::First);
    let (mut normal, mut holder) = (Box::pin(normal.enter_async()), Box::pin(holder.enter_async()));
    assert!(!is_in(normal.as_mut()) && !is_in(holder.as_mut()));
    look_twice(&admission);
    assert!(is_in(holder.as_mut()) && !is_in(normal.as_mut()));
    assert!(long.is_running());
}

/// Slots above the limit are reclaimed and repaid; the last one goes to the queue.
#[test]
fn reclaimed_slots_repay_an_overshoot_first() {
    let admission = admission(Policy::Fifo);
    let crowd: Vec<_> = (0..5).map(|_| admission.session()).collect();
    crowd.iter().for_each(Session::enter_forced);
    let mut sessions: [Session; 2] = std::array::from_fn(|_| admission.session());
    let mut queue: Vec<_> = sessions.iter_mut().map(|session| Box::pin(session.enter_async())).collect();
    queue.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
    look_twice(&admission);
    assert_eq!(reclaimed(&admission), 5);
    assert!(is_in(queue[0].as_mut()) && !is_in(queue[1].as_mut()));
    assert_eq!(admission.snapshot().running, 1);
    drop(crowd);
    assert_eq!((admission.snapshot().running, admission.snapshot().queued), (1, 1));
    drop(queue);
    drop(sessions);
    assert_drained(&admission.snapshot());
}

/// A limit that comes later holds for the stays that begin after it; the breaker covers the others.
#[test]
fn without_a_stall_limit_no_slot_is_reclaimed() {
    let admission = admission(Policy::Quantum);
    admission.reconfigure(Config { stall_limit: None, ..admission.config() }).unwrap();
    let (long, mut next) = (running(&admission), admission.session());
    let mut enters = Box::pin(next.enter_async());
    assert!(!is_in(enters.as_mut()));
    look_twice(&admission);
    assert_eq!((reclaimed(&admission), admission.snapshot().stalls_broken), (0, 0));
    admission.reconfigure(Config { stall_limit: Some(LIMIT), ..admission.config() }).unwrap();
    look_twice(&admission);
    assert_eq!((reclaimed(&admission), admission.snapshot().stalls_broken), (0, 1));
    assert!(is_in(enters.as_mut()));
    drop(enters);
    assert_eq!(admission.snapshot().running, 2);
    drop((long, next));
    assert_drained(&admission.snapshot());
}

/// Without a limit T counts nobody, and a limit that is set later finds no slot to reclaim.
#[test]
fn a_session_that_came_in_without_a_limit_has_no_slot_to_reclaim() {
    let admission = admission(Policy::Fifo);
    admission.set_thread_concurrency(0).unwrap();
    let uncounted = running(&admission);
    admission.set_thread_concurrency(1).unwrap();
    let (counted, mut next) = (running(&admission), admission.session());
    let mut enters = Box::pin(next.enter_async());
    assert!(!is_in(enters.as_mut()));
    look_twice(&admission);
    assert_eq!((reclaimed(&admission), admission.snapshot().running), (1, 1));
    assert!(is_in(enters.as_mut()));
    drop(enters);
    drop((uncounted, counted, next));
    assert_drained(&admission.snapshot());
}

#[test]
fn another_stall_limit_holds_at_once() {
    let hour = Duration::from_secs(3600);
    for (before, after, is_reclaimed) in [(hour, LIMIT, true), (LIMIT, hour, false)] {
        let admission = admission(Policy::Fifo);
        admission.reconfigure(Config { stall_limit: Some(before), ..admission.config() }).unwrap();
        let (_long, mut next) = (running(&admission), admission.session());
        let mut enters = Box::pin(next.enter_async());
        assert!(!is_in(enters.as_mut()));
        let now = Instant::now();
        admission.step(now);
        admission.reconfigure(Config { stall_limit: Some(after), ..admission.config() }).unwrap();
        admission.step(now + LIMIT);
        assert_eq!(is_in(enters.as_mut()), is_reclaimed);
    }
}

#[test]
fn a_stall_limit_beyond_the_clock_is_never_over() {
    let stall_limit = Some(Duration::from_nanos(u64::MAX) + Duration::from_nanos(1));
    let admission = admission(Policy::Fifo);
    admission.reconfigure(Config { stall_limit, ..admission.config() }).unwrap();
    let (_long, mut next) = (running(&admission), admission.session());
    let mut enters = Box::pin(next.enter_async());
    assert!(!is_in(enters.as_mut()));
    let now = Instant::now();
    (0..3).for_each(|second| look(&admission, now + Duration::from_secs(second)));
    assert!(!is_in(enters.as_mut()));
}

/// Sessions with long statements take the slot one after the other, and all run in the end.
#[test]
fn long_statements_do_not_keep_the_queue_waiting() {
    for policy in QUEUEING {
        let admission = admission(policy);
        let first = running(&admission);
        let mut sessions: Vec<_> = (0..10).map(|_| admission.session()).collect();
        let mut queue: Vec<_> = sessions.iter_mut().map(|session| Box::pin(session.enter_async())).collect();
        queue.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
        let mut now = Instant::now();
        for entry in &mut queue {
            look(&admission, now);
            assert!(!is_in(entry.as_mut()), "{policy}");
            now += LIMIT;
            look(&admission, now);
            assert!(is_in(entry.as_mut()), "{policy}");
        }
        drop(queue);
        assert!(first.is_running() && sessions.iter().all(Session::is_running));
        assert_eq!((admission.snapshot().running, reclaimed(&admission)), (1, 10), "{policy}");
        drop((first, sessions));
        assert_drained(&admission.snapshot());
    }
}

/// The stall breaker: sessions that were granted slots do not run, such as tasks that nobody polls.
#[test]
fn a_queue_behind_a_task_that_nobody_polls_moves() {
    for policy in QUEUEING {
        let admission = admission(policy);
        let holder = running(&admission);
        let (mut asleep, mut next) = (admission.session(), admission.session());
        let (mut asleep, mut next) = (Box::pin(asleep.enter_async()), Box::pin(next.enter_async()));
        assert!(!is_in(asleep.as_mut()) && !is_in(next.as_mut()));
        holder.exit();
        let now = Instant::now();
        // The first two looks see the exit, and the entries before.
        [now, now, now + LIMIT].into_iter().for_each(|now| look(&admission, now));
        let snapshot = admission.snapshot();
        assert_eq!((snapshot.stalls_broken, snapshot.slots_reclaimed), (1, 0), "{policy}");
        assert!(is_in(next.as_mut()), "{policy}");
        assert!(is_in(asleep.as_mut()), "{policy}: it has its slot still");
    }
}

/// As when a task is never polled, and a session that sends its result runs beside it.
#[test]
fn a_session_that_waits_again_and_again_hides_no_stall() {
    let admission = admission(Policy::Fifo);
    let (holder, dump) = (running(&admission), admission.session());
    let [mut asleep, mut next] = std::array::from_fn(|_| admission.session());
    let (mut asleep, mut next) = (Box::pin(asleep.enter_async()), Box::pin(next.enter_async()));
    assert!(!is_in(asleep.as_mut()) && !is_in(next.as_mut()));
    holder.exit();
    dump.enter_forced();
    let mut now = Instant::now();
    for _ in 0..40 {
        dump.wait_begin(WaitKind::Network);
        look(&admission, now);
        dump.wait_end(WaitKind::Network);
        look(&admission, now + Duration::from_millis(5));
        now += Duration::from_millis(10);
    }
    assert!(admission.snapshot().stalls_broken >= 1);
    assert!(is_in(next.as_mut()));
}

/// Forced entries leave one by one, and hand nothing off; a stall it is none.
#[test]
fn no_stall_is_broken_while_an_overshoot_is_repaid() {
    let admission = admission(Policy::Fifo);
    // Without a stall limit their slots are not published, so the breaker alone is seen.
    admission.reconfigure(Config { stall_limit: None, ..admission.config() }).unwrap();
    let crowd: Vec<_> = (0..20).map(|_| admission.session()).collect();
    crowd.iter().for_each(Session::enter_forced);
    admission.reconfigure(Config { stall_limit: Some(LIMIT), ..admission.config() }).unwrap();
    let mut waiter = admission.session();
    let mut entry = Box::pin(waiter.enter_async());
    assert!(!is_in(entry.as_mut()));
    let mut now = Instant::now();
    for session in &crowd[1..] {
        look(&admission, now);
        session.exit();
        now += Duration::from_millis(20);
    }
    look(&admission, now);
    assert_eq!(admission.snapshot().stalls_broken, 0);
    assert!(!is_in(entry.as_mut()));
    look(&admission, now + Duration::from_secs(1));
    assert!(is_in(entry.as_mut()), "the last session does not leave");
}

/// A holder that waits for the work of a session that queues behind it: undeclared, as in a callback of the embedder's.
#[test]
#[cfg_attr(miri, ignore = "the watchdog's thread is not started there")]
fn a_holder_that_waits_for_the_work_of_another_session_is_unblocked() {
    const ITEMS: u32 = 3;
    for policy in QUEUEING {
        let config = Config { policy, thread_concurrency: 1, ..Config::default() };
        let admission =
            Admission::new(Config { stall_limit: Some(Duration::from_millis(20)), ..config }).unwrap();
        let holder = running(&admission);
        let (send, receive) = mpsc::sync_channel(1);
        let producer = admission.session();
        let thread = thread::spawn(move || {
            for item in 0..ITEMS {
                let _slot = producer.slot().unwrap();
                send.send(item).unwrap();
            }
        });
        for item in 0..ITEMS {
            let received = receive.recv_timeout(Duration::from_secs(20));
            assert_eq!(received, Ok(item), "{policy}: the holder waits forever");
        }
        assert!(holder.is_running());
        thread.join().unwrap();
        assert_eq!(reclaimed(&admission), 1, "{policy}: the producer was never long");
        drop(holder);
        assert_drained(&admission.snapshot());
    }
}

/// The same with the channel full, and the sender in the slot.
#[test]
#[cfg_attr(miri, ignore = "the watchdog's thread is not started there")]
fn a_holder_that_fills_a_bounded_channel_is_unblocked() {
    for policy in QUEUEING {
        let config = Config { policy, thread_concurrency: 1, ..Config::default() };
        let admission =
            Admission::new(Config { stall_limit: Some(Duration::from_millis(20)), ..config }).unwrap();
        let sender = running(&admission);
        let (send, receive) = mpsc::sync_channel(1);
        let (sent, all_sent) = mpsc::channel();
        let thread = thread::spawn(move || {
            (0..4).for_each(|item| send.send(item).unwrap());
            sent.send(()).unwrap();
            sender
        });
        let receiver = admission.session();
        {
            let _slot = receiver.slot().unwrap();
            (0..4).for_each(|item| assert_eq!(receive.recv_timeout(Duration::from_secs(20)), Ok(item)));
        }
        all_sent.recv_timeout(Duration::from_secs(20)).expect("the sender goes on");
        drop((thread.join().unwrap(), receiver));
        assert_drained(&admission.snapshot());
    }
}

/// Slots are reclaimed at random moments: in stays, at their ends, and as the next begin.
#[test]
fn reclaiming_at_any_moment_leaves_nothing_behind() {
    let rounds = if cfg!(miri) { 10 } else { 2000 };
    for policy in QUEUEING {
        let config = Config { policy, thread_concurrency: 2, stall_limit: Some(LIMIT), ..Config::default() };
        let admission = admission_with(config);
        let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let workers: Vec<_> = (0..8u32)
                .map(|number| {
                    let (session, done) = (admission.session(), &done);
                    scope.spawn(move || {
                        for round in number..number + rounds {
                            statement(&session, round);
                            session.check();
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            let _ends = Ends(&over);
            scope.spawn(|| {
                let mut now = Instant::now();
                for jump in 0u32.. {
                    // So that some steps see stays only, and others reclaim them.
                    now += LIMIT * (jump.wrapping_mul(0x9e37_79b9) >> 30);
                    look(&admission, now);
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    if jump.is_multiple_of(5) {
                        thread::yield_now();
                    }
                }
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
        });
        assert_drained(&admission.snapshot());
        assert_eq!(done.into_inner(), u64::from(8 * rounds), "{policy}");
        assert!(cfg!(miri) || reclaimed(&admission) > 0, "{policy}");
        // Both slots are there, and no more.
        let both = [running(&admission), running(&admission)];
        assert!(!admission.session().try_enter(), "{policy}");
        drop(both);
    }
}

/// Does one of several things on a slot, depending on `n`.
fn statement(session: &Session, n: u32) {
    let soon = || Instant::now() + Duration::from_micros(200);
    match n % 8 {
        0 => session.enter_forced(),
        1 => _ = session.enter_until(soon()),
        2 => _ = session.try_enter(),
        _ => session.enter().unwrap(),
    }
    if n.is_multiple_of(3) {
        thread::yield_now();
    }
    match n % 7 {
        0 => {
            session.wait_begin(WaitKind::User);
            session.wait_end(WaitKind::User);
        }
        1 => {
            session.wait_begin(WaitKind::RowLock);
            session.wait_end(WaitKind::RowLock);
        }
        2 => session.enter().unwrap(), // Out of tickets.
        3 => session.wait_begin(WaitKind::Disk),
        _ => {}
    }
    if n.is_multiple_of(11) {
        session.exit_ending_slice()
    } else {
        session.exit()
    }
    while session.wait_depth() != 0 {
        session.wait_end(WaitKind::User);
    }
}
