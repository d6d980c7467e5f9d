//! The server ends while a thousand statements queue.

use std::time::Duration;

use super::support::rest::wrong_lines;
use super::support::wire::Wire;
use super::support::*;

/// Each has a server of its own, which it ends.
pub(crate) fn alone() -> Alone {
    Alone {
        name: "shutdown",
        tests: vec![
            ("by_a_signal", || ends(with_plugin(), false)),
            ("by_a_statement", || ends(with_plugin(), true)),
            ("with_the_pool_of_threads", || ends(in_a_pool(with_plugin()), false)),
        ],
    }
}

/// The server ends each connection, and waits for its thread for a while.
const IN_TIME: Duration = Duration::from_secs(120);

fn ends(options: Options, by_statement: bool) {
    let mut server = PrivateServer::start(options).unwrap();
    rest::is_current(&server);
    populate(&server);
    defaults(&server);
    let holder = Holder::of_the_only_slot(&server);
    let clients: Vec<Wire> = (0..times(1000))
        .map(|number| {
            let mut client = Wire::connect(&server).unwrap();
            let _ = client.send_query(if number % 2 == 0 {
                "UPDATE t SET k = k + 1 WHERE id = 1"
            } else {
                "SELECT * FROM t"
            });
            client
        })
        .collect();
    holder.until_queued(times(1000) as u64);
    holder.end_in_shutdown();
    if by_statement {
        admin(&server).query_drop("SHUTDOWN").unwrap();
    }
    let ended = if by_statement { server.wait_for_end(IN_TIME) } else { Some(server.shutdown(IN_TIME)) };
    assert_eq!(ended, Some(Ended::Itself(0)), "{}", rest::describe_log(&server.error_log()));
    drop(clients);
    let log = server.error_log();
    assert!(log.contains("Shutdown complete"));
    let wrong = wrong_lines(&log);
    assert!(wrong.is_empty(), "the server's error log:\n{}", wrong.join("\n"));
}
