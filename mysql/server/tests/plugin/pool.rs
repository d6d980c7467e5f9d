//! Over the pool of threads that comes with the server.

use flifo_mysql::PrivateServer;

use super::stage::Subject;
use super::support::{Holder, Running, Test, app, run, until};
use super::{admission, holders, inside, kill, storm, waits};

pub(crate) const POOL: &[&str] = &["--plugin-load-add=thread_pool.so", "--thread-pool-size=1"];

pub(crate) fn subject() -> Subject {
    let own: &[Test] = &[("queued_statements_take_no_thread", queued_statements_take_no_thread)];
    let tests =
        [own, admission::TESTS, holders::TESTS, inside::TESTS, kill::TESTS, waits::TESTS, storm::TESTS]
            .concat();
    Subject { name: "pool", arguments: POOL, prepare: |_| {}, tests }
}

/// More than the pool has threads.
const QUEUED: u64 = 60;

/// Queued statements and waits take no thread from the pool: others connect and run.
fn queued_statements_take_no_thread(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let queued: Vec<Running> =
        (0..QUEUED).map(|_| Running::start(server, "UPDATE t SET k = k + 1 WHERE id = 1")).collect();
    holder.until_queued(QUEUED);
    server.administer("SELECT COUNT(*) FROM test.t").unwrap();
    assert!(holder.still_holds());
    drop(holder);
    for statement in queued {
        statement.end().0.unwrap();
    }
    let before = server.status_number("Flifo_admitted").unwrap();
    let waiter = Running::start(server, "SELECT SLEEP(2)");
    until("it sleeps", || server.status_number("Flifo_admitted").unwrap() > before);
    run(&mut app(server), "SELECT COUNT(*) FROM t").unwrap();
    waiter.end().0.unwrap();
}
