//! A thread: a handle of each peer, and a closed loop of operations.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use flifo::measure::admission::control::{Control, Phase};
use flifo::measure::thread_group::Driver;
use flifo::support::clock;
use flifo::support::error::Error;

use crate::actor::Actor;
use crate::store::{Done, Fail, Handle, Store};
use crate::workload::Workload;

/// The job of the threads for a cell.
#[derive(Clone)]
pub(crate) struct Job {
    /// Its place among the peers of the run.
    pub(crate) peer: usize,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) workload: Workload,
    pub(crate) rows: u64,
    pub(crate) seed: u64,
    pub(crate) round: u32,
    pub(crate) control: Arc<Control>,
}

/// What a thread has to say after a cell.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The sum that all its acknowledged operations added to counters, including operations before the window.
    pub(crate) updates: u64,
    /// The store's first error: it ends the cell. Its operation may have happened or not.
    pub(crate) error: Option<String>,
}

/// A thread of the run.
#[derive(Default)]
pub(crate) struct Worker {
    thread: usize,
    /// Made at a peer's first cell, and kept.
    handles: HashMap<usize, Box<dyn Handle>>,
}

impl Worker {
    pub(crate) fn new(thread: usize) -> Self {
        Worker { thread, handles: HashMap::new() }
    }

    /// Its number, and its handle of the job's peer.
    fn handle(&mut self, job: &Job) -> Done<(usize, &mut dyn Handle)> {
        let handle = match self.handles.entry(job.peer) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => place.insert(job.store.handle()?),
        };
        Ok((self.thread, handle.as_mut()))
    }
}

impl Driver for Worker {
    type Order = Job;
    type Report = Report;

    fn execute(&mut self, job: &Job) -> Result<Report, Error> {
        let mut report = Report::default();
        match self.handle(job) {
            Ok((thread, handle)) => {
                let actor = Actor::new(job.workload, job.rows, job.seed, job.round, thread);
                run(job, thread, actor, handle, &mut report);
            }
            Err(fail) => fails(&mut report, job, fail),
        }
        Ok(report)
    }

    fn failed(job: &Job) {
        job.control.give_up();
    }
}

fn run(job: &Job, thread: usize, mut actor: Actor, handle: &mut dyn Handle, report: &mut Report) {
    let control = &*job.control;
    let counters = control.counters(thread);
    // Touched before the start: the first writing of a page is not the store's time.
    counters.end_wait();
    control.arrive();
    let is_over = || control.phase() == Phase::Over;
    while !is_over() {
        let begun_ns = clock::now_ns();
        counters.begin_wait(begun_ns);
        let outcome = actor.operation(handle, &is_over);
        let ns = clock::now_ns() - begun_ns;
        counters.end_wait();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(fail) => return fails(report, job, fail),
        };
        report.updates += outcome.updates;
        if outcome.is_done {
            if control.phase() == Phase::Measure {
                counters.waited(ns);
                control.entered(ns, 1);
            }
            counters.retried(outcome.retries);
            counters.done();
        }
    }
}

fn fails(report: &mut Report, job: &Job, fail: Fail) {
    report.error = Some(match fail {
        Fail::Store(text) => text,
        Fail::Conflict => "another was in the way for too long".into(),
    });
    job.control.give_up();
}
