//! A worker of either kind: with one I/O at a time, or with a ring.

use std::sync::atomic::AtomicBool;

use super::blocking::Blocking;
use super::counters::IoCounters;
use super::job::{Failed, Job, Window};
use super::ring::Ring;

/// A worker with its files open.
pub(crate) enum Worker {
    Blocking(Box<Blocking>),
    Ring(Box<Ring>),
}

impl Worker {
    /// Opens the files and takes memory.
    pub(crate) fn open(job: Job) -> Result<Worker, Failed> {
        if job.ring_depth > 0 {
            Ring::open(job).map(|ring| Worker::Ring(Box::new(ring)))
        } else {
            Blocking::open(job).map(|worker| Worker::Blocking(Box::new(worker)))
        }
    }

    /// Works through the window; less if `stop` is set.
    pub(crate) fn run(self, window: Window, stop: &AtomicBool) -> Result<IoCounters, Failed> {
        match self {
            Worker::Blocking(worker) => worker.run(window, stop),
            Worker::Ring(worker) => worker.run(window, stop),
        }
    }
}
