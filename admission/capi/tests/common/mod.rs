//! Compilers and other programs that the tests run.

#![allow(dead_code, unreachable_pub)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Returns a path below `admission/capi`.
pub fn capi(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the command of a program that the tests need; panics if it is not installed.
fn needed(variable: &str, program: &str, package: &str) -> Command {
    let program = std::env::var(variable).unwrap_or_else(|_| program.to_owned());
    let found = Command::new(&program).arg("--version").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "{program} is needed to test the C interface: apt-get install {package} (tools/setup does)"
    );
    Command::new(program)
}

pub fn gcc() -> Command {
    needed("CC", "gcc", "gcc libc6-dev")
}

pub fn gxx() -> Command {
    needed("CXX", "g++", "g++")
}

pub fn make() -> Command {
    let mut make = needed("MAKE", "make", "make");
    // The flags of an outer make are not for this one.
    make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    make.arg("-C").arg(capi("../.."));
    make
}

/// Runs a command and returns its output; panics with the output if the command fails.
pub fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}
