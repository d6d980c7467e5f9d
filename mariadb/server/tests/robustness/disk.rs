//! A buffer pool that is much too small: statements wait for the disk and hold pages that others wait for. A
//! statement that comes back from there must not queue, or the server stands within milliseconds.

use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicU64, Ordering};

use super::support::random::Random;
use super::support::rest::empty;
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject {
        name: "disk",
        options: with_plugin().buffer_pool(6 << 20),
        tests: vec![("more_data_than_memory", more_data_than_memory)],
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
    let before = server.status_number("Flifo_wait_disk_us").unwrap();
    for (limit, policy, io_depth) in
        [("2", "quantum", 64), ("1", "flifo", 1), ("4", "fifo", 2), ("auto", "quantum", 0)]
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
    assert!(server.status_number("Flifo_wait_disk_us").unwrap() > before, "nobody waited for the disk");
}
