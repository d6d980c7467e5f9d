//! Statements that are killed in the queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flifo_mysql::PrivateServer;
use flifo_mysql::mysql::prelude::Queryable;

use super::support::{Holder, INTERRUPTED, Running, Test, code, crowd, run, set, until};

pub(crate) const TESTS: &[Test] =
    &[("both_kinds_of_kill", both_kinds_of_kill), ("many_at_any_moment", many_at_any_moment)];

/// A killed statement ends although no slot is free, and soon. The fastest of some counts: the machine may be busy.
fn both_kinds_of_kill(server: &PrivateServer) {
    const BOUND: Duration = Duration::from_millis(50);
    const STATEMENTS: [&str; 4] =
        ["SELECT * FROM t", "UPDATE t SET k = k + 1 WHERE id = 1", "CALL two()", "BEGIN"];
    let mut root = server.connect("root").unwrap();
    root.query_drop("UPDATE test.t SET k = 0").unwrap();
    let holder = Holder::of_the_only_slot(server);
    for kind in ["QUERY", "CONNECTION"] {
        let mut fastest = Duration::MAX;
        for number in 0..12 {
            let statement = Running::start(server, STATEMENTS[number % STATEMENTS.len()]);
            let other = Running::start(server, "SELECT * FROM t");
            holder.until_queued(2);
            let begin = Instant::now();
            root.query_drop(format!("KILL {kind} {}", statement.id)).unwrap();
            let (result, end) = statement.end();
            fastest = fastest.min(end.saturating_duration_since(begin));
            // The connection's end may be seen instead.
            if kind == "QUERY" {
                assert_eq!(code(result), INTERRUPTED, "KILL {kind}");
            } else {
                assert!(result.is_err(), "KILL {kind}");
            }
            assert!(!other.is_over(), "the other one stays in the queue");
            root.query_drop(format!("KILL {}", other.id)).unwrap();
            assert!(other.end().0.is_err());
            holder.until_queued(0);
        }
        println!("KILL {kind} of a queued statement: {fastest:?}");
        assert!(fastest <= BOUND, "KILL {kind} takes {fastest:?}");
    }
    assert!(holder.still_holds());
    let updated: Option<u64> = root.query_first("SELECT k FROM test.t WHERE id = 3").unwrap();
    assert_eq!(updated, Some(0), "a procedure that was killed in the queue has run");
}

/// What clients do under attack. Some of it waits, some works, some holds locks.
const MIX: [&str; 8] = [
    "SELECT * FROM t",
    "DO SLEEP(0.002)",
    "UPDATE t SET k = k + 1 WHERE id = 1",
    "BEGIN; UPDATE t SET k = k + 1 WHERE id = 1; UPDATE t SET k = k + 1 WHERE id = 2; COMMIT",
    "BEGIN; UPDATE t SET k = k + 1 WHERE id = 2; DO SLEEP(0.001); UPDATE t SET k = k + 1 WHERE id = 1; COMMIT",
    "CALL two()",
    "DO GET_LOCK('name', 1); DO SLEEP(0.001); DO RELEASE_LOCK('name')",
    "SELECT 1; SELECT no_such_column; SELECT 3",
];

/// Statements and connections are killed in whatever they do; no slot is lost.
fn many_at_any_moment(server: &PrivateServer) {
    const KILLS: usize = 300;
    set(server, "thread_concurrency", 2);
    let client = |mut number: usize, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            // Killed while it connects, too.
            let Ok(mut connection) = server.connect("app") else { continue };
            if connection.select_db("test").is_err() {
                continue;
            }
            // An error that is no kill leaves the connection open.
            while !stop.load(Ordering::Relaxed) && connection.ping().is_ok() {
                let _ = run(&mut connection, MIX[number % MIX.len()]);
                number += 1;
            }
        }
    };
    let mut root = server.connect("root").unwrap();
    let mut killed = 0;
    crowd(12, client, || {
        until("enough are killed", || {
            let text = "SELECT processlist_id FROM performance_schema.threads WHERE processlist_user = 'app'";
            let clients: Vec<u64> = root.query(text).unwrap();
            for client in clients.iter().take(4) {
                let kind = if killed % 3 == 0 { "CONNECTION" } else { "QUERY" };
                // It may be gone.
                killed += usize::from(root.query_drop(format!("KILL {kind} {client}")).is_ok());
            }
            killed >= KILLS
        });
    });
}
