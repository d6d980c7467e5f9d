//! Tasks polled by hand: each poll is a step of the test, so that every order of events can be tested.

use std::mem::ManuallyDrop;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

use std::time::{Duration, Instant};

use super::{assert_drained, spare};
use crate::{Admission, Class, Config, Enter, Policy, Refused, Session, WaitKind};

/// A waker that counts.
#[derive(Default)]
pub(super) struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls an entry once.
pub(super) fn poll(entry: Pin<&mut Enter<'_>>) -> Poll<Result<(), Refused>> {
    entry.poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls an entry once; returns whether its session runs then.
pub(super) fn is_in(entry: Pin<&mut Enter<'_>>) -> bool {
    poll(entry) == Poll::Ready(Ok(()))
}

/// A scheduler without a watchdog and without a stall limit, with one ticket for each slot.
pub(super) fn admission(policy: Policy, limit: u32) -> Arc<Admission> {
    admission_with(Config { policy, thread_concurrency: limit, stall_limit: None, ..Config::default() })
}

/// A scheduler without a watchdog, with one ticket for each slot.
pub(super) fn admission_with(config: Config) -> Arc<Admission> {
    Admission::new(Config { concurrency_tickets: 1, watchdog: false, ..config }).unwrap()
}

/// A session that runs.
pub(super) fn running(admission: &Arc<Admission>) -> Session {
    let session = admission.session();
    assert!(session.try_enter());
    session
}

/// The policies with a limit.
pub(super) const QUEUEING: [Policy; 3] = [Policy::Fifo, Policy::Flifo, Policy::Quantum];

#[test]
fn a_released_slot_goes_to_a_task_under_every_policy() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let holder = running(&admission);
        let mut session = admission.session();
        let mut entry = pin!(session.enter_async());
        assert!(!is_in(entry.as_mut()));
        holder.exit();
        assert!(is_in(entry.as_mut()), "{policy}");
    }
}

#[test]
fn a_change_of_policy_strands_nobody() {
    for from in QUEUEING {
        for to in Policy::ALL {
            let admission = admission(from, 1);
            let holder = running(&admission);
            let mut sessions: [Session; 3] = std::array::from_fn(|_| admission.session());
            let mut entries: Vec<_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
            entries.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
            admission.reconfigure(Config { policy: to, ..admission.config() }).unwrap();
            let mut entered = entries.iter_mut().filter_map(|e| is_in(e.as_mut()).then_some(())).count();
            assert_eq!(entered, if to == Policy::None { 3 } else { 0 }, "{from} to {to}");
            holder.exit();
            drop(holder);
            // Each enters and leaves, one after the other.
            for _ in 0..3 {
                entries.retain_mut(|entry| {
                    let is_in = is_in(entry.as_mut());
                    entered += usize::from(is_in);
                    !is_in
                });
                admission.step(Instant::now());
                if entered < 3 {
                    break;
                }
            }
            drop(entries);
            drop(sessions);
            assert!(entered > 0, "{from} to {to}: the released slot is idle");
            assert_drained(&admission.snapshot());
        }
    }
}

#[test]
fn a_higher_limit_admits_as_many_as_fit_and_no_more() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let _holder = running(&admission);
        let mut sessions: [Session; 5] = std::array::from_fn(|_| admission.session());
        let mut entries: Vec<_> = sessions.iter_mut().map(|s| Box::pin(s.enter_async())).collect();
        entries.iter_mut().for_each(|entry| assert!(!is_in(entry.as_mut())));
        admission.set_thread_concurrency(3).unwrap();
        let entered = entries.iter_mut().filter_map(|e| is_in(e.as_mut()).then_some(())).count();
        assert_eq!((entered, admission.snapshot().running), (2, 3), "{policy}");
        admission.set_thread_concurrency(2).unwrap();
        admission.set_thread_concurrency(3).unwrap();
        let entered = entries.iter_mut().skip(2).filter_map(|e| is_in(e.as_mut()).then_some(())).count();
        assert_eq!(entered, 0, "{policy}: three run already");
    }
}

/// When the first of these sessions begins to wait for a row lock, the others are as many as congestion admits; `free` more slots are free.
pub(super) fn congestible(policy: Policy, free: u32) -> (Arc<Admission>, Session, Vec<Session>) {
    let config =
        Config { policy, thread_concurrency: spare() + free, lock_waiters_max: 1, ..Config::default() };
    let admission = admission_with(config);
    let waiter = running(&admission);
    let others = (0..spare()).map(|_| running(&admission)).collect();
    (admission, waiter, others)
}

#[test]
fn the_end_of_congestion_admits_the_others_under_every_policy() {
    for policy in QUEUEING {
        let (admission, waiter, _others) = congestible(policy, 2);
        waiter.wait_begin(WaitKind::RowLock);
        let mut session = admission.session();
        let mut entry = pin!(session.enter_async());
        assert!(!is_in(entry.as_mut()), "{policy}: enough sessions run");
        waiter.wait_end(WaitKind::RowLock);
        assert!(is_in(entry.as_mut()), "{policy}");
    }
}

#[test]
fn congestion_admits_lock_holders_only() {
    for policy in QUEUEING {
        let (admission, waiter, _others) = congestible(policy, 1);
        waiter.wait_begin(WaitKind::RowLock);
        let mut normal = admission.session();
        let mut normal = pin!(normal.enter_async());
        assert!(!is_in(normal.as_mut()));
        let mut first = admission.session();
        first.set_class(Class::First);
        assert!(is_in(pin!(first.enter_async())), "{policy}");
        assert!(!is_in(normal.as_mut()));
    }
}

#[test]
fn a_task_out_of_tickets_lets_the_queue_go_first() {
    let admission = admission(Policy::Fifo, 1);
    let mut holder = running(&admission);
    let mut waiter = admission.session();
    let mut waits = pin!(waiter.enter_async());
    assert!(!is_in(waits.as_mut()));
    let mut again = pin!(holder.enter_async());
    assert!(!is_in(again.as_mut()), "somebody waits");
    assert!(is_in(waits.as_mut()));
    assert!(!is_in(again.as_mut()));
}

#[test]
fn try_enter_out_of_tickets_passes_nobody() {
    let admission = admission(Policy::Fifo, 1);
    let holder = running(&admission);
    assert!(holder.try_enter(), "nobody waits");
    let mut waiter = admission.session();
    let mut waits = pin!(waiter.enter_async());
    assert!(!is_in(waits.as_mut()));
    assert!(!holder.try_enter());
    assert!(!holder.is_running());
    assert!(is_in(waits.as_mut()));
}

#[test]
fn an_entry_of_a_task_within_a_wait_changes_nothing() {
    let admission = admission(Policy::Fifo, 1);
    let mut session = running(&admission);
    session.wait_begin(WaitKind::Disk);
    let other = running(&admission);
    assert!(is_in(pin!(session.enter_async())), "as enter does");
    assert_eq!(admission.snapshot().disk_waits, 1);
    session.wait_end(WaitKind::Disk);
    assert_eq!((admission.snapshot().running, admission.snapshot().disk_waits), (2, 0));
    drop((session, other));
    assert_drained(&admission.snapshot());
}

#[test]
fn a_dropped_entry_leaves_the_queue_and_counts_as_no_entry() {
    for policy in QUEUEING {
        for granted in [false, true] {
            let admission = admission(policy, 1);
            let holder = running(&admission);
            let (mut dropped, mut next) = (admission.session(), admission.session());
            let mut first = Box::pin(dropped.enter_async());
            assert!(!is_in(first.as_mut()));
            let mut next = pin!(next.enter_async());
            assert!(!is_in(next.as_mut()));
            if granted {
                holder.exit();
                drop(first);
            } else {
                drop(first);
                holder.exit();
            }
            assert!(is_in(next.as_mut()), "{policy}, granted: {granted}");
            let snapshot = admission.snapshot();
            assert_eq!((snapshot.running, snapshot.pending, snapshot.queued), (1, 0, 0), "{policy}");
            let entered = snapshot.admitted_from_queue;
            assert_eq!(snapshot.queued_ns.iter().map(|b| b.count()).sum::<u64>(), entered, "{policy}");
            assert_eq!(entered, 1, "{policy}");
        }
    }
}

#[test]
fn a_leaked_entry_is_cleaned_up_when_its_session_enters_or_ends() {
    for policy in QUEUEING {
        for session_ends in [false, true] {
            let admission = admission(policy, 1);
            let holder = running(&admission);
            let mut leaky = admission.session();
            let mut leaked = Box::pin(leaky.enter_async());
            assert!(!is_in(leaked.as_mut()));
            std::mem::forget(leaked);
            let mut next = admission.session();
            let mut next = Box::pin(next.enter_async());
            assert!(!is_in(next.as_mut()));
            holder.exit();
            match session_ends {
                true => drop(leaky),
                // It may enter, above the limit where newcomers may barge, but keeps nobody out.
                false => {
                    leaky.try_enter();
                    leaky.exit();
                }
            }
            assert!(is_in(next.as_mut()), "{policy}: the slot it was handed went to the next");
            drop(next);
        }
    }
}

#[test]
fn a_leaked_entry_that_is_still_queued_leaves_with_its_session() {
    let admission = admission(Policy::Quantum, 1);
    let holder = running(&admission);
    let mut leaky = admission.session();
    let mut leaked = Box::pin(leaky.enter_async());
    assert!(!is_in(leaked.as_mut()));
    std::mem::forget(leaked);
    assert_eq!(admission.snapshot().queued, 1);
    drop(leaky);
    assert_eq!(admission.snapshot().queued, 0);
    drop(holder);
    assert_drained(&admission.snapshot());
}

/// A waker that calls a function.
pub(super) struct Calls<F: Fn() + Send + Sync + 'static>(pub(super) F);

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

#[test]
fn a_panic_in_a_waker_harms_nobody_else() {
    let admission = admission(Policy::Fifo, 1);
    let _holder = running(&admission);
    let (mut first, mut second) = (admission.session(), admission.session());
    let (mut first, mut second) = (pin!(first.enter_async()), pin!(second.enter_async()));
    let panics = Waker::from(Arc::new(Calls(|| std::panic::resume_unwind(Box::new("a broken waker")))));
    assert!(first.as_mut().poll(&mut Context::from_waker(&panics)).is_pending());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(second.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    admission.set_thread_concurrency(3).unwrap();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert!(is_in(second) && is_in(first));
}

/// A waker of which each clone panics when it is dropped. It is itself never dropped.
fn panics_when_dropped() -> ManuallyDrop<Waker> {
    static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, |_| {}, |_| {}, |_| throw());
    fn clone(_: *const ()) -> RawWaker {
        RawWaker::new(std::ptr::null(), &VTABLE)
    }
    // SAFETY: nothing is behind the pointer, and nothing looks there.
    ManuallyDrop::new(unsafe { Waker::from_raw(clone(std::ptr::null())) })
}

fn throw() {
    std::panic::resume_unwind(Box::new(ThrowsAgain));
}

/// A panic's payload that panics when it is dropped.
struct ThrowsAgain;

impl Drop for ThrowsAgain {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("thrown again"));
    }
}

#[test]
fn a_panic_in_the_drop_of_a_waker_loses_no_slot() {
    let waker = panics_when_dropped();
    for granted in [false, true] {
        let admission = admission(Policy::Fifo, 1);
        let holder = running(&admission);
        let mut session = admission.session();
        let mut entry = Box::pin(session.enter_async());
        for _ in 0..2 {
            assert!(entry.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        if granted {
            holder.exit();
            assert!(entry.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        }
        drop(entry);
        assert_eq!(session.is_running(), granted);
        drop((session, holder));
        assert_drained(&admission.snapshot());
    }
}

#[test]
fn a_panic_whose_payload_panics_harms_nobody_else() {
    let admission = admission(Policy::Fifo, 1);
    let _holder = running(&admission);
    let (mut first, mut second) = (admission.session(), admission.session());
    let (mut first, mut second) = (pin!(first.enter_async()), pin!(second.enter_async()));
    let throws = Waker::from(Arc::new(Calls(throw)));
    assert!(first.as_mut().poll(&mut Context::from_waker(&throws)).is_pending());
    assert!(!is_in(second.as_mut()));
    admission.set_thread_concurrency(3).unwrap();
    assert!(is_in(second) && is_in(first));
}

/// An entry with its session, which a waker may drop.
pub(super) type Owned = Pin<Box<dyn Future<Output = Result<(), Refused>> + Send>>;

pub(super) fn owned_entry(admission: &Arc<Admission>) -> Owned {
    let mut session = admission.session();
    Box::pin(async move { session.enter_async().await })
}

/// Queues an entry whose waker drops another one that queues.
fn queue_dropper(admission: &Arc<Admission>) -> Owned {
    let (mut drops, mut dropped) = (owned_entry(admission), owned_entry(admission));
    let victim = Arc::new(Mutex::new(None));
    let taken = Arc::clone(&victim);
    let waker = Waker::from(Arc::new(Calls(move || drop(taken.lock().unwrap().take()))));
    assert!(drops.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    *victim.lock().unwrap() = Some(dropped);
    drops
}

pub(super) fn is_ready(entry: &mut Owned) -> bool {
    entry.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn a_waker_may_drop_an_entry_that_is_woken_with_its_own() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let holder = running(&admission);
        let mut drops = queue_dropper(&admission);
        admission.set_thread_concurrency(3).unwrap();
        assert!(is_ready(&mut drops), "{policy}");
        drop((drops, holder));
        assert_drained(&admission.snapshot());
    }
}

#[test]
fn a_waker_may_drop_an_entry_that_the_same_change_wakes() {
    let (admission, waiter, others) = congestible(Policy::Fifo, 1);
    waiter.wait_begin(WaitKind::RowLock);
    let mut drops = queue_dropper(&admission);
    let config = admission.config();
    let thread_concurrency = config.thread_concurrency + 1;
    // The end of congestion wakes one, the higher limit the other.
    admission.reconfigure(Config { lock_waiters_max: 0, thread_concurrency, ..config }).unwrap();
    assert!(is_ready(&mut drops));
    drop((drops, waiter, others));
    assert_drained(&admission.snapshot());
}

#[test]
fn a_waker_may_use_the_scheduler() {
    let admission = admission(Policy::Fifo, 1);
    let _holder = running(&admission);
    let mut session = admission.session();
    let mut entry = pin!(session.enter_async());
    let used = Arc::downgrade(&admission);
    let waker = Waker::from(Arc::new(Calls(move || {
        let admission = used.upgrade().unwrap();
        let config = admission.config();
        admission.reconfigure(config).unwrap();
    })));
    assert!(entry.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    admission.set_thread_concurrency(2).unwrap();
    assert!(is_in(entry));
}

#[test]
fn a_waker_is_dropped_when_its_entry_is_over() {
    let admission = admission(Policy::Fifo, 1);
    let holder = running(&admission);
    let mut session = admission.session();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut entry = Box::pin(session.enter_async());
    assert!(entry.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(entry);
    assert_eq!(Arc::strong_count(&woken), 2, "dropped: the test and its waker");
    let mut entry = Box::pin(session.enter_async());
    assert!(entry.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    holder.exit();
    assert!(entry.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
    assert_eq!(Arc::strong_count(&woken), 2, "ready");
}

#[test]
fn a_cancelled_entry_that_was_granted_wakes_the_next_under_every_policy() {
    for policy in QUEUEING {
        let admission = admission(policy, 1);
        let holder = running(&admission);
        let (mut cancelled, mut next) = (admission.session(), admission.session());
        let canceller = cancelled.canceller();
        let (mut cancelled, mut next) = (pin!(cancelled.enter_async()), pin!(next.enter_async()));
        assert!(!is_in(cancelled.as_mut()) && !is_in(next.as_mut()));
        holder.exit();
        canceller.cancel();
        let outcomes = [poll(cancelled), poll(next)];
        assert!(outcomes.contains(&Poll::Ready(Err(Refused::Cancelled))), "{policy}: {outcomes:?}");
        assert!(outcomes.contains(&Poll::Ready(Ok(()))), "{policy}: {outcomes:?}");
    }
}

#[test]
fn a_task_behind_one_without_a_deadline_is_refused_in_time() {
    let admission = admission(Policy::Fifo, 1);
    let _holder = running(&admission);
    let (mut patient, mut hasty) = (admission.session(), admission.session());
    let (mut patient, mut hasty) = (pin!(patient.enter_async()), pin!(hasty.enter_async()));
    assert!(!is_in(patient.as_mut()));
    let minute = Duration::from_secs(60);
    admission.reconfigure(Config { queue_timeout: Some(minute), ..admission.config() }).unwrap();
    assert!(!is_in(hasty.as_mut()));
    admission.step(Instant::now());
    assert_eq!(poll(hasty.as_mut()), Poll::Pending);
    admission.step(Instant::now() + 2 * minute);
    assert_eq!(poll(hasty), Poll::Ready(Err(Refused::Timeout)));
    assert_eq!(poll(patient), Poll::Pending);
}
