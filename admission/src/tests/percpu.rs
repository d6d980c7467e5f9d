//! Slots kept by CPUs ([`crate::extra::percpu`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::tasks::{QUEUEING, admission, admission_with, congestible, is_in, running};
use super::{LEAVES, assert_drained, until_queued};
use crate::config::cpus;
use crate::extra::percpu::Slots;
use crate::gate::queue::{Node, Request};
use crate::gate::waiters::End;
use crate::gate::word::{Caller, SET_ASIDE_MAX};
use crate::gate::{Entered, Gate, Joined, Wake};
use crate::{Admission, Config, Policy, Session, WaitKind};

/// A gate all of whose slots are out, and kept by CPUs.
fn kept(policy: Policy, limit: u32) -> (Gate, Slots) {
    let (gate, slots) = (Gate::new(policy, limit, 2), Slots::new(limit));
    for index in 0..limit as usize {
        assert!(gate.try_enter(gate.word(), Caller::NEWCOMER).is_some());
        assert!(slots.keep(&gate, index).is_some());
    }
    assert_eq!((gate.word().slots(), slots.count()), (limit, limit));
    (gate, slots)
}

/// Keeps the slot of a scheduler with one slot on this CPU.
fn kept_by(admission: &Admission, index: usize) {
    let (gate, slots) = (&admission.gate, &admission.extra.slots);
    assert!(gate.try_enter(gate.word(), Caller::NEWCOMER).is_some());
    assert!(slots.keep(gate, index).is_some());
    assert_eq!((gate.word().slots(), slots.count(), admission.snapshot().running), (1, 1, 0));
}

#[test]
fn a_slot_released_while_nobody_queues_stays_with_the_cpu() {
    for policy in QUEUEING {
        let admission = admission(policy, 2);
        let session = running(&admission);
        session.exit();
        let before = admission.gate.word();
        assert_eq!((before.slots(), admission.extra.slots.count()), (1, 1), "{policy}");
        assert_drained(&admission.snapshot());
        for _ in 0..5 {
            session.enter().unwrap();
            assert_eq!(admission.extra.slots.count(), 0, "{policy}");
            session.exit();
        }
        assert_eq!(admission.gate.word(), before, "{policy}: neither wrote the word");
        assert_eq!(admission.snapshot().admitted_at_once, 6);
    }
}

#[test]
fn a_newcomer_finds_the_slot_kept_by_any_cpu() {
    for policy in QUEUEING {
        for index in 0..cpus() as usize {
            let admission = admission(policy, 1);
            kept_by(&admission, index);
            let (newcomer, other) = (admission.session(), admission.session());
            assert!(newcomer.try_enter(), "{policy}, CPU {index}");
            assert_eq!((admission.gate.word().slots(), admission.extra.slots.count()), (1, 0));
            assert!(!other.try_enter(), "{policy}: it was taken once");
            drop((newcomer, other));
            assert_drained(&admission.snapshot());
        }
    }
}

/// The calls themselves, each CPU's and all.
#[test]
fn a_kept_slot_is_taken_once() {
    let (gate, slots) = kept(Policy::Fifo, 2);
    assert_eq!(slots.take(&gate, 1, Caller::NEWCOMER).map(|(how, _)| how), Some(Entered::AtOnce));
    assert!(slots.take(&gate, 1, Caller::NEWCOMER).is_none());
    assert!(slots.take_any(&gate, Caller::NEWCOMER).is_some(), "the other CPU's");
    assert!(slots.take_any(&gate, Caller::NEWCOMER).is_none());
    assert!(!slots.give_back(&gate));
    assert_eq!(gate.word().slots(), 2);
}

/// A session looks for kept slots before it joins the queue; a slot may be kept right after.
#[test]
fn a_slot_kept_while_a_session_joins_goes_to_that_session() {
    for policy in QUEUEING {
        let gate = Gate::new(policy, 1, 2);
        let slots = Slots::new(2);
        let node = Node::new();
        assert!(gate.try_enter(gate.word(), Caller::NEWCOMER).is_some());
        assert!(slots.take_any(&gate, Caller::NEWCOMER).is_none(), "{policy}: none is kept");
        assert!(slots.keep(&gate, 1).is_some());
        let (joined, wake) = gate.join(&node, Request::plain(), (Caller::NEWCOMER, End::Back), 0);
        assert!(matches!((joined, wake), (Joined::Queued(_), Wake::Nobody)), "{policy}: T = L");
        assert!(slots.give_back(&gate), "{policy}");
        let Wake::Granted(mut woken) = gate.serve(0) else { panic!("{policy}: the slot is idle") };
        assert!(woken.pop_front().is_some_and(|woken| Arc::ptr_eq(&woken, &node)));
        gate.start();
        assert!(gate.try_exit(gate.word()).is_some());
        assert_eq!(gate.word().slots(), 0);
    }
}

/// The same from the other side: the session has joined before the slot would be kept.
#[test]
fn a_slot_is_not_kept_while_a_session_queues() {
    let (gate, slots) = (Gate::new(Policy::Fifo, 1, 2), Slots::new(2));
    let node = Node::new();
    assert!(gate.try_enter(gate.word(), Caller::NEWCOMER).is_some());
    let (joined, _) = gate.join(&node, Request::plain(), (Caller::NEWCOMER, End::Back), 0);
    assert!(matches!(joined, Joined::Queued(_)));
    assert!(slots.keep(&gate, 0).is_none());
    assert_eq!(slots.count(), 0);
    let (wake, _) = gate.exit_and_wake(LEAVES, &|| 0);
    assert!(matches!(wake, Wake::Granted(_)));
}

/// Otherwise T counts the kept slot, and the exits of those that run release their slots instead of handing them off.
#[test]
fn a_session_that_queues_gives_all_kept_slots_back() {
    for policy in QUEUEING {
        let (admission, waits, others) = congestible(policy, 2);
        let kept = running(&admission);
        kept.exit();
        assert_eq!(admission.extra.slots.count(), 1);
        waits.wait_begin(WaitKind::RowLock);
        let mut session = admission.session();
        let mut entry = Box::pin(session.enter_async());
        assert!(!is_in(entry.as_mut()), "{policy}: as many run as congestion admits");
        assert_eq!(admission.extra.slots.count(), 0, "{policy}");
        assert_eq!(admission.gate.word().slots(), others.len() as u32, "{policy}");
        others.iter().for_each(Session::exit_ending_slice);
        assert!(is_in(entry.as_mut()), "{policy}: no slot is idle");
        drop(entry);
        drop((waits, others, kept, session));
        assert_drained(&admission.snapshot());
    }
}

#[test]
fn kept_slots_are_within_a_lower_limit() {
    let admission = admission(Policy::Fifo, 4);
    let sessions: [Session; 4] = std::array::from_fn(|_| running(&admission));
    let slots = &admission.extra.slots;
    assert_eq!(admission.gate.word().slots(), 4);
    sessions.iter().for_each(Session::exit);
    let kept = slots.count();
    assert!(kept >= 1);
    admission.set_thread_concurrency(1).unwrap();
    let [first, second, ..] = &sessions;
    assert!(first.try_enter(), "T counts {kept} kept slots");
    assert!(!second.try_enter(), "the limit is 1");
    assert_eq!(admission.snapshot().running, 1);
    drop(sessions);
    assert_drained(&admission.snapshot());
}

/// A slot above the limit is repaid, and without a limit T is not to grow.
#[test]
fn a_slot_that_is_to_be_repaid_is_not_kept() {
    let admission = admission(Policy::Fifo, 1);
    let (session, forced) = (running(&admission), admission.session());
    forced.enter_forced();
    forced.exit();
    assert_eq!((admission.gate.word().slots(), admission.extra.slots.count()), (1, 0));
    session.exit_ending_slice();
    assert_eq!((admission.gate.word().slots(), admission.extra.slots.count()), (0, 0), "it will not be back");
    session.enter().unwrap();
    admission.set_thread_concurrency(0).unwrap();
    session.exit();
    assert_eq!((admission.gate.word().slots(), admission.extra.slots.count()), (0, 0));
}

/// Lock holders may need it.
#[test]
fn in_congestion_no_slot_is_kept() {
    let config =
        Config { thread_concurrency: 4, lock_waiters_max: 1, stall_limit: None, ..Config::default() };
    let admission = admission_with(config);
    let (waits, session) = (running(&admission), running(&admission));
    waits.wait_begin(WaitKind::RowLock);
    let kept = admission.extra.slots.count();
    session.exit();
    assert_eq!(admission.extra.slots.count(), kept);
    assert_eq!(admission.gate.word().slots(), kept);
    waits.wait_end(WaitKind::RowLock);
    drop((waits, session));
    assert_drained(&admission.snapshot());
}

#[test]
fn no_more_slots_are_kept_than_t_can_count() {
    let slots = Slots::new(100_000);
    let gate = Gate::new(Policy::Fifo, 1023, 100_000);
    for index in 0..1000 {
        assert!(gate.try_enter(gate.word(), Caller::NEWCOMER).is_some());
        slots.keep(&gate, slots.index_of(index));
    }
    assert_eq!(u64::from(slots.count()), SET_ASIDE_MAX);
}

/// About as many threads as slots: the queue is empty and not, again and again, so slots are kept and missed.
#[test]
fn a_storm_at_the_limit_loses_no_slot() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    for policy in QUEUEING {
        let admission = admission(policy, 2);
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..3 {
                let (session, done) = (admission.session(), &done);
                scope.spawn(move || {
                    for round in number..number + rounds {
                        let soon = Instant::now() + Duration::from_secs(20);
                        session.enter_until(soon).expect("a slot is idle, or lost");
                        if round % 64 == 0 {
                            thread::yield_now();
                        }
                        session.exit();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 3 * rounds, "{policy}");
        assert_drained(&admission.snapshot());
        assert_eq!(admission.gate.word().slots(), admission.extra.slots.count());
        let both = [running(&admission), running(&admission)];
        assert!(!admission.session().try_enter(), "{policy}");
        drop(both);
    }
}

/// A kept slot and a thread that queues: the thread is served by the slot that is released next to it.
#[test]
fn a_thread_in_the_queue_is_not_left_there_beside_a_kept_slot() {
    for policy in QUEUEING {
        let admission = admission(policy, 2);
        let (first, second) = (running(&admission), running(&admission));
        thread::scope(|scope| {
            let waiter =
                scope.spawn(|| admission.session().enter_until(Instant::now() + Duration::from_secs(20)));
            until_queued(&admission, 1);
            first.exit();
            assert_eq!(waiter.join().unwrap(), Ok(()), "{policy}");
        });
        second.exit();
        assert_drained(&admission.snapshot());
    }
}
