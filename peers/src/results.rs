//! The results of a run as JSON: every key carries its unit as its last word; an unmeasured figure is `null`.

use std::time::Duration;

use flifo::measure::admission::control::Reading;
use flifo::measure::scheduler::quantile_us;
use flifo::results::HostFigures;
use flifo::results::Machine;
use flifo::support::statistics::{Spread, paired_ratio};
use serde::Serialize;

use crate::plan::{LeftOut, Plan, Step};

/// A whole run.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// The layout's version: 1.
    pub(crate) schema: u32,
    pub(crate) command_line: String,
    /// UTC.
    pub(crate) started_at: String,
    pub(crate) elapsed_s: f64,
    /// Stopped before every cell had all its rounds, by Ctrl-C or an error.
    pub(crate) interrupted: bool,
    pub(crate) machine: Machine,
    pub(crate) settings: RunSettings,
    pub(crate) peers: Vec<Peer>,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) cells: Vec<Cell>,
    /// What went wrong, a line each.
    pub(crate) failures: Vec<String>,
}

/// What holds for every cell.
#[derive(Debug, Serialize)]
pub(crate) struct RunSettings {
    pub(crate) durability: &'static str,
    pub(crate) durability_promise: &'static str,
    pub(crate) rows: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) rounds: u32,
    pub(crate) round_s: f64,
    pub(crate) warmup_s: f64,
    pub(crate) seed: u64,
    /// flifo's.
    pub(crate) policy: String,
    /// flifo's.
    pub(crate) thread_concurrency: u32,
}

/// The description of a peer.
#[derive(Debug, Serialize)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) version: String,
    /// `null` if it has none of this promise.
    pub(crate) durability_setting: Option<&'static str>,
    pub(crate) writers: &'static str,
    pub(crate) memory: &'static str,
    pub(crate) load: &'static str,
    pub(crate) settle: &'static str,
}

/// All rounds of a peer under a workload with one number of threads.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) workload: String,
    pub(crate) threads: u32,
    pub(crate) peer: &'static str,
    /// What an operation is.
    pub(crate) unit: &'static str,
    pub(crate) rounds: Vec<Round>,
}

/// One round of a cell.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Round {
    /// Counts from 0; rounds of the same number pair.
    pub(crate) round: u32,
    /// The measured window; of a load the time from the first row until all were durable.
    pub(crate) elapsed_s: f64,
    /// That ended within the window.
    pub(crate) operations: u64,
    pub(crate) operations_per_s: f64,
    /// Of an operation, its retries included.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    /// Including operations that had not ended when the window did.
    pub(crate) longest_us: Option<f64>,
    /// Tries of these operations that failed because of a conflict with another transaction.
    pub(crate) retries: u64,
    /// From the end of the window until the last thread was out of the store.
    pub(crate) drain_s: f64,
    /// Acknowledged updates in the cell that its rows were checked for, including updates outside the window; `null` if
    /// it does not write.
    pub(crate) updates_checked: Option<u64>,
    #[serde(flatten)]
    pub(crate) host: HostFigures,
}

impl Round {
    /// Out of two readings of the threads' counters.
    pub(crate) fn new(
        round: u32,
        before: &Reading,
        after: &Reading,
        longest_ns: u64,
        host: HostFigures,
    ) -> Self {
        let elapsed = Duration::from_nanos(after.at_ns - before.at_ns).as_secs_f64();
        let operations = after.statements.iter().sum::<u64>() - before.statements.iter().sum::<u64>();
        let times = after.entered_ns.wrapping_sub(&before.entered_ns).expect("all have one shape");
        Round {
            round,
            elapsed_s: elapsed,
            operations,
            operations_per_s: operations as f64 / elapsed,
            retries: after.retries - before.retries,
            p50_us: quantile_us(&times, 0.50),
            p99_us: quantile_us(&times, 0.99),
            longest_us: (longest_ns > 0).then_some(longest_ns as f64 / 1e3),
            host,
            ..Round::default()
        }
    }

    /// Percent of all CPUs that other programs used.
    pub(crate) fn others(&self) -> Option<f64> {
        let host = &self.host;
        Some((host.cpu_user? + host.cpu_system? - host.cpu_server?).max(0.0))
    }
}

impl Cell {
    /// A figure of each round, with its number.
    pub(crate) fn rounds_of(&self, figure: impl Fn(&Round) -> Option<f64>) -> Vec<(u32, f64)> {
        self.rounds.iter().filter_map(|round| Some((round.round, figure(round)?))).collect()
    }

    /// Median and spread of a figure.
    pub(crate) fn spread(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds_of(figure).into_iter().map(|(_, value)| value))
    }

    pub(crate) fn per_s(&self) -> Option<Spread> {
        self.spread(|round| Some(round.operations_per_s))
    }
}

impl Results {
    /// The cell of a step, made if need be.
    pub(crate) fn cell_mut(&mut self, plan: &Plan, step: &Step) -> &mut Cell {
        let (workload, peer) = (step.workload.to_string(), plan.peers[step.peer].about.name);
        let is_it =
            |cell: &Cell| cell.workload == workload && cell.threads == step.threads && cell.peer == peer;
        let place = self.cells.iter().position(is_it).unwrap_or_else(|| {
            let (threads, unit) = (step.threads, step.workload.unit());
            self.cells.push(Cell { workload: workload.clone(), threads, peer, unit, rounds: Vec::new() });
            self.cells.len() - 1
        });
        &mut self.cells[place]
    }

    pub(crate) fn cell(&self, workload: &str, threads: u32, peer: &str) -> Option<&Cell> {
        self.cells.iter().find(|c| c.workload == workload && c.threads == threads && c.peer == peer)
    }

    /// flifo's throughput by another peer's, of paired rounds, and how many pairs there are: one in which the peer did
    /// nothing has no ratio.
    pub(crate) fn ratio(&self, engine: &str, cell: &Cell) -> (Option<Spread>, usize) {
        let Some(engine) = self.cell(&cell.workload, cell.threads, engine) else { return (None, 0) };
        let per_s = |cell: &Cell| cell.rounds_of(|round| Some(round.operations_per_s));
        let (engine, its) = (per_s(engine), per_s(cell));
        let pairs = its.iter().filter(|(round, _)| engine.iter().any(|(other, _)| other == round)).count();
        (paired_ratio(&engine, &its), pairs)
    }
}
