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
            ("only_who_has_read_yields", only_who_has_read_yields),
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
    // One that has yielded last is counted when its client's end wakes it.
    until("they are gone", || server.status_number("Threads_connected").unwrap() <= 2);
    for (name, off, on) in [("yield", "OFF", "ON"), ("thread_concurrency", "0", "1")] {
        set(server, name, off);
        let before = yields(server);
        ask(&mut Wire::connect(server).unwrap(), 200, Duration::ZERO);
        assert_eq!(yields(server), before, "{name} = {off}");
        set(server, name, on);
    }
    empty(server);
}

/// Nor after what changes or locks rows.
fn only_who_has_read_yields(server: &PrivateServer) {
    const UPDATE: &str = "UPDATE test.t SET k = k + 1 WHERE id = 1";
    const READ: &str = "SELECT k FROM test.t WHERE id = 1";
    let mut client = Wire::connect(server).unwrap();
    let sets = ["SET autocommit = 1", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "DO 1"];
    sets.iter().for_each(|statement| query(&mut client, statement));
    for changes in [
        UPDATE.to_owned(),
        "DO 1".to_owned(),
        format!("{UPDATE}; {READ}"),
        format!("BEGIN; {UPDATE}; {READ}"),
        // Serializable.
        format!("BEGIN; {READ}"),
        format!("{READ} FOR UPDATE"),
        "XA ROLLBACK 'none'".to_owned(),
    ] {
        let [before, _] = yields(server);
        (0..100).for_each(|_| {
            client.query(&changes).unwrap();
        });
        assert_eq!(yields(server)[0], before, "{changes}");
        query(&mut client, "ROLLBACK");
        // After this it does not yield, either.
        query(&mut client, "DO 1");
    }
    query(&mut client, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    ["BEGIN", UPDATE].iter().for_each(|statement| query(&mut client, statement));
    let [before, _] = yields(server);
    (0..100).for_each(|_| query(&mut client, READ));
    query(&mut client, "ROLLBACK");
    assert_eq!(yields(server)[0], before, "it holds locks");
    for reads in [READ.to_owned(), format!("BEGIN; {READ}; COMMIT")] {
        let [before, _] = yields(server);
        until("it yields", || {
            query(&mut client, &reads);
            yields(server)[0] > before + 5
        });
    }
    // What was prepared tells, not what was run as text before.
    for (text, prepared, reads) in [(READ, UPDATE, false), (UPDATE, READ, true)] {
        let statement = client.prepare(prepared).unwrap().unwrap();
        query(&mut client, text);
        let mut execute = || {
            client.send_execute(statement, false).unwrap();
            client.replies().unwrap();
        };
        execute();
        let [before, _] = yields(server);
        if reads {
            until("it yields", || {
                execute();
                yields(server)[0] > before + 5
            });
        } else {
            (0..100).for_each(|_| execute());
            assert_eq!(yields(server)[0], before, "{prepared}");
        }
    }
}

fn query(client: &mut Wire, statement: &str) {
    let replies = client.query(statement).unwrap();
    assert!(!replies.iter().any(|reply| matches!(reply, Reply::Error(..))), "{statement}: {replies:?}");
}

fn who_thinks_yields_seldom(server: &PrivateServer) {
    let mut client = Wire::connect(server).unwrap();
    // After one in vain one is left out, then three, seven, ...: before the 1st, 3rd, 7th, 15th, 31st and 63rd.
    let [made, in_vain] = yields(server);
    ask(&mut client, 100, Duration::from_millis(20));
    let [made, in_vain] = [yields(server)[0] - made, yields(server)[1] - in_vain];
    assert!(in_vain >= 3, "{made}, {in_vain}");
    // Who was kept from a processor for as long as it thinks begins again.
    assert!(made < 50, "{made}, {in_vain}");
}
