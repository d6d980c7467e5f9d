//! Places that wait for their connections' next statements, which do not come.

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
