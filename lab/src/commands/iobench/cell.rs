//! One round of one cell.

use std::time::Duration;

use super::plan::{Cell, Plan};
use crate::measure::storage::blocklayer::Counters;
use crate::measure::storage::job::{Failed, Job, Window};
use crate::measure::storage::kinds::{Carrier, Workload};
use crate::measure::storage::processes::Pool;
use crate::measure::storage::set::Set;
use crate::measure::storage::workers::{Threads, Workers};
use crate::results::io::IoRound;
use crate::support::error::Error;
use crate::support::interrupt;

/// The state kept from cell to cell.
pub(super) struct Rig<'a> {
    pub(super) plan: &'a Plan,
    /// In `/sys/block`; empty if it is not known.
    pub(super) device: String,
    pub(super) pool: Pool,
}

impl Rig<'_> {
    /// Runs a cell once; `None` if Ctrl-C cut it off. `Error::Cell` if it failed: the next one may not.
    pub(super) fn run(&mut self, cell: &Cell, round: u32, set: &Set) -> Result<Option<IoRound>, Error> {
        set.forget_cache();
        let jobs = self.jobs(cell, round, set);
        let mut workers: Box<dyn Workers + '_> = match cell.carrier {
            Carrier::Processes => self.pool.start(&jobs)?,
            Carrier::Threads | Carrier::IoUring => Box::new(Threads::start(jobs)?),
        };
        let window = Window::soon(self.plan.warmup, self.plan.time);
        workers.go(window);
        let is_over = |until_ns: u64| move |has_failed: bool| if has_failed { 0 } else { until_ns };
        let mut interrupted = interrupt::sleep_until(|| is_over(window.from_ns)(workers.has_failed()));
        let before = Counters::read(&self.device);
        interrupted =
            interrupted || interrupt::sleep_until(|| is_over(window.until_ns)(workers.has_failed()));
        let after = Counters::read(&self.device);
        if interrupted {
            workers.stop();
        }
        let counters = workers.finish();
        if interrupted {
            return Ok(None);
        }
        let counters = counters.map_err(|Failed(why)| Error::Cell(why))?;
        if cell.workload.writes() {
            set.sync().map_err(|error| Error::Cell(format!("syncing at the end of the round: {error}")))?;
        }
        let elapsed_s = window.elapsed_s();
        Ok(Some(IoRound {
            block_layer: after.zip(before).map(|(after, before)| after.since(&before, elapsed_s)),
            ..counters.round(round, elapsed_s, cell.block_bytes)
        }))
    }

    fn jobs(&self, cell: &Cell, round: u32, set: &Set) -> Vec<Job> {
        let (workers, ring_depth) = match cell.carrier {
            Carrier::IoUring => (1, cell.concurrency),
            Carrier::Processes | Carrier::Threads => (cell.concurrency, 0),
        };
        let job = |worker| Job {
            files: set.paths.iter().map(|path| path.clone().into_os_string()).collect(),
            file_bytes: set.file_bytes,
            workload: cell.workload,
            mode: cell.mode,
            block_bytes: cell.block_bytes,
            read_share_pct: self.plan.read_share_pct,
            batch_blocks: self.plan.batch_blocks,
            seed: self.plan.seed_of(cell, round),
            worker,
            workers,
            ring_depth,
        };
        (0..workers).map(job).collect()
    }
}

/// Files that a cell has open at the same time, and threads or processes that it starts.
pub(super) fn needs(cell: &Cell) -> (u64, u64) {
    let (concurrency, files) = (u64::from(cell.concurrency), u64::from(cell.files.max(1)));
    match cell.carrier {
        Carrier::IoUring => (files, 1),
        Carrier::Threads => (concurrency * files, concurrency),
        // Two pipes each, and files of their own.
        Carrier::Processes => (concurrency * 2, concurrency),
    }
}

/// Memory for what a cell reads and writes.
pub(super) fn memory_bytes(cell: &Cell, batch_blocks: u32) -> u64 {
    let blocks = if cell.workload == Workload::Doublewrite { batch_blocks } else { 1 };
    u64::from(cell.concurrency) * u64::from(blocks) * u64::from(cell.block_bytes)
}

/// How long a round takes beyond its own time, at least: starting, ending, a last sync.
pub(super) const OVERHEAD: Duration = Duration::from_millis(20);
