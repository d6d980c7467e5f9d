//! What a task's waker may do: drop tasks, sleep, and use the session whose call has led to it.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::assert_drained;
use super::tasks::{Calls, Owned, QUEUEING, admission, congestible, is_in, is_ready, owned_entry, running};
use crate::gate::word::Caller;
use crate::{Admission, Enter, Policy, Refused, Session, WaitKind};

/// A task that only its wakers own, as when its executor is gone.
struct Orphan(Mutex<Owned>);

impl Wake for Orphan {
    fn wake(self: Arc<Self>) {}
}

fn queue_orphan(admission: &Arc<Admission>) {
    let task = Arc::new(Orphan(Mutex::new(owned_entry(admission))));
    let waker = Waker::from(Arc::clone(&task));
    assert!(task.0.lock().unwrap().as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
}

/// Each releases its slot to the next as it is dropped.
#[test]
fn wakers_that_drop_their_tasks_do_not_recurse() {
    let tasks = if cfg!(miri) { 50 } else { 10_000 };
    let drop_all = move || {
        for policy in QUEUEING {
            let admission = admission(policy, 1);
            let holder = running(&admission);
            (0..tasks).for_each(|_| queue_orphan(&admission));
            assert_eq!(admission.snapshot().queued, tasks);
            holder.exit();
            drop(holder);
            assert_drained(&admission.snapshot());
        }
    };
    // The stack of the watchdog's thread, which wakes tasks, too.
    Builder::new().stack_size(128 << 10).spawn(drop_all).unwrap().join().unwrap();
}

#[test]
fn a_panic_in_a_waker_called_after_another_harms_nobody_else() {
    let admission = admission(Policy::Fifo, 1);
    let holder = running(&admission);
    queue_orphan(&admission);
    let [mut second, mut third] = [(); 2].map(|()| owned_entry(&admission));
    let panics = Waker::from(Arc::new(Calls(|| std::panic::resume_unwind(Box::new("a broken waker")))));
    assert!(second.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    queue_orphan(&admission);
    assert!(!is_ready(&mut third));
    holder.exit();
    assert!(is_ready(&mut second));
    drop(second);
    assert!(is_ready(&mut third));
    drop((third, holder));
    assert_drained(&admission.snapshot());
}

/// A task that the thread has yet to wake may have the slot that the thread sleeps for.
#[test]
fn a_thread_calls_pending_wakers_before_it_sleeps_in_a_waker() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let holder = running(&admission);
        let [first, second] = [(); 2].map(|()| Arc::new(Mutex::new(Some(owned_entry(&admission)))));
        let (sleeper, outcome) = (Mutex::new(admission.session()), Arc::new(Mutex::new(None)));
        let (own, came_to) = (Arc::clone(&first), Arc::clone(&outcome));
        let drops_and_sleeps = Calls(move || {
            drop(own.lock().unwrap().take());
            let sleeper = sleeper.lock().unwrap();
            *came_to.lock().unwrap() = Some(sleeper.enter_until(Instant::now() + Duration::from_secs(10)));
            sleeper.exit();
        });
        let own = Arc::clone(&second);
        let drops = Calls(move || drop(own.lock().unwrap().take()));
        let poll = |task: &Mutex<Option<Owned>>, waker: Waker| {
            let mut task = task.lock().unwrap();
            assert!(task.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        };
        poll(&first, Waker::from(Arc::new(drops_and_sleeps)));
        poll(&second, Waker::from(Arc::new(drops)));
        holder.exit();
        assert_eq!(*outcome.lock().unwrap(), Some(Ok(())), "{policy}");
        drop((first, second, holder));
        assert_drained(&admission.snapshot());
    }
}

thread_local! {
    /// The session that the wakers of this thread use: a waker is `Send`, and cannot own one that its thread uses, too.
    static USED: RefCell<Option<Rc<Session>>> = const { RefCell::new(None) };
}

/// A session that wakers can use.
fn used(session: Session) -> Rc<Session> {
    let session = Rc::new(session);
    USED.set(Some(Rc::clone(&session)));
    session
}

/// Queues an entry whose waker uses the session.
fn queue_user<'a>(session: &'a mut Session, uses: fn(&Session)) -> std::pin::Pin<Box<Enter<'a>>> {
    let waker = Waker::from(Arc::new(Calls(move || {
        let used = USED.with_borrow(Clone::clone);
        uses(&used.expect("the test has set one"));
    })));
    let mut entry = Box::pin(session.enter_async());
    assert!(entry.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    entry
}

fn try_enter(session: &Session) {
    session.try_enter();
}

fn end(admission: &Admission, session: Rc<Session>) {
    session.exit();
    USED.take();
    drop(session);
    assert_drained(&admission.snapshot());
}

#[test]
fn a_session_that_a_waker_enters_as_a_wait_begins_has_one_slot() {
    for uses in [try_enter, |session: &Session| session.enter_forced()] {
        let admission = admission(Policy::Flifo, 1);
        let session = used(running(&admission));
        let mut next = admission.session();
        let mut entry = queue_user(&mut next, uses);
        session.wait_begin(WaitKind::User);
        assert!(session.is_waiting() && is_in(entry.as_mut()));
        assert_eq!(admission.snapshot().running, 1);
        session.wait_end(WaitKind::User);
        assert!(session.is_running());
        drop(entry);
        drop(next);
        end(&admission, session);
    }
}

#[test]
fn a_session_that_a_waker_takes_out_of_its_wait_does_not_come_back() {
    let admission = admission(Policy::Flifo, 1);
    let session = used(running(&admission));
    let mut next = admission.session();
    let mut entry = queue_user(&mut next, Session::exit);
    session.wait_begin(WaitKind::Disk);
    assert!(is_in(entry.as_mut()));
    session.wait_end(WaitKind::Disk);
    assert!(!session.is_running());
    assert_eq!(admission.snapshot().disk_waits, 0);
    drop(entry);
    drop(next);
    end(&admission, session);
}

#[test]
fn a_session_that_a_waker_uses_as_its_wait_ends_has_one_slot() {
    let (admission, waiter, others) = congestible(Policy::Fifo, 2);
    let session = used(waiter);
    session.wait_begin(WaitKind::RowLock);
    let mut next = admission.session();
    let mut entry = queue_user(&mut next, |session| {
        session.exit();
        session.try_enter();
    });
    session.wait_end(WaitKind::RowLock);
    assert!(session.is_running() && is_in(entry.as_mut()), "congestion is over");
    drop(entry);
    drop((next, others));
    end(&admission, session);
}

/// Three sessions queue for two slots, and two of them are about to get them: two newcomers may barge before they run.
fn two_newcomers_barge(admission: &Arc<Admission>, renews: bool) {
    let mut sessions: [Session; 2] = std::array::from_fn(|_| admission.session());
    let [second, third] = &mut sessions;
    let other = running(admission);
    let mut leaky = running(admission);
    let holder = if renews { None } else { Some(mem::replace(&mut leaky, admission.session())) };
    if !renews {
        let mut leaked = Box::pin(leaky.enter_async());
        assert!(!is_in(leaked.as_mut()));
        mem::forget(leaked);
    }
    let session = used(leaky);
    let mut second = queue_user(second, |_| {});
    let mut third = queue_user(third, try_enter);
    if let Some(holder) = &holder {
        holder.exit();
    }
    other.exit();
    // Releases its slot, or the one it was handed, and so wakes the third.
    session.try_enter();
    assert!(is_in(second.as_mut()) && is_in(third.as_mut()));
    assert_eq!(admission.snapshot().running, 2 + u32::from(session.is_running()));
    drop((second, third));
    drop((sessions, other, holder));
    end(admission, session);
}

#[test]
fn a_session_that_a_waker_enters_as_its_tickets_run_out_has_one_slot() {
    two_newcomers_barge(&admission(Policy::Flifo, 2), true);
}

#[test]
fn a_session_that_a_waker_enters_as_a_leaked_entry_ends_has_one_slot() {
    two_newcomers_barge(&admission(Policy::Flifo, 2), false);
}

/// Otherwise its node would be in the queue twice.
#[test]
fn a_session_that_a_waker_enters_as_it_queues_queues_once() {
    let admission = admission(Policy::Quantum, 1);
    let gate = &admission.gate;
    assert!(gate.try_enter(gate.word(), Caller::NEWCOMER).is_some());
    let mut next = admission.session();
    let mut entry = queue_user(&mut next, |session| _ = session.enter_until(Instant::now()));
    // A slot is free, as after an exit within a time slice, and a new session may not take it while another waits.
    gate.release();
    let session = used(admission.session());
    assert_eq!(session.enter_until(Instant::now() + Duration::from_millis(20)), Err(Refused::Timeout));
    assert!(!session.is_running() && is_in(entry.as_mut()));
    drop(entry);
    drop(next);
    end(&admission, session);
}
