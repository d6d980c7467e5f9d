//! Replication: appliers never wait for the slots of clients, and commits that wait for a replica or a group hold none.

use std::sync::atomic::AtomicBool;

use flifo_mysql::{Installation, PrivateServer};

use super::stage::Alone;
use super::support::{
    Holder, Queryable, REFUSED, Running, app, code, crowd, end, ensure_plugin, populate, rest, run, set,
    times, until,
};

pub(crate) fn alone() -> Alone {
    Alone {
        name: "replica",
        tests: &[
            ("applies_while_the_slot_is_taken", applies_while_the_slot_is_taken),
            ("a_source_waits_for_a_replica_without_a_slot", a_source_waits_for_a_replica_without_a_slot),
            ("a_member_of_a_group", a_member_of_a_group),
        ],
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// With a binary log, a port on the loopback, and the plugin from the start.
fn start(installation: &Installation, id: u32, port: u16, further: &[&str]) -> PrivateServer {
    let (id, port) = (format!("--server-id={id}"), format!("--port={port}"));
    let mut arguments = vec![
        "--plugin-load-add=flifo.so",
        "--skip-networking=OFF",
        "--bind-address=127.0.0.1",
        "--gtid-mode=ON",
        "--enforce-gtid-consistency=ON",
        &id,
        &port,
    ];
    arguments.extend(further);
    PrivateServer::start(installation, &arguments).unwrap()
}

/// Waits until the replica has executed all that the source has, and nothing is under way.
#[track_caller]
fn until_equal(source: &PrivateServer, replica: &PrivateServer) {
    let executed: Option<String> =
        source.connect("root").unwrap().query_first("SELECT @@GLOBAL.gtid_executed").unwrap();
    let text = format!(
        "SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', 50)",
        executed.unwrap_or_default().replace('\n', "")
    );
    let is_timeout: Option<u32> = replica.connect("root").unwrap().query_first(text).unwrap();
    assert_eq!(is_timeout, Some(0), "the replica does not catch up");
    let sum = |server: &PrivateServer| -> Option<i64> {
        let text = "SELECT SUM(k) + COUNT(*) FROM test.t";
        server.connect("root").unwrap().query_first(text).unwrap()
    };
    assert_eq!(sum(replica), sum(source));
}

/// Parallel appliers, while the replica's only slot is taken, its queue is full, and clients work on the source.
fn applies_while_the_slot_is_taken(installation: &Installation) {
    let port = free_port();
    let source = start(installation, 1, port, &[]);
    let replica =
        start(installation, 2, free_port(), &["--replica-parallel-workers=4", "--init-replica=DO 1; DO 2"]);
    for statement in [
        "CREATE USER repl@'127.0.0.1' IDENTIFIED BY 'secret'",
        "GRANT REPLICATION SLAVE ON *.* TO repl@'127.0.0.1'",
    ] {
        source.administer(statement).unwrap();
    }
    for statement in [
        &format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, SOURCE_USER = 'repl',
             SOURCE_PASSWORD = 'secret', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1"
        ),
        "START REPLICA",
    ] {
        replica.administer(statement).unwrap();
    }
    populate(&source);
    until_equal(&source, &replica);
    ensure_plugin(&source);
    ensure_plugin(&replica);
    set(&source, "thread_concurrency", 2);
    // A holder writes, and so does its replica's: into a table that no other statement uses.
    let holder = Holder::of_the_only_slot(&replica);
    let queued: Vec<Running> = (0..20).map(|_| Running::start(&replica, "SELECT COUNT(*) FROM t")).collect();
    holder.until_queued(20);
    set(&replica, "max_queue", 20);
    let client = |number: usize, _: &AtomicBool| {
        let mut client = app(&source);
        for round in 0..times(25) {
            let id = 1 + (number * round) % 3;
            run(&mut client, "BEGIN").unwrap();
            run(&mut client, &format!("UPDATE t SET k = k + 1 WHERE id = {id}")).unwrap();
            run(&mut client, "COMMIT").unwrap();
            run(&mut client, "UPDATE t SET k = k + 1 WHERE id = 2").unwrap();
            if round % 10 == number {
                run(&mut client, &format!("CREATE TABLE made_{number}_{round} (id INT)")).unwrap();
                run(&mut client, &format!("DROP TABLE made_{number}_{round}")).unwrap();
            }
        }
    };
    crowd(8, client, || ());
    until_equal(&source, &replica);
    assert!(holder.still_holds());
    // The replica connects anew to a source whose queue is full.
    let busy = Holder::of_the_only_slot(&source);
    let waiting = Running::start(&source, "SELECT COUNT(*) FROM t");
    busy.until_queued(1);
    set(&source, "max_queue", 1);
    assert_eq!(code(run(&mut app(&source), "SELECT COUNT(*) FROM t")), REFUSED);
    for statement in ["STOP REPLICA", "START REPLICA"] {
        replica.administer(statement).unwrap();
    }
    source.administer("UPDATE test.t SET k = k + 1 WHERE id = 3").unwrap();
    until_equal(&source, &replica);
    assert!(busy.still_holds() && !waiting.is_over() && holder.still_holds());
    drop(busy);
    waiting.end().0.unwrap();
    drop(holder);
    for statement in queued {
        statement.end().0.unwrap();
    }
    // The replica's threads keep the plugin, here and on the source, until they start anew.
    for (name, server) in [("replica", &replica), ("source", &source)] {
        set(server, "max_queue", 0);
        rest(server);
        server.administer("UNINSTALL PLUGIN flifo").unwrap();
        assert!(server.install_plugin().is_err(), "the replica's threads have used the plugin of the {name}");
        for statement in ["STOP REPLICA", "START REPLICA"] {
            replica.administer(statement).unwrap();
        }
        until(&format!("it is gone from the {name}"), || server.install_plugin().is_ok());
    }
    source.administer("UPDATE test.t SET k = k + 1 WHERE id = 1").unwrap();
    until_equal(&source, &replica);
    end(replica);
    end(source);
}

/// There is no replica, and semi-synchronous commits wait for one.
fn a_source_waits_for_a_replica_without_a_slot(installation: &Installation) {
    let server = start(installation, 1, free_port(), &["--plugin-load-add=semisync_source.so"]);
    populate(&server);
    ensure_plugin(&server);
    for wait_point in ["AFTER_SYNC", "AFTER_COMMIT"] {
        let mut transaction = app(&server);
        run(&mut transaction, "BEGIN; UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
        server
            .administer(&format!(
                "SET GLOBAL rpl_semi_sync_source_wait_point = {wait_point}, GLOBAL rpl_semi_sync_source_timeout = 600000,
                 GLOBAL rpl_semi_sync_source_enabled = ON"
            ))
            .unwrap();
        let mut all = vec![Running::on(transaction, "COMMIT")];
        all.push(Running::start(&server, "UPDATE t SET k = k + 1 WHERE id = 2"));
        all.push(Running::start(&server, "UPDATE t SET k = k + 1 WHERE id = 3"));
        let mut root = server.connect("root").unwrap();
        until("one waits for the replica", || {
            let text = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_state LIKE 'Waiting for semi-sync ACK%'";
            root.query_first::<u64, _>(text).unwrap() >= Some(1)
        });
        run(&mut app(&server), "SELECT COUNT(*) FROM t").unwrap();
        assert!(all.iter().all(|statement| !statement.is_over()), "there is no replica");
        root.query_drop("SET GLOBAL rpl_semi_sync_source_enabled = OFF").unwrap();
        for statement in all {
            statement.end().0.unwrap();
        }
    }
    rest(&server);
    end(server);
}

/// A group of one member, whose commits the group certifies.
fn a_member_of_a_group(installation: &Installation) {
    if std::env::var_os("FLIFO_SANITIZER").is_some() {
        // The sanitizer intercepts the C library's XDR functions, which group replication takes from another library.
        eprintln!("skipped: group replication does not run with AddressSanitizer");
        return;
    }
    let (port, group_port) = (free_port(), free_port());
    let address = format!("--group-replication-local-address=127.0.0.1:{group_port}");
    let server = start(
        installation,
        1,
        port,
        &[
            "--plugin-load-add=group_replication.so",
            "--group-replication-group-name=aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
            "--group-replication-start-on-boot=OFF",
            "--group-replication-communication-stack=XCOM",
            &address,
        ],
    );
    populate(&server);
    for statement in [
        // The group takes no table without a primary key.
        "DROP TABLE test.loaded",
        "CREATE TABLE test.loaded (line INT PRIMARY KEY)",
        "SET GLOBAL group_replication_bootstrap_group = ON",
        "START GROUP_REPLICATION",
        "SET GLOBAL group_replication_bootstrap_group = OFF",
    ] {
        if let Err(error) = server.administer(statement) {
            panic!("{statement}: {error}; the server's log:\n{}", server.error_log());
        }
    }
    let mut root = server.connect("root").unwrap();
    until("the member is online", || {
        let text =
            "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE member_state = 'ONLINE'";
        root.query_first::<u64, _>(text).unwrap() == Some(1)
            && !root.query_first::<bool, _>("SELECT @@super_read_only").unwrap().unwrap()
    });
    ensure_plugin(&server);
    let client = |number: usize, _: &AtomicBool| {
        let mut client = app(&server);
        for _ in 0..times(30) {
            let id = 1 + number % 3;
            run(&mut client, &format!("UPDATE t SET k = k + 1 WHERE id = {id}")).unwrap();
            run(&mut client, &format!("BEGIN; UPDATE t SET k = k + 1 WHERE id = {id}; COMMIT")).unwrap();
        }
    };
    crowd(8, client, || ());
    let sum: Option<usize> = root.query_first("SELECT SUM(k) FROM test.t").unwrap();
    assert_eq!(sum, Some(8 * 2 * times(30)));
    root.query_drop("STOP GROUP_REPLICATION").unwrap();
    root.query_drop("SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF").unwrap();
    drop(root);
    rest(&server);
    end(server);
}
