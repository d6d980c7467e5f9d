//! UNINSTALL ends on servers whose own threads have used the plugin, and a replica is served whatever is refused.

use super::support::replication::{self, until_equal};
use super::support::rest::until;
use super::support::*;

pub(crate) fn alone() -> Alone {
    Alone {
        name: "leaving",
        tests: vec![
            ("a_replica_that_applied_definitions", a_replica_that_applied_definitions),
            ("a_primary_whose_semi_synchronous_replica_left", a_primary_whose_semi_synchronous_replica_left),
            ("a_silent_client", a_silent_client),
            ("installed_while_it_leaves", installed_while_it_leaves),
            ("a_replica_reconnects_to_a_full_server", a_replica_reconnects_to_a_full_server),
        ],
    }
}

/// A primary and a replica that follows it, semi-synchronously or not.
fn pair(semi_synchronous: bool) -> (PrivateServer, PrivateServer) {
    replication::pair(|id| {
        let options = sanitized(Options::new().plugin(Plugin::Loaded))
            .loopback()
            .set("server-id", id)
            .set("log-bin", "binlog")
            .set("binlog-format", "ROW")
            .set("slave-net-timeout", 10);
        match (semi_synchronous, id) {
            (false, _) => options,
            (true, 1) => options.set("rpl-semi-sync-master-enabled", "ON"),
            (true, _) => options.set("rpl-semi-sync-slave-enabled", "ON"),
        }
    })
}

/// It is gone, and comes back.
#[track_caller]
fn leaves_and_returns(server: &PrivateServer) {
    rest::is_current(server);
    let mut root = admin(server);
    let is_known = |root: &mut Conn| -> bool {
        let text = "SELECT COUNT(*) FROM information_schema.plugins WHERE plugin_name = 'flifo'";
        root.query_first::<u64, _>(text).unwrap() == Some(1)
    };
    root.query_drop("UNINSTALL SONAME 'flifo'").unwrap();
    until("the plugin has left", || {
        // Each client of before sends another command.
        server.status_number("Uptime").unwrap();
        !is_known(&mut root)
    });
    root.query_drop("INSTALL SONAME 'flifo'").unwrap();
    assert!(is_known(&mut root));
    until("it is active", || {
        let text = "SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'flifo'";
        root.query_first::<String, _>(text).unwrap().as_deref() == Some("ACTIVE")
    });
}

fn a_replica_that_applied_definitions() {
    let (primary, replica) = pair(false);
    for statement in [
        "CREATE TABLE test.defined (id INT)",
        "ALTER TABLE test.defined ADD COLUMN a INT",
        "UPDATE test.t SET k = k + 1 WHERE id = 1",
    ] {
        admin(&primary).query_drop(statement).unwrap();
    }
    until_equal(&primary, &replica);
    leaves_and_returns(&replica);
    leaves_and_returns(&primary);
}

fn a_primary_whose_semi_synchronous_replica_left() {
    let (primary, replica) = pair(true);
    let waits = || primary.status_number("Rpl_semi_sync_master_clients").unwrap();
    until("the replica is semi-synchronous", || waits() == 1);
    run(&mut app(&primary), "UPDATE t SET k = k + 1 WHERE id = 1").unwrap();
    until_equal(&primary, &replica);
    drop(replica);
    until("the primary has seen it leave", || waits() == 0);
    rest::is_current(&primary);
    leaves_and_returns(&primary);
}

/// A client that connected and has sent nothing, before or since, does not keep it.
fn a_silent_client() {
    let server = PrivateServer::start(sanitized(Options::new().plugin(Plugin::Loaded))).unwrap();
    rest::is_current(&server);
    let _silent = (admin(&server), admin(&server));
    leaves_and_returns(&server);
}

/// INSTALL reports that an idle client keeps the plugin.
fn installed_while_it_leaves() {
    let server = PrivateServer::start(sanitized(Options::new().plugin(Plugin::Loaded))).unwrap();
    rest::is_current(&server);
    let (mut root, mut idle) = (admin(&server), admin(&server));
    // A dormant plugin is kept by nobody.
    set(&server, "thread_concurrency", "4");
    idle.query_drop("SELECT 1").unwrap();
    root.query_drop("UNINSTALL SONAME 'flifo'").unwrap();
    for statement in ["INSTALL SONAME 'flifo'", "install /* again */ soname 'flifo.so'"] {
        let (code, text) = error_of(root.query_drop(statement));
        assert!(code != 0 && text.contains("idle since UNINSTALL"), "{statement}: {code} {text}");
    }
    // Another plugin is not concerned: this one is not there.
    let (_, text) = error_of(root.query_drop("INSTALL SONAME 'other'"));
    assert!(!text.contains("idle since"), "{text}");
    idle.query_drop("SELECT 1").unwrap();
    drop(idle);
    // While it is being unloaded, INSTALL may have no effect and report none.
    until("it is installed", || {
        server.status_number("Uptime").unwrap();
        let _ = root.query_drop("INSTALL SONAME 'flifo'");
        let status: Option<String> = root
            .query_first("SELECT plugin_status FROM information_schema.plugins WHERE plugin_name = 'flifo'")
            .unwrap();
        status.as_deref() == Some("ACTIVE")
    });
}

/// Its account bypasses admission, so it is not refused when it connects, which it would take as final.
fn a_replica_reconnects_to_a_full_server() {
    let (primary, replica) = pair(false);
    defaults(&primary);
    let holder = Holder::of_the_only_slot(&primary);
    let queued = Running::start(&primary, "SELECT COUNT(*) FROM t");
    holder.until_queued(1);
    set_number(&primary, "max_queue", 1);
    set_number(&primary, "queue_timeout", 60_000);
    admin(&primary).query_drop("UPDATE test.t SET k = k + 1 WHERE id = 1").unwrap();
    let mut follower = admin(&replica);
    for _ in 0..3 {
        follower.query_drop("STOP SLAVE").unwrap();
        follower.query_drop("START SLAVE").unwrap();
        admin(&primary).query_drop("UPDATE test.t SET k = k + 1 WHERE id = 1").unwrap();
        until_equal(&primary, &replica);
    }
    assert!(holder.still_holds());
    drop(holder);
    queued.end().unwrap();
}
