//! Servers of their own: with the pool of threads that comes with the server, and a plugin that was built for another version; with
//! the plugin from the start.

use std::fs;

use flifo_mysql::mysql::prelude::Queryable;
use flifo_mysql::{Error, Installation, PrivateServer, mysql};

use super::support::{Holder, Running, app, ensure_plugin, populate, rest, run, until};

pub(crate) const NAME: &str = "runs_over_a_pool_of_threads";
pub(crate) const AT_START: &str = "is_loaded_with_the_server";
/// More than the pool has threads.
const QUEUED: u64 = 60;

pub(crate) fn runs_over_a_pool_of_threads(installation: &Installation) {
    let arguments = ["--plugin-load-add=thread_pool.so", "--thread-pool-size=1"];
    let mut server = PrivateServer::start(installation, &arguments).unwrap();
    populate(&server);
    // Queued statements and waits take no thread from the pool: others connect and run.
    server.install_plugin().unwrap();
    ensure_plugin(&server);
    let holder = Holder::of_the_only_slot(&server);
    let queued: Vec<Running> =
        (0..QUEUED).map(|_| Running::start(&server, "UPDATE t SET k = k + 1 WHERE id = 1")).collect();
    holder.until_queued(QUEUED);
    server.administer("SELECT COUNT(*) FROM test.t").unwrap();
    assert!(holder.still_holds());
    drop(holder);
    for statement in queued {
        statement.end().0.unwrap();
    }
    let waiter = Running::start(&server, "SELECT SLEEP(2)");
    until("it sleeps", || server.status_number("Flifo_admitted").unwrap() > 0);
    run(&mut app(&server), "SELECT COUNT(*) FROM t").unwrap();
    waiter.end().0.unwrap();
    rest(&server);
    server.administer("UNINSTALL PLUGIN flifo").unwrap();
    is_refused_by_another_version(&server);
    assert!(server.shutdown(), "the server did not end cleanly:\n{}", server.error_log());
}

/// Options of the server's command line count.
pub(crate) fn is_loaded_with_the_server(installation: &Installation) {
    let arguments = [
        "--plugin-load-add=flifo.so",
        "--flifo-thread-concurrency=1",
        "--flifo-policy=flifo",
        "--flifo-stall-limit=0",
        "--flifo-reserve-slots=ON",
    ];
    let mut server = PrivateServer::start(installation, &arguments).unwrap();
    populate(&server);
    let mut root = server.connect("root").unwrap();
    for (name, value) in
        [("thread_concurrency", "1"), ("policy", "flifo"), ("stall_limit", "0"), ("reserve_slots", "ON")]
    {
        let row: Option<(String, String)> =
            root.query_first(format!("SHOW GLOBAL VARIABLES LIKE 'flifo_{name}'")).unwrap();
        assert_eq!(row.map(|(_, is)| is).as_deref(), Some(value), "{name}");
    }
    drop(root);
    assert_eq!(server.status("Flifo_level").unwrap(), "statements and waits");
    let holder = Holder::of_the_only_slot(&server);
    let queued = Running::start(&server, "UPDATE t SET k = k + 1 WHERE id = 1");
    holder.until_queued(1);
    drop(holder);
    queued.end().0.unwrap();
    // With the binary log, which is open by default, a COMMIT waits without its slot.
    let before = server.status_number("Flifo_wait_log_sync_us").unwrap();
    run(&mut app(&server), "BEGIN; UPDATE t SET k = k + 1 WHERE id = 1; COMMIT").unwrap();
    assert!(server.status_number("Flifo_wait_log_sync_us").unwrap() > before);
    rest(&server);
    assert!(server.shutdown(), "the server did not end cleanly:\n{}", server.error_log());
}

/// The plugin for another version of the server: INSTALL fails, one line of the error log says why, and the server goes on.
fn is_refused_by_another_version(server: &PrivateServer) {
    let mut plugin = fs::read(server.plugin_folder().join("flifo.so")).unwrap();
    let mut found = 0;
    for at in 0..plugin.len() - 4 {
        if plugin[at..at + 4] == *b"9.7." {
            plugin[at + 2] = b'1';
            found += 1;
        }
    }
    assert_ne!(found, 0, "the plugin names no version");
    fs::write(server.plugin_folder().join("other.so"), plugin).unwrap();
    until("the plugin is gone", || match server.administer("INSTALL PLUGIN flifo SONAME 'other.so'") {
        Err(Error::Sql(mysql::Error::MySqlError(error))) => error.code != 1125,
        other => panic!("INSTALL: {other:?}"),
    });
    let log = server.error_log();
    let lines = log.lines().filter(|line| line.contains("the plugin is for MySQL 9.7; use a plugin built"));
    assert_eq!(lines.count(), 1, "{log}");
    server.administer("SELECT 1").unwrap();
}
