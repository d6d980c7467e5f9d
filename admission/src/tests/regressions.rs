//! One test for each mistake that was found in this scheduler and is not shown elsewhere.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::tasks::{admission, admission_with, inside, is_in};
use super::{assert_drained, until_queued};
use crate::core::{Core, Joined, Wake};
use crate::queue::{Node, Request};
use crate::rule::End;
use crate::rule::Leaver;
use crate::state::{Caller, LIMIT_MAX};
use crate::{Class, Config, Policy, Refused, Session, WaitKind};

const REQUEST: Request = Request::of_nobody();

fn join(core: &Core, node: &Arc<Node>) {
    let (joined, wake) = core.join(node, REQUEST, (Caller::NEWCOMER, End::Back), 0);
    assert!(matches!((joined, wake), (Joined::Queued(_), Wake::Nobody)));
}

/// Those summoned under one policy, and those handed places under the next, are pending together.
#[test]
#[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
fn as_many_can_be_pending_as_two_policies_wake() {
    let core = Core::new(Policy::Summon, LIMIT_MAX, 1);
    let nodes: Vec<_> = (0..2 * LIMIT_MAX).map(|_| Node::new()).collect();
    let (summoned, granted) = nodes.split_at(LIMIT_MAX as usize);
    let fill = || while core.try_enter(core.state(), Caller::NEWCOMER).is_some() {};
    let leave =
        || drop(core.leave_and_wake(Leaver { in_quantum: false, holds_locks: false }, &|| true, &|| 0));
    fill();
    summoned.iter().for_each(|node| join(&core, node));
    for _ in summoned {
        leave();
        fill();
    }
    drop(core.set_rule(Policy::Fifo, LIMIT_MAX, 0));
    granted.iter().for_each(|node| join(&core, node));
    granted.iter().for_each(|_| leave());
    let state = core.state();
    assert_eq!((state.pending(), state.places(), state.queued()), (2 * LIMIT_MAX, LIMIT_MAX, 0));
    assert_eq!((state.policy(), state.limit()), (Policy::Fifo, LIMIT_MAX));
    let one_more = Node::new();
    join(&core, &one_more);
    assert!(matches!(core.break_stall(0), Wake::Nobody), "the field is full");
    assert!(core.withdraw(&one_more));
    nodes.iter().for_each(|_| _ = core.started());
    assert_eq!((core.state().pending(), core.state().places()), (0, LIMIT_MAX));
}

/// The ends of waits do not overtake each other, nor a holder of locks: some that wait again and again, such as those that
/// stream a result, would keep it out for ever.
#[test]
fn the_end_of_a_wait_does_not_overtake_a_holder_of_locks() {
    for policy in [Policy::Fifo, Policy::Lifo, Policy::Flifo, Policy::Lease, Policy::Quantum] {
        let admission = admission(policy, 1);
        let streams = inside(&admission);
        streams.wait_begin(WaitKind::Network);
        let runs = inside(&admission);
        let (mut holder, mut newcomer) = (admission.session(), admission.session());
        holder.set_class(Class::First);
        let mut newcomer = Box::pin(newcomer.enter_async());
        let mut holder_enters = Box::pin(holder.enter_async());
        assert!(!is_in(newcomer.as_mut()) && !is_in(holder_enters.as_mut()));
        let comes_back = thread::spawn(move || {
            streams.wait_end_may_queue(WaitKind::Network).unwrap();
            streams
        });
        until_queued(&admission, 3);
        runs.exit();
        assert!(is_in(holder_enters.as_mut()), "{policy}: it came first");
        drop(holder_enters);
        holder.exit();
        let streams = comes_back.join().unwrap();
        assert!(!is_in(newcomer.as_mut()), "{policy}: the end of a wait goes before it");
        streams.exit();
        assert!(is_in(newcomer.as_mut()), "{policy}");
    }
}

#[test]
fn a_new_session_enters_by_lifo_under_flifo() {
    let admission = admission(Policy::Flifo, 1);
    let holder = inside(&admission);
    let mut sessions = [admission.session(), admission.session()];
    let mut entries: Vec<_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
    entries.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
    holder.exit();
    let newcomer = admission.session();
    assert!(newcomer.try_enter(), "the woken one does not run yet");
    assert_eq!(admission.snapshot().admitted_by_barging, 1);
    assert!(is_in(entries[0].as_mut()));
}

#[test]
fn a_deadline_holds_after_a_verdict_that_brought_no_place() {
    let admission = admission(Policy::Fifo, 1);
    let _holder = inside(&admission);
    let (outcome, asked) = mpsc::channel();
    let waiter = admission.session();
    let thread = thread::spawn(move || {
        let _ = outcome.send(waiter.enter_until(Instant::now() + Duration::from_millis(10)));
    });
    // It is told to try again, but so slowly that its deadline passes before it hears of it.
    while admission.snapshot().queued == 0 {
        if let Ok(outcome) = asked.try_recv() {
            return assert_eq!(outcome, Err(Refused::Timeout)); // It was faster: nothing is shown.
        }
    }
    let (wake, _) = admission.core.set_rule(Policy::Lifo, 1, 0);
    thread::sleep(Duration::from_millis(30));
    admission.wake(wake);
    let outcome = asked.recv_timeout(Duration::from_secs(20)).expect("it waits without a deadline");
    assert_eq!(outcome, Err(Refused::Timeout));
    thread.join().unwrap();
}

#[test]
fn a_cancellation_ends_one_queueing_only() {
    let core = Core::new(Policy::Fifo, 1, 1);
    assert!(core.try_enter(core.state(), Caller::NEWCOMER).is_some());
    let node = Node::new();
    join(&core, &node);
    // The canceller is late: the session has obeyed, and has come again.
    assert!(!core.withdraw_cancelled(&node));
    assert_eq!(core.state().queued(), 1);
    node.cancelled.store(true, crate::sync::Ordering::Release);
    assert!(core.withdraw_cancelled(&node));
    assert_eq!(core.state().queued(), 0);
}

#[test]
fn a_stall_is_broken_under_every_policy() {
    for policy in super::tasks::QUEUEING {
        let admission = admission_with(Config { policy, thread_concurrency: 1, ..Config::default() });
        let _stuck = inside(&admission);
        let mut session = admission.session();
        let mut entry = Box::pin(session.enter_async());
        assert!(!is_in(entry.as_mut()));
        let now = Instant::now();
        admission.step(now);
        admission.step(now + Duration::from_secs(1));
        assert_eq!(admission.snapshot().stalls_broken, 1, "{policy}");
        assert!(is_in(entry.as_mut()), "{policy}");
    }
}

/// As when the task that was woken last is never polled: those behind it get in all the same.
#[test]
fn a_stall_is_broken_while_a_woken_task_does_not_run() {
    for policy in super::tasks::QUEUEING {
        let admission = admission_with(Config { policy, thread_concurrency: 1, ..Config::default() });
        let holder = inside(&admission);
        let (mut asleep, mut next) = (admission.session(), admission.session());
        let (mut asleep, mut next) = (Box::pin(asleep.enter_async()), Box::pin(next.enter_async()));
        assert!(!is_in(asleep.as_mut()) && !is_in(next.as_mut()));
        if policy == Policy::Lifo {
            std::mem::swap(&mut asleep, &mut next);
        }
        holder.exit();
        let now = Instant::now();
        (0..3).for_each(|second| admission.step(now + Duration::from_secs(second)));
        assert!(is_in(next.as_mut()), "{policy}");
    }
}

/// Those who came past the limit leave one by one, and hand nothing on.
#[test]
fn no_stall_is_broken_while_an_overshoot_is_repaid() {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
    let admission = admission_with(Config { stall_limit: Some(Duration::from_millis(100)), ..config });
    let crowd: Vec<_> = (0..20).map(|_| admission.session()).collect();
    crowd.iter().for_each(Session::enter_forced);
    let mut waiter = admission.session();
    let mut entry = Box::pin(waiter.enter_async());
    assert!(!is_in(entry.as_mut()));
    let mut now = Instant::now();
    for session in &crowd[1..] {
        admission.step(now);
        session.exit();
        now += Duration::from_millis(20);
    }
    admission.step(now);
    assert_eq!(admission.snapshot().stalls_broken, 0);
    assert!(!is_in(entry.as_mut()));
    admission.step(now + Duration::from_secs(1));
    assert!(is_in(entry.as_mut()), "the last one does not leave");
}

#[test]
fn a_shorter_stall_time_holds_at_once() {
    let hour = Duration::from_secs(3600);
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
    let admission = admission_with(Config { stall_limit: Some(hour), ..config });
    let _stuck = inside(&admission);
    let mut session = admission.session();
    let mut entry = Box::pin(session.enter_async());
    assert!(!is_in(entry.as_mut()));
    let now = Instant::now();
    admission.step(now);
    let stall_limit = Some(Duration::from_millis(100));
    admission.reconfigure(Config { stall_limit, ..admission.config() }).unwrap();
    admission.step(now + Duration::from_secs(1));
    assert!(is_in(entry.as_mut()));
}

#[test]
fn a_stall_time_beyond_the_clock_is_never_over() {
    let stall_limit = Some(Duration::from_nanos(u64::MAX) + Duration::from_nanos(1));
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
    let admission = admission_with(Config { stall_limit, ..config });
    let _stuck = inside(&admission);
    let mut session = admission.session();
    let mut entry = Box::pin(session.enter_async());
    assert!(!is_in(entry.as_mut()));
    let now = Instant::now();
    (0..3).for_each(|second| admission.step(now + Duration::from_secs(second)));
    assert!(!is_in(entry.as_mut()));
}

#[test]
fn a_shorter_lease_holds_at_once() {
    let hour = Duration::from_secs(3600);
    let admission = admission_with(Config { lease: hour, ..Config::default() });
    let now_ns = 2 * hour.as_nanos() as u64;
    assert!(admission.settings.lease_over(now_ns));
    assert!(!admission.settings.lease_over(now_ns + 1000));
    admission.reconfigure(Config { lease: Duration::from_nanos(1000), ..admission.config() }).unwrap();
    assert!(admission.settings.lease_over(now_ns + 1000));
    assert!(!admission.settings.lease_over(now_ns + 1999));
    assert!(admission.settings.lease_over(now_ns + 2000));
}

#[test]
fn a_tenant_of_another_scheduler_does_no_harm() {
    let (other, admission) = (admission(Policy::Fifo, 1), admission(Policy::Fifo, 1));
    (0..5).for_each(|_| _ = other.tenant(1.0).unwrap());
    let holder = inside(&admission);
    let mut session = admission.session();
    session.set_tenant(other.tenant(1.0).unwrap());
    let mut entry = Box::pin(session.enter_async());
    assert!(!is_in(entry.as_mut()));
    holder.exit();
    assert!(is_in(entry.as_mut()));
    drop(entry);
    drop((session, holder));
    assert_drained(&admission.snapshot());
}

#[test]
fn a_change_of_the_limit_does_not_undo_another_change() {
    let admission = admission(Policy::Fifo, 1);
    for n in 0..if cfg!(miri) { 3 } else { 100u32 } {
        thread::scope(|scope| {
            scope.spawn(|| (1..20).for_each(|limit| admission.set_thread_concurrency(limit).unwrap()));
            let config = Config { queue_limit: n + 1, ..admission.config() };
            admission.reconfigure(config).unwrap();
        });
        assert_eq!(admission.config().queue_limit, n + 1);
    }
}

/// What the queue timeout has used up while a session polled stays used up when the policy changes.
#[test]
#[cfg_attr(miri, ignore = "it must be seen while it polls, and an interpreter is too slow for that")]
fn one_that_polled_when_the_policy_changed_is_served_or_refused() {
    let admission = admission_with(Config {
        policy: Policy::Sleep,
        thread_concurrency: 1,
        // Long enough for it to be seen while it polls.
        queue_timeout: Some(Duration::from_secs(1)),
        ..Config::default()
    });
    let _holder = inside(&admission);
    thread::scope(|scope| {
        let poller = scope.spawn(|| admission.session().enter());
        until_queued(&admission, 1);
        admission.reconfigure(Config { policy: Policy::Fifo, ..admission.config() }).unwrap();
        assert_eq!(poller.join().unwrap(), Err(Refused::Timeout));
    });
}

/// As when four reports are inside for long, and a dump that sends its result beside them.
#[test]
fn one_that_waits_again_and_again_past_the_limit_hides_no_stall() {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
    let admission = admission_with(Config { stall_limit: Some(Duration::from_millis(100)), ..config });
    let (_stuck, dump) = (inside(&admission), admission.session());
    dump.enter_forced();
    let mut waiter = admission.session();
    let mut entry = Box::pin(waiter.enter_async());
    assert!(!is_in(entry.as_mut()));
    let mut now = Instant::now();
    for _ in 0..40 {
        dump.wait_begin(WaitKind::Network);
        admission.step(now);
        dump.wait_end(WaitKind::Network);
        admission.step(now + Duration::from_millis(5));
        now += Duration::from_millis(10);
    }
    assert!(admission.snapshot().stalls_broken >= 1);
    assert!(is_in(entry.as_mut()));
}

#[test]
fn reads_come_in_past_the_limit_up_to_so_many_while_nobody_queues() {
    let admission = admission(Policy::Quantum, 1);
    let holder = inside(&admission);
    let [reads, more, mut writes] = std::array::from_fn(|_| admission.session());
    assert!(!reads.try_enter_below(1));
    assert!(reads.try_enter_below(2) && reads.is_running());
    assert!(!more.try_enter_below(2));
    let mut entry = Box::pin(writes.enter_async());
    assert!(!is_in(entry.as_mut()));
    assert!(!more.try_enter_below(9), "somebody queues");
    reads.exit();
    assert!(!is_in(entry.as_mut()), "the overshoot is repaid");
    holder.exit_ending_slice();
    assert!(is_in(entry.as_mut()));
    let end = admission.snapshot();
    assert_eq!((end.running, end.queued, end.admitted_by_force), (1, 0, 1));
}

/// Else a limit that lets them in as newcomers seems to do more.
#[test]
fn an_entry_past_the_limit_is_work_whether_there_is_a_place_or_not() {
    let admission = admission(Policy::Fifo, 1);
    let (_inside, session) = (inside(&admission), admission.session());
    let work_of_one = || {
        let before = admission.metrics.work_done().0;
        drop(session.slot_forced());
        admission.metrics.work_done().0 - before
    };
    let without_a_place = work_of_one();
    admission.set_thread_concurrency(2).unwrap();
    assert_eq!((without_a_place, work_of_one()), (1, 1));
    session.enter().unwrap();
    let before = admission.metrics.work_done().0;
    session.wait_begin(WaitKind::Disk);
    session.wait_end(WaitKind::Disk);
    assert_eq!(admission.metrics.work_done().0, before, "the end of a wait begins nothing");
}

#[test]
fn who_is_summoned_is_pending() {
    let admission = admission(Policy::Summon, 1);
    let holder = inside(&admission);
    let mut session = admission.session();
    let mut entry = Box::pin(session.enter_async());
    assert!(!is_in(entry.as_mut()));
    holder.exit();
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.pending, snapshot.pending_max), (1, 1));
}

#[test]
fn a_step_at_the_end_of_time_does_no_harm() {
    let auto = Some(crate::AutoLimit { floor: 1, ceiling: 4 });
    let admission = admission_with(Config { auto, thread_concurrency: 1, ..Config::default() });
    let _stuck = inside(&admission);
    let mut session = admission.session();
    let mut entry = Box::pin(session.enter_async());
    assert!(!is_in(entry.as_mut()));
    (0..3).for_each(|n| admission.step(Instant::now() + Duration::from_secs(1 << 35) * n));
    assert_eq!(admission.snapshot().stalls_broken, 1);
}

/// As when the limit is set in the middle of a pile-up.
#[test]
fn one_that_came_in_without_a_limit_asks_when_its_tickets_run_out() {
    let admission = admission(Policy::Fifo, 0);
    let mut scan = inside(&admission);
    assert!(is_in(Box::pin(scan.enter_async()).as_mut()), "there is no limit still");
    admission.set_thread_concurrency(1).unwrap();
    let newcomer = inside(&admission);
    let mut waiter = admission.session();
    let mut waits = Box::pin(waiter.enter_async());
    assert!(!is_in(waits.as_mut()));
    let mut goes_on = Box::pin(scan.enter_async());
    assert!(!is_in(goes_on.as_mut()));
    newcomer.exit();
    assert!(is_in(waits.as_mut()), "it came first");
    drop(waits);
    waiter.exit();
    assert!(is_in(goes_on.as_mut()));
}
