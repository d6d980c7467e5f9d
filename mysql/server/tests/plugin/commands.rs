//! Commands of the protocol, sent by hand: whatever a client sends, and however it ends, no slot stays with it.

use std::thread;
use std::time::Duration;

use flifo_mysql::PrivateServer;

use super::support::{
    Holder, REFUSED, Reply, Running, Test, Wire, app, code, command, is_at_rest, run, set, until, wire,
};

pub(crate) const TESTS: &[Test] = &[
    ("errors", errors),
    ("definitions_transactions_and_temporary_tables", definitions_transactions_and_temporary_tables),
    ("commands_that_need_no_slot", commands_that_need_no_slot),
    ("prepared_statements", prepared_statements),
    ("every_way_queues", every_way_queues),
    ("cursors", cursors),
    ("load_data_local", load_data_local),
    ("a_slow_reader", a_slow_reader),
    ("events_of_the_server", events_of_the_server),
];

#[track_caller]
fn free(server: &PrivateServer, what: &str) {
    until(what, || is_at_rest(server));
}

fn without_text(reply: Reply) -> Reply {
    match reply {
        Reply::Error(code, _) => failed(code),
        other => other,
    }
}

fn failed(code: u16) -> Reply {
    Reply::Error(code, String::new())
}

#[track_caller]
fn replies(client: &mut Wire) -> Vec<Reply> {
    client.replies().unwrap().into_iter().map(without_text).collect()
}

fn errors(server: &PrivateServer) {
    let mut client = app(server);
    for (statement, error) in [
        ("SELEC 1", 1064),
        ("", 1065),
        ("SELECT * FROM no_such_table", 1146),
        ("SELECT no_such_function()", 1305),
        ("INSERT INTO t VALUES (2001, NULL)", 1048),
        ("UPDATE t SET k = 18446744073709551615 WHERE id = 1", 1264),
        ("SELECT (SELECT id FROM t)", 1242),
        ("SELECT 9223372036854775807 + 1", 1690),
        ("SELECT * FROM mysql.user", 1142),
        ("USE no_such_database", 1044),
        ("SET GLOBAL flifo_thread_concurrency = 0", 1227),
        ("SET SESSION flifo_stall_limit = 1", 1229),
        ("SET SESSION no_such_variable = 1", 1193),
        ("KILL 999999999", 1094),
        ("EXECUTE no_such_statement", 1243),
        ("/* of no client */ EXECUTE no_such_statement", 1243),
        ("/*!80000 EXECUTE no_such_statement */", 1243),
        ("DEALLOCATE PREPARE no_such_statement", 1243),
        ("SIGNAL SQLSTATE '45000'", 1644),
        ("LOAD DATA INFILE '/no/such/file' INTO TABLE loaded", 13),
        ("DO 1; SELECT no_such_column FROM t; DO 2", 1054),
    ] {
        for _ in 0..3 {
            assert_eq!(code(run(&mut client, statement)), error, "{statement}");
            free(server, statement);
        }
    }
    // The clock of `max_execution_time` starts after the queue; a statement that it ends has released its slot. SLEEP reports no error.
    let _ = run(&mut client, "SELECT /*+ MAX_EXECUTION_TIME(10) */ SLEEP(5)");
    free(server, "a statement that took too long");
}

fn definitions_transactions_and_temporary_tables(server: &PrivateServer) {
    let mut client = app(server);
    for statement in [
        "CREATE TEMPORARY TABLE own (id INT PRIMARY KEY, k INT)",
        "INSERT INTO own SELECT * FROM t",
        "CREATE TEMPORARY TABLE copy AS SELECT * FROM own",
        "UPDATE own, t SET own.k = t.k WHERE own.id = t.id",
        "BEGIN; INSERT INTO own VALUES (10, 1); ROLLBACK",
        "ALTER TABLE own ADD COLUMN a INT",
        "TRUNCATE TABLE own",
        "DROP TEMPORARY TABLE own, copy",
        "CREATE TABLE made (id INT PRIMARY KEY, a INT) SELECT 1 AS id, 2 AS a",
        "ALTER TABLE made ADD INDEX (a), ALGORITHM = INPLACE",
        "ALTER TABLE made ADD COLUMN b INT, ALGORITHM = INSTANT",
        "ALTER TABLE made FORCE",
        "CREATE VIEW seen AS SELECT * FROM made",
        "SELECT * FROM seen",
        "ANALYZE TABLE made",
        "CHECK TABLE made",
        "OPTIMIZE TABLE made",
        "EXPLAIN SELECT * FROM made",
        "EXPLAIN ANALYZE SELECT * FROM made",
        "DROP VIEW seen",
        "RENAME TABLE made TO renamed",
        "TRUNCATE TABLE renamed",
        "DROP TABLE renamed",
        "BEGIN; UPDATE t SET k = 1 WHERE id = 1; SAVEPOINT s; UPDATE t SET k = 2 WHERE id = 1; ROLLBACK TO s; COMMIT",
        "START TRANSACTION READ ONLY; SELECT * FROM t; COMMIT AND CHAIN; SELECT * FROM t; ROLLBACK",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT * FROM t; COMMIT",
        "SET autocommit = 0; SELECT * FROM t FOR UPDATE; SET autocommit = 1",
        "XA START 'x'; UPDATE t SET k = k + 1 WHERE id = 1; XA END 'x'; XA COMMIT 'x' ONE PHASE",
        "XA START 'x'; UPDATE t SET k = k + 1 WHERE id = 1; XA END 'x'; XA PREPARE 'x'; XA ROLLBACK 'x'",
        "SELECT * FROM t FOR UPDATE SKIP LOCKED",
        "SELECT * FROM t LIMIT 1 INTO @a, @b",
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT SUM(i) FROM n",
        "TABLE t",
        "VALUES ROW(1), ROW(2)",
    ] {
        assert_eq!(code(run(&mut client, statement)), 0, "{statement}");
        free(server, statement);
    }
}

/// While the only slot is taken.
fn commands_that_need_no_slot(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 50);
    let mut client = wire(server);
    for _ in 0..3 {
        for (number, payload) in
            [(command::PING, &b""[..]), (command::INIT_DB, b"test"), (command::SET_OPTION, &[0, 0])]
        {
            client.send(number, payload).unwrap();
            // SET_OPTION has an EOF packet.
            assert_eq!(
                client.read_one().unwrap().first(),
                Some(&if number == command::SET_OPTION { 0xfe } else { 0 })
            );
        }
        client.send(command::STATISTICS, b"").unwrap();
        assert!(client.read_one().unwrap().starts_with(b"Uptime"));
        client.send(command::INIT_DB, b"no_such_database").unwrap();
        assert_eq!(replies(&mut client), [failed(1044)]);
        // An unknown number, and a command for threads of the server.
        for number in [200, 0] {
            client.send(number, b"").unwrap();
            assert!(matches!(client.replies().unwrap()[..], [Reply::Error(..)]), "command {number}");
        }
        let statement = client.prepare("SELECT * FROM t").unwrap().unwrap();
        client.send_execute(statement, false).unwrap();
        assert_eq!(replies(&mut client), [failed(REFUSED)]);
        client.send(command::STMT_CLOSE, &statement.to_le_bytes()).unwrap();
        client.send(command::RESET_CONNECTION, b"").unwrap();
        assert_eq!(replies(&mut client), [Reply::Done]);
        assert_eq!(
            client.query("SELECT * FROM t").unwrap().into_iter().map(without_text).next(),
            Some(failed(REFUSED))
        );
    }
    client.quit();
    // A change of user that makes no sense ends the connection.
    let mut client = wire(server);
    client.send(command::CHANGE_USER, b"nobody\0\0").unwrap();
    let _ = client.read_one();
    client.vanish();
    assert!(holder.still_holds());
}

fn prepared_statements(server: &PrivateServer) {
    let mut client = wire(server);
    for _ in 0..5 {
        let select = client.prepare("SELECT * FROM t WHERE id < 3").unwrap().unwrap();
        free(server, "PREPARE");
        for _ in 0..3 {
            client.send_execute(select, false).unwrap();
            assert_eq!(replies(&mut client), [Reply::Rows(2)]);
            free(server, "EXECUTE");
        }
        let insert = client.prepare("INSERT INTO t VALUES (1, 1)").unwrap().unwrap();
        client.send_execute(insert, false).unwrap();
        assert_eq!(replies(&mut client), [failed(1062)]);
        free(server, "an error");
        // It does not parse, the table is gone, the statement never was or is closed.
        assert!(matches!(client.prepare("SELEC 1").unwrap(), Err(Reply::Error(1064, _))));
        assert!(matches!(client.prepare("SELECT * FROM no_such_table").unwrap(), Err(Reply::Error(1146, _))));
        free(server, "PREPARE that fails");
        server.administer("CREATE TABLE test.gone (id INT)").unwrap();
        let gone = client.prepare("SELECT * FROM gone").unwrap().unwrap();
        server.administer("DROP TABLE test.gone").unwrap();
        client.send_execute(gone, false).unwrap();
        assert_eq!(replies(&mut client), [failed(1146)]);
        free(server, "a table that is gone");
        client.send(command::STMT_CLOSE, &select.to_le_bytes()).unwrap();
        for unknown in [select, 999_999] {
            client.send_execute(unknown, false).unwrap();
            assert_eq!(replies(&mut client), [failed(1243)]);
            free(server, "an unknown statement");
        }
        client.send(command::STMT_RESET, &insert.to_le_bytes()).unwrap();
        assert_eq!(replies(&mut client), [Reply::Done]);
        // A packet that ends too early.
        client.send(command::STMT_EXECUTE, &[1, 0]).unwrap();
        assert!(matches!(replies(&mut client)[..], [Reply::Error(..)]));
        free(server, "a short packet");
        // A procedure: its results, and its end.
        let call = client.prepare("CALL two()").unwrap().unwrap();
        client.send_execute(call, false).unwrap();
        assert_eq!(replies(&mut client), [Reply::Rows(1), Reply::Done]);
        free(server, "a prepared CALL");
    }
    // The last thing that a connection does.
    for _ in 0..20 {
        let mut client = wire(server);
        let _ = client.query("EXECUTE no_such_statement").unwrap();
        client.quit();
    }
    free(server, "connections that have left");
}

/// Each queues while the only slot is taken, and runs when it is free.
fn every_way_queues(server: &PrivateServer) {
    type Way = fn(&mut Wire);
    let ways: [(&str, Way); 6] = [
        ("a query", |client| client.send_query("SELECT 1").unwrap()),
        ("a prepared statement", |client| {
            let statement = client.prepare("SELECT 1").unwrap().unwrap();
            client.send_execute(statement, false).unwrap();
        }),
        ("a cursor", |client| {
            let statement = client.prepare("SELECT * FROM t").unwrap().unwrap();
            client.send_execute(statement, true).unwrap();
        }),
        ("a call", |client| client.send_query("CALL no_such_procedure()").unwrap()),
        ("a prepared call", |client| {
            let statement = client.prepare("CALL two()").unwrap().unwrap();
            client.send_execute(statement, false).unwrap();
        }),
        ("a begin", |client| client.send_query("BEGIN").unwrap()),
    ];
    for (name, way) in ways {
        let holder = Holder::of_the_only_slot(server);
        let mut client = wire(server);
        way(&mut client);
        holder.until_queued(1);
        drop(holder);
        let replies = client.replies().unwrap();
        assert!(!replies.is_empty(), "{name}: {replies:?}");
        free(server, name);
    }
}

fn cursors(server: &PrivateServer) {
    let mut client = wire(server);
    let other = &mut app(server);
    for _ in 0..3 {
        let statement = client.prepare("SELECT a.id, b.k FROM t a, t b ORDER BY a.k, a.id").unwrap().unwrap();
        client.send_execute(statement, true).unwrap();
        assert_eq!(replies(&mut client), [Reply::Cursor]);
        free(server, "an open cursor");
        // Between two fetches others run.
        for rows in [1, 2, 3] {
            assert_eq!(client.fetch(statement, rows).unwrap(), Reply::Rows(u64::from(rows)));
            free(server, "a fetch");
            run(other, "SELECT COUNT(*) FROM t").unwrap();
        }
        assert_eq!(client.fetch(statement, 100).unwrap(), Reply::Rows(3));
        assert!(
            matches!(client.fetch(statement, 1).unwrap(), Reply::Error(..)),
            "fetched from a closed cursor"
        );
        client.send_execute(statement, true).unwrap();
        assert_eq!(replies(&mut client), [Reply::Cursor]);
        // Run again while it is open, reset, closed.
        client.send_execute(statement, true).unwrap();
        assert_eq!(replies(&mut client), [Reply::Cursor]);
        client.send(command::STMT_RESET, &statement.to_le_bytes()).unwrap();
        assert_eq!(replies(&mut client), [Reply::Done]);
        client.send(command::STMT_CLOSE, &statement.to_le_bytes()).unwrap();
        assert!(matches!(client.fetch(statement, 1).unwrap(), Reply::Error(..)), "fetched from no statement");
        free(server, "a closed cursor");
    }
    // Gone with a cursor open.
    for vanishes in [true, false] {
        let mut client = wire(server);
        let statement = client.prepare("SELECT * FROM t").unwrap().unwrap();
        client.send_execute(statement, true).unwrap();
        assert_eq!(replies(&mut client), [Reply::Cursor]);
        if vanishes {
            client.vanish()
        } else {
            client.quit()
        }
        free(server, "a client that is gone");
    }
}

/// The server reports no wait for its clients: the slot is reclaimed after `flifo_stall_limit`.
fn load_data_local(server: &PrivateServer) {
    const LOAD: &str = "LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded";
    let begin = |client: &mut Wire| {
        client.send_query(LOAD).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::File]);
    };
    let mut client = wire(server);
    begin(&mut client);
    client.send_more(b"1\n2\n").unwrap();
    assert_eq!(server.status_number("Flifo_running").unwrap(), 1);
    set(server, "stall_limit", 20);
    run(&mut app(server), "SELECT COUNT(*) FROM t").unwrap();
    client.send_more(b"3\n").unwrap();
    client.send_more(b"").unwrap();
    assert_eq!(client.replies().unwrap(), [Reply::Done]);
    set(server, "stall_limit", 0);
    free(server, LOAD);
    for contents in [&b""[..], b"no number\n", b"1\t2\t3\t4\n"] {
        begin(&mut client);
        if !contents.is_empty() {
            client.send_more(contents).unwrap();
        }
        client.send_more(b"").unwrap();
        assert_eq!(client.replies().unwrap().len(), 1);
        free(server, LOAD);
    }
    // Gone before the file, within it, and within a packet of it.
    for part in [&b""[..], b"5000\n5001\n"] {
        let mut client = wire(server);
        begin(&mut client);
        if !part.is_empty() {
            client.send_more(part).unwrap();
        }
        client.vanish();
        free(server, "a client that is gone");
    }
    let mut client = wire(server);
    begin(&mut client);
    client.send_raw(&[100, 0, 0, 3, b'7']).unwrap();
    client.vanish();
    free(server, "a client that is gone within a packet");
}

/// The same for one that asks for much and does not read it.
fn a_slow_reader(server: &PrivateServer) {
    const ROWS: u64 = 20_000;
    let statement = format!(
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         SELECT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */ REPEAT('x', 1000) FROM n"
    );
    set(server, "stall_limit", 20);
    let (mut reads, mut goes) = (wire(server), wire(server));
    reads.send_query(&statement).unwrap();
    goes.send_query(&statement).unwrap();
    for _ in 0..20 {
        run(&mut app(server), "SELECT COUNT(*) FROM t").unwrap();
    }
    goes.vanish();
    assert_eq!(reads.replies().unwrap(), [Reply::Rows(ROWS)]);
    set(server, "stall_limit", 0);
    free(server, "a slow reader");
}

/// They are the server's own: they run while the only slot is taken.
fn events_of_the_server(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let queued = Running::start(server, "SELECT * FROM t");
    holder.until_queued(1);
    for statement in [
        "CREATE TABLE test.written (id INT)",
        "GRANT EVENT ON test.* TO app@localhost",
        "CREATE DEFINER = app@localhost EVENT test.writes ON SCHEDULE AT NOW() ON COMPLETION NOT PRESERVE
         DO BEGIN INSERT INTO test.written VALUES (1); DO SLEEP(0.01); INSERT INTO test.written VALUES (2); END",
    ] {
        server.administer(statement).unwrap();
    }
    until("the event has written", || {
        thread::sleep(Duration::from_millis(10));
        code(run(&mut server.connect("root").unwrap(), "SELECT COUNT(*) FROM test.written")) == 0
            && written(server) == 2
    });
    assert!(holder.still_holds() && !queued.is_over());
    drop(holder);
    queued.end().0.unwrap();
    server.administer("DROP TABLE test.written").unwrap();
}

fn written(server: &PrivateServer) -> u64 {
    use super::support::Queryable;
    server.connect("root").unwrap().query_first("SELECT COUNT(*) FROM test.written").unwrap().unwrap_or(0)
}
