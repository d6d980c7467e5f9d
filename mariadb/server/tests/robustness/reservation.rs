//! Slots reserved for connections whose next statement does not come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::support::random::Random;
use super::support::rest::empty;
use super::support::wire::{Reply, Wire};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "reservation", options: with_plugin(), tests: tests() }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("switched_under_load", switched_under_load),
        ("clients_that_do_not_come_back", clients_that_do_not_come_back),
    ]
}

/// Enough for the one slot to be reserved although some clients are on their way.
const CLIENTS: usize = 48;

fn select_in_a_loop(server: &PrivateServer, stop: &AtomicBool) {
    let mut client = Wire::connect(server).unwrap();
    while !stop.load(Ordering::Relaxed) {
        assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]);
    }
}

fn switched_under_load(server: &PrivateServer) {
    set_number(server, "thread_concurrency", 1);
    crowd(
        CLIENTS,
        |_, stop| select_in_a_loop(server, stop),
        || {
            for _ in 0..3 {
                for value in ["ON", "OFF"] {
                    set(server, "reserve_slots", value);
                    thread::sleep(Duration::from_millis(200));
                }
            }
            set(server, "reserve_slots", "ON");
        },
    );
    empty(server);
}

/// They vanish, are killed, or think, at a moment when a slot may be reserved for them; the others get it then.
fn clients_that_do_not_come_back(server: &PrivateServer) {
    set_number(server, "thread_concurrency", 1);
    set(server, "reserve_slots", "ON");
    crowd(
        2 * CLIENTS,
        |number, stop| {
            // These are the queue.
            if number < CLIENTS {
                return select_in_a_loop(server, stop);
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
        || thread::sleep(Duration::from_millis(times(5000) as u64)),
    );
    empty(server);
}
