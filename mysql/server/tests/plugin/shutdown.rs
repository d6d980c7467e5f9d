//! The server ends while a thousand statements queue.

use std::time::Duration;

use flifo_mysql::{Installation, PrivateServer};

use super::pool::POOL;
use super::stage::Alone;
use super::support::{Holder, Wire, ensure_plugin, log_is_in_order, populate, times, wire};

pub(crate) fn alone() -> Alone {
    Alone {
        name: "shutdown",
        tests: &[
            ("by_a_signal", |installation| ends(installation, &[], false)),
            ("by_a_statement", |installation| ends(installation, &[], true)),
            ("over_a_pool_of_threads", |installation| ends(installation, POOL, false)),
        ],
    }
}

fn ends(installation: &Installation, arguments: &[&str], by_statement: bool) {
    let mut server = PrivateServer::start(installation, arguments).unwrap();
    populate(&server);
    ensure_plugin(&server);
    let holder = Holder::of_the_only_slot(&server);
    let count = times(1000);
    let clients: Vec<Wire> = (0..count)
        .map(|number| {
            let mut client = wire(&server);
            let text =
                if number % 2 == 0 { "UPDATE t SET k = k + 1 WHERE id = 1" } else { "SELECT * FROM t" };
            client.send_query(text).unwrap();
            client
        })
        .collect();
    holder.until_queued(count as u64);
    holder.end_later(Duration::from_millis(500));
    let ended = if by_statement {
        server.administer("SHUTDOWN").unwrap();
        server.wait_for_end()
    } else {
        server.shutdown()
    };
    assert!(ended, "the server did not end cleanly:\n{}", server.error_log());
    drop(clients);
    assert!(server.error_log().contains("Shutdown complete"));
    log_is_in_order(&server);
}
