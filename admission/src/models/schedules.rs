//! Ten threads and tasks in random and in adversarial (PCT) schedules (shuttle): everything at once, under every policy. Each schedule
//! ends with no thread running, pending or queued; shuttle itself finds threads that wait forever.

use std::sync::Arc;
// Not the model's: what it counts is nobody's step.
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Runner, thread};

use crate::sync::{Mutex, lock};
use crate::{Admission, Canceller, Class, Config, Policy, Refused, Session, WaitKind};

/// A number below `n`, as the schedule has it.
fn any(n: u32) -> u32 {
    thread_rng().gen_range(0..n)
}

fn any_config() -> Config {
    Config {
        policy: Policy::ALL[any(4) as usize],
        thread_concurrency: any(4),
        concurrency_tickets: 1 + any(2),
        io_depth: any(2),
        lock_waiters_max: any(3),
        reserve_slots: any(2) == 0,
        stall_limit: [None, Some(Duration::from_nanos(2))][any(2) as usize],
        queue_limit: [0, 0, 2][any(3) as usize],
        queue_timeout: [None, Some(Duration::from_nanos(5))][any(2) as usize],
        quantum: Duration::from_nanos([1, 2000][any(2) as usize]),
        promote_after: Duration::from_nanos(4),
        ..Config::default()
    }
}

/// One with which slots are reserved and reclaimed in many schedules; with any, they are in one of some thousand.
fn config_that_takes() -> Config {
    Config {
        policy: Policy::Quantum,
        thread_concurrency: 1,
        reserve_slots: true,
        stall_limit: Some(Duration::from_nanos(1)),
        quantum: Duration::from_nanos(2000),
        ..any_config()
    }
}

/// What happens while a statement runs.
fn statement(session: &Session) -> Result<(), Refused> {
    if any(2) == 0 {
        session.enter()?;
    }
    if any(2) == 0 {
        let kind = WaitKind::ALL[any(7) as usize];
        session.wait_begin(kind);
        if any(4) == 0 {
            session.wait_begin(WaitKind::User);
            thread::yield_now();
            session.wait_end(WaitKind::User);
        }
        if any(2) == 0 {
            thread::yield_now();
            session.mark_wait_long();
        }
        if any(3) == 0 {
            return Ok(()); // It is killed in its wait.
        }
        session.wait_end(kind);
    }
    Ok(())
}

fn prepare(session: &Session) {
    session.set_class([Class::First, Class::Normal][any(2) as usize]);
    session.set_in_transaction(any(2) == 0);
}

fn thread_of(admission: Arc<Admission>, session: Session) {
    for _ in 0..3 {
        prepare(&session);
        let entered = match any(7) {
            0 => session.enter_until(admission.metrics.instant_of(admission.metrics.now_ns()).unwrap()),
            1 if session.try_enter() => Ok(()),
            1 => continue,
            2 => {
                session.enter_forced();
                Ok(())
            }
            _ => session.enter(),
        };
        let _ = entered.and_then(|()| statement(&session));
        session.exit();
        session.forget_cancel();
    }
}

fn task_of(mut session: Session) {
    for _ in 0..3 {
        prepare(&session);
        if any(3) == 0 {
            // It is dropped, or leaked, half way.
            let mut entry = Box::pin(session.enter_async());
            let _ = entry.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if any(3) == 0 {
                std::mem::forget(entry);
            }
        } else {
            let _ = block_on(session.enter_async()).and_then(|()| statement(&session));
        }
        session.exit();
    }
}

/// Takes the slot of every session that has one, as the watchdog does after the stall limit. By steps it would happen in one schedule of
/// thousands.
fn reclaim(admission: &Admission) {
    let mut taken = admission.metrics.reclaim(0, 0);
    thread::yield_now();
    taken += admission.metrics.reclaim(0, 0);
    (0..taken).for_each(|_| admission.release_for().call());
}

/// Kills, reconfigures, and is the watchdog.
fn boss(admission: &Arc<Admission>, victims: &Mutex<Vec<Canceller>>, config: fn() -> Config) {
    for _ in 0..8 {
        let clock = &admission.metrics.clock_ns;
        let now_ns = clock.fetch_add(2, Ordering::Relaxed) + 2;
        match any(7) {
            0 => {
                let victim = {
                    let victims = lock(victims);
                    victims[any(victims.len() as u32) as usize].clone()
                };
                victim.cancel();
            }
            1 => admission.reconfigure(config()).unwrap(),
            2 => admission.set_thread_concurrency(any(4)).unwrap(),
            3 => admission.wake(admission.gate.break_stall(now_ns)),
            4 => reclaim(admission),
            _ => admission.step(admission.metrics.instant_of(now_ns).unwrap()),
        }
    }
}

/// Runs everything at once; the entries on reserved slots, and the slots reclaimed.
fn everything(config: fn() -> Config) -> [u64; 2] {
    let admission = Admission::new(config()).unwrap();
    let victims = Arc::new(Mutex::new(vec![]));
    let mut threads = vec![];
    for n in 0..8 {
        let (admission, session) = (Arc::clone(&admission), admission.session());
        lock(&victims).push(session.canceller());
        threads.push(thread::spawn(move || match n % 3 {
            0 => task_of(session),
            _ => thread_of(admission, session),
        }));
    }
    for _ in 0..2 {
        let (admission, victims) = (Arc::clone(&admission), Arc::clone(&victims));
        threads.push(thread::spawn(move || boss(&admission, &victims, config)));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let end = admission.snapshot();
    assert_eq!((end.running, end.pending, end.queued), (0, 0, 0));
    assert_eq!((end.lock_waiters, end.disk_waits), (0, 0));
    [end.reserved, end.slots_reclaimed]
}

/// FLIFO_MODEL_ITERATIONS asks for more schedules.
fn iterations() -> usize {
    std::env::var("FLIFO_MODEL_ITERATIONS").map_or(2000, |n| n.parse().expect("a number of schedules"))
}

/// The sums of what [`everything`] returns over all schedules.
fn explore(scheduler: impl Scheduler + 'static, config: fn() -> Config) -> [u64; 2] {
    let mut shuttle = shuttle::Config::new();
    shuttle.stack_size = 1 << 17;
    let sums = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let counts = Arc::clone(&sums);
    Runner::new(scheduler, shuttle).run(move || {
        for (sum, count) in counts.iter().zip(everything(config)) {
            sum.fetch_add(count, Ordering::Relaxed);
        }
    });
    sums.each_ref().map(|sum| sum.load(Ordering::Relaxed))
}

#[test]
fn random_schedules() {
    explore(RandomScheduler::new(iterations()), any_config);
}

#[test]
fn random_schedules_in_which_slots_are_taken() {
    let [reserved, reclaimed] = explore(RandomScheduler::new(iterations()), config_that_takes);
    assert!(reserved > 0, "no slot was ever reserved");
    assert!(reclaimed > 0, "no slot was ever reclaimed");
}

#[test]
fn adversarial_schedules() {
    for depth in [2, 3, 5] {
        for config in [any_config, config_that_takes] {
            explore(PctScheduler::new(depth, iterations() / 3), config);
        }
    }
}
