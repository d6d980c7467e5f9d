//! The steps of a plan, measured one after another on whatever runs them, and what becomes of the results.

use std::time::Duration;

use super::common::Ended;
use super::record::{self, RecordArgs};
use crate::report::sweep::{cell_heading, cell_line};
use crate::report::{self, Outputs, Style};
use crate::results::record::of_results;
use crate::results::{CellKey, Failure, Results, Round};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::interrupt;
use crate::support::progress::Progress;

/// A plan of steps. A step is one round of one cell.
pub(crate) trait Steps {
    type Step;
    /// All steps in their order.
    fn steps(&self) -> Vec<Self::Step>;
    /// The time of a step.
    fn step_time(&self) -> Duration;
    /// The number of rounds.
    fn rounds(&self) -> u32;
    /// A step's round, from 0.
    fn round_of(step: &Self::Step) -> u32;
    /// A step in words, for the progress bar.
    fn described(&self, step: &Self::Step) -> String;
}

/// What is measured: the embedded engine, or a server.
pub(crate) trait Subject<Step> {
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

/// Takes the results at the end of the steps, whatever ended them; returns whether all was written.
pub(crate) type Keep<'a> = dyn FnMut(Results, &Result<Ended, Error>) -> Result<(), Error> + 'a;

/// Measures all steps and passes on what came out: how the measuring ended, and what `keep` returned.
pub(crate) fn measure_and_keep<P: Steps>(
    keep: &mut Keep<'_>,
    plan: &P,
    subject: &mut dyn Subject<P::Step>,
    progress: &Progress,
    mut results: Results,
    start: &Start,
) -> (Result<Ended, Error>, Result<(), Error>) {
    let measured = measure(plan, subject, progress, &mut results, &interrupt::is_requested);
    results.elapsed_s = start.elapsed_s();
    results.interrupted = !matches!(measured, Ok(Ended::Done));
    let kept = keep(results, &measured);
    (measured, kept)
}

/// Prints and saves the results, and records them under this name, as the options say.
pub(crate) fn keep_as_requested(
    outputs: Outputs<'_>,
    (args, name): (&RecordArgs, &str),
    results: &Results,
    measured: &Result<Ended, Error>,
) -> Result<(), Error> {
    // The measurements are worth keeping after any error, which is still returned.
    let kept = match measured {
        Ok(Ended::Interrupted) if results.cells.is_empty() => Err(Error::Interrupted),
        _ => report::keep(results, outputs).map_err(Error::from),
    };
    let recorded = args
        .place(name)
        .and_then(|place| record::keep(place.as_ref(), results.interrupted, || of_results(results)));
    kept.and(recorded)
}

/// All steps in the plan's order, until `is_requested` to end.
fn measure<P: Steps>(
    plan: &P,
    subject: &mut dyn Subject<P::Step>,
    progress: &Progress,
    results: &mut Results,
    is_requested: &dyn Fn() -> bool,
) -> Result<Ended, Error> {
    let steps = plan.steps();
    let mut bar = progress.sweep(steps.len(), plan.step_time());
    bar.row(&cell_heading(Style::stdout()));
    for step in steps {
        // It may have come after the window closed: then the round counts. But its changes to the table are not reset,
        // so no round may follow.
        if is_requested() {
            bar.finish();
            return Ok(Ended::Interrupted);
        }
        bar.running(&plan.described(&step));
        let ran = subject.run(&step)?;
        if let Ran::Interrupted = ran {
            bar.finish();
            return Ok(Ended::Interrupted);
        }
        let (measured, round) = (results.cell_mut(&subject.key(&step)), P::round_of(&step));
        match ran {
            Ran::Measured(figures) => measured.push(*figures),
            Ran::Failed(reason) => {
                bar.note(&format!("{}: {reason}", plan.described(&step)));
                measured.failures.push(Failure { round, reason });
            }
            Ran::Interrupted => {}
        }
        bar.advance();
        bar.cell_row(round, plan.rounds(), || cell_line(measured, Style::stdout()));
    }
    bar.finish();
    Ok(Ended::Done)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use clap::Parser as _;

    use super::*;
    use crate::commands::cli::{Cli, Command};
    use crate::commands::sweep::plan::{Plan, Step};
    use crate::results::{Machine, Settings};

    /// Every step has figures, and Ctrl-C comes when the window of one has closed.
    struct Late<'a> {
        runs: u32,
        is_requested: &'a Cell<bool>,
    }

    impl Subject<Step> for Late<'_> {
        fn key(&self, step: &Step) -> CellKey {
            CellKey { policy: step.setting.policy_name(), ..CellKey::default() }
        }

        fn run(&mut self, step: &Step) -> Result<Ran, Error> {
            self.runs += 1;
            self.is_requested.set(true);
            Ok(Ran::Measured(Box::new(Round { round: step.round, ..Round::default() })))
        }
    }

    fn measured(line: &str) -> (Ended, u32, usize) {
        let words = ["flifo", "sweep"].into_iter().chain(line.split_whitespace());
        let Command::Sweep(args) = Cli::try_parse_from(words).unwrap().command else { unreachable!() };
        let (plan, asked) = (Plan::new(&args).unwrap(), Cell::new(false));
        let mut results = Results::new(Machine::default(), Settings::default(), String::new(), String::new());
        let mut subject = Late { runs: 0, is_requested: &asked };
        let ended = measure(&plan, &mut subject, &Progress::new(), &mut results, &|| asked.get()).unwrap();
        (ended, subject.runs, results.cells.len())
    }

    #[test]
    fn no_step_follows_one_after_whose_window_ctrl_c_came() {
        assert_eq!(
            measured("--threads 1 --workload point-select --policy none,fifo"),
            (Ended::Interrupted, 1, 1)
        );
        assert_eq!(
            measured("--threads 1 --workload point-select --policy none --rounds 1"),
            (Ended::Done, 1, 1),
            "it was the last"
        );
    }
}
