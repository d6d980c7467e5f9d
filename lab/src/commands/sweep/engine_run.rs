//! A sweep of the embedded engine from its first line to its last.

use std::path::Path;

use flifo_admission::Config;
use flifo_engine::EngineConfig;

use super::args::{SweepArgs, TABLE_SIZE};
use super::engine_args::engine_settings;
use super::engine_cell::{self, EngineSetup};
use super::plan::{Plan, Step};
use crate::commands::common::{Ended, and_afterwards, command_line};
use crate::commands::steps::{Keep, Ran, Subject, keep_as_requested, measure_and_keep};
use crate::measure::engine::prepare::{self, DataSpec, Prepared};
use crate::measure::engine::table_audit::TableAudit;
use crate::measure::frontend::{Frontend, FrontendKind, STACK_BYTES};
use crate::measure::sampler;
use crate::measure::workload::row::C_BYTES;
use crate::measure::workload::{Workload, work};
use crate::results::{CellKey, Results, Settings};
use crate::support::clock::Start;
use crate::support::error::{EXIT_DATA, Error};
use crate::support::limits;
use crate::support::progress::Progress;

/// `flifo sweep` without `--target`.
pub(super) fn sweep(args: &SweepArgs, plan: &Plan, start: &Start) -> Result<Ended, Error> {
    run(args, plan, start, command_line(), &mut |results, measured| {
        keep_as_requested(args.outputs(), (&args.record, args.record_name()), &results, measured)
    })
}

/// A sweep of the embedded engine, whose results `keep` takes; `command_line` is what repeats it.
pub(super) fn run(
    args: &SweepArgs,
    plan: &Plan,
    start: &Start,
    command_line: String,
    keep: &mut Keep<'_>,
) -> Result<Ended, Error> {
    check_limits(args, plan)?;
    if plan.statement_work_us > 0 {
        work::prepare();
    }
    let progress = Progress::new();
    let config = engine_config(args);
    let rows = args.table_size.unwrap_or(TABLE_SIZE);
    let wanted = DataSpec { dir: &args.data, rows, seed: args.seed, config };
    let data = prepare::prepare(&wanted, &progress)?;
    let results =
        Results::new(sampler::machine(&args.data), settings(args, plan, &data), command_line, start.utc());
    let setup = EngineSetup { database: &data.database, rows, seed: args.seed, frontend_kind: args.front };
    let mut subject = Engine {
        setup,
        plan,
        data: &data,
        audit: TableAudit::new(&data.database, &data.table, rows, data.totals),
        open: None,
    };
    let (measured, kept) = measure_and_keep(keep, plan, &mut subject, &progress, results, start);
    // The connections' sessions end first: no changes follow.
    drop(subject.open.take());
    // Even if some output failed: without the final audit the next run counts the table again.
    let closed = measured.and_then(|ended| subject.audit.close(&progress).map(|()| ended));
    drop(subject);
    let closed = closed
        .map_err(|error| with_remedy(error, &args.data))
        .and_then(|ended| Ok(data.database.close().map(|()| ended)?));
    and_afterwards(closed, kept, &progress)
}

/// Adds the remedy for damaged data, which depends on their directory.
fn with_remedy(error: Error, dir: &Path) -> Error {
    if error.exit_code() != EXIT_DATA || matches!(error, Error::Data(_)) {
        return error;
    }
    Error::Data(format!("{error} (to load again: remove {})", dir.display()))
}

/// The embedded engine.
struct Engine<'a> {
    setup: EngineSetup<'a>,
    plan: &'a Plan,
    data: &'a Prepared,
    audit: TableAudit<'a>,
    open: Option<(u32, Frontend)>,
}

impl Subject<Step> for Engine<'_> {
    fn key(&self, step: &Step) -> CellKey {
        engine_cell::key(step, self.plan, self.setup.frontend_kind)
    }

    fn run(&mut self, step: &Step) -> Result<Ran, Error> {
        let frontend = match &mut self.open {
            Some((threads, frontend)) if *threads == step.threads => frontend,
            _ => {
                // The old connections first: the limits were checked for the most at a time.
                drop(self.open.take());
                let Prepared { database, table, .. } = self.data;
                let frontend = Frontend::open(self.setup.frontend_kind, step.threads, database, table)?;
                &mut self.open.insert((step.threads, frontend)).1
            }
        };
        self.audit.before(step.workload)?;
        let (round, changes) = engine_cell::run(&self.setup, self.plan, step, frontend)?;
        self.audit.after(step.workload, changes)?;
        Ok(round.map_or(Ran::Interrupted, |round| Ran::Measured(Box::new(round))))
    }
}

fn engine_config(args: &SweepArgs) -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: args.buffer_pool.0,
        buffer_pool_instances: args.instances,
        data_files: args.data_files,
        publish_stats: true,
        ..args.config()
    }
}

fn settings(args: &SweepArgs, plan: &Plan, data: &Prepared) -> Settings {
    // Whatever the setting, the scheduler has the rest by default.
    let admission = Config::default();
    Settings {
        rows: args.table_size.unwrap_or(TABLE_SIZE).into(),
        range_size: plan.range_size.into(),
        read_write_range_size: plan.range_of(Workload::ReadWrite).into(),
        statement_work_us: plan.statement_work_us.into(),
        lock_waiters_max: admission.lock_waiters_max,
        quantum_us: plan.quantum.as_micros() as u64,
        seed: args.seed,
        rounds: plan.rounds,
        round_s: plan.time.as_secs_f64(),
        warmup_s: plan.settle.as_secs_f64(),
        ..engine_settings(&engine_config(args), &data.database.stats())
    }
}

/// What the run takes of the system, asked before anything is touched.
fn check_limits(args: &SweepArgs, plan: &Plan) -> Result<(), Error> {
    let threads = plan.threads_max();
    limits::descriptors(args.front.descriptors(threads) + u64::from(args.data_files), limits::FEWER_THREADS)?;
    limits::threads(args.front.threads(threads) + u64::from(args.instances), limits::FEWER_THREADS)?;
    limits::stacks(args.front.threads(threads), STACK_BYTES as u64, limits::FEWER_THREADS)?;
    limits::memory(args.buffer_pool.0, replies_bytes(args.front, plan, threads))
}

/// Memory of a connection: its largest reply, a sorted copy of it, and data in its socket.
fn replies_bytes(frontend: FrontendKind, plan: &Plan, threads: u32) -> u64 {
    let ranges = plan.workloads.iter().filter(|workload| workload.has_ranges());
    let rows = ranges.map(|workload| plan.range_of(*workload)).max().unwrap_or(1);
    let copies = if frontend == FrontendKind::Socket { 3 } else { 2 };
    // Touched stack, kernel objects, histograms: some 64 KiB a thread.
    u64::from(threads) * (u64::from(rows) * C_BYTES as u64 * copies + (64 << 10))
}
