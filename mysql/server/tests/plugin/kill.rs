//! Statements that are killed in the queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flifo_mysql::PrivateServer;

use super::support::{
    Holder, INTERRUPTED, Queryable, Reply, Running, Test, code, command, crowd, is_at_rest, run, set, times,
    try_wire, until, wire,
};

pub(crate) const TESTS: &[Test] = &[
    ("both_kinds_of_kill", both_kinds_of_kill),
    ("a_prepared_call_is_killed_as_a_whole", a_prepared_call_is_killed_as_a_whole),
    ("many_at_any_moment", many_at_any_moment),
    ("clients_vanish_from_the_queue", clients_vanish_from_the_queue),
    ("clients_vanish_at_any_moment", clients_vanish_at_any_moment),
];

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

/// Its first statement touches no table: the server itself looks for the kill only later.
fn a_prepared_call_is_killed_as_a_whole(server: &PrivateServer) {
    for statement in [
        "DROP PROCEDURE IF EXISTS test.touches_no_table_at_first",
        "CREATE PROCEDURE test.touches_no_table_at_first()
         BEGIN SET @z = 1; START TRANSACTION; UPDATE t SET k = k + 100 WHERE id = 2; COMMIT; END",
        "UPDATE test.t SET k = 0 WHERE id = 2",
    ] {
        server.administer(statement).unwrap();
    }
    let mut root = server.connect("root").unwrap();
    for kind in ["QUERY", "CONNECTION"] {
        let mut client = wire(server);
        let call = client.prepare("CALL touches_no_table_at_first()").unwrap().unwrap();
        let holder = Holder::of_the_only_slot(server);
        client.send_execute(call, false).unwrap();
        holder.until_queued(1);
        root.query_drop(format!("KILL {kind} {}", client.id)).unwrap();
        // The connection's end may be seen instead.
        match client.replies() {
            Ok(replies) => assert!(matches!(replies[..], [Reply::Error(INTERRUPTED, _)]), "{replies:?}"),
            Err(error) => assert_eq!(kind, "CONNECTION", "{error}"),
        }
        drop(holder);
        until("no slot is out", || is_at_rest(server));
        let done: Option<u32> = root.query_first("SELECT k FROM test.t WHERE id = 2").unwrap();
        assert_eq!(done, Some(0), "a procedure that was killed in the queue has run");
    }
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
            killed >= times(300)
        });
    });
}

fn clients(server: &PrivateServer) -> u64 {
    let text = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_user = 'app'";
    server.connect("root").unwrap().query_first(text).unwrap().unwrap_or(0)
}

/// The server sees that they are gone when it writes to them; their slots go to the next.
fn clients_vanish_from_the_queue(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let mut queued = Vec::new();
    for number in 0..100 {
        let mut client = wire(server);
        if number % 2 == 0 {
            client.send_query("SELECT * FROM t").unwrap();
        } else {
            let statement = client.prepare("UPDATE t SET k = k + 1 WHERE id = 3").unwrap().unwrap();
            client.send_execute(statement, false).unwrap();
        }
        queued.push(client);
    }
    holder.until_queued(100);
    for client in queued {
        client.vanish();
    }
    drop(holder);
    until("no slot is out", || is_at_rest(server));
    until("their connections are gone", || clients(server) == 0);
}

fn clients_vanish_at_any_moment(server: &PrivateServer) {
    let client = |number: usize, _: &AtomicBool| {
        for round in 0..times(30) {
            let Ok(mut client) = try_wire(server) else { continue };
            let statement = MIX[(number + round) % MIX.len()];
            match (number * 5 + round) % 7 {
                // In the middle of a packet, of its head, of a result.
                0 => drop(client.send_raw(&[50, 0, 0, 0, command::QUERY, b'S'])),
                1 => drop(client.send_raw(&[50, 0])),
                2 => {
                    let _ = client.send_query("SELECT REPEAT('x', 1000000) FROM t a, t b, t c");
                    let _ = client.read_one();
                }
                3 => drop(client.query("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1")),
                // Many at once, without reading: the server reads them one by one.
                4 => (0..5).for_each(|_| drop(client.send_query(statement))),
                _ => {
                    let _ = client.send_query(statement);
                    std::thread::sleep(Duration::from_micros((round * 97 % 3000) as u64));
                }
            }
            if round % 5 == 0 { client.quit() } else { client.vanish() }
        }
    };
    // A client that reads nothing keeps its slot, since the server reports no wait for it, until it is gone.
    crowd(16, client, || ());
    until("no slot is out", || is_at_rest(server));
    until("their connections are gone", || clients(server) == 0);
}
