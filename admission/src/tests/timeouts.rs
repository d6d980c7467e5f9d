//! A queue timeout that is shorter than the queue costs little of what is completed.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::tasks::QUEUEING;
use super::virtual_time::{MS, SECOND, World};
use crate::{Config, Policy, Session};

#[derive(Default, Debug)]
struct Counts {
    completed: Cell<u64>,
    refused: Cell<u64>,
    /// Slots that statements had that were refused later.
    wasted: Cell<u64>,
}

fn add(count: &Cell<u64>, n: u64) {
    count.set(count.get() + n);
}

async fn client(world: Rc<World>, counts: Rc<Counts>, mut session: Session, slots: u64) {
    loop {
        let mut had = 0;
        while had < slots && session.enter_async().await.is_ok() {
            had += 1;
            world.pass(MS).await;
        }
        session.exit();
        if had == slots {
            add(&counts.completed, 1);
        } else {
            add(&counts.refused, 1);
            add(&counts.wasted, had);
            world.pass(MS).await;
        }
    }
}

/// Four times as many sessions as can be served within 20 ms, each statement a number of slots of 1 ms.
fn overload(policy: Policy, queue_timeout: Option<Duration>, slots: u64) -> Rc<Counts> {
    let config =
        Config { policy, thread_concurrency: 2, queue_timeout, stall_limit: None, ..Config::default() };
    let (world, counts) = (World::new(config), Rc::new(Counts::default()));
    world.run(160, |world, _, session| client(world, Rc::clone(&counts), session, slots), 4 * SECOND);
    counts
}

/// A session that was served before its deadline runs, however late it wakes, and one that gives up has taken no slot.
#[test]
#[cfg_attr(miri, ignore = "its steps take minutes there")]
fn a_timeout_shorter_than_the_queue_costs_no_statement_of_one_slot() {
    for policy in QUEUEING {
        let all = overload(policy, None, 1);
        for timeout_ms in [5, 20] {
            let some = overload(policy, Some(Duration::from_millis(timeout_ms)), 1);
            assert!(some.refused.get() > all.completed.get(), "{policy}: most are refused: {some:?}");
            assert!(100 * some.completed.get() >= 99 * all.completed.get(), "{policy}: {some:?}, {all:?}");
        }
    }
}

/// A session that were refused as soon as a newcomer would have worked for nothing.
#[test]
#[cfg_attr(miri, ignore = "its steps take minutes there")]
fn a_timeout_shorter_than_the_queue_costs_few_statements_of_many_slots() {
    for policy in QUEUEING {
        for slots in [2, 5] {
            let all = overload(policy, None, slots);
            for timeout_ms in [5, 20] {
                let some = overload(policy, Some(Duration::from_millis(timeout_ms)), slots);
                assert!(some.refused.get() > 0, "{policy}: {some:?}");
                assert!(10 * some.wasted.get() < slots * some.completed.get(), "{policy}: {some:?}");
                assert!(10 * some.completed.get() >= 8 * all.completed.get(), "{policy}: {some:?}, {all:?}");
            }
        }
    }
}
