//! What the commands share that measure for minutes: how they end, what they check first, how they were called.

use std::path::Path;

use crate::error::{EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, Error};
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

/// As it was typed, but for passwords.
pub fn command_line() -> String {
    target::without_passwords(std::env::args_os().map(|word| word.to_string_lossy().into_owned())).join(" ")
}

/// Says no now rather than after minutes of measuring.
pub fn check_writable(file: &Path) -> Result<(), Error> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let wrong = if file.is_dir() {
        "it is a directory".into()
    } else {
        match rustix::fs::access(dir, rustix::fs::Access::WRITE_OK) {
            Ok(()) => return Ok(()),
            Err(errno) => std::io::Error::from(errno).to_string(),
        }
    };
    Err(Error::Usage(format!(
        "cannot write {}: {wrong}; name a file in a directory that exists and is writable",
        file.display()
    )))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_written_are_found_before_the_run() {
        let temp = tempfile::tempdir().unwrap();
        assert!(check_writable(&temp.path().join("a.json")).is_ok());
        assert!(check_writable(Path::new("a.json")).is_ok());
        assert!(check_writable(&temp.path().join("no/a.json")).is_err());
        assert!(check_writable(temp.path()).is_err());
    }
}
