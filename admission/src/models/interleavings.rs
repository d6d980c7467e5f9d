//! Every interleaving of two and three threads (loom). Each model ends with no thread running, pending or queued; that no thread hangs is
//! loom's own check, since a thread that nobody wakes is a deadlock.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::thread::{self, JoinHandle};

use crate::{Admission, Class, Config, Policy, Refused, Session, WaitKind};

/// The policies that queue.
const QUEUEING: [Policy; 3] = [Policy::Fifo, Policy::Flifo, Policy::Quantum];

/// No slot is reclaimed, so that no session's slot is published: that would multiply the interleavings.
pub(super) fn config(policy: Policy, limit: u32) -> Config {
    Config {
        policy,
        thread_concurrency: limit,
        concurrency_tickets: 1,
        stall_limit: None,
        ..Config::default()
    }
}

/// Every interleaving of `scenario` within a bound on preemptions: bugs of this kind need two or three, and all interleavings would take hours.
pub(super) fn explore(
    preemptions: usize,
    config: Config,
    scenario: impl Fn(&Arc<Admission>) + Copy + Send + Sync + 'static,
) {
    explore_from(preemptions, scenario, move || {
        #[allow(unused_mut)]
        let mut admission = Admission::new(config.clone()).unwrap();
        #[cfg(feature = "percpu")]
        {
            let own = Arc::get_mut(&mut admission).expect("nobody has it yet");
            own.extra.slots = crate::extra::percpu::Slots::none();
        }
        admission
    });
}

/// As [`explore`], and CPUs keep slots.
fn explore_kept(
    preemptions: usize,
    config: Config,
    scenario: impl Fn(&Arc<Admission>) + Copy + Send + Sync + 'static,
) {
    explore_from(preemptions, scenario, move || Admission::new(config.clone()).unwrap());
}

fn explore_from(
    preemptions: usize,
    scenario: impl Fn(&Arc<Admission>) + Copy + Send + Sync + 'static,
    make: impl Fn() -> Arc<Admission> + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    // FLIFO_MODEL_PREEMPTIONS=1 asks for one more in each, which takes some ten times as long.
    let more = std::env::var("FLIFO_MODEL_PREEMPTIONS").map_or(0, |n| n.parse().expect("a small number"));
    builder.preemption_bound = Some(preemptions + more);
    builder.check(move || {
        let admission = make();
        scenario(&admission);
        let end = admission.snapshot();
        assert_eq!((end.running, end.pending, end.queued), (0, 0, 0));
        assert_eq!((end.lock_waiters, end.disk_waits), (0, 0));
    });
}

/// Another thread with a session of its own.
pub(super) fn spawn<T: 'static>(
    admission: &Arc<Admission>,
    work: impl FnOnce(&mut Session) -> T + 'static,
) -> JoinHandle<T> {
    let mut session = admission.session();
    thread::spawn(move || work(&mut session))
}

pub(super) fn enter_and_exit(session: &mut Session) {
    session.enter().unwrap();
    session.exit();
}

fn set_rule(admission: &Admission, policy: Policy, limit: u32) {
    admission.wake(admission.gate.set_rule(policy, limit, 0));
}

/// A session that is running.
pub(super) fn running(admission: &Arc<Admission>) -> Session {
    let session = admission.session();
    session.enter().unwrap();
    session
}

fn one_exits_while_another_comes(admission: &Arc<Admission>) {
    let holder = running(admission);
    let other = spawn(admission, enter_and_exit);
    holder.exit();
    other.join().unwrap();
}

/// A slot that is released while another thread is about to queue: one of the two must see the other.
#[test]
fn an_enqueue_looks_again_and_loses_no_wake_up() {
    for policy in QUEUEING {
        explore(5, config(policy, 1), one_exits_while_another_comes);
    }
}

#[test]
fn two_threads_enter_twice_under_every_policy() {
    for policy in QUEUEING {
        explore(3, config(policy, 1), |admission| {
            let twice = |session: &mut Session| (0..2).for_each(|_| enter_and_exit(session));
            let other = spawn(admission, twice);
            twice(&mut admission.session());
            other.join().unwrap();
        });
    }
}

#[test]
fn three_threads_enter_under_every_policy() {
    for policy in QUEUEING {
        for limit in [1, 2] {
            explore(2, config(policy, limit), |admission| {
                let others = [(); 2].map(|()| spawn(admission, enter_and_exit));
                enter_and_exit(&mut admission.session());
                others.into_iter().for_each(|other| other.join().unwrap());
            });
        }
    }
}

/// A slot that a CPU keeps while another thread is about to queue: one of the two must see the other.
#[test]
fn a_kept_slot_is_seen_by_a_session_that_queues() {
    for policy in QUEUEING {
        explore_kept(6, config(policy, 1), one_exits_while_another_comes);
    }
}

/// An entry that is in the queue.
pub(super) fn queued<F: Future>(entry: F) -> Pin<Box<F>> {
    let mut entry = Box::pin(entry);
    assert!(entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    entry
}

/// With a quantum of one statement every exit hands off, and a session that comes back passes nobody.
#[test]
fn a_quantum_of_one_statement() {
    let config = Config { quantum: Duration::from_nanos(1), ..config(Policy::Quantum, 2) };
    explore(3, config, |admission| {
        let other = spawn(admission, enter_and_exit);
        let third = spawn(admission, enter_and_exit);
        let mut session = admission.session();
        enter_and_exit(&mut session);
        enter_and_exit(&mut session);
        other.join().unwrap();
        third.join().unwrap();
    });
}

/// Under FIFO at most one thread runs at a limit of one, and sees what the thread before it did: the slot is a lock.
#[test]
fn fifo_excludes() {
    explore(3, config(Policy::Fifo, 1), one_at_a_time);
}

/// As [`fifo_excludes`], with a slot to take from a CPU at the beginning.
#[test]
fn a_kept_slot_is_taken_once() {
    explore_kept(3, config(Policy::Fifo, 1), |admission| {
        running(admission).exit();
        one_at_a_time(admission);
    });
}

/// One session takes a kept slot while another changes the limit, enters and leaves a slot there again: the first must have seen the word
/// with its slot in it.
#[test]
fn a_taken_slot_was_seen_counted() {
    explore_kept(3, config(Policy::Fifo, 1), |admission| {
        let comes = |session: &mut Session| {
            if session.try_enter() {
                assert_ne!(session.last_seen.get().slots(), 0);
                session.exit();
            }
        };
        running(admission).exit();
        let other = spawn(admission, move |session| {
            set_rule(session.admission(), Policy::Fifo, 1);
            comes(session);
        });
        comes(&mut admission.session());
        other.join().unwrap();
    });
}

/// What a slot guards at a limit of one: the checker fails if two threads write it at a time, or if a thread does not see what the
/// holder before it wrote.
struct Guarded(UnsafeCell<u32>);

// SAFETY: at a limit of one only the slot's holder accesses it; this is what the model checks.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

fn one_at_a_time(admission: &Arc<Admission>) {
    let guarded = Arc::new(Guarded(UnsafeCell::new(0)));
    let work = |session: &mut Session, guarded: &Guarded| {
        session.enter().unwrap();
        // SAFETY: the checker verifies that the access is exclusive.
        guarded.0.with_mut(|entries| unsafe { *entries += 1 });
        session.exit();
    };
    let seen = Arc::clone(&guarded);
    let other = spawn(admission, move |session| work(session, &seen));
    work(&mut admission.session(), &guarded);
    other.join().unwrap();
}

#[test]
fn a_cancel_against_a_grant() {
    for policy in QUEUEING {
        explore(2, config(policy, 1), |admission| {
            let holder = running(admission);
            let session = admission.session();
            let canceller = session.canceller();
            let waiter = thread::spawn(move || match session.enter() {
                Ok(()) => session.exit(),
                Err(why) => assert_eq!(why, Refused::Cancelled),
            });
            let cancels = thread::spawn(move || canceller.cancel());
            holder.exit();
            waiter.join().unwrap();
            cancels.join().unwrap();
        });
    }
}

/// The cancelled session may have been granted the slot: then the next must get it.
#[test]
fn a_cancel_against_a_grant_while_another_waits() {
    for policy in QUEUEING {
        explore(1, config(policy, 1), |admission| {
            let holder = running(admission);
            let session = admission.session();
            let canceller = session.canceller();
            let cancelled = thread::spawn(move || {
                if session.enter().is_ok() {
                    session.exit();
                }
                session
            });
            let next = spawn(admission, enter_and_exit);
            let cancels = thread::spawn(move || canceller.cancel());
            holder.exit();
            // The end of a session serves the queue, so the next must not need it.
            let session = cancelled.join().unwrap();
            next.join().unwrap();
            drop(session);
            cancels.join().unwrap();
        });
    }
}

/// With loom a deadline passes as soon as the thread parks.
#[test]
fn a_deadline_against_a_grant() {
    for policy in QUEUEING {
        explore(2, config(policy, 1), |admission| {
            let holder = running(admission);
            let hasty = spawn(admission, |session| match session.enter_until(Instant::now()) {
                Ok(()) => session.exit(),
                Err(why) => assert_eq!(why, Refused::Timeout),
            });
            let next = spawn(admission, enter_and_exit);
            holder.exit();
            hasty.join().unwrap();
            next.join().unwrap();
        });
    }
}

/// The watchdog refuses those overdue while they time out by themselves, or are granted a slot.
#[test]
fn the_watchdog_against_a_deadline_and_a_grant() {
    explore(3, config(Policy::Fifo, 1), |admission| {
        let holder = running(admission);
        let deadline = Instant::now();
        let hasty = spawn(admission, move |session| _ = session.enter_until(deadline));
        let dog = {
            let admission = Arc::clone(admission);
            thread::spawn(move || admission.step(deadline + Duration::from_secs(1)))
        };
        holder.exit();
        hasty.join().unwrap();
        dog.join().unwrap();
    });
}

#[test]
fn the_limit_changes_while_threads_queue() {
    for policy in QUEUEING {
        for [from, to] in [[1, 2], [2, 1], [1, 0], [0, 1]] {
            explore(2, config(policy, from), move |admission| {
                let others = [(); 2].map(|()| spawn(admission, enter_and_exit));
                set_rule(admission, policy, to);
                others.into_iter().for_each(|other| other.join().unwrap());
            });
        }
    }
}

/// Without an exit to come: the change must wake those that fit after it.
#[test]
fn a_higher_limit_wakes_those_that_fit() {
    for policy in QUEUEING {
        for to in [2, 0] {
            explore(3, config(policy, 1), move |admission| {
                let holder = running(admission);
                let other = spawn(admission, enter_and_exit);
                set_rule(admission, policy, to);
                other.join().unwrap();
                holder.exit();
            });
        }
    }
}

#[test]
fn the_policy_changes_while_threads_queue() {
    for [from, to] in [
        [Policy::Fifo, Policy::Flifo],
        [Policy::Flifo, Policy::Fifo],
        [Policy::Quantum, Policy::Fifo],
        [Policy::Flifo, Policy::None],
        [Policy::None, Policy::Quantum],
    ] {
        explore(2, config(from, 1), move |admission| {
            let others = [(); 2].map(|()| spawn(admission, enter_and_exit));
            set_rule(admission, to, 1);
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }
}

#[test]
fn waits_with_forced_re_entry() {
    for policy in QUEUEING {
        explore(3, config(policy, 1), |admission| {
            let waits = |session: &mut Session| {
                session.enter().unwrap();
                session.wait_begin(WaitKind::Disk);
                session.wait_end(WaitKind::Disk);
                session.exit();
            };
            let other = spawn(admission, waits);
            waits(&mut admission.session());
            other.join().unwrap();
        });
    }
}

/// A wait for a row lock makes congestion begin and end while others come and go.
#[test]
fn congestion_begins_and_ends() {
    for policy in QUEUEING {
        let config = Config { lock_waiters_max: 1, ..config(policy, 2) };
        explore(2, config, |admission| {
            let waiter = spawn(admission, |session| {
                session.enter().unwrap();
                session.wait_begin(WaitKind::RowLock);
                session.wait_end(WaitKind::RowLock);
                session.exit();
            });
            let holder_of_locks = spawn(admission, |session| {
                session.set_class(Class::First);
                enter_and_exit(session);
            });
            enter_and_exit(&mut admission.session());
            waiter.join().unwrap();
            holder_of_locks.join().unwrap();
        });
    }
}

/// The tuner has just found a limit when the user sets another.
#[test]
fn a_limit_that_is_set_against_one_that_was_found() {
    for (auto, limit) in [(false, 3), (true, 0)] {
        explore(2, Config { auto: true, ..config(Policy::Fifo, 1) }, move |admission| {
            let watched = Arc::clone(admission);
            let watchdog = thread::spawn(move || watched.step(watched.metrics.instant_of(0).unwrap()));
            admission.reconfigure(Config { auto, thread_concurrency: 3, ..admission.config() }).unwrap();
            watchdog.join().unwrap();
            assert_eq!(admission.thread_concurrency(), limit);
        });
    }
}

#[test]
fn the_stall_breaker_against_an_exit() {
    for policy in QUEUEING {
        explore(2, config(policy, 1), |admission| {
            let holder = running(admission);
            let others = [(); 2].map(|()| spawn(admission, enter_and_exit));
            let wake = admission.gate.break_stall(0);
            admission.wake(wake);
            holder.exit();
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }
}

#[test]
fn tasks_and_threads_together() {
    for policy in QUEUEING {
        explore(2, config(policy, 1), |admission| {
            let task = spawn(admission, |session| {
                block_on(session.enter_async()).unwrap();
                session.exit();
            });
            let other = spawn(admission, enter_and_exit);
            enter_and_exit(&mut admission.session());
            task.join().unwrap();
            other.join().unwrap();
        });
    }
}

/// The task's entry is dropped, or leaked, after one poll; the next must get the slot all the same.
#[test]
fn a_dropped_entry_against_a_grant() {
    for policy in QUEUEING {
        for leaks in [false, true] {
            explore(2, config(policy, 1), move |admission| {
                let holder = running(admission);
                let mut session = admission.session();
                let dropped = thread::spawn(move || {
                    let mut entry = Box::pin(session.enter_async());
                    let ready = entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
                    match leaks {
                        true => std::mem::forget(entry),
                        false => drop(entry),
                    }
                    if ready {
                        session.exit();
                    }
                    // A leaked entry is looked after when its session enters next.
                    session.give_up_task_request();
                    session
                });
                let next = spawn(admission, enter_and_exit);
                holder.exit();
                // The end of a session serves the queue, so the next must not need it.
                let session = dropped.join().unwrap();
                next.join().unwrap();
                drop(session);
            });
        }
    }
}

/// A task that is polled again and again, as an executor may, while it is granted a slot.
#[test]
fn a_task_with_changing_wakers() {
    explore(3, config(Policy::Fifo, 1), |admission| {
        let holder = running(admission);
        let task = spawn(admission, |session| {
            let mut entry = Box::pin(session.enter_async());
            if entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                block_on(entry.as_mut()).unwrap();
            }
            drop(entry);
            session.exit();
        });
        holder.exit();
        task.join().unwrap();
    });
}

/// The watchdog's thread either sees the session that has joined, or is roused.
#[test]
fn the_watchdog_does_not_oversleep() {
    explore(4, config(Policy::Fifo, 1), |admission| {
        let holder = running(admission);
        let dog = {
            let admission = Arc::clone(admission);
            thread::spawn(move || admission.alarm.fall_asleep(&admission.gate))
        };
        let mut session = admission.session();
        let mut entry = Box::pin(session.enter_async());
        assert!(entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let sleeps = dog.join().unwrap();
        assert!(
            !sleeps || !admission.alarm.asleep.load(crate::sync::Ordering::SeqCst),
            "it sleeps while somebody queues"
        );
        drop(entry);
        holder.exit();
    });
}
