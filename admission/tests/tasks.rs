//! The front for async tasks, step by step and in storms.

use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use flifo_admission::{Admission, Config, Policy, Refused, Session, Snapshot, WaitKind};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

const QUEUED: Policy = Policy::Fifo;

/// Without the stall breaker, so that a place that got lost is missed.
fn config(policy: Policy, thread_concurrency: u32) -> Config {
    Config { policy, thread_concurrency, stall_limit: None, ..Config::default() }
}

fn admission(policy: Policy, thread_concurrency: u32) -> Arc<Admission> {
    Admission::new(config(policy, thread_concurrency)).unwrap()
}

fn inside(admission: &Arc<Admission>) -> Session {
    let session = admission.session();
    assert!(session.try_enter());
    session
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn assert_drained(snapshot: &Snapshot) {
    assert_eq!((snapshot.running, snapshot.pending, snapshot.queued), (0, 0, 0), "{snapshot}");
    assert_eq!((snapshot.disk_waits, snapshot.lock_waiters), (0, 0), "{snapshot}");
}

/// Ends a test that hangs. The time is long enough for any machine.
async fn ends<F: Future>(admission: &Admission, test: F) -> F::Output {
    match timeout(Duration::from_secs(60), test).await {
        Ok(output) => output,
        Err(_) => panic!("nothing moves:\n{}", admission.snapshot()),
    }
}

/// Waits for all tasks; a panic in one is the test's.
async fn join(admission: &Admission, tasks: JoinSet<()>) {
    ends(admission, tasks.join_all()).await;
}

async fn until_queued(admission: &Admission, queued: u32) {
    while admission.snapshot().queued != queued {
        yield_now().await;
    }
}

#[test]
fn futures_and_guards_may_move_between_threads() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    let admission = admission(QUEUED, 1);
    let mut session = assert_send(admission.session());
    drop(assert_send(session.enter_async()));
    drop(assert_send(session.slot_async()));
    drop(assert_send(async {
        let mut place = session.slot_async().await?;
        place.enter_async().await?;
        place.wait_for(WaitKind::Network, yield_now()).await;
        Ok::<(), Refused>(())
    }));
}

#[test]
fn a_future_dropped_after_it_was_granted_hands_the_place_on() {
    let admission = admission(QUEUED, 1);
    let holder = inside(&admission);
    let (mut first, mut second) = (admission.session(), admission.session());
    {
        let mut granted = Box::pin(first.enter_async());
        assert!(poll(granted.as_mut()).is_pending());
        let mut next = pin!(second.enter_async());
        assert!(poll(next.as_mut()).is_pending());
        holder.exit();
        assert!(poll(next.as_mut()).is_pending(), "the place is the first one's");
        drop(granted);
        assert_eq!(poll(next.as_mut()), Poll::Ready(Ok(())));
    }
    assert!(!first.is_running() && second.is_running());
    second.exit();
    assert_drained(&admission.snapshot());
}

#[test]
fn a_future_dropped_in_the_queue_leaves_it() {
    let admission = admission(QUEUED, 1);
    let holder = inside(&admission);
    let mut session = admission.session();
    assert!(poll(pin!(session.enter_async())).is_pending());
    assert_eq!(admission.snapshot().queued, 0);
    holder.exit();
    assert_eq!(poll(pin!(session.enter_async())), Poll::Ready(Ok(())));
    drop(session);
    assert_drained(&admission.snapshot());
}

#[test]
fn a_future_dropped_after_its_grant_never_ran_so_its_time_is_not_counted() {
    let admission = admission(QUEUED, 1);
    let holder = inside(&admission);
    let mut session = admission.session();
    let mut granted = Box::pin(session.enter_async());
    assert!(poll(granted.as_mut()).is_pending());
    holder.exit();
    drop(granted);
    // It is the time from joining the queue to running inside.
    assert!(admission.snapshot().queue_wait().is_none());
    assert_drained(&admission.snapshot());
}

#[test]
fn a_leaked_future_is_made_up_for_when_the_session_goes() {
    let admission = admission(QUEUED, 1);
    let holder = inside(&admission);
    let (mut leaky, mut next) = (admission.session(), admission.session());
    let mut leaked = Box::pin(leaky.enter_async());
    assert!(poll(leaked.as_mut()).is_pending());
    mem::forget(leaked);
    let mut next = pin!(next.enter_async());
    assert!(poll(next.as_mut()).is_pending());
    holder.exit();
    drop(leaky);
    assert_eq!(poll(next.as_mut()), Poll::Ready(Ok(())));
}

#[test]
fn a_task_out_of_tickets_lets_the_queue_go_first() {
    let config = Config { concurrency_tickets: 2, ..config(QUEUED, 1) };
    let admission = Admission::new(config).unwrap();
    let (mut first, mut second) = (admission.session(), admission.session());
    assert_eq!(poll(pin!(first.enter_async())), Poll::Ready(Ok(())));
    {
        let mut waits = pin!(second.slot_async());
        assert!(poll(waits.as_mut()).is_pending());
        assert_eq!(poll(pin!(first.enter_async())), Poll::Ready(Ok(())), "its second ticket");
        let mut again = pin!(first.enter_async());
        assert!(poll(again.as_mut()).is_pending(), "the other one's turn");
        let Poll::Ready(Ok(place)) = poll(waits.as_mut()) else { panic!("the place was handed on") };
        assert!(poll(again.as_mut()).is_pending());
        drop(place);
        assert_eq!(poll(again.as_mut()), Poll::Ready(Ok(())));
    }
    drop(first);
    assert_drained(&admission.snapshot());
}

#[test]
fn an_entry_inside_a_wait_takes_no_place() {
    let admission = admission(QUEUED, 1);
    let mut session = inside(&admission);
    session.wait_begin(WaitKind::Disk);
    assert_eq!(poll(pin!(session.enter_async())), Poll::Ready(Ok(())));
    assert!(!session.is_running());
    assert_eq!((admission.snapshot().running, admission.snapshot().disk_waits), (0, 1));
    session.wait_end(WaitKind::Disk);
    assert!(session.is_running());
    drop(session);
    assert_drained(&admission.snapshot());
}

#[test]
fn a_guard_dropped_inside_a_wait_ends_it() {
    let admission = admission(QUEUED, 1);
    let mut session = admission.session();
    for declared_by_hand in [false, true] {
        let mut statement = Box::pin(async {
            let mut place = session.slot_async().await.unwrap();
            if declared_by_hand {
                place.wait_begin(WaitKind::Disk);
                place.wait_begin(WaitKind::Disk);
                std::future::pending::<()>().await;
            } else {
                place.wait_for(WaitKind::Disk, std::future::pending::<()>()).await;
            }
        });
        assert!(poll(statement.as_mut()).is_pending());
        assert_eq!(admission.snapshot().disk_waits, 1);
        drop(statement);
        assert_eq!(session.wait_depth(), 0);
        assert_drained(&admission.snapshot());
    }
    assert_eq!(admission.snapshot().wait(WaitKind::Disk).map(|times| times.count), Some(2));
}

#[test]
fn an_entry_that_is_over_keeps_no_waker() {
    struct Flag;
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {}
    }
    let flag = Arc::new(Flag);
    let waker = Waker::from(Arc::clone(&flag));
    let poll = |future: Pin<&mut flifo_admission::Enter<'_>>| future.poll(&mut Context::from_waker(&waker));
    let admission = admission(QUEUED, 1);
    let holder = inside(&admission);
    let mut session = admission.session();
    assert!(poll(pin!(session.enter_async())).is_pending());
    assert_eq!(Arc::strong_count(&flag), 2, "dropped in the queue");
    {
        let mut granted = pin!(session.enter_async());
        assert!(poll(granted.as_mut()).is_pending());
        assert!(poll(granted.as_mut()).is_pending());
        assert_eq!(Arc::strong_count(&flag), 3, "it keeps the last one");
        holder.exit();
        assert_eq!(poll(granted.as_mut()), Poll::Ready(Ok(())));
    }
    assert_eq!(Arc::strong_count(&flag), 2, "granted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn thousands_of_tasks_pass_through_four_places_under_every_policy() {
    const LIMIT: u32 = 4;
    for policy in Policy::ALL {
        // The herd costs the square of the queue.
        let tasks: u32 = if policy == Policy::Broadcast { 200 } else { 3000 };
        let admission = admission(policy, LIMIT);
        let running = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let mut all = JoinSet::new();
        for n in 0..tasks {
            let (admission, running) = (Arc::clone(&admission), Arc::clone(&running));
            all.spawn(async move {
                let mut session = admission.session();
                for statement in n..n + 4 {
                    let slot = session.slot_async().await.unwrap();
                    let [now, max] = &*running;
                    max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    if statement % 3 == 0 {
                        yield_now().await;
                    }
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(place);
                    if statement % 5 == 0 {
                        yield_now().await;
                    }
                }
            });
        }
        join(&admission, all).await;
        let snapshot = admission.snapshot();
        assert_drained(&snapshot);
        assert_eq!(snapshot.slots_acquired(), u64::from(4 * tasks), "{policy}");
        let lenient = matches!(policy, Policy::Flifo | Policy::Lease | Policy::Quantum);
        let bound = if lenient { 2 * LIMIT } else { LIMIT };
        let max = running[1].load(Ordering::SeqCst);
        assert!(policy == Policy::None || max <= bound, "{policy}: {max} ran at a time");
    }
}

/// A number that looks random, below `below`.
fn scatter(n: u32, below: u64) -> u64 {
    (u64::from(n) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) % below
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn futures_dropped_at_random_moments_lose_no_place() {
    for policy in [Policy::Fifo, Policy::Lifo, Policy::Flifo, Policy::Sleep, Policy::Summon, Policy::Quantum]
    {
        let admission = admission(policy, 4);
        let mut all = JoinSet::new();
        for n in 0..300 {
            let admission = Arc::clone(&admission);
            all.spawn(async move {
                let mut session = admission.session();
                for turn in 0..20 {
                    let patience = Duration::from_micros(scatter(n * 20 + turn, 3000));
                    let statement = async {
                        let mut place = session.slot_async().await?;
                        match turn % 4 {
                            0 => place.wait_for(WaitKind::Disk, sleep(Duration::from_micros(50))).await,
                            1 => yield_now().await,
                            _ => {}
                        }
                        place.enter_async().await
                    };
                    // Whether it was in time does not matter.
                    let _ = timeout(patience, statement).await;
                }
            });
        }
        join(&admission, all).await;
        assert_drained(&admission.snapshot());
        // All four places are still there.
        let sessions: Vec<_> = (0..4).map(|_| inside(&admission)).collect();
        assert!(!admission.session().try_enter());
        drop(sessions);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_branch_of_a_select_that_lost_is_out_of_the_queue() {
    let admission = admission(Policy::Flifo, 1);
    let mut all = JoinSet::new();
    for n in 0..200 {
        let admission = Arc::clone(&admission);
        all.spawn(async move {
            let (mut one, mut other) = (admission.session(), admission.session());
            for turn in 0..10 {
                tokio::select! {
                    entered = one.enter_async() => entered.unwrap(),
                    entered = other.enter_async() => entered.unwrap(),
                    () = sleep(Duration::from_micros(scatter(n * 10 + turn, 500))) => {}
                }
                yield_now().await;
                one.exit();
                other.exit();
            }
        });
    }
    join(&admission, all).await;
    assert_drained(&admission.snapshot());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_watchdog_refuses_tasks_that_waited_too_long() {
    let config = Config { queue_timeout: Some(Duration::from_millis(1)), ..config(QUEUED, 1) };
    let admission = Admission::new(config).unwrap();
    let holder = inside(&admission);
    let mut all = JoinSet::new();
    for _ in 0..100 {
        let mut session = admission.session();
        all.spawn(async move { session.enter_async().await });
    }
    ends(&admission, async {
        while let Some(refused) = all.join_next().await {
            assert_eq!(refused.unwrap(), Err(Refused::Timeout));
        }
    })
    .await;
    assert_eq!(admission.snapshot().refused_by_timeout, 100);
    drop(holder);
    assert_drained(&admission.snapshot());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_task_is_cancelled() {
    let admission = admission(QUEUED, 1);
    let holder = inside(&admission);
    let mut session = admission.session();
    let canceller = session.canceller();
    let task = tokio::spawn(async move {
        let first = session.enter_async().await;
        (first, session)
    });
    until_queued(&admission, 1).await;
    canceller.cancel();
    let (refused, mut session) = ends(&admission, task).await.unwrap();
    assert_eq!(refused, Err(Refused::Cancelled));
    holder.exit();
    assert_eq!(session.enter_async().await, Ok(()), "a cancellation is for one entry");
    // One that comes between the grant and the task's next step.
    let mut late = admission.session();
    let canceller = late.canceller();
    let mut entry = Box::pin(late.enter_async());
    assert!(poll(entry.as_mut()).is_pending());
    session.exit();
    canceller.cancel();
    assert_eq!(poll(entry.as_mut()), Poll::Ready(Err(Refused::Cancelled)));
    assert_drained(&admission.snapshot());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_and_tasks_share_the_places() {
    for policy in [Policy::Fifo, Policy::Flifo, Policy::Sleep, Policy::Summon, Policy::Quantum] {
        let admission = admission(policy, 2);
        let done = Arc::new(AtomicU32::new(0));
        let mut all = JoinSet::new();
        for _ in 0..100 {
            let (admission, done) = (Arc::clone(&admission), Arc::clone(&done));
            all.spawn(async move {
                let mut session = admission.session();
                for _ in 0..20 {
                    let _slot = session.slot_async().await.unwrap();
                    yield_now().await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (admission, done) = (Arc::clone(&admission), Arc::clone(&done));
                thread::spawn(move || {
                    let session = admission.session();
                    for _ in 0..20 {
                        let _slot = session.slot().unwrap();
                        thread::yield_now();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        join(&admission, all).await;
        ends(&admission, async {
            while !threads.iter().all(thread::JoinHandle::is_finished) {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(done.load(Ordering::Relaxed), 100 * 20 + 8 * 20, "{policy}");
        assert_drained(&admission.snapshot());
    }
}
