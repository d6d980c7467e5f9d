//! One round of one cell: all threads ready, warm-up, a window, and a check of the rows.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flifo::measure::admission::control::{Control, Phase};
use flifo::measure::sampler::{Sampler, Server};
use flifo::measure::thread_group::ThreadGroup;
use flifo::support::error::Error;
use flifo::support::{clock, interrupt};

use crate::actor::Scanned;
use crate::plan::{Plan, Step};
use crate::results::Round;
use crate::store::{Done, Fail, Store};
use crate::worker::{Job, Report, Worker};
use crate::workload::Workload;

/// Stack of a thread: the stores call deeper than a loop does. Only touched pages cost memory.
pub(crate) const STACK_BYTES: usize = 1 << 20;
/// For all threads to come to the start, with their connections.
const ARRIVE: Duration = Duration::from_secs(120);

/// A peer's database, and what its rows must add up to.
pub(crate) struct Base {
    pub(crate) store: Arc<dyn Store>,
    /// Acknowledged updates since the load; `None` after an error, which may have happened or not.
    pub(crate) updates: Option<u64>,
    /// A thread did not come out of it: it is measured no more.
    pub(crate) is_stuck: bool,
}

/// How a step ended.
pub(crate) enum Ended {
    Measured(Box<Round>),
    Interrupted,
    /// Why there are no figures.
    Failed(String),
}

/// The threads, kept from cell to cell.
pub(crate) struct Rig {
    threads: u32,
    workers: ThreadGroup<Job, Report>,
    is_stuck: bool,
}

impl Rig {
    pub(crate) fn new(threads: u32) -> Result<Self, Error> {
        let workers =
            ThreadGroup::start_threads("peers", STACK_BYTES, (0..threads as usize).map(Worker::new))?;
        Ok(Rig { threads, workers, is_stuck: false })
    }

    /// Whether there are enough threads for a step of `threads` threads.
    pub(crate) fn fits(&self, threads: u32) -> bool {
        self.threads == threads && !self.is_stuck
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if self.is_stuck {
            self.workers.abandon();
        } else {
            self.workers.close();
        }
    }
}

/// Runs one step on a peer's database, and checks its changes.
pub(crate) fn run(plan: &Plan, step: &Step, rig: &mut Rig, base: &mut Base) -> Result<Ended, Error> {
    let before = match counters_before(plan, step, base) {
        Ok(before) => before,
        Err(fail) => return Ok(Ended::Failed(text(fail))),
    };
    let control = Arc::new(Control::new(rig.threads, false));
    rig.workers.send(&Job {
        peer: step.peer,
        store: Arc::clone(&base.store),
        workload: step.workload,
        rows: plan.rows,
        seed: plan.seed,
        round: step.round,
        control: Arc::clone(&control),
    });
    let all_there = wait_for_all(&control, rig.threads);
    control.open();
    let (mut round, interrupted) = measure(plan, step, &control);

    let over = Instant::now();
    let reports = match rig.workers.collect_within(plan.patience) {
        Ok(reports) => reports,
        Err(error) => {
            // A panic in a store: its threads still exist, its state is unknown.
            (rig.is_stuck, base.is_stuck) = (true, true);
            return Ok(Ended::Failed(format!("{error}; it is measured no more")));
        }
    };
    round.drain_s = over.elapsed().as_secs_f64();
    let blocked = reports.iter().filter(|report| report.is_none()).count();
    if blocked > 0 {
        (rig.is_stuck, base.is_stuck) = (true, true);
        let patience = plan.patience.as_secs_f64();
        return Ok(Ended::Failed(format!(
            "{blocked} of {} threads did not come out of it within {patience} s of the end: it is measured no more",
            rig.threads
        )));
    }
    let reports: Vec<Report> = reports.into_iter().flatten().collect();
    let acknowledged = reports.iter().map(|report| report.updates).sum();
    if let Some(error) = reports.into_iter().find_map(|report| report.error) {
        base.updates = None;
        return Ok(Ended::Failed(error));
    }
    if let Err(fail) = check(plan, step, base, before, acknowledged) {
        base.updates = None;
        return Ok(Ended::Failed(text(fail)));
    }
    round.updates_checked = step.workload.writes().then_some(acknowledged);
    if !all_there {
        return Ok(Ended::Failed(format!("not all threads were at the start within {} s", ARRIVE.as_secs())));
    }
    Ok(if interrupted { Ended::Interrupted } else { Ended::Measured(Box::new(round)) })
}

/// Warms up, measures a window, and ends the threads' work.
fn measure(plan: &Plan, step: &Step, control: &Control) -> (Round, bool) {
    let interrupted = sleep(control, plan.warmup);
    control.go_to(Phase::Measure);
    let before = control.read();
    let sampler = Sampler::start(Server::RestOfThisProcess, Vec::new());
    let interrupted = interrupted || sleep(control, plan.time);
    let after = control.read();
    let longest_ns = control.longest_ns(after.at_ns);
    // Before the threads stop: the run queue shall be the load's.
    let host = sampler.finish().totals;
    control.go_to(Phase::Over);
    (Round::new(step.round, &before, &after, longest_ns, host), interrupted)
}

/// Waits until every thread is ready, or one has failed; false if they do not get ready in time.
fn wait_for_all(control: &Control, threads: u32) -> bool {
    let until = Instant::now() + ARRIVE;
    while control.arrived() < threads && control.phase() != Phase::Over {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Sleeps until the time has passed, a thread has failed, or Ctrl-C came, for which it is true.
fn sleep(control: &Control, time: Duration) -> bool {
    let until_ns = clock::now_ns() + clock::ns(time);
    interrupt::sleep_until(|| if control.phase() == Phase::Over { 0 } else { until_ns })
}

/// The rows that a workload may change: the first ones.
fn rows_changed(plan: &Plan, workload: Workload) -> u64 {
    match workload {
        Workload::HotRows(hot) => hot,
        _ => plan.rows,
    }
}

/// What the rows add up to before a cell that changes them: as far as that is known it need not be read, but of few.
fn counters_before(plan: &Plan, step: &Step, base: &Base) -> Done<u64> {
    match (step.workload, base.updates) {
        (workload, _) if !workload.writes() => Ok(0),
        (Workload::HotRows(_), _) | (_, None) => counters(&*base.store, rows_changed(plan, step.workload)),
        (_, Some(updates)) => Ok(updates),
    }
}

/// Every acknowledged update must be in the rows, and nothing else.
fn check(plan: &Plan, step: &Step, base: &mut Base, before: u64, acknowledged: u64) -> Done {
    if !step.workload.writes() {
        return Ok(());
    }
    let found = counters(&*base.store, rows_changed(plan, step.workload))?;
    let expected = before + acknowledged;
    if found != expected {
        return Err(Fail::Store(format!(
            "UPDATES WERE {}: {acknowledged} were acknowledged, and the rows have {} more than before",
            if found < expected { "LOST" } else { "DONE TWICE" },
            i128::from(found) - i128::from(before)
        )));
    }
    base.updates = match (step.workload, base.updates) {
        (Workload::HotRows(_), known) => known.map(|updates| updates + acknowledged),
        _ => Some(found),
    };
    Ok(())
}

/// What the counters of the first rows add up to; all must be there.
pub(crate) fn counters(store: &dyn Store, rows: u64) -> Done<u64> {
    let mut scanned = Scanned::default();
    // One more than there may be.
    store.handle()?.scan(0, rows as usize + 1, &mut |id, value| {
        if id < rows {
            scanned.row(id, value);
        }
    })?;
    scanned.check(0, rows)?;
    Ok(scanned.updates)
}

/// Brings a peer to rest after a cell, so that its neighbour does not pay for it.
pub(crate) fn settle(step: &Step, base: &Base, dir: &Path) -> Done {
    if !step.workload.writes() {
        return Ok(());
    }
    base.store.settle()?;
    let dir = std::fs::File::open(dir).map_err(Fail::store)?;
    rustix::fs::syncfs(dir).map_err(Fail::store)
}

/// The error as text.
pub(crate) fn text(fail: Fail) -> String {
    match fail {
        Fail::Store(text) => text,
        Fail::Conflict => "another transaction was in the way".into(),
    }
}

#[cfg(test)]
mod tests;
