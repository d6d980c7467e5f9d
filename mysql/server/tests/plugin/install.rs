//! The plugin comes and goes.

use std::sync::atomic::{AtomicBool, Ordering};

use flifo_mysql::mysql::prelude::Queryable;
use flifo_mysql::{Error, PrivateServer, mysql};

use super::support::{Test, app, crowd, ensure_plugin, execute, rest, run, set, until};

pub(crate) const TESTS: &[Test] =
    &[("comes_and_goes", comes_and_goes), ("comes_and_goes_under_load", comes_and_goes_under_load)];

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
        for _ in 0..20 {
            until("clients are admitted", || server.status_number("Flifo_admitted").unwrap() > 20);
            server.administer(UNINSTALL).unwrap();
            install_again(server);
            set(server, "thread_concurrency", 1);
        }
    });
    ensure_plugin(server);
    rest(server);
}
