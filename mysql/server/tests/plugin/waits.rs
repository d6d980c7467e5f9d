//! Waits that the server reports release the slot, except those for row locks.

use flifo_mysql::PrivateServer;

use super::support::{Running, Test, app, run, set, until};

pub(crate) const TESTS: &[Test] = &[
    ("a_row_lock", a_row_lock),
    ("a_row_lock_for_long", a_row_lock_for_long),
    ("a_sleep", a_sleep),
    ("a_metadata_lock", a_metadata_lock),
    ("a_named_lock", a_named_lock),
];

/// While `waiter` waits with the only slot, others run.
fn others_run_beside(server: &PrivateServer, waiter: &Running) {
    for _ in 0..3 {
        run(&mut app(server), "SELECT COUNT(*) FROM t").unwrap();
    }
    assert!(!waiter.is_over(), "the waiter did not wait");
    assert_eq!(server.status_number("Flifo_queued").unwrap(), 0);
}

fn until_state(server: &PrivateServer, id: u32, state: &str) {
    use flifo_mysql::mysql::prelude::Queryable;
    let mut root = server.connect("root").unwrap();
    until(state, || {
        let text = format!(
            "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_id = {id} AND processlist_state LIKE '{state}'"
        );
        root.query_first::<u64, _>(text).unwrap() == Some(1)
    });
}

fn until_row_wait(server: &PrivateServer) {
    use flifo_mysql::mysql::prelude::Queryable;
    let mut root = server.connect("root").unwrap();
    until("a row-lock wait", || {
        let text = "SELECT COUNT(*) FROM performance_schema.data_lock_waits";
        root.query_first::<u64, _>(text).unwrap() == Some(1)
    });
}

/// The waiter keeps the slot, so that the lock's queue stays short. The row's owner and what is urgent enter by force.
fn a_row_lock(server: &PrivateServer) {
    // Where owners of rows were idle for long within the last second, a waiter releases its slot.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let mut owner = app(server);
    run(&mut owner, "BEGIN").unwrap();
    run(&mut owner, "UPDATE t SET k = 1 WHERE id = 1").unwrap();
    let waiter = Running::start(server, "UPDATE t SET k = 2 WHERE id = 1");
    until_row_wait(server);
    let other = Running::start(server, "SELECT COUNT(*) FROM t");
    until("the other one queues", || server.status_number("Flifo_queued").unwrap() == 1);
    assert_eq!(server.status_number("Flifo_lock_waiters").unwrap(), 1);
    for statement in ["SELECT COUNT(*) FROM t", "UPDATE t SET k = 3 WHERE id = 2"] {
        run(&mut owner, statement).unwrap();
    }
    assert!(!waiter.is_over() && !other.is_over());
    run(&mut owner, "COMMIT").unwrap();
    waiter.end().0.unwrap();
    other.end().0.unwrap();
}

/// A stalled waiter's slot goes to the next one.
fn a_row_lock_for_long(server: &PrivateServer) {
    let mut owner = app(server);
    run(&mut owner, "BEGIN").unwrap();
    run(&mut owner, "UPDATE t SET k = 1 WHERE id = 1").unwrap();
    let waiter = Running::start(server, "UPDATE t SET k = 2 WHERE id = 1");
    until_row_wait(server);
    set(server, "stall_limit", 50);
    others_run_beside(server, &waiter);
    run(&mut owner, "COMMIT").unwrap();
    waiter.end().0.unwrap();
}

fn a_sleep(server: &PrivateServer) {
    let waiter = Running::start(server, "SELECT SLEEP(3)");
    until_state(server, waiter.id, "User sleep");
    others_run_beside(server, &waiter);
    waiter.end().0.unwrap();
}

fn a_metadata_lock(server: &PrivateServer) {
    let mut owner = app(server);
    run(&mut owner, "BEGIN").unwrap();
    run(&mut owner, "SELECT * FROM loaded").unwrap();
    let waiter = Running::start(server, "ALTER TABLE loaded COMMENT 'waits'");
    until_state(server, waiter.id, "Waiting for table metadata lock");
    others_run_beside(server, &waiter);
    run(&mut owner, "COMMIT").unwrap();
    waiter.end().0.unwrap();
}

fn a_named_lock(server: &PrivateServer) {
    let mut owner = app(server);
    run(&mut owner, "DO GET_LOCK('name', 10)").unwrap();
    let waiter = Running::start(server, "DO GET_LOCK('name', 60)");
    until_state(server, waiter.id, "User lock");
    others_run_beside(server, &waiter);
    run(&mut owner, "DO RELEASE_LOCK('name')").unwrap();
    waiter.end().0.unwrap();
}
