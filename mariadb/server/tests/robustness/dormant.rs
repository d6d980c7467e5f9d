//! The plugin with its default setting: dormant while no limit is in force, and awake in time.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::support::random::Random;
use super::support::rest::{admitted, empty, until};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject {
        name: "dormant",
        options: with_plugin(),
        tests: vec![
            ("a_packet_counts_as_one", a_packet_counts_as_one),
            ("a_limit_wakes_it_at_once", a_limit_wakes_it_at_once),
            ("a_transaction_begun_in_dormancy_holds_locks", a_transaction_begun_in_dormancy_holds_locks),
            ("a_procedure_begun_in_dormancy", a_procedure_begun_in_dormancy),
            ("a_role_taken_in_dormancy", a_role_taken_in_dormancy),
            ("a_crowd_wakes_it", a_crowd_wakes_it),
            ("auto_finds_a_crowd", auto_finds_a_crowd),
            ("another_audit_plugin_sees_all", another_audit_plugin_sees_all),
            ("to_and_fro_under_load", to_and_fro_under_load),
        ],
    }
}

fn state(server: &PrivateServer) -> String {
    server.status("Flifo_auto_state").unwrap()
}

/// Slots acquired, or statements counted, by a packet of three statements.
fn counted(server: &PrivateServer, client: &mut Conn) -> u64 {
    let before = admitted(server);
    run(client, "DO 1; DO 2; SELECT COUNT(*) FROM t WHERE id = 1").unwrap();
    // The wait for the next command follows the reply.
    until("it is counted", || admitted(server) != before);
    admitted(server) - before
}

#[track_caller]
fn fall_asleep(server: &PrivateServer) {
    set(server, "thread_concurrency", "auto");
    let mut client = app(server);
    until("the plugin is dormant", || counted(server, &mut client) == 1);
}

fn a_packet_counts_as_one(server: &PrivateServer) {
    fall_asleep(server);
    assert_eq!(state(server), "calm");
    assert_eq!(server.status_number("Flifo_thread_concurrency").unwrap(), 0);
    // What wakes the plugin is a limit.
    set(server, "thread_concurrency", "4");
    assert_eq!((counted(server, &mut app(server)), state(server)), (3, "off".to_owned()));
}

fn a_limit_wakes_it_at_once(server: &PrivateServer) {
    for _ in 0..times(20) {
        fall_asleep(server);
        let clients = [(); 3].map(|()| app(server));
        let holder = Holder::of_the_only_slot(server);
        let queued = clients.map(|client| Running::on(client, "SELECT COUNT(*) FROM t"));
        holder.until_queued(3);
        drop(holder);
        queued.into_iter().for_each(|running| running.end().unwrap());
    }
}

fn a_transaction_begun_in_dormancy_holds_locks(server: &PrivateServer) {
    fall_asleep(server);
    let (mut owner, mut other) = (app(server), app(server));
    for statement in ["BEGIN", "UPDATE t SET k = k + 1 WHERE id = 1"] {
        run(&mut owner, statement).unwrap();
    }
    let holder = Holder::of_the_only_slot(server);
    set_number(server, "queue_timeout", 50);
    assert_eq!(code(run(&mut other, "UPDATE t SET k = k + 1 WHERE id = 2")), REFUSED);
    for statement in ["UPDATE t SET k = k + 1 WHERE id = 3", "COMMIT"] {
        run(&mut owner, statement).unwrap();
    }
    assert_eq!(code(run(&mut owner, "UPDATE t SET k = k + 1 WHERE id = 4")), REFUSED, "it holds no lock now");
    assert!(holder.still_holds());
    drop(holder);
    empty(server);
}

fn a_procedure_begun_in_dormancy(server: &PrivateServer) {
    admin(server)
        .query_drop(
            "CREATE OR REPLACE PROCEDURE test.takes_a_while() BEGIN DECLARE i INT DEFAULT 0;
             WHILE i < 20 DO UPDATE t SET k = k + 1 WHERE id = 5; DO SLEEP(0.02); SET i = i + 1; END WHILE; END",
        )
        .unwrap();
    for sleep in [0, 10, 50, 200] {
        fall_asleep(server);
        let running = [(); 3].map(|()| Running::start(server, "CALL takes_a_while(); SELECT 1"));
        thread::sleep(Duration::from_millis(sleep));
        set(server, "thread_concurrency", "1");
        thread::sleep(Duration::from_millis(50));
        run(&mut app(server), "SELECT COUNT(*) FROM t").unwrap();
        set(server, "thread_concurrency", "auto");
        running.into_iter().for_each(|running| running.end().unwrap());
        empty(server);
    }
}

fn a_role_taken_in_dormancy(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE ROLE operators",
        "GRANT CONNECTION ADMIN ON *.* TO operators",
        "GRANT operators TO app@localhost",
    ] {
        root.query_drop(statement).unwrap();
    }
    fall_asleep(server);
    let mut client = app(server);
    run(&mut client, "SET ROLE operators").unwrap();
    set(server, "thread_concurrency", "1");
    run(&mut client, "SELECT 1").unwrap();
    let holder = Holder::of_the_only_slot(server);
    run(&mut client, "SELECT 1").unwrap();
    assert!(holder.still_holds());
    drop(holder);
    empty(server);
    root.query_drop("DROP ROLE operators").unwrap();
}

/// Two hundred clients that update one row, beside `meanwhile`.
fn on_one_row(server: &PrivateServer, meanwhile: impl FnOnce()) {
    let client = |_, stop: &AtomicBool| {
        let mut client = app(server);
        while !stop.load(Ordering::Relaxed) {
            run(&mut client, "UPDATE t SET k = k + 1 WHERE id = 7").unwrap();
        }
    };
    crowd(200, client, meanwhile);
}

fn is_awake(server: &PrivateServer) -> bool {
    ["comparing", "limited"].contains(&state(server).as_str())
}

fn a_crowd_wakes_it(server: &PrivateServer) {
    fall_asleep(server);
    on_one_row(server, || until("it is awake", || is_awake(server)));
    until("it is dormant again", || state(server) == "calm");
    empty(server);
}

/// A DBA tries the server without a limit, and then with the default again.
fn auto_finds_a_crowd(server: &PrivateServer) {
    set(server, "thread_concurrency", "0");
    on_one_row(server, || {
        until("they collide", || server.status_number("Threads_running").unwrap() > 50);
        set(server, "thread_concurrency", "auto");
        until("it is awake", || is_awake(server));
    });
    empty(server);
}

/// It gets the events that it was promised, whether it is there first or comes later.
fn another_audit_plugin_sees_all(server: &PrivateServer) {
    let library = server.scratch().parent().unwrap().join("plugin/counting_audit.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/robustness/counting_audit.c");
    let headers = std::env::var("MARIADB_HEADERS").unwrap_or("/usr/include/mariadb/server".into());
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-DMYSQL_DYNAMIC_PLUGIN"])
        .args(["-I", &headers, "-I", &format!("{headers}/mysql"), "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .status();
    assert!(built.expect("a C compiler").success());
    fall_asleep(server);
    let mut root = admin(server);
    root.query_drop("INSTALL SONAME 'counting_audit'").unwrap();
    let mut client = app(server);
    let mut all_are_seen = || {
        let seen = || server.status_number("Counting_audit_seen").unwrap();
        let before = seen();
        (0..50).for_each(|_| run(&mut client, "DO 1").unwrap());
        // Those that ask are statements, too.
        assert!(seen() - before >= 50);
    };
    for limit in ["auto", "1", "auto"] {
        set(server, "thread_concurrency", limit);
        (0..times(20)).for_each(|_| {
            all_are_seen();
            thread::sleep(Duration::from_millis(20));
        });
    }
    root.query_drop("UNINSTALL SONAME 'counting_audit'").unwrap();
    drop((root, client));
    fall_asleep(server);
}

/// Limits come and go while clients do all kinds of things: no update is lost, and nothing is left over.
fn to_and_fro_under_load(server: &PrivateServer) {
    admin(server)
        .query_drop(
            "CREATE OR REPLACE PROCEDURE test.adds_two(IN which INT) BEGIN
             UPDATE t SET k = k + 1 WHERE id = which; SELECT 1; UPDATE t SET k = k + 1 WHERE id = which; END",
        )
        .unwrap();
    run(&mut app(server), "UPDATE t SET k = 0").unwrap();
    const STATEMENTS: [(&str, u64); 6] = [
        ("UPDATE t SET k = k + 1 WHERE id = 11", 1),
        ("BEGIN; UPDATE t SET k = k + 1 WHERE id = 12; SELECT * FROM t WHERE id = 12; COMMIT", 1),
        ("CALL adds_two(13)", 2),
        ("SELECT COUNT(*) FROM t", 0),
        ("START TRANSACTION; UPDATE t SET k = k + 1 WHERE id = 14; ROLLBACK", 0),
        ("DO 1; UPDATE t SET k = k + 1 WHERE id = 15; DO SLEEP(0.001)", 1),
    ];
    let added = std::sync::atomic::AtomicU64::new(0);
    crowd(
        40,
        |number, stop| {
            let (mut client, mut random) = (app(server), Random::new(number as u64));
            while !stop.load(Ordering::Relaxed) {
                let (statement, adds) = STATEMENTS[random.below(STATEMENTS.len())];
                run(&mut client, statement).unwrap();
                added.fetch_add(adds, Ordering::Relaxed);
            }
        },
        || {
            let mut random = Random::new(99);
            for round in 0..times(50) {
                set(server, "thread_concurrency", ["auto", "1", "auto", "4"][round % 4]);
                thread::sleep(Duration::from_millis(random.below(300) as u64));
            }
        },
    );
    let sum: u64 = app(server).query_first("SELECT SUM(k) FROM t").unwrap().unwrap();
    assert_eq!(sum, added.load(Ordering::Relaxed));
}
