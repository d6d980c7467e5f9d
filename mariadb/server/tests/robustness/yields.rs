//! Connections that yield before they sleep until their clients' next statements.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::support::rest::{empty, until};
use super::support::wire::{Reply, Wire};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject {
        name: "yields",
        options: with_plugin(),
        tests: vec![
            ("who_comes_back_at_once_yields", who_comes_back_at_once_yields),
            ("who_changes_rows_does_not_yield", who_changes_rows_does_not_yield),
            ("who_thinks_yields_seldom", who_thinks_yields_seldom),
        ],
    }
}

/// How often connections have yielded, and how often in vain.
fn yields(server: &PrivateServer) -> [u64; 2] {
    ["Flifo_yields", "Flifo_yields_in_vain"].map(|name| server.status_number(name).unwrap())
}

fn ask(client: &mut Wire, times: usize, pause: Duration) {
    for _ in 0..times {
        assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
        thread::sleep(pause);
    }
}

/// So often this is run, by a client of its own that comes back at once; by how much the counts have grown meanwhile.
fn grow_by(server: &PrivateServer, times: usize, statement: &str) -> u64 {
    let mut client = Wire::connect(server).unwrap();
    client.query("USE test").unwrap();
    client.query("SET autocommit = 1").unwrap();
    let [before, _] = yields(server);
    for _ in 0..times {
        client.query(statement).unwrap();
    }
    yields(server)[0] - before
}

/// Also where few do; but not where that is switched off, or the plugin is.
fn who_comes_back_at_once_yields(server: &PrivateServer) {
    let asks_on = |_, stop: &AtomicBool| {
        let mut client = Wire::connect(server).unwrap();
        while !stop.load(Ordering::Relaxed) {
            ask(&mut client, 1, Duration::ZERO);
        }
    };
    crowd(8, asks_on, || {
        let [before, _] = yields(server);
        until("they yield", || yields(server)[0] >= before + 1000);
    });
    for (name, off, on) in [("yield", "OFF", "ON"), ("thread_concurrency", "0", "1")] {
        set(server, name, off);
        let before = yields(server);
        ask(&mut Wire::connect(server).unwrap(), 200, Duration::ZERO);
        assert_eq!(yields(server), before, "{name} = {off}");
        set(server, name, on);
    }
    empty(server);
}

/// Nor where rows are locked; what was changed is purged by threads that do not yield.
fn who_changes_rows_does_not_yield(server: &PrivateServer) {
    for statement in
        ["UPDATE t SET k = k + 1 WHERE id = 1", "DO 1", "BEGIN; UPDATE t SET k = 1 WHERE id = 1; SELECT 1"]
    {
        // The counts are asked for by others, which read.
        let grown = grow_by(server, 300, statement);
        assert!(grown <= 10, "{statement}: {grown}");
    }
    let grown = grow_by(server, 300, "BEGIN; SELECT k FROM t WHERE id = 1; COMMIT");
    assert!(grown >= 5, "{grown}");
}

fn who_thinks_yields_seldom(server: &PrivateServer) {
    let mut client = Wire::connect(server).unwrap();
    // Twice as seldom each time: at 0, 2, 6, 14, 30, 62, 126 and 190.
    let [made, in_vain] = yields(server);
    ask(&mut client, 200, Duration::from_millis(5));
    let [made, in_vain] = [yields(server)[0] - made, yields(server)[1] - in_vain];
    assert!(in_vain >= 3, "{made}, {in_vain}");
    // Among them those of the clients that have asked for the counts, and of who was kept from a processor for as long as it thinks.
    assert!(made < 100, "{made}, {in_vain}");
}
