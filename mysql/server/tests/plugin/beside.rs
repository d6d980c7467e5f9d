//! A server with everything beside the plugin: another audit plugin, clone, group replication, semi-synchronous replication, a query
//! rewriter, control of connections, and the performance schema with all of its instruments and consumers.

use std::sync::atomic::{AtomicBool, Ordering};

use flifo_mysql::PrivateServer;

use super::stage::Subject;
use super::support::{
    Holder, Queryable, REFUSED, Running, Test, app, code, crowd, execute, is_at_rest, run, set, times, until,
};
use super::{admission, holders, inside, kill, waits, xprotocol};

const ARGUMENTS: &[&str] = &[
    "--plugin-load-add=adt_null.so",
    "--plugin-load-add=ddl_rewriter.so",
    "--plugin-load-add=connection_control.so",
    "--plugin-load-add=mysql_clone.so",
    "--plugin-load-add=group_replication.so",
    "--plugin-load-add=semisync_source.so",
    "--plugin-load-add=semisync_replica.so",
    "--loose-group-replication-start-on-boot=OFF",
    "--server-id=7",
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--performance-schema-instrument=%=ON",
    "--mysqlx=ON",
    xprotocol::SOCKET_OPTION,
];

pub(crate) fn subject() -> Subject {
    let own: &[Test] = &[
        ("all_are_active", all_are_active),
        ("another_audit_plugin_sees_all", another_audit_plugin_sees_all),
        ("a_clone_is_made", a_clone_is_made),
        ("others_come_and_go", others_come_and_go),
    ];
    let tests =
        [own, admission::TESTS, holders::TESTS, inside::TESTS, kill::TESTS, waits::TESTS, xprotocol::TESTS];
    Subject {
        name: "beside",
        arguments: ARGUMENTS,
        prepare: switch_on_performance_schema,
        tests: tests.concat(),
    }
}

fn switch_on_performance_schema(server: &PrivateServer) {
    for statement in [
        "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'",
        "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'",
    ] {
        server.administer(statement).unwrap();
    }
}

fn all_are_active(server: &PrivateServer) {
    let mut root = server.connect("root").unwrap();
    for name in [
        "NULL_AUDIT",
        "ddl_rewriter",
        "CONNECTION_CONTROL",
        "clone",
        "group_replication",
        "rpl_semi_sync_source",
        "flifo",
    ] {
        let status: Option<String> = root
            .query_first(format!(
                "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = '{name}'"
            ))
            .unwrap();
        assert_eq!(status.as_deref(), Some("ACTIVE"), "{name}");
    }
    let off: Option<u64> = root
        .query_first("SELECT COUNT(*) FROM performance_schema.setup_consumers WHERE enabled = 'NO'")
        .unwrap();
    assert_eq!(off, Some(0));
}

/// Also what is refused here, and what runs after it.
fn another_audit_plugin_sees_all(server: &PrivateServer) {
    let seen = || server.status_number("Audit_null_command_end").unwrap();
    let mut client = app(server);
    let before = seen();
    for _ in 0..10 {
        run(&mut client, "SELECT * FROM t").unwrap();
        execute(&mut client, "SELECT * FROM t").unwrap();
    }
    assert!(seen() >= before + 20);
    let holder = Holder::of_the_only_slot(server);
    set(server, "queue_timeout", 50);
    let before = seen();
    for _ in 0..3 {
        assert_eq!(code(run(&mut client, "SELECT * FROM t")), REFUSED);
    }
    assert!(seen() >= before + 3);
    assert!(holder.still_holds());
}

/// While statements run and queue.
fn a_clone_is_made(server: &PrivateServer) {
    set(server, "thread_concurrency", 2);
    let client = |number: usize, stop: &AtomicBool| {
        let mut client = app(server);
        while !stop.load(Ordering::Relaxed) {
            let id = 1 + number % 3;
            run(&mut client, &format!("UPDATE t SET k = k + 1 WHERE id = {id}")).unwrap();
        }
    };
    let to = server.scratch().join("clone");
    crowd(8, client, || {
        until("statements queue", || server.status_number("Flifo_admitted_from_queue").unwrap() > 0);
        server.administer(&format!("CLONE LOCAL DATA DIRECTORY = '{}'", to.display())).unwrap();
    });
    assert!(to.join("mysql.ibd").is_file(), "there is no clone");
    std::fs::remove_dir_all(to).unwrap();
    // One that waits for the lock of backups has no slot.
    server.administer("GRANT BACKUP_ADMIN ON *.* TO app@localhost").unwrap();
    let mut backup = app(server);
    run(&mut backup, "LOCK INSTANCE FOR BACKUP").unwrap();
    set(server, "thread_concurrency", 1);
    let definition = Running::start(server, "CREATE TABLE made (id INT)");
    let mut root = server.connect("root").unwrap();
    until("the definition waits", || {
        let text = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_state = 'Waiting for backup lock'";
        root.query_first::<u64, _>(text).unwrap() == Some(1)
    });
    run(&mut app(server), "SELECT * FROM t").unwrap();
    run(&mut backup, "UNLOCK INSTANCE").unwrap();
    definition.end().0.unwrap();
    root.query_drop("DROP TABLE test.made").unwrap();
}

/// The other audit plugin and ours, under load. Where another one has the events of statements, the server counts as uses of ours only
/// connections that come after it.
fn others_come_and_go(server: &PrivateServer) {
    let client = |_: usize, stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            let mut client = app(server);
            for _ in 0..5 {
                run(&mut client, "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
                execute(&mut client, "SELECT * FROM t").unwrap();
            }
        }
    };
    crowd(6, client, || {
        for _ in 0..times(10) {
            for (uninstall, install) in [
                ("UNINSTALL PLUGIN null_audit", "INSTALL PLUGIN null_audit SONAME 'adt_null.so'"),
                ("UNINSTALL PLUGIN flifo", "INSTALL PLUGIN flifo SONAME 'flifo.so'"),
            ] {
                server.administer(uninstall).unwrap();
                until(install, || server.administer(install).is_ok());
            }
            set(server, "thread_concurrency", 1);
            until("clients are admitted", || server.status_number("Flifo_admitted").unwrap() > 20);
        }
    });
    until("no slot is out", || is_at_rest(server));
}
