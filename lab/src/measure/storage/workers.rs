//! The workers of a round, for every carrier.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use super::counters::IoCounters;
use super::job::{Failed, Job, Window};
use super::worker::Worker;
use crate::support::error::Error;
use crate::support::limits::SMALLER_CONCURRENCY;

/// Workers that are ready, with open files.
pub(crate) trait Workers {
    /// Sets when the workers start and stop.
    fn go(&mut self, window: Window);
    /// Whether a worker has failed, so that the round need not continue.
    fn has_failed(&self) -> bool;
    /// Ends the workers early; their counters are unusable then.
    fn stop(&mut self);
    /// Waits for all workers, and adds up their counters.
    fn finish(self: Box<Self>) -> Result<IoCounters, Failed>;
}

/// Nothing here calls deep; only touched pages cost memory.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// Workers as threads of this process.
pub(crate) struct Threads {
    members: Vec<Member>,
    /// Written once, at a failure or Ctrl-C.
    stop: Arc<AtomicBool>,
}

struct Member {
    window: Sender<Window>,
    thread: JoinHandle<Result<IoCounters, Failed>>,
}

impl Threads {
    /// A thread for each job. The error is a worker's, `Error::Cell`, or the system's that gives no thread.
    pub(crate) fn start(jobs: Vec<Job>) -> Result<Self, Error> {
        let mut workers = Threads { members: Vec::new(), stop: Arc::default() };
        let (tell, reports) = channel();
        for (place, job) in jobs.into_iter().enumerate() {
            let (window, windows) = channel();
            let (tell, stop) = (tell.clone(), Arc::clone(&workers.stop));
            let thread = Builder::new()
                .name(format!("io-{place}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let worked = catch_unwind(AssertUnwindSafe(|| work(job, tell, &windows, &stop)));
                    let worked = worked.unwrap_or_else(|_| Err(Failed("a worker panicked".into())));
                    if worked.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    worked
                })
                .map_err(|source| Error::thread(place as u64, source, SMALLER_CONCURRENCY))?;
            workers.members.push(Member { window, thread });
        }
        drop(tell);
        // The channel ends when all have said that they are ready, or have ended.
        if reports.into_iter().count() == workers.members.len() {
            return Ok(workers);
        }
        workers.stop();
        match Box::new(workers).finish() {
            Err(Failed(why)) => Err(Error::Cell(why)),
            Ok(_) => Err(Error::Cell("a worker did not start".into())),
        }
    }
}

/// Opens, says so, waits for the window, works.
fn work(
    job: Job,
    tell: Sender<()>,
    windows: &Receiver<Window>,
    stop: &AtomicBool,
) -> Result<IoCounters, Failed> {
    let worker = Worker::open(job)?;
    let _ = tell.send(());
    drop(tell);
    match windows.recv() {
        Ok(window) => worker.run(window, stop),
        Err(_) => Ok(IoCounters::new()),
    }
}

impl Workers for Threads {
    fn go(&mut self, window: Window) {
        for member in &self.members {
            // Fails only if the thread is gone, and then it says why at the end.
            let _ = member.window.send(window);
        }
    }

    fn has_failed(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn finish(mut self: Box<Self>) -> Result<IoCounters, Failed> {
        sum(self.members.drain(..).map(|member| {
            drop(member.window);
            member.thread.join().unwrap_or_else(|_| Err(Failed("a worker panicked".into())))
        }))
    }
}

/// Of all, or the first failure; all are waited for in any case.
pub(crate) fn sum(counters: impl Iterator<Item = Result<IoCounters, Failed>>) -> Result<IoCounters, Failed> {
    let (mut sum, mut failed) = (IoCounters::new(), None);
    for one in counters {
        match one {
            Ok(counters) => sum.merge(&counters),
            Err(failure) => {
                failed.get_or_insert(failure);
            }
        }
    }
    failed.map_or(Ok(sum), Err)
}
