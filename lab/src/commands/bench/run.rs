//! The bench from its first line to its last.

use std::path::Path;

use super::args::AdmissionArgs;
use super::cell::{self, Rig};
use super::plan::{Plan, Step};
use crate::commands::common::{Ended, and_afterwards, command_line, step_in_words};
use crate::commands::record;
use crate::measure::admission::load::Load;
use crate::measure::sampler;
use crate::measure::workload::work;
use crate::report::sweep::{entry_heading, entry_line};
use crate::report::{self, Outputs, Style};
use crate::results::record::of_results;
use crate::results::{Results, Settings};
use crate::support::clock::Start;
use crate::support::error::{Error, WriteError};
use crate::support::limits;
use crate::support::output::{check_all_writable, check_writable};
use crate::support::progress::Progress;

/// What a thread takes of memory: touched stack, kernel objects, its session, its sockets' buffers.
const THREAD_BYTES: u64 = 64 << 10;

/// Runs `flifo bench admission`.
pub fn admission(args: &AdmissionArgs) -> Result<Ended, Error> {
    let start = Start::now();
    let machine = sampler::machine(Path::new("."));
    let plan = Plan::new(args, machine.cores.max(1))?;
    check_all_writable([&args.json, &args.html].into_iter().flatten())?;
    if let Some(dir) = &args.svg {
        std::fs::create_dir_all(dir).map_err(|source| WriteError { path: dir.clone(), source })?;
        check_writable(&dir.join("load.svg"))?;
    }
    let place = args.record.place("admission")?;
    check_limits(&plan)?;
    precise_sleeps();
    work::prepare();

    let settings = Settings {
        seed: plan.seed,
        lock_waiters_max: plan.lock_waiters_max,
        quantum_us: plan.quantum.as_micros() as u64,
        rounds: plan.rounds,
        round_s: plan.time.as_secs_f64(),
        warmup_s: plan.settle.as_secs_f64(),
        ..Settings::default()
    };
    let mut results = Results::new(machine, settings, command_line(), start.utc());
    let outcome = measure(&plan, &mut results);
    results.elapsed_s = start.elapsed_s();
    results.interrupted = !matches!(outcome, Ok(Ended::Done));

    // The measurements are kept after any error, which is reported as well.
    let outputs =
        Outputs { json: args.json.as_deref(), html: args.html.as_deref(), svg: args.svg.as_deref() };
    let kept = report::keep(&results, outputs);
    let recorded = record::keep(place.as_ref(), results.interrupted, || of_results(&results));
    match and_afterwards(outcome, kept.map_err(Error::from).and(recorded), &Progress::new())? {
        Ended::Interrupted if results.cells.is_empty() => Err(Error::Interrupted),
        ended => Ok(ended),
    }
}

/// All steps in the plan's order.
fn measure(plan: &Plan, results: &mut Results) -> Result<Ended, Error> {
    let mut bar = Progress::new().sweep(plan.steps_total(), plan.settle + plan.time);
    bar.row(&entry_heading(Style::stdout()));
    let mut kept: Option<Rig> = None;
    for step in plan.steps() {
        let rig = match kept.take().filter(|rig| rig.threads() == step.threads) {
            Some(rig) => kept.insert(rig),
            // The old threads are gone first: the limits were checked for the most at a time.
            None => kept.insert(Rig::new(step.threads, step.load)?),
        };
        rig.set(step.load)?;
        bar.running(&describe(&step, plan));
        let Some(round) = cell::run(plan, &step, rig)? else {
            bar.finish();
            return Ok(Ended::Interrupted);
        };
        let measured = results.cell_mut(&cell::key(&step));
        measured.push(round);
        bar.advance();
        bar.cell_row(step.round, plan.rounds, || entry_line(measured, Style::stdout()));
    }
    bar.finish();
    Ok(Ended::Done)
}

fn describe(step: &Step, plan: &Plan) -> String {
    let what = format!("{} {}", step.load.name(), step.setting.variant.name());
    step_in_words(&what, step.setting.concurrency, (step.threads, "thread"), (step.round, plan.rounds))
}

/// What the run takes of the system, asked before anything is started.
fn check_limits(plan: &Plan) -> Result<(), Error> {
    let threads = plan.threads_max();
    let most = |figure: fn(Load, u32) -> u64| plan.loads.iter().map(|load| figure(*load, threads)).max();
    limits::descriptors(most(Load::descriptors).unwrap_or(0), limits::FEWER_THREADS)?;
    limits::threads(u64::from(threads), limits::FEWER_THREADS)?;
    limits::stacks(u64::from(threads), cell::STACK_BYTES as u64, limits::FEWER_THREADS)?;
    limits::thread_memory(u64::from(threads), u64::from(threads) * THREAD_BYTES, limits::FEWER_THREADS)
}

/// A sleep of 100 us shall take that, not the 50 us more that the kernel may add to save wake-ups. Threads
/// inherit it.
fn precise_sleeps() {
    // Without it the load `disk` has a slower disk: no reason not to run.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}
