//! One lock that every session needs, and few slots: however the wait for it is declared, statements are completed.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Mutex;
use std::thread;

use super::tasks::QUEUEING;
use super::virtual_time::{Lock, SECOND, US, World};
use super::{admission, assert_drained};
use crate::sync::lock;
use crate::{Class, Config, Policy, Session, WaitKind, WaitMask};

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

/// The worst case: the holder acquires a second slot before it releases the lock, and queues behind all who want the lock. `holds`: the
/// class of a session while it has the lock.
async fn client(
    world: Rc<World>,
    (global, done): (Rc<Lock>, Rc<Cell<usize>>),
    waits: Waits,
    holds: Class,
    session: Session,
) {
    let mut session = session;
    loop {
        session.enter_async().await.unwrap();
        if waits != Waits::Undeclared {
            session.wait_begin(WaitKind::RowLock);
        }
        global.acquire(&world).await;
        session.set_class(holds);
        if waits != Waits::Undeclared {
            session.wait_end(WaitKind::RowLock);
        }
        session.exit();
        world.pass(20 * US).await;
        session.enter_async().await.unwrap();
        world.pass(20 * US).await;
        global.release(&world);
        session.set_class(Class::Normal);
        session.exit();
        done.set(done.get() + 1);
    }
}

/// Statements done in that time.
fn done_in(seconds: u64, (policy, limit): (Policy, u32), waits: Waits, holds: Class) -> usize {
    let wait_mask = if waits == Waits::Keeping { WaitMask::NONE } else { WaitMask::ALL };
    let config = Config { policy, thread_concurrency: limit, wait_mask, ..Config::default() };
    let (world, global, done) = (World::new(config), Rc::default(), Rc::new(Cell::new(0)));
    let shared = || (Rc::clone(&global), Rc::clone(&done));
    world.run(SESSIONS, |world, _, session| client(world, shared(), waits, holds, session), seconds * SECOND);
    done.get()
}

fn policies_and_limits() -> impl Iterator<Item = (Policy, u32)> {
    QUEUEING.into_iter().flat_map(|policy| [(policy, 1), (policy, 2)])
}

#[test]
#[cfg_attr(miri, ignore = "its steps take minutes there")]
fn where_the_wait_releases_its_slot_all_are_served_at_once() {
    for of in policies_and_limits() {
        let done = done_in(1, of, Waits::Releasing, Class::Normal);
        assert!(done > SESSIONS, "{of:?}: {done}");
    }
}

/// Each of those before the holder has the slot for the stall limit, and a step or two. Then all wait for the lock, and a statement takes as
/// long as one of them.
#[test]
#[cfg_attr(miri, ignore = "its steps take minutes there")]
fn where_the_wait_keeps_its_slot_the_stall_rule_makes_progress() {
    for waits in [Waits::Keeping, Waits::Undeclared] {
        for (policy, limit) in policies_and_limits() {
            let seconds = SESSIONS as u64 / 8 / u64::from(limit);
            let done = done_in(seconds, (policy, limit), waits, Class::Normal);
            assert!(done > 20, "{policy}, limit {limit}, {waits:?}: {done}");
        }
    }
}

/// It waits for one stall limit, however many queue.
#[test]
#[cfg_attr(miri, ignore = "its steps take minutes there")]
fn a_holder_of_the_first_class_goes_before_those_that_want_its_lock() {
    for waits in [Waits::Keeping, Waits::Undeclared] {
        for of in policies_and_limits() {
            let done = done_in(5, of, waits, Class::First);
            assert!(done > 30, "{of:?}, {waits:?}: {done}");
        }
    }
}

/// With threads, and a mutex that is not declared.
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
