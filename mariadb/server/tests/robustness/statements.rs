//! Whatever a client runs, and however it ends, its place is given back. One place for all, and no stall is ever
//! broken: a single place that is kept stops the server.

use std::thread;

use super::support::rest::{empty, until};
use super::support::wire::{Reply, Wire, command};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject {
        name: "statements",
        options: with_plugin().set("innodb-lock-wait-timeout", 100).set("lock-wait-timeout", 100),
        tests: tests(),
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("every_way_to_run_one_asks", every_way_to_run_one_asks),
        ("errors", errors),
        ("several_in_one_packet", several_in_one_packet),
        ("procedures", procedures),
        ("procedures_with_few_tickets", procedures_with_few_tickets),
        ("procedures_are_refused_as_a_whole", procedures_are_refused_as_a_whole),
        ("triggers_functions_events", triggers_functions_events),
        ("prepared", prepared),
        ("prepared_as_text", prepared_as_text),
        ("prepared_in_bulk", prepared_in_bulk),
        ("cursors", cursors),
        ("load_data_local", load_data_local),
        ("slow_reader", slow_reader),
        ("change_user", change_user),
        ("other_commands", other_commands),
        ("transactions", transactions),
        ("definitions_and_upkeep", definitions_and_upkeep),
        ("locks_of_tables_and_names", locks_of_tables_and_names),
        ("waits_that_nobody_tells_of", waits_that_nobody_tells_of),
        ("sleepers_give_way", sleepers_give_way),
        ("places_kept_in_waits", places_kept_in_waits),
        ("all_of_it_at_once", all_of_it_at_once),
    ]
}

fn one_place(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
}

/// Runs it, expects this error or none (0), and nobody inside afterwards.
#[track_caller]
fn check(server: &PrivateServer, client: &mut Conn, statement: &str, expected: u16) {
    let got = error_of(run(client, statement));
    assert_eq!(got.0, expected, "{statement}: {got:?}");
    empty(server);
}

/// The same as a prepared statement.
#[track_caller]
fn check_prepared(server: &PrivateServer, client: &mut Conn, statement: &str, expected: u16) {
    let got = error_of(execute(client, statement));
    assert_eq!(got.0, expected, "{statement}, prepared: {got:?}");
    empty(server);
}

#[track_caller]
fn send(server: &PrivateServer, client: &mut Wire, statement: &str, expected: &[Reply]) {
    let got: Vec<Reply> = client.query(statement).unwrap().into_iter().map(without_text).collect();
    assert_eq!(got, expected, "{statement}");
    empty(server);
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

/// Each of these queues while the only place is taken, and runs when it is free.
fn every_way_to_run_one_asks(server: &PrivateServer) {
    type Way = fn(&PrivateServer) -> Wire;
    let ways: [(&str, Way); 6] = [
        ("a query", |server| {
            let mut client = Wire::connect(server).unwrap();
            client.send_query("SELECT 1").unwrap();
            client
        }),
        ("a prepared statement", |server| {
            let mut client = Wire::connect(server).unwrap();
            let statement = client.prepare("SELECT 1").unwrap().unwrap();
            client.send_execute(statement, false).unwrap();
            client
        }),
        ("a cursor", |server| {
            let mut client = Wire::connect(server).unwrap();
            let statement = client.prepare("SELECT * FROM t").unwrap().unwrap();
            client.send_execute(statement, true).unwrap();
            client
        }),
        ("a bulk", |server| {
            let mut client = Wire::connect(server).unwrap();
            let statement = client.prepare("UPDATE t SET k = k + 1 WHERE id = ?").unwrap().unwrap();
            client.send_bulk(statement, &[1, 2]).unwrap();
            client
        }),
        ("a call", |server| {
            let mut client = Wire::connect(server).unwrap();
            client.send_query("CALL no_such_procedure()").unwrap();
            client
        }),
        ("a commit", |server| {
            let mut client = Wire::connect(server).unwrap();
            client.send_query("COMMIT").unwrap();
            client
        }),
    ];
    for (name, way) in ways {
        let holder = Holder::of_the_only_place(server);
        let mut client = way(server);
        until(&format!("{name} is queued"), || server.status_number("Flifo_queued").unwrap() == 1);
        drop(holder);
        let replies = client.replies().unwrap();
        assert_eq!(replies.len(), 1, "{name}: {replies:?}");
        empty(server);
    }
    // The second of a packet has a place, too.
    set(server, "wait_mask", "DISK");
    let mut client = Wire::connect(server).unwrap();
    client.send_query("DO 1; SELECT SLEEP(1000)").unwrap();
    until("the second statement of a packet is inside", || {
        server.status_number("Flifo_inside").unwrap() == 1 && sleeps(server, client.id)
    });
    admin(server).query_drop(format!("KILL QUERY {}", client.id)).unwrap();
    assert_eq!(
        client.replies().unwrap(),
        [Reply::Done, Reply::Error(INTERRUPTED, "Query execution was interrupted".into())]
    );
}

fn sleeps(server: &PrivateServer, id: u32) -> bool {
    let text = format!("SELECT state = 'User sleep' FROM information_schema.processlist WHERE id = {id}");
    admin(server).query_first(text).unwrap().unwrap_or(false)
}

fn errors(server: &PrivateServer) {
    one_place(server);
    let mut client = app(server);
    for (statement, error) in [
        ("SELEC 1", 1064),
        ("", 1065),
        ("-- nothing", 0),
        ("SELECT * FROM no_such_table", 1146),
        ("SELECT no_such_column FROM t", 1054),
        ("SELECT no_such_function()", 1305),
        ("INSERT INTO t VALUES (1, 1, 'twice')", 1062),
        ("INSERT INTO t VALUES (2001, NULL, 'x')", 1048),
        ("INSERT INTO t VALUES (2001, 1, REPEAT('x', 100))", 1406),
        ("UPDATE t SET k = 18446744073709551615 WHERE id = 1", 1264),
        ("SELECT (SELECT id FROM t)", 1242),
        ("SELECT 9223372036854775807 + 1", 1690),
        ("SELECT * FROM mysql.user", 1142),
        ("USE no_such_database", 1044),
        ("SET GLOBAL flifo_thread_concurrency = 0", 1227),
        ("SET SESSION no_such_variable = 1", 1193),
        ("KILL 999999999", 1094),
        ("EXECUTE no_such_statement", 1243),
        ("DEALLOCATE PREPARE no_such_statement", 1243),
        ("CALL no_such_procedure()", 1305),
        ("SIGNAL SQLSTATE '45000'", 1644),
        ("SET STATEMENT max_statement_time = 0.01 FOR SELECT COUNT(*) FROM t a, t b, t c, t d", 1969),
        ("SELECT 1", 0),
    ] {
        for _ in 0..3 {
            check(server, &mut client, statement, error);
        }
    }
    // A row lock that is not given in time.
    let mut other = app(server);
    check(server, &mut other, "BEGIN", 0);
    check(server, &mut other, "UPDATE t SET k = k + 1 WHERE id = 1", 0);
    check(server, &mut client, "SET innodb_lock_wait_timeout = 1", 0);
    check(server, &mut client, "UPDATE t SET k = k + 1 WHERE id = 1", 1205);
    check(server, &mut other, "ROLLBACK", 0);
    check(server, &mut client, "UPDATE t SET k = k + 1 WHERE id = 1", 0);
}

fn several_in_one_packet(server: &PrivateServer) {
    one_place(server);
    admin(server).query_drop("CREATE OR REPLACE PROCEDURE test.two() BEGIN SELECT 1; SELECT 2; END").unwrap();
    let mut client = Wire::connect(server).unwrap();
    for _ in 0..3 {
        for (statements, replies) in [
            ("SELECT 1; SELECT 2", vec![Reply::Rows(1), Reply::Rows(1)]),
            ("DO 1; DO 2; DO 3;", vec![Reply::Done; 3]),
            ("SELECT 1; # and no more", vec![Reply::Rows(1), Reply::Done]),
            ("SELECT 1;   ", vec![Reply::Rows(1)]),
            ("SELEC 1; SELECT 2", vec![failed(1064)]),
            ("SELECT 1; SELEC 2", vec![Reply::Rows(1), failed(1064)]),
            ("SELECT 1; SELECT no_such_column; SELECT 3", vec![Reply::Rows(1), failed(1054)]),
            ("SELECT 1; EXECUTE no_such_statement; SELECT 3", vec![Reply::Rows(1), failed(1243)]),
            ("CALL two(); SELECT 3", vec![Reply::Rows(1), Reply::Rows(1), Reply::Done, Reply::Rows(1)]),
            ("SELECT SLEEP(0.01); SELECT 2", vec![Reply::Rows(1), Reply::Rows(1)]),
            ("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1; COMMIT", vec![Reply::Done; 3]),
            ("SELECT 1; PREPARE p FROM 'SELECT 2'; EXECUTE p; DEALLOCATE PREPARE p", {
                vec![Reply::Rows(1), Reply::Done, Reply::Rows(1), Reply::Done]
            }),
            ("SELECT 1; KILL QUERY CONNECTION_ID()", vec![Reply::Rows(1), failed(1317)]),
        ] {
            send(server, &mut client, statements, &replies);
        }
    }
    let many = "DO 1;".repeat(200);
    send(server, &mut client, &many, &vec![Reply::Done; 200]);
    // It leaves before all is sent, or in the middle.
    for statements in ["SELECT 1; SELECT SLEEP(0.05); SELECT * FROM t", "SELECT SLEEP(0.05); SELEC; SELECT 3"]
    {
        let mut client = Wire::connect(server).unwrap();
        client.send_query(statements).unwrap();
        client.vanish();
        empty(server);
    }
}

fn procedures(server: &PrivateServer) {
    one_place(server);
    let mut root = admin(server);
    for text in [
        "plain() BEGIN UPDATE t SET k = k + 1 WHERE id = 1; SELECT k FROM t WHERE id = 1; END",
        "fails() BEGIN UPDATE t SET k = k + 1 WHERE id = 1; INSERT INTO t VALUES (1, 1, ''); DO 1; END",
        "handles() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 1;
            INSERT INTO t VALUES (1, 1, ''); SELECT no_such_column FROM t; SELECT 1; END",
        "exits() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 'caught'; END;
            INSERT INTO t VALUES (1, 1, ''); SELECT 'not reached'; END",
        "resignals() BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION RESIGNAL SET MESSAGE_TEXT = 'again';
            INSERT INTO t VALUES (1, 1, ''); END",
        "nests(depth INT) BEGIN IF depth > 0 THEN CALL nests(depth - 1); ELSE CALL fails(); END IF; END",
        "loops() BEGIN DECLARE i INT DEFAULT 0;
            WHILE i < 100 DO UPDATE t SET k = k + 1 WHERE id = 1 + i; SET i = i + 1; END WHILE; END",
        "fetches() BEGIN DECLARE done INT DEFAULT 0; DECLARE v INT;
            DECLARE c CURSOR FOR SELECT id FROM t; DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
            OPEN c; REPEAT FETCH c INTO v; UNTIL done END REPEAT; CLOSE c; END",
        "prepares() BEGIN PREPARE p FROM 'SELECT 1'; EXECUTE p; EXECUTE no_such_statement; END",
        "sleeps() BEGIN DO SLEEP(0.01); SELECT 1; DO SLEEP(0.01); END",
        "transacts() BEGIN START TRANSACTION; UPDATE t SET k = k + 1 WHERE id = 1; COMMIT; END",
    ] {
        root.query_drop(format!("CREATE OR REPLACE PROCEDURE test.{text}")).unwrap();
    }
    let mut client = app(server);
    check(server, &mut client, "SET max_sp_recursion_depth = 20", 0);
    for _ in 0..2 {
        for (call, error) in [
            ("plain()", 0),
            ("fails()", 1062),
            ("handles()", 0),
            ("exits()", 0),
            ("resignals()", 1062),
            ("nests(5)", 1062),
            ("nests(30)", 1456),
            ("loops()", 0),
            ("fetches()", 0),
            ("prepares()", 1243),
            ("sleeps()", 0),
            ("transacts()", 0),
            ("plain(1)", 1318),
        ] {
            check(server, &mut client, &format!("CALL {call}"), error);
            check_prepared(server, &mut client, &format!("CALL {call}"), error);
        }
    }
    for statement in [
        "BEGIN NOT ATOMIC DO 1; DO 2; END",
        "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 1; SELECT no_such_column; END",
    ] {
        check(server, &mut client, statement, 0);
    }
    check(server, &mut client, "BEGIN NOT ATOMIC DO 1; SELECT no_such_column; END", 1054);
}

/// With one ticket a procedure asks before each of its statements: others come between, and all get through.
fn procedures_with_few_tickets(server: &PrivateServer) {
    one_place(server);
    set_number(server, "concurrency_tickets", 1);
    hundred_updates(server);
    for policy in ["quantum", "flifo", "fifo"] {
        set(server, "policy", policy);
        let calls: Vec<Running> =
            (0..8).map(|at| Running::start(server, &format!("CALL hundred({})", 100 + at % 4))).collect();
        for call in calls {
            call.end().unwrap();
        }
        empty(server);
    }
    let sum: u64 =
        app(server).query_first("SELECT SUM(k) FROM t WHERE id BETWEEN 100 AND 103").unwrap().unwrap();
    assert_eq!(sum, 3 * 8 * 100);
}

/// A procedure of a hundred updates.
fn hundred_updates(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop(
        "CREATE OR REPLACE PROCEDURE test.hundred(at INT) BEGIN DECLARE i INT DEFAULT 0;
         WHILE i < 100 DO UPDATE t SET k = k + 1 WHERE id = at; SET i = i + 1; END WHILE; END",
    )
    .unwrap();
    root.query_drop("UPDATE test.t SET k = 0").unwrap();
}

/// What was admitted once is queued again when its tickets are used up, but not refused. With tickets enough it does
/// not queue again.
fn procedures_are_refused_as_a_whole(server: &PrivateServer) {
    hundred_updates(server);
    one_place(server);
    let before = server.status_number("Flifo_entered_by_ticket").unwrap();
    check(server, &mut app(server), "CALL hundred(1)", 0);
    let by_ticket = server.status_number("Flifo_entered_by_ticket").unwrap() - before;
    assert!(by_ticket >= 100, "a procedure's statements took {by_ticket} tickets");

    admin(server).query_drop("UPDATE test.t SET k = 0").unwrap();
    set_number(server, "concurrency_tickets", 1);
    set_number(server, "queue_timeout", 1);
    set_number(server, "max_queue", 2);
    let calls: Vec<Running> = (0..16).map(|_| Running::start(server, "CALL hundred(1)")).collect();
    let codes: Vec<u16> = calls.into_iter().map(|call| code(call.end())).collect();
    assert!(codes.iter().all(|code| [0, 1637, 1969].contains(code)), "{codes:?}");
    let done = codes.iter().filter(|&&code| code == 0).count();
    assert!(done > 0, "{codes:?}");
    let sum: usize = admin(server).query_first("SELECT k FROM test.t WHERE id = 1").unwrap().unwrap();
    assert_eq!(sum, done * 100, "{codes:?}");
}

fn triggers_functions_events(server: &PrivateServer) {
    one_place(server);
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE TABLE test.log (id INT, at TIMESTAMP)",
        "CREATE OR REPLACE TABLE test.triggered (id INT PRIMARY KEY)",
        "CREATE TRIGGER test.refuses BEFORE INSERT ON test.triggered FOR EACH ROW
         IF NEW.id < 0 THEN SIGNAL SQLSTATE '45000'; ELSE INSERT INTO test.log VALUES (NEW.id, NOW()); END IF",
        "CREATE OR REPLACE FUNCTION test.f(a INT) RETURNS INT
         BEGIN DECLARE n INT; SELECT COUNT(*) INTO n FROM test.log; RETURN n + a; END",
        "CREATE OR REPLACE FUNCTION test.g(a INT) RETURNS INT BEGIN INSERT INTO t VALUES (1, 1, ''); RETURN 1; END",
    ] {
        root.query_drop(statement).unwrap();
    }
    let mut client = app(server);
    for (statement, error) in [
        ("INSERT INTO triggered VALUES (1), (2)", 0),
        ("INSERT INTO triggered VALUES (-1)", 1644),
        ("INSERT INTO triggered VALUES (3), (-1), (4)", 1644),
        ("INSERT IGNORE INTO triggered VALUES (1)", 0),
        ("INSERT INTO triggered VALUES (1)", 1062),
        ("SELECT f(id) FROM t LIMIT 10", 0),
        ("SELECT g(1)", 1062),
        ("UPDATE log SET id = g(1)", 1062),
    ] {
        check(server, &mut client, statement, error);
        let again = if statement.contains("(1), (2)") { 1062 } else { error };
        check_prepared(server, &mut client, statement, again);
    }
    // Events are the server's own and ask nobody: this one runs while the only place is taken.
    let before: u64 = root.query_first("SELECT COUNT(*) FROM test.log").unwrap().unwrap();
    let holder = Holder::of_the_only_place(server);
    root.query_drop(
        "CREATE DEFINER = app@localhost EVENT test.writes ON SCHEDULE AT NOW() ON COMPLETION NOT PRESERVE
         DO BEGIN INSERT INTO test.log VALUES (0, NOW()); DO SLEEP(0.01); END",
    )
    .unwrap();
    until("the event has written", || {
        let after: u64 = root.query_first("SELECT COUNT(*) FROM test.log").unwrap().unwrap();
        after > before
    });
    assert!(holder.still_holds());
}

fn prepared(server: &PrivateServer) {
    one_place(server);
    let mut root = admin(server);
    let mut client = Wire::connect(server).unwrap();
    let done = |replies: &[Reply], expected: &[Reply]| {
        let replies: Vec<Reply> = replies.iter().cloned().map(without_text).collect();
        assert_eq!(replies, expected);
        empty(server);
    };
    for _ in 0..5 {
        let select = client.prepare("SELECT * FROM t WHERE id < 11").unwrap().unwrap();
        empty(server);
        for _ in 0..3 {
            client.send_execute(select, false).unwrap();
            done(&client.replies().unwrap(), &[Reply::Rows(10)]);
        }
        let insert = client.prepare("INSERT INTO t VALUES (1, 1, '')").unwrap().unwrap();
        client.send_execute(insert, false).unwrap();
        done(&client.replies().unwrap(), &[failed(1062)]);
        // It does not parse, the table is gone, the statement never was or is closed.
        assert!(matches!(client.prepare("SELEC 1").unwrap(), Err(Reply::Error(1064, _))));
        assert!(matches!(client.prepare("SELECT * FROM no_such_table").unwrap(), Err(Reply::Error(1146, _))));
        empty(server);
        root.query_drop("CREATE TABLE test.gone (id INT)").unwrap();
        let gone = client.prepare("SELECT * FROM gone").unwrap().unwrap();
        root.query_drop("DROP TABLE test.gone").unwrap();
        client.send_execute(gone, false).unwrap();
        done(&client.replies().unwrap(), &[failed(1146)]);
        client.send(command::STMT_CLOSE, &select.to_le_bytes()).unwrap();
        for nobody in [select, 999_999] {
            client.send_execute(nobody, false).unwrap();
            done(&client.replies().unwrap(), &[failed(1243)]);
        }
        client.send(command::STMT_RESET, &insert.to_le_bytes()).unwrap();
        done(&client.replies().unwrap(), &[Reply::Done]);
        client.send(command::STMT_RESET, &999_999u32.to_le_bytes()).unwrap();
        done(&client.replies().unwrap(), &[failed(1243)]);
        // A packet that ends too early.
        client.send(command::STMT_EXECUTE, &[1, 0]).unwrap();
        let replies = client.replies().unwrap();
        assert!(matches!(replies[..], [Reply::Error(..)]), "{replies:?}");
        empty(server);
    }
    let mut library = app(server);
    for id in 1..100 {
        let row: Option<(u32, u32)> = library.exec_first("SELECT id, k FROM t WHERE id = ?", (id,)).unwrap();
        assert_eq!(row.unwrap().0, id);
    }
    empty(server);
}

fn prepared_as_text(server: &PrivateServer) {
    one_place(server);
    let mut client = app(server);
    for _ in 0..5 {
        for (statement, error) in [
            ("PREPARE p FROM 'SELECT * FROM t WHERE id = ?'", 0),
            ("EXECUTE p USING 1", 0),
            ("EXECUTE p", 1210),
            ("EXECUTE nobody", 1243),
            ("EXECUTE nobody USING 1", 1243),
            ("PREPARE q FROM 'SELEC 1'", 1064),
            ("EXECUTE q", 1243),
            ("PREPARE q FROM 'INSERT INTO t VALUES (1, 1, 1)'", 0),
            ("EXECUTE q", 1062),
            ("EXECUTE IMMEDIATE 'SELECT 1'", 0),
            ("EXECUTE IMMEDIATE 'SELECT no_such_column'", 1054),
            ("EXECUTE IMMEDIATE 'EXECUTE nobody'", 1295),
            ("DEALLOCATE PREPARE p", 0),
            ("EXECUTE p USING 1", 1243),
        ] {
            check(server, &mut client, statement, error);
        }
    }
    // The last thing that a connection does.
    for _ in 0..20 {
        let mut client = Wire::connect(server).unwrap();
        let _ = client.query("EXECUTE nobody").unwrap();
        client.quit();
    }
    empty(server);
}

fn prepared_in_bulk(server: &PrivateServer) {
    one_place(server);
    admin(server).query_drop("CREATE OR REPLACE TABLE test.bulk (id INT PRIMARY KEY)").unwrap();
    let mut client = Wire::connect(server).unwrap();
    let insert = client.prepare("INSERT INTO bulk VALUES (?)").unwrap().unwrap();
    for (values, expected) in [
        (vec![1, 2, 3], Reply::Done),
        (vec![4, 1, 5], failed(1062)),
        ((100..300).collect(), Reply::Done),
        (vec![1], failed(1062)),
    ] {
        client.send_bulk(insert, &values).unwrap();
        let replies: Vec<Reply> = client.replies().unwrap().into_iter().map(without_text).collect();
        assert_eq!(replies, [expected], "{values:?}");
        empty(server);
    }
    let rows: u32 = app(server).query_first("SELECT COUNT(*) FROM bulk").unwrap().unwrap();
    assert!(rows >= 203, "{rows}");
}

fn cursors(server: &PrivateServer) {
    one_place(server);
    let mut client = Wire::connect(server).unwrap();
    let other = &mut app(server);
    for _ in 0..3 {
        let statement = client.prepare("SELECT id, pad FROM t ORDER BY k, id").unwrap().unwrap();
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        empty(server);
        // Between two fetches others run.
        for rows in [1, 10, 100] {
            assert_eq!(client.fetch(statement, rows).unwrap(), Reply::Rows(u64::from(rows)));
            empty(server);
            check(server, other, "SELECT COUNT(*) FROM t", 0);
        }
        assert_eq!(client.fetch(statement, 100_000).unwrap(), Reply::Rows(ROWS as u64 - 111));
        assert!(
            matches!(client.fetch(statement, 1).unwrap(), Reply::Error(..)),
            "fetched from a closed cursor"
        );
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        assert_eq!(client.fetch(statement, 1).unwrap(), Reply::Rows(1));
        // Closed, reset, or run again while it is open.
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        client.send(command::STMT_RESET, &statement.to_le_bytes()).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Done]);
        client.send(command::STMT_CLOSE, &statement.to_le_bytes()).unwrap();
        assert!(matches!(client.fetch(statement, 1).unwrap(), Reply::Error(..)), "fetched from no statement");
        empty(server);
    }
    // Gone with a cursor open.
    for vanishes in [true, false] {
        let mut client = Wire::connect(server).unwrap();
        let statement = client.prepare("SELECT * FROM t").unwrap().unwrap();
        client.send_execute(statement, true).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::Cursor]);
        if vanishes {
            client.vanish()
        } else {
            client.quit()
        }
        empty(server);
    }
}

fn load_data_local(server: &PrivateServer) {
    one_place(server);
    admin(server).query_drop("CREATE OR REPLACE TABLE test.loaded (id INT PRIMARY KEY)").unwrap();
    const LOAD: &str = "LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded";
    let mut client = Wire::connect(server).unwrap();
    let begin = |client: &mut Wire| {
        client.send_query(LOAD).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::File]);
    };
    let lines = |from: u32, to: u32| (from..to).map(|id| format!("{id}\n")).collect::<String>().into_bytes();

    begin(&mut client);
    client.send_more(&lines(0, 1000)).unwrap();
    // A client that takes its time with the rest does not keep others out.
    check(server, &mut app(server), "SELECT COUNT(*) FROM t", 0);
    client.send_more(&lines(1000, 2000)).unwrap();
    client.send_more(b"").unwrap();
    assert_eq!(client.replies().unwrap(), [Reply::Done]);
    empty(server);
    for contents in [&b""[..], b"no number\n", b"1\n2\n3\n", b"1\t2\t3\t4"] {
        begin(&mut client);
        if !contents.is_empty() {
            client.send_more(contents).unwrap();
        }
        client.send_more(b"").unwrap();
        let replies = client.replies().unwrap();
        assert_eq!(replies.len(), 1, "{replies:?}");
        empty(server);
    }
    for (statement, error) in [
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE no_such_table", 1146),
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded (no_such_column)", 1054),
        ("LOAD DATA INFILE '/no/such/file' INTO TABLE loaded", 1045),
    ] {
        // The file is asked for before or after the error is found.
        client.send_query(statement).unwrap();
        let mut replies = client.replies().unwrap();
        if replies == [Reply::File] {
            client.send_more(b"").unwrap();
            replies = client.replies().unwrap();
        }
        assert_eq!(without_text(replies[0].clone()), failed(error), "{statement}");
        empty(server);
    }
    // Gone before the file, within it, and within a packet of it.
    for part in [&b""[..], b"5000\n5001\n"] {
        let mut client = Wire::connect(server).unwrap();
        begin(&mut client);
        if !part.is_empty() {
            client.send_more(part).unwrap();
        }
        client.vanish();
        empty(server);
    }
    let mut client = Wire::connect(server).unwrap();
    begin(&mut client);
    client.send_raw(&[100, 0, 0, 3, b'7']).unwrap();
    client.vanish();
    empty(server);
}

/// A client that asks for much and does not read it keeps nobody out.
fn slow_reader(server: &PrivateServer) {
    one_place(server);
    const ROWS_READ: u64 = 40_000;
    let statement = format!("SELECT REPEAT('x', 1000) FROM seq_1_to_{ROWS_READ}");
    let (mut text, mut binary, gone) =
        (Wire::connect(server).unwrap(), Wire::connect(server).unwrap(), &mut Wire::connect(server).unwrap());
    let prepared = binary.prepare(&statement).unwrap().unwrap();
    text.send_query(&statement).unwrap();
    binary.send_execute(prepared, false).unwrap();
    gone.send_query(&statement).unwrap();
    // They fill their sockets and wait; others come and go.
    for _ in 0..20 {
        let rows: u64 = app(server).query_first("SELECT COUNT(*) FROM t").unwrap().unwrap();
        assert_eq!(rows, ROWS as u64);
    }
    for client in [&text, &binary, gone] {
        until("it writes", || writes(server, client.id));
    }
    until("the slow readers' places are free", || server.status_number("Flifo_inside").unwrap() == 0);
    assert!(server.status_number("Flifo_wait_network_count").unwrap() > 0);
    std::mem::replace(gone, Wire::connect(server).unwrap()).vanish();
    thread::scope(|scope| {
        for mut client in [text, binary] {
            scope.spawn(move || assert_eq!(client.replies().unwrap(), [Reply::Rows(ROWS_READ)]));
        }
    });
    empty(server);
}

fn writes(server: &PrivateServer, id: u32) -> bool {
    let text = format!(
        "SELECT state LIKE 'Writing to net' OR command = 'Sleep'
                        FROM information_schema.processlist WHERE id = {id}"
    );
    admin(server).query_first(text).unwrap().unwrap_or(true)
}

fn change_user(server: &PrivateServer) {
    one_place(server);
    let mut root = admin(server);
    root.query_drop("CREATE OR REPLACE USER other@localhost IDENTIFIED BY 'secret'").unwrap();
    root.query_drop("GRANT ALL ON test.* TO other@localhost").unwrap();
    let to = |user: &str, password: &str| {
        mysql::ChangeUserOpts::DEFAULT
            .with_user(Some(user.to_owned()))
            .with_pass(Some(password.to_owned()))
            .with_db_name(Some("test".to_owned()))
    };
    let mut client = app(server);
    for _ in 0..10 {
        for (user, password) in [("other", "secret"), ("app", ""), ("root", ""), ("app", "")] {
            check(server, &mut client, "BEGIN", 0);
            check(server, &mut client, "UPDATE t SET k = k + 1 WHERE id = 1", 0);
            // What it holds goes with the user.
            client.change_user(to(user, password)).unwrap();
            empty(server);
            check(server, &mut client, "SELECT 1", 0);
        }
    }
    // Who became the administrator passes, and who was no longer asks.
    let holder = Holder::of_the_only_place(server);
    client.change_user(to("root", "")).unwrap();
    client.query_drop("SELECT 1").unwrap();
    client.change_user(to("app", "")).unwrap();
    let statement = Running::on(client, "SELECT 1");
    holder.until_queued(1);
    drop(holder);
    statement.end().unwrap();
    // Refused, and thrown out.
    // The server takes a second for that.
    for _ in 0..2 {
        let mut client = app(server);
        check(server, &mut client, "SELECT 1", 0);
        assert!(client.change_user(to("other", "wrong")).is_err());
        empty(server);
    }
}

fn other_commands(server: &PrivateServer) {
    one_place(server);
    let holder = Holder::of_the_only_place(server);
    let mut client = app(server);
    // These do not ask: a pool of connections pings and resets its own while the server is busy.
    client.ping().unwrap();
    client.reset().unwrap();
    client.select_db("test").unwrap();
    drop(holder);
    let mut client = Wire::connect(server).unwrap();
    for round in 0..10 {
        assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
        for (command, payload) in [
            (command::PING, &b""[..]),
            (command::RESET_CONNECTION, b""),
            (command::INIT_DB, b"test"),
            (command::INIT_DB, b"no_such_database"),
            (command::STATISTICS, b""),
            (command::SET_OPTION, &[u8::from(round % 2 == 0), 0]),
            (command::SET_OPTION, b"\x09\x00"),
            (command::STMT_RESET, b"\x01\x02"),
            (command::STMT_FETCH, b"\x01\x02"),
            (command::STMT_FETCH, &[0; 8]),
            // Of the server's own, or of nobody.
            (0, b""),
            (5, b"x"),
            (11, b""),
            (15, b""),
            (24, b"\x01\x00\x00\x00\x00\x00"),
            (66, b"x"),
            (200, b""),
        ] {
            client.send(command, payload).unwrap();
            if command != 24 {
                client.read_one().unwrap();
            }
            empty(server);
        }
        client.send(command::FIELD_LIST, b"t\0%").unwrap();
        client.rows().unwrap();
    }
    // It ends in an error or a new user; either way nothing is kept.
    let mut other = Wire::connect(server).unwrap();
    let _ = other.query("BEGIN; UPDATE t SET k = k + 1 WHERE id = 2").unwrap();
    other.send(command::CHANGE_USER, b"nonsense").unwrap();
    let _ = other.read_one();
    other.vanish();
    empty(server);
    client.send(command::SET_OPTION, &[0, 0]).unwrap();
    client.read_one().unwrap();
    assert_eq!(client.query("SELECT 1; SELECT 2").unwrap(), [Reply::Rows(1), Reply::Rows(1)]);
}

fn transactions(server: &PrivateServer) {
    one_place(server);
    let (mut client, mut other) = (app(server), app(server));
    for end in
        ["COMMIT", "ROLLBACK", "BEGIN", "CREATE OR REPLACE TABLE made (id INT)", "XA", "COMMIT AND CHAIN"]
    {
        for statement in [
            if end == "XA" { "XA START 'x'" } else { "BEGIN" },
            "SELECT * FROM t WHERE id = 5 FOR UPDATE",
            "UPDATE t SET k = k + 1 WHERE id < 10",
        ] {
            check(server, &mut client, statement, 0);
        }
        if end == "XA" {
            for statement in ["XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"] {
                check(server, &mut client, statement, 0);
            }
        } else {
            check(server, &mut client, "SAVEPOINT here", 0);
            check(server, &mut client, "DELETE FROM t WHERE id = 999", 0);
            check(server, &mut client, "ROLLBACK TO here", 0);
            check(server, &mut client, "SELECT no_such_column", 1054);
            check(server, &mut client, end, 0);
        }
        check(server, &mut other, "UPDATE t SET k = k + 1 WHERE id < 10", 0);
    }
    check(server, &mut client, "SET autocommit = 0", 0);
    check(server, &mut client, "UPDATE t SET k = k + 1 WHERE id < 10", 0);
    check(server, &mut other, "SET innodb_lock_wait_timeout = 1", 0);
    check(server, &mut other, "UPDATE t SET k = k + 1 WHERE id < 10", 1205);
    check(server, &mut client, "COMMIT", 0);
    check(server, &mut other, "UPDATE t SET k = k + 1 WHERE id < 10", 0);
    check(server, &mut client, "UPDATE t SET k = k + 1 WHERE id < 10", 0);
    // What it holds goes with the connection.
    drop(client);
    until("its locks are free", || code(other.query_drop("UPDATE t SET k = k + 1 WHERE id < 10")) == 0);
    empty(server);
}

fn definitions_and_upkeep(server: &PrivateServer) {
    one_place(server);
    let mut client = app(server);
    for (statement, error) in [
        ("CREATE TABLE d (id INT PRIMARY KEY, k INT)", 0),
        ("CREATE TABLE d (id INT)", 1050),
        ("INSERT INTO d SELECT seq, seq FROM seq_1_to_5000", 0),
        ("ALTER TABLE d ADD COLUMN c INT, ALGORITHM = COPY", 0),
        ("ALTER TABLE d ADD INDEX (k)", 0),
        ("ALTER TABLE d ADD INDEX (no_such_column)", 1072),
        ("ALTER TABLE d FORCE", 0),
        ("ANALYZE TABLE d", 0),
        ("CHECK TABLE d", 0),
        ("OPTIMIZE TABLE d", 0),
        ("CREATE TABLE e (id INT) ENGINE = Aria", 0),
        ("INSERT INTO e SELECT seq FROM seq_1_to_5000", 0),
        ("REPAIR TABLE e", 0),
        ("CREATE TEMPORARY TABLE tmp SELECT * FROM d", 0),
        ("SELECT COUNT(*) FROM tmp a, e b WHERE a.id = b.id GROUP BY a.k ORDER BY b.id", 0),
        ("CREATE VIEW v AS SELECT * FROM d", 0),
        ("SELECT COUNT(*) FROM v", 0),
        ("RENAME TABLE d TO f", 0),
        ("SELECT * FROM v", 1356),
        ("TRUNCATE f", 0),
        ("HANDLER f OPEN", 0),
        ("HANDLER f READ FIRST", 0),
        ("HANDLER f CLOSE", 0),
        ("EXPLAIN SELECT * FROM f", 0),
        ("ANALYZE SELECT * FROM f", 0),
        ("SHOW TABLES", 0),
        ("SHOW CREATE TABLE f", 0),
        ("SHOW PROCESSLIST", 0),
        ("SHOW STATUS", 0),
        ("SELECT * FROM information_schema.tables", 0),
        ("HELP 'SELECT'", 0),
        ("FLUSH TABLES", 0),
        ("DROP VIEW v", 0),
        ("DROP TABLE e, f, tmp", 0),
        ("DROP TABLE f", 1051),
    ] {
        check(server, &mut client, statement, error);
    }
}

/// Who waits for a lock of tables, of names or of all tables gives way to whoever frees it.
fn locks_of_tables_and_names(server: &PrivateServer) {
    one_place(server);
    for (lock, wait, unlock, waiters) in [
        ("LOCK TABLES t WRITE", "UPDATE t SET k = k + 1 WHERE id = 1", "UNLOCK TABLES", 4),
        ("LOCK TABLES t READ", "LOCK TABLES t WRITE", "UNLOCK TABLES", 4),
        ("DO GET_LOCK('name', 0)", "DO GET_LOCK('name', 1000)", "DO RELEASE_LOCK('name')", 4),
        ("FLUSH TABLES WITH READ LOCK", "UPDATE t SET k = k + 1 WHERE id = 1", "UNLOCK TABLES", 4),
        // A second one waits for the first, and the server tells nobody.
        ("LOCK TABLES t WRITE", "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", 1),
        ("HANDLER t OPEN", "ALTER TABLE t FORCE", "HANDLER t CLOSE", 4),
    ] {
        let mut locker = app(server);
        check(server, &mut locker, lock, 0);
        let waiters: Vec<Running> = (0..waiters).map(|_| Running::start(server, wait)).collect();
        until(&format!("{wait} waits"), || waiting(server) == waiters.len() as u64);
        // A third gets in meanwhile, and the one who frees it.
        assert_eq!(code(app(server).query_drop("SELECT 1")), 0);
        locker.query_drop(unlock).unwrap();
        for waiter in waiters {
            waiter.end().unwrap();
        }
        empty(server);
    }
    // Told to end while it waits.
    let mut locker = app(server);
    check(server, &mut locker, "DO GET_LOCK('name', 0)", 0);
    check(server, &mut locker, "LOCK TABLES t WRITE", 0);
    for wait in ["DO GET_LOCK('name', 1000)", "UPDATE t SET k = 1 WHERE id = 1"] {
        let waiter = Running::start(server, wait);
        until("it waits", || waiting(server) == 1);
        admin(server).query_drop(format!("KILL QUERY {}", waiter.id)).unwrap();
        let _ = waiter.end();
        empty(server);
    }
}

/// Waits that the server does not tell of keep their places; whoever ends them is let in past the limit.
fn waits_that_nobody_tells_of(server: &PrivateServer) {
    one_place(server);
    set_number(server, "stall_after", 100);
    let mut locker = app(server);
    check(server, &mut locker, "LOCK TABLES t WRITE", 0);
    let waiters: Vec<Running> =
        (0..4).map(|_| Running::start(server, "FLUSH TABLES WITH READ LOCK; UNLOCK TABLES")).collect();
    until("the first two wait", || waiting(server) >= 2);
    locker.query_drop("UNLOCK TABLES").unwrap();
    for waiter in waiters {
        waiter.end().unwrap();
    }
    assert!(server.status_number("Flifo_stalls_broken").unwrap() > 0);
}

/// Statements that wait for the server's locks of metadata, of names, or of all.
fn waiting(server: &PrivateServer) -> u64 {
    let text = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'
                AND (state = 'User lock' OR state LIKE 'Waiting %' AND state <> 'Waiting for admission')";
    admin(server).query_first(text).unwrap().unwrap()
}

fn sleepers_give_way(server: &PrivateServer) {
    one_place(server);
    let sleepers: Vec<Running> = (0..10).map(|_| Running::start(server, "SELECT SLEEP(1000)")).collect();
    for sleeper in &sleepers {
        until("it sleeps", || sleeps(server, sleeper.id));
    }
    assert_eq!(code(app(server).query_drop("SELECT COUNT(*) FROM t")), 0);
    until("no sleeper is inside", || server.status_number("Flifo_inside").unwrap() == 0);
    let mut root = admin(server);
    for (number, sleeper) in sleepers.into_iter().enumerate() {
        let what = if number % 2 == 0 { "QUERY" } else { "CONNECTION" };
        root.query_drop(format!("KILL {what} {}", sleeper.id)).unwrap();
        // The connection's end may be seen instead.
        assert!(sleeper.end().is_err());
    }
    empty(server);
}

/// With no wait in the mask a place is given back by the statement's end and by nothing else.
fn places_kept_in_waits(server: &PrivateServer) {
    set(server, "wait_mask", "");
    for test in [errors, several_in_one_packet, procedures, prepared, prepared_as_text, prepared_in_bulk] {
        test(server);
    }
    for test in [change_user, transactions] {
        // These wait for somebody who waits for their place.
        set(server, "wait_mask", "ROW_LOCK");
        test(server);
    }
}

/// Many clients, everything, in any order.
fn all_of_it_at_once(server: &PrivateServer) {
    one_place(server);
    procedures(server);
    const MIX: [&str; 18] = [
        "SELECT 1",
        "SELEC 1",
        "SELECT 1; SELECT 2; SELEC 3",
        "DO 1; UPDATE t SET k = k + 1 WHERE id < 4; DO SLEEP(0.001); SELECT 1",
        "UPDATE t SET k = k + 1 WHERE id = 1",
        "BEGIN; UPDATE t SET k = k + 1 WHERE id = 2; UPDATE t SET k = k + 1 WHERE id = 3; COMMIT",
        "BEGIN; UPDATE t SET k = k + 1 WHERE id = 3; UPDATE t SET k = k + 1 WHERE id = 2; COMMIT",
        "EXECUTE nobody",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "CALL plain()",
        "CALL fails()",
        "CALL handles()",
        "CALL nests(3)",
        "CALL sleeps()",
        "CALL transacts()",
        "SELECT * FROM t",
        "DO GET_LOCK('name', 1); DO RELEASE_LOCK('name')",
        "SELECT COUNT(*) FROM t a, t b WHERE a.k = b.k AND a.id < 50",
    ];
    for policy in ["quantum", "flifo"] {
        set(server, "policy", policy);
        thread::scope(|scope| {
            for client in 0..16 {
                scope.spawn(move || {
                    let mut random = random::Random::new(client);
                    let mut wire = Wire::connect(server).unwrap();
                    for _ in 0..times(120) {
                        match random.below(12) {
                            0 => {
                                wire.send_query(random.one_of(&MIX)).unwrap();
                                std::mem::replace(&mut wire, Wire::connect(server).unwrap()).vanish();
                            }
                            1 => {
                                let statement = wire.prepare("SELECT * FROM t WHERE k > 1").unwrap().unwrap();
                                wire.send_execute(statement, random.below(2) == 0).unwrap();
                                let _ = wire.replies().unwrap();
                            }
                            2 => {
                                wire.send(command::RESET_CONNECTION, b"").unwrap();
                                assert_eq!(wire.replies().unwrap(), [Reply::Done]);
                            }
                            _ => {
                                let _ = wire.query(random.one_of(&MIX)).unwrap();
                            }
                        }
                    }
                });
            }
        });
        empty(server);
    }
}
