//! Statements inside procedures, functions and triggers.

use std::sync::atomic::{AtomicBool, Ordering};

use flifo_mysql::PrivateServer;
use flifo_mysql::mysql::prelude::Queryable;

use super::support::{
    Holder, INTERRUPTED, Running, Test, app, code, crowd, execute, is_at_rest, rest, run, set, until,
};

pub(crate) const TESTS: &[Test] = &[
    ("every_kind_of_routine", every_kind_of_routine),
    ("a_long_procedure_queues_and_is_not_refused", a_long_procedure_queues_and_is_not_refused),
    ("a_procedure_queues_after_its_commit", a_procedure_queues_after_its_commit),
    ("a_killed_procedure_ends", a_killed_procedure_ends),
    ("routines_under_load", routines_under_load),
];

fn populate(server: &PrivateServer) {
    for statement in [
        "DROP TABLE IF EXISTS test.counted, test.log",
        "CREATE TABLE test.counted (id INT PRIMARY KEY, k INT NOT NULL)",
        "CREATE TABLE test.log (n INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT)",
        "CREATE TRIGGER test.logs AFTER UPDATE ON test.counted FOR EACH ROW
         BEGIN INSERT INTO test.log (k) VALUES (NEW.k); IF NEW.k < 0 THEN SIGNAL SQLSTATE '45000'; END IF; END",
        "INSERT INTO test.counted VALUES (1, 0), (2, 0), (3, 0)",
        "DROP PROCEDURE IF EXISTS test.adds",
        "CREATE PROCEDURE test.adds(IN times INT) BEGIN
         WHILE times > 0 DO UPDATE counted SET k = k + 1 WHERE id = 1; SET times = times - 1; END WHILE; END",
        "DROP PROCEDURE IF EXISTS test.looks",
        "CREATE PROCEDURE test.looks(IN times INT) BEGIN DECLARE n INT;
         WHILE times > 0 DO SELECT COUNT(*) INTO n FROM counted; SET times = times - 1; END WHILE; END",
        "DROP PROCEDURE IF EXISTS test.commits",
        "CREATE PROCEDURE test.commits() BEGIN
         START TRANSACTION; UPDATE counted SET k = k + 1 WHERE id = 2; COMMIT; CALL adds(2); SELECT COUNT(*) FROM counted; END",
        "DROP PROCEDURE IF EXISTS test.handles",
        "CREATE PROCEDURE test.handles() BEGIN
         DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN SELECT 'handled'; END;
         UPDATE counted SET k = -1; SELECT no_such_column FROM counted; UPDATE counted SET k = k + 1 WHERE id = 3; END",
        "DROP PROCEDURE IF EXISTS test.prepares",
        "CREATE PROCEDURE test.prepares() BEGIN
         PREPARE s FROM 'UPDATE counted SET k = k + 1 WHERE id = 3'; EXECUTE s; EXECUTE s; DEALLOCATE PREPARE s; END",
        "DROP FUNCTION IF EXISTS test.writes",
        "CREATE FUNCTION test.writes() RETURNS INT MODIFIES SQL DATA
         BEGIN UPDATE counted SET k = k + 1 WHERE id = 2; RETURN (SELECT COUNT(*) FROM log); END",
    ] {
        server.administer(statement).unwrap();
    }
}

/// Each works with the only slot, leaves none behind, and the next one runs.
fn every_kind_of_routine(server: &PrivateServer) {
    populate(server);
    let mut client = app(server);
    for (statement, error) in [
        ("UPDATE counted SET k = k + 1", 0),
        ("UPDATE counted SET k = -1", 1644),
        ("CALL adds(50)", 0),
        ("CALL commits()", 0),
        ("CALL handles()", 0),
        ("CALL prepares()", 0),
        ("SELECT writes(), writes()", 0),
        ("SELECT COUNT(*) FROM t WHERE writes() > 0", 0),
        ("CALL adds((SELECT COUNT(*) FROM counted))", 0),
        ("CALL no_such_procedure()", 1305),
        ("CALL commits(); CALL adds(1); SELECT writes()", 0),
        ("BEGIN; CALL adds(1); SELECT writes(); ROLLBACK", 0),
        ("PREPARE outside FROM 'CALL commits()'", 0),
        ("EXECUTE outside", 0),
    ] {
        assert_eq!(code(run(&mut client, statement)), error, "{statement}");
        until(statement, || is_at_rest(server));
    }
    for (statement, error) in [
        ("UPDATE counted SET k = k + 1", 0),
        ("UPDATE counted SET k = -1", 1644),
        ("CALL adds(50)", 0),
        ("CALL commits()", 0),
        ("CALL handles()", 0),
        ("CALL prepares()", 0),
        ("SELECT writes()", 0),
    ] {
        assert_eq!(code(execute(&mut client, statement)), error, "{statement}, prepared");
        until(statement, || is_at_rest(server));
    }
    rest(server);
}

/// More statements than a slot has tickets.
fn a_long_procedure_queues_and_is_not_refused(server: &PrivateServer) {
    populate(server);
    // On a busy machine each statement would be the last of its time slice.
    set(server, "quantum", 1_000_000);
    let before = server.status_number("Flifo_admitted").unwrap();
    let works = |_: usize, stop: &AtomicBool| {
        let mut client = app(server);
        while !stop.load(Ordering::Relaxed) {
            if run(&mut client, "SELECT COUNT(*) FROM t").is_err() {
                // A client that asks again at once takes the CPU from the procedure.
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    };
    crowd(3, works, || {
        let procedure = Running::start(server, "CALL looks(5500)");
        until("it runs, and others queue", || server.status_number("Flifo_admitted").unwrap() > before + 1);
        set(server, "queue_timeout", 1);
        procedure.end().0.unwrap();
    });
    server.administer("SET GLOBAL flifo_quantum = DEFAULT").unwrap();
    assert!(server.status_number("Flifo_admitted").unwrap() > before);
}

/// A wait ends with a forced entry; the next statement of the procedure queues.
fn a_procedure_queues_after_its_commit(server: &PrivateServer) {
    populate(server);
    let procedure = Running::start(server, "CALL adds(100000000)");
    until("it runs", || server.status_number("Flifo_admitted_by_force").unwrap() > 0);
    let holder = Holder::of_the_only_slot(server);
    holder.until_queued(1);
    assert!(holder.still_holds() && !procedure.is_over());
    server.administer(&format!("KILL QUERY {}", procedure.id)).unwrap();
    assert_eq!(code(procedure.end().0), INTERRUPTED);
    assert!(holder.still_holds());
}

/// While it runs, and while it queues.
fn a_killed_procedure_ends(server: &PrivateServer) {
    populate(server);
    let mut root = server.connect("root").unwrap();
    // The server itself loses a KILL QUERY that comes while a statement of the procedure commits.
    let running = Running::start(server, "CALL looks(100000000)");
    until("it runs", || server.status_number("Flifo_running").unwrap() == 1);
    root.query_drop(format!("KILL QUERY {}", running.id)).unwrap();
    assert_eq!(code(running.end().0), INTERRUPTED);
    until("no slot is out", || is_at_rest(server));
    let holder = Holder::of_the_only_slot(server);
    let queued = Running::start(server, "CALL adds(1)");
    holder.until_queued(1);
    root.query_drop(format!("KILL QUERY {}", queued.id)).unwrap();
    assert_eq!(code(queued.end().0), INTERRUPTED);
    assert!(holder.still_holds());
}

/// No update is lost, and no slot.
fn routines_under_load(server: &PrivateServer) {
    populate(server);
    const STATEMENTS: [(&str, u64); 5] = [
        ("CALL adds(3)", 3),
        ("UPDATE counted SET k = k + 1 WHERE id = 1", 1),
        ("BEGIN; CALL adds(2); COMMIT", 2),
        ("CALL commits()", 2),
        ("CALL handles()", 0),
    ];
    set(server, "thread_concurrency", 2);
    let added = std::sync::atomic::AtomicU64::new(0);
    let client = |number: usize, stop: &AtomicBool| {
        let mut client = app(server);
        let mut at = number;
        while !stop.load(Ordering::Relaxed) {
            let (statement, adds) = STATEMENTS[at % STATEMENTS.len()];
            // A deadlock rolls the transaction back.
            if run(&mut client, statement).is_ok() {
                added.fetch_add(adds, Ordering::Relaxed);
            } else {
                let _ = run(&mut client, "ROLLBACK");
            }
            at += 1;
        }
    };
    crowd(16, client, || {
        until("enough is done", || server.status_number("Flifo_admitted_from_queue").unwrap() > 300);
    });
    until("no slot is out", || is_at_rest(server));
    let is: Option<u64> =
        server.connect("root").unwrap().query_first("SELECT k FROM test.counted WHERE id = 1").unwrap();
    assert!(is >= Some(added.load(Ordering::Relaxed)), "{is:?}");
}
