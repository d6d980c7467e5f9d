//! A statement that blocks where the server reports no wait: it opens a FIFO that nobody writes to.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::rest::{BOUND, until};
use super::{Conn, PrivateServer, Queryable, Running, admin, app, code};

/// Opens without waiting for a reader.
const O_NONBLOCK: i32 = 0o4000;

/// A FIFO for one statement.
pub(crate) struct Fifo(PathBuf);

impl Fifo {
    pub(crate) fn new() -> Fifo {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("flifo-fifo-{}-{number}", std::process::id()));
        let _ = fs::remove_file(&path);
        assert!(Command::new("mkfifo").args(["-m", "644"]).arg(&path).status().unwrap().success());
        Fifo(path)
    }

    /// The expression that blocks. It needs the privilege FILE.
    pub(crate) fn blocks(&self) -> String {
        format!("LOAD_FILE('{}')", self.0.display())
    }

    /// The statement that blocks.
    pub(crate) fn select(&self) -> String {
        format!("SELECT {}", self.blocks())
    }

    /// Ends the wait of a statement that is blocked now.
    pub(crate) fn release(&self) {
        let _ = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&self.0);
    }

    /// Releases until this is so.
    #[track_caller]
    pub(crate) fn release_until(&self, mut is_over: impl FnMut() -> bool) {
        let deadline = Instant::now() + BOUND;
        while !is_over() && Instant::now() < deadline {
            self.release();
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Waits until the statement that blocks, or the part of a packet or procedure that does, is under way.
#[track_caller]
pub(crate) fn until_blocked(server: &PrivateServer, id: u32) {
    let text = format!(
        "SELECT info LIKE 'SELECT LOAD_FILE%' AND state <> 'Waiting for admission'
         FROM information_schema.processlist WHERE id = {id}"
    );
    let mut root = admin(server);
    until("it blocks", || root.query_first::<Option<bool>, _>(&text).unwrap().flatten() == Some(true));
}

/// A blocked statement of its own connection.
pub(crate) struct Blocked {
    fifo: Fifo,
    statement: Option<Running>,
}

impl Blocked {
    #[track_caller]
    pub(crate) fn start(server: &PrivateServer) -> Blocked {
        Blocked::on(app(server))
    }

    pub(crate) fn on(client: Conn) -> Blocked {
        let fifo = Fifo::new();
        let statement = Some(Running::on(client, &fifo.select()));
        Blocked { fifo, statement }
    }

    pub(crate) fn id(&self) -> u32 {
        self.statement.as_ref().map_or(0, |statement| statement.id)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.statement.as_ref().is_none_or(Running::is_over)
    }

    /// Lets it go on after a delay, although its client is gone: a server that shuts down waits for its thread.
    pub(crate) fn end_later(mut self, delay: Duration) {
        self.statement = None;
        thread::spawn(move || {
            thread::sleep(delay);
            self.fifo.release_until(|| false);
        });
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let Some(statement) = self.statement.take() else { return };
        self.fifo.release_until(|| statement.is_over());
        // While a test fails, its own error counts.
        if !thread::panicking() {
            assert_eq!(code(statement.end()), 0);
        }
    }
}
