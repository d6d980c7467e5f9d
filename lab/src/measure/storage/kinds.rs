//! Workloads, modes, carriers, and their valid combinations.

use clap::ValueEnum;
use flifo_engine::disk::{ALIGNMENT_BYTES, FileAccess};
use serde::{Deserialize, Serialize};

/// The I/O of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Blocks anywhere in the files.
    RandomRead,
    /// The same, written.
    RandomWrite,
    /// Both.
    RandomMixed,
    /// Small writes one after another, each durable.
    Log,
    /// A batch of pages in one piece and durable, then each to its place and durable.
    Doublewrite,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 5] = [
        Workload::RandomRead,
        Workload::RandomWrite,
        Workload::RandomMixed,
        Workload::Log,
        Workload::Doublewrite,
    ];

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Workload::RandomRead => "random-read",
            Workload::RandomWrite => "random-write",
            Workload::RandomMixed => "random-mixed",
            Workload::Log => "log",
            Workload::Doublewrite => "doublewrite",
        }
    }

    /// Whether it writes at all.
    pub fn writes(self) -> bool {
        self != Workload::RandomRead
    }

    /// Whether syncs are a part of it, whatever the mode.
    fn is_durable(self) -> bool {
        matches!(self, Workload::Log | Workload::Doublewrite)
    }
}

/// How files are opened, and what makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Past the page cache.
    Direct,
    /// Through the page cache, then fsync.
    Fsync,
    /// Through the page cache, then fdatasync.
    Fdatasync,
    /// Past the page cache, every write durable by itself (`O_DSYNC`).
    Dsync,
    /// Through the page cache; for reads.
    Buffered,
}

/// The call that makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    All,
    Data,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 5] = [Mode::Direct, Mode::Fsync, Mode::Fdatasync, Mode::Dsync, Mode::Buffered];

    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Direct => "direct",
            Mode::Fsync => "fsync",
            Mode::Fdatasync => "fdatasync",
            Mode::Dsync => "dsync",
            Mode::Buffered => "buffered",
        }
    }

    /// Whether it bypasses the page cache.
    pub fn is_direct(self) -> bool {
        matches!(self, Mode::Direct | Mode::Dsync)
    }

    /// Whether the two are a valid combination: reads need no sync, and a write that is never synced measures memory.
    pub fn applies_to(self, workload: Workload) -> bool {
        match self {
            Mode::Direct => true,
            Mode::Buffered => workload == Workload::RandomRead,
            Mode::Fsync | Mode::Fdatasync | Mode::Dsync => workload.writes(),
        }
    }

    /// The most similar mode on a file system without direct access.
    pub(crate) fn through_the_cache(self, workload: Workload) -> Mode {
        match (self.is_direct(), workload.writes()) {
            (false, _) => self,
            (true, true) => Mode::Fdatasync,
            (true, false) => Mode::Buffered,
        }
    }

    /// What follows a write. Under `direct`, random writes are not synced at all, and a log by fdatasync.
    pub(crate) fn sync(self, workload: Workload) -> Option<Sync> {
        match self {
            Mode::Fsync => Some(Sync::All),
            Mode::Fdatasync => Some(Sync::Data),
            Mode::Direct if workload.is_durable() => Some(Sync::Data),
            Mode::Direct | Mode::Dsync | Mode::Buffered => None,
        }
    }

    /// How to open a file for blocks of this size.
    pub(crate) fn access(self, workload: Workload, block_bytes: u32) -> FileAccess {
        FileAccess {
            read_only: !workload.writes(),
            direct: self.is_direct(),
            write_through: self == Mode::Dsync,
            alignment_bytes: (block_bytes as usize).min(ALIGNMENT_BYTES),
        }
    }
}

/// The carrier of the I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// Processes, each with one I/O at a time.
    Processes,
    /// Threads of one process, each with one I/O at a time.
    Threads,
    /// One thread with a ring, and many I/Os in flight.
    IoUring,
}

impl Carrier {
    /// The name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Processes => "processes",
            Carrier::Threads => "threads",
            Carrier::IoUring => "io-uring",
        }
    }

    /// Whether the two are a valid combination: a doublewrite's steps depend on each other, so one thread has no two in
    /// flight.
    pub fn applies_to(self, workload: Workload) -> bool {
        self != Carrier::IoUring || workload != Workload::Doublewrite
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for workload in Workload::ALL {
            assert_eq!(Workload::from_str(workload.name(), false), Ok(workload));
        }
        for mode in Mode::ALL {
            assert_eq!(Mode::from_str(mode.name(), false), Ok(mode));
        }
        for carrier in [Carrier::Processes, Carrier::Threads, Carrier::IoUring] {
            assert_eq!(Carrier::from_str(carrier.name(), false), Ok(carrier));
        }
    }

    #[test]
    fn every_write_but_a_direct_one_is_durable() {
        for workload in Workload::ALL.into_iter().filter(|workload| workload.writes()) {
            for mode in Mode::ALL.into_iter().filter(|mode| mode.applies_to(workload)) {
                let is_durable = mode == Mode::Dsync || mode.sync(workload).is_some();
                assert_eq!(
                    is_durable,
                    mode != Mode::Direct || workload.is_durable(),
                    "{workload:?} {mode:?}"
                );
            }
        }
    }

    #[test]
    fn without_direct_access_there_is_a_mode_for_everything() {
        for workload in Workload::ALL {
            for mode in Mode::ALL.into_iter().filter(|mode| mode.applies_to(workload)) {
                let instead = mode.through_the_cache(workload);
                assert!(instead.applies_to(workload) && !instead.is_direct());
            }
        }
    }
}
