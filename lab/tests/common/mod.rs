//! What the tests of the real binary share.
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod golden;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Sixteen cells' worth of nothing: enough to run every line, in a second or two.
pub(crate) const TINY: &[&str] = &[
    "--table-size",
    "2000",
    "--range-size",
    "50",
    "--threads",
    "1,3",
    "--time",
    "0.2",
    "--rounds",
    "2",
    "--buffer-pool",
    "16M",
    "--instances",
    "1",
    "--data-files",
    "2",
    "--specimen",
    "none",
];

/// The command, without a terminal.
pub(crate) fn flifo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo"));
    command.stdin(Stdio::null());
    command
}

/// A tiny sweep on the data in `dir`.
pub(crate) fn tiny(dir: &Path) -> Command {
    let mut command = flifo();
    command.arg("sweep").args(TINY).arg("--data").arg(dir);
    command
}

/// Standard error without the note about a file system without O_DIRECT, such as the test machine's.
fn without_notes(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| !line.contains("has no O_DIRECT")).map(|line| format!("{line}\n")).collect()
}

/// Standard error, which must be one line.
pub(crate) fn one_line(output: &Output) -> String {
    let text = without_notes(output);
    assert_eq!(text.lines().count(), 1, "not one line: {text}");
    assert!(text.starts_with("flifo: "), "{text}");
    text
}

/// Runs a command that must fail with `code` and one line that has all of `words`.
pub(crate) fn fails(command: &mut Command, code: i32, words: &[&str]) {
    let line = refused(command, code);
    for word in words {
        assert!(line.contains(word), "no '{word}' in: {line}");
    }
}

/// Runs a command that must fail with `code` and one line; gives the line.
pub(crate) fn refused(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let line = one_line(&output);
    assert_eq!(output.status.code(), Some(code), "{line}");
    line
}

/// Runs a command that must end well; gives what it said on standard error.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = without_notes(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    text
}

/// A file of results.
pub(crate) fn results(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}
