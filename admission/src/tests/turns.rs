//! Turns under [`Policy::Quantum`]: what a session keeps when it leaves, and what it does not.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::tasks::{admission_with, inside, is_in, poll};
use crate::config::processors;
use crate::kept::Kept;
use crate::turn::TRANSACTION_QUANTA;
use crate::{Admission, Class, Config, Policy, Refused, Session, WaitKind};

/// A scheduler with all places out: those of some sessions that stay, of one more, and of one whose turn has begun.
fn in_its_turn(quantum: Duration) -> (Arc<Admission>, Vec<Session>, Session, Session) {
    in_its_turn_with(quantum, |_| {})
}

/// The same, of a scheduler that is told something more before it has sessions.
fn in_its_turn_with(
    quantum: Duration,
    tell: fn(&mut Admission),
) -> (Arc<Admission>, Vec<Session>, Session, Session) {
    // One more than processors: an exit within a turn may give its place back.
    let limit = processors() + 1;
    let config = Config {
        policy: Policy::Quantum,
        thread_concurrency: limit,
        quantum,
        stall_limit: None,
        ..Config::default()
    };
    let mut admission = admission_with(config);
    tell(Arc::get_mut(&mut admission).expect("nobody has it yet"));
    let others: Vec<_> = (2..limit).map(|_| inside(&admission)).collect();
    let (holder, mut session) = (inside(&admission), inside(&admission));
    let [mut first, mut second] = std::array::from_fn(|_| admission.session());
    let mut first_enters = Box::pin(first.enter_async());
    let mut second_enters = Box::pin(second.enter_async());
    assert!(!is_in(first_enters.as_mut()) && !is_in(second_enters.as_mut()));
    session.exit();
    assert!(is_in(first_enters.as_mut()), "nothing is known of it yet, so it handed on");
    let mut comes_back = Box::pin(session.enter_async());
    assert!(!is_in(comes_back.as_mut()), "it comes back at once, and queues");
    holder.exit();
    assert!(is_in(second_enters.as_mut()));
    drop((first_enters, second_enters));
    first.exit();
    assert!(is_in(comes_back.as_mut()), "its turn begins");
    drop(comes_back);
    (admission, others, second, session)
}

#[test]
fn a_wait_for_a_disk_takes_nothing_from_a_turn() {
    const QUANTUM: Duration = Duration::from_millis(200);
    let (admission, _others, second, session) = in_its_turn(QUANTUM);
    let [mut third, mut fourth] = std::array::from_fn(|_| admission.session());
    let mut third_enters = Box::pin(third.enter_async());
    assert!(!is_in(third_enters.as_mut()));
    session.wait_begin(WaitKind::Disk);
    assert!(is_in(third_enters.as_mut()), "the place is handed on for the time of the wait");
    let mut fourth_enters = Box::pin(fourth.enter_async());
    assert!(!is_in(fourth_enters.as_mut()));
    std::thread::sleep(QUANTUM);
    session.wait_end(WaitKind::Disk);
    second.exit(); // Repays what the wait's end has taken past the limit.
    session.exit();
    assert!(!is_in(fourth_enters.as_mut()), "its turn goes on, so it gave its place back");
    assert!(session.try_enter());
}

/// A holder of locks queues, and has the place of one that leaves.
fn makes_way_for(session: &Session, holder: &mut Session) {
    holder.set_class(Class::First);
    let mut enters = Box::pin(holder.enter_async());
    assert!(!is_in(enters.as_mut()));
    session.exit();
    assert!(is_in(enters.as_mut()));
}

/// A holder of locks has its place when it comes back: it is the next, and the time in the queue is none of its turn.
#[test]
fn who_finds_its_place_taken_in_its_turn_goes_on_with_it() {
    const QUANTUM: Duration = Duration::from_secs(1);
    const MORE_THAN_HALF: Duration = Duration::from_millis(600);
    let (admission, _others, second, mut session) = in_its_turn(QUANTUM);
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
            "it is before those who wait for a turn"
        );
    }
    assert_eq!(admission.snapshot().resumed_wait().map(|times| times.count), Some(1));
    session.exit();
    assert!(!is_in(third.as_mut()), "it is in its turn still");
    assert!(session.try_enter());
    std::thread::sleep(MORE_THAN_HALF);
    session.exit();
    assert!(is_in(third.as_mut()), "it has no whole one");
    assert_eq!(
        admission.snapshot().resumed_wait().map(|times| times.count),
        Some(1),
        "the third queued for a turn of its own"
    );
}

/// With its turn it has lost its place before the others, and neither is to be counted as if it had not.
#[test]
fn who_is_told_to_ask_again_has_lost_its_turn() {
    let (admission, _others, second, mut session) = in_its_turn(Duration::from_secs(3600));
    let mut holder = admission.session();
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    makes_way_for(&session, &mut holder);
    let mut comes_back = Box::pin(session.enter_async());
    assert!(!is_in(comes_back.as_mut()));
    admission.reconfigure(Config { policy: Policy::Broadcast, ..admission.config() }).unwrap();
    second.exit_ending_slice();
    assert!(is_in(comes_back.as_mut()));
    assert_eq!(admission.snapshot().resumed_wait(), None);
}

/// One whose turn has begun within a transaction, and whether another that has queued since is in.
fn in_a_transaction(quantum: Duration, then: impl FnOnce(Session, &mut dyn FnMut() -> bool)) {
    let (admission, _others, _second, session) = in_its_turn(quantum);
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    let mut is_third_in = || is_in(third.as_mut());
    assert!(!is_third_in());
    session.set_in_transaction(true);
    then(session, &mut is_third_in);
}

/// One that is cut in two waits for two turns.
#[test]
fn a_turn_goes_on_until_the_transaction_is_over() {
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

/// Else who was away for a while before it begins a transaction has a turn of one statement.
#[test]
fn who_begins_a_transaction_is_known_to_come_back() {
    let quantum = Duration::from_secs(3600);
    let admission = admission_with(Config { thread_concurrency: 1, quantum, ..Config::default() });
    for (in_transaction, goes_on) in [(false, false), (true, true)] {
        let (first, [mut session, mut other]) =
            (inside(&admission), std::array::from_fn(|_| admission.session()));
        let mut entry = Box::pin(session.enter_async());
        assert!(!is_in(entry.as_mut()));
        first.exit();
        assert!(is_in(entry.as_mut()));
        drop(entry);
        let mut others = Box::pin(other.enter_async());
        assert!(!is_in(others.as_mut()));
        admission.anticipate(|| true, admission.metrics.now_ns());
        session.set_in_transaction(in_transaction);
        session.exit();
        assert_eq!(!is_in(others.as_mut()), goes_on);
        session.exit_ending_slice();
        assert!(is_in(others.as_mut()));
    }
}

/// It may never end.
#[test]
fn a_turn_within_a_transaction_is_over_at_last() {
    const QUANTUM: Duration = Duration::from_millis(100);
    in_a_transaction(QUANTUM, |session, is_third_in| {
        std::thread::sleep(TRANSACTION_QUANTA as u32 * QUANTUM);
        session.exit();
        assert!(is_third_in());
    });
}

/// Two would have it by turns of one statement each, before all others.
#[test]
fn with_one_place_who_finds_it_taken_waits_behind_the_others() {
    let quantum = Duration::from_secs(3600);
    let admission = admission_with(Config { thread_concurrency: 1, quantum, ..Config::default() });
    let mut session = inside(&admission);
    session.turn.loops_since(admission.metrics.now_ns());
    let [mut third, mut holder] = std::array::from_fn(|_| admission.session());
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    makes_way_for(&session, &mut holder);
    let mut comes_back = Box::pin(session.enter_async());
    assert!(!is_in(comes_back.as_mut()));
    holder.exit_ending_slice();
    assert!(is_in(third.as_mut()) && !is_in(comes_back.as_mut()));
}

/// In its turn a session has come back from a wait, another has the place, and one more queues; it has left again. What its entry
/// finds then.
fn enters_after_a_wait(kind: WaitKind, quantum: Duration, then: impl FnOnce(&Arc<Admission>)) -> bool {
    let (admission, _others, _second, session) = in_its_turn(quantum);
    let [mut third, mut fourth] = std::array::from_fn(|_| admission.session());
    let (mut third, mut fourth) = (Box::pin(third.enter_async()), Box::pin(fourth.enter_async()));
    assert!(!is_in(third.as_mut()));
    session.wait_begin(kind);
    assert!(is_in(third.as_mut()) && !is_in(fourth.as_mut()));
    session.wait_end(kind);
    let limit = admission.core.state().limit();
    session.exit();
    assert!(!is_in(fourth.as_mut()), "it repays what it took past the limit");
    assert_eq!(admission.core.state().places(), limit);
    then(&admission);
    let enters = session.try_enter();
    assert_eq!(admission.core.state().places(), limit + u32::from(enters));
    if enters {
        session.exit_ending_slice();
        assert!(!session.try_enter(), "its turn is over");
    }
    enters
}

/// The place it gave up is another's, whose turn has begun: without that it would queue at its next entry.
#[test]
fn after_a_wait_for_a_disk_a_turn_goes_on_past_the_limit() {
    const LONG: Duration = Duration::from_secs(1000);
    assert!(enters_after_a_wait(WaitKind::Disk, LONG, |_| {}));
    assert!(!enters_after_a_wait(WaitKind::Network, LONG, |_| {}), "only for a disk");
    let closes = |admission: &Arc<Admission>| {
        let config = Config { tau: Some(Duration::from_secs(1)), ..admission.config() };
        admission.reconfigure(config).unwrap();
        admission.step(Instant::now() + Duration::from_secs(10));
    };
    assert!(!enters_after_a_wait(WaitKind::Disk, LONG, closes), "somebody waits too long");
    // Nobody has ended the turn: its exit was before.
    const SHORT: Duration = Duration::from_millis(300);
    assert!(!enters_after_a_wait(WaitKind::Disk, SHORT, |_| std::thread::sleep(SHORT)), "the turn is over");
}

#[test]
fn a_turn_does_not_go_on_past_the_limit_before_a_holder_of_locks() {
    let (admission, _others, _second, session) = in_its_turn(Duration::from_secs(1000));
    let [mut third, mut holder] = std::array::from_fn(|_| admission.session());
    holder.set_class(Class::First);
    let (mut third, mut holder) = (Box::pin(third.enter_async()), Box::pin(holder.enter_async()));
    assert!(!is_in(third.as_mut()));
    session.wait_begin(WaitKind::Disk);
    assert!(is_in(third.as_mut()) && !is_in(holder.as_mut()));
    session.wait_end(WaitKind::Disk);
    session.exit();
    assert!(!session.try_enter());
}

/// Where the end of a wait may queue, what it brings back is within the limit, and so is the rest of the turn.
#[test]
fn the_end_of_a_wait_that_may_queue_keeps_to_the_limit() {
    let (admission, _others, second, session) = in_its_turn(Duration::from_secs(1000));
    let mut sessions: [Session; 3] = std::array::from_fn(|_| admission.session());
    let [mut third, mut fourth, mut fifth] =
        sessions.each_mut().map(|session| Box::pin(session.enter_async()));
    assert!(!is_in(third.as_mut()));
    session.wait_begin(WaitKind::Disk);
    assert!(is_in(third.as_mut()) && !is_in(fourth.as_mut()) && !is_in(fifth.as_mut()));
    session.wait_end(WaitKind::Disk);
    session.wait_begin(WaitKind::Sleep);
    second.exit();
    assert!(is_in(fourth.as_mut()), "the overshoot was repaid, and the place handed on");
    let limit = admission.core.state().limit();
    let config = Config { queue_timeout: Some(Duration::from_millis(20)), ..admission.config() };
    admission.reconfigure(config).unwrap();
    assert_eq!(session.wait_end_may_queue(WaitKind::Sleep), Err(Refused::Timeout));
    assert_eq!(admission.core.state().places(), limit);
}

/// Its place stays with the processor, so that no other session's next step fails for it.
#[test]
fn within_its_turn_neither_exit_nor_entry_writes_the_word() {
    let (admission, _others, _second, session) = in_its_turn(Duration::from_secs(1000));
    let mut third = admission.session();
    let mut third_enters = Box::pin(third.enter_async());
    assert!(!is_in(third_enters.as_mut()));
    let before = admission.core.state();
    session.exit();
    assert_eq!((admission.core.state(), admission.core.kept.count()), (before, 1));
    assert!(session.try_enter());
    assert_eq!((admission.core.state(), admission.core.kept.count()), (before, 0));
}

/// Within its turn an exit may give the place back, and nobody has it until the session returns.
#[test]
fn who_leaves_for_good_hands_on_within_its_turn_too() {
    for for_good in [false, true] {
        let (admission, _others, _second, session) = in_its_turn(Duration::from_secs(1000));
        let mut third = admission.session();
        let mut third_enters = Box::pin(third.enter_async());
        assert!(!is_in(third_enters.as_mut()));
        if for_good {
            session.exit_ending_slice()
        } else {
            session.exit()
        }
        assert_eq!(is_in(third_enters.as_mut()), for_good);
    }
}

/// Whatever was left of its turn: else it could come and leave so again and again, and never spend it.
#[test]
fn who_has_left_for_good_overtakes_nobody_within_its_turn() {
    for in_a_wait in [false, true] {
        let (admission, _others, _second, session) = in_its_turn(Duration::from_secs(1000));
        let (mut third, mut fourth) = (admission.session(), admission.session());
        let (mut third, mut fourth) = (Box::pin(third.enter_async()), Box::pin(fourth.enter_async()));
        assert!(!is_in(third.as_mut()) && !is_in(fourth.as_mut()));
        while admission.overtaking.is_allowed() {
            admission.overtaking.used();
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

/// Nor does its turn begin whose entry is cancelled when it has a place already.
#[test]
fn who_was_cancelled_overtakes_nobody() {
    let (admission, _others, second, mut session) = in_its_turn(Duration::from_secs(1000));
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

/// Within its turn an exit may give the place back, and nobody has it until the session returns.
#[test]
fn try_enter_out_of_tickets_leaves_its_place_to_the_queue_within_its_turn_too() {
    for class in [Class::Normal, Class::First] {
        let (admission, _others, _second, session) = in_its_turn(Duration::from_secs(1000));
        session.set_class(class);
        let mut third = admission.session();
        let mut third = Box::pin(third.enter_async());
        assert!(!is_in(third.as_mut()));
        assert!(!session.try_enter());
        assert!(is_in(third.as_mut()), "{class:?}");
    }
}

#[test]
fn who_is_refused_by_a_full_queue_leaves_its_place_to_it_within_its_turn_too() {
    let (admission, _others, _second, session) = in_its_turn(Duration::from_secs(1000));
    let mut third = admission.session();
    let mut third = Box::pin(third.enter_async());
    assert!(!is_in(third.as_mut()));
    admission.reconfigure(Config { queue_limit: 1, ..admission.config() }).unwrap();
    assert_eq!(session.enter(), Err(Refused::QueueFull));
    assert!(is_in(third.as_mut()));
}

/// Nobody comes back to what it left for its next entry.
#[test]
fn a_session_that_ends_within_its_turn_leaves_its_place_to_the_queue() {
    for inside in [true, false] {
        let (admission, _others, _second, session) = in_its_turn(Duration::from_secs(1000));
        let mut third = admission.session();
        let mut third = Box::pin(third.enter_async());
        assert!(!is_in(third.as_mut()));
        if !inside {
            session.exit();
            assert!(!is_in(third.as_mut()), "it is expected to come back");
        }
        drop(session);
        assert!(is_in(third.as_mut()), "running: {inside}");
    }
}

/// One who waits too long closes the gate, also for the one that has left within its turn: its place is with its processor, or
/// was given back, as where that keeps another place already.
#[test]
fn what_was_left_within_a_turn_goes_to_the_queue_when_the_gate_closes() {
    let tell: [fn(&mut Admission); 2] = [|_| {}, |admission| admission.core.kept = Kept::nothing()];
    for tell in tell {
        let (admission, _others, _second, session) = in_its_turn_with(Duration::from_secs(1000), tell);
        admission.reconfigure(Config { tau: Some(Duration::from_secs(1)), ..admission.config() }).unwrap();
        let mut third = admission.session();
        let mut third = Box::pin(third.enter_async());
        assert!(!is_in(third.as_mut()));
        session.exit();
        assert!(!is_in(third.as_mut()), "it is expected to come back");
        admission.step(Instant::now());
        assert!(!is_in(third.as_mut()), "it still is");
        admission.step(Instant::now() + Duration::from_secs(10));
        assert!(is_in(third.as_mut()));
    }
}
