//! Statements that are killed, queued or running, and clients that are gone in the middle.

use std::sync::atomic::Ordering;

use super::statements::touches_no_table_at_first;
use super::support::random::Random;
use super::support::rest::{empty, until};
use super::support::wire::{Reply, Wire, command};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "kill", options: with_plugin(), tests: tests() }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("queued_statements", queued_statements),
        ("queued_within_a_procedure", queued_within_a_procedure),
        ("a_thousand_at_random", a_thousand_at_random),
        ("clients_vanish_from_the_queue", clients_vanish_from_the_queue),
        ("clients_vanish_at_any_moment", clients_vanish_at_any_moment),
    ]
}

/// A killed one comes out of the queue although no slot is free, and the others stay in it.
fn queued_statements(server: &PrivateServer) {
    const STATEMENTS: [&str; 4] =
        ["SELECT 1", "UPDATE t SET k = k + 1 WHERE id = 1", "CALL no_such_procedure()", "BEGIN"];
    let mut root = admin(server);
    let holder = Holder::of_the_only_slot(server);
    let before = server.status_number("Flifo_cancelled").unwrap();
    let queued: Vec<Running> =
        (0..40).map(|number| Running::start(server, STATEMENTS[number % STATEMENTS.len()])).collect();
    holder.until_queued(40);
    for (number, statement) in queued.into_iter().enumerate() {
        let kind = ["QUERY", "CONNECTION", "HARD QUERY", "SOFT CONNECTION"][number / 10];
        root.query_drop(format!("KILL {kind} {}", statement.id)).unwrap();
        // The connection's end may be seen instead.
        let result = statement.end();
        if kind.contains("QUERY") {
            assert_eq!(code(result), INTERRUPTED, "KILL {kind}");
        } else {
            assert!(result.is_err(), "KILL {kind}");
        }
        holder.until_queued(39 - number as u64);
    }
    // By its query's number, and all of a user's.
    let one = Running::start(server, "SELECT 1");
    holder.until_queued(1);
    let query: u64 = root
        .query_first(format!("SELECT query_id FROM information_schema.processlist WHERE id = {}", one.id))
        .unwrap()
        .unwrap();
    root.query_drop(format!("KILL QUERY ID {query}")).unwrap();
    assert_eq!(code(one.end()), INTERRUPTED);
    assert!(holder.still_holds());
    assert!(server.status_number("Flifo_cancelled").unwrap() >= before + 41);
    // A prepared CALL, whose first statement the server does not look for the kill before, is killed as a whole.
    touches_no_table_at_first(server);
    let mut client = Wire::connect(server).unwrap();
    let call = client.prepare("CALL touches_no_table_at_first()").unwrap().unwrap();
    client.send_execute(call, false).unwrap();
    holder.until_queued(1);
    root.query_drop(format!("KILL QUERY {}", client.id)).unwrap();
    let replies = client.replies().unwrap();
    assert!(matches!(replies[..], [Reply::Error(INTERRUPTED, _)]), "{replies:?}");
    let done: usize = root.query_first("SELECT k FROM test.t WHERE id = 8").unwrap().unwrap();
    assert_eq!(done, 0, "a procedure that was killed in the queue has run");
}

/// A procedure that has used up its tickets, which are 5,000, queues again; killed there, it ends. Not by KILL QUERY: the
/// server forgets that between two statements of a procedure, without the plugin, too.
fn queued_within_a_procedure(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop(
        "CREATE OR REPLACE PROCEDURE test.endless() BEGIN
         DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 1; WHILE 1 DO SELECT 1 INTO @one; END WHILE; END",
    )
    .unwrap();
    set(server, "thread_concurrency", "1");
    for kind in ["CONNECTION", "HARD", "SOFT"] {
        let calls: Vec<Running> = (0..8).map(|_| Running::start(server, "CALL endless()")).collect();
        until("they take turns", || server.status_number("Flifo_queued").unwrap() >= 6);
        for call in calls {
            root.query_drop(format!("KILL {kind} {}", call.id)).unwrap();
            assert!(call.end().is_err());
        }
        empty(server);
    }
}

/// What clients do under attack. Some of it waits, some works, some holds locks.
const MIX: [&str; 12] = [
    "SELECT 1",
    "SELECT * FROM t",
    "SELECT SLEEP(0.002)",
    "UPDATE t SET k = k + 1 WHERE id = 1",
    "UPDATE t SET k = k + 1 WHERE id = 2",
    "BEGIN; UPDATE t SET k = k + 1 WHERE id = 1; UPDATE t SET k = k + 1 WHERE id = 2; COMMIT",
    "BEGIN; UPDATE t SET k = k + 1 WHERE id = 2; DO SLEEP(0.001); UPDATE t SET k = k + 1 WHERE id = 1; COMMIT",
    "SELECT BENCHMARK(20000, MD5('x'))",
    "CALL few()",
    "DO GET_LOCK('name', 1); DO SLEEP(0.001); DO RELEASE_LOCK('name')",
    "SELECT COUNT(*) FROM t a, t b WHERE a.k = b.k AND a.id < 20",
    "SELECT 1; SELECT SLEEP(0.001); SELECT no_such_column; SELECT 3",
];

fn few(server: &PrivateServer) {
    admin(server)
        .query_drop(
            "CREATE OR REPLACE PROCEDURE test.few() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 1;
             UPDATE t SET k = k + 1 WHERE id = 1; SELECT 1; INSERT INTO t VALUES (1, 1, ''); SELECT 2; END",
        )
        .unwrap();
}

fn a_thousand_at_random(server: &PrivateServer) {
    few(server);
    set(server, "thread_concurrency", "2");
    let work = |number: usize, stop: &std::sync::atomic::AtomicBool| {
        let mut random = Random::new(number as u64);
        while !stop.load(Ordering::Relaxed) {
            // Killed while it comes, too.
            let Ok(mut client) = Wire::connect(server) else { continue };
            while !stop.load(Ordering::Relaxed) && client.query(random.one_of(&MIX)).is_ok() {}
        }
    };
    let killed = crowd(24, work, || {
        let mut random = Random::new(99);
        let mut root = admin(server);
        let mut killed = 0;
        while killed < times(1000) {
            let clients: Vec<u32> =
                root.query("SELECT id FROM information_schema.processlist WHERE user = 'app'").unwrap();
            // Several of one list; some will be gone.
            for _ in 0..4.min(clients.len()) {
                let kind = random.one_of(&["QUERY", "QUERY", "CONNECTION", "SOFT QUERY", "HARD CONNECTION"]);
                let id = clients[random.below(clients.len())];
                match code(root.query_drop(format!("KILL {kind} {id}"))) {
                    0 => killed += 1,
                    1094 | 1095 => {}
                    error => panic!("KILL ended in error {error}"),
                }
            }
        }
        killed
    });
    assert!(killed >= times(1000));
}

/// The server sees that they are gone when it writes to them; their slots go to the next.
fn clients_vanish_from_the_queue(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let mut clients = Vec::new();
    for number in 0..100 {
        let mut client = Wire::connect(server).unwrap();
        if number % 2 == 0 {
            client.send_query("SELECT * FROM t").unwrap();
        } else {
            let statement = client.prepare("UPDATE t SET k = k + 1 WHERE id = 3").unwrap().unwrap();
            client.send_execute(statement, false).unwrap();
        }
        clients.push(client);
    }
    holder.until_queued(100);
    for client in clients {
        client.vanish();
    }
    drop(holder);
    empty(server);
    until("their connections are gone", || connections_of_app(server) == 0);
}

fn connections_of_app(server: &PrivateServer) -> u64 {
    let text = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'";
    admin(server).query_first(text).unwrap().unwrap()
}

fn clients_vanish_at_any_moment(server: &PrivateServer) {
    few(server);
    set(server, "thread_concurrency", "1");
    let work = |number: usize, _stop: &std::sync::atomic::AtomicBool| {
        let mut random = Random::new(number as u64);
        for _ in 0..times(40) {
            let Ok(mut client) = Wire::connect(server) else { continue };
            match random.below(7) {
                // In the middle of a packet, of its head, of a result.
                0 => drop(client.send_raw(&[50, 0, 0, 0, command::QUERY, b'S'])),
                1 => drop(client.send_raw(&[50, 0])),
                2 => {
                    client.send_query("SELECT REPEAT('x', 10000) FROM seq_1_to_1000").unwrap();
                    let _ = client.read_one();
                }
                3 => {
                    let _ = client.query("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1");
                }
                4 => {
                    // Many at once, without reading: the server reads them one by one.
                    for _ in 0..5 {
                        let _ = client.send_query(random.one_of(&MIX));
                    }
                }
                _ => {
                    let _ = client.send_query(random.one_of(&MIX));
                    std::thread::sleep(std::time::Duration::from_micros(random.below(3000) as u64));
                }
            }
            if random.below(5) == 0 { client.quit() } else { client.vanish() }
        }
    };
    crowd(16, work, || ());
    empty(server);
    until("their connections are gone", || connections_of_app(server) == 0);
}
