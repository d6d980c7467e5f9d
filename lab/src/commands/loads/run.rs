//! The steps of a plan, measured one after another on whatever runs them, and what becomes of the results.

use super::args::LoadArgs;
use super::plan::{Plan, Step};
use crate::commands::common::Ended;
use crate::commands::record;
use crate::commands::sweep::steps::Ran;
use crate::report::sweep::{cell_heading, cell_line};
use crate::report::{self, Outputs, Style};
use crate::results::record::of_results;
use crate::results::{CellKey, Failure, Results};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::output::check_all_writable;
use crate::support::progress::Progress;

/// What is measured.
pub(crate) trait Subject {
    /// What names the step's cell in the results.
    fn key(&self, step: &Step) -> CellKey;
    /// Runs one step.
    fn run(&mut self, step: &Step) -> Result<Ran, Error>;
}

/// Checks before anything is measured that the results can be written.
pub(crate) fn check_outputs(args: &LoadArgs, record: &str) -> Result<(), Error> {
    check_all_writable([&args.json, &args.html, &args.svg].into_iter().flatten())?;
    args.record.place(record).map(drop)
}

/// Measures all steps, prints and saves what came out: how the measuring ended, and whether all was written. `record` is
/// the name of the record.
pub(crate) fn measure_and_keep(
    (args, record): (&LoadArgs, &str),
    plan: &Plan,
    subject: &mut dyn Subject,
    progress: &Progress,
    mut results: Results,
    start: &Start,
) -> (Result<Ended, Error>, Result<(), Error>) {
    let measured = measure(plan, subject, progress, &mut results);
    results.elapsed_s = start.elapsed_s();
    results.interrupted = !matches!(measured, Ok(Ended::Done));
    let outputs =
        Outputs { json: args.json.as_deref(), html: args.html.as_deref(), svg: args.svg.as_deref() };
    // The measurements are worth keeping after any error, which is still returned.
    let kept = match measured {
        Ok(Ended::Interrupted) if results.cells.is_empty() => Err(Error::Interrupted),
        _ => report::keep(&results, outputs).map_err(Error::from),
    };
    let recorded = args
        .record
        .place(record)
        .and_then(|place| record::keep(place.as_ref(), results.interrupted, || of_results(&results)));
    (measured, kept.and(recorded))
}

fn measure(
    plan: &Plan,
    subject: &mut dyn Subject,
    progress: &Progress,
    results: &mut Results,
) -> Result<Ended, Error> {
    let mut bar = progress.sweep(plan.steps_total(), plan.settle + plan.time);
    bar.row(&cell_heading(Style::stdout()));
    for step in plan.steps() {
        if interrupt::is_requested() {
            bar.finish();
            return Ok(Ended::Interrupted);
        }
        bar.running(&plan.described(&step));
        let ran = subject.run(&step)?;
        if let Ran::Interrupted = ran {
            bar.finish();
            return Ok(Ended::Interrupted);
        }
        let measured = results.cell_mut(&subject.key(&step));
        match ran {
            Ran::Measured(round) => measured.push(*round),
            Ran::Failed(reason) => {
                bar.note(&format!("{}: {reason}", plan.described(&step)));
                measured.failures.push(Failure { round: step.round, reason });
            }
            Ran::Interrupted => {}
        }
        bar.advance();
        bar.cell_row(step.round, plan.rounds, || cell_line(measured, Style::stdout()));
    }
    bar.finish();
    Ok(Ended::Done)
}
