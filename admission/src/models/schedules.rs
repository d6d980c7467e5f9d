//! Ten threads and tasks in random and in adversarial (PCT) schedules (shuttle): everything at once, under
//! every policy. Each schedule ends with nobody inside, pending or queued; shuttle itself finds those that
//! wait for ever.

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
use crate::{Admission, Canceller, Class, Config, Policy, Refused, Session, Tenant, WaitKind};

/// A number below `n`, as the schedule has it.
fn any(n: u32) -> u32 {
    thread_rng().gen_range(0..n)
}

fn any_config() -> Config {
    Config {
        policy: Policy::ALL[any(9) as usize],
        thread_concurrency: any(4),
        concurrency_tickets: 1 + any(2),
        io_depth: any(2),
        lock_waiters_max: any(3),
        anticipate: any(2) == 0,
        queue_limit: [0, 0, 2][any(3) as usize],
        queue_timeout: [None, Some(Duration::from_nanos(5))][any(2) as usize],
        tau: [None, Some(Duration::from_nanos(3))][any(2) as usize],
        quantum: Duration::from_nanos([1, 2000][any(2) as usize]),
        lease: Duration::from_nanos(4),
        promote_after: Duration::from_nanos(4),
        ..Config::default()
    }
}

/// One with which places wait for their sessions in many schedules; with any, they do in one of some thousand.
fn config_that_waits() -> Config {
    Config {
        policy: Policy::Quantum,
        thread_concurrency: 1 + any(2),
        anticipate: true,
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
        match any(3) {
            0 => session.wait_end_may_queue(kind)?,
            1 => session.wait_end(kind),
            _ => return Ok(()), // It is killed in its wait.
        }
    }
    Ok(())
}

fn prepare(session: &Session, tenant: Tenant) {
    session.set_class([Class::First, Class::Normal][any(2) as usize]);
    session.set_in_transaction(any(2) == 0);
    session.set_tenant([tenant, Tenant::default()][any(2) as usize]);
}

fn thread_of(admission: Arc<Admission>, session: Session, tenant: Tenant) {
    for _ in 0..3 {
        prepare(&session, tenant);
        let entered = match any(7) {
            0 => session.enter_until(admission.metrics.instant_of(admission.metrics.now_ns()).unwrap()),
            1 if session.try_enter() => Ok(()),
            2 if session.try_enter_below(6) => Ok(()),
            1 | 2 => continue,
            _ => session.enter(),
        };
        let _ = entered.and_then(|()| statement(&session));
        session.exit();
        session.forget_cancel();
    }
}

fn task_of(mut session: Session, tenant: Tenant) {
    for _ in 0..3 {
        prepare(&session, tenant);
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

/// Kills, reconfigures, and is the watchdog.
fn boss(admission: &Arc<Admission>, victims: &Mutex<Vec<Canceller>>, config: fn() -> Config) {
    for _ in 0..8 {
        let clock = &admission.metrics.clock_ns;
        let now_ns = clock.fetch_add(2, Ordering::Relaxed) + 2;
        match any(6) {
            0 => {
                let victim = {
                    let victims = lock(victims);
                    victims[any(victims.len() as u32) as usize].clone()
                };
                victim.cancel();
            }
            1 => admission.reconfigure(config()).unwrap(),
            2 => admission.set_thread_concurrency(any(4)).unwrap(),
            3 => admission.wake(admission.core.break_stall(now_ns)),
            _ => admission.step(admission.metrics.instant_of(now_ns).unwrap()),
        }
    }
}

/// The entries on a place that had waited for its session.
fn everything(config: fn() -> Config) -> u64 {
    let admission = Admission::new(config()).unwrap();
    let tenant = admission.tenant(2.5).unwrap();
    let victims = Arc::new(Mutex::new(vec![]));
    let mut threads = vec![];
    for n in 0..8 {
        let (admission, session) = (Arc::clone(&admission), admission.session());
        lock(&victims).push(session.canceller());
        threads.push(thread::spawn(move || match n % 3 {
            0 => task_of(session, tenant),
            _ => thread_of(admission, session, tenant),
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
    end.reserved
}

/// FLIFO_MODEL_ITERATIONS asks for more schedules.
fn iterations() -> usize {
    std::env::var("FLIFO_MODEL_ITERATIONS").map_or(2000, |n| n.parse().expect("a number of schedules"))
}

/// The entries of all schedules on a place that had waited.
fn explore(scheduler: impl Scheduler + 'static, config: fn() -> Config) -> u64 {
    let mut shuttle = shuttle::Config::new();
    shuttle.stack_size = 1 << 17;
    let all = Arc::new(AtomicU64::new(0));
    let reserved = Arc::clone(&all);
    Runner::new(scheduler, shuttle).run(move || {
        reserved.fetch_add(everything(config), Ordering::Relaxed);
    });
    all.load(Ordering::Relaxed)
}

#[test]
fn random_schedules() {
    explore(RandomScheduler::new(iterations()), any_config);
}

#[test]
fn random_schedules_in_which_places_wait() {
    let reserved = explore(RandomScheduler::new(iterations()), config_that_waits);
    assert!(reserved > 0, "no place ever waited");
}

#[test]
fn adversarial_schedules() {
    for depth in [2, 3, 5] {
        for config in [any_config, config_that_waits] {
            explore(PctScheduler::new(depth, iterations() / 3), config);
        }
    }
}
