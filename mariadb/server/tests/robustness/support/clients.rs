//! Users, their data, and what they do.

use std::thread::{self, JoinHandle};
use std::time::Duration;

pub(crate) use flifo_mariadb::clients::{code, crowd, error_of, execute, run};

use super::blocked::{Blocked, until_blocked};
use super::rest::{describe_current, until};
use super::{Conn, Options, Plugin, PrivateServer, Queryable, mysql};

/// Only against a hang.
const ANSWER: Duration = Duration::from_secs(60);
/// The error of a statement that was refused.
pub(crate) const REFUSED: u16 = 1205;
/// The error of a statement that was killed.
pub(crate) const INTERRUPTED: u16 = 1317;
pub(crate) const ROWS: usize = 1000;

/// A server with the plugin.
pub(crate) fn with_plugin() -> Options {
    let options =
        Options::new().plugin(Plugin::Loaded).set("local-infile", "ON").set("event-scheduler", "ON");
    sanitized(options)
}

/// With a pool of threads, which soon adds a thread for one that blocks without a report.
pub(crate) fn in_a_pool(options: Options) -> Options {
    options.set("thread-handling", "pool-of-threads").set("thread-pool-stall-limit", 10)
}

/// For a plugin that was built with AddressSanitizer: `FLIFO_SANITIZER` is its library.
pub(crate) fn sanitized(options: Options) -> Options {
    match std::env::var_os("FLIFO_SANITIZER") {
        Some(library) => options
            .environment("LD_PRELOAD", library)
            .environment("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1:handle_segv=2:disable_coredump=1"),
        None => options,
    }
}

/// An ordinary user `app` and one table.
pub(crate) fn populate(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE DATABASE test",
        "CREATE USER app@localhost",
        "GRANT ALL ON test.* TO app@localhost",
        "GRANT RELOAD, FILE ON *.* TO app@localhost",
        "CREATE TABLE test.t (id INT PRIMARY KEY, k INT NOT NULL, pad CHAR(60) NOT NULL, KEY (k))",
        &format!("INSERT INTO test.t SELECT seq, 0, REPEAT('x', 60) FROM test.seq_1_to_{ROWS}"),
    ] {
        root.query_drop(statement).unwrap();
    }
}

/// The administrator, whom admission lets pass.
#[track_caller]
pub(crate) fn admin(server: &PrivateServer) -> Conn {
    admin_by(&server.connection("root"), ANSWER).unwrap()
}

pub(crate) fn admin_by(options: &mysql::OptsBuilder, answers_in: Duration) -> mysql::Result<Conn> {
    Conn::new(options.clone().read_timeout(Some(answers_in)))
}

/// An ordinary user, in the database `test`. An answer that does not come is an error.
#[track_caller]
pub(crate) fn app(server: &PrivateServer) -> Conn {
    try_app(server).unwrap()
}

pub(crate) fn try_app(server: &PrivateServer) -> mysql::Result<Conn> {
    Conn::new(server.connection("app").db_name(Some("test")).read_timeout(Some(ANSWER)))
}

/// A test that removed the plugin may have failed.
pub(crate) fn ensure_plugin(server: &PrivateServer) {
    let mut root = admin(server);
    let known: Vec<(String, String)> = root.query("SHOW VARIABLES LIKE 'flifo_thread_concurrency'").unwrap();
    if known.is_empty() {
        root.query_drop("INSTALL SONAME 'flifo'").unwrap();
    }
}

/// One of the plugin's settings.
#[track_caller]
pub(crate) fn set(server: &PrivateServer, name: &str, value: &str) {
    admin(server).query_drop(format!("SET GLOBAL flifo_{name} = '{value}'")).unwrap();
}

#[track_caller]
pub(crate) fn set_number(server: &PrivateServer, name: &str, value: u64) {
    admin(server).query_drop(format!("SET GLOBAL flifo_{name} = {value}")).unwrap();
}

/// All settings at their defaults, except that the limit is fixed, no stall is broken and no slot reclaimed: a slot that leaked shows at
/// once.
#[track_caller]
pub(crate) fn defaults(server: &PrivateServer) {
    const NAMES: [&str; 7] =
        ["policy", "quantum", "queue_timeout", "max_queue", "io_depth", "reserve_slots", "bypass"];
    let mut root = admin(server);
    for name in NAMES {
        root.query_drop(format!("SET GLOBAL flifo_{name} = DEFAULT")).unwrap();
    }
    root.query_drop("SET GLOBAL flifo_stall_limit = 0").unwrap();
    // Most tests are about a limit in force.
    let limit = 2 * thread::available_parallelism().unwrap().get();
    root.query_drop(format!("SET GLOBAL flifo_thread_concurrency = {limit}")).unwrap();
}

/// A procedure that runs as many statements as a slot has tickets.
pub(crate) fn spends_tickets(server: &PrivateServer) {
    admin(server)
        .query_drop(
            "CREATE OR REPLACE PROCEDURE test.spends_tickets() BEGIN DECLARE i INT DEFAULT 0;
             WHILE i < 5000 DO SELECT 1 INTO @one; SET i = i + 1; END WHILE; END",
        )
        .unwrap();
}

/// A statement of its own connection, run by a thread of its own.
pub(crate) struct Running {
    pub(crate) id: u32,
    thread: JoinHandle<mysql::Result<()>>,
}

impl Running {
    #[track_caller]
    pub(crate) fn start(server: &PrivateServer, statement: &str) -> Running {
        Running::on(app(server), statement)
    }

    pub(crate) fn on(mut connection: Conn, statement: &str) -> Running {
        let (id, statement) = (connection.connection_id(), statement.to_owned());
        Running { id, thread: thread::spawn(move || run(&mut connection, &statement)) }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// How it ended. That it does not end is no way to.
    #[track_caller]
    pub(crate) fn end(self) -> mysql::Result<()> {
        let result = self.thread.join().unwrap();
        if let Err(mysql::Error::CodecError(error)) = &result {
            let text = error.to_string();
            assert!(!text.contains("unavailable"), "no answer within {ANSWER:?}; now {}", describe_current());
        }
        result
    }
}

/// A statement that holds the only slot, and costs no CPU time.
pub(crate) struct Holder<'a> {
    server: &'a PrivateServer,
    statement: Blocked,
}

impl Holder<'_> {
    #[track_caller]
    pub(crate) fn of_the_only_slot(server: &PrivateServer) -> Holder<'_> {
        Holder::of_the_only_slot_on(server, app(server))
    }

    /// The same, on this connection.
    #[track_caller]
    pub(crate) fn of_the_only_slot_on(server: &PrivateServer, client: Conn) -> Holder<'_> {
        set(server, "thread_concurrency", "1");
        let statement = Blocked::on(client);
        until_blocked(server, statement.id());
        until("the holder has the slot", || server.status_number("Flifo_running").unwrap() == 1);
        Holder { server, statement }
    }

    /// Waits until this number of statements queue for its slot.
    #[track_caller]
    pub(crate) fn until_queued(&self, count: u64) {
        until(&format!("{count} are queued"), || self.server.status_number("Flifo_queued").unwrap() == count);
    }

    /// It ends while the server shuts down.
    pub(crate) fn end_in_shutdown(self) {
        self.statement.end_later(Duration::from_secs(3));
    }

    pub(crate) fn still_holds(&self) -> bool {
        !self.statement.is_over()
    }
}
