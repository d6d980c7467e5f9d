//! Servers of their own: with the plugin from the start, and with a plugin that was built for another version.

use std::fs;

use flifo_mysql::{Error, Installation, PrivateServer, mysql};

use super::stage::Alone;
use super::support::{Holder, Queryable, Running, app, end, populate, rest, run};

pub(crate) fn alone() -> Alone {
    Alone {
        name: "start",
        tests: &[
            ("is_loaded_with_the_server", is_loaded_with_the_server),
            ("is_refused_by_another_version", is_refused_by_another_version),
        ],
    }
}

/// Options of the server's command line count.
fn is_loaded_with_the_server(installation: &Installation) {
    let arguments = [
        "--plugin-load-add=flifo.so",
        "--flifo-thread-concurrency=1",
        "--flifo-policy=flifo",
        "--flifo-stall-limit=0",
        "--flifo-reserve-slots=ON",
    ];
    let server = PrivateServer::start(installation, &arguments).unwrap();
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
    end(server);
}

/// The plugin for another version of the server: INSTALL fails, one line of the error log says why, and the server goes on.
fn is_refused_by_another_version(installation: &Installation) {
    let server = PrivateServer::start(installation, &[]).unwrap();
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
    match server.administer("INSTALL PLUGIN flifo SONAME 'other.so'") {
        Err(Error::Sql(mysql::Error::MySqlError(_))) => {}
        other => panic!("INSTALL: {other:?}"),
    }
    let log = server.error_log();
    let lines = log.lines().filter(|line| line.contains("the plugin is for MySQL 9.7; use a plugin built"));
    assert_eq!(lines.count(), 1, "{log}");
    server.administer("SELECT 1").unwrap();
    // The one that fits is installed after that.
    server.install_plugin().unwrap();
}
