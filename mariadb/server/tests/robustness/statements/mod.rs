//! Whatever a client runs, and however it ends, its slot is released. There is one slot, and no stall is broken: a single
//! slot that leaks stops the server.

mod prepared;
mod procedures;
mod waits;

use std::thread;
use std::time::Duration;

use procfs::process::Process;

use self::prepared::{cursors, prepared, prepared_as_text, prepared_in_bulk, prepared_is_admitted_once};
pub(super) use self::procedures::touches_no_table_at_first;
use self::procedures::{
    procedures, procedures_are_refused_as_a_whole, procedures_go_on_after_errors, procedures_out_of_tickets,
    procedures_within_packets, triggers_functions_events,
};
use self::waits::{
    load_data_local, load_data_with_caught_errors, locks_of_tables_and_names, sleepers_give_way, slow_reader,
    slow_reader_of_caught_errors, waits_for_all_tables,
};

use super::support::rest::{empty, statements_admitted, until};
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
        ("every_way_to_run_a_statement_queues", every_way_to_run_a_statement_queues),
        ("errors", errors),
        ("long_texts", long_texts),
        ("long_texts_with_many_parts", long_texts_with_many_parts),
        ("several_in_one_packet", several_in_one_packet),
        ("procedures", procedures),
        ("procedures_out_of_tickets", procedures_out_of_tickets),
        ("procedures_are_refused_as_a_whole", procedures_are_refused_as_a_whole),
        ("procedures_go_on_after_errors", procedures_go_on_after_errors),
        ("procedures_within_packets", procedures_within_packets),
        ("triggers_functions_events", triggers_functions_events),
        ("prepared", prepared),
        ("prepared_as_text", prepared_as_text),
        ("prepared_is_admitted_once", prepared_is_admitted_once),
        ("prepared_in_bulk", prepared_in_bulk),
        ("cursors", cursors),
        ("load_data_local", load_data_local),
        ("load_data_with_caught_errors", load_data_with_caught_errors),
        ("slow_reader", slow_reader),
        ("slow_reader_of_caught_errors", slow_reader_of_caught_errors),
        ("change_user", change_user),
        ("other_commands", other_commands),
        ("transactions", transactions),
        ("definitions_and_upkeep", definitions_and_upkeep),
        ("locks_of_tables_and_names", locks_of_tables_and_names),
        ("waits_for_all_tables", waits_for_all_tables),
        ("sleepers_give_way", sleepers_give_way),
        ("all_of_it_at_once", all_of_it_at_once),
    ]
}
fn one_slot(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
}

/// Runs it, expects this error or none (0), and no slot in use afterwards.
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

/// Each of these queues while the only slot is taken, and runs when it is free.
fn every_way_to_run_a_statement_queues(server: &PrivateServer) {
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
        ("a begin", |server| {
            let mut client = Wire::connect(server).unwrap();
            client.send_query("BEGIN").unwrap();
            client
        }),
    ];
    for (name, way) in ways {
        let holder = Holder::of_the_only_slot(server);
        let mut client = way(server);
        until(&format!("{name} is queued"), || server.status_number("Flifo_queued").unwrap() == 1);
        drop(holder);
        let replies = client.replies().unwrap();
        assert_eq!(replies.len(), 1, "{name}: {replies:?}");
        empty(server);
    }
    // The second of a packet has a slot, too.
    let fifo = Fifo::new();
    let mut client = Wire::connect(server).unwrap();
    client.send_query(&format!("DO 1; {}", fifo.select())).unwrap();
    until_blocked(server, client.id);
    assert_eq!(server.status_number("Flifo_running").unwrap(), 1);
    let replies = thread::spawn(move || client.replies().unwrap());
    fifo.release_until(|| replies.is_finished());
    assert_eq!(replies.join().unwrap(), [Reply::Done, Reply::Rows(1)]);
}

fn sleeps(server: &PrivateServer, id: u32) -> bool {
    let text = format!("SELECT state = 'User sleep' FROM information_schema.processlist WHERE id = {id}");
    admin(server).query_first(text).unwrap().unwrap_or(false)
}

fn errors(server: &PrivateServer) {
    one_slot(server);
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
        ("/* of nobody */ EXECUTE no_such_statement", 1243),
        ("/*! EXECUTE no_such_statement */", 1243),
        ("SET STATEMENT max_statement_time = 5 FOR EXECUTE no_such_statement", 1243),
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

/// However long a text is and whatever is in it, it is looked at in no time that a client would notice.
fn long_texts(server: &PrivateServer) {
    for name in ["get_lock/*", "get_lock#", "get_lock-- ", "release_lock/*", "release_all_locks#"] {
        let statement = format!("SELECT LENGTH('{}')", name.repeat(200_000));
        one_slot(server);
        let mut client = Wire::connect(server).unwrap();
        for _ in 0..2 {
            assert_eq!(client.query(&statement).unwrap(), [Reply::Rows(1)], "{name}");
            assert_eq!(client.query("DO 1").unwrap(), [Reply::Done], "{name}");
        }
        empty(server);
        let holder = Holder::of_the_only_slot(server);
        let mut client = Wire::connect(server).unwrap();
        client.send_query(&statement).unwrap();
        holder.until_queued(1);
        drop(holder);
        assert_eq!(client.replies().unwrap(), [Reply::Rows(1)], "{name}");
        empty(server);
    }
}

/// And it is scanned once: not for each statement of its packet that finds no slot, nor for each error that is caught within.
fn long_texts_with_many_parts(server: &PrivateServer) {
    const PARTS: usize = 400;
    let names = "get_lock#".repeat(200_000);
    let cheap = |what: &str, work: &mut dyn FnMut()| {
        let before = cpu_time(server);
        work();
        let took = cpu_time(server) - before;
        assert!(took < Duration::from_secs(5), "{what} took {took:?} of CPU time");
    };
    admin(server)
        .query_drop(
            "CREATE OR REPLACE FUNCTION test.catches(a INT) RETURNS INT
             BEGIN DECLARE n INT; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET n = 0;
             SET n = (SELECT 1 UNION SELECT 2); RETURN a; END",
        )
        .unwrap();
    let holder = Holder::of_the_only_slot(server);
    // Each queues until that.
    set_number(server, "stall_limit", 1);
    let mut client = Wire::connect(server).unwrap();
    cheap("a packet", &mut || {
        let packet = format!("{}DO LENGTH('{names}')", "DO 1;".repeat(PARTS));
        assert_eq!(client.query(&packet).unwrap(), vec![Reply::Done; PARTS + 1]);
    });
    assert!(server.status_number("Flifo_admitted_from_queue").unwrap() > PARTS as u64);
    cheap("a statement", &mut || {
        let statement = format!("SELECT catches(seq), LENGTH('{names}') FROM seq_1_to_{PARTS}");
        assert_eq!(client.query(&statement).unwrap(), [Reply::Rows(PARTS as u64)]);
    });
    set_number(server, "stall_limit", 0);
    drop(holder);
    empty(server);
}

/// The CPU time of all of the server's threads.
fn cpu_time(server: &PrivateServer) -> Duration {
    let stat = i32::try_from(server.pid()).ok().and_then(|pid| Process::new(pid).ok()?.stat().ok()).unwrap();
    Duration::from_secs(stat.utime + stat.stime) / u32::try_from(procfs::ticks_per_second()).unwrap()
}

fn several_in_one_packet(server: &PrivateServer) {
    one_slot(server);
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

fn change_user(server: &PrivateServer) {
    one_slot(server);
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
    // With the administrator's account it bypasses admission, with the other one it queues.
    let holder = Holder::of_the_only_slot(server);
    client.change_user(to("root", "")).unwrap();
    client.query_drop("SELECT 1").unwrap();
    client.change_user(to("app", "")).unwrap();
    let statement = Running::on(client, "SELECT 1");
    holder.until_queued(1);
    drop(holder);
    statement.end().unwrap();
    // With a wrong password, for which the server takes a second, it stays who it was, and holds nothing: it is asked, also if
    // nothing that it runs ends well.
    const DENIED: u16 = 1045;
    let mut client = app(server);
    for statement in ["BEGIN", "UPDATE t SET k = k + 1 WHERE id = 1", "DO GET_LOCK('a', 0)"] {
        check(server, &mut client, statement, 0);
    }
    assert_eq!(code(client.change_user(to("other", "wrong"))), DENIED);
    empty(server);
    let mut other = app(server);
    assert_eq!(other.query_first::<u32, _>("SELECT GET_LOCK('a', 0)").unwrap(), Some(1));
    let holder = Holder::of_the_only_slot(server);
    set_number(server, "queue_timeout", 1);
    for statement in ["SELECT no_such_column FROM t", "SELECT COUNT(*) FROM t; SELEC"] {
        assert_eq!(code(run(&mut client, statement)), REFUSED, "{statement}");
    }
    // And so does the administrator.
    assert_eq!(code(root.change_user(to("other", "wrong"))), DENIED);
    root.query_drop("SELECT 1").unwrap();
    set_number(server, "queue_timeout", 0);
    drop(holder);
}

fn other_commands(server: &PrivateServer) {
    one_slot(server);
    let holder = Holder::of_the_only_slot(server);
    let mut client = app(server);
    // These need no slot: a pool of connections pings and resets its own while the server is busy.
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
    one_slot(server);
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
    one_slot(server);
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

/// Many clients, everything, in any order.
fn all_of_it_at_once(server: &PrivateServer) {
    one_slot(server);
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
