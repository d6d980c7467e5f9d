//! The scheduler as threads see it, and in the modules below as tasks do, and in corner cases.

mod anticipation;
mod defects;
mod deficits;
mod disk_bound;
mod lending;
mod regressions;
mod tasks;
mod turns;
mod wakers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use crate::config::{half, processors};
use crate::queue::Request;
use crate::rule::End;
use crate::rule::Leaver;
use crate::state::Caller;
use crate::{Admission, Config, Policy, Session, Snapshot, WaitKind, WaitMask};

fn admission(policy: Policy, thread_concurrency: u32, concurrency_tickets: u32) -> Arc<Admission> {
    // On a busy machine a test can be slower than any stall time.
    let config = Config { stall_limit: None, ..Config::default() };
    Admission::new(Config { policy, thread_concurrency, concurrency_tickets, ..config }).unwrap()
}

fn assert_drained(snapshot: &Snapshot) {
    assert_eq!((snapshot.running, snapshot.pending, snapshot.queued), (0, 0, 0));
}

/// Waits until `queued` threads sit in the queue.
fn until_queued(admission: &Admission, queued: u32) {
    while admission.snapshot().queued != queued {
        thread::yield_now();
    }
}

#[test]
fn tickets_are_entries_on_one_place() {
    let admission = admission(Policy::Fifo, 1, 3);
    let session = admission.session();
    (0..7).for_each(|_| session.enter().unwrap());
    session.exit();
    session.exit();
    let snapshot = admission.snapshot();
    // Entries 1, 4 and 7 ask, the others are by ticket.
    assert_eq!((snapshot.admitted_at_once, snapshot.admitted_by_ticket), (3, 4));
    assert_drained(&snapshot);
}

#[test]
fn who_is_waited_for_enters_past_the_limit_and_the_overshoot_is_repaid() {
    let admission = admission(Policy::Fifo, 1, 2);
    let [waiter, holder] = [(); 2].map(|()| admission.session());
    waiter.enter().unwrap();
    (0..3).for_each(|_| holder.enter_forced());
    let snapshot = admission.snapshot();
    assert_eq!(
        (snapshot.running, snapshot.admitted_by_force, snapshot.admitted_by_ticket),
        (2, 1, 1),
        "the third were new tickets"
    );
    assert_eq!(snapshot.entries(), 4, "each is counted");
    thread::scope(|scope| {
        scope.spawn(|| admission.session().enter().unwrap());
        until_queued(&admission, 1);
        holder.exit();
        assert_eq!(admission.snapshot().queued, 1, "repaid, not handed on");
        waiter.exit();
    });
    assert_drained(&admission.snapshot());
}

#[test]
fn a_thread_out_of_tickets_lets_the_queue_go_first() {
    let admission = admission(Policy::Fifo, 1, 2);
    let holder = admission.session();
    holder.enter().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| admission.session().enter().unwrap());
        until_queued(&admission, 1);
        holder.enter().unwrap(); // Its second ticket: it stays.
        assert_eq!(admission.snapshot().queued, 1);
        holder.enter().unwrap(); // Hands on, and comes back when the other one left.
        assert!(admission.snapshot().handed_off >= 1);
    });
    drop(holder);
    assert_drained(&admission.snapshot());
}

#[test]
fn fifo_is_first_come_first_served_and_lifo_a_stack() {
    for (policy, expected) in [(Policy::Fifo, [0, 1, 2, 3]), (Policy::Lifo, [3, 2, 1, 0])] {
        let admission = admission(policy, 1, 1);
        let holder = admission.session();
        holder.enter().unwrap();
        let turns: [AtomicU32; 4] = Default::default();
        let turn = AtomicU32::new(0);
        thread::scope(|scope| {
            for n in 0..4u32 {
                let (admission, turns, turn) = (&admission, &turns, &turn);
                scope.spawn(move || {
                    let session = admission.session();
                    let _slot = session.slot().unwrap();
                    turns[turn.fetch_add(1, Ordering::SeqCst) as usize].store(n, Ordering::SeqCst);
                });
                until_queued(admission, n + 1);
            }
            holder.exit();
        });
        assert_eq!(turns.map(AtomicU32::into_inner), expected, "{policy}");
        assert_drained(&admission.snapshot());
    }
}

#[test]
fn flifo_lets_a_newcomer_in_exactly_while_a_woken_thread_is_pending() {
    use crate::core::{Core, Entered, Joined, Wake};
    let core = Core::new(Policy::Flifo, 1, 2);
    let node = crate::queue::Node::new();
    let enter = || core.try_enter(core.state(), Caller::NEWCOMER);
    assert!(enter().is_some());
    assert!(enter().is_none(), "the limit is reached and nobody is pending");
    let request = Request::of_nobody();
    assert!(matches!(core.join(&node, request, (Caller::NEWCOMER, End::Back), 0).0, Joined::Queued(_)));
    assert!(core.try_leave(core.state()).is_none());
    let (Wake::Granted(mut woken), _) =
        core.leave_and_wake(Leaver { in_quantum: false, holds_locks: false }, &|| false, &|| 0)
    else {
        panic!("the head must be woken")
    };
    assert!(woken.pop_front().is_some_and(|woken| Arc::ptr_eq(&woken, &node)));
    let (how, _) = enter().expect("the woken thread does not run yet");
    assert_eq!(how, Entered::Lifo);
    assert!(enter().is_none(), "T - P = L again");
    core.started();
    assert_eq!((core.state().places(), core.state().pending()), (2, 0));
    assert!(core.try_leave(core.state()).is_some(), "repays the overshoot");
    assert!(core.try_leave(core.state()).is_some());
    assert_eq!(core.state().places(), 0);
}

#[test]
fn a_wait_gives_the_place_up_and_its_end_never_blocks() {
    let admission = admission(Policy::Fifo, 1, 10);
    let (first, second) = (admission.session(), admission.session());
    first.enter().unwrap();
    first.wait_begin(WaitKind::RowLock);
    first.wait_begin(WaitKind::Disk);
    second.enter().unwrap(); // Would block if the place were still out.
    first.wait_end(WaitKind::Disk);
    assert!(!first.is_running(), "the outer wait goes on");
    first.wait_end(WaitKind::RowLock);
    assert!(first.is_running());
    assert_eq!(admission.snapshot().running, 2, "forced in past the limit");
    first.enter().unwrap(); // The one ticket.
    second.exit();
    first.exit();
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.admitted_by_force, snapshot.running_max), (1, 2));
    assert_drained(&snapshot);
}

#[test]
fn a_long_wait_for_a_row_lock_keeps_nobody_out() {
    let config = Config {
        policy: Policy::Flifo,
        thread_concurrency: half(processors()) + 1,
        lock_waiters_max: 1,
        stall_limit: None,
        ..Config::default()
    };
    let admission = Admission::new(config).unwrap();
    let (waits, comes) = (admission.session(), admission.session());
    let run: Vec<_> = (0..half(processors())).map(|_| admission.session()).collect();
    waits.enter().unwrap();
    waits.wait_begin(WaitKind::RowLock);
    run.iter().for_each(|session| session.enter().unwrap());
    let soon = std::time::Instant::now() + std::time::Duration::from_millis(20);
    assert_eq!(comes.enter_until(soon), Err(crate::Refused::Timeout), "enough run");
    waits.mark_wait_long();
    waits.mark_wait_long();
    assert_eq!(admission.snapshot().lock_waiters, 0);
    comes.enter().unwrap();
    waits.wait_end(WaitKind::RowLock);
    run.iter().chain([&waits, &comes]).for_each(Session::exit);
    assert_drained(&admission.snapshot());
}

#[test]
fn a_wait_outside_the_mask_keeps_the_place() {
    let admission = Admission::new(Config {
        thread_concurrency: 1,
        wait_mask: WaitMask::ALL.without(WaitKind::Disk),
        ..Config::default()
    })
    .unwrap();
    let session = admission.session();
    session.enter().unwrap();
    session.wait_begin(WaitKind::Disk);
    assert!(session.is_running());
    session.wait_begin(WaitKind::RowLock);
    assert!(!session.is_running(), "the inner wait's kind is in the mask");
    session.wait_end(WaitKind::RowLock);
    assert!(session.is_running());
    session.wait_end(WaitKind::Disk);
    session.exit();
    assert_drained(&admission.snapshot());
}

#[test]
fn misuse_does_no_harm() {
    let admission = admission(Policy::Flifo, 2, 4);
    let session = admission.session();
    session.exit();
    session.wait_end(WaitKind::User);
    session.wait_begin(WaitKind::User);
    session.wait_end(WaitKind::User);
    session.enter().unwrap();
    session.wait_begin(WaitKind::User);
    session.exit(); // The statement was killed inside its wait.
    session.wait_end(WaitKind::User);
    assert!(!session.is_running(), "the end of the wait must not bring back what exit gave up");
    session.enter().unwrap();
    drop(session);
    assert_drained(&admission.snapshot());
}

/// Many threads under one policy: every statement runs, the bound on threads running holds, and at the end
/// nothing is out.
fn storm(policy: Policy, threads: u32, statements: u32) {
    const LIMIT: u32 = 3;
    let admission = admission(policy, LIMIT, 4);
    let (running, running_max) = (AtomicU32::new(0), AtomicU32::new(0));
    let done = AtomicU64::new(0);
    let statement = |session: &Session, n: u32| {
        let _slot = session.slot().unwrap();
        (0..n % 7).for_each(|_| session.enter().unwrap());
        if n.is_multiple_of(5) {
            session.wait_begin(WaitKind::Disk);
            thread::yield_now();
            session.wait_end(WaitKind::Disk);
        } else {
            running_max.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            if n.is_multiple_of(3) {
                thread::yield_now();
            }
            running.fetch_sub(1, Ordering::SeqCst);
        }
        done.fetch_add(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        for offset in 0..threads {
            let (admission, statement) = (&admission, &statement);
            scope.spawn(move || {
                let session = admission.session();
                (0..statements).for_each(|n| statement(&session, n + offset));
            });
        }
    });
    let snapshot = admission.snapshot();
    assert_drained(&snapshot);
    assert_eq!(done.into_inner(), u64::from(threads * statements), "{policy}");
    // Forced entries add to the limit, at most one for each thread.
    let lenient = matches!(policy, Policy::Flifo | Policy::Lease | Policy::Quantum);
    let bound = if lenient { 2 * LIMIT } else { LIMIT } + threads;
    if policy != Policy::None {
        assert!(running_max.into_inner() <= bound && snapshot.running_max <= bound, "{policy}");
        assert_eq!(snapshot.queued_ns.iter().map(|b| b.count()).sum::<u64>(), snapshot.admitted_from_queue);
    }
}

#[test]
fn a_storm_under_every_policy_ends_drained() {
    for policy in Policy::ALL {
        // Polling sleeps 10 ms at a time at first: fewer statements there.
        let statements = if policy == Policy::Sleep { 20 } else { 300 };
        let (threads, statements) = if cfg!(miri) { (4, 8) } else { (32, statements) };
        storm(policy, threads, statements);
    }
}

#[test]
fn a_snapshot_difference_counts_what_happened_between() {
    let admission = admission(Policy::Fifo, 1, 1);
    let session = admission.session();
    drop(session.slot().unwrap());
    let earlier = admission.snapshot();
    (0..5).for_each(|_| drop(session.slot().unwrap()));
    assert_eq!(admission.snapshot().since(&earlier).admitted_at_once, 5);
}

#[test]
fn one_place_in_64_is_timed_whether_sessions_live_long_or_short() {
    let timed = |snapshot: Snapshot| snapshot.running_ns.iter().map(|b| b.count()).sum::<u64>();
    let one = admission(Policy::Fifo, 1, 1);
    let session = one.session();
    (0..640).for_each(|_| drop(session.slot().unwrap()));
    assert_eq!(timed(one.snapshot()), 10);
    let many = admission(Policy::Fifo, 1, 1);
    (0..640).for_each(|_| drop(many.session().slot().unwrap()));
    assert_eq!(timed(many.snapshot()), 10);
}

#[test]
fn impossible_configurations_say_what_is_allowed() {
    let message = |config: Config| Admission::new(config).err().map(|error| error.to_string());
    let too_high = Config { thread_concurrency: 1024, ..Config::default() };
    assert_eq!(message(too_high).unwrap(), "thread_concurrency 1024 is too high: at most 1023");
    let no_ticket = Config { concurrency_tickets: 0, ..Config::default() };
    assert_eq!(message(no_ticket).unwrap(), "concurrency_tickets must be at least 1");
    assert!("fliffo".parse::<Policy>().unwrap_err().to_string().contains("unknown policy 'fliffo'"));
    assert!(Policy::ALL.iter().all(|policy| policy.name().parse() == Ok(*policy)));
}

#[test]
fn a_limit_that_finds_itself_begins_between_its_bounds() {
    use crate::AutoLimit;
    let auto = Some(AutoLimit { floor: 2, ceiling: 6 });
    for (thread_concurrency, begins) in [(0, 2), (1, 2), (4, 4), (9, 6)] {
        let config = Config { thread_concurrency, watchdog: false, ..Config::default() };
        let admission = Admission::new(config).unwrap();
        admission.reconfigure(Config { auto, ..admission.config() }).unwrap();
        assert_eq!(admission.thread_concurrency(), begins, "from {thread_concurrency}");
        assert_eq!(admission.config().thread_concurrency, thread_concurrency);
    }
}

#[test]
fn a_limit_that_finds_itself_stays_between_its_bounds() {
    use crate::AutoLimit;
    use std::time::{Duration, Instant};
    let admission = Admission::new(Config {
        policy: Policy::Fifo,
        thread_concurrency: 4,
        auto: Some(AutoLimit { floor: 2, ceiling: 6 }),
        watchdog: false,
        ..Config::default()
    })
    .unwrap();
    let done = AtomicU32::new(0);
    let mut seen = vec![];
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let session = admission.session();
                while done.load(Ordering::Relaxed) == 0 {
                    let _slot = session.slot().unwrap();
                    thread::yield_now();
                }
            });
        }
        // Its time is what it is told.
        let begin = Instant::now();
        let mut steps = 0;
        while steps < 20_000 && seen.iter().all(|limit| *limit == 4) {
            admission.step(begin + Duration::from_millis(10 * steps));
            seen.push(admission.thread_concurrency());
            steps += 1;
            thread::yield_now();
        }
        // What the user did not change stays with the controller.
        admission.reconfigure(Config { concurrency_tickets: 7, ..admission.config() }).unwrap();
        assert_eq!(Some(admission.thread_concurrency()), seen.last().copied());
        done.store(1, Ordering::Relaxed);
    });
    assert!(seen.iter().all(|limit| (2..=6).contains(limit)), "{seen:?}");
    assert_ne!(seen.last(), Some(&4), "it never tried another limit");
    // What the user sets holds, also if that is what was set before.
    for (set, holds) in [(4, 4), (0, 2)] {
        admission.set_thread_concurrency(set).unwrap();
        assert_eq!(admission.thread_concurrency(), holds);
    }
    assert_drained(&admission.snapshot());
}
