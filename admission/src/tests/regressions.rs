//! One test for each mistake that was found in this scheduler and that no other test shows.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::tasks::{admission, admission_with, is_in, running};
use super::{LEAVES, assert_drained, until_queued};
use crate::gate::queue::{Node, Request};
use crate::gate::waiters::End;
use crate::gate::word::{Caller, LIMIT_MAX, PENDING_MAX};
use crate::gate::{Gate, Joined, Wake};
use crate::{Config, Policy, Refused, WaitKind};

fn join(gate: &Gate, node: &Arc<Node>) {
    let (joined, wake) = gate.join(node, Request::plain(), (Caller::NEWCOMER, End::Back), 0);
    assert!(matches!((joined, wake), (Joined::Queued(_), Wake::Nobody)));
}

/// The stall breaker stops before P overflows its field.
#[test]
#[cfg_attr(miri, ignore = "it shows arithmetic, and takes minutes there")]
fn p_does_not_overflow_however_many_stalls_are_broken() {
    let gate = Gate::new(Policy::Fifo, LIMIT_MAX, 1);
    let nodes: Vec<_> = (0..PENDING_MAX).map(|_| Node::new()).collect();
    let (handed_off, above_limit) = nodes.split_at(LIMIT_MAX as usize);
    while gate.try_enter(gate.word(), Caller::NEWCOMER).is_some() {}
    nodes.iter().for_each(|node| join(&gate, node));
    handed_off.iter().for_each(|_| drop(gate.exit_and_wake(LEAVES, &|| 0)));
    let word = gate.word();
    assert_eq!((word.slots(), word.pending()), (LIMIT_MAX, LIMIT_MAX));
    above_limit.iter().for_each(|_| assert!(matches!(gate.break_stall(0), Wake::Granted(_))));
    let word = gate.word();
    assert_eq!((word.slots(), word.pending(), word.queued()), (PENDING_MAX, PENDING_MAX, 0));
    assert_eq!((word.policy(), word.limit()), (Policy::Fifo, LIMIT_MAX));
    let one_more = Node::new();
    join(&gate, &one_more);
    assert!(matches!(gate.break_stall(0), Wake::Nobody), "the field is full");
    assert!(gate.withdraw(&one_more));
    nodes.iter().for_each(|_| _ = gate.start());
    assert_eq!((gate.word().pending(), gate.word().slots()), (0, PENDING_MAX));
}

#[test]
fn a_new_session_barges_under_flifo() {
    let admission = admission(Policy::Flifo, 1);
    let holder = running(&admission);
    let mut sessions = [admission.session(), admission.session()];
    let mut entries: Vec<_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
    entries.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
    holder.exit();
    let newcomer = admission.session();
    assert!(newcomer.try_enter(), "the woken session does not run yet");
    assert_eq!(admission.snapshot().admitted_by_barging, 1);
    assert!(is_in(entries[0].as_mut()));
}

#[test]
fn a_deadline_holds_after_a_verdict_that_brought_no_slot() {
    let admission = admission(Policy::Fifo, 1);
    let _holder = running(&admission);
    let (outcome, asked) = mpsc::channel();
    let waiter = admission.session();
    let thread = thread::spawn(move || {
        let _ = outcome.send(waiter.enter_until(Instant::now() + Duration::from_millis(10)));
    });
    // The session is sent to try again, but its deadline passes before it is woken.
    while admission.snapshot().queued == 0 {
        if let Ok(outcome) = asked.try_recv() {
            return assert_eq!(outcome, Err(Refused::Timeout)); // It was faster: nothing is shown.
        }
    }
    let wake = admission.gate.set_rule(Policy::Flifo, 1, 0);
    thread::sleep(Duration::from_millis(30));
    admission.wake(wake);
    let outcome = asked.recv_timeout(Duration::from_secs(20)).expect("it waits without a deadline");
    assert_eq!(outcome, Err(Refused::Timeout));
    thread.join().unwrap();
}

/// A session that is sent back into the queue by a change of the policy keeps its deadline.
#[test]
fn a_change_of_policy_does_not_extend_a_queue_timeout() {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, ..Config::default() };
    let timeout = Duration::from_millis(200);
    let admission = admission_with(Config { queue_timeout: Some(timeout), stall_limit: None, ..config });
    let _holder = running(&admission);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let began = Instant::now();
            (admission.session().enter(), began.elapsed())
        });
        until_queued(&admission, 1);
        for policy in [Policy::Flifo, Policy::Quantum, Policy::Fifo] {
            thread::sleep(timeout / 8);
            admission.reconfigure(Config { policy, queue_timeout: None, ..admission.config() }).unwrap();
        }
        let (outcome, took) = waiter.join().unwrap();
        assert_eq!(outcome, Err(Refused::Timeout));
        assert!(took >= timeout);
    });
}

#[test]
fn a_cancellation_ends_one_queueing_only() {
    let gate = Gate::new(Policy::Fifo, 1, 1);
    assert!(gate.try_enter(gate.word(), Caller::NEWCOMER).is_some());
    let node = Node::new();
    join(&gate, &node);
    // The canceller is late: the session has obeyed, and has queued again.
    assert!(!gate.withdraw_cancelled(&node));
    assert_eq!(gate.word().queued(), 1);
    node.cancelled.store(true, crate::sync::Ordering::Release);
    assert!(gate.withdraw_cancelled(&node));
    assert_eq!(gate.word().queued(), 0);
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

/// Otherwise a limit that admits forced entries as newcomers seems to do more work.
#[test]
fn a_forced_entry_is_work_whether_a_slot_is_free_or_not() {
    let admission = admission(Policy::Fifo, 1);
    let (_running, session) = (running(&admission), admission.session());
    let work_of_one = || {
        let before = admission.metrics.work().begun;
        drop(session.slot_forced());
        admission.metrics.work().begun - before
    };
    let without_a_free_slot = work_of_one();
    admission.set_thread_concurrency(2).unwrap();
    assert_eq!((without_a_free_slot, work_of_one()), (1, 1));
    session.enter().unwrap();
    let before = admission.metrics.work().begun;
    session.wait_begin(WaitKind::Disk);
    session.wait_end(WaitKind::Disk);
    assert_eq!(admission.metrics.work().begun, before, "the end of a wait begins nothing");
}

#[test]
fn a_session_that_was_handed_a_slot_is_pending() {
    let admission = admission(Policy::Fifo, 1);
    let holder = running(&admission);
    let mut session = admission.session();
    let mut entry = Box::pin(session.enter_async());
    assert!(!is_in(entry.as_mut()));
    holder.exit();
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.pending, snapshot.pending_max), (1, 1));
}

#[test]
fn a_step_at_the_end_of_time_does_no_harm() {
    let admission = admission_with(Config { auto: false, thread_concurrency: 1, ..Config::default() });
    let _stuck = running(&admission);
    let mut session = admission.session();
    let mut entry = Box::pin(session.enter_async());
    assert!(!is_in(entry.as_mut()));
    (0..3).for_each(|n| admission.step(Instant::now() + Duration::from_secs(1 << 35) * n));
    assert_eq!(admission.snapshot().slots_reclaimed, 1);
    assert!(is_in(entry.as_mut()));
}

/// As when the limit is set in the middle of a pile-up.
#[test]
fn a_session_that_came_in_without_a_limit_queues_when_its_tickets_run_out() {
    let admission = admission(Policy::Fifo, 0);
    let mut scan = running(&admission);
    assert!(is_in(Box::pin(scan.enter_async()).as_mut()), "there is no limit still");
    admission.set_thread_concurrency(1).unwrap();
    let newcomer = running(&admission);
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
    drop(goes_on);
    drop((scan, waiter, newcomer));
    assert_drained(&admission.snapshot());
}

/// An exit without a limit releases nothing, also if there is a limit by then.
#[test]
fn a_session_that_came_in_without_a_limit_has_nothing_to_release() {
    for ends in ["exit", "exit_ending_slice", "wait", "drop"] {
        let admission = admission(Policy::Fifo, 0);
        let uncounted = running(&admission);
        admission.set_thread_concurrency(1).unwrap();
        let counted = running(&admission);
        match ends {
            "exit" => uncounted.exit(),
            "exit_ending_slice" => uncounted.exit_ending_slice(),
            "wait" => uncounted.wait_begin(WaitKind::User),
            _ => drop(uncounted),
        }
        assert_eq!(admission.snapshot().running, 1, "{ends}");
        assert!(!admission.session().try_enter(), "{ends}: the limit is reached");
        drop(counted);
        assert_drained(&admission.snapshot());
    }
}
