//! A device whose syncs are held for a while.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use super::rest::until;
use super::*;

/// The file that makes the device hold its syncs.
fn hold() -> PathBuf {
    std::env::temp_dir().join(format!("flifo-hold-syncs-{}", std::process::id()))
}

/// The syncs wait while this lives.
pub(crate) struct Held;

impl Held {
    pub(crate) fn begin() -> Held {
        File::create(hold()).unwrap();
        Held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        fs::remove_file(hold()).unwrap();
    }
}

pub(crate) fn with_slow_syncs() -> Options {
    let library = std::env::temp_dir().join(format!("flifo-slow-sync-{}.so", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/robustness/slow_sync.c");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl").status();
    assert!(built.expect("a C compiler").success());
    let mut preload = library.into_os_string();
    if let Some(sanitizer) = std::env::var_os("FLIFO_SANITIZER") {
        preload = [sanitizer, ":".into(), preload].into_iter().collect();
    }
    // The server writes statistics on its own, and a statement that opens a table waits for that.
    with_plugin()
        .set("innodb-stats-auto-recalc", "OFF")
        .flush_log_at_commit(1)
        .environment("LD_PRELOAD", preload)
        .environment("FLIFO_HOLD_SYNCS", hold())
}

pub(crate) fn until_state(server: &PrivateServer, id: u32, state: &str) {
    let mut root = admin(server);
    let text = format!("SELECT state FROM information_schema.processlist WHERE id = {id}");
    until(state, || {
        root.query_first::<Option<String>, _>(&text).unwrap().flatten().as_deref() == Some(state)
    });
}

pub(crate) fn update(server: &PrivateServer, id: u32) -> Running {
    Running::start(server, &format!("UPDATE t SET k = k + 1 WHERE id = {id}"))
}
