//! What an administrator relies on: root bypasses admission, the queue is visible, and settings hold or are refused clearly.

use std::thread;

use flifo_mariadb::Error;

use super::support::rest::{admitted, empty, until};
use super::support::wire::Wire;
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "admin", options: with_plugin(), tests: tests() }
}

/// With a second port, of TCP, for an administrator of any account.
pub(crate) fn extra_port() -> Subject {
    Subject {
        name: "extra_port",
        options: with_plugin().loopback().set("extra-port", free_port()).set("extra-max-connections", 10),
        tests: vec![("it_gets_in", the_extra_port_gets_in), ("others_do_not", root_gets_in)],
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("root_gets_in", root_gets_in),
        ("connecting_needs_no_slot", connecting_needs_no_slot),
        ("a_role_makes_an_administrator", a_role_makes_an_administrator),
        ("a_session_that_bypasses", a_session_that_bypasses),
        ("the_process_list_shows_the_queue", the_process_list_shows_the_queue),
        ("the_queue_has_a_timeout", the_queue_has_a_timeout),
        ("the_queue_may_be_full", the_queue_may_be_full),
        ("off_and_on_again", off_and_on_again),
        ("limits_change_while_many_queue", limits_change_while_many_queue),
        ("variables_show_their_values", variables_show_their_values),
        ("hostile_values", hostile_values),
        ("wrong_values_are_refused_with_the_range", wrong_values_are_refused_with_the_range),
        ("status_variables_by_name", status_variables_by_name),
    ]
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// What the server runs for each connection (`init_connect`) is a part of connecting: it is admitted by force, since a refusal
/// would end the connection. The client's first statement needs a slot.
fn connecting_needs_no_slot(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop(
        "CREATE OR REPLACE PROCEDURE test.greets() BEGIN SET @a = 1; SELECT COUNT(*) INTO @b FROM t; END",
    )
    .unwrap();
    for (init, error) in [
        ("SET @a = 1", 0),
        ("SET @a = 1; SET @b = 2; DO 3", 0),
        ("CALL test.greets(); SET autocommit = 0", 0),
        ("EXECUTE nobody", ABORTED),
        ("SET @a = 1; SELECT * FROM test.no_such_table", ABORTED),
    ] {
        root.query_drop("SET GLOBAL init_connect = ''").unwrap();
        let holder = Holder::of_the_only_slot(server);
        root.exec_drop("SET GLOBAL init_connect = ?", (init,)).unwrap();
        set_number(server, "queue_timeout", 1);
        let mut client = app(server);
        for statement in ["SELECT COUNT(*) FROM t", "SELECT @a FROM t"] {
            let expected = if error == 0 { REFUSED } else { error };
            assert_eq!(code(run(&mut client, statement)), expected, "{init}");
            if error != 0 {
                break;
            }
        }
        set_number(server, "queue_timeout", 0);
        drop(holder);
        if error == 0 {
            assert_eq!(client.query_first::<u32, _>("SELECT @a").unwrap(), Some(1), "{init}");
        }
        drop(client);
        empty(server);
    }
    root.query_drop("SET GLOBAL init_connect = ''").unwrap();
}

/// `init_connect` has failed.
const ABORTED: u16 = 1184;

/// A slot in use and a queue behind it.
struct Crowd<'a> {
    holder: Option<Holder<'a>>,
    queued: Vec<Wire>,
}

impl Crowd<'_> {
    fn gather(server: &PrivateServer, size: u64) -> Crowd<'_> {
        let holder = Holder::of_the_only_slot(server);
        let queued = (0..size)
            .map(|_| {
                let mut client = Wire::connect(server).unwrap();
                client.send_query("SELECT 1").unwrap();
                client
            })
            .collect();
        holder.until_queued(size);
        Crowd { holder: Some(holder), queued }
    }

    /// All that queue are answered, whichever statement holds the slot.
    fn is_answered(&mut self) {
        for mut client in self.queued.drain(..) {
            client.replies().unwrap();
        }
    }

    fn disperse(mut self) {
        assert!(self.holder.as_ref().is_some_and(Holder::still_holds));
        self.holder = None;
        self.is_answered();
    }
}

fn root_gets_in(server: &PrivateServer) {
    let crowd = Crowd::gather(server, 200);
    let bypassed = server.status_number("Flifo_bypassed").unwrap();
    let mut root = admin(server);
    for statement in ["SELECT 1", "SHOW PROCESSLIST", "UPDATE test.t SET k = 1 WHERE id = 1", "FLUSH STATUS"]
    {
        run(&mut root, statement).unwrap();
    }
    execute(&mut root, "SELECT * FROM test.t").unwrap();
    assert!(server.status_number("Flifo_bypassed").unwrap() >= bypassed + 5);
    // The privilege counts, not the name; either is enough, and neither brings the other.
    for privilege in ["CONNECTION ADMIN", "SUPER"] {
        root.query_drop("CREATE OR REPLACE USER operator@localhost").unwrap();
        root.query_drop(format!("GRANT {privilege} ON *.* TO operator@localhost")).unwrap();
        let operator = server.connection("operator").read_timeout(Some(rest::BOUND));
        let result = Conn::new(operator).unwrap().query_drop("SELECT 1");
        assert!(result.is_ok(), "{privilege}: {result:?}");
    }
    // Others are not.
    root.query_drop("GRANT PROCESS, RELOAD, READ_ONLY ADMIN ON *.* TO app@localhost").unwrap();
    let app = Running::start(server, "SELECT 1");
    until("it queues, too", || server.status_number("Flifo_queued").unwrap() == 201);
    root.query_drop("REVOKE PROCESS, READ_ONLY ADMIN ON *.* FROM app@localhost").unwrap();
    crowd.disperse();
    app.end().unwrap();
}

/// A session bypasses admission with a role that has the privilege, however it takes the role, and queues again without it.
fn a_role_makes_an_administrator(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE ROLE operators",
        "GRANT CONNECTION ADMIN ON *.* TO operators",
        "GRANT operators TO app@localhost",
        "CREATE OR REPLACE PROCEDURE test.takes_a_role() SQL SECURITY INVOKER SET ROLE operators",
    ] {
        root.query_drop(statement).unwrap();
    }
    for takes in [
        "SET ROLE operators",
        "DO 1; /* to get in */ set role operators",
        "EXECUTE IMMEDIATE 'SET ROLE operators'",
        "CALL takes_a_role()",
        "SET  ROLE operators",
        "SET/**/ROLE operators",
        "-- to get in\nset\n\trole operators",
        "/*!SET*/ ROLE operators",
        "/*!100005 SET ROLE operators */",
        "/*M!100005 SET ROLE operators */",
        "SET STATEMENT max_statement_time = 9 FOR SET ROLE operators",
    ] {
        let mut client = app(server);
        run(&mut client, takes).unwrap();
        let holder = Holder::of_the_only_slot(server);
        run(&mut client, "SELECT 1").unwrap();
        run(&mut client, "DO 1; SET # no more\nROLE NONE").unwrap();
        let queued = Running::on(client, "SELECT 1");
        holder.until_queued(1);
        drop(holder);
        queued.end().unwrap();
        empty(server);
    }
    root.query_drop("DROP ROLE operators").unwrap();
}

fn the_extra_port_gets_in(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop("CREATE OR REPLACE USER app@'127.0.0.1'").unwrap();
    root.query_drop("GRANT ALL ON test.* TO app@'127.0.0.1'").unwrap();
    let extra: u16 = root.query_first("SELECT @@extra_port").unwrap().unwrap();
    let by = |port: u16| {
        let options = mysql::OptsBuilder::new()
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(port)
            .user(Some("app"))
            .db_name(Some("test"))
            .max_allowed_packet(Some(1 << 20))
            .prefer_socket(false)
            .read_timeout(Some(rest::BOUND));
        Conn::new(options).unwrap()
    };
    let crowd = Crowd::gather(server, 50);
    let mut one = by(extra);
    for statement in ["SELECT 1", "UPDATE t SET k = 1 WHERE id = 1", "SELECT no_such_column", "SELECT 1"] {
        let _ = run(&mut one, statement);
    }
    execute(&mut one, "SELECT * FROM t").unwrap();
    // Through the ordinary one it is an ordinary user.
    let other = Running::on(by(server.port().unwrap()), "SELECT 1");
    until("51 are queued", || server.status_number("Flifo_queued").unwrap() == 51);
    crowd.disperse();
    other.end().unwrap();
}

fn a_session_that_bypasses(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop("CREATE OR REPLACE USER operator@localhost").unwrap();
    root.query_drop("GRANT CONNECTION ADMIN ON *.* TO operator@localhost").unwrap();
    // Not everybody may.
    let mut client = app(server);
    let (error, text) = error_of(run(&mut client, "SET SESSION flifo_bypass = 1"));
    assert_eq!(error, 1227, "{text}");
    assert!(text.contains("CONNECTION ADMIN"), "{text}");
    run(&mut client, "SET SESSION flifo_bypass = 0").unwrap();
    // With the privilege the session bypasses anyway; the variable shows it.
    let mut operator = Conn::new(server.connection("operator")).unwrap();
    for (value, shown) in [("ON", 1), ("OFF", 0), ("1", 1), ("DEFAULT", 0)] {
        run(&mut operator, &format!("SET SESSION flifo_bypass = {value}")).unwrap();
        assert_eq!(operator.query_first::<u32, _>("SELECT @@flifo_bypass").unwrap(), Some(shown));
    }
    // For all that connect from now on: sessions take the global value.
    set(server, "bypass", "ON");
    let holder = Holder::of_the_only_slot_on(server, client);
    run(&mut app(server), "SELECT 1").unwrap();
    assert!(holder.still_holds());
    set(server, "bypass", "OFF");
    let queued = Running::start(server, "SELECT 1");
    holder.until_queued(1);
    drop(holder);
    queued.end().unwrap();
}

fn the_process_list_shows_the_queue(server: &PrivateServer) {
    let crowd = Crowd::gather(server, 3);
    let text = "SELECT COUNT(*) FROM information_schema.processlist
                WHERE state = 'Waiting for admission' AND info = 'SELECT 1' AND command = 'Query'";
    let mut root = admin(server);
    assert_eq!(root.query_first::<u64, _>(text).unwrap(), Some(3));
    crowd.disperse();
    empty(server);
    assert_eq!(root.query_first::<u64, _>(text).unwrap(), Some(0));
}

/// Not SELECT 1: as a prepared statement the server finishes that even when it was killed before it began.
const MAY_BE_REFUSED: [&str; 11] = [
    "SELECT 1 FROM t",
    "SELECT * FROM t",
    "SELECT k FROM t WHERE id = 1",
    "SELECT COUNT(*) FROM t",
    "UPDATE t SET k = -1 WHERE id = 1",
    "UPDATE t SET k = -1",
    "DELETE FROM t WHERE id = 1",
    "INSERT INTO t VALUES (-1, -1, '')",
    "INSERT INTO t SELECT -seq, -1, '' FROM seq_1_to_3",
    "CREATE TABLE refused (id INT)",
    "CALL nobody()",
];

/// Each ends in this error with this text, in both protocols. How many there were.
fn refuses_all(server: &PrivateServer, expected: u16, says: &str) -> u64 {
    let mut client = app(server);
    let mut wrong = Vec::new();
    for statement in MAY_BE_REFUSED {
        for (protocol, result) in
            [("text", run(&mut client, statement)), ("binary", execute(&mut client, statement))]
        {
            let (error, text) = error_of(result);
            if error != expected || !text.starts_with("flifo: ") || !text.contains(says) {
                wrong.push(format!("{statement} ({protocol}): {error} {text}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not refused with error {expected}: {wrong:#?}");
    // The rest of a packet is not run either.
    assert_eq!(error_of(run(&mut client, "SELECT 1 FROM t; UPDATE t SET k = -1")).0, expected);
    2 * MAY_BE_REFUSED.len() as u64 + 1
}

fn nothing_was_done(server: &PrivateServer) {
    let mut client = app(server);
    let rows: (u64, u64) = client.query_first("SELECT COUNT(*), SUM(k < 0) FROM t").unwrap().unwrap();
    assert_eq!(rows, (ROWS as u64, 0));
    assert_eq!(client.query::<String, _>("SHOW TABLES LIKE 'refused'").unwrap(), Vec::<String>::new());
}

fn the_queue_has_a_timeout(server: &PrivateServer) {
    let before = server.status_number("Flifo_refused").unwrap();
    let holder = Holder::of_the_only_slot(server);
    set_number(server, "queue_timeout", 10);
    let refused = refuses_all(server, REFUSED, "10 ms");
    // The connection is as good as before, and what was refused was not done.
    set_number(server, "queue_timeout", 0);
    drop(holder);
    assert!(server.status_number("Flifo_refused").unwrap() >= before + refused);
    nothing_was_done(server);
    // Many at once, and somebody who is served.
    let holder = Holder::of_the_only_slot(server);
    set_number(server, "queue_timeout", 100);
    let queued: Vec<Running> = (0..100).map(|_| Running::start(server, "SELECT 1 FROM t")).collect();
    for statement in queued {
        assert_eq!(code(statement.end()), REFUSED);
    }
    drop(holder);
    run(&mut app(server), "SELECT 1").unwrap();
    let locker = locker(server);
    let holder = Holder::of_the_only_slot(server);
    enters_by_force(server, locker);
    drop(holder);
}

/// A transaction that holds locks, which is waited for.
fn locker(server: &PrivateServer) -> Conn {
    let mut locker = app(server);
    run(&mut locker, "BEGIN").unwrap();
    run(&mut locker, "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
    locker
}

/// Where others are refused it is admitted, and has a slot like any other.
fn enters_by_force(server: &PrivateServer, locker: Conn) {
    let number = |name: &str| server.status_number(name).unwrap();
    let before = number("Flifo_refused");
    let statement = Blocked::on(locker);
    until("it runs, too", || number("Flifo_running") == 2);
    drop(statement);
    assert_eq!(number("Flifo_refused"), before);
}

fn the_queue_may_be_full(server: &PrivateServer) {
    let locker = locker(server);
    let before = server.status_number("Flifo_refused").unwrap();
    let crowd = Crowd::gather(server, 5);
    set_number(server, "max_queue", 5);
    let refused = refuses_all(server, REFUSED, "flifo_max_queue = 5");
    assert_eq!(server.status_number("Flifo_refused").unwrap(), before + refused);
    enters_by_force(server, locker);
    set_number(server, "max_queue", 6);
    let sixth = Running::start(server, "SELECT 1");
    until("6 are queued", || server.status_number("Flifo_queued").unwrap() == 6);
    crowd.disperse();
    sixth.end().unwrap();
    nothing_was_done(server);
}

/// With the limit lifted all that queue are admitted, and no statement is counted any more.
fn off_and_on_again(server: &PrivateServer) {
    for _ in 0..5 {
        let mut crowd = Crowd::gather(server, 20);
        set(server, "thread_concurrency", "0");
        // Not only out of the queue: a woken thread counts its entry when it runs.
        crowd.is_answered();
        let before = admitted(server);
        run(&mut app(server), "SELECT 1").unwrap();
        assert_eq!(admitted(server), before);
        crowd.disperse();
        set(server, "thread_concurrency", "1");
        run(&mut app(server), "SELECT 1").unwrap();
        empty(server);
    }
}

fn limits_change_while_many_queue(server: &PrivateServer) {
    let crowd = Crowd::gather(server, 100);
    for limit in ["2", "1", "3", "auto", "1023", "1"] {
        set(server, "thread_concurrency", limit);
    }
    for policy in ["none", "fifo", "flifo", "quantum"] {
        set(server, "policy", policy);
        let client = Running::start(server, "SELECT 1");
        thread::yield_now();
        set(server, "thread_concurrency", "2");
        client.end().unwrap();
        set(server, "thread_concurrency", "1");
    }
    crowd.disperse();
}

fn variables_show_their_values(server: &PrivateServer) {
    let mut root = admin(server);
    for (name, values) in [
        ("thread_concurrency", &["0", "1", "1023", "auto", "7"][..]),
        ("policy", &["none", "fifo", "flifo", "quantum"]),
        ("quantum", &["1", "3000", "1000000"]),
        ("queue_timeout", &["0", "1", "86400000"]),
        ("max_queue", &["0", "1", "1000000"]),
        ("stall_limit", &["0", "100", "86400000"]),
        ("io_depth", &["0", "64", "1000000"]),
        ("reserve_slots", &["0", "1"]),
    ] {
        for value in values {
            // As a text, and where it is a number as one.
            for written in [format!("'{value}'"), (*value).to_owned()] {
                if written.parse::<u32>().is_err() && !written.starts_with('\'') {
                    continue;
                }
                if written.starts_with('\'') && !matches!(name, "thread_concurrency" | "policy") {
                    continue;
                }
                root.query_drop(format!("SET GLOBAL flifo_{name} = {written}")).unwrap();
                let shown: String = root.query_first(format!("SELECT @@flifo_{name}")).unwrap().unwrap();
                assert_eq!(shown, *value, "flifo_{name} = {written}");
            }
        }
        root.query_drop(format!("SET GLOBAL flifo_{name} = DEFAULT")).unwrap();
    }
    set(server, "thread_concurrency", "5");
    assert_eq!(server.status("Flifo_thread_concurrency").unwrap(), "5");
    // Each says what it is for.
    let without: Vec<String> = root
        .query(
            "SELECT variable_name FROM information_schema.system_variables
             WHERE variable_name LIKE 'flifo%' AND LENGTH(variable_comment) < 20",
        )
        .unwrap();
    assert!(without.is_empty(), "{without:?}");
}

/// Refused with an error that names the variable, or taken as the server takes it.
fn hostile_values(server: &PrivateServer) {
    let mut root = admin(server);
    let long = format!("'{}'", "9".repeat(5000));
    for name in [
        "thread_concurrency",
        "policy",
        "quantum",
        "queue_timeout",
        "max_queue",
        "stall_limit",
        "io_depth",
        "reserve_slots",
        "bypass",
    ] {
        let ask = |root: &mut Conn| -> String {
            root.query_first(format!("SELECT @@GLOBAL.flifo_{name}")).unwrap().unwrap()
        };
        for value in [
            "-1",
            "''",
            "' '",
            "NULL",
            "1.5",
            "'1.5'",
            "1e3",
            "'1e3'",
            "'0x10'",
            "-9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
            "1024",
            "4294967296",
            "'nonsense'",
            "'auto '",
            "'fifo,lifo'",
            "'1; SELECT 2'",
            "'DISK,NONSENSE'",
            "',,,'",
            "'%s%n%s'",
            "0xFF",
            "TRUE",
            "CONCAT('fi', 'fo')",
            "(SELECT 1)",
            "REPEAT('x', 1000000)",
            "_binary'\\0\\0'",
            "_utf8mb4'ünïcödé'",
            "NOW()",
            "@nobody",
            &long,
        ] {
            root.query_drop(format!("SET GLOBAL flifo_{name} = DEFAULT")).unwrap();
            let before = ask(&mut root);
            let statement = format!("SET GLOBAL flifo_{name} = {value}");
            let (error, text) = error_of(run(&mut root, &statement));
            match error {
                0 => {}
                // Wrong value, wrong type, too long.
                1231 | 1232 | 1064 => {
                    assert!(text.contains(&format!("flifo_{name}")) || error == 1064, "{statement}: {text}");
                    assert_eq!(ask(&mut root), before, "{statement} was refused: {text}");
                }
                _ => panic!("{}: error {error}, {text}", &statement[..statement.len().min(100)]),
            }
        }
        root.query_drop(format!("SET GLOBAL flifo_{name} = DEFAULT")).unwrap();
        // All except one are global.
        if name != "bypass" {
            assert_eq!(code(run(&mut root, &format!("SET SESSION flifo_{name} = DEFAULT"))), 1229);
            assert_eq!(code(run(&mut app(server), &format!("SET GLOBAL flifo_{name} = DEFAULT"))), 1227);
        }
    }
}

/// The error names the setting, what is allowed, and the value.
fn wrong_values_are_refused_with_the_range(server: &PrivateServer) {
    let mut root = admin(server);
    for (name, allowed, values) in [
        (
            "thread_concurrency",
            "auto or a number from 0 to 1023",
            &["1024", "-1", "'x'", "''", "NULL", "1.5"][..],
        ),
        ("policy", "none, fifo, flifo or quantum", &["'x'", "4", "'lifo'", "'sleep'", "NULL"]),
        ("quantum", "a number from 1 to 1000000", &["0", "1000001", "-1", "18446744073709551615"]),
        ("queue_timeout", "a number from 0 to 86400000", &["-1", "86400001"]),
        ("max_queue", "a number from 0 to 1000000", &["-1", "1000001"]),
        ("stall_limit", "a number from 0 to 86400000", &["-1", "86400001", "4294967296"]),
        ("io_depth", "a number from 0 to 1000000", &["-1", "1000001"]),
        ("reserve_slots", "ON or OFF (1 or 0)", &["2", "-1", "'x'"]),
        ("bypass", "ON or OFF (1 or 0)", &["2", "-1", "'x'"]),
    ] {
        for value in values {
            let (error, text) = error_of(run(&mut root, &format!("SET GLOBAL flifo_{name} = {value}")));
            let shown = value.trim_matches('\'');
            let whole = format!("flifo_{name} must be {allowed}, not '{shown}'");
            // The server compares some types itself, and names the variable.
            let is_type = matches!(error, 1231 | 1232) && text.contains(&format!("'flifo_{name}'"));
            let may_be_type = matches!(*value, "1.5" | "NULL" | "18446744073709551615");
            assert!(
                (error == 1231 && text == whole) || (may_be_type && is_type),
                "{name} = {value}: {error} {text}"
            );
        }
    }
    // A text for a number is refused by the server.
    for name in ["quantum", "queue_timeout", "max_queue", "stall_limit", "io_depth"] {
        let (error, text) = error_of(run(&mut root, &format!("SET GLOBAL flifo_{name} = 'many'")));
        assert!(error == 1232 && text.contains(&format!("flifo_{name}")), "{name}: {error} {text}");
    }
}

/// All are numbers, which exporters collect, except three texts.
fn status_variables_by_name(server: &PrivateServer) {
    let mut root = admin(server);
    let all: Vec<(String, String)> = root.query("SHOW GLOBAL STATUS LIKE 'flifo%'").unwrap();
    assert!((20..35).contains(&all.len()), "{}", all.len());
    for (name, value) in &all {
        let one: Vec<(String, String)> = root.query(format!("SHOW GLOBAL STATUS LIKE '{name}'")).unwrap();
        assert_eq!(one.len(), 1, "{name}");
        let is_text = matches!(name.as_str(), "Flifo_level" | "Flifo_note" | "Flifo_auto_state");
        assert!(is_text || value.parse::<u64>().is_ok(), "{name} = {value}");
    }
    assert_eq!(server.status("Flifo_level").unwrap(), "statements and waits");
    for name in ["row_lock", "table_lock", "disk", "network", "log_sync", "sleep", "user"] {
        server.status_number(&format!("Flifo_wait_{name}_us")).unwrap();
    }
    assert!(matches!(server.status("Flifo_nothing"), Err(Error::NoStatus(_))));
    // An ordinary user sees them, too.
    let seen: Vec<(String, String)> = app(server).query("SHOW STATUS LIKE 'flifo_queued'").unwrap();
    assert_eq!(seen.len(), 1);
    // Totals of time grow with the waits.
    let slept = || server.status_number("Flifo_wait_sleep_us").unwrap();
    let before = slept();
    run(&mut app(server), "SELECT SLEEP(0.05)").unwrap();
    let after = slept() - before;
    assert!((45_000..5_000_000).contains(&after), "{after}");
}
