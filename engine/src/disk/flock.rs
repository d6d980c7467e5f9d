//! Locks of open files: exclusive for writers, shared for readers.
//!
//! A lock belongs to the open file and ends with it, at the latest with the process. A child program does not inherit
//! it, since the standard library opens every file with O_CLOEXEC.

use std::fs::File;
use std::io;

use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};

/// The other holders that a lock allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Not shared.
    Exclusive,
    /// Other readers.
    Shared,
}

/// Takes the lock of an open file. `WouldBlock`: another one has it.
pub(super) fn take(file: &File, sharing: Sharing) -> io::Result<()> {
    let operation = match sharing {
        Sharing::Exclusive => FlockOperation::NonBlockingLockExclusive,
        Sharing::Shared => FlockOperation::NonBlockingLockShared,
    };
    Ok(retry_on_intr(|| rustix::fs::flock(file, operation))?)
}

/// As [`take`]; false on a file system that has no locks.
pub(super) fn take_if_possible(file: &File, sharing: Sharing) -> io::Result<bool> {
    match take(file, sharing) {
        Err(error) if is_without_locks(&error) => Ok(false),
        other => other.map(|()| true),
    }
}

/// Releases a lock that was taken.
///
/// Closing the file is not enough: a child that another thread has just forked holds the open file too, until the child
/// becomes another program. If this fails, closing has to do.
pub(super) fn release(file: &File) {
    let _ = rustix::fs::flock(file, FlockOperation::Unlock);
}

fn is_without_locks(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL))
}
