//! Users, their data, and what they do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::rest::{describe_current, until};
use super::{Conn, Options, Plugin, PrivateServer, Queryable, mysql};

/// Only against a hang.
const ANSWER: Duration = Duration::from_secs(60);
/// The error of a statement that was killed.
pub(crate) const INTERRUPTED: u16 = 1317;
pub(crate) const ROWS: usize = 1000;

/// A server with the plugin, which admits one at a time and lets nobody pass because nothing happens: one place
/// that is not given back shows at once.
pub(crate) fn with_plugin() -> Options {
    let options =
        Options::new().plugin(Plugin::Loaded).set("local-infile", "ON").set("event-scheduler", "ON");
    sanitized(options)
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
        "GRANT RELOAD ON *.* TO app@localhost",
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

/// All settings as they are without an option; but no stall is broken and no place lent, so that one that was lost is missed, no
/// limit is lifted, and reads keep to it.
#[track_caller]
pub(crate) fn defaults(server: &PrivateServer) {
    const NAMES: [&str; 13] = [
        "thread_concurrency",
        "concurrency_tickets",
        "policy",
        "queue_timeout",
        "max_queue",
        "io_depth",
        "lock_waiters",
        "wait_mask",
        "quantum",
        "overtakes",
        "anticipate",
        "yield",
        "bypass",
    ];
    let mut root = admin(server);
    for name in NAMES {
        root.query_drop(format!("SET GLOBAL flifo_{name} = DEFAULT")).unwrap();
    }
    root.query_drop(
        "SET GLOBAL flifo_stall_after = 0, flifo_lend_sleepers = OFF, flifo_disk_bound = 0, flifo_read_concurrency = 0",
    )
    .unwrap();
}

/// Runs it and reads all that it answers: an error may come after the first row.
pub(crate) fn run(client: &mut Conn, statement: &str) -> mysql::Result<()> {
    let mut results = client.query_iter(statement)?;
    while let Some(rows) = results.iter() {
        for row in rows {
            row?;
        }
    }
    Ok(())
}

/// The same as a prepared statement of the binary protocol.
pub(crate) fn execute(client: &mut Conn, statement: &str) -> mysql::Result<()> {
    let mut results = client.exec_iter(statement, ())?;
    while let Some(rows) = results.iter() {
        for row in rows {
            row?;
        }
    }
    Ok(())
}

/// The number of the error that this ends with; 0 if it is none.
#[track_caller]
pub(crate) fn code<T>(result: mysql::Result<T>) -> u16 {
    error_of(result).0
}

#[track_caller]
pub(crate) fn error_of<T>(result: mysql::Result<T>) -> (u16, String) {
    match result {
        Ok(_) => (0, String::new()),
        Err(mysql::Error::MySqlError(error)) => (error.code, error.message),
        Err(other) => panic!("not an answer of the server: {other}"),
    }
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

/// Somebody who has a place and keeps it.
pub(crate) struct Holder<'a> {
    server: &'a PrivateServer,
    statement: Option<Running>,
}

impl Holder<'_> {
    /// Takes the only place, of reads as well. Sleeping is what costs the test's machine nothing.
    #[track_caller]
    pub(crate) fn of_the_only_place(server: &PrivateServer) -> Holder<'_> {
        Holder::of_the_only_place_of(server, app(server))
    }

    /// The same, by this connection.
    #[track_caller]
    pub(crate) fn of_the_only_place_of(server: &PrivateServer, client: Conn) -> Holder<'_> {
        set(server, "thread_concurrency", "1");
        set_number(server, "read_concurrency", 0);
        set(server, "wait_mask", "ROW_LOCK,TABLE_LOCK,DISK,NETWORK,LOG_SYNC,USER");
        let statement = Running::on(client, "SELECT SLEEP(1000)");
        until("the holder is inside", || server.status_number("Flifo_inside").unwrap() == 1);
        // Killed when it runs and does not sleep yet, it would answer as if nothing had been.
        let sleeps = format!(
            "SELECT state = 'User sleep' FROM information_schema.processlist WHERE id = {}",
            statement.id
        );
        let mut root = admin(server);
        until("the holder sleeps", || root.query_first(&sleeps).unwrap().unwrap_or(false));
        Holder { server, statement: Some(statement) }
    }

    /// Waits until so many queue for its place.
    #[track_caller]
    pub(crate) fn until_queued(&self, count: u64) {
        until(&format!("{count} are queued"), || self.server.status_number("Flifo_queued").unwrap() == count);
    }

    /// It will end with the server.
    pub(crate) fn forget(mut self) {
        self.statement = None;
    }

    pub(crate) fn still_holds(&self) -> bool {
        self.statement.as_ref().is_some_and(|statement| !statement.is_over())
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        if let Some(statement) = self.statement.take() {
            let killed = admin_by(&self.server.connection("root"), ANSWER)
                .and_then(|mut root| root.query_drop(format!("KILL QUERY {}", statement.id)));
            // While a test fails, its own error counts.
            if !thread::panicking() {
                killed.unwrap();
                assert_eq!(code(statement.end()), INTERRUPTED);
            }
        }
    }
}

/// Clients that do something until told to stop.
pub(crate) fn crowd<R>(
    size: usize,
    each: impl Fn(usize, &AtomicBool) + Sync,
    meanwhile: impl FnOnce() -> R,
) -> R {
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let (each, stop) = (&each, &stop);
    thread::scope(|scope| {
        let guard = Stop(stop);
        for number in 0..size {
            scope.spawn(move || each(number, stop));
        }
        let result = meanwhile();
        drop(guard);
        result
    })
}
