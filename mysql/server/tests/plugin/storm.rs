//! A thousand connections come, all ask at once, and go.

use std::sync::Barrier;
use std::thread;

use flifo_mysql::PrivateServer;

use super::support::{Holder, Reply, Test, Wire, crowd, is_at_rest, set, times, until, wire};

pub(crate) const TESTS: &[Test] =
    &[("a_thousand_come_and_go", a_thousand_come_and_go), ("come_ask_once_and_go", come_ask_once_and_go)];

const THREADS: usize = 8;

fn connected(server: &PrivateServer) -> u64 {
    server.status_number("Threads_connected").unwrap()
}

fn a_thousand_come_and_go(server: &PrivateServer) {
    let each = times(1000) / THREADS;
    for limit in [4, 1] {
        let together = Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let together = &together;
                scope.spawn(move || {
                    let mut clients: Vec<Wire> = (0..each).map(|_| wire(server)).collect();
                    // All are here, and then the only slot is taken.
                    together.wait();
                    together.wait();
                    for client in &mut clients {
                        client
                            .send_query("UPDATE t SET k = k + 1 WHERE id = 1 + RAND() * 3; SELECT 1")
                            .unwrap();
                    }
                    for (number, mut client) in clients.into_iter().enumerate() {
                        // Some go without waiting for the answer.
                        match number % 4 {
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
        until("no slot is out", || is_at_rest(server));
    }
    assert!(server.status_number("Flifo_queued_max").unwrap() >= (each * THREADS) as u64);
    until("they are gone", || connected(server) < 10);
}

fn come_ask_once_and_go(server: &PrivateServer) {
    set(server, "thread_concurrency", 2);
    let work = |_: usize, _: &std::sync::atomic::AtomicBool| {
        for number in 0..times(800) / THREADS {
            let mut client = wire(server);
            match number % 4 {
                0 => assert_eq!(client.query("SELECT 1").unwrap(), [Reply::Rows(1)]),
                1 => drop(client.query("EXECUTE no_such_statement").unwrap()),
                2 => client.send_query("SELECT * FROM t").unwrap(),
                // Not even once.
                _ => {}
            }
            if number % 3 == 0 { client.quit() } else { client.vanish() }
        }
    };
    crowd(THREADS, work, || ());
    until("they are gone", || connected(server) < 10);
}
