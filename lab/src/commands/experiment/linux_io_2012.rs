//! The study's matrix, measured by `iobench`.

use std::io::{Write as _, stdout};
use std::path::Path;
use std::time::Duration;

use super::args::LinuxIo2012Args;
use super::study::{minutes, record_name};
use crate::commands::common::Ended;
use crate::commands::iobench::plan::{Access, Lists, Plan};
use crate::commands::iobench::{failures, measure};
use crate::commands::record;
use crate::measure::storage::kinds::{Carrier, Mode, Workload};
use crate::report::iobench::IoReport;
use crate::report::iobench::linux_io_2012::{NAME, compare};
use crate::report::{self, Outputs};
use crate::results::Failure;
use crate::results::io::IoResults;
use crate::results::record::{ExperimentRun, of_experiment};
use crate::support::error::Error;
use crate::support::output::check_all_writable;

const BLOCKS: [u32; 2] = [4 << 10, 16 << 10];
const FILES: [u32; 4] = [1, 2, 4, 8];
/// A cell's and a round's time at scale 1.
const TIME_S: f64 = 5.0;
const TIME_MIN_S: f64 = 0.2;
const WARMUP_MAX: Duration = Duration::from_secs(1);

/// Runs `flifo experiment linux-io-2012`.
pub fn linux_io_2012(args: &LinuxIo2012Args) -> Result<Ended, Error> {
    let (results, ended) = measured(args)?;
    match (failures(&results), ended) {
        (_, Ended::Interrupted) if results.cells.is_empty() => Err(Error::Interrupted),
        (Some(error), Ended::Done) => Err(error),
        (_, ended) => Ok(ended),
    }
}

/// Measures, prints and saves: the results, and how the measuring ended.
pub(super) fn measured(args: &LinuxIo2012Args) -> Result<(IoResults, Ended), Error> {
    let plans = plans(args)?;
    check_all_writable([&args.json, &args.html].into_iter().flatten())?;
    let place = args.record.place(&record_name(NAME))?;
    // A closed output does not stop the run.
    let _ = writeln!(stdout(), "{}", announcement(&plans, args.scale));
    let (results, ended) = measure_all(&plans, measure)?;
    let report = IoReport { results: &results, with_advice: true };
    let outputs = Outputs { json: args.json.as_deref(), html: args.html.as_deref(), svg: None };
    let kept = report::keep(&report, outputs);
    let recorded = record::keep(place.as_ref(), results.interrupted, || {
        of_experiment(&ExperimentRun {
            command_line: &results.command_line,
            started_at: &results.started_at,
            scale: &args.scale.to_string(),
            claims: &compare(&results).unwrap_or_default(),
        })
    });
    kept?;
    recorded?;
    Ok((results, ended))
}

/// The device's, if one is named, then the directory's.
fn plans(args: &LinuxIo2012Args) -> Result<Vec<Plan>, Error> {
    let lists = lists(args.scale);
    let files = plan(&args.dir, &lists, args)?;
    if files.access != Access::Files {
        return Err(Error::Usage(format!(
            "{} is a device: name a directory on a file system, and the device with --device",
            args.dir.display()
        )));
    }
    let Some(device) = &args.device else { return Ok(vec![files]) };
    let reads = Lists { workloads: vec![Workload::RandomRead], modes: vec![Mode::Direct], ..lists };
    let raw = plan(device, &reads, args)?;
    if raw.access != Access::Device {
        return Err(Error::Usage(format!("--device {} is no block device", device.display())));
    }
    Ok(vec![Plan { size_bytes: None, ..raw }, files])
}

fn plan(path: &Path, lists: &Lists, args: &LinuxIo2012Args) -> Result<Plan, Error> {
    let time = Duration::from_secs_f64(args.time.unwrap_or((TIME_S * args.scale).max(TIME_MIN_S)));
    Ok(Plan {
        size_bytes: args.size,
        rounds: args.rounds,
        time,
        warmup: (time / 4).min(WARMUP_MAX),
        ..Plan::new(path, lists)?
    })
}

/// The matrix; thinned as the help of `--scale` says.
fn lists(scale: f64) -> Lists {
    let mut workloads = vec![Workload::RandomRead, Workload::RandomWrite, Workload::RandomMixed];
    let concurrency = if scale >= 0.5 {
        vec![1, 4, 16, 64, 128, 256]
    } else if scale >= 0.1 {
        vec![1, 4, 16, 64, 256]
    } else {
        workloads.pop();
        vec![4, 16, 64]
    };
    Lists {
        workloads,
        blocks: BLOCKS.into(),
        concurrency,
        files: FILES.into(),
        modes: vec![Mode::Direct, Mode::Fsync],
        carriers: vec![Carrier::Processes],
    }
}

/// What will be done, and how long it takes, before it begins.
fn announcement(plans: &[Plan], scale: f64) -> String {
    let cells: usize = plans.iter().map(|plan| plan.cells.len()).sum();
    let measured: Duration = plans.iter().map(|plan| plan.step_time() * plan.steps_total() as u32).sum();
    let Some(plan) = plans.last() else { return String::new() };
    let thinned = match scale {
        scale if scale >= 0.5 => "",
        scale if scale >= 0.1 => " (1, 4, 16, 64 and 256 processes)",
        _ => " (4, 16 and 64 processes, without the mixed workload)",
    };
    format!(
        "{NAME} on {}: {cells} cells{thinned}, {} rounds of {} s after {} s of load: {} besides the writing of \
         the files. --scale, --time and --size make it shorter",
        plan.path.display(),
        plan.rounds,
        plan.time.as_secs_f64(),
        plan.warmup.as_secs_f64(),
        minutes(measured)
    )
}

/// One after the other; what they have in common is of the last that could be measured, the directory's if it could.
/// Measurements of one place are kept even if the next one fails.
fn measure_all(
    plans: &[Plan],
    mut measure: impl FnMut(&Plan) -> Result<(IoResults, Ended), Error>,
) -> Result<(IoResults, Ended), Error> {
    let mut all: Option<(IoResults, Ended)> = None;
    for plan in plans {
        let so_far = match (measure(plan), all.take()) {
            (Ok(measured), None) => measured,
            (Ok((mut results, ended)), Some((before, _))) => {
                results.cells.splice(..0, before.cells);
                results.elapsed_s += before.elapsed_s;
                (results, ended)
            }
            (Err(error), None) => return Err(error),
            (Err(Error::Interrupted), Some((mut results, _))) => {
                results.interrupted = true;
                (results, Ended::Interrupted)
            }
            (Err(error), Some((mut results, ended))) => {
                let failure = Failure { round: 0, reason: error.to_string() };
                for cell in &plan.cells {
                    results.cell_mut(&cell.key()).failures.push(failure.clone());
                }
                (results, ended)
            }
        };
        let is_over = so_far.1 == Ended::Interrupted;
        all = Some(so_far);
        if is_over {
            break;
        }
    }
    let (mut results, ended) = all.ok_or(Error::Interrupted)?;
    results.experiment = NAME.into();
    Ok((results, ended))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::commands::cli::{Cli, Command};
    use crate::commands::experiment::args::ExperimentCommand;
    use crate::golden::Cases;
    use crate::report::Style;
    use crate::report::iobench::fixture;
    use crate::results::io::IoKey;
    use crate::results::published::linux_io_2012::LinuxIo2012;

    fn args(line: &str) -> LinuxIo2012Args {
        let words = ["flifo", "experiment", "linux-io-2012"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Command::Experiment(args) => match args.what {
                Some(ExperimentCommand::LinuxIo2012(args)) => args,
                _ => unreachable!("the study was given"),
            },
            _ => unreachable!("the experiment was given"),
        }
    }

    #[test]
    fn the_matrix_is_the_study_s() {
        let plans = plans(&args("/tmp")).unwrap();
        let study = LinuxIo2012::load();
        assert_eq!(plans.len(), 1);
        let cells = &plans[0].cells;
        // Reads know no sync: 2 sizes, 6 numbers of processes, 4 of files; the others twice that.
        assert_eq!(cells.len(), 48 + 96 + 96);
        let mut processes: Vec<u32> = cells.iter().map(|cell| cell.concurrency).collect();
        processes.sort_unstable();
        processes.dedup();
        assert_eq!(processes, study.io_processes);
        assert_eq!(BLOCKS.as_slice(), study.block_sizes);
        assert!(cells.iter().all(|cell| cell.carrier == Carrier::Processes));
        let mut cases = Cases::default();
        cases.add("all", announcement(&plans, 1.0));
        let short = self::plans(&args("/tmp --scale 0.001")).unwrap();
        cases.add("--scale 0.001", announcement(&short, 0.001));
        cases.check("linux-io-2012-announcement");
    }

    #[test]
    fn a_scale_thins_as_it_says() {
        let count = |scale: &str| plans(&args(&format!("/tmp --scale {scale}"))).unwrap()[0].cells.len();
        assert_eq!((count("1"), count("0.5"), count("0.2"), count("0.05")), (240, 240, 200, 72));
        let short = plans(&args("/tmp --scale 0.001")).unwrap();
        assert_eq!(short[0].time, Duration::from_secs_f64(TIME_MIN_S));
        let given = plans(&args("/tmp --scale 0.001 --time 2 --rounds 1 --size 64M")).unwrap();
        assert_eq!((given[0].time, given[0].rounds), (Duration::from_secs(2), 1));
        assert_eq!(given[0].size_bytes, Some(64 << 20));
        for wrong in ["0", "1.1", "-1", "x", "NaN"] {
            let words = ["flifo", "experiment", "linux-io-2012", "/tmp", "--scale", wrong];
            assert!(Cli::try_parse_from(words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn places_that_are_none() {
        let mut cases = Cases::default();
        for line in ["/no/such/place", "/tmp --device /tmp"] {
            cases.add(line, plans(&args(line)).unwrap_err());
        }
        cases.check("linux-io-2012-places");
    }

    /// What becomes of the device's cells if the directory's part ends with `error`.
    fn after_the_device(error: Error) -> (IoResults, Ended) {
        let raw = Plan { access: Access::Device, ..plans(&args("/tmp --scale 0.05")).unwrap().remove(0) };
        let files = plans(&args("/tmp --scale 0.05")).unwrap().remove(0);
        let device = fixture::cell(IoKey { access: "device".into(), ..IoKey::default() }, |_| 1.0);
        let results = IoResults { cells: vec![device], elapsed_s: 2.0, ..IoResults::default() };
        let mut answers = vec![Err(error), Ok((results, Ended::Done))];
        measure_all(&[raw, files], |_| answers.pop().unwrap()).unwrap()
    }

    #[test]
    fn what_was_measured_on_the_device_is_kept_whatever_becomes_of_the_files() {
        let (results, ended) = after_the_device(Error::Interrupted);
        assert_eq!((ended, results.interrupted, results.cells.len()), (Ended::Interrupted, true, 1));
        assert_eq!((results.elapsed_s, results.experiment.as_str()), (2.0, NAME));

        let (results, ended) = after_the_device(Error::Data("no room".into()));
        assert_eq!((ended, results.interrupted), (Ended::Done, false));
        assert_eq!((results.cells.len(), results.cells[0].failures.len()), (1 + 72, 0));
        let mut failed = results.cells[1..].iter().flat_map(|cell| &cell.failures);
        assert!(failed.clone().count() == 72 && failed.all(|failure| failure.reason == "no room"));
        assert!(failures(&results).unwrap().to_string().starts_with("72 of 73 cells failed"));
        let report = IoReport { results: &results, with_advice: true };
        let style = Style { colour: false, width: 120 };
        let shown = report::show(&report, Outputs::default(), style, &mut Vec::new());
        assert!(shown.is_ok());
    }

    #[test]
    fn the_places_stand_in_one_run() {
        let of = |access: &str| {
            let cell = fixture::cell(IoKey { access: access.into(), ..IoKey::default() }, |_| 1.0);
            IoResults { cells: vec![cell], elapsed_s: 1.0, started_at: access.into(), ..IoResults::default() }
        };
        let mut answers = vec![Ok((of("file"), Ended::Done)), Ok((of("device"), Ended::Done))];
        let plan = plans(&args("/tmp")).unwrap().remove(0);
        let (results, ended) = measure_all(&[plan.clone(), plan], |_| answers.pop().unwrap()).unwrap();
        let places: Vec<&str> = results.cells.iter().map(|cell| cell.key.access.as_str()).collect();
        assert_eq!((ended, places, results.elapsed_s), (Ended::Done, vec!["device", "file"], 2.0));
        assert_eq!(results.started_at, "file", "what they have in common is the directory's");
    }
}
