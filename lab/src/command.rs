//! Shared by the commands that measure for minutes: how they end, and their command line.

use crate::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, Error};
use crate::progress::Progress;
use crate::target;

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

/// The command line as typed, without passwords.
pub fn command_line() -> String {
    target::without_passwords(std::env::args_os().map(|word| word.to_string_lossy().into_owned())).join(" ")
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
