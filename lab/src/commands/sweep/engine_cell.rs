//! One round of one cell: a new scheduler, a settled load, a window, and its counters.

use std::time::Duration;

use flifo_admission::{Admission, Snapshot};
use flifo_engine::{EngineStats, WaitReason};

use super::plan::{Plan, Step};
use crate::measure::engine::changes;
use crate::measure::frontend::{Frontend, FrontendKind, WindowCounters};
use crate::measure::sampler::{Sampler, Server};
use crate::measure::scheduler::{self, quantile_us};
use crate::measure::workload::{Load, Shape, Totals};
use crate::results::{CellKey, DiskFigures, Fairness, Round};
use crate::support::error::Error;
use crate::support::{clock, interrupt};
use flifo_engine::Database;

/// Time from the last sample of the counters and the run queue to the window's end. The clients end with
/// the window and roll back open transactions, which is not part of the load.
const LAST_SAMPLE_NS: u64 = 20_000_000;

/// What a step is run with, besides its plan.
pub(super) struct EngineSetup<'a> {
    pub(super) database: &'a Database,
    pub(super) rows: u32,
    pub(super) seed: u64,
    pub(super) frontend_kind: FrontendKind,
}

/// What scheduler and engine have counted until a moment.
struct Counted {
    at_ns: u64,
    admission: Snapshot,
    engine: EngineStats,
}

impl Counted {
    fn now(admission: &Admission, database: &Database) -> Self {
        let engine = database.stats();
        Counted { at_ns: clock::now_ns(), engine, admission: admission.snapshot() }
    }
}

/// What names the step's cell in the results.
pub(super) fn key(step: &Step, plan: &Plan, frontend: FrontendKind) -> CellKey {
    CellKey {
        target: "engine".into(),
        workload: step.workload.to_string(),
        front: frontend.name().into(),
        policy: step.setting.policy_name(),
        concurrency: step.setting.concurrency,
        tickets: plan.tickets,
        threads: step.threads,
        leave_on_read: step.setting.leave_on_read,
        ..CellKey::default()
    }
}

/// Runs one step; returns its figures, `None` after Ctrl-C, and its changes of the table.
pub(super) fn run(
    setup: &EngineSetup<'_>,
    plan: &Plan,
    step: &Step,
    frontend: &mut Frontend,
) -> Result<(Option<Round>, Totals), Error> {
    let admission =
        Admission::new(plan.admission(&step.setting)).map_err(|error| Error::Usage(error.to_string()))?;
    let shape = Shape {
        workload: step.workload,
        rows: setup.rows,
        range: plan.range_of(step.workload),
        work_us: plan.statement_work_us,
    };
    let load = Load::new(shape, step.seed(setup.seed), step.round);
    let window = frontend.begin(&admission, load, (plan.settle, plan.time))?;

    // An error of a driver, or Ctrl-C, closes the window early: the sleeps look for that.
    let mut interrupted = interrupt::sleep_until(|| window.start_ns().min(window.end_ns()));
    let mut sampler = Sampler::start(Server::RestOfThisProcess, frontend.client_tids().to_vec());
    let before = Counted::now(&admission, setup.database);
    let mut change_sampler = changes::ChangeSampler::from(window.start_ns(), &before.engine);
    interrupted = interrupted
        || interrupt::sleep_until(|| {
            change_sampler.sample(setup.database);
            window.end_ns().saturating_sub(LAST_SAMPLE_NS)
        });
    sampler.sample_run_queue();
    let after = Counted::now(&admission, setup.database);
    change_sampler.end(&after.engine, after.at_ns, window.end_ns());
    interrupted = interrupted || interrupt::sleep_until(|| window.end_ns());
    let mut samples = sampler.finish();
    change_sampler.note(&mut samples.seconds);
    if interrupted {
        window.cut();
    }
    let counters = frontend.finish()?;
    if interrupted {
        return Ok((None, counters.changes));
    }

    let elapsed = Duration::from_nanos(window.end_ns() - window.start_ns());
    let counted = Duration::from_nanos(after.at_ns - before.at_ns);
    let round =
        Round::new(step.round, elapsed.as_secs_f64(), counters.statements, counters.transactions, samples);
    let round = Round {
        p50_ms: counters.latency_ms(0.50),
        p95_ms: counters.latency_ms(0.95),
        p99_ms: counters.latency_ms(0.99),
        max_ms: latency_max_ms(&counters),
        admission: scheduler::figures(&after.admission.since(&before.admission)),
        fairness: Fairness::of(&counters.per_connection),
        disk: disk_figures(&before.engine, &after.engine, counted),
        changes: changes::figures(&before.engine, &after.engine, counted, &change_sampler),
        refusals: counters.retries.figures(),
        ..round.with_seconds(&counters.seconds)
    };
    Ok((Some(round), counters.changes))
}

/// The longest wait; there is one even if no transaction ended.
pub(crate) fn latency_max_ms(counters: &WindowCounters) -> Option<f64> {
    (counters.latency_ns_max > 0).then_some(counters.latency_ns_max as f64 / 1e6)
}

pub(crate) fn disk_figures(before: &EngineStats, after: &EngineStats, elapsed: Duration) -> DiskFigures {
    let waits = after.waits.since(&before.waits);
    let per_s = |now: u64, then: u64| Some((now - then) as f64 / elapsed.as_secs_f64());
    let read = |quantile| quantile_us(waits.waits_ns(WaitReason::DiskRead), quantile);
    DiskFigures {
        disk_reads_per_s: per_s(after.pool.reads, before.pool.reads),
        disk_writes_per_s: per_s(after.pool.writes, before.pool.writes),
        disk_read_p50_us: read(0.50),
        disk_read_p99_us: read(0.99),
        free_frame_waits_per_s: per_s(after.pool.free_frame_waits, before.pool.free_frame_waits),
    }
}
