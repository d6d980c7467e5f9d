//! Sessions that may hold locks: they queue, and are never refused.

use flifo_mysql::PrivateServer;
use flifo_mysql::mysql::Conn;
use flifo_mysql::mysql::prelude::Queryable;

use super::support::{Holder, REFUSED, Running, Test, app, code, execute, run, set, until};

pub(crate) const TESTS: &[Test] = &[
    ("holders_of_session_locks", holders_of_session_locks),
    ("a_global_read_lock", a_global_read_lock),
    ("open_transactions", open_transactions),
    ("a_prepared_get_lock", a_prepared_get_lock),
    ("init_connect_is_not_refused", init_connect_is_not_refused),
    ("a_reset_ends_all_locks", a_reset_ends_all_locks),
    ("a_holder_goes_before_others", a_holder_goes_before_others),
];

/// Neither is urgent: without a lock they are refused.
const WORK: [&str; 2] = ["SELECT * FROM t", "UPDATE t SET k = k + 1 WHERE id = 2"];

#[track_caller]
fn is_not_refused(client: &mut Conn, why: &str) {
    for statement in WORK {
        assert_eq!(code(run(client, statement)), 0, "{statement} after {why}");
        assert_eq!(code(execute(client, statement)), 0, "{statement}, prepared, after {why}");
    }
}

#[track_caller]
fn is_refused(client: &mut Conn, why: &str) {
    for statement in WORK {
        assert_eq!(code(run(client, statement)), REFUSED, "{statement} after {why}");
    }
}

/// What takes a lock, and what releases the last one.
fn holders_of_session_locks(server: &PrivateServer) {
    server.administer("GRANT BACKUP_ADMIN ON *.* TO app@localhost").unwrap();
    server.administer("DROP PROCEDURE IF EXISTS test.takes").unwrap();
    server.administer("CREATE PROCEDURE test.takes() BEGIN DO GET_LOCK('p', 1); END").unwrap();
    server.administer("DROP PROCEDURE IF EXISTS test.releases").unwrap();
    server.administer("CREATE PROCEDURE test.releases() BEGIN SELECT RELEASE_LOCK('p'); END").unwrap();
    for (take, release) in [
        ("LOCK TABLES t WRITE", "UNLOCK TABLES"),
        ("DO GET_LOCK('n', 1)", "DO RELEASE_LOCK('n')"),
        ("SELECT Get_Lock('n', 1), GET_LOCK ('m', 1)", "SELECT RELEASE_LOCK('n'), RELEASE_LOCK('m')"),
        ("SET @got = GET_LOCK('n', 1)", "SELECT RELEASE_ALL_LOCKS()"),
        ("SELECT 1; SELECT GET_LOCK('n', 1); SELECT 2", "DO RELEASE_ALL_LOCKS()"),
        ("CALL takes()", "DO RELEASE_LOCK('p')"),
        ("DO GET_LOCK('p', 1); CALL takes()", "DO RELEASE_LOCK('p'), RELEASE_LOCK('p')"),
        ("CALL takes()", "SELECT 1; CALL releases()"),
        ("LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE"),
        ("HANDLER t OPEN", "HANDLER t CLOSE"),
    ] {
        let mut client = app(server);
        run(&mut client, take).unwrap();
        let holder = Holder::of_the_only_slot(server);
        set(server, "queue_timeout", 50);
        is_not_refused(&mut client, take);
        run(&mut client, release).unwrap();
        is_refused(&mut client, release);
        assert!(holder.still_holds());
        drop(holder);
        set(server, "queue_timeout", 0);
    }
}

/// The holder of the slot must not write: the lock would wait for it.
fn a_global_read_lock(server: &PrivateServer) {
    server.administer("GRANT RELOAD ON *.* TO app@localhost").unwrap();
    let mut client = app(server);
    run(&mut client, "FLUSH TABLES WITH READ LOCK").unwrap();
    let busy = Running::start(server, "SELECT BENCHMARK(1000000000000, SHA2(RAND(), 256))");
    until("it runs", || server.status_number("Flifo_running").unwrap() == 1);
    set(server, "queue_timeout", 50);
    assert_eq!(code(run(&mut client, WORK[0])), 0);
    run(&mut client, "UNLOCK TABLES").unwrap();
    is_refused(&mut client, "UNLOCK TABLES");
    server.administer(&format!("KILL QUERY {}", busy.id)).unwrap();
    // It may succeed: BENCHMARK only ends early.
    let _ = busy.end();
}

fn open_transactions(server: &PrivateServer) {
    for (begin, end) in [
        ("BEGIN; UPDATE t SET k = 1 WHERE id = 1", "COMMIT"),
        ("START TRANSACTION; SELECT * FROM t WHERE id = 1 FOR UPDATE", "ROLLBACK"),
        ("SET autocommit = 0; UPDATE t SET k = 1 WHERE id = 1", "COMMIT"),
        ("XA START 'x'; UPDATE t SET k = 1 WHERE id = 1; XA END 'x'; XA PREPARE 'x'", "XA COMMIT 'x'"),
    ] {
        let mut client = app(server);
        run(&mut client, begin).unwrap();
        let holder = Holder::of_the_only_slot(server);
        set(server, "queue_timeout", 50);
        if !begin.starts_with("XA") {
            is_not_refused(&mut client, begin);
        }
        // Others may wait for its rows.
        run(&mut client, end).unwrap();
        is_refused(&mut client, end);
        assert!(holder.still_holds());
        drop(holder);
        set(server, "queue_timeout", 0);
    }
}

fn a_prepared_get_lock(server: &PrivateServer) {
    let mut binary = app(server);
    execute(&mut binary, "SELECT GET_LOCK('b', 1)").unwrap();
    let mut text = app(server);
    run(&mut text, "PREPARE p FROM 'SELECT GET_LOCK(''e'', 1)'").unwrap();
    run(&mut text, "EXECUTE p").unwrap();
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 50);
    is_not_refused(&mut binary, "GET_LOCK, binary protocol");
    is_not_refused(&mut text, "GET_LOCK by EXECUTE");
    assert!(holder.still_holds());
}

/// The server closes the connection if `init_connect` fails.
fn init_connect_is_not_refused(server: &PrivateServer) {
    server.administer("SET GLOBAL init_connect = 'UPDATE test.t SET k = 9 WHERE id = 1'").unwrap();
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 50);
    let mut client = server.connect("app").unwrap();
    run(&mut client, "USE test").unwrap();
    is_refused(&mut client, "init_connect");
    let k: Option<u32> =
        server.connect("root").unwrap().query_first("SELECT k FROM test.t WHERE id = 1").unwrap();
    server.administer("SET GLOBAL init_connect = ''").unwrap();
    assert_eq!(k, Some(9), "init_connect did not run");
    assert!(holder.still_holds());
}

fn a_reset_ends_all_locks(server: &PrivateServer) {
    let mut reset = app(server);
    run(&mut reset, "DO GET_LOCK('r', 1)").unwrap();
    let mut changed = app(server);
    run(&mut changed, "DO GET_LOCK('c', 1)").unwrap();
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 50);
    is_not_refused(&mut reset, "GET_LOCK");
    reset.reset().unwrap();
    is_refused(&mut reset, "the reset of the connection");
    changed.change_user(flifo_mysql::mysql::ChangeUserOpts::default()).unwrap();
    run(&mut changed, "USE test").unwrap();
    is_refused(&mut changed, "the change of user");
    assert!(holder.still_holds());
}

fn a_holder_goes_before_others(server: &PrivateServer) {
    server.administer("CREATE TABLE test.ran (number INT AUTO_INCREMENT PRIMARY KEY, who INT)").unwrap();
    let mut client = app(server);
    run(&mut client, "BEGIN; UPDATE t SET k = 1 WHERE id = 1").unwrap();
    let holder = Holder::of_the_only_slot(server);
    let others: Vec<Running> =
        (0..10).map(|_| Running::start(server, "INSERT INTO ran (who) VALUES (0)")).collect();
    holder.until_queued(10);
    let first = Running::on(client, "INSERT INTO ran (who) VALUES (1); COMMIT");
    holder.until_queued(11);
    drop(holder);
    for statement in others.into_iter().chain([first]) {
        statement.end().0.unwrap();
    }
    let mut root = server.connect("root").unwrap();
    let number: Option<u32> = root.query_first("SELECT number FROM test.ran WHERE who = 1").unwrap();
    root.query_drop("DROP TABLE test.ran").unwrap();
    assert_eq!(number, Some(1), "statements without locks ran before");
}
