//! The sweep from its first line to its last.

use std::path::Path;

use flifo_admission::Config;
use flifo_engine::EngineConfig;

use super::cell::{self, Bench};
use super::plan::{Plan, Step};
use super::prepare::{self, DataSpec, Prepared};
use super::table_audit::TableAudit;
use crate::cli::{SweepArgs, TABLE_SIZE};
use crate::clock::Start;
use crate::command::{Ended, and_afterwards, command_line};
use crate::error::{EXIT_DATA, Error};
use crate::front::{Front, FrontKind, STACK_BYTES};
use crate::interrupt;
use crate::limits;
use crate::output::check_all_writable;
use crate::progress::Progress;
use crate::record;
use crate::report::{self, Style};
use crate::results::{CellKey, Failure, Results, Round, Settings};
use crate::sampler::Machine;
use crate::target;
use crate::workload::row::C_BYTES;
use crate::workload::{Workload, work};

/// What is measured: the embedded engine, or a server.
pub(crate) trait Subject {
    /// What names the step's cell in the results.
    fn key(&self, step: &Step) -> CellKey;
    /// Runs one step.
    fn run(&mut self, step: &Step) -> Result<Ran, Error>;
}

/// How a step ended.
pub(crate) enum Ran {
    Measured(Box<Round>),
    /// No figures, for this reason; the run continues.
    Failed(String),
    /// Ctrl-C cut it off.
    Interrupted,
}

/// Runs `flifo sweep`.
pub fn sweep(args: &SweepArgs) -> Result<Ended, Error> {
    let start = Start::now();
    let plan = Plan::new(args)?;
    check_all_writable([&args.json, &args.html, &args.svg].into_iter().flatten())?;
    args.record.place(name(args))?;
    match &args.target {
        Some(address) => target::sweep(args, address, plan, &start),
        None => sweep_engine(args, &plan, &start),
    }
}

fn sweep_engine(args: &SweepArgs, plan: &Plan, start: &Start) -> Result<Ended, Error> {
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
        Results::new(Machine::detect(&args.data), settings(args, plan, &data), command_line(), start.utc());
    let bench = Bench { database: &data.database, rows, seed: args.seed, front_kind: args.front };
    let mut subject = Engine { bench, plan, data: &data, audit: TableAudit::new(&data, rows), open: None };
    let (measured, kept) = measure_and_keep(args, plan, &mut subject, &progress, results, start);
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

/// Measures all steps, prints and saves what came out: how the measuring ended, and whether all was written.
pub(crate) fn measure_and_keep(
    args: &SweepArgs,
    plan: &Plan,
    subject: &mut dyn Subject,
    progress: &Progress,
    mut results: Results,
    start: &Start,
) -> (Result<Ended, Error>, Result<(), Error>) {
    let measured = measure(plan, subject, progress, &mut results, &interrupt::is_asked);
    results.elapsed_s = start.elapsed_s();
    results.interrupted = !matches!(measured, Ok(Ended::Done));

    // The measurements are worth keeping after any error, which is still returned.
    let kept = match measured {
        Ok(Ended::Interrupted) if results.cells.is_empty() => Err(Error::Interrupted),
        _ => report::keep(&results, args.json.as_deref(), args.html.as_deref(), args.svg.as_deref())
            .map_err(Error::Report),
    };
    let recorded = args
        .record
        .place(name(args))
        .and_then(|place| record::keep(place.as_ref(), results.interrupted, || record::of_results(&results)));
    (measured, kept.and(recorded))
}

/// The name of the run's record.
fn name(args: &SweepArgs) -> &'static str {
    if args.target.is_some() { "target-sweep" } else { "sweep" }
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
    bench: Bench<'a>,
    plan: &'a Plan,
    data: &'a Prepared,
    audit: TableAudit<'a>,
    open: Option<(u32, Front)>,
}

impl Subject for Engine<'_> {
    fn key(&self, step: &Step) -> CellKey {
        cell::key(step, self.plan, self.bench.front_kind)
    }

    fn run(&mut self, step: &Step) -> Result<Ran, Error> {
        let front = match &mut self.open {
            Some((threads, front)) if *threads == step.threads => front,
            _ => {
                // The old connections first: the limits were checked for the most at a time.
                drop(self.open.take());
                let Prepared { database, table, .. } = self.data;
                let front = Front::open(self.bench.front_kind, step.threads, database, table)?;
                &mut self.open.insert((step.threads, front)).1
            }
        };
        self.audit.before(step.workload)?;
        let (round, changes) = cell::run(&self.bench, self.plan, step, front)?;
        self.audit.after(step.workload, changes)?;
        Ok(round.map_or(Ran::Interrupted, |round| Ran::Measured(Box::new(round))))
    }
}

/// All steps in the plan's order, until `is_asked` to end.
fn measure(
    plan: &Plan,
    subject: &mut dyn Subject,
    progress: &Progress,
    results: &mut Results,
    is_asked: &dyn Fn() -> bool,
) -> Result<Ended, Error> {
    let mut bar = progress.sweep(plan.steps_total(), plan.settle + plan.time);
    bar.row(&report::cell_heading(Style::stdout()));
    for step in plan.steps() {
        // It may have come after the window closed: then the round counts. But its changes to the table are not reset,
        // so no round may follow.
        if is_asked() {
            bar.finish();
            return Ok(Ended::Interrupted);
        }
        bar.running(&describe(&step, plan));
        let ran = subject.run(&step)?;
        if let Ran::Interrupted = ran {
            bar.finish();
            return Ok(Ended::Interrupted);
        }
        let measured = results.cell_mut(&subject.key(&step));
        match ran {
            Ran::Measured(round) => measured.push(*round),
            Ran::Failed(reason) => {
                bar.note(&format!("{}: {reason}", describe(&step, plan)));
                measured.failures.push(Failure { round: step.round, reason });
            }
            Ran::Interrupted => {}
        }
        bar.advance();
        bar.cell_row(step.round, plan.rounds, || report::cell_line(measured, Style::stdout()));
    }
    bar.finish();
    Ok(Ended::Done)
}

fn describe(step: &Step, plan: &Plan) -> String {
    let limit = match step.setting.concurrency {
        0 => String::new(),
        limit => format!(" {limit}"),
    };
    format!(
        "{} {}{limit}, {} connection{}, round {} of {}",
        step.workload,
        step.setting.policy_name(),
        step.threads,
        if step.threads == 1 { "" } else { "s" },
        step.round + 1,
        plan.rounds
    )
}

fn engine_config(args: &SweepArgs) -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: args.buffer_pool.0,
        buffer_pool_instances: args.instances,
        data_files: args.data_files,
        ..args.engine.config()
    }
}

fn settings(args: &SweepArgs, plan: &Plan, data: &Prepared) -> Settings {
    let engine = data.database.stats();
    let config = args.engine.config();
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
        buffer_pool_bytes: args.buffer_pool.0,
        buffer_pool_instances: args.instances,
        data_files: engine.data_files,
        page_size_bytes: engine.page_size,
        direct_io: engine.direct_io,
        flush_log_at_trx_commit: Some(config.flush_log_at_trx_commit as u8),
        redo_capacity_bytes: Some(config.redo_capacity_bytes),
        rollback_segments: Some(config.rollback_segments),
        doublewrite: Some(config.doublewrite),
        ..Settings::default()
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
fn replies_bytes(front: FrontKind, plan: &Plan, threads: u32) -> u64 {
    let ranges = plan.workloads.iter().filter(|workload| workload.has_ranges());
    let rows = ranges.map(|workload| plan.range_of(*workload)).max().unwrap_or(1);
    let copies = if front == FrontKind::Socket { 3 } else { 2 };
    // Touched stack, kernel objects, histograms: some 64 KiB a thread.
    u64::from(threads) * (u64::from(rows) * C_BYTES as u64 * copies + (64 << 10))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    /// Every step has figures, and Ctrl-C comes when the window of one has closed.
    struct Late<'a> {
        runs: u32,
        is_asked: &'a Cell<bool>,
    }

    impl Subject for Late<'_> {
        fn key(&self, step: &Step) -> CellKey {
            CellKey { policy: step.setting.policy_name(), ..CellKey::default() }
        }

        fn run(&mut self, step: &Step) -> Result<Ran, Error> {
            self.runs += 1;
            self.is_asked.set(true);
            Ok(Ran::Measured(Box::new(Round { round: step.round, ..Round::default() })))
        }
    }

    fn measured(line: &str) -> (Ended, u32, usize) {
        let words = ["flifo", "sweep"].into_iter().chain(line.split_whitespace());
        let Command::Sweep(args) = Cli::try_parse_from(words).unwrap().command else { unreachable!() };
        let (plan, asked) = (Plan::new(&args).unwrap(), Cell::new(false));
        let mut results = Results::new(Machine::default(), Settings::default(), String::new(), String::new());
        let mut subject = Late { runs: 0, is_asked: &asked };
        let ended = measure(&plan, &mut subject, &Progress::new(), &mut results, &|| asked.get()).unwrap();
        (ended, subject.runs, results.cells.len())
    }

    #[test]
    fn no_step_follows_one_after_whose_window_ctrl_c_came() {
        assert_eq!(measured("--threads 1 --policy none,fifo"), (Ended::Interrupted, 1, 1));
        assert_eq!(measured("--threads 1 --policy none --rounds 1"), (Ended::Done, 1, 1), "it was the last");
    }
}
