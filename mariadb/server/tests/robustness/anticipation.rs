//! Places that wait for their connections' next statements, which do not come; and turns within transactions.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::support::random::Random;
use super::support::rest::{empty, until};
use super::support::wire::{Reply, Wire};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "anticipation", options: with_plugin(), tests: tests() }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("it_is_switched_off_and_on", it_is_switched_off_and_on),
        ("clients_that_do_not_come_back", clients_that_do_not_come_back),
        ("a_transaction_goes_on_with_its_turn", a_transaction_goes_on_with_its_turn),
    ]
}

/// Enough for the one place to wait although some are on their way.
const CLIENTS: usize = 48;

fn anticipated(server: &PrivateServer) -> u64 {
    server.status_number("Flifo_anticipated").unwrap()
}

fn asks_on(server: &PrivateServer, stop: &AtomicBool) {
    let mut client = Wire::connect(server).unwrap();
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
    }
}

fn it_is_switched_off_and_on(server: &PrivateServer) {
    set_number(server, "thread_concurrency", 1);
    crowd(
        CLIENTS,
        |_, stop| asks_on(server, stop),
        || {
            for _ in 0..3 {
                let before = anticipated(server);
                until("places wait", || anticipated(server) > before);
                set(server, "anticipate", "OFF");
                let before = anticipated(server);
                thread::sleep(Duration::from_millis(300));
                // One was away at that moment.
                assert!(anticipated(server) <= before + 1, "it is off");
                set(server, "anticipate", "ON");
            }
        },
    );
    empty(server);
}

/// They vanish, are killed, or think, at a moment when their place may wait for them; the others have it then.
fn clients_that_do_not_come_back(server: &PrivateServer) {
    set_number(server, "thread_concurrency", 1);
    let before = anticipated(server);
    crowd(
        2 * CLIENTS,
        |number, stop| {
            // These are the queue.
            if number < CLIENTS {
                return asks_on(server, stop);
            }
            let mut random = Random::new(number as u64);
            let mut root = admin(server);
            while !stop.load(Ordering::Relaxed) {
                let mut client = Wire::connect(server).unwrap();
                for _ in 0..1 + random.below(200) {
                    assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
                }
                match random.below(4) {
                    0 => client.vanish(),
                    1 => client.quit(),
                    2 => run(&mut root, &format!("KILL CONNECTION {}", client.id)).unwrap(),
                    _ => {
                        thread::sleep(Duration::from_millis(50));
                        assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
                        client.quit();
                    }
                }
            }
        },
        || {
            thread::sleep(Duration::from_millis(times(5000) as u64));
            until("places wait", || anticipated(server) > before);
        },
    );
    empty(server);
}

/// Its turn is a second long, and it is back later: it goes before another that queues if its transaction is not over.
fn a_transaction_goes_on_with_its_turn(server: &PrivateServer) {
    let runs = || Running::start(server, "SELECT BENCHMARK(1000000000000, MD5(1))");
    let end = |running: Running| {
        run(&mut admin(server), &format!("KILL QUERY {}", running.id)).unwrap();
        // It may answer as if nothing had been.
        assert!([0, INTERRUPTED].contains(&code(running.end())));
    };
    let until_number = |name: &str, number: u64| {
        until(&format!("{name} is {number}"), || server.status_number(name).unwrap() == number);
    };
    set_number(server, "thread_concurrency", 2);
    set_number(server, "quantum", 1_000_000);
    for (before, begins, first) in [
        ("DO 1", "DO 1", "other"),
        ("DO 1", "BEGIN", "own"),
        ("SET autocommit = 0", "SELECT 1", "own"),
        ("SET autocommit = 0", "ROLLBACK", "other"),
    ] {
        let mut root = admin(server);
        run(&mut root, "CREATE TABLE test.came (id INT AUTO_INCREMENT PRIMARY KEY, who CHAR(8))").unwrap();
        let mut client = Wire::connect(server).unwrap();
        client.query(before).unwrap();
        let (one, two) = (runs(), runs());
        until_number("Flifo_inside", 2);
        client.send_query(begins).unwrap();
        until_number("Flifo_queued", 1);
        end(one);
        client.replies().unwrap();
        let three = runs();
        until_number("Flifo_inside", 2);
        let other = Running::start(server, "INSERT INTO test.came (who) VALUES ('other')");
        until_number("Flifo_queued", 1);
        thread::sleep(Duration::from_millis(1100));
        client.send_query("INSERT INTO test.came (who) VALUES ('own')").unwrap();
        until_number("Flifo_queued", 2);
        end(two);
        client.replies().unwrap();
        other.end().unwrap();
        client.query("COMMIT").unwrap();
        end(three);
        let who: Option<String> = root.query_first("SELECT who FROM test.came ORDER BY id").unwrap();
        assert_eq!(who.as_deref(), Some(first));
        run(&mut root, "DROP TABLE test.came").unwrap();
    }
    empty(server);
}
