//! Defects that other admission schedulers had: one test for each that the tests beside the code do not show
//! (docs/verification.md lists all).

use std::pin::pin;
use std::task::Poll;
use std::thread;

use super::assert_drained;
use super::tasks::{QUEUEING, admission, is_in, poll, running};
use crate::{Class, Refused, Session, WaitKind};

/// A slot that was granted to a session that gives up (its time is over, or it is cancelled) must not stay with that session, and must not
/// be released without waking the next.
#[test]
fn a_session_that_gives_up_after_its_grant_wakes_the_next() {
    for policy in QUEUEING {
        for cancelled in [false, true] {
            let admission = admission(policy, 1);
            let holder = running(&admission);
            let mut sessions: [Session; 3] = std::array::from_fn(|_| admission.session());
            let cancellers = sessions.each_ref().map(Session::canceller);
            let mut entries: Vec<_> = sessions.iter_mut().map(|s| Some(Box::pin(s.enter_async()))).collect();
            entries.iter_mut().flatten().for_each(|entry| assert!(!is_in(entry.as_mut())));
            holder.exit();
            // Two of three give up, each when it has the grant.
            for gives_up in 0..2 {
                if cancelled {
                    cancellers[gives_up].cancel();
                    let mut entry = entries[gives_up].take().unwrap();
                    assert_eq!(poll(entry.as_mut()), Poll::Ready(Err(Refused::Cancelled)), "{policy}");
                } else {
                    entries[gives_up] = None;
                }
            }
            assert!(is_in(entries[2].as_mut().unwrap().as_mut()), "{policy}, cancelled: {cancelled}");
            drop(entries);
            assert_eq!(admission.snapshot().running, 1);
            assert_eq!(admission.snapshot().admitted_from_queue, 1, "the two that gave up did not enter");
            drop(sessions);
            assert_drained(&admission.snapshot());
        }
    }
}

/// A rise of the limit admits the difference, however many are pending, and whatever the limit was in between.
#[test]
fn raising_the_limit_never_over_admits() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let _holder = running(&admission);
        let mut sessions: Vec<Session> = (0..20).map(|_| admission.session()).collect();
        let mut entries: Vec<_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
        entries.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
        let mut entered = 1;
        // Twice without anybody running in between, so that those woken are still pending.
        for [limit, again] in [[2, 3], [1, 3], [5, 4], [9, 2], [9, 12]] {
            admission.set_thread_concurrency(limit).unwrap();
            admission.set_thread_concurrency(again).unwrap();
            let highest = limit.max(again);
            for _ in 0..2 {
                entries.retain_mut(|entry| {
                    let is_in = is_in(entry.as_mut());
                    entered += u32::from(is_in);
                    !is_in
                });
            }
            let snapshot = admission.snapshot();
            assert_eq!((snapshot.running, snapshot.pending), (entered, 0), "{policy}");
            assert!(snapshot.running <= highest.max(9), "{policy}: {} running", snapshot.running);
            assert!(entered >= limit.min(again), "{policy}: {entered} running, the limit is {again}");
        }
        assert_eq!(entered, 12, "{policy}");
    }
}

/// A released slot is not idle until a sleeper polls: the next has it as soon as the exit returns.
#[test]
fn a_released_slot_goes_to_the_head_at_once() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let holder = running(&admission);
        let mut session = admission.session();
        let mut entry = pin!(session.enter_async());
        assert!(!is_in(entry.as_mut()));
        holder.exit();
        let snapshot = admission.snapshot();
        assert_eq!((snapshot.running, snapshot.pending, snapshot.queued), (1, 1, 0), "{policy}");
        assert!(is_in(entry));
    }
}

/// If sessions that wait for a lock hold the slots, and the lock's holder queues behind them, nothing moves. So a lock holder goes first in
/// the queue, its waits release its slot, and the end of its wait does not queue.
#[test]
fn lock_holders_are_not_starved_by_sessions_that_wait_for_the_locks() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let first_in = running(&admission);
        let mut crowd: Vec<Session> = (0..5).map(|_| admission.session()).collect();
        let mut crowd: Vec<_> = crowd.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
        crowd.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
        let mut holder = admission.session();
        holder.set_class(Class::First);
        let mut entry = Box::pin(holder.enter_async());
        assert!(!is_in(entry.as_mut()));
        first_in.exit();
        assert!(is_in(entry.as_mut()), "{policy}: it goes before those that came earlier");
        drop(entry);
        holder.wait_begin(WaitKind::Disk);
        assert_eq!(crowd.iter_mut().filter_map(|e| is_in(e.as_mut()).then_some(())).count(), 1, "{policy}");
        holder.wait_end(WaitKind::Disk);
        assert!(holder.is_running(), "{policy}");
    }
}

/// A session goes from thread to thread: with a slot, within a wait, and while a leaked entry is queued or granted.
#[test]
fn a_session_may_move_between_threads_at_every_step() {
    fn on_another_thread(session: Session, work: impl FnOnce(&mut Session) + Send) -> Session {
        thread::scope(|scope| {
            let moved = scope.spawn(move || {
                let mut session = session;
                work(&mut session);
                session
            });
            moved.join().unwrap()
        })
    }
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let mut session = admission.session();
        session = on_another_thread(session, |session| session.enter().unwrap());
        session = on_another_thread(session, |session| session.wait_begin(WaitKind::User));
        let other = running(&admission);
        session = on_another_thread(session, |session| session.wait_end(WaitKind::User));
        assert_eq!(admission.snapshot().running, 2);
        session.exit();
        session = on_another_thread(session, |session| {
            let mut entry = Box::pin(session.enter_async());
            assert!(!is_in(entry.as_mut()));
            std::mem::forget(entry);
        });
        let other = on_another_thread(other, |other| other.exit());
        session = on_another_thread(session, |session| session.enter().unwrap());
        assert!(session.is_running());
        drop((session, other));
        assert_drained(&admission.snapshot());
    }
}
