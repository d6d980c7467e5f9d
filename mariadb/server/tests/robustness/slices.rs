//! Time slices within transactions.

use std::thread;
use std::time::Duration;

use super::support::rest::{empty, until};
use super::support::wire::Wire;
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "slices", options: with_plugin(), tests: tests() }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![("a_transaction_keeps_its_slice", a_transaction_keeps_its_slice)]
}

/// Its time slice is a second long, and it is back later: it goes before another that queues if its transaction is not over.
fn a_transaction_keeps_its_slice(server: &PrivateServer) {
    let runs = || Running::start(server, "SELECT BENCHMARK(1000000000000, MD5(1))");
    let end = |running: Running| {
        run(&mut admin(server), &format!("KILL QUERY {}", running.id)).unwrap();
        // It may answer as if nothing had been.
        assert!([0, INTERRUPTED].contains(&code(running.end())));
    };
    let until_number = |name: &str, number: u64| {
        until(&format!("{name} is {number}"), || server.status_number(name).unwrap() == number);
    };
    set_number(server, "thread_concurrency", 2);
    set_number(server, "quantum", 1_000_000);
    for (before, begins, first) in [
        ("DO 1", "DO 1", "other"),
        ("DO 1", "BEGIN", "own"),
        ("SET autocommit = 0", "SELECT 1", "own"),
        ("SET autocommit = 0", "SELECT 1; ROLLBACK", "other"),
    ] {
        let mut root = admin(server);
        run(&mut root, "CREATE TABLE test.came (id INT AUTO_INCREMENT PRIMARY KEY, who CHAR(8))").unwrap();
        let mut client = Wire::connect(server).unwrap();
        client.query(before).unwrap();
        let (one, two) = (runs(), runs());
        until_number("Flifo_running", 2);
        client.send_query(begins).unwrap();
        until_number("Flifo_queued", 1);
        end(one);
        client.replies().unwrap();
        let three = runs();
        until_number("Flifo_running", 2);
        let other = Running::start(server, "INSERT INTO test.came (who) VALUES ('other')");
        until_number("Flifo_queued", 1);
        thread::sleep(Duration::from_millis(1100));
        client.send_query("INSERT INTO test.came (who) VALUES ('own')").unwrap();
        until_number("Flifo_queued", 2);
        end(two);
        client.replies().unwrap();
        other.end().unwrap();
        client.query("COMMIT").unwrap();
        end(three);
        let who: Option<String> = root.query_first("SELECT who FROM test.came ORDER BY id").unwrap();
        assert_eq!(who.as_deref(), Some(first));
        run(&mut root, "DROP TABLE test.came").unwrap();
    }
    empty(server);
}
