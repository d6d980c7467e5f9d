//! Statements that sleep in their places without a word: for a sync of the log that takes its time, or for a row that an
//! idle transaction holds; and such as run for long. Others go on meanwhile. Nothing else would let them: no stall is broken
//! here.

use super::support::rest::until;
use super::support::syncs::{Held, until_state, update, with_slow_syncs};
use super::support::*;

pub(crate) fn subject() -> Subject {
    on("lending", with_slow_syncs())
}

/// In a pool of threads, where who waits for the log has no thread meanwhile.
pub(crate) fn pool() -> Subject {
    on("lending_in_a_pool", with_slow_syncs().set("thread-handling", "pool-of-threads"))
}

fn on(name: &'static str, options: Options) -> Subject {
    Subject {
        name,
        options,
        tests: vec![
            ("who_waits_for_the_log_holds_no_place", who_waits_for_the_log_holds_no_place),
            (
                "procedures_and_packets_wait_for_the_log_as_others_do",
                procedures_and_packets_wait_for_the_log_as_others_do,
            ),
            ("the_place_of_one_that_syncs_the_log_is_lent", the_place_of_one_that_syncs_the_log_is_lent),
            ("the_place_of_one_that_waits_for_a_row_is_lent", the_place_of_one_that_waits_for_a_row_is_lent),
            ("the_place_of_one_that_runs_for_long_is_lent", the_place_of_one_that_runs_for_long_is_lent),
            (
                "the_place_of_one_that_runs_for_long_stays_lent",
                the_place_of_one_that_runs_for_long_stays_lent,
            ),
        ],
    }
}

/// Waits until all of these but one have done their work, and that one is the next to sync the log. Nobody knows which.
fn until_all_but_one_are_done(server: &PrivateServer, statements: &[Running]) {
    let mut root = admin(server);
    let ids = statements.iter().map(|statement| statement.id.to_string()).collect::<Vec<_>>().join(",");
    let text = format!("SELECT state FROM information_schema.processlist WHERE id IN ({ids})");
    until("all but one have done their work", || {
        let states: Vec<Option<String>> = root.query(&text).unwrap();
        let count = |state: &str| states.iter().flatten().filter(|is| *is == state).count();
        // The second in a pool of threads, where none need be the next to sync.
        let done = count("Updating status") + count("Freeing items");
        done >= statements.len() - 1 && done + count("Commit") == statements.len()
    });
}

/// The first syncs, in its place; another is the next to sync, which the server tells; what the others wait for it does not tell.
fn who_waits_for_the_log_holds_no_place(server: &PrivateServer) {
    set(server, "thread_concurrency", "2");
    let held = Held::begin();
    let first = update(server, 1);
    until_state(server, first.id, "Commit");
    let others: Vec<_> = (2..10).map(|id| update(server, id)).collect();
    until_all_but_one_are_done(server, &others);
    assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
    assert!(!first.is_over(), "its sync is held");
    drop(held);
    assert_eq!(code(first.end()), 0);
    others.into_iter().for_each(|other| assert_eq!(code(other.end()), 0));
}

/// What is told of a statement's end is not told of those within it, nor is it told of the next one of its packet.
fn procedures_and_packets_wait_for_the_log_as_others_do(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE PROCEDURE test.sleeps_and_writes(n INT)
            BEGIN UPDATE t SET k = k + 1 WHERE id = n; DO SLEEP(1000 * (n = 1)); UPDATE t SET k = 0 WHERE id = n; END",
        "CREATE OR REPLACE TABLE test.traced (id INT PRIMARY KEY)",
        "CREATE OR REPLACE TRIGGER test.trace BEFORE INSERT ON test.traced FOR EACH ROW UPDATE t SET k = k + 1 WHERE id = NEW.id",
    ] {
        root.query_drop(statement).unwrap();
    }
    set(server, "thread_concurrency", "2");
    set(server, "wait_mask", "TABLE_LOCK,DISK,NETWORK,LOG_SYNC,USER");
    for sleeper in ["CALL sleeps_and_writes(1)", "DO 1; UPDATE t SET k = k + 1 WHERE id = 1; DO SLEEP(1000)"]
    {
        let sleeper = Running::start(server, sleeper);
        until_state(server, sleeper.id, "User sleep");
        assert_eq!(server.status_number("Flifo_inside").unwrap(), 1, "it is under way, and holds its place");
        root.query_drop(format!("KILL QUERY {}", sleeper.id)).unwrap();
        let _ = sleeper.end();
    }
    let held = Held::begin();
    let first = update(server, 1);
    until_state(server, first.id, "Commit");
    let others = [
        "UPDATE t SET k = k + 1 WHERE id = 2",
        "INSERT INTO traced VALUES (3)",
        "INSERT INTO traced VALUES (4), (5)",
        "UPDATE t SET k = k + 1 WHERE id = 6",
        "DO 1; UPDATE t SET k = k + 1 WHERE id = 7",
    ]
    .map(|statement| Running::start(server, statement));
    until_all_but_one_are_done(server, &others);
    assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
    assert!(!first.is_over(), "its sync is held");
    drop(held);
    [first].into_iter().chain(others).for_each(|each| assert_eq!(code(each.end()), 0));
}

fn the_place_of_one_that_syncs_the_log_is_lent(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set(server, "lend_sleepers", "ON");
    let before = server.status_number("Flifo_lent").unwrap();
    let held = Held::begin();
    let first = update(server, 1);
    until_state(server, first.id, "Commit");
    assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
    assert!(!first.is_over(), "its sync is held");
    assert!(server.status_number("Flifo_lent").unwrap() > before);
    drop(held);
    assert_eq!(code(first.end()), 0);
}

fn the_place_of_one_that_waits_for_a_row_is_lent(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set(server, "lend_sleepers", "ON");
    let mut idle = app(server);
    for statement in ["BEGIN", "UPDATE t SET k = k + 1 WHERE id = 1"] {
        assert_eq!(code(run(&mut idle, statement)), 0);
    }
    let waiters: Vec<_> = (0..3).map(|_| update(server, 1)).collect();
    until("all wait for the row", || server.status_number("Flifo_lock_waiters").unwrap() == 3);
    assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
    assert!(waiters.iter().all(|waiter| !waiter.is_over()));
    assert_eq!(code(run(&mut idle, "COMMIT")), 0);
    waiters.into_iter().for_each(|waiter| assert_eq!(code(waiter.end()), 0));
}

/// A report that waits now and then has no place after that, either.
fn the_place_of_one_that_runs_for_long_stays_lent(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set_number(server, "stall_after", 50);
    let report = Running::start(
        server,
        "SELECT BENCHMARK(1000000000, MD5(1)) FROM seq_1_to_1000000 WHERE SLEEP(0.0001) = 0 AND BENCHMARK(50000, MD5(seq)) = 0",
    );
    let lent = || server.status_number("Flifo_lent").unwrap();
    let before = lent();
    let mut client = app(server);
    until("it has stayed for long", || {
        assert_eq!(code(run(&mut client, "SELECT COUNT(*) FROM t")), 0);
        lent() > before
    });
    // Between the end of a wait and that it is lent again it may be seen.
    let empty = (0..200).filter(|_| server.status_number("Flifo_inside").unwrap() == 0).count();
    assert!(empty > 150, "the report held a place in {} looks of 200", 200 - empty);
    admin(server).query_drop(format!("KILL QUERY {}", report.id)).unwrap();
    let _ = report.end();
}

/// As many reports as there are places, and more: each has one for a while, and then the others have it.
fn the_place_of_one_that_runs_for_long_is_lent(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set_number(server, "stall_after", 50);
    let reports: Vec<_> =
        (0..3).map(|_| Running::start(server, "SELECT BENCHMARK(1000000000000, MD5(1))")).collect();
    let mut client = app(server);
    // Each keeps its place until somebody queues for it: on a slow machine the stall breaker may have let the last one in. Now and
    // then a select comes in while a place goes from one report to the next, and need not queue.
    until("all hold no place", || {
        assert_eq!(code(run(&mut client, "SELECT COUNT(*) FROM t")), 0);
        server.status_number("Flifo_lent_now").unwrap() == 3
    });
    let broken = server.status_number("Flifo_stalls_broken").unwrap();
    for _ in 0..30 {
        assert_eq!(code(run(&mut client, "SELECT COUNT(*) FROM t")), 0);
    }
    assert_eq!(server.status_number("Flifo_stalls_broken").unwrap(), broken, "nothing stalled");
    let mut root = admin(server);
    for report in reports {
        assert!(!report.is_over());
        root.query_drop(format!("KILL QUERY {}", report.id)).unwrap();
        let _ = report.end();
    }
}
