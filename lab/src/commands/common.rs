//! Shared by the commands that measure for minutes: how they end, and their command line.

use crate::measure::server;
use crate::results::database::Checked;
use crate::support::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, Error};
use crate::support::output;
use crate::support::progress::Progress;

/// The exit codes, for `--help`; a macro so that `concat!` takes it.
macro_rules! exit_codes {
    () => {
        "Exit codes:
  0    done
  1    failed while running
  2    wrong usage
  3    the data directory or device cannot be used (not flifo's, damaged, not writable, disk full)
  4    a limit of the system or of the server is too low (descriptors, threads, memory, connections)
  5    the server of --target cannot be used, or a round on it failed
  130  interrupted with Ctrl-C; the measurements so far are printed and saved"
    };
}

pub(crate) const EXIT_CODES: &str = exit_codes!();
pub(crate) use exit_codes;

/// How a command ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything was done.
    Done,
    /// Ctrl-C; the measurements so far are printed and saved.
    Interrupted,
    /// The files of a database are damaged; the damage was reported.
    DamageFound,
}

impl Ended {
    /// How a command ends that checked a database.
    pub(crate) fn of_check(checked: &Checked) -> Self {
        if checked.is_sound() { Ended::Done } else { Ended::DamageFound }
    }

    /// The exit code of the process.
    pub fn exit_code(self) -> u8 {
        match self {
            Ended::Done => EXIT_OK,
            Ended::Interrupted => EXIT_INTERRUPTED,
            Ended::DamageFound => EXIT_FAILURE,
        }
    }
}

/// Combines the result of a command with that of its final step, such as saving the measurements. The first error ends
/// the command; a second one is printed in a line before.
pub(crate) fn and_afterwards<T>(
    ended: Result<T, Error>,
    afterwards: Result<(), Error>,
    progress: &Progress,
) -> Result<T, Error> {
    if let (Err(_), Err(error)) = (&ended, &afterwards) {
        progress.note(&error.to_string());
    }
    ended.and_then(|ended| afterwards.map(|()| ended))
}

/// An unwritable result is an error: neither exit code of the verdict may stand for it.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    output::print(&mut std::io::stdout(), text).map_err(Error::Print)
}

/// The command line as typed, but with no passwords, and with the name of the program instead of its path.
pub fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    server::without_passwords(std::iter::once("flifo".to_owned()).chain(arguments)).join(" ")
}

/// A step of a plan in words, as `read-only flifo 4, 16 connections, round 1 of 3`. A limit of 0 is none; `unit` names one
/// of the `count`; `round` counts from 0.
pub(crate) fn step_in_words(
    what: &str,
    limit: u32,
    (count, unit): (u32, &str),
    (round, rounds): (u32, u32),
) -> String {
    let limit = if limit == 0 { String::new() } else { format!(" {limit}") };
    let plural = if count == 1 { "" } else { "s" };
    format!("{what}{limit}, {count} {unit}{plural}, round {} of {rounds}", round + 1)
}

/// The order of the variants in a round: reversed in every second round, so that no variant always goes first, or
/// always follows the same other one.
pub fn turns<T: Copy>(all: &[T], round: u32) -> Vec<T> {
    let mut turns = all.to_vec();
    if round % 2 == 1 {
        turns.reverse();
    }
    turns
}

/// The first occurrence of each item.
pub fn without_repeats<T: Copy + PartialEq>(all: &[T]) -> Vec<T> {
    let mut unique = Vec::new();
    for item in all {
        if !unique.contains(item) {
            unique.push(*item);
        }
    }
    unique
}
