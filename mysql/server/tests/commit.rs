//! Commits hold no slot while their logs are synced: on a device whose syncs are held. Nothing else admits others here: no stall is
//! broken.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flifo_mysql::mysql::Conn;
use flifo_mysql::mysql::prelude::Queryable;
use flifo_mysql::{Installation, Options, PrivateServer};

#[allow(dead_code, unused_imports, reason = "the other test uses the rest")]
#[path = "plugin/support.rs"]
mod support;

use support::{app, code, ensure_plugin, execute, is_at_rest, populate, rest, run, set, until};

/// Only against a hang.
const BOUND: Duration = Duration::from_secs(20);
/// Statements that run while the commits wait.
const OTHERS: u64 = 20;

#[test]
fn commits_with_a_binary_log_hold_no_slot() {
    commits_hold_no_slot(&["--sync-binlog=1"]);
}

#[test]
fn commits_without_a_binary_log_hold_no_slot() {
    commits_hold_no_slot(&["--skip-log-bin"]);
}

fn commits_hold_no_slot(arguments: &[&str]) {
    let Some(installation) = Installation::find() else {
        assert!(std::env::var_os("FLIFO_REQUIRE_MYSQL").is_none(), "there is no MySQL server");
        let root = Installation::expected_root();
        eprintln!("skipped, there is no MySQL server in {0}: run tools/mysql-root {0}", root.display());
        return;
    };
    let device = Device::new();
    let options = Options::new()
        .arguments(arguments.iter().copied())
        .arguments(["--innodb-flush-log-at-trx-commit=1", "--plugin-load-add=flifo.so"])
        // The server writes statistics on its own, and a statement that opens a table waits for that.
        .arguments(["--innodb-stats-auto-recalc=OFF"])
        .environment("LD_PRELOAD", device.preload())
        .environment("FLIFO_HOLD_SYNCS", device.hold());
    let mut server = PrivateServer::start_with(&installation, &options).unwrap();
    populate(&server);
    for statement in [
        "CREATE TABLE test.rows_of_all (id INT PRIMARY KEY, k INT NOT NULL)",
        "INSERT INTO test.rows_of_all VALUES (1,0),(2,0),(3,0),(4,0),(5,0),(6,0),(7,0),(8,0),(9,0),(10,0),(11,0),(12,0)",
        "CREATE PROCEDURE test.commits() BEGIN START TRANSACTION;
            UPDATE rows_of_all SET k = k + 1 WHERE id = 11; COMMIT; SELECT COUNT(*) FROM t; END",
    ] {
        server.administer(statement).unwrap();
    }
    ensure_plugin(&server);
    set(&server, "thread_concurrency", 1);
    let all = begin_all(&server);
    let held = device.hold_syncs();
    let all: Vec<Committing> = all.into_iter().map(|(client, commits)| commits.start(client)).collect();
    let mut root = server.connect("root").unwrap();
    let ids = all.iter().map(|one| one.id.to_string()).collect::<Vec<_>>().join(",");
    let states = format!(
        "SELECT processlist_info, processlist_state FROM performance_schema.threads WHERE processlist_id IN ({ids})"
    );
    let mut states = || root.query::<(Option<String>, Option<String>), _>(&states).unwrap();
    let begun = Instant::now();
    while !states().iter().all(|(text, state)| is_commit(text.as_deref(), state.as_deref())) {
        assert!(begun.elapsed() < BOUND, "not all commit: {:#?}", states());
        thread::sleep(Duration::from_millis(5));
    }
    until("no slot is out", || is_at_rest(&server));
    let before = server.status_number("Flifo_admitted").unwrap();
    let mut other = app(&server);
    for _ in 0..OTHERS {
        run(&mut other, "SELECT COUNT(*) FROM t").unwrap();
    }
    assert!(server.status_number("Flifo_admitted").unwrap() >= before + OTHERS);
    assert!(all.iter().all(|one| !one.thread.is_finished()), "the syncs are held");
    drop(held);
    all.into_iter().for_each(|one| assert_eq!(one.thread.join().unwrap(), 0));
    until("XA COMMIT ends it", || code(run(&mut app(&server), "XA COMMIT 'prepared'")) == 0);
    rest(&server);
    assert!(server.shutdown(), "the server did not end cleanly:\n{}", server.error_log());
}

/// Whether the server shows a commit. XA has no state of its own.
fn is_commit(text: Option<&str>, state: Option<&str>) -> bool {
    state == Some("waiting for handler commit")
        || (state == Some("starting") && text.is_some_and(|text| text.starts_with("XA")))
}

/// How the last statement of a client is sent, which commits.
enum Commits {
    Text(&'static str),
    Prepared(&'static str),
}

impl Commits {
    fn start(self, mut client: Conn) -> Committing {
        let id = client.connection_id();
        let thread = thread::spawn(move || match self {
            Commits::Text(statement) => code(run(&mut client, statement)),
            Commits::Prepared(statement) => code(execute(&mut client, statement)),
        });
        Committing { id, thread }
    }
}

/// A statement under way that ends with the number of its error.
struct Committing {
    id: u32,
    thread: JoinHandle<u16>,
}

/// Clients that have done everything but the statement that commits.
fn begin_all(server: &PrivateServer) -> Vec<(Conn, Commits)> {
    use Commits::{Prepared, Text};
    let cases: [(&str, Commits); 11] = [
        ("BEGIN; UPDATE rows_of_all SET k = 1 WHERE id = 1", Text("COMMIT")),
        ("BEGIN; UPDATE rows_of_all SET k = 1 WHERE id = 2", Prepared("COMMIT")),
        ("SET autocommit = 0; UPDATE rows_of_all SET k = 1 WHERE id = 3", Text("COMMIT")),
        ("DO 1", Text("UPDATE rows_of_all SET k = 1 WHERE id = 4")),
        ("DO 1", Prepared("UPDATE rows_of_all SET k = 1 WHERE id = 5")),
        ("DO 1", Text("DO 1; UPDATE rows_of_all SET k = 1 WHERE id = 6")),
        ("PREPARE p FROM 'UPDATE rows_of_all SET k = 1 WHERE id = 7'", Text("EXECUTE p")),
        ("PREPARE p FROM 'COMMIT'; BEGIN; UPDATE rows_of_all SET k = 1 WHERE id = 8", Text("EXECUTE p")),
        (
            "XA START 'prepared'; UPDATE rows_of_all SET k = 1 WHERE id = 9; XA END 'prepared'",
            Text("XA PREPARE 'prepared'"),
        ),
        (
            "XA START 'done'; UPDATE rows_of_all SET k = 1 WHERE id = 10; XA END 'done'; XA PREPARE 'done'",
            Text("XA COMMIT 'done'"),
        ),
        ("DO 1", Text("CALL commits()")),
    ];
    cases
        .into_iter()
        .map(|(before, commits)| {
            let mut client = app(server);
            run(&mut client, before).unwrap();
            (client, commits)
        })
        .collect()
}

/// A device whose syncs wait while a file is there: a library to preload.
struct Device(tempfile::TempDir);

impl Device {
    fn new() -> Device {
        let folder = tempfile::tempdir().unwrap();
        let source =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../mariadb/server/tests/robustness/slow_sync.c");
        let library = folder.path().join("slow_sync.so");
        let built =
            Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(source).arg("-ldl").status();
        assert!(built.expect("a C compiler").success());
        Device(folder)
    }

    fn preload(&self) -> PathBuf {
        self.0.path().join("slow_sync.so")
    }

    fn hold(&self) -> PathBuf {
        self.0.path().join("hold")
    }

    fn hold_syncs(&self) -> Held {
        File::create(self.hold()).unwrap();
        Held(self.hold())
    }
}

/// The syncs wait while this lives.
struct Held(PathBuf);

impl Drop for Held {
    fn drop(&mut self) {
        let file: &Path = &self.0;
        fs::remove_file(file).unwrap();
    }
}
