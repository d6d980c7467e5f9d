//! What the commands share that measure for minutes: how they end, how they were called.

use crate::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, Error};
use crate::progress::Progress;
use crate::target;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything was done.
    Done,
    /// Ctrl-C; what was measured is printed and saved.
    Interrupted,
    /// The files of a database are damaged, as was told.
    DamageFound,
}

impl Ended {
    /// What the process says of it.
    pub fn exit_code(self) -> u8 {
        match self {
            Ended::Done => EXIT_OK,
            Ended::Interrupted => EXIT_INTERRUPTED,
            Ended::DamageFound => EXIT_FAILURE,
        }
    }
}

/// How a command ended that had something to do afterwards, such as to save what was measured. The first error ends it;
/// the other one is told in a line before, lest nobody hears of it.
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

/// As it was typed, but for passwords.
pub fn command_line() -> String {
    target::without_passwords(std::env::args_os().map(|word| word.to_string_lossy().into_owned())).join(" ")
}

/// The contenders of a round in their order: in each second round backwards, lest the same one always goes first, or
/// always follows the same other.
pub fn turns<T: Copy>(all: &[T], round: u32) -> Vec<T> {
    let mut turns = all.to_vec();
    if round % 2 == 1 {
        turns.reverse();
    }
    turns
}

/// The first of each.
pub fn without_repeats<T: Copy + PartialEq>(all: &[T]) -> Vec<T> {
    let mut unique = Vec::new();
    for item in all {
        if !unique.contains(item) {
            unique.push(*item);
        }
    }
    unique
}
