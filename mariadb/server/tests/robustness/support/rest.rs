//! What must be so when a test is over.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::clients::{admin_by, app, set};
use super::{Conn, PrivateServer, Queryable, mysql};

/// Only against a hang: on a busy machine all takes its time.
pub(crate) const BOUND: Duration = Duration::from_secs(60);
const COUNTS: [&str; 5] =
    ["Flifo_running", "Flifo_pending", "Flifo_queued", "Flifo_lock_waiters", "Flifo_disk_waits"];

/// Waits until this is so.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + BOUND;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {BOUND:?}: {what}; now {}", describe_current());
        thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until no statement runs or queues.
#[track_caller]
pub(crate) fn empty(server: &PrivateServer) {
    let deadline = Instant::now() + BOUND;
    loop {
        let counts = COUNTS.map(|name| server.status_number(name).unwrap());
        if counts == [0; 5] {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "not all 0 within {BOUND:?}: {COUNTS:?}; now {}",
            describe_current()
        );
        thread::sleep(Duration::from_millis(2));
    }
}

/// After each test: no slot is in use, an ordinary user is admitted, and the log is in order.
#[track_caller]
pub(crate) fn check(server: &PrivateServer) {
    super::defaults(server);
    set(server, "thread_concurrency", "1");
    empty(server);
    let before = admitted(server);
    let rows: u64 = app(server).query_first("SELECT COUNT(*) FROM t").unwrap().unwrap();
    assert!(rows > 0, "the table is empty");
    assert!(admitted(server) > before, "a statement ran without admission");
    empty(server);
    let log = server.error_log();
    let wrong = wrong_lines(&log);
    assert!(wrong.is_empty(), "the server's error log:\n{}", wrong.join("\n"));
}

/// Slots acquired so far, those by force included.
pub(crate) fn admitted(server: &PrivateServer) -> u64 {
    server.status_number("Flifo_admitted").unwrap()
}

/// Slots acquired by statements while `work` runs: not those by force, after a wait.
pub(crate) fn statements_admitted(server: &PrivateServer, work: impl FnOnce()) -> u64 {
    let count = || admitted(server) - server.status_number("Flifo_admitted_by_force").unwrap();
    let before = count();
    work();
    empty(server);
    count() - before
}

/// What a server in order never says.
pub(crate) fn wrong_lines(log: &str) -> Vec<&str> {
    const WRONG: [&str; 7] = [
        "[ERROR]",
        "got signal",
        "ssertion",
        "Sanitizer",
        "semaphore wait",
        "runtime error",
        "Forcing shutdown",
    ];
    log.lines().filter(|line| WRONG.iter().any(|wrong| line.contains(wrong))).collect()
}

/// The administrator's way to the server that is tested now.
static CURRENT: Mutex<Option<mysql::OptsBuilder>> = Mutex::new(None);

pub(crate) fn is_current(server: &PrivateServer) {
    *CURRENT.lock().unwrap() = Some(server.connection("root"));
}

/// What is wrong in a server's log, and its end, without what is always there.
pub(crate) fn describe_log(log: &str) -> String {
    let lines: Vec<&str> =
        log.lines().filter(|line| !line.contains("[Note]") && !line.contains("Aborted")).collect();
    let wrong = wrong_lines(log).join("\n");
    let end = lines[lines.len().saturating_sub(40)..].join("\n");
    format!("wrong lines in the server's log:\n{wrong}\nits end:\n{end}")
}

/// What happens in the server, for the report of a failure.
pub(crate) fn describe_current() -> String {
    let options = CURRENT.lock().unwrap().clone();
    options.map(|options| describe(&options)).unwrap_or_default()
}

fn describe(options: &mysql::OptsBuilder) -> String {
    fn ask(root: &mut Conn) -> mysql::Result<String> {
        let status: Vec<(String, String)> = root.query("SHOW GLOBAL STATUS LIKE 'flifo%'")?;
        let mut text = status.iter().map(|(name, value)| format!("{name}={value} ")).collect::<String>();
        type Process = (u64, String, String, Option<String>, Option<String>);
        let processes: Vec<Process> = root.query(
            "SELECT id, user, command, state, LEFT(info, 80) FROM information_schema.processlist
             ORDER BY state = 'Waiting for admission' LIMIT 40",
        )?;
        for (id, user, command, state, info) in processes {
            let _ = write!(
                text,
                "\n{id} {user} {command} [{}] {}",
                state.unwrap_or_default(),
                info.unwrap_or_default()
            );
        }
        Ok(text)
    }
    match admin_by(options, Duration::from_secs(10)).and_then(|mut root| ask(&mut root)) {
        Ok(text) => text,
        Err(error) => format!("the administrator cannot ask: {error}"),
    }
}
