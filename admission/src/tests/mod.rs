//! The scheduler as threads see it. The modules below test tasks, time slices, stalls, the optional mechanisms and corner cases.

mod auto;
mod defects;
mod deficits;
mod global_lock;
#[cfg(feature = "percpu")]
mod percpu;
mod regressions;
#[cfg(feature = "reservation")]
mod reservation;
mod share;
mod slices;
mod stalls;
mod starvation;
mod state;
mod tasks;
mod timeouts;
mod virtual_time;
mod wakers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::cpus;
use crate::gate::queue::{Node, Request};
use crate::gate::waiters::End;
use crate::gate::word::Caller;
use crate::gate::{Entered, Gate, Joined, Leaver, Wake};
use crate::{Admission, Config, Policy, Refused, Session, Snapshot, WaitKind, WaitMask};

/// An exit that ends the time slice, of a session without locks.
const LEAVES: Leaver = Leaver { in_slice: false, holds_locks: false };

fn admission(policy: Policy, thread_concurrency: u32, concurrency_tickets: u32) -> Arc<Admission> {
    // On a busy machine a test can be slower than any stall limit.
    let config = Config { stall_limit: None, ..Config::default() };
    Admission::new(Config { policy, thread_concurrency, concurrency_tickets, ..config }).unwrap()
}

fn assert_drained(snapshot: &Snapshot) {
    assert_eq!((snapshot.running, snapshot.pending, snapshot.queued), (0, 0, 0), "{snapshot}");
    assert_eq!((snapshot.disk_waits, snapshot.lock_waiters), (0, 0), "{snapshot}");
}

/// Waits until `queued` threads are in the queue.
fn until_queued(admission: &Admission, queued: u32) {
    while admission.snapshot().queued != queued {
        thread::yield_now();
    }
}

/// Slots that congestion leaves to sessions without locks.
fn spare() -> u32 {
    (cpus() / 2).max(1)
}

/// Sets a flag when it is dropped, so that the loops of a test end also when an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn tickets_are_entries_on_one_slot() {
    let admission = admission(Policy::Fifo, 1, 3);
    let session = admission.session();
    (0..7).for_each(|_| session.enter().unwrap());
    session.exit();
    session.exit();
    let snapshot = admission.snapshot();
    // Entries 1, 4 and 7 acquire a slot or renew the tickets; the others use a ticket.
    assert_eq!((snapshot.admitted_at_once, snapshot.admitted_by_ticket), (3, 4));
    assert_drained(&snapshot);
}

#[test]
fn a_forced_entry_exceeds_the_limit_and_the_exits_repay_it() {
    let admission = admission(Policy::Fifo, 1, 2);
    let [waiter, holder] = [(); 2].map(|()| admission.session());
    waiter.enter().unwrap();
    (0..3).for_each(|_| holder.enter_forced());
    let snapshot = admission.snapshot();
    assert_eq!(
        (snapshot.running, snapshot.admitted_by_force, snapshot.admitted_by_ticket),
        (2, 1, 1),
        "the third entry renewed the tickets"
    );
    assert_eq!(snapshot.entries(), 4, "each is counted");
    thread::scope(|scope| {
        scope.spawn(|| admission.session().enter().unwrap());
        until_queued(&admission, 1);
        holder.exit();
        assert_eq!(admission.snapshot().queued, 1, "the exit repays and hands nothing off");
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
        holder.enter().unwrap(); // The second ticket: the slot stays.
        assert_eq!(admission.snapshot().queued, 1);
        holder.enter().unwrap(); // Hands off, and is back once the other session has left.
        assert!(admission.snapshot().handed_off >= 1);
    });
    drop(holder);
    assert_drained(&admission.snapshot());
}

#[test]
fn under_fifo_waiters_are_served_in_order() {
    let admission = admission(Policy::Fifo, 1, 1);
    let holder = admission.session();
    holder.enter().unwrap();
    let (order, served): ([AtomicU32; 4], AtomicU32) = Default::default();
    thread::scope(|scope| {
        for n in 0..4u32 {
            let (admission, order, served) = (&admission, &order, &served);
            scope.spawn(move || {
                let session = admission.session();
                let _slot = session.slot().unwrap();
                order[served.fetch_add(1, Ordering::SeqCst) as usize].store(n, Ordering::SeqCst);
            });
            until_queued(admission, n + 1);
        }
        holder.exit();
    });
    assert_eq!(order.map(AtomicU32::into_inner), [0, 1, 2, 3]);
    assert_drained(&admission.snapshot());
}

#[test]
fn flifo_admits_a_newcomer_exactly_while_a_woken_thread_is_pending() {
    let gate = Gate::new(Policy::Flifo, 1, 2);
    let node = Node::new();
    let enter = || gate.try_enter(gate.word(), Caller::NEWCOMER);
    assert!(enter().is_some());
    assert!(enter().is_none(), "the limit is reached and no thread is pending");
    let (joined, _) = gate.join(&node, Request::plain(), (Caller::NEWCOMER, End::Back), 0);
    assert!(matches!(joined, Joined::Queued(_)));
    assert!(gate.try_exit(gate.word()).is_none());
    let (Wake::Granted(mut woken), _) = gate.exit_and_wake(LEAVES, &|| 0) else {
        panic!("the head must be woken")
    };
    assert!(woken.pop_front().is_some_and(|woken| Arc::ptr_eq(&woken, &node)));
    let (how, _) = enter().expect("the woken thread does not run yet");
    assert_eq!(how, Entered::Barging);
    assert!(enter().is_none(), "T - P = L again");
    gate.start();
    assert_eq!((gate.word().slots(), gate.word().pending()), (2, 0));
    assert!(gate.try_exit(gate.word()).is_some(), "repays the overshoot");
    assert!(gate.try_exit(gate.word()).is_some());
    assert_eq!(gate.word().slots(), 0);
}

#[test]
fn a_wait_releases_the_slot_and_its_end_never_blocks() {
    let admission = admission(Policy::Fifo, 1, 10);
    let (first, second) = (admission.session(), admission.session());
    first.enter().unwrap();
    first.wait_begin(WaitKind::RowLock);
    first.wait_begin(WaitKind::Disk);
    second.enter().unwrap(); // Would block if the slot were still out.
    first.wait_end(WaitKind::Disk);
    assert!(!first.is_running(), "the outer wait goes on");
    first.wait_end(WaitKind::RowLock);
    assert!(first.is_running());
    assert_eq!(admission.snapshot().running, 2, "a forced entry above the limit");
    first.enter().unwrap(); // The one ticket.
    second.exit();
    first.exit();
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.admitted_by_force, snapshot.running_max), (1, 2));
    assert_drained(&snapshot);
}

#[test]
fn a_row_lock_wait_marked_long_keeps_nobody_out() {
    let config = Config {
        policy: Policy::Flifo,
        thread_concurrency: spare() + 1,
        lock_waiters_max: 1,
        stall_limit: None,
        ..Config::default()
    };
    let admission = Admission::new(config).unwrap();
    let (waits, comes) = (admission.session(), admission.session());
    let run: Vec<_> = (0..spare()).map(|_| admission.session()).collect();
    waits.enter().unwrap();
    waits.wait_begin(WaitKind::RowLock);
    run.iter().for_each(|session| session.enter().unwrap());
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(comes.enter_until(soon), Err(Refused::Timeout), "congestion: enough sessions run");
    waits.mark_wait_long();
    waits.mark_wait_long();
    assert_eq!(admission.snapshot().lock_waiters, 0);
    comes.enter().unwrap();
    waits.wait_end(WaitKind::RowLock);
    run.iter().chain([&waits, &comes]).for_each(Session::exit);
    assert_drained(&admission.snapshot());
}

#[test]
fn a_wait_that_is_not_in_the_mask_keeps_the_slot() {
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
fn io_depth_bounds_the_disk_waits_that_release_their_slots() {
    let config = Config { thread_concurrency: 4, io_depth: 2, stall_limit: None, ..Config::default() };
    let admission = Admission::new(config).unwrap();
    let sessions: [Session; 4] = std::array::from_fn(|_| admission.session());
    sessions.iter().for_each(|session| session.enter().unwrap());
    let [first, second, third, network] = &sessions;
    [first, second, third].iter().for_each(|session| session.wait_begin(WaitKind::Disk));
    network.wait_begin(WaitKind::Network);
    assert_eq!(sessions.each_ref().map(Session::is_running), [false, false, true, false]);
    assert_eq!((admission.snapshot().disk_waits, admission.snapshot().running), (2, 1));
    first.wait_end(WaitKind::Disk);
    network.wait_end(WaitKind::Network);
    network.wait_begin(WaitKind::Disk);
    assert!(!network.is_running(), "one of two disk waits has ended");
    admission.reconfigure(Config { io_depth: 0, ..admission.config() }).unwrap();
    first.wait_begin(WaitKind::Disk);
    assert!(!first.is_running(), "0 is no bound");
    [first, second, third, network].iter().for_each(|session| session.wait_end(WaitKind::Disk));
    sessions.iter().for_each(Session::exit);
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
    assert!(!session.is_running(), "the end of the wait must not bring back what the exit released");
    session.enter().unwrap();
    drop(session);
    assert_drained(&admission.snapshot());
}

/// Many threads under one policy: every statement runs, the bound on running threads holds, and at the end no slot is out.
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
    let barges = matches!(policy, Policy::Flifo | Policy::Quantum);
    let bound = if barges { 2 * LIMIT } else { LIMIT } + threads;
    if policy != Policy::None {
        assert!(running_max.into_inner() <= bound && snapshot.running_max <= bound, "{policy}");
        assert_eq!(snapshot.queued_ns.iter().map(|b| b.count()).sum::<u64>(), snapshot.admitted_from_queue);
    }
}

#[test]
fn a_storm_under_every_policy_ends_drained() {
    for policy in Policy::ALL {
        let (threads, statements) = if cfg!(miri) { (4, 8) } else { (32, 300) };
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
fn one_stay_in_64_is_timed_whether_sessions_live_long_or_short() {
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
    let no_time = Config { stall_limit: Some(Duration::ZERO), ..Config::default() };
    assert_eq!(message(no_time).unwrap(), "stall_limit must be longer than 0");
    let no_slice = Config { quantum: Duration::ZERO, ..Config::default() };
    assert_eq!(message(no_slice).unwrap(), "quantum must be longer than 0");
    let no_limit = Config { auto: true, thread_concurrency: 0, ..Config::default() };
    let auto = "auto needs a thread_concurrency of at least 1, the limit to apply while it pays";
    assert_eq!(message(no_limit).unwrap(), auto);
    let unknown = "fliffo".parse::<Policy>().unwrap_err().to_string();
    assert_eq!(unknown, "unknown policy 'fliffo': use one of none, fifo, flifo, quantum");
    assert!(Policy::ALL.iter().all(|policy| policy.name().parse() == Ok(*policy)));
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let admission = admission(Policy::Fifo, 1, 1);
    let before = admission.config();
    let impossible = Config { thread_concurrency: 7, concurrency_tickets: 0, ..before.clone() };
    assert!(admission.reconfigure(impossible).is_err());
    assert!(admission.set_thread_concurrency(1024).is_err());
    assert_eq!((admission.config(), admission.thread_concurrency()), (before, 1));
}
