//! Waits that the server does not report, row locks of idle transactions, and long statements: others run all the same.

use super::support::rest::until;
use super::support::syncs::{Held, until_state, update, with_slow_syncs};
use super::support::*;

pub(crate) fn subject() -> Subject {
    on("unreported", with_slow_syncs())
}

/// In a pool of threads, where a statement that waits for the log has no thread.
pub(crate) fn pool() -> Subject {
    on("unreported_in_a_pool", in_a_pool(with_slow_syncs()))
}

fn on(name: &'static str, options: Options) -> Subject {
    Subject {
        name,
        options,
        tests: vec![
            ("waits_for_the_log_hold_no_slot", waits_for_the_log_hold_no_slot),
            ("procedures_and_packets_that_wait_for_the_log", procedures_and_packets_that_wait_for_the_log),
            ("the_slot_of_a_sync_is_reclaimed", the_slot_of_a_sync_is_reclaimed),
            ("the_slot_of_a_row_waiter_is_reclaimed", the_slot_of_a_row_waiter_is_reclaimed),
            ("slots_of_long_statements_are_reclaimed", slots_of_long_statements_are_reclaimed),
            ("a_long_statement_stays_without_a_slot", a_long_statement_stays_without_a_slot),
        ],
    }
}

/// Statements lose their slots after this time, ms.
const STALL_LIMIT: u64 = 50;

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

/// The first syncs, in its slot; another is the next to sync, which the server reports; the others' waits it does not report.
fn waits_for_the_log_hold_no_slot(server: &PrivateServer) {
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

/// The end of a statement's work is not reported for statements inside it, nor is it the end of its packet.
fn procedures_and_packets_that_wait_for_the_log(server: &PrivateServer) {
    let (mut root, fifo) = (admin(server), Fifo::new());
    for statement in [
        "CREATE OR REPLACE PROCEDURE test.blocks_and_writes(n INT)
            BEGIN UPDATE t SET k = k + 1 WHERE id = n; SELECT FIFO INTO @x; UPDATE t SET k = 0 WHERE id = n; END",
        "CREATE OR REPLACE TABLE test.traced (id INT PRIMARY KEY)",
        "CREATE OR REPLACE TRIGGER test.trace BEFORE INSERT ON test.traced FOR EACH ROW UPDATE t SET k = k + 1 WHERE id = NEW.id",
    ] {
        root.query_drop(statement.replace("FIFO", &fifo.blocks())).unwrap();
    }
    set(server, "thread_concurrency", "2");
    let packet = format!("DO 1; UPDATE t SET k = k + 1 WHERE id = 1; {}", fifo.select());
    for statement in ["CALL blocks_and_writes(1)", &packet] {
        let blocked = Running::start(server, statement);
        until_blocked(server, blocked.id);
        assert_eq!(server.status_number("Flifo_running").unwrap(), 1, "it is under way, and holds its slot");
        fifo.release_until(|| blocked.is_over());
        blocked.end().unwrap();
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

fn stalls(server: &PrivateServer) -> u64 {
    server.status_number("Flifo_stalls").unwrap()
}

fn select(server: &PrivateServer) {
    assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
}

fn the_slot_of_a_sync_is_reclaimed(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set_number(server, "stall_limit", STALL_LIMIT);
    let before = stalls(server);
    let held = Held::begin();
    let first = update(server, 1);
    until_state(server, first.id, "Commit");
    select(server);
    assert!(!first.is_over(), "its sync is held");
    assert!(stalls(server) > before);
    drop(held);
    assert_eq!(code(first.end()), 0);
}

fn the_slot_of_a_row_waiter_is_reclaimed(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set_number(server, "stall_limit", STALL_LIMIT);
    let mut idle = app(server);
    for statement in ["BEGIN", "UPDATE t SET k = k + 1 WHERE id = 1"] {
        assert_eq!(code(run(&mut idle, statement)), 0);
    }
    let waiters: Vec<_> = (0..3).map(|_| update(server, 1)).collect();
    until("all wait for the row", || server.status_number("Flifo_lock_waiters").unwrap() == 3);
    select(server);
    assert!(waiters.iter().all(|waiter| !waiter.is_over()));
    assert_eq!(code(run(&mut idle, "COMMIT")), 0);
    waiters.into_iter().for_each(|waiter| assert_eq!(code(waiter.end()), 0));
}

/// A report that waits now and then has no slot after the wait, either.
fn a_long_statement_stays_without_a_slot(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set_number(server, "stall_limit", STALL_LIMIT);
    let report = Running::start(
        server,
        "SELECT BENCHMARK(1000000000, MD5(1)) FROM seq_1_to_1000000 WHERE SLEEP(0.0001) = 0 AND BENCHMARK(50000, MD5(seq)) = 0",
    );
    let before = stalls(server);
    until("its slot is reclaimed", || {
        select(server);
        stalls(server) > before
    });
    let without = (0..200).filter(|_| server.status_number("Flifo_running").unwrap() == 0).count();
    assert!(without > 150, "the report held a slot in {} samples of 200", 200 - without);
    admin(server).query_drop(format!("KILL QUERY {}", report.id)).unwrap();
    let _ = report.end();
}

/// More reports than slots: each has a slot for a while, and then the others have it.
fn slots_of_long_statements_are_reclaimed(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    set_number(server, "stall_limit", STALL_LIMIT);
    let reports: Vec<_> =
        (0..3).map(|_| Running::start(server, "SELECT BENCHMARK(1000000000000, MD5(1))")).collect();
    let mut client = app(server);
    until("the reports hold no slot", || {
        assert_eq!(code(run(&mut client, "SELECT COUNT(*) FROM t")), 0);
        server.status_number("Flifo_running").unwrap() == 0
            && server.status_number("Flifo_queued").unwrap() == 0
    });
    let before = stalls(server);
    for _ in 0..30 {
        assert_eq!(code(run(&mut client, "SELECT COUNT(*) FROM t")), 0);
    }
    assert_eq!(stalls(server), before, "nothing stalled");
    let mut root = admin(server);
    for report in reports {
        assert!(!report.is_over());
        root.query_drop(format!("KILL QUERY {}", report.id)).unwrap();
        let _ = report.end();
    }
}
