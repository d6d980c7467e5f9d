//! What the tests have in common.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use flifo_mysql::clients::{code, crowd, execute, run};
pub(crate) use flifo_mysql::mysql::prelude::Queryable;
use flifo_mysql::mysql::{self, Conn};
pub(crate) use flifo_mysql::wire::{Reply, Wire, command};
use flifo_mysql::{Error, PrivateServer};

pub(crate) type Test = (&'static str, fn(&PrivateServer));

/// The error of a statement that was refused.
pub(crate) const REFUSED: u16 = 1205;
/// The error of a statement that was killed.
pub(crate) const INTERRUPTED: u16 = 1317;
/// What a server in order never says.
const WRONG: [&str; 5] = ["got signal", "[ERROR]", "Sanitizer", "runtime error", "ssertion"];
/// Only against a hang.
const BOUND: Duration = Duration::from_secs(60);

/// This many, or with `FLIFO_SHORT=1` a fifth of it: for sanitizers.
pub(crate) fn times(whole: usize) -> usize {
    let is_short = std::env::var_os("FLIFO_SHORT").is_some_and(|value| !value.is_empty() && value != "0");
    if is_short { whole.div_ceil(5) } else { whole }
}

/// An ordinary user `app`, a database and its tables.
pub(crate) fn populate(server: &PrivateServer) {
    for statement in [
        "SET GLOBAL log_bin_trust_function_creators = ON",
        "CREATE DATABASE test",
        "CREATE USER app@localhost",
        "GRANT ALL ON test.* TO app@localhost",
        "GRANT FILE ON *.* TO app@localhost",
        "CREATE TABLE test.t (id INT PRIMARY KEY, k INT NOT NULL)",
        "CREATE TABLE test.loaded (line INT)",
        "INSERT INTO test.t VALUES (1, 0), (2, 0), (3, 0)",
        "CREATE PROCEDURE test.two() BEGIN SELECT COUNT(*) FROM test.t; UPDATE test.t SET k = k + 1 WHERE id = 3; END",
        "CREATE FUNCTION test.count_rows() RETURNS INT READS SQL DATA RETURN (SELECT COUNT(*) FROM test.t)",
    ] {
        server.administer(statement).unwrap();
    }
}

/// Installs the plugin if a test has removed it, and sets a fixed limit. No stall is broken: a slot that leaks shows at once.
pub(crate) fn ensure_plugin(server: &PrivateServer) {
    if matches!(server.status("Flifo_running"), Err(Error::NoStatus(_))) {
        server.install_plugin().unwrap();
    }
    for (name, value) in
        [("thread_concurrency", 1), ("stall_limit", 0), ("queue_timeout", 0), ("max_queue", 0)]
    {
        set(server, name, value);
    }
}

/// One of the plugin's settings.
#[track_caller]
pub(crate) fn set(server: &PrivateServer, name: &str, value: u64) {
    server.administer(&format!("SET GLOBAL flifo_{name} = {value}")).unwrap();
}

/// An ordinary user, in the database `test`.
#[track_caller]
pub(crate) fn app(server: &PrivateServer) -> Conn {
    let mut client = server.connect("app").unwrap();
    client.select_db("test").unwrap();
    client
}

/// The same by hand.
#[track_caller]
pub(crate) fn wire(server: &PrivateServer) -> Wire {
    try_wire(server).unwrap()
}

pub(crate) fn try_wire(server: &PrivateServer) -> std::io::Result<Wire> {
    Wire::connect_at(&server.socket(), "caching_sha2_password")
}

#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {BOUND:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until no statement runs or queues, and checks that an ordinary statement is admitted.
#[track_caller]
pub(crate) fn rest(server: &PrivateServer) {
    ensure_plugin(server);
    until("no slot is out", || is_at_rest(server));
    let before = server.status_number("Flifo_admitted").unwrap();
    run(&mut app(server), "SELECT * FROM t").unwrap();
    assert!(server.status_number("Flifo_admitted").unwrap() > before, "a statement ran without admission");
    log_is_in_order(server);
}

#[track_caller]
pub(crate) fn log_is_in_order(server: &PrivateServer) {
    let log = server.error_log();
    let wrong: Vec<&str> =
        log.lines().filter(|line| WRONG.iter().any(|wrong| line.contains(wrong))).collect();
    assert!(wrong.is_empty(), "wrong lines:\n{}\nin the server's error log:\n{log}", wrong.join("\n"));
}

/// Ends the server, which must end cleanly.
#[track_caller]
pub(crate) fn end(mut server: PrivateServer) {
    assert!(server.shutdown(), "the server did not end cleanly:\n{}", server.error_log());
    log_is_in_order(&server);
}

/// Whether no statement runs or queues.
pub(crate) fn is_at_rest(server: &PrivateServer) -> bool {
    ["Flifo_running", "Flifo_pending", "Flifo_queued"]
        .iter()
        .all(|name| server.status_number(name).unwrap() == 0)
}

/// A statement of a connection of its own, run by a thread of its own.
pub(crate) struct Running {
    pub(crate) id: u32,
    thread: JoinHandle<(mysql::Result<()>, Instant)>,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(server: &PrivateServer, statement: &str) -> Running {
        Running::on(app(server), statement)
    }

    pub(crate) fn on(mut client: Conn, statement: &str) -> Running {
        let (id, statement) = (client.connection_id(), statement.to_owned());
        let thread = thread::spawn(move || (run(&mut client, &statement), Instant::now()));
        Running { id, thread }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// How the statement ended, and when.
    #[track_caller]
    pub(crate) fn end(self) -> (mysql::Result<()>, Instant) {
        self.thread.join().unwrap()
    }
}

/// A statement that holds the only slot, reports no wait, and costs no CPU time: it reads from a FIFO that nobody writes to.
pub(crate) struct Holder<'a> {
    server: &'a PrivateServer,
    fifo: PathBuf,
    statement: Option<Running>,
}

impl Holder<'_> {
    #[track_caller]
    pub(crate) fn of_the_only_slot(server: &PrivateServer) -> Holder<'_> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let fifo = server.scratch().join(format!("fifo-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        set(server, "thread_concurrency", 1);
        let text = format!("LOAD DATA INFILE '{}' INTO TABLE loaded", fifo.display());
        let statement = Running::start(server, &text);
        let mut root = server.connect("root").unwrap();
        let state = format!(
            "SELECT processlist_state FROM performance_schema.threads WHERE processlist_id = {}",
            statement.id
        );
        // Not that of a statement that the holder queues behind.
        until("the holder has the slot", || {
            statement.is_over()
                || (server.status_number("Flifo_running").unwrap() == 1
                    && root.query_first::<Option<String>, _>(&state).unwrap().flatten().as_deref()
                        == Some("executing"))
        });
        if statement.is_over() {
            panic!("the holder ended: {:?}", statement.end().0);
        }
        Holder { server, fifo, statement: Some(statement) }
    }

    /// Waits until this number of statements queue.
    #[track_caller]
    pub(crate) fn until_queued(&self, count: u64) {
        until(&format!("{count} are queued"), || self.server.status_number("Flifo_queued").unwrap() == count);
    }

    /// Ends after this time, from when on nobody waits for it.
    pub(crate) fn end_later(mut self, after: Duration) {
        let (fifo, statement) = (self.fifo.clone(), self.statement.take());
        thread::spawn(move || {
            thread::sleep(after);
            let writer = OpenOptions::new().read(true).write(true).open(fifo);
            thread::sleep(Duration::from_millis(200));
            drop(writer);
            drop(statement);
        });
    }

    pub(crate) fn still_holds(&self) -> bool {
        self.statement.as_ref().is_some_and(|statement| !statement.is_over())
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        let Some(statement) = self.statement.take() else { return };
        // For reading and writing it opens at once, and frees a reader that waits for a writer; its end is the file's end.
        let writer = OpenOptions::new().read(true).write(true).open(&self.fifo);
        let deadline = Instant::now() + Duration::from_millis(200);
        while !statement.is_over() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        drop(writer);
        let _ = statement.end();
    }
}
