//! InnoDB's mutex of 2005 to 2012: spin, then wait in the sync array for a broadcast.
//!
//! ```text
//! acquire   spin while it is held, N rounds at most; give up the CPU once; try
//!           reserve a cell of the array, set `waiters`, try four times more
//!           wait for the next signal; free the cell; from the beginning
//! release   clear `held`; if `waiters`: clear it, and signal: every waiter wakes
//! ```
//! Woken threads race for the mutex with each other and with newcomers. All but one of them lose, spin, and wait again:
//! the thundering herd of the 2011 study.
//!
//! No wake-up is lost: a waiter reads the number of signals, sets `waiters`, and then looks at `held`; a release clears
//! `held` and then looks at `waiters`. Both are sequentially consistent, so one of the two sees the other. The number of
//! signals changes under its lock, so that a signal between the look and the wait ends the wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread;

use flifo_base::{lock, unpoison};

use crate::support::clock;

/// A round of spinning: InnoDB waits for some tens of PAUSE instructions, which took about this long then.
const ROUND_NS: u64 = 500;
/// Tries after a cell is reserved.
const TRIES: u32 = 4;

/// A mutex without data.
pub(super) struct SyncArray {
    spins: u32,
    held: AtomicBool,
    /// Whether a thread waits, or is about to.
    waiters: AtomicBool,
    /// Reserved cells: the array has a mutex of its own, which every waiter takes twice.
    cells: Mutex<u32>,
    /// How often the event was signalled.
    signals: Mutex<u64>,
    event: Condvar,
}

impl SyncArray {
    pub(super) fn new(spins: u32) -> Self {
        SyncArray {
            spins,
            held: AtomicBool::new(false),
            waiters: AtomicBool::new(false),
            cells: Mutex::new(0),
            signals: Mutex::new(0),
            event: Condvar::new(),
        }
    }

    fn try_acquire(&self) -> bool {
        !self.held.swap(true, Ordering::SeqCst)
    }

    pub(super) fn acquire(&self) {
        loop {
            let mut round = 0;
            while round < self.spins && self.held.load(Ordering::Relaxed) {
                let until_ns = clock::now_ns() + ROUND_NS;
                while clock::now_ns() < until_ns {
                    std::hint::spin_loop();
                }
                round += 1;
            }
            if round == self.spins && self.held.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            if self.try_acquire() {
                return;
            }
            *lock(&self.cells) += 1;
            let seen = *lock(&self.signals);
            self.waiters.store(true, Ordering::SeqCst);
            let acquired = (0..TRIES).any(|_| self.try_acquire());
            if !acquired {
                self.wait(seen);
            }
            *lock(&self.cells) -= 1;
            if acquired {
                return;
            }
        }
    }

    fn wait(&self, seen: u64) {
        let mut signals = lock(&self.signals);
        while *signals == seen {
            signals = unpoison(self.event.wait(signals));
        }
    }

    pub(super) fn release(&self) {
        self.held.store(false, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) {
            self.waiters.store(false, Ordering::SeqCst);
            *lock(&self.signals) += 1;
            self.event.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Fails if the threads hang: a lost wake-up leaves all of them waiting.
    fn within_a_minute(run: impl FnOnce() + Send + 'static) {
        let (sender, receiver) = mpsc::channel();
        let runner = thread::spawn(move || {
            run();
            let _ = sender.send(());
        });
        match receiver.recv_timeout(Duration::from_secs(60)) {
            Ok(()) => runner.join().unwrap(),
            Err(mpsc::RecvTimeoutError::Disconnected) => runner.join().unwrap(),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a wake-up was lost"),
        }
    }

    #[test]
    fn one_thread_at_a_time_and_no_wake_up_is_lost() {
        const THREADS: u64 = 16;
        const TURNS: u64 = 3_000;
        for spins in [0, 1, 30] {
            within_a_minute(move || {
                let (array, inside, done) =
                    (SyncArray::new(spins), AtomicBool::new(false), AtomicU64::new(0));
                thread::scope(|scope| {
                    for thread in 0..THREADS {
                        let (array, inside, done) = (&array, &inside, &done);
                        scope.spawn(move || {
                            for turn in 0..TURNS {
                                array.acquire();
                                assert!(!inside.swap(true, Ordering::SeqCst), "two threads hold it");
                                // A holder that loses its CPU is what makes others wait.
                                if (turn + thread) % 64 == 0 {
                                    thread::yield_now();
                                }
                                inside.store(false, Ordering::SeqCst);
                                done.fetch_add(1, Ordering::Relaxed);
                                array.release();
                            }
                        });
                    }
                });
                assert_eq!(done.into_inner(), THREADS * TURNS);
                assert_eq!(*lock(&array.cells), 0);
            });
        }
    }

    #[test]
    fn a_release_wakes_every_waiter() {
        within_a_minute(|| {
            let array = SyncArray::new(0);
            array.acquire();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        array.acquire();
                        array.release();
                    });
                }
                while *lock(&array.cells) < 4 {
                    thread::yield_now();
                }
                let before = *lock(&array.signals);
                array.release();
                while *lock(&array.cells) > 0 {
                    thread::yield_now();
                }
                assert!(*lock(&array.signals) > before);
            });
        });
    }
}
