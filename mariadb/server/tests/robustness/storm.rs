//! Two thousand connections come, all ask at once, and go.

use std::sync::Barrier;
use std::thread;

use super::support::random::Random;
use super::support::rest::{empty, until};
use super::support::wire::{Reply, Wire};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "storm", options: with_plugin(), tests: tests() }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("two_thousand_come_and_go", two_thousand_come_and_go),
        ("come_ask_once_and_go", come_ask_once_and_go),
    ]
}

const THREADS: usize = 8;

fn two_thousand_come_and_go(server: &PrivateServer) {
    let each = times(2000) / THREADS;
    for (round, limit) in ["4", "1", "auto"].into_iter().enumerate() {
        let together = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let together = &together;
                scope.spawn(move || {
                    let mut random = Random::new((round * THREADS + thread) as u64);
                    let mut clients: Vec<Wire> = (0..each).map(|_| Wire::connect(server).unwrap()).collect();
                    // All are here, and then the only slot is taken.
                    together.wait();
                    together.wait();
                    for client in &mut clients {
                        client
                            .send_query("UPDATE t SET k = k + 1 WHERE id = 1 + RAND() * 10; SELECT 1")
                            .unwrap();
                    }
                    for mut client in clients {
                        // Some go without waiting for the answer.
                        match random.below(4) {
                            0 => client.vanish(),
                            1 => client.quit(),
                            _ => assert_eq!(client.replies().unwrap(), [Reply::Done, Reply::Rows(1)]),
                        }
                    }
                });
            }
            together.wait();
            let holder = Holder::of_the_only_slot(server);
            together.wait();
            holder.until_queued((each * THREADS) as u64);
            set(server, "thread_concurrency", limit);
            drop(holder);
        });
        empty(server);
    }
    assert!(server.status_number("Flifo_queued_max").unwrap() >= (each * THREADS) as u64);
    until("they are gone", || server.status_number("Threads_connected").unwrap() < 10);
}

fn come_ask_once_and_go(server: &PrivateServer) {
    set(server, "thread_concurrency", "2");
    let each = times(2000) / THREADS;
    let work = |number: usize, _: &std::sync::atomic::AtomicBool| {
        let mut random = Random::new(number as u64);
        for _ in 0..each {
            let mut client = Wire::connect(server).unwrap();
            match random.below(4) {
                0 => assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]),
                1 => drop(client.query("EXECUTE nobody").unwrap()),
                2 => client.send_query("SELECT 1").unwrap(),
                // Not even once.
                _ => {}
            }
            if random.below(2) == 0 { client.quit() } else { client.vanish() }
        }
    };
    crowd(THREADS, work, || ());
    until("they are gone", || server.status_number("Threads_connected").unwrap() < 10);
}
