//! A study as a plan of parts, and its run from the first line to the last.
//!
//! A part is a sweep of the embedded engine or of a server, or a load such as `flifo dbt2`, written as the options of that
//! command, so that everyone can repeat it alone. The parts run one after another; what was measured before an error or Ctrl-C is
//! kept.

use std::io::{Write as _, stdout};
use std::path::Path;
use std::time::Duration;

use clap::Parser as _;
use flifo_base::cpu_count;
use flifo_record::Record;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::args::{ScaleArgs, ServerArgs, StudyArgs};
use super::scale::Scale;
use crate::commands::cli::{Cli, Command};
use crate::commands::common::{Ended, command_line};
use crate::commands::sweep::args::SweepArgs;
use crate::commands::sweep::plan::Plan;
use crate::commands::{db_stress, dbt2, loads, record, sweep};
use crate::report::experiment::{self, ExperimentReport};
use crate::report::{self, Outputs};
use crate::results::Results;
use crate::results::experiment::{ExperimentResults, Part as MeasuredPart};
use crate::results::record::{ExperimentRun, of_experiment};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::format;
use crate::support::output::check_all_writable;

/// A study by its name, and its parts on the embedded engine.
#[derive(Clone, Copy)]
pub(crate) struct Study {
    pub(crate) name: &'static str,
    pub(crate) parts: fn(Scale<'_>) -> Vec<Part>,
}

/// One run of a study.
pub(crate) struct Part {
    /// The name, which the study's claims know.
    pub(crate) name: String,
    pub(crate) work: Work,
}

/// What a part does.
pub(crate) enum Work {
    /// A sweep.
    Sweep(Sweep),
    /// One of the workloads that have data of their own.
    Load(Load),
}

/// A load of the embedded engine.
pub(crate) struct Load {
    /// `dbt2` or `db-stress`.
    pub(crate) command: &'static str,
    /// The folder of its data.
    pub(crate) folder: String,
    /// The options of the command, except that of the directory.
    pub(crate) options: String,
    /// Options whose values follow from the parts before.
    pub(crate) sized: FromEarlier,
}

/// Options of a part, from the results so far.
pub(crate) type FromEarlier = Box<dyn Fn(&ExperimentResults) -> String>;

/// A sweep.
pub(crate) struct Sweep {
    /// The options of `flifo sweep`, except those of its subject.
    pub(crate) options: String,
    pub(crate) subject: Subject,
    /// Use only this many CPUs.
    pub(crate) cpus: Option<usize>,
}

/// What a sweep measures.
pub(crate) enum Subject {
    /// The embedded engine, on data with this number of rollback segments.
    Engine { rollback_segments: u32 },
    /// A live server.
    Server(Box<ServerArgs>),
}

impl Part {
    /// A sweep on data with the default number of rollback segments.
    pub(crate) fn sweep(name: &'static str, options: String) -> Part {
        Part::of(name, options, Subject::Engine { rollback_segments: 16 })
    }

    /// A sweep that uses all CPUs.
    pub(crate) fn of(name: &'static str, options: String, subject: Subject) -> Part {
        Part { name: name.into(), work: Work::Sweep(Sweep { options, subject, cpus: None }) }
    }
}

/// What a part is run with.
pub(crate) struct Setup<'a> {
    /// The directory for data: a part has a folder in it.
    pub(crate) data: &'a Path,
    /// Rows of the table.
    pub(crate) rows: u32,
}

impl Part {
    fn run(&self, setup: &Setup<'_>, earlier: &ExperimentResults) -> (Option<Results>, Result<Ended, Error>) {
        match &self.work {
            Work::Load(load) => load.run(setup, earlier),
            Work::Sweep(sweep) => match sweep.args(setup) {
                Ok(args) => sweep.run(&args, setup),
                Err(error) => (None, Err(error)),
            },
        }
    }

    /// Steps and their time, without loading.
    fn steps(&self, setup: &Setup<'_>) -> Result<(usize, Duration), Error> {
        match &self.work {
            Work::Sweep(sweep) => {
                let args = sweep.args(setup)?;
                let plan = Plan::new(&args)?;
                Ok((plan.steps_total(), (plan.settle + plan.time) * plan.steps_total() as u32))
            }
            Work::Load(load) => load.steps(setup),
        }
    }
}

impl Load {
    fn line(&self, setup: &Setup<'_>, earlier: &ExperimentResults) -> Vec<String> {
        let words = ["flifo", self.command].into_iter().chain(self.options.split_whitespace());
        let mut line: Vec<String> = words.map(str::to_owned).collect();
        line.extend((self.sized)(earlier).split_whitespace().map(str::to_owned));
        line.push(format!("--data={}", setup.data.join(&self.folder).display()));
        line
    }

    fn parsed(line: &[String]) -> Result<Command, Error> {
        Cli::try_parse_from(line)
            .map(|cli| cli.command)
            .map_err(|error| Error::Usage(error.to_string().lines().next().unwrap_or_default().to_owned()))
    }

    fn run(&self, setup: &Setup<'_>, earlier: &ExperimentResults) -> (Option<Results>, Result<Ended, Error>) {
        let line = self.line(setup, earlier);
        let typed = line.join(" ");
        match Self::parsed(&line) {
            Ok(Command::Dbt2(args)) => dbt2::part(&args, typed),
            Ok(Command::DbStress(args)) => db_stress::part(&args, typed),
            Ok(_) => (None, Err(Error::Usage("a part of a study is a sweep or a load".into()))),
            Err(error) => (None, Err(error)),
        }
    }

    fn steps(&self, setup: &Setup<'_>) -> Result<(usize, Duration), Error> {
        let args = match Self::parsed(&self.line(setup, &ExperimentResults::default()))? {
            Command::Dbt2(args) => args.load,
            Command::DbStress(args) => args.load,
            _ => return Err(Error::Usage("a part of a study is a sweep or a load".into())),
        };
        let plan = loads::plan::Plan::new(self.command, &args)?;
        Ok((plan.steps_total(), (plan.settle + plan.time) * plan.steps_total() as u32))
    }
}

impl Sweep {
    /// What repeats the sweep, without passwords.
    fn line(&self, setup: &Setup<'_>) -> Vec<String> {
        let words = ["flifo", "sweep"].into_iter().chain(self.options.split_whitespace());
        let mut line: Vec<String> = words.map(str::to_owned).collect();
        match &self.subject {
            Subject::Engine { rollback_segments } => {
                let folder = format!("rows-{}-segments-{rollback_segments}", setup.rows);
                line.push(format!("--rollback-segments={rollback_segments}"));
                line.push(format!("--data={}", setup.data.join(folder).display()));
            }
            Subject::Server(server) => {
                line.extend(server.target.iter().map(|address| format!("--target={address}")));
                line.extend(server.admin_target.iter().map(|address| format!("--admin-target={address}")));
            }
        }
        line
    }

    fn args(&self, setup: &Setup<'_>) -> Result<Box<SweepArgs>, Error> {
        match Cli::try_parse_from(self.line(setup)).map(|cli| cli.command) {
            Ok(Command::Sweep(mut args)) => {
                if let Subject::Server(server) = &self.subject {
                    // With their passwords.
                    args.target.clone_from(&server.target);
                    args.admin_target.clone_from(&server.admin_target);
                }
                Ok(args)
            }
            Ok(_) => Err(Error::Usage("a part of a study is a sweep".into())),
            Err(error) => Err(Error::Usage(error.to_string().lines().next().unwrap_or_default().to_owned())),
        }
    }

    fn run(&self, args: &SweepArgs, setup: &Setup<'_>) -> (Option<Results>, Result<Ended, Error>) {
        let mut line = self.line(setup).join(" ");
        let all = match self.cpus.map(only).transpose() {
            Ok(all) => all,
            Err(error) => return (None, Err(error)),
        };
        if let Some(cpus) = self.cpus {
            line = format!("taskset -c 0-{} {line}", cpus.saturating_sub(1));
        }
        let measured = sweep::part(args, line);
        if let Some(all) = all {
            // The threads of the next part are to have all CPUs again; what fails here has worked before.
            let _ = sched_setaffinity(None, &all);
        }
        measured
    }
}

/// Restricts this thread, and those that it starts, to the first `count` of its CPUs; returns the CPUs of before.
fn only(count: usize) -> Result<CpuSet, Error> {
    let failed = |errno: rustix::io::Errno| Error::System {
        what: "cannot choose the CPUs".into(),
        source: errno.into(),
        advice: "run flifo without restrictions on its CPUs",
    };
    let all = sched_getaffinity(None).map_err(failed)?;
    let mut few = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).take(count).for_each(|cpu| few.set(cpu));
    sched_setaffinity(None, &few).map_err(failed)?;
    Ok(all)
}

/// Half of the CPUs, if there are two or more.
pub(crate) fn half_of_the_cpus() -> Option<usize> {
    Some(cpu_count() / 2).filter(|half| *half > 0)
}

/// Runs `flifo experiment NAME`.
pub(super) fn run(study: &Study, args: &StudyArgs) -> Result<Ended, Error> {
    run_parts(study.name, (study.parts)(Scale::of(&args.scale)), args)
}

/// The same with these parts.
pub(super) fn run_parts(name: &str, parts: Vec<Part>, args: &StudyArgs) -> Result<Ended, Error> {
    check_all_writable([&args.json, &args.html].into_iter().flatten())?;
    let place = args.record.place(&record_name(name))?;
    let (results, ended) = measure(name, &parts, &args.scale, &args.data)?;
    let report = ExperimentReport { results: &results };
    let outputs = Outputs { json: args.json.as_deref(), html: args.html.as_deref(), svg: None };
    let kept = report::keep(&report, outputs).map_err(Error::from);
    let recorded = record::keep(place.as_ref(), results.interrupted, || recorded(&results));
    // The error of the run comes first.
    ended.and_then(|ended| kept.and(recorded).map(|()| ended))
}

/// The record of an experiment.
pub(super) fn recorded(results: &ExperimentResults) -> Record {
    of_experiment(&ExperimentRun {
        command_line: &results.command_line,
        started_at: &results.started_at,
        scale: &results.scale,
        claims: &results.claims,
    })
}

/// The name of a study's record.
pub(super) fn record_name(study: &str) -> String {
    format!("experiment-{study}")
}

/// Runs all parts and judges the claims: the results, and what ended the run. An error only if nothing was measured.
pub(super) fn measure(
    name: &str,
    parts: &[Part],
    scale: &ScaleArgs,
    data: &Path,
) -> Result<(ExperimentResults, Result<Ended, Error>), Error> {
    let (start, scale) = (Start::now(), Scale::of(scale));
    let setup = Setup { data, rows: scale.rows() };
    announce(name, parts, scale, &setup)?;
    make_directory(data)?;
    let mut results = ExperimentResults::new(name, scale.size().name(), command_line(), start.utc());
    let mut ended = Ok(Ended::Done);
    for (index, part) in parts.iter().enumerate() {
        // A closed output does not stop the run.
        let _ = writeln!(stdout(), "\n{name}, part {} of {}: {}", index + 1, parts.len(), part.name);
        let (run, part_ended) = part.run(&setup, &results);
        if let Some(run) = &run {
            results.machine = run.machine.clone();
        }
        results.parts.push(MeasuredPart { name: part.name.clone(), run });
        ended = part_ended;
        if !matches!(ended, Ok(Ended::Done)) {
            break;
        }
    }
    results.elapsed_s = start.elapsed_s();
    results.interrupted = !matches!(ended, Ok(Ended::Done));
    results.claims = experiment::judge(&results);
    let is_empty = results.runs().all(|run| run.cells.is_empty());
    match (is_empty, ended) {
        (true, Err(error)) => Err(error),
        (true, Ok(Ended::Interrupted)) => Err(Error::Interrupted),
        (_, ended) => Ok((results, ended)),
    }
}

/// Says what will be done, and how long it takes, before it begins.
fn announce(name: &str, parts: &[Part], scale: Scale<'_>, setup: &Setup<'_>) -> Result<(), Error> {
    let (mut steps, mut time) = (0, Duration::ZERO);
    for part in parts {
        let (part_steps, part_time) = part.steps(setup)?;
        steps += part_steps;
        time += part_time;
    }
    let about = experiment::study(name).map_or(String::new(), |study| study.about());
    // A closed output does not stop the run.
    let _ = writeln!(
        stdout(),
        "{name}: {about}\nScale {}: {}, {}, {} besides the loading.",
        scale.size().name(),
        format::counted(parts.len(), "part"),
        format::counted(steps, "cell"),
        minutes(time)
    );
    Ok(())
}

/// `40 s`, `12 min`.
pub(super) fn minutes(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

fn make_directory(data: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(data).map_err(|error| {
        Error::Data(format!(
            "cannot create {}: {error}; use a --data directory that this user may write to",
            data.display()
        ))
    })
}
