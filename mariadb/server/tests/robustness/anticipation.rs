//! Places that wait for their connections' next statements, which do not come.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

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
const CLIENTS: usize = 24;

fn anticipated(server: &PrivateServer) -> u64 {
    server.status_number("Flifo_anticipated").unwrap()
}

fn it_is_switched_off_and_on(server: &PrivateServer) {
    set_number(server, "thread_concurrency", 1);
    crowd(
        CLIENTS,
        |_, stop| {
            let mut client = Wire::connect(server).unwrap();
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
            }
        },
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

/// They vanish, are killed, or think, at a moment when their place may wait for them; the others have it soon.
fn clients_that_do_not_come_back(server: &PrivateServer) {
    set_number(server, "thread_concurrency", 1);
    let before = anticipated(server);
    let done = AtomicU64::new(0);
    let end = Instant::now() + Duration::from_millis(times(5000) as u64);
    crowd(
        CLIENTS,
        |number, _| {
            let mut random = Random::new(number as u64);
            let mut root = admin(server);
            while Instant::now() < end {
                let mut client = Wire::connect(server).unwrap();
                for _ in 0..1 + random.below(200) {
                    assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                match random.below(4) {
                    0 => client.vanish(),
                    1 => client.quit(),
                    2 => {
                        run(&mut root, &format!("KILL CONNECTION {}", client.id)).unwrap();
                    }
                    _ => {
                        thread::sleep(Duration::from_millis(50));
                        assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
                        client.quit();
                    }
                }
            }
        },
        || (),
    );
    assert!(anticipated(server) > before, "no place waited");
    assert!(done.into_inner() > 0);
    empty(server);
}
