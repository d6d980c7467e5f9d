//! A replica applies what it gets while its only slot is in use: appliers bypass admission.

use super::support::replication::{self, until_equal};
use super::support::rest::empty;
use super::support::*;

pub(crate) fn alone() -> Alone {
    Alone {
        name: "replica",
        tests: vec![
            ("applies_while_the_slot_is_taken", || applies(0)),
            ("applies_in_parallel", || applies(4)),
        ],
    }
}

fn applies(parallel: u32) {
    let with_log = |id: u32| {
        sanitized(Options::new().plugin(Plugin::Loaded))
            .loopback()
            .set("server-id", id)
            .set("log-bin", "binlog")
            .set("binlog-format", if parallel == 0 { "STATEMENT" } else { "ROW" })
            .set("gtid-strict-mode", "ON")
            .set("slave-parallel-threads", parallel)
            .set("slave-parallel-mode", "optimistic")
            .set("slave-net-timeout", 10)
            .set("init-slave", "DO 1; DO 2")
    };
    let (primary, replica) = replication::pair(with_log);
    let mut applier = admin(&replica);

    defaults(&primary);
    defaults(&replica);
    set(&primary, "thread_concurrency", "2");
    let holder = Holder::of_the_only_slot(&replica);
    let queued: Vec<Running> = (0..50).map(|_| Running::start(&replica, "SELECT COUNT(*) FROM t")).collect();
    holder.until_queued(50);
    // Writers, whose rows are the same or not, with multi-statement transactions and definitions.
    crowd(
        8,
        |number, _| {
            let mut client = app(&primary);
            for round in 0..times(25) {
                let id = 1 + (number * round) % 10;
                run(&mut client, "BEGIN").unwrap();
                run(&mut client, &format!("UPDATE t SET k = k + 1 WHERE id = {id}")).unwrap();
                run(&mut client, "COMMIT").unwrap();
                run(&mut client, "UPDATE t SET k = k + 1 WHERE id = 20").unwrap();
                if round % 10 == number {
                    run(&mut client, &format!("CREATE OR REPLACE TABLE made_{number} (id INT)")).unwrap();
                }
            }
        },
        || (),
    );
    until_equal(&primary, &replica);
    assert!(holder.still_holds());
    drop(holder);
    for statement in queued {
        statement.end().unwrap();
    }
    // It stops, starts and applies while others are admitted one by one.
    for _ in 0..3 {
        applier.query_drop("STOP SLAVE").unwrap();
        run(&mut app(&primary), "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
        applier.query_drop("START SLAVE").unwrap();
        run(&mut app(&replica), "SELECT COUNT(*) FROM t").unwrap();
    }
    until_equal(&primary, &replica);
    for server in [&primary, &replica] {
        empty(server);
        rest::check(server);
    }
    let error: Option<(String, String)> =
        applier.query_first("SHOW GLOBAL STATUS LIKE 'Slaves_running'").unwrap();
    assert_eq!(error.map(|(_, running)| running).as_deref(), Some("1"));
}
