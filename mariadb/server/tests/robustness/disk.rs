//! A buffer pool that is much too small: statements wait for the disk and hold pages that others wait for. Whoever
//! comes back from there must not queue, or the server stands within milliseconds.

use std::thread;
use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::support::random::Random;
use super::support::rest::empty;
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject {
        name: "disk",
        options: with_plugin().buffer_pool(6 << 20),
        tests: vec![
            ("more_data_than_memory", more_data_than_memory),
            ("a_limit_that_is_lifted", a_limit_that_is_lifted),
        ],
    }
}

const KEYS: usize = 60_000;

/// Three times as much as the buffer pool holds.
fn fill(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE TABLE test.large (id INT PRIMARY KEY, k INT NOT NULL, pad CHAR(250) NOT NULL, KEY (k)) CHARSET latin1",
        &format!(
            "INSERT INTO test.large SELECT seq, seq * 7919 % {KEYS}, REPEAT('x', 250) FROM test.seq_1_to_{KEYS}"
        ),
    ] {
        root.query_drop(statement).unwrap();
    }
}

fn more_data_than_memory(server: &PrivateServer) {
    fill(server);
    let before = server.status_number("Flifo_wait_disk_count").unwrap();
    for (limit, policy, io_depth) in
        [("2", "quantum", 0), ("1", "flifo", 1), ("4", "fifo", 2), ("auto", "quantum", 0)]
    {
        set(server, "thread_concurrency", limit);
        set(server, "policy", policy);
        set_number(server, "io_depth", io_depth);
        let end = Instant::now() + Duration::from_millis(times(2000) as u64);
        let done = AtomicU64::new(0);
        crowd(
            64,
            |number, _| {
                let mut random = Random::new(number as u64);
                let mut client = app(server);
                while Instant::now() < end {
                    let id = random.below(KEYS);
                    let statement = match random.below(4) {
                        0 => format!("SELECT * FROM large WHERE id = {id}"),
                        1 => format!("SELECT SUM(LENGTH(pad)) FROM large WHERE k BETWEEN {id} AND {id} + 50"),
                        2 => format!("UPDATE large SET k = k + 1 WHERE id = {id}"),
                        _ => format!(
                            "UPDATE large SET pad = REPEAT('y', 250) WHERE id BETWEEN {id} AND {id} + 3"
                        ),
                    };
                    // Ranges of rows may be locked in opposite order.
                    assert!(matches!(code(run(&mut client, &statement)), 0 | 1213));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            },
            || (),
        );
        assert!(done.into_inner() > 0);
        empty(server);
    }
    assert!(server.status_number("Flifo_wait_disk_count").unwrap() > before, "nobody waited for the disk");
}

/// Nobody queues while most statements read from the disk, and all do again when that is over.
fn a_limit_that_is_lifted(server: &PrivateServer) {
    fill(server);
    set_number(server, "thread_concurrency", 2);
    set_number(server, "disk_bound", 10);
    let limit = || server.status_number("Flifo_thread_concurrency").unwrap();
    let comes_to = |wanted: fn(u64) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        while !wanted(limit()) {
            assert!(Instant::now() < end, "the limit is {} still", limit());
            thread::sleep(Duration::from_millis(20));
        }
    };
    let waits = || server.status_number("Flifo_wait_disk_count").unwrap();
    // What lifts it, and some more, since not every wait is one of another statement.
    let wanted_per_s = 2 * 500 * thread::available_parallelism().unwrap().get() as u64;
    let reads = AtomicBool::new(true);
    crowd(
        32,
        |number, stop| {
            let mut random = Random::new(number as u64);
            let mut client = app(server);
            while !stop.load(Ordering::Relaxed) {
                // Beyond the last there is nothing to read.
                let id = if reads.load(Ordering::Relaxed) { random.below(KEYS) } else { KEYS + 1 };
                run(&mut client, &format!("SELECT LENGTH(pad) FROM large WHERE id = {id}")).unwrap();
            }
        },
        || {
            let (before, begin) = (waits(), Instant::now());
            thread::sleep(Duration::from_secs(2));
            let per_s = (waits() - before) * 1000 / begin.elapsed().as_millis() as u64;
            if per_s < wanted_per_s {
                eprintln!("the limit is not lifted here: {per_s} reads a second, of {wanted_per_s}");
                return;
            }
            comes_to(|limit| limit > 2);
            reads.store(false, Ordering::Relaxed);
            comes_to(|limit| limit == 2);
            reads.store(true, Ordering::Relaxed);
            comes_to(|limit| limit > 2);
        },
    );
    // Also when there is no load any more.
    comes_to(|limit| limit == 2);
    empty(server);
}
