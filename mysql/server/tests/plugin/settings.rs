//! The settings, and the adaptive limit.

use std::sync::atomic::{AtomicBool, Ordering};

use flifo_mysql::PrivateServer;
use flifo_mysql::mysql::prelude::Queryable;

use super::support::{Holder, Test, app, code, crowd, is_at_rest, run, set, until};

pub(crate) const TESTS: &[Test] = &[
    ("settings_and_status_are_mariadbs", settings_and_status_are_mariadbs),
    ("wrong_values_of_every_setting", wrong_values_of_every_setting),
    ("every_policy", every_policy),
    ("a_session_bypasses", a_session_bypasses),
    ("auto_is_shown_and_limits_a_crowd", auto_is_shown_and_limits_a_crowd),
];

const STATUS: &str = "admitted admitted_by_force admitted_from_queue auto_state bypassed cancelled disk_waits level lock_waiters note
    pending queue_time_us queue_wait_max_us queue_wait_p50_us queue_wait_p99_us queued queued_max refused running running_max stalls
    thread_concurrency wait_disk_us wait_log_sync_us wait_network_us wait_row_lock_us wait_sleep_us wait_table_lock_us wait_user_us";

fn settings_and_status_are_mariadbs(server: &PrivateServer) {
    let mut root = server.connect("root").unwrap();
    let names: Vec<String> = root
        .query_map("SHOW GLOBAL STATUS LIKE 'Flifo%'", |(name, _): (String, String)| {
            name.strip_prefix("Flifo_").unwrap().to_owned()
        })
        .unwrap();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, STATUS.split_whitespace().collect::<Vec<_>>());
    for (name, default) in [
        ("thread_concurrency", "auto"),
        ("policy", "quantum"),
        ("quantum", "3000"),
        ("queue_timeout", "0"),
        ("max_queue", "0"),
        ("stall_limit", "100"),
        ("io_depth", "64"),
        ("reserve_slots", "OFF"),
        ("bypass", "OFF"),
    ] {
        root.query_drop(format!("SET GLOBAL flifo_{name} = DEFAULT")).unwrap();
        let row: Option<(String, String)> =
            root.query_first(format!("SHOW GLOBAL VARIABLES LIKE 'flifo_{name}'")).unwrap();
        assert_eq!(row.map(|(_, value)| value).as_deref(), Some(default), "{name}");
    }
}

fn wrong_values_of_every_setting(server: &PrivateServer) {
    let mut root = server.connect("root").unwrap();
    for (name, values) in [
        ("thread_concurrency", ["''", "'autos'", "1.5"]),
        ("policy", ["'lifo'", "4", "NULL"]),
        ("quantum", ["0", "1000001", "'x'"]),
        ("queue_timeout", ["-1", "86400001", "NULL"]),
        ("max_queue", ["-1", "1000001", "1e3"]),
        ("stall_limit", ["-5", "99999999999999999999", "'1'"]),
        ("io_depth", ["-1", "1000001", "NULL"]),
        ("reserve_slots", ["2", "'maybe'", "NULL"]),
        ("bypass", ["2", "'maybe'", "NULL"]),
    ] {
        let show = format!("SELECT CAST(@@GLOBAL.flifo_{name} AS CHAR)");
        let before: Option<String> = root.query_first(&show).unwrap();
        for value in values {
            let set = format!("SET GLOBAL flifo_{name} = {value}");
            assert!(matches!(code(root.query_drop(&set)), 1231 | 1232), "{set}");
            assert_eq!(root.query_first::<String, _>(&show).unwrap(), before, "{set}");
        }
    }
    // The server's log is checked after each test: a refusal writes nothing there.
    let line = root.query_drop("SET GLOBAL flifo_max_queue = -1").unwrap_err().to_string();
    assert!(line.contains("flifo_max_queue must be a number from 0 to 1000000, not '-1'"), "{line}");
}

fn every_policy(server: &PrivateServer) {
    for policy in ["none", "fifo", "flifo", "quantum"] {
        server.administer(&format!("SET GLOBAL flifo_policy = {policy}")).unwrap();
        server.administer("SET GLOBAL flifo_reserve_slots = ON").unwrap();
        let done = std::sync::atomic::AtomicU64::new(0);
        let client = |_: usize, stop: &AtomicBool| {
            let mut client = app(server);
            while !stop.load(Ordering::Relaxed) {
                run(&mut client, "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
                run(&mut client, "SELECT * FROM t").unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        crowd(8, client, || until(policy, || done.load(Ordering::Relaxed) > 100));
        until("no slot is out", || is_at_rest(server));
    }
    server.administer("SET GLOBAL flifo_policy = DEFAULT").unwrap();
    server.administer("SET GLOBAL flifo_reserve_slots = DEFAULT").unwrap();
}

fn a_session_bypasses(server: &PrivateServer) {
    let mut client = app(server);
    assert_eq!(code(client.query_drop("SET SESSION flifo_bypass = ON")), 1227);
    client.query_drop("SET SESSION flifo_bypass = OFF").unwrap();
    server.administer("CREATE ROLE IF NOT EXISTS operator").unwrap();
    server.administer("GRANT CONNECTION_ADMIN ON *.* TO operator").unwrap();
    server.administer("GRANT operator TO app@localhost").unwrap();
    let mut operator = app(server);
    operator.query_drop("SET ROLE operator").unwrap();
    operator.query_drop("SET SESSION flifo_bypass = ON").unwrap();
    operator.query_drop("SET ROLE NONE").unwrap();
    let mut privileged = app(server);
    privileged.query_drop("SET ROLE operator").unwrap();
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 50);
    let before = server.status_number("Flifo_bypassed").unwrap();
    run(&mut operator, "SELECT * FROM t").unwrap();
    run(&mut privileged, "SELECT * FROM t").unwrap();
    assert!(server.status_number("Flifo_bypassed").unwrap() >= before + 2);
    operator.query_drop("SET SESSION flifo_bypass = OFF").unwrap();
    run(&mut operator, "SELECT * FROM t").unwrap_err();
    assert!(holder.still_holds());
}

/// Sessions that update one row.
fn auto_is_shown_and_limits_a_crowd(server: &PrivateServer) {
    let state = || server.status("Flifo_auto_state").unwrap();
    assert_eq!(state(), "off");
    server.administer("SET GLOBAL flifo_stall_limit = DEFAULT").unwrap();
    server.administer("SET GLOBAL flifo_thread_concurrency = DEFAULT").unwrap();
    let row: Option<(String, String)> = server
        .connect("root")
        .unwrap()
        .query_first("SHOW GLOBAL VARIABLES LIKE 'flifo_thread_concurrency'")
        .unwrap();
    assert_eq!(row.map(|(_, value)| value).as_deref(), Some("auto"));
    until("it finds nothing to limit", || state() == "calm");
    let admitted = server.status_number("Flifo_admitted_from_queue").unwrap();
    let client = |_: usize, stop: &AtomicBool| {
        let mut client = app(server);
        while !stop.load(Ordering::Relaxed) {
            run(&mut client, "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
        }
    };
    crowd(200, client, || {
        // A comparison may be over before it is seen, and on a busy machine end in favour of no limit.
        until("a limit is compared", || ["comparing", "limited", "open"].contains(&state().as_str()));
        until("statements queue", || {
            server.status_number("Flifo_admitted_from_queue").unwrap() > admitted + 100
        });
    });
    until("no slot is out", || is_at_rest(server));
}
