//! Statements: who queues, who is refused, and that every way to run one releases its slot.

use std::time::{Duration, Instant};

use flifo_mysql::PrivateServer;
use flifo_mysql::mysql::prelude::Queryable;

use super::support::{Holder, REFUSED, Running, Test, app, code, execute, rest, run, set, until};

pub(crate) const TESTS: &[Test] = &[
    ("a_queued_statement_is_shown", a_queued_statement_is_shown),
    ("administrators_bypass", administrators_bypass),
    ("refused_by_timeout", refused_by_timeout),
    ("refused_by_a_full_queue", refused_by_a_full_queue),
    ("transactions_are_not_refused", transactions_are_not_refused),
    ("every_way_to_run_a_statement", every_way_to_run_a_statement),
    ("a_prepared_call_keeps_its_slot", a_prepared_call_keeps_its_slot),
    ("a_stall_admits_one_more", a_stall_admits_one_more),
    ("wrong_values_are_refused", wrong_values_are_refused),
];

fn a_queued_statement_is_shown(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let queued = Running::start(server, "SELECT * FROM t");
    holder.until_queued(1);
    let mut root = server.connect("root").unwrap();
    // The time may be -1: the server reads two clocks.
    type Process = (u32, String, String, Option<String>, String, i64, Option<String>, Option<String>);
    let processes: Vec<Process> = root.query("SHOW PROCESSLIST").unwrap();
    let shown = processes.iter().find(|process| process.0 == queued.id).expect("in the process list");
    assert_eq!(shown.6.as_deref(), Some("Waiting for admission"));
    let state: Option<String> = root
        .query_first(format!(
            "SELECT processlist_state FROM performance_schema.threads WHERE processlist_id = {}",
            queued.id
        ))
        .unwrap()
        .unwrap();
    assert_eq!(state.as_deref(), Some("Waiting for admission"));
    assert!(holder.still_holds() && !queued.is_over());
    drop(holder);
    queued.end().0.unwrap();
}

fn administrators_bypass(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    server.administer("SELECT COUNT(*) FROM test.t").unwrap();
    server.administer("UPDATE test.t SET k = 0 WHERE id = 2").unwrap();
    assert!(holder.still_holds());
}

fn refused_by_timeout(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 100);
    for statement in ["SELECT * FROM t", "UPDATE t SET k = k + 1 WHERE id = 1"] {
        let mut client = app(server);
        let begin = Instant::now();
        assert_eq!(code(run(&mut client, statement)), REFUSED, "{statement}");
        assert!(begin.elapsed() >= Duration::from_millis(90), "{:?}", begin.elapsed());
        // The connection goes on.
        assert_eq!(code(execute(&mut client, statement)), REFUSED, "{statement}, prepared");
    }
    assert!(holder.still_holds());
    drop(holder);
    run(&mut app(server), "SELECT * FROM t").unwrap();
}

fn refused_by_a_full_queue(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    set(server, "max_queue", 1);
    let queued = Running::start(server, "SELECT * FROM t");
    holder.until_queued(1);
    assert_eq!(code(run(&mut app(server), "SELECT * FROM t")), REFUSED);
    drop(holder);
    queued.end().0.unwrap();
}

fn transactions_are_not_refused(server: &PrivateServer) {
    let mut client = app(server);
    run(&mut client, "BEGIN").unwrap();
    run(&mut client, "UPDATE t SET k = 7 WHERE id = 1").unwrap();
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 100);
    run(&mut client, "UPDATE t SET k = 8 WHERE id = 2").unwrap();
    run(&mut client, "COMMIT").unwrap();
    assert!(holder.still_holds());
}

/// Each leaves no slot behind, whatever events it has.
fn every_way_to_run_a_statement(server: &PrivateServer) {
    let mut client = app(server);
    for (statement, error) in [
        ("SELECT * FROM t", 0),
        ("UPDATE t SET k = k + 1 WHERE id = 1", 0),
        ("SELECT no_such_column FROM t", 1054),
        ("SELECT * FROM no_such_table", 1146),
        ("SELEC", 1064),
        ("INSERT INTO t VALUES (1, 1)", 1062),
        ("CALL two()", 0),
        ("SELECT count_rows()", 0),
        ("PREPARE p FROM 'SELECT * FROM t'", 0),
        ("EXECUTE p", 0),
        ("EXECUTE no_such_name", 1243),
        ("PREPARE broken FROM 'SELECT no_such_column FROM t'", 1054),
        ("DEALLOCATE PREPARE p", 0),
        ("SELECT 1; SELECT 2; UPDATE t SET k = 0 WHERE id = 1", 0),
        ("SELECT 1; SELECT no_such_column FROM t; SELECT 2", 1054),
        ("BEGIN; UPDATE t SET k = 1 WHERE id = 1; ROLLBACK", 0),
        ("DO SLEEP(0.01)", 0),
        ("LOCK TABLES t WRITE; UNLOCK TABLES", 0),
    ] {
        assert_eq!(code(run(&mut client, statement)), error, "{statement}");
        until(statement, || server.status_number("Flifo_running").unwrap() == 0);
    }
    for (statement, error) in [
        ("SELECT * FROM t", 0),
        ("UPDATE t SET k = k + 1 WHERE id = 1", 0),
        ("INSERT INTO t VALUES (1, 1)", 1062),
        ("CALL two()", 0),
    ] {
        assert_eq!(code(execute(&mut client, statement)), error, "{statement}, prepared");
        until(statement, || server.status_number("Flifo_running").unwrap() == 0);
    }
    client.reset().unwrap();
    assert!(client.ping().is_ok());
    rest(server);
}

/// The server reports an end after each statement of the procedure, too.
fn a_prepared_call_keeps_its_slot(server: &PrivateServer) {
    server.administer("DROP PROCEDURE IF EXISTS test.works").unwrap();
    server
        .administer(
            "CREATE PROCEDURE test.works() BEGIN SELECT COUNT(*) FROM test.t;
             SELECT BENCHMARK(3000000, SHA2(RAND(), 256)); END",
        )
        .unwrap();
    let mut client = app(server);
    let id = client.connection_id();
    let thread = std::thread::spawn(move || execute(&mut client, "CALL works()"));
    let mut root = server.connect("root").unwrap();
    until("its second statement runs", || {
        let text = format!(
            "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_id = {id} AND processlist_info LIKE '%BENCHMARK%'"
        );
        root.query_first::<u64, _>(text).unwrap() == Some(1)
    });
    let running = server.status_number("Flifo_running").unwrap();
    assert!(running == 1 || thread.is_finished(), "the slot was released within the procedure");
    thread.join().unwrap().unwrap();
}

fn a_stall_admits_one_more(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let before = server.status_number("Flifo_stalls").unwrap();
    set(server, "stall_limit", 50);
    run(&mut app(server), "SELECT * FROM t").unwrap();
    assert!(holder.still_holds());
    assert!(server.status_number("Flifo_stalls").unwrap() > before);
}

fn wrong_values_are_refused(server: &PrivateServer) {
    let mut root = server.connect("root").unwrap();
    for (name, value) in [
        ("thread_concurrency", "'many'"),
        ("thread_concurrency", "1024"),
        ("thread_concurrency", "-1"),
        ("stall_limit", "-1"),
        ("queue_timeout", "86400001"),
        ("max_queue", "NULL"),
    ] {
        let set = format!("SET GLOBAL flifo_{name} = {value}");
        assert!(matches!(code(root.query_drop(&set)), 1231 | 1232), "{set}");
    }
    for value in ["auto", "0", "1023", "7"] {
        root.query_drop(format!("SET GLOBAL flifo_thread_concurrency = '{value}'")).unwrap();
        let is: Option<String> = root.query_first("SELECT @@GLOBAL.flifo_thread_concurrency").unwrap();
        assert_eq!(is.as_deref(), Some(value));
    }
    root.query_drop("SET GLOBAL flifo_thread_concurrency = DEFAULT").unwrap();
    let is: Option<String> = root.query_first("SELECT @@GLOBAL.flifo_thread_concurrency").unwrap();
    assert_eq!(is.as_deref(), Some("auto"));
}
