//! Time slices under [`Policy::Quantum`]: what a session keeps when it leaves, and what it loses.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use super::tasks::{admission_with, is_in, poll, running};
use crate::config::cpus;
use crate::quantum::slice::TRANSACTION_QUANTA;
use crate::{Admission, Class, Config, Policy, Refused, Session, WaitKind};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(1000);

/// A scheduler with all slots out: those of some sessions that stay, of a further session, and of one whose slice has begun.
fn in_its_slice(quantum: Duration) -> (Arc<Admission>, Vec<Session>, Session, Session) {
    // One more than CPUs: an exit within a slice may release its slot.
    let limit = cpus() + 1;
    let config = Config {
        policy: Policy::Quantum,
        thread_concurrency: limit,
        quantum,
        stall_limit: None,
        ..Config::default()
    };
    let admission = admission_with(config);
    let others: Vec<_> = (2..limit).map(|_| running(&admission)).collect();
    let (holder, mut session) = (running(&admission), running(&admission));
    let [mut first, mut second] = std::array::from_fn(|_| admission.session());
    let mut first_enters = Box::pin(first.enter_async());
    let mut second_enters = Box::pin(second.enter_async());
    assert!(!is_in(first_enters.as_mut()) && !is_in(second_enters.as_mut()));
    session.exit();
    assert!(is_in(first_enters.as_mut()), "nothing is known of it yet, so it handed off");
    let mut comes_back = Box::pin(session.enter_async());
    assert!(!is_in(comes_back.as_mut()), "it comes back at once, and queues");
    holder.exit();
    assert!(is_in(second_enters.as_mut()));
    drop((first_enters, second_enters));
    first.exit();
    assert!(is_in(comes_back.as_mut()), "its slice begins");
    drop(comes_back);
    (admission, others, second, session)
}

#[test]
fn a_disk_wait_takes_nothing_from_a_slice() {
    const QUANTUM: Duration = Duration::from_millis(200);
    let (admission, _others, second, session) = in_its_slice(QUANTUM);
    let [mut third, mut fourth] = std::array::from_fn(|_| admission.session());
    let mut third_enters = Box::pin(third.enter_async());
    assert!(!is_in(third_enters.as_mut()));
    session.wait_begin(WaitKind::Disk);
    assert!(is_in(third_enters.as_mut()), "the slot is handed off for the time of the wait");
    let mut fourth_enters = Box::pin(fourth.enter_async());
    assert!(!is_in(fourth_enters.as_mut()));
    std::thread::sleep(QUANTUM);
    session.wait_end(WaitKind::Disk);
    second.exit(); // Repays the forced entry at the wait's end.
    session.exit();
    assert!(!is_in(fourth_enters.as_mut()), "its slice goes on, so it released its slot");
    assert!(session.try_enter());
}

/// A lock holder queues, and gets the slot of a session that leaves.
fn makes_way_for(session: &Session, holder: &mut Session) {
    holder.set_class(Class::First);
    let mut enters = Box::pin(holder.enter_async());
    assert!(!is_in(enters.as_mut()));
    session.exit();
    assert!(is_in(enters.as_mut()));
}

/// A lock holder has its slot when the session comes back: the session is the next, and the time in the queue is no time of its slice.
#[test]
fn a_session_that_finds_its_slot_taken_resumes_its_slice() {
    const QUANTUM: Duration = Duration::from_secs(1);
    const MORE_THAN_HALF: Duration = Duration::from_millis(600);
    let (admission, _others, second, mut session) = in_its_slice(QUANTUM);
    let [mut third, mut holder] = std::array::from_fn(|_| admission.session());
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    std::thread::sleep(MORE_THAN_HALF);
    makes_way_for(&session, &mut holder);
    {
        let mut comes_back = Box::pin(session.enter_async());
        assert!(!is_in(comes_back.as_mut()));
        std::thread::sleep(QUANTUM);
        second.exit_ending_slice();
        assert!(
            is_in(comes_back.as_mut()) && !is_in(third.as_mut()),
            "it goes before those that wait for a slice"
        );
    }
    assert_eq!(admission.snapshot().resumed_wait().map(|times| times.count), Some(1));
    session.exit();
    assert!(!is_in(third.as_mut()), "its slice goes on");
    assert!(session.try_enter());
    std::thread::sleep(MORE_THAN_HALF);
    session.exit();
    assert!(is_in(third.as_mut()), "what was left of the slice is over");
    assert_eq!(
        admission.snapshot().resumed_wait().map(|times| times.count),
        Some(1),
        "the third queued for a slice of its own"
    );
}

/// With its slice it has lost its position before the others, and its wait is not counted as that of a resumed slice.
#[test]
fn a_session_sent_to_try_again_has_lost_its_slice() {
    let (admission, _others, second, mut session) = in_its_slice(LONG);
    let mut holder = admission.session();
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    makes_way_for(&session, &mut holder);
    let mut comes_back = Box::pin(session.enter_async());
    assert!(!is_in(comes_back.as_mut()));
    admission.reconfigure(Config { policy: Policy::Flifo, ..admission.config() }).unwrap();
    // Each tries again when it is polled.
    assert!(!is_in(third.as_mut()) && !is_in(comes_back.as_mut()));
    second.exit_ending_slice();
    assert!(is_in(third.as_mut()) && !is_in(comes_back.as_mut()));
    holder.exit();
    assert!(is_in(comes_back.as_mut()));
    assert_eq!(admission.snapshot().resumed_wait(), None);
}

/// A session whose slice has begun within a transaction, and whether a further session that queues is in.
fn in_a_transaction(quantum: Duration, then: impl FnOnce(Session, &mut dyn FnMut() -> bool)) {
    let (admission, _others, _second, session) = in_its_slice(quantum);
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    let mut is_third_in = || is_in(third.as_mut());
    assert!(!is_third_in());
    session.set_in_transaction(true);
    then(session, &mut is_third_in);
}

/// A transaction that is cut in two waits for two slices.
#[test]
fn a_slice_goes_on_until_the_transaction_is_over() {
    const QUANTUM: Duration = Duration::from_millis(500);
    in_a_transaction(QUANTUM, |session, is_third_in| {
        std::thread::sleep(QUANTUM);
        session.exit();
        assert!(!is_third_in() && session.try_enter(), "it comes back within the transaction");
        session.set_in_transaction(false);
        session.exit();
        assert!(is_third_in(), "the transaction is over, and so is the quantum");
    });
}

/// The transaction may never end.
#[test]
fn a_slice_within_a_transaction_is_over_at_last() {
    const QUANTUM: Duration = Duration::from_millis(100);
    in_a_transaction(QUANTUM, |session, is_third_in| {
        std::thread::sleep(TRANSACTION_QUANTA as u32 * QUANTUM);
        session.exit();
        assert!(is_third_in());
    });
}

/// Two sessions would alternate on it, one statement each, before all others.
#[test]
fn with_one_slot_no_slice_is_resumed() {
    let config = Config { thread_concurrency: 1, quantum: LONG, stall_limit: None, ..Config::default() };
    let admission = admission_with(config);
    let mut session = running(&admission);
    session.slice.begin_back_to_back(admission.metrics.now_ns());
    let [mut third, mut holder] = std::array::from_fn(|_| admission.session());
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    makes_way_for(&session, &mut holder);
    let mut comes_back = Box::pin(session.enter_async());
    assert!(!is_in(comes_back.as_mut()));
    holder.exit_ending_slice();
    assert!(is_in(third.as_mut()) && !is_in(comes_back.as_mut()));
}

/// The slot that the wait released is another session's, whose slice has begun.
#[test]
fn after_a_wait_a_slice_keeps_to_the_limit() {
    for kind in [WaitKind::Disk, WaitKind::Network] {
        let (admission, _others, second, session) = in_its_slice(LONG);
        let mut waiters: [Session; 3] = std::array::from_fn(|_| admission.session());
        let [mut third, mut fourth, mut holder] = waiters.each_mut().map(|waiter| {
            let mut entry = Box::pin(waiter.enter_async());
            assert!(!is_in(entry.as_mut()));
            entry
        });
        session.wait_begin(kind);
        assert!(is_in(third.as_mut()));
        session.wait_end(kind);
        let limit = admission.gate.word().limit();
        assert_eq!(admission.gate.word().slots(), limit + 1, "the forced entry at the wait's end");
        session.exit();
        assert!(!is_in(fourth.as_mut()), "the exit repays that");
        assert!(!session.try_enter(), "no slot is free");
        assert_eq!(admission.gate.word().slots(), limit);
        second.exit_ending_slice();
        assert!(is_in(fourth.as_mut()) && !is_in(holder.as_mut()), "in order");
    }
}

/// Within its slice an exit may release the slot, and nobody gets it until the session returns.
#[test]
fn exit_ending_slice_hands_off_within_the_slice_too() {
    for ends_slice in [false, true] {
        let (admission, _others, _second, session) = in_its_slice(LONG);
        let mut third = admission.session();
        let mut third_enters = Box::pin(third.enter_async());
        assert!(!is_in(third_enters.as_mut()));
        if ends_slice {
            session.exit_ending_slice()
        } else {
            session.exit()
        }
        assert_eq!(is_in(third_enters.as_mut()), ends_slice);
    }
}

/// Enough sessions must run on, or their exits would not hand off.
#[test]
fn an_exit_within_a_slice_hands_off_where_too_few_sessions_run() {
    let (admission, others, second, session) = in_its_slice(LONG);
    let mut third = admission.session();
    let mut third_enters = Box::pin(third.enter_async());
    admission.set_thread_concurrency(1).unwrap();
    // All but one of the others leave, above the limit.
    others.iter().for_each(Session::exit_ending_slice);
    second.exit_ending_slice();
    assert!(!is_in(third_enters.as_mut()));
    assert_eq!(admission.gate.word().slots(), 1);
    session.exit();
    assert!(is_in(third_enters.as_mut()), "it had the last slot");
}

/// Whatever was left of its slice: otherwise it could come and leave that way again and again, and never use the slice up.
#[test]
fn an_ended_slice_passes_nobody() {
    for in_a_wait in [false, true] {
        let (admission, _others, _second, session) = in_its_slice(LONG);
        let (mut third, mut fourth) = (admission.session(), admission.session());
        let (mut third, mut fourth) = (Box::pin(third.enter_async()), Box::pin(fourth.enter_async()));
        assert!(!is_in(third.as_mut()) && !is_in(fourth.as_mut()));
        while admission.barging.is_allowed() {
            admission.barging.on_barge();
        }
        if in_a_wait {
            session.wait_begin(WaitKind::Disk);
            session.exit();
        } else {
            session.exit_ending_slice();
        }
        assert!(!session.try_enter(), "in a wait: {in_a_wait}");
        assert!(is_in(third.as_mut()), "in a wait: {in_a_wait}");
    }
}

/// Nor does a slice begin for an entry that is cancelled when it has a slot already.
#[test]
fn a_cancelled_entry_passes_nobody() {
    let (admission, _others, second, mut session) = in_its_slice(LONG);
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    session.exit_ending_slice();
    assert!(is_in(third.as_mut()));
    let canceller = session.canceller();
    let mut comes_back = Box::pin(session.enter_async());
    let (mut fourth, mut fifth) = (admission.session(), admission.session());
    let (mut fourth, mut fifth) = (Box::pin(fourth.enter_async()), Box::pin(fifth.enter_async()));
    assert!(!is_in(comes_back.as_mut()) && !is_in(fourth.as_mut()) && !is_in(fifth.as_mut()));
    second.exit();
    canceller.cancel();
    assert_eq!(poll(comes_back.as_mut()), Poll::Ready(Err(Refused::Cancelled)));
    drop(comes_back);
    assert!(!session.try_enter());
    assert!(is_in(fourth.as_mut()));
}

/// Within its slice an exit may release the slot, and nobody gets it until the session returns.
#[test]
fn try_enter_out_of_tickets_hands_off_within_the_slice_too() {
    for class in [Class::Normal, Class::First] {
        let (admission, _others, _second, session) = in_its_slice(LONG);
        session.set_class(class);
        let mut third = admission.session();
        let mut third = Box::pin(third.enter_async());
        assert!(!is_in(third.as_mut()));
        assert!(!session.try_enter());
        assert!(is_in(third.as_mut()), "{class:?}");
    }
}

#[test]
fn an_entry_refused_by_a_full_queue_hands_off_within_the_slice_too() {
    let (admission, _others, _second, session) = in_its_slice(LONG);
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    admission.reconfigure(Config { queue_limit: 1, ..admission.config() }).unwrap();
    session.exit();
    assert!(!is_in(third.as_mut()), "the slot waits for the session");
    assert_eq!(admission.session().enter(), Err(Refused::QueueFull));
    assert!(is_in(third.as_mut()));
}

/// Otherwise what its statement has done would be lost.
#[test]
fn a_session_out_of_tickets_queues_also_if_the_queue_is_full() {
    let (admission, _others, second, mut session) = in_its_slice(LONG);
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    admission.reconfigure(Config { queue_limit: 1, ..admission.config() }).unwrap();
    let mut goes_on = Box::pin(session.enter_async());
    assert_eq!(poll(goes_on.as_mut()), Poll::Pending);
    assert_eq!(admission.snapshot().queued, 1, "and lets the others go first");
    assert!(is_in(third.as_mut()));
    second.exit_ending_slice();
    assert!(is_in(goes_on.as_mut()));
}

/// No session comes back to the slot that it left for its next entry.
#[test]
fn a_session_dropped_within_its_slice_leaves_its_slot_to_the_queue() {
    for is_running in [true, false] {
        let (admission, _others, _second, session) = in_its_slice(LONG);
        let mut third = admission.session();
        let mut third = Box::pin(third.enter_async());
        assert!(!is_in(third.as_mut()));
        if !is_running {
            session.exit();
            assert!(!is_in(third.as_mut()), "it is expected to come back");
        }
        drop(session);
        assert!(is_in(third.as_mut()), "running: {is_running}");
    }
}

/// A reclaimed slot ends the slice: a session that runs on without a slot was longer on it than any slice.
#[test]
fn a_reclaimed_slot_ends_the_slice() {
    let (admission, _others, _second, session) = in_its_slice(LONG);
    let limit = Duration::from_millis(100);
    admission.reconfigure(Config { stall_limit: Some(limit), ..admission.config() }).unwrap();
    // A new stay, which is published.
    session.exit();
    assert!(session.try_enter());
    let [mut third, mut fourth] = std::array::from_fn(|_| admission.session());
    let (mut third, mut fourth) = (Box::pin(third.enter_async()), Box::pin(fourth.enter_async()));
    assert!(!is_in(third.as_mut()) && !is_in(fourth.as_mut()));
    while admission.barging.is_allowed() {
        admission.barging.on_barge();
    }
    let now_ns = admission.metrics.now_ns();
    assert_eq!(admission.metrics.reclaim(0, now_ns), 0, "seen for the first time");
    assert_eq!(admission.metrics.reclaim(0, now_ns), 1);
    admission.release_for().call();
    assert!(is_in(third.as_mut()));
    session.exit();
    assert!(!session.slice.has_begun());
    assert!(!session.try_enter() && !is_in(fourth.as_mut()));
}
