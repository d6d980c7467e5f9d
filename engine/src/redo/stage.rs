//! A stage of group commit: frames are written, then synced. One thread leads, the others wait for their LSN.
//!
//! A thread that finds the stage's lock free leads, for all that are behind it. A thread that finds it taken parks with
//! the LSN that it waits for. After the leader has released the lock, it wakes all threads whose LSN is reached, and
//! the first one whose LSN is not: that thread leads next, for all that have come since. So under load one write, or
//! one sync, serves all threads that came during the previous one (group commit; the leader-follower scheme of MySQL's
//! binary log, and of MariaDB's `group_commit_lock`, which has the same two stages).
//!
//! # No lost wake-up
//! `leading` is set under the lock and cleared before the leader searches the parked threads. A thread parks only if,
//! under the parking lot's own lock, it sees `leading` and its LSN not reached: then the leader's search comes later,
//! and finds it. A thread that is woken to lead does so, or finds that another leads, which then searches the parked
//! threads in turn, or that the log has stopped, and wakes all.

use std::sync::OnceLock;
#[cfg(not(shuttle))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(shuttle)]
use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use flifo_base::{unpoison, unpoison_try};

use super::parking::ParkingLot;
use super::stopped;
use crate::error::Result;
use crate::page::Lsn;
use crate::wait::poll;

/// Why nothing is written any more, once it is so.
pub(super) type Stop = OnceLock<String>;

pub(super) struct Stage<T> {
    /// What the leader works with.
    state: Mutex<T>,
    leading: AtomicBool,
    /// All before it has passed. Grows, under the lock.
    reached: AtomicU64,
    /// So often a follower polls for its LSN before it parks.
    polls: u32,
    followers: ParkingLot,
}

impl<T> Stage<T> {
    /// All before `reached` has passed. `polls`: see [`Self::follow`].
    pub(super) fn new(reached: Lsn, polls: u32, state: T) -> Self {
        Stage {
            state: Mutex::new(state),
            leading: AtomicBool::new(false),
            reached: AtomicU64::new(reached.0),
            polls,
            followers: ParkingLot::new(),
        }
    }

    pub(super) fn reached(&self) -> Lsn {
        Lsn(self.reached.load(Ordering::Acquire))
    }

    /// The leader has come so far.
    pub(super) fn advance(&self, to: Lsn) {
        self.reached.store(to.0, Ordering::Release);
    }

    /// Takes the lock, without a leader.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        unpoison(self.state.lock())
    }

    /// Returns once all frames before `lsn` have passed: leads, or waits for a leader.
    pub(super) fn reach(&self, lsn: Lsn, stop: &Stop, lead: impl Fn(&mut T) -> Result<()>) -> Result<()> {
        while self.reached() < lsn {
            self.step(lsn, stop, &lead)?;
        }
        Ok(())
    }

    /// Leads once, or waits for a leader or for `lsn`. An error of the leader stops the log.
    pub(super) fn step(&self, lsn: Lsn, stop: &Stop, lead: impl Fn(&mut T) -> Result<()>) -> Result<()> {
        if let Err(error) = check(stop) {
            // It may have been woken to lead, and another stage's leader stopped the log.
            self.wake(stop);
            return Err(error);
        }
        self.lead(stop, lead).unwrap_or_else(|| {
            self.follow(lsn, stop);
            Ok(())
        })
    }

    /// Whether a thread leads, as of just now.
    pub(super) fn is_led(&self) -> bool {
        self.leading.load(Ordering::Relaxed)
    }

    /// Leads once, unless another does: then `None`. What stops the leader stops the log.
    pub(super) fn lead(&self, stop: &Stop, lead: impl Fn(&mut T) -> Result<()>) -> Option<Result<()>> {
        let mut state = self.try_lead()?;
        let led = lead(&mut state);
        if let Err(error) = &led {
            let _ = stop.set(format!("the redo log: {error}"));
        }
        self.leading.store(false, Ordering::SeqCst);
        drop(state);
        self.wake(stop);
        Some(led)
    }

    fn try_lead(&self) -> Option<MutexGuard<'_, T>> {
        let lead = unpoison_try(self.state.try_lock())?;
        self.leading.store(true, Ordering::SeqCst);
        Some(lead)
    }

    /// Waits for the leader, or for `lsn`; may return early. Polls first: if a leader's work is shorter than a wake-up,
    /// sleeping would leave the stage without a leader for that long, and cost the leader the system call.
    fn follow(&self, lsn: Lsn, stop: &Stop) {
        let waits = || self.leading.load(Ordering::SeqCst) && self.reached() < lsn;
        if !poll(self.polls, || !waits()) {
            self.followers.park(lsn, || waits() && stop.get().is_none());
        }
        // The lock is released just after `leading` is cleared.
        super::parking::pause();
    }

    /// Wakes all threads whose LSN is reached, and one other to lead; all if the log has stopped.
    pub(super) fn wake(&self, stop: &Stop) {
        let all = stop.get().is_some();
        let mut leader = false;
        self.followers.wake(|lsn| {
            let next_leader = !all && self.reached() < lsn;
            if next_leader && leader {
                return false;
            }
            leader |= next_leader;
            true
        });
    }
}

/// An error if the log has stopped.
pub(super) fn check(stop: &Stop) -> Result<()> {
    stop.get().map_or(Ok(()), |what| Err(stopped(what)))
}

/// Random and adversarial schedules of both stages: no thread waits forever, and none returns too early.
#[cfg(all(test, shuttle))]
mod schedules {
    use std::sync::Arc;

    use shuttle::{rand::Rng, thread};

    use super::*;
    use crate::schedules::{adversarial, random};

    const THREADS: usize = 4;

    /// As the writer has them.
    struct Log {
        appended: AtomicU64,
        writing: Stage<()>,
        syncing: Stage<()>,
        stop: Stop,
        fails: bool,
    }

    impl Log {
        fn write(&self) -> Result<()> {
            let appended = self.appended.load(Ordering::SeqCst);
            thread::yield_now();
            if self.fails && appended > 2 {
                return Err(stopped("the disk is gone"));
            }
            self.writing.advance(Lsn(appended));
            Ok(())
        }

        fn sync(&self, lsn: Lsn) -> Result<()> {
            self.writing.step(lsn, &self.stop, |()| self.write())?;
            self.writing.reach(lsn, &self.stop, |()| self.write())?;
            let written = self.writing.reached();
            thread::yield_now();
            self.syncing.advance(written);
            Ok(())
        }

        fn commit(&self) {
            let lsn = Lsn(self.appended.fetch_add(1, Ordering::SeqCst) + 1);
            let (stage, reached) = match shuttle::rand::thread_rng().gen_bool(0.5) {
                true => (&self.writing, self.writing.reach(lsn, &self.stop, |()| self.write())),
                false => (&self.syncing, self.syncing.reach(lsn, &self.stop, |()| self.sync(lsn))),
            };
            match reached {
                Ok(()) => assert!(stage.reached() >= lsn),
                Err(_) => assert!(self.fails),
            }
            assert!(self.syncing.reached() <= self.writing.reached());
        }
    }

    fn commits(fails: bool) {
        let log = Arc::new(Log {
            appended: AtomicU64::new(0),
            writing: Stage::new(Lsn(0), 1, ()),
            syncing: Stage::new(Lsn(0), 0, ()),
            stop: Stop::new(),
            fails,
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let log = Arc::clone(&log);
                thread::spawn(move || (0..2).for_each(|_| log.commit()))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn nobody_waits_for_ever() {
        for fails in [false, true] {
            random(move || commits(fails));
            adversarial(move || commits(fails));
        }
    }
}
