//! Statements that are killed while they wait for rows.

use super::super::support::*;
use super::{UPDATE_1, until_row_waits};

/// A killed waiter changes nothing, and keeps no other out.
pub(super) fn killed_while_waiting(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    let mut root = admin(server);
    let k = || -> i64 { admin(server).query_first("SELECT k FROM test.t WHERE id = 1").unwrap().unwrap() };
    let before = k();
    // Without the plugin as well: a statement killed at its begin may report that it has changed no row.
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
