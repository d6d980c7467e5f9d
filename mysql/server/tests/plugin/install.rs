//! The plugin comes and goes.

use std::sync::atomic::{AtomicBool, Ordering};

use flifo_mysql::mysql::prelude::Queryable;
use flifo_mysql::{Error, PrivateServer, mysql};

use super::support::{
    Holder, REFUSED, Running, Test, app, code, crowd, ensure_plugin, execute, is_at_rest, rest, run, set,
    times, until,
};

pub(crate) const TESTS: &[Test] = &[
    ("comes_and_goes", comes_and_goes),
    ("comes_while_transactions_are_open", comes_while_transactions_are_open),
    ("comes_while_a_procedure_runs", comes_while_a_procedure_runs),
    ("goes_while_many_queue", goes_while_many_queue),
    ("goes_while_statements_wait", goes_while_statements_wait),
    ("settings_change_under_load", settings_change_under_load),
    ("comes_and_goes_under_load", comes_and_goes_under_load),
];

const UNINSTALL: &str = "UNINSTALL PLUGIN flifo";
/// INSTALL while connections still use the plugin that was removed.
const EXISTS: u16 = 1125;

fn comes_and_goes(server: &PrivateServer) {
    server.administer(UNINSTALL).unwrap();
    until("it is gone", || {
        let text = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'flifo'";
        server.connect("root").unwrap().query_first::<u64, _>(text).unwrap() == Some(0)
    });
    assert!(matches!(server.status("Flifo_running"), Err(Error::NoStatus(_))));
    run(&mut app(server), "SELECT * FROM t").unwrap();
    server.install_plugin().unwrap();
    assert_eq!(server.status("Flifo_level").unwrap(), "statements and waits");
    // Connections from before are admitted, too, after UNINSTALL as well, until they close.
    let mut client = app(server);
    run(&mut client, "SELECT * FROM t").unwrap();
    server.administer(UNINSTALL).unwrap();
    run(&mut client, "SELECT * FROM t").unwrap();
    assert!(is_refused_install(server), "INSTALL while a connection uses the removed plugin");
    drop(client);
    install_again(server);
}

fn is_refused_install(server: &PrivateServer) -> bool {
    match server.install_plugin() {
        Ok(()) => false,
        Err(Error::Sql(mysql::Error::MySqlError(error))) if error.code == EXISTS => true,
        Err(error) => panic!("INSTALL: {error}"),
    }
}

fn install_again(server: &PrivateServer) {
    until("it is installed again", || !is_refused_install(server));
}

/// Removed, with all connections that used it.
#[track_caller]
fn remove(server: &PrivateServer) {
    server.administer(UNINSTALL).unwrap();
    until("it is gone", || {
        let text = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'flifo'";
        server.connect("root").unwrap().query_first::<u64, _>(text).unwrap() == Some(0)
    });
}

/// Their sessions may hold locks, and are not refused.
fn comes_while_transactions_are_open(server: &PrivateServer) {
    remove(server);
    let mut owners: Vec<_> = [
        "BEGIN; UPDATE t SET k = 1 WHERE id = 1",
        "SET autocommit = 0; UPDATE t SET k = 1 WHERE id = 2",
        "XA START 'before'; UPDATE t SET k = 1 WHERE id = 3",
        "LOCK TABLES loaded READ",
    ]
    .into_iter()
    .map(|begin| {
        let mut owner = app(server);
        run(&mut owner, begin).unwrap();
        owner
    })
    .collect();
    ensure_plugin(server);
    // Not a holder that loads: the table is locked.
    let busy = Running::start(server, "SELECT BENCHMARK(1000000000000, SHA2(RAND(), 256))");
    until("it runs", || server.status_number("Flifo_running").unwrap() == 1);
    set(server, "queue_timeout", 50);
    assert_eq!(code(run(&mut app(server), "SELECT * FROM t")), REFUSED);
    for (owner, work) in owners.iter_mut().zip([
        "UPDATE t SET k = 2 WHERE id = 1",
        "UPDATE t SET k = 2 WHERE id = 2",
        "UPDATE t SET k = 2 WHERE id = 3",
        "SELECT * FROM loaded",
    ]) {
        assert_eq!(code(run(owner, work)), 0, "{work}");
    }
    for (owner, free) in
        owners.iter_mut().zip(["COMMIT", "COMMIT", "XA END 'before'; XA ROLLBACK 'before'", "UNLOCK TABLES"])
    {
        assert_eq!(code(run(owner, free)), 0, "{free}");
    }
    set(server, "queue_timeout", 0);
    drop(owners);
    server.administer(&format!("KILL QUERY {}", busy.id)).unwrap();
    let _ = busy.end();
}

/// Its begin was not seen; its statements are. When it ends, no slot is out.
fn comes_while_a_procedure_runs(server: &PrivateServer) {
    remove(server);
    for statement in [
        "DROP PROCEDURE IF EXISTS test.runs_for_a_while",
        "CREATE PROCEDURE test.runs_for_a_while() BEGIN
         DECLARE n INT; SET @end = NOW(6) + INTERVAL 1 SECOND;
         WHILE NOW(6) < @end DO UPDATE test.t SET k = k + 1 WHERE id = 1; SELECT COUNT(*) INTO n FROM test.t; END WHILE; END",
    ] {
        server.administer(statement).unwrap();
    }
    let mut prepared = app(server);
    let binary = std::thread::spawn(move || execute(&mut prepared, "CALL runs_for_a_while()"));
    let mut all: Vec<Running> = [
        "CALL runs_for_a_while()",
        "DO 1; CALL runs_for_a_while(); SELECT * FROM t",
        "BEGIN; CALL runs_for_a_while(); ROLLBACK",
    ]
    .into_iter()
    .map(|statement| Running::start(server, statement))
    .collect();
    std::thread::sleep(std::time::Duration::from_millis(100));
    ensure_plugin(server);
    all.push(Running::start(server, "CALL runs_for_a_while()"));
    for statement in all {
        statement.end().0.unwrap();
    }
    binary.join().unwrap().unwrap();
    until("no slot is out", || is_at_rest(server));
}

/// They stay in the queue, and are admitted: the plugin that was removed serves its connections to their ends.
fn goes_while_many_queue(server: &PrivateServer) {
    let holder = Holder::of_the_only_slot(server);
    let queued: Vec<Running> =
        (0..50).map(|_| Running::start(server, "UPDATE t SET k = k + 1 WHERE id = 1")).collect();
    holder.until_queued(50);
    server.administer(UNINSTALL).unwrap();
    assert!(is_refused_install(server));
    assert!(holder.still_holds() && queued.iter().all(|statement| !statement.is_over()));
    drop(holder);
    for statement in queued {
        statement.end().0.unwrap();
    }
    install_again(server);
}

fn goes_while_statements_wait(server: &PrivateServer) {
    let mut owner = app(server);
    run(&mut owner, "DO GET_LOCK('name', 10); BEGIN; UPDATE t SET k = 1 WHERE id = 1").unwrap();
    let waiting: Vec<Running> = [
        "SELECT SLEEP(1)",
        "DO GET_LOCK('name', 60)",
        "UPDATE t SET k = 2 WHERE id = 1",
        "SELECT SLEEP(0.5); SELECT * FROM t",
    ]
    .into_iter()
    .map(|statement| Running::start(server, statement))
    .collect();
    until("one waits for the name", || {
        let text = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_state = 'User lock'";
        server.connect("root").unwrap().query_first::<u64, _>(text).unwrap() == Some(1)
    });
    server.administer(UNINSTALL).unwrap();
    assert!(is_refused_install(server));
    run(&mut owner, "COMMIT; DO RELEASE_LOCK('name')").unwrap();
    drop(owner);
    for statement in waiting {
        statement.end().0.unwrap();
    }
    install_again(server);
}

fn settings_change_under_load(server: &PrivateServer) {
    let client = |number: usize, stop: &AtomicBool| {
        let mut client = app(server);
        while !stop.load(Ordering::Relaxed) {
            for statement in
                ["SELECT * FROM t", "BEGIN; UPDATE t SET k = k + 1 WHERE id = 1; COMMIT", "DO SLEEP(0.001)"]
            {
                // The queue may be full for a moment.
                let error = code(run(&mut client, statement));
                assert!(error == 0 || error == REFUSED, "client {number}: {statement}: {error}");
                if error != 0 {
                    run(&mut client, "ROLLBACK").unwrap();
                }
            }
        }
    };
    let mut root = server.connect("root").unwrap();
    crowd(8, client, || {
        for round in 0..times(100) {
            let at = |values: &[&'static str]| values[round % values.len()];
            for (name, value) in [
                ("thread_concurrency", at(&["1", "2", "0", "1023", "'auto'"])),
                ("policy", at(&["fifo", "none", "flifo", "quantum"])),
                ("quantum", at(&["1", "3000", "1000000"])),
                ("queue_timeout", at(&["0", "1", "1000", "86400000"])),
                ("max_queue", at(&["0", "1", "1000000"])),
                ("stall_limit", at(&["0", "1", "100"])),
                ("io_depth", at(&["0", "1", "64"])),
                ("reserve_slots", at(&["ON", "OFF"])),
            ] {
                root.query_drop(format!("SET GLOBAL flifo_{name} = {value}")).unwrap();
            }
        }
        for name in ["policy", "quantum", "queue_timeout", "max_queue", "io_depth", "reserve_slots"] {
            root.query_drop(format!("SET GLOBAL flifo_{name} = DEFAULT")).unwrap();
        }
    });
}

/// Clients that work and reconnect; the plugin that was removed ends with the last connection that it served.
fn comes_and_goes_under_load(server: &PrivateServer) {
    let client = |_: usize, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            let mut client = app(server);
            for _ in 0..5 {
                run(&mut client, "SELECT * FROM t").unwrap();
                run(&mut client, "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
                execute(&mut client, "SELECT SLEEP(0.001)").unwrap();
            }
        }
    };
    crowd(6, client, || {
        for _ in 0..times(100) {
            until("clients are admitted", || server.status_number("Flifo_admitted").unwrap() > 20);
            server.administer(UNINSTALL).unwrap();
            install_again(server);
            set(server, "thread_concurrency", 1);
        }
    });
    ensure_plugin(server);
    rest(server);
}
