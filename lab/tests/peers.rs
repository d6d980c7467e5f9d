//! The real binary hands over to `flifo-peers`, or says how to build it.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use common::{fails, flifo};

/// One at a time: a program that is being written in one thread while another forks cannot be started ("text file busy").
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn without_the_program_it_says_how_to_build_it() {
    let _alone = ALONE.lock();
    let temp = tempfile::tempdir().unwrap();
    // A copy by itself: beside the real one somebody may have built the program.
    let alone = temp.path().join("flifo");
    fs::copy(env!("CARGO_BIN_EXE_flifo"), &alone).unwrap();
    for options in [&[][..], &["--help"], &["--quick", "--peers", "lmdb"]] {
        let mut command = std::process::Command::new(&alone);
        fails(command.args(["bench", "peers"]).args(options).env("PATH", temp.path()), 2, &["make peers"]);
    }
}

#[test]
fn options_and_exit_code_pass_through() {
    let _alone = ALONE.lock();
    let temp = tempfile::tempdir().unwrap();
    let program = temp.path().join("flifo-peers");
    fs::write(&program, "#!/bin/sh\nprintf '[%s]' \"$@\"\nexit 42\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = temp.path().join("flifo");
    fs::copy(env!("CARGO_BIN_EXE_flifo"), &copy).unwrap();
    let mut command = std::process::Command::new(&copy);
    let output = command.args(["bench", "peers", "--rows", "5 000", "--help"]).output().unwrap();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[--rows][5 000][--help]");
    // Only this subcommand's options are somebody else's.
    fails(flifo().args(["bench", "--quick"]), 2, &["--quick"]);
}
