//! The sweep from its first line to its last.

use std::path::Path;
use std::time::Instant;

use flifo_engine::EngineConfig;

use super::cell::{self, Bench};
use super::plan::{Plan, Step};
use super::prepare::{self, Prepared, Wanted};
use crate::cli::SweepArgs;
use crate::clock;
use crate::error::{EXIT_DATA, Error};
use crate::front::{Front, FrontKind, STACK_BYTES};
use crate::limits;
use crate::progress::Progress;
use crate::report::{self, Style};
use crate::results::{Results, Settings};
use crate::sampler::Machine;
use crate::workload::row::C_BYTES;
use crate::workload::{Workload, work};

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything was done.
    Done,
    /// Ctrl-C; what was measured is printed and saved.
    Interrupted,
}

/// Runs `flifo sweep`.
pub fn sweep(args: &SweepArgs) -> Result<Ended, Error> {
    let begun = Instant::now();
    let plan = Plan::new(args)?;
    for file in [&args.json, &args.html, &args.svg].into_iter().flatten() {
        check_writable(file)?;
    }
    check_limits(args, &plan)?;

    if plan.statement_work_us > 0 {
        work::prepare();
    }
    let progress = Progress::new();
    let config = engine_config(args);
    let wanted = Wanted { dir: &args.data, rows: args.table_size, seed: args.seed, config };
    let data = prepare::prepare(&wanted, &progress)?;
    let mut results = Results::new(
        Machine::detect(&args.data),
        settings(args, &plan, &data),
        command_line(),
        clock::utc_now(),
    );
    let outcome = measure(args, &plan, &data, &progress, &mut results);
    results.elapsed_s = begun.elapsed().as_secs_f64();
    results.interrupted = !matches!(outcome, Ok(Ended::Done));

    // What was measured is worth keeping, whatever ended the run; its error is told all the same.
    let kept = keep(args, &results);
    let ended = outcome.map_err(|error| with_remedy(error, &args.data))?;
    kept?;
    data.database.close()?;
    match ended {
        Ended::Interrupted if results.cells.is_empty() => Err(Error::Interrupted),
        ended => Ok(ended),
    }
}

/// Damaged data are found by whoever reads them; what to do about it depends on where they are.
fn with_remedy(error: Error, dir: &Path) -> Error {
    if error.exit_code() != EXIT_DATA || matches!(error, Error::Data(_)) {
        return error;
    }
    Error::Data(format!("{error} (to load anew: remove {})", dir.display()))
}

/// All steps in the plan's order.
fn measure(
    args: &SweepArgs,
    plan: &Plan,
    data: &Prepared,
    progress: &Progress,
    results: &mut Results,
) -> Result<Ended, Error> {
    let bench =
        Bench { database: &data.database, rows: args.table_size, seed: args.seed, front_kind: args.front };
    let mut bar = progress.sweep(plan.steps_total(), plan.settle + plan.time);
    bar.row(&report::cell_heading(Style::stdout()));
    let mut open: Option<(u32, Front)> = None;
    for step in plan.steps() {
        let front = match &mut open {
            Some((threads, front)) if *threads == step.threads => front,
            _ => {
                // The old connections first: the limits were checked for the most at a time.
                drop(open.take());
                let front = Front::open(args.front, step.threads, &data.database, &data.table)?;
                &mut open.insert((step.threads, front)).1
            }
        };
        bar.running(&describe(&step, plan));
        let Some(round) = cell::run(&bench, plan, &step, front)? else {
            bar.finish();
            return Ok(Ended::Interrupted);
        };
        let measured = results.cell_mut(&cell::key(&step, plan, bench.front_kind));
        measured.push(round);
        bar.advance();
        // The first round fills the table for who looks on, the last one has the medians.
        if step.round + 1 == plan.rounds {
            bar.row(&report::cell_line(measured, Style::stdout()));
        } else if step.round == 0 {
            bar.row_for_who_looks_on(&report::cell_line(measured, Style::stdout()));
        }
    }
    bar.finish();
    Ok(Ended::Done)
}

/// Prints and saves what was measured.
fn keep(args: &SweepArgs, results: &Results) -> Result<(), Error> {
    if results.cells.is_empty() {
        return Ok(());
    }
    if let Some(json) = &args.json {
        results.save(json).map_err(report::ReportError::from)?;
    }
    let mut out = std::io::stdout();
    Ok(report::show(results, args.html.as_deref(), args.svg.as_deref(), Style::stdout(), &mut out)?)
}

pub(crate) fn command_line() -> String {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn describe(step: &Step, plan: &Plan) -> String {
    let limit =
        if step.setting.concurrency > 0 { format!(" {}", step.setting.concurrency) } else { String::new() };
    format!(
        "{} {}{limit}, {} connection{}, round {} of {}",
        step.workload.name(),
        step.setting.policy,
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
        ..EngineConfig::default()
    }
}

fn settings(args: &SweepArgs, plan: &Plan, data: &Prepared) -> Settings {
    let engine = data.database.stats();
    Settings {
        rows: args.table_size.into(),
        range_size: plan.range_size.into(),
        statement_work_us: plan.statement_work_us.into(),
        seed: args.seed,
        rounds: plan.rounds,
        round_s: plan.time.as_secs_f64(),
        warmup_s: plan.settle.as_secs_f64(),
        buffer_pool_bytes: args.buffer_pool.0,
        buffer_pool_instances: args.instances,
        data_files: engine.data_files,
        page_size_bytes: engine.page_size,
        direct_io: engine.direct_io,
        ..Settings::default()
    }
}

/// What the run takes of the system, asked before anything is touched.
fn check_limits(args: &SweepArgs, plan: &Plan) -> Result<(), Error> {
    let threads = plan.threads_max();
    limits::descriptors(args.front.descriptors(threads) + u64::from(args.data_files))?;
    limits::threads(args.front.threads(threads) + u64::from(args.instances))?;
    limits::stacks(args.front.threads(threads), STACK_BYTES as u64)?;
    limits::memory(args.buffer_pool.0, replies_bytes(args.front, plan, threads))
}

/// A connection keeps its largest reply, a sorted copy of it, and what is under way in its socket.
fn replies_bytes(front: FrontKind, plan: &Plan, threads: u32) -> u64 {
    let rows = if plan.workloads.contains(&Workload::ReadOnly) { plan.range_size } else { 1 };
    let copies = if front == FrontKind::Socket { 3 } else { 2 };
    // Touched stack, kernel objects, histograms: some 64 KiB a thread.
    u64::from(threads) * (u64::from(rows) * C_BYTES as u64 * copies + (64 << 10))
}

/// Says no now rather than after minutes of measuring.
pub fn check_writable(file: &Path) -> Result<(), Error> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let wrong = if file.is_dir() {
        "it is a directory".into()
    } else {
        match rustix::fs::access(dir, rustix::fs::Access::WRITE_OK) {
            Ok(()) => return Ok(()),
            Err(errno) => std::io::Error::from(errno).to_string(),
        }
    };
    Err(Error::Usage(format!(
        "cannot write {}: {wrong}; name a file in a directory that exists and is writable",
        file.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_written_are_found_before_the_run() {
        let temp = tempfile::tempdir().unwrap();
        assert!(check_writable(&temp.path().join("a.json")).is_ok());
        assert!(check_writable(Path::new("a.json")).is_ok());
        assert!(check_writable(&temp.path().join("no/a.json")).is_err());
        assert!(check_writable(temp.path()).is_err());
    }
}
