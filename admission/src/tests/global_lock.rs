//! One lock that every session needs, and few slots: however the wait for it is declared, statements are completed.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Mutex;
use std::thread;

use super::tasks::QUEUEING;
use super::virtual_time::{Lock, MS, SECOND, US, World};
use super::{admission, assert_drained};
use crate::sync::lock;
use crate::{Config, Session, WaitKind, WaitMask};

const SESSIONS: usize = 1_000;

/// How a session waits for the lock.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Waits {
    /// Declared, and the slot is released.
    Releasing,
    /// Declared, but not in the mask.
    Keeping,
    /// As for a mutex of the standard library.
    Undeclared,
}

/// The holder acquires a second slot before it releases the lock, behind all who want the lock.
async fn client(world: Rc<World>, (global, done): (Rc<Lock>, Rc<Cell<u64>>), waits: Waits, session: Session) {
    let mut session = session;
    loop {
        session.enter_async().await.unwrap();
        if waits != Waits::Undeclared {
            session.wait_begin(WaitKind::RowLock);
        }
        global.acquire(&world).await;
        if waits != Waits::Undeclared {
            session.wait_end(WaitKind::RowLock);
        }
        world.pass(20 * US).await;
        session.enter_async().await.unwrap();
        session.enter_async().await.unwrap();
        world.pass(20 * US).await;
        global.release(&world);
        session.exit();
        done.set(done.get() + 1);
    }
}

#[test]
fn explore() {
    for policy in QUEUEING {
        for limit in [1, 2] {
            for waits in [Waits::Releasing, Waits::Keeping, Waits::Undeclared] {
                let wait_mask = if waits == Waits::Keeping { WaitMask::NONE } else { WaitMask::ALL };
                let config = Config { policy, thread_concurrency: limit, wait_mask, ..Config::default() };
                let (world, global, done) =
                    (World::new(config), Rc::new(Lock::default()), Rc::new(Cell::new(0)));
                for end in [1, 10, 100, 200, 400] {
                    let client = |world, _, session| {
                        client(world, (Rc::clone(&global), Rc::clone(&done)), waits, session)
                    };
                    if end == 1 {
                        world.run(SESSIONS, client, 400 * SECOND);
                    }
                    println!(
                        "{policy} {limit} {waits:?}: {} {} {}",
                        done.get(),
                        world.admission.snapshot().line(),
                        MS
                    );
                    break;
                }
            }
        }
    }
}

/// With threads, and a mutex that the scheduler knows nothing of.
#[test]
#[cfg_attr(miri, ignore = "a thousand threads take minutes there")]
fn a_thousand_threads_that_need_one_mutex_are_all_served() {
    for policy in QUEUEING {
        for limit in [1, 2] {
            let (admission, mutex) = (admission(policy, limit, 1), Mutex::new(0));
            thread::scope(|scope| {
                for _ in 0..SESSIONS {
                    let statements = || {
                        let session = admission.session();
                        for _ in 0..3 {
                            let _slot = session.slot().unwrap();
                            *lock(&mutex) += 1;
                        }
                    };
                    thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, statements).unwrap();
                }
            });
            assert_eq!(*lock(&mutex), 3 * SESSIONS);
            assert_drained(&admission.snapshot());
        }
    }
}
