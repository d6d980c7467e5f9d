//! The plugin comes and goes under load, and so do its settings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::locks::{UPDATE_1, until_row_waits};
use super::support::random::Random;
use super::support::rest::{admitted, empty, until};
use super::support::wire::{Reply, Wire};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "install", options: with_plugin().plugin(Plugin::AtHand), tests: tests() }
}

/// The same where threads are no connection's own.
pub(crate) fn pool() -> Subject {
    let options = with_plugin().plugin(Plugin::AtHand).set("thread-handling", "pool-of-threads");
    Subject {
        name: "install_pool",
        options,
        tests: vec![
            ("comes_to_connections_that_are_there", comes_to_connections_that_are_there),
            ("comes_while_locks_are_held", comes_while_locks_are_held),
            ("on_while_a_function_runs", on_while_a_function_runs),
            ("on_while_a_procedure_runs", on_while_a_procedure_runs),
            ("comes_while_a_procedure_runs", comes_while_a_procedure_runs),
        ],
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("comes_and_goes_at_rest", comes_and_goes_at_rest),
        ("comes_to_connections_that_are_there", comes_to_connections_that_are_there),
        ("comes_while_locks_are_held", comes_while_locks_are_held),
        ("on_while_a_function_runs", on_while_a_function_runs),
        ("on_while_a_procedure_runs", on_while_a_procedure_runs),
        ("comes_while_a_procedure_runs", comes_while_a_procedure_runs),
        ("comes_and_goes_under_load", comes_and_goes_under_load),
        ("goes_while_many_queue", goes_while_many_queue),
        ("goes_while_statements_wait", goes_while_statements_wait),
        ("settings_change_under_load", settings_change_under_load),
        ("a_note_if_all_bypass", a_note_if_all_bypass),
    ]
}

const MIX: [&str; 9] = [
    "SELECT 1",
    "SELECT SLEEP(0.002)",
    "SELECT * FROM t",
    "UPDATE t SET k = k + 1 WHERE id = 1",
    "BEGIN; UPDATE t SET k = k + 1 WHERE id = 2; UPDATE t SET k = k + 1 WHERE id = 3; COMMIT",
    "BEGIN; UPDATE t SET k = k + 1 WHERE id = 3; DO SLEEP(0.001); UPDATE t SET k = k + 1 WHERE id = 2; COMMIT",
    "SELECT 1; SELECT no_such_column; SELECT 3",
    "EXECUTE nobody",
    "DO GET_LOCK('name', 1); DO RELEASE_LOCK('name')",
];

/// Text and prepared statements; some connections stay, some do not.
fn load(server: &PrivateServer, number: usize, stop: &AtomicBool) {
    let mut random = Random::new(number as u64);
    while !stop.load(Ordering::Relaxed) {
        let mut client = Wire::connect(server).unwrap();
        let prepared = client.prepare("SELECT k FROM t WHERE id < 10").unwrap().unwrap();
        let stays = if number.is_multiple_of(4) { usize::MAX } else { 50 };
        for _ in 0..stays {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if random.below(3) == 0 {
                client.send_execute(prepared, false).unwrap();
                let _ = client.replies().unwrap();
            } else {
                let _ = client.query(random.one_of(&MIX)).unwrap();
            }
        }
        if random.below(2) == 0 { client.quit() } else { client.vanish() }
    }
}

fn uninstall(root: &mut Conn) {
    run(root, "UNINSTALL SONAME 'flifo'").unwrap();
}

/// Waits until it is gone. It goes when each connection that it served has sent one more
/// command, or two if it had sent none: the server releases it only when plugins have changed since the last one.
/// Until then the server takes an INSTALL, and does nothing; at the very moment in which another connection lets it
/// go, an INSTALL may crash the server, without us, too: it begins to use what the other one removes. That it is gone
/// altogether shows in UNINSTALL's error, which then is about the library and not about the plugin.
fn until_gone(server: &PrivateServer, root: &mut Conn, idle: &mut [Conn]) {
    until("it is gone", || {
        let (error, text) = error_of(run(root, "UNINSTALL SONAME 'flifo'"));
        assert!(matches!(error, 0 | 1305), "UNINSTALL: error {error}, {text}");
        for connection in &mut *idle {
            run(connection, "DO 1").unwrap();
        }
        // The connection that asks for status has been served, too.
        server.status("Uptime").unwrap();
        text.starts_with("SONAME")
    });
}

fn install(server: &PrivateServer, root: &mut Conn, idle: &mut [Conn]) {
    until_gone(server, root, idle);
    run(root, "INSTALL SONAME 'flifo'").unwrap();
}

fn configure(server: &PrivateServer, limit: &str) {
    set(server, "thread_concurrency", limit);
    set_number(server, "stall_limit", 0);
}

fn comes_and_goes_at_rest(server: &PrivateServer) {
    let mut root = admin(server);
    for _ in 0..times(20) {
        // The first has sent a statement, the second has not.
        let mut connected = [app(server), app(server)];
        run(&mut connected[0], "SELECT * FROM t").unwrap();
        uninstall(&mut root);
        install(server, &mut root, &mut connected);
        configure(server, "1");
        // Old connections go on, with admission or without: the server hides the plugin from those that ran a statement
        // while it was being removed. New ones are admitted.
        for connection in &mut connected {
            run(connection, "SELECT * FROM t").unwrap();
        }
        let before = admitted(server);
        run(&mut app(server), "SELECT * FROM t").unwrap();
        assert!(admitted(server) > before);
        empty(server);
    }
}

/// Connections from before are admitted once a statement of theirs has ended well.
fn comes_to_connections_that_are_there(server: &PrivateServer) {
    let mut root = admin(server);
    uninstall(&mut root);
    until_gone(server, &mut root, &mut []);
    let (mut text, mut binary) = (app(server), app(server));
    for client in [&mut text, &mut binary] {
        run(client, "DO 1").unwrap();
    }
    run(&mut root, "INSTALL SONAME 'flifo'").unwrap();
    configure(server, "1");
    for (client, by) in [(&mut text, run as fn(&mut Conn, &str) -> mysql::Result<()>), (&mut binary, execute)]
    {
        by(client, "SELECT COUNT(*) FROM t").unwrap();
        let before = admitted(server);
        by(client, "SELECT COUNT(*) FROM t").unwrap();
        assert!(admitted(server) > before);
    }
    empty(server);
}

/// What a transaction locked before an INSTALL was not seen. Its connection is asked from the second statement on.
fn comes_while_locks_are_held(server: &PrivateServer) {
    let mut root = admin(server);
    uninstall(&mut root);
    until_gone(server, &mut root, &mut []);
    let mut holder = app(server);
    run(&mut holder, "BEGIN").unwrap();
    run(&mut holder, UPDATE_1).unwrap();
    run(&mut root, "INSTALL SONAME 'flifo'").unwrap();
    configure(server, "1");
    run(&mut holder, "SELECT 1").unwrap();
    let waiters = [Running::start(server, UPDATE_1), Running::start(server, UPDATE_1)];
    until_row_waits(server, 1);
    for statement in ["SELECT 1", "SELECT 1", "COMMIT"] {
        run(&mut holder, statement).unwrap();
    }
    for waiter in waiters {
        waiter.end().unwrap();
    }
    empty(server);
}

/// Statements of a routine that wait until they are let go on.
const GATE: &str = "DO GET_LOCK('gate', 1000); DO 1; DO RELEASE_LOCK('gate')";

/// Makes this connection run a statement that begins while admission is off, and switches it on there.
fn on_at_the_gate(server: &PrivateServer, mut client: Conn, statement: &'static str) -> JoinHandle<Conn> {
    set(server, "thread_concurrency", "0");
    let id = client.connection_id();
    let thread = thread::spawn(move || {
        run(&mut client, statement).unwrap();
        client
    });
    until_state(server, id, "User lock");
    configure(server, "1");
    thread
}

fn until_state(server: &PrivateServer, id: u32, state: &str) {
    until(state, || {
        let text = format!("SELECT state = '{state}' FROM information_schema.processlist WHERE id = {id}");
        admin(server).query_first(text).unwrap().unwrap_or(false)
    });
}

/// What a function runs is not taken for a statement of the client's, which would queue behind who waits for the rows of its caller.
fn on_while_a_function_runs(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop(format!(
        "CREATE OR REPLACE FUNCTION test.at_the_gate(a INT) RETURNS INT SQL SECURITY INVOKER
         BEGIN {GATE}; RETURN a; END"
    ))
    .unwrap();
    for statement in [
        "UPDATE t SET k = at_the_gate(id) WHERE id = 1",
        "DO 1; UPDATE t SET k = at_the_gate(id) WHERE id = 1; DO 2",
        "EXECUTE IMMEDIATE 'UPDATE t SET k = at_the_gate(id) WHERE id = 1'",
    ] {
        root.query_drop("DO GET_LOCK('gate', 0)").unwrap();
        let caller = on_at_the_gate(server, app(server), statement);
        let waiter = Running::start(server, UPDATE_1);
        until_row_waits(server, 1);
        root.query_drop("DO RELEASE_LOCK('gate')").unwrap();
        caller.join().unwrap();
        waiter.end().unwrap();
        empty(server);
    }
}

/// A procedure that runs with its definer's rights makes no administrator of its caller.
fn on_while_a_procedure_runs(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop(format!("CREATE OR REPLACE PROCEDURE test.of_roots() BEGIN {GATE}; END")).unwrap();
    root.query_drop("DO GET_LOCK('gate', 0)").unwrap();
    let caller = on_at_the_gate(server, app(server), "CALL of_roots()");
    root.query_drop("DO RELEASE_LOCK('gate')").unwrap();
    let client = caller.join().unwrap();
    let holder = Holder::of_the_only_slot(server);
    let queued = Running::on(client, "SELECT 1");
    holder.until_queued(1);
    drop(holder);
    queued.end().unwrap();
    empty(server);
}

/// Nor does one that runs when the plugin comes: a wait for its client in the middle of its result is not taken for the next command's.
fn comes_while_a_procedure_runs(server: &PrivateServer) {
    let mut root = admin(server);
    uninstall(&mut root);
    until_gone(server, &mut root, &mut []);
    root.query_drop(
        "CREATE OR REPLACE PROCEDURE test.sends_much() BEGIN DO GET_LOCK('gate', 1000);
         SELECT REPEAT('x', 1000) FROM seq_1_to_20000; DO 1; DO RELEASE_LOCK('gate'); END",
    )
    .unwrap();
    root.query_drop("DO GET_LOCK('gate', 0)").unwrap();
    let mut client = Wire::connect(server).unwrap();
    client.send_query("CALL sends_much()").unwrap();
    until_state(server, client.id, "User lock");
    run(&mut root, "INSTALL SONAME 'flifo'").unwrap();
    configure(server, "1");
    root.query_drop("DO RELEASE_LOCK('gate')").unwrap();
    until_state(server, client.id, "Writing to net");
    assert_eq!(client.replies().unwrap(), [Reply::Rows(20_000), Reply::Done]);
    let holder = Holder::of_the_only_slot(server);
    client.send_query("SELECT 1").unwrap();
    holder.until_queued(1);
    drop(holder);
    assert_eq!(client.replies().unwrap(), [Reply::Rows(1)]);
    empty(server);
}

fn comes_and_goes_under_load(server: &PrivateServer) {
    crowd(
        16,
        |number, stop| load(server, number, stop),
        || {
            let mut root = admin(server);
            let mut random = Random::new(77);
            for round in 0..times(50) {
                configure(server, random.one_of(&["1", "2", "auto"]));
                set(server, "policy", random.one_of(&["quantum", "flifo", "fifo"]));
                until("the load is admitted", || admitted(server) > 20);
                thread::sleep(Duration::from_micros(random.below(3000) as u64));
                uninstall(&mut root);
                if round % 10 == 0 {
                    // It is gone for a while.
                    thread::sleep(Duration::from_millis(20));
                }
                install(server, &mut root, &mut []);
            }
        },
    );
    configure(server, "1");
}

/// With a queue of a hundred it says that it is busy; they are all served, and it goes.
fn goes_while_many_queue(server: &PrivateServer) {
    let mut root = admin(server);
    for _ in 0..times(10) {
        let holder = Holder::of_the_only_slot(server);
        let queued: Vec<Running> = (0..100).map(|_| Running::start(server, "SELECT * FROM t")).collect();
        holder.until_queued(100);
        uninstall(&mut root);
        let busy: Vec<(String, u16, String)> = root.query("SHOW WARNINGS").unwrap();
        assert_eq!(busy.first().map(|warning| warning.1), Some(1620), "{busy:?}");
        drop(holder);
        for statement in queued {
            statement.end().unwrap();
        }
        install(server, &mut root, &mut []);
        configure(server, "1");
        run(&mut app(server), "SELECT 1").unwrap();
        empty(server);
    }
}

/// Statements that began with it and end without it: asleep, in lock waits, in a transaction, sending a result.
fn goes_while_statements_wait(server: &PrivateServer) {
    let mut root = admin(server);
    for _ in 0..times(10) {
        configure(server, "1");
        let mut locker = app(server);
        run(&mut locker, "BEGIN").unwrap();
        run(&mut locker, "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
        run(&mut locker, "DO GET_LOCK('name', 0)").unwrap();
        let mut waiting: Vec<Running> =
            ["UPDATE t SET k = k + 1 WHERE id = 1", "DO GET_LOCK('name', 1000)", "DO SLEEP(0.2)"]
                .iter()
                .map(|statement| Running::start(server, statement))
                .collect();
        let mut reader = Wire::connect(server).unwrap();
        reader.send_query("SELECT REPEAT('x', 1000) FROM seq_1_to_20000").unwrap();
        waiting.push(Running::start(server, "ALTER TABLE t FORCE"));
        thread::sleep(Duration::from_millis(20));
        uninstall(&mut root);
        run(&mut locker, "SELECT 1").unwrap();
        run(&mut locker, "DO RELEASE_LOCK('name')").unwrap();
        run(&mut locker, "COMMIT").unwrap();
        reader.replies().unwrap();
        for statement in waiting {
            statement.end().unwrap();
        }
        install(server, &mut root, &mut []);
    }
    configure(server, "1");
}

fn settings_change_under_load(server: &PrivateServer) {
    const VALUES: [(&str, &[&str]); 9] = [
        ("thread_concurrency", &["'0'", "'1'", "'2'", "'7'", "'1023'", "'auto'"]),
        ("policy", &["'none'", "'fifo'", "'flifo'", "'quantum'"]),
        ("quantum", &["1", "50", "1000000"]),
        ("queue_timeout", &["0", "1", "50", "86400000"]),
        ("max_queue", &["0", "1", "5", "1000000"]),
        ("stall_limit", &["1", "100", "86400000"]),
        ("io_depth", &["0", "1", "64", "1000000"]),
        ("reserve_slots", &["OFF", "ON"]),
        ("bypass", &["0", "1"]),
    ];
    crowd(
        16,
        |number, stop| load(server, number, stop),
        || {
            let mut random = Random::new(5);
            let mut root = admin(server);
            let end = Instant::now() + Duration::from_secs(times(10) as u64);
            while Instant::now() < end {
                for _ in 0..20 {
                    let (name, values) = VALUES[random.below(VALUES.len())];
                    run(&mut root, &format!("SET GLOBAL flifo_{name} = {}", random.one_of(values))).unwrap();
                    if random.below(4) == 0 {
                        run(&mut root, "SHOW GLOBAL STATUS LIKE 'flifo%'").unwrap();
                    }
                }
                thread::sleep(Duration::from_micros(random.below(5000) as u64));
            }
        },
    );
}

/// Where only administrators have run statements, the plugin says so: in a status variable, and once in the error log.
fn a_note_if_all_bypass(server: &PrivateServer) {
    const SAYS: &str =
        "all statements so far came from accounts with SUPER, CONNECTION ADMIN or REPLICATION SLAVE";
    let mut root = admin(server);
    // All counts are 0 again.
    uninstall(&mut root);
    install(server, &mut root, &mut []);
    // The plugin does not see the connection that removed it.
    let mut root = admin(server);
    run(&mut root, "SELECT 1").unwrap();
    assert!(server.status("Flifo_note").unwrap().starts_with(SAYS));
    let logged = || server.error_log().matches(SAYS).count();
    let before = logged();
    for _ in 0..1500 {
        root.query_drop("DO 1").unwrap();
    }
    until("the log has the note", || logged() == before + 1);
    let mut client = app(server);
    // A dormant plugin counts the commands that the server waits for.
    until("an ordinary account is seen", || {
        run(&mut client, "SELECT 1").unwrap();
        server.status("Flifo_note").unwrap().is_empty()
    });
    for _ in 0..1500 {
        root.query_drop("DO 1").unwrap();
    }
    assert_eq!(logged(), before + 1, "once");
}
