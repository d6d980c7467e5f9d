//! The work of the threads between enter and exit, in a closed loop.
//!
//! | load | a statement |
//! |---|---|
//! | `empty` | nothing: the cost of enter and exit |
//! | `work-2` .. `work-1000` | that many microseconds of arithmetic |
//! | `contended-mutex` | 20 us of work, a fifth of it under a mutex that all share (`std::sync::Mutex`: it spins some hundred times, then sleeps) |
//! | `socket` | a request comes, 20 us of work, the reply goes: sockets as the sweep's, an event loop drives all clients |
//! | `hot-row` | 20 us of work, the second half under a row lock; half of the statements want the same row |
//! | `disk` | 10 us of work, 100 us for a disk, 10 us of work |
//!
//! Work is a fixed amount of arithmetic, never a wait for a clock: a thread that loses the CPU midway has as much left to do
//! when it runs again.

mod rows;
mod socket;

use std::sync::Mutex;
use std::time::Duration;

use flifo_admission::WaitKind;
use flifo_base::lock;

use super::limiter::Limiter;
use crate::measure::workload::work::burn;
use crate::measure::workload::{Random, stream};
use crate::support::error::Error;
use rows::{LockSystem, Waiter};
pub(crate) use socket::Sockets;

/// The work of a thread with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Load {
    /// Nothing.
    Empty,
    /// Work of this many microseconds.
    Work(u16),
    /// Work, a part of it under a mutex that all share.
    ContendedMutex,
    /// A request, work, a reply.
    Socket,
    /// Work, a part of it under a row lock that half of the statements request.
    HotRow,
    /// Work around a wait for a disk.
    Disk,
}

/// Work of a statement that also does something else, microseconds.
const WORK_US: u16 = 20;
/// Of it under the mutex of `contended-mutex`: a fifth.
const MUTEX_US: u16 = 4;
/// The disk's time for a request. An SSD's read.
const DISK: Duration = Duration::from_micros(100);

impl Load {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Load; 9] = [
        Load::Empty,
        Load::Work(2),
        Load::Work(20),
        Load::Work(200),
        Load::Work(1000),
        Load::ContendedMutex,
        Load::Socket,
        Load::HotRow,
        Load::Disk,
    ];

    /// The name as it is written on a command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Load::Empty => "empty",
            Load::Work(2) => "work-2",
            Load::Work(20) => "work-20",
            Load::Work(200) => "work-200",
            Load::Work(_) => "work-1000",
            Load::ContendedMutex => "contended-mutex",
            Load::Socket => "socket",
            Load::HotRow => "hot-row",
            Load::Disk => "disk",
        }
    }

    /// How requests arrive: `socket` or `direct`.
    pub fn front(self) -> &'static str {
        if self == Load::Socket { "socket" } else { "direct" }
    }

    /// Returns the number of file descriptors that `threads` threads take.
    pub fn descriptors(self, threads: u32) -> u64 {
        if self == Load::Socket { socket::descriptors(threads) } else { 0 }
    }
}

/// The state that the threads of a load share: made for a number of threads, used by variant after variant.
pub(crate) enum LoadState {
    Work(u16),
    ContendedMutex(Mutex<()>),
    Socket(Sockets),
    HotRow(Box<LockSystem>),
    Disk,
}

/// The state that a load keeps for a thread.
pub(crate) struct ThreadState {
    waiter: Waiter,
    random: Random,
}

impl ThreadState {
    /// The state of a thread in a round. The same seed gives the same statements to every variant.
    pub(crate) fn new(seed: u64, round: u32, thread: usize) -> Self {
        let random = stream(seed, 1 << 62 | u64::from(round) << 32 | thread as u64);
        ThreadState { waiter: Waiter::default(), random }
    }
}

impl LoadState {
    /// Makes the state for `threads` threads.
    pub(crate) fn new(load: Load, threads: u32) -> Result<Self, Error> {
        Ok(match load {
            Load::Empty => LoadState::Work(0),
            Load::Work(work_us) => LoadState::Work(work_us),
            Load::ContendedMutex => LoadState::ContendedMutex(Mutex::new(())),
            Load::Socket => LoadState::Socket(Sockets::open(threads)?),
            Load::HotRow => LoadState::HotRow(Box::default()),
            Load::Disk => LoadState::Disk,
        })
    }

    /// Runs a statement's work. The thread holds a slot when it begins and when it ends.
    #[inline]
    pub(crate) fn section<L: Limiter>(&self, limiter: &L, thread_state: &mut ThreadState) {
        match self {
            LoadState::Work(work_us) => burn(*work_us),
            LoadState::ContendedMutex(mutex) => {
                burn((WORK_US - MUTEX_US) / 2);
                let guard = lock(mutex);
                burn(MUTEX_US);
                drop(guard);
                burn((WORK_US - MUTEX_US) / 2);
            }
            LoadState::Socket(_) => burn(WORK_US),
            LoadState::HotRow(locks) => {
                burn(WORK_US / 2);
                let row = LockSystem::choose(&mut thread_state.random);
                locks.lock(row, &thread_state.waiter, limiter);
                burn(WORK_US / 2);
                locks.unlock(row);
            }
            LoadState::Disk => {
                burn(WORK_US / 2);
                limiter.wait_begin(WaitKind::Disk);
                // A sleep, not a thread that plays the disk: a device needs no CPU to serve a request,
                // has many channels, and its interrupt wakes the thread as a timer's does.
                std::thread::sleep(DISK);
                limiter.wait_end(WaitKind::Disk);
                burn(WORK_US / 2);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_a_name_of_its_own() {
        let mut names = Load::ALL.map(Load::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Load::ALL.len());
    }
}
