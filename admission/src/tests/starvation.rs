//! Sessions that release their slot and acquire it again at once starve nobody, under any policy.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::tasks::QUEUEING;
use super::virtual_time::{SECOND, US, World};
use super::{Ends, admission};
use crate::{Config, Policy, Session};

const SESSIONS: usize = 50;

/// What came before a session while it waited, at most.
#[derive(Default)]
struct Longest {
    /// Statements that others completed.
    statements: Cell<u64>,
    /// Sessions that were served from the queue.
    served: Cell<u64>,
}

fn raise(longest: &Cell<u64>, to: u64) {
    longest.set(longest.get().max(to));
}

async fn client(world: Rc<World>, (longest, done): (Rc<Longest>, Rc<Cell<u64>>), mut session: Session) {
    let served = || world.admission.gate.served();
    loop {
        let before = (done.get(), served());
        session.enter_async().await.unwrap();
        raise(&longest.statements, done.get() - before.0);
        raise(&longest.served, served() - before.1);
        world.pass(20 * US).await;
        session.exit();
        done.set(done.get() + 1);
    }
}

/// The most statements of others during a wait, for each session: one in strict order, a quantum's in time slices. Under `flifo` the one that
/// was served, and those that run on every slot until a woken session does.
fn statements_max(policy: Policy, limit: u32) -> u64 {
    match policy {
        Policy::None => 0,
        Policy::Fifo => 1,
        Policy::Flifo => 1 + 2 * u64::from(limit),
        Policy::Quantum => 3,
    }
}

#[test]
#[cfg_attr(miri, ignore = "its steps take minutes there")]
fn while_a_session_waits_the_queue_turns_over_once() {
    for policy in QUEUEING {
        for limit in [1, 2, 4] {
            let config = Config { policy, thread_concurrency: limit, stall_limit: None, ..Config::default() };
            let (world, longest, done) = (World::new(config), Rc::new(Longest::default()), Rc::default());
            let client = |world, _, session| client(world, (Rc::clone(&longest), Rc::clone(&done)), session);
            world.run(SESSIONS, client, SECOND);
            let (statements, served) = (longest.statements.get(), longest.served.get());
            assert!(served < SESSIONS as u64, "{policy}, limit {limit}: {served} served");
            let most = SESSIONS as u64 * statements_max(policy, limit);
            assert!(statements <= most, "{policy}, limit {limit}: {statements} statements");
        }
    }
}

/// With threads: sessions in a tight loop on every CPU, and one session that comes now and then.
#[test]
fn a_session_that_comes_now_and_then_is_served() {
    for policy in Policy::ALL {
        for limit in [1, 2] {
            let admission = admission(policy, limit, 1);
            let ends = AtomicBool::new(false);
            thread::scope(|scope| {
                let _ends = Ends(&ends);
                for _ in 0..4 {
                    scope.spawn(|| {
                        let session = admission.session();
                        while !ends.load(Ordering::Relaxed) {
                            drop(session.slot().unwrap());
                        }
                    });
                }
                let session = admission.session();
                let hang = Instant::now() + Duration::from_secs(60);
                for _ in 0..if cfg!(miri) { 2 } else { 50 } {
                    assert_eq!(session.enter_until(hang), Ok(()), "{policy}, limit {limit}");
                    session.exit_ending_slice();
                    thread::yield_now();
                }
            });
        }
    }
}
