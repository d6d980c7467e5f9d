//! Commits that wait for the binary log to be synced: in a group, of which one leads; the wait callbacks report no other.
//! Nothing else admits others here: no slot is reclaimed, and no stall broken.

use super::support::rest::until;
use super::support::syncs::{Held, until_state, update, with_slow_syncs};
use super::support::*;

pub(crate) fn subject() -> Subject {
    on("binary_log", with_binary_log())
}

pub(crate) fn pool() -> Subject {
    on("binary_log_in_a_pool", in_a_pool(with_binary_log()))
}

/// The only syncs of a commit are the binary log's.
fn with_binary_log() -> Options {
    with_slow_syncs()
        .flush_log_at_commit(2)
        .set("log-bin", "binlog")
        .set("sync-binlog", 1)
        .set("server-id", 1)
}

fn on(name: &'static str, options: Options) -> Subject {
    Subject {
        name,
        options,
        tests: vec![
            ("commits_hold_no_slot", commits_hold_no_slot),
            ("commits_in_two_phases_hold_no_slot", commits_in_two_phases_hold_no_slot),
            ("waits_for_a_replica_hold_no_slot", waits_for_a_replica_hold_no_slot),
            ("a_procedure_keeps_its_slot_after_a_commit", a_procedure_keeps_its_slot_after_a_commit),
            ("a_procedure_queues_after_a_commit", a_procedure_queues_after_a_commit),
        ],
    }
}

/// Waits until all of these commit.
fn until_all_commit(server: &PrivateServer, statements: &[Running]) {
    let mut root = admin(server);
    let ids = statements.iter().map(|statement| statement.id.to_string()).collect::<Vec<_>>().join(",");
    let text = format!(
        "SELECT COUNT(*) FROM information_schema.processlist
         WHERE id IN ({ids}) AND state IN ('Commit', 'Writing to binlog', 'Waiting for semi-sync ACK from slave')"
    );
    until("all commit", || root.query_first::<usize, _>(&text).unwrap() == Some(statements.len()));
}

fn commits_hold_no_slot(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE PROCEDURE test.writes_and_commits()
            BEGIN START TRANSACTION; UPDATE t SET k = k + 1 WHERE id = 10; COMMIT; END",
        "CREATE OR REPLACE PROCEDURE test.writes_twice()
            BEGIN UPDATE t SET k = k + 1 WHERE id = 11; UPDATE t SET k = k + 1 WHERE id = 12; END",
    ] {
        root.query_drop(statement).unwrap();
    }
    set(server, "thread_concurrency", "1");
    let transactions = [["BEGIN", "1"], ["SET autocommit = 0", "2"]].map(|[begins, id]| {
        let mut client = app(server);
        for statement in [begins, &format!("UPDATE t SET k = k + 1 WHERE id = {id}")] {
            assert_eq!(code(run(&mut client, statement)), 0);
        }
        client
    });
    let held = Held::begin();
    let mut all: Vec<_> = transactions.map(|client| Running::on(client, "COMMIT")).into();
    all.extend((3..6).map(|id| update(server, id)));
    all.extend(
        [
            "DO 1; UPDATE t SET k = k + 1 WHERE id = 6",
            "EXECUTE IMMEDIATE 'UPDATE t SET k = k + 1 WHERE id = 7'",
            "CALL writes_and_commits()",
            "CALL writes_twice()",
        ]
        .map(|statement| Running::start(server, statement)),
    );
    until_all_commit(server, &all);
    assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
    assert!(all.iter().all(|one| !one.is_over()), "the syncs are held");
    drop(held);
    all.into_iter().for_each(|one| assert_eq!(code(one.end()), 0));
}

fn commits_in_two_phases_hold_no_slot(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    let prepared = |id: u32, statements: &[&str]| {
        let mut client = app(server);
        let update = format!("UPDATE t SET k = k + 1 WHERE id = {id}");
        for statement in [&format!("XA START '{id}'"), &update, &format!("XA END '{id}'")] {
            assert_eq!(code(run(&mut client, statement)), 0);
        }
        for statement in statements {
            assert_eq!(code(run(&mut client, &format!("{statement} '{id}'"))), 0);
        }
        client
    };
    let (prepares, commits) = (prepared(1, &[]), prepared(2, &["XA PREPARE"]));
    let held = Held::begin();
    let all = [Running::on(prepares, "XA PREPARE '1'"), Running::on(commits, "XA COMMIT '2'")];
    let mut root = admin(server);
    let text = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'XA %' AND user = 'app'";
    until("all commit", || root.query_first::<usize, _>(text).unwrap() == Some(all.len()));
    assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
    assert!(all.iter().all(|one| !one.is_over()), "the syncs are held");
    drop(held);
    all.into_iter().for_each(|one| assert_eq!(code(one.end()), 0));
    // Once the server knows that its client is gone.
    until("it is left behind", || code(run(&mut app(server), "XA COMMIT '1'")) == 0);
    // What the server skips is no commit.
    let other = Running::start(server, "/*!999999 XA PREPARE 'x' */ SELECT BENCHMARK(1000000000000, MD5(1))");
    until("it has a slot", || server.status_number("Flifo_running").unwrap() == 1);
    root.query_drop(format!("KILL QUERY {}", other.id)).unwrap();
    let _ = other.end();
}

/// Where the replica is waited for: behind the commit; or within it, by the group's leader.
const WAIT_POINTS: [&str; 2] = ["AFTER_COMMIT", "AFTER_SYNC"];

/// There is none, and commits wait for it up to this time, or until the wait is switched off.
fn wait_for_a_replica(server: &PrivateServer, wait_point: &str, at_most_ms: u32) {
    admin(server)
        .query_drop(format!(
            "SET GLOBAL rpl_semi_sync_master_wait_point = {wait_point},
             rpl_semi_sync_master_timeout = {at_most_ms}, rpl_semi_sync_master_enabled = ON"
        ))
        .unwrap();
}

fn wait_for_no_replica(server: &PrivateServer) {
    admin(server).query_drop("SET GLOBAL rpl_semi_sync_master_enabled = OFF").unwrap();
}

fn waits_for_a_replica_hold_no_slot(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    for wait_point in WAIT_POINTS {
        let mut client = app(server);
        for statement in ["BEGIN", "UPDATE t SET k = k + 1 WHERE id = 1"] {
            assert_eq!(code(run(&mut client, statement)), 0);
        }
        wait_for_a_replica(server, wait_point, 600_000);
        let mut all = vec![Running::on(client, "COMMIT")];
        all.extend((2..6).map(|id| update(server, id)));
        until_all_commit(server, &all);
        assert_eq!(code(run(&mut app(server), "SELECT COUNT(*) FROM t")), 0);
        assert!(all.iter().all(|one| !one.is_over()), "there is no replica");
        wait_for_no_replica(server);
        all.into_iter().for_each(|one| assert_eq!(code(one.end()), 0));
    }
}

fn a_procedure_keeps_its_slot_after_a_commit(server: &PrivateServer) {
    let (mut root, fifo) = (admin(server), Fifo::new());
    for (name, commits) in [
        ("a_statement", "UPDATE t SET k = k + 1 WHERE id = 1"),
        ("a_transaction", "START TRANSACTION; UPDATE t SET k = k + 1 WHERE id = 1; COMMIT"),
    ] {
        root.query_drop(format!(
            "CREATE OR REPLACE PROCEDURE test.commits_{name}() BEGIN {commits}; SELECT {} INTO @x; END",
            fifo.blocks()
        ))
        .unwrap();
    }
    set(server, "thread_concurrency", "2");
    let blocks_in_its_slot = || {
        for procedure in ["a_statement", "a_transaction"] {
            let call = Running::start(server, &format!("CALL commits_{procedure}()"));
            until_blocked(server, call.id);
            let running = server.status_number("Flifo_running").unwrap();
            assert_eq!(running, 1, "{procedure}: it is under way, and holds its slot");
            fifo.release_until(|| call.is_over());
            call.end().unwrap();
        }
    };
    blocks_in_its_slot();
    for wait_point in WAIT_POINTS {
        wait_for_a_replica(server, wait_point, 50);
        blocks_in_its_slot();
        wait_for_no_replica(server);
    }
}

/// Otherwise all such procedures would run at once, since each commit ends with a forced entry.
fn a_procedure_queues_after_a_commit(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop(
        "CREATE OR REPLACE PROCEDURE test.commits_and_goes_on()
            BEGIN UPDATE t SET k = k + 1 WHERE id = 1; UPDATE t SET k = k + 1 WHERE id = 2; END",
    )
    .unwrap();
    set(server, "thread_concurrency", "1");
    let held = Held::begin();
    let procedure = Running::start(server, "CALL commits_and_goes_on()");
    until_all_commit(server, std::slice::from_ref(&procedure));
    let blocked = Blocked::start(server);
    until_blocked(server, blocked.id());
    drop(held);
    until_state(server, procedure.id, "Waiting for admission");
    drop(blocked);
    assert_eq!(code(procedure.end()), 0);
}
