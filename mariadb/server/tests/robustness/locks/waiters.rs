//! Those who wait for rows: a bound on them, and their end.

use std::thread;

use super::super::support::rest::until;
use super::super::support::*;
use super::{UPDATE_1, until_row_waits};

/// With a bound on those who wait for row locks without their places newcomers get as many places as half the processors; whoever
/// holds locks gets in.
pub(super) fn bound_on_lock_waiters(server: &PrivateServer) {
    let spare = (thread::available_parallelism().unwrap().get() as u64 / 2).max(1);
    let limit = spare + 8;
    set(server, "thread_concurrency", &limit.to_string());
    set(server, "wait_mask", "ROW_LOCK");
    let mut holder = app(server);
    run(&mut holder, "BEGIN").unwrap();
    run(&mut holder, UPDATE_1).unwrap();
    let waiters: Vec<Running> = (0..4).map(|_| Running::start(server, UPDATE_1)).collect();
    let number = |name: &str| server.status_number(name).unwrap();
    until("4 wait without their places", || number("Flifo_lock_waiters") == 4 && number("Flifo_inside") == 0);
    set_number(server, "lock_waiters", 4);
    // Sleepers keep their places here.
    let sleepers: Vec<Running> = (0..limit).map(|_| Running::start(server, "SELECT SLEEP(1000)")).collect();
    until("the others queue", || number("Flifo_inside") + number("Flifo_queued") == limit);
    assert_eq!(number("Flifo_inside"), spare);
    run(&mut holder, "UPDATE t SET k = k + 1 WHERE id = 2").unwrap();
    run(&mut holder, "COMMIT").unwrap();
    for waiter in waiters {
        waiter.end().unwrap();
    }
    assert_eq!(number("Flifo_lock_waiters"), 0);
    // Nobody waits for a row any more: all get in.
    until("all are inside", || number("Flifo_inside") == limit);
    let mut root = admin(server);
    for sleeper in sleepers {
        root.query_drop(format!("KILL QUERY {}", sleeper.id)).unwrap();
        assert_eq!(code(sleeper.end()), INTERRUPTED);
    }
}

/// Who is killed changes nothing, and keeps nobody out.
pub(super) fn killed_while_waiting(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    let mut root = admin(server);
    let k = || -> i64 { admin(server).query_first("SELECT k FROM test.t WHERE id = 1").unwrap().unwrap() };
    let before = k();
    // Without the plugin as well: one that is killed when it begins may be told that it has changed no row.
    let forgets_kills: bool = root.query_first("SELECT VERSION() LIKE '11.8.%'").unwrap().unwrap();
    let mut holder = app(server);
    run(&mut holder, "BEGIN").unwrap();
    run(&mut holder, UPDATE_1).unwrap();
    let waiters: Vec<Running> = (0..10).map(|_| Running::start(server, UPDATE_1)).collect();
    until_row_waits(server, 1);
    for (number, waiter) in waiters.into_iter().enumerate() {
        let kind = if number % 2 == 0 { "QUERY" } else { "CONNECTION" };
        root.query_drop(format!("KILL {kind} {}", waiter.id)).unwrap();
        assert!(waiter.end().is_err() || (forgets_kills && kind == "QUERY"));
    }
    // And the holder, with another that waits for it.
    let waiter = Running::start(server, UPDATE_1);
    until_row_waits(server, 1);
    root.query_drop(format!("KILL {}", holder.connection_id())).unwrap();
    waiter.end().unwrap();
    assert_eq!(k(), before + 1, "the last one's alone");
}
