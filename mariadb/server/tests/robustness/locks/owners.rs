//! Owners of rows that are idle between the statements of their transactions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::super::support::rest::until;
use super::super::support::*;
use super::{UPDATE_1, until_row_waits};

/// Says that it is over also to a thread of a test that fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While owners are idle for long, a statement that waits for their rows releases its slot at once. Nothing else releases it here.
pub(crate) fn idle_between_statements(server: &PrivateServer) {
    set(server, "thread_concurrency", "2");
    let mut owner = app(server);
    run(&mut owner, "BEGIN").unwrap();
    run(&mut owner, UPDATE_1).unwrap();
    let first = Running::start(server, UPDATE_1);
    until_row_waits(server, 1);
    let (over, rounds) = (AtomicBool::new(false), AtomicU32::new(0));
    let second = thread::scope(|scope| {
        let _over = Over(&over);
        let owner = &mut owner;
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                run(owner, "DO 0").unwrap();
                thread::sleep(Duration::from_millis(20));
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("it is known how long the owner is idle", || rounds.load(Ordering::Relaxed) > 20);
        let second = Running::start(server, UPDATE_1);
        until_row_waits(server, 2);
        assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
        second
    });
    assert!(!first.is_over() && !second.is_over(), "the row is locked");
    run(&mut owner, "COMMIT").unwrap();
    first.end().unwrap();
    second.end().unwrap();
}
