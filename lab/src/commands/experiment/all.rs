//! `flifo experiment all`: every study, one after another, with a page each and an index.
//!
//! A study that fails does not stop the next one; the first error is the command's, at the end. Ctrl-C stops all.

use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};

use super::args::{AllArgs, LinuxIo2012Args};
use super::scale::Scale;
use super::study::{self, Study, record_name};
use super::{linux_io_2012, studies};
use crate::commands::common::{Ended, command_line};
use crate::commands::record;
use crate::measure::sampler;
use crate::report::experiment::{Entry, ExperimentReport, index};
use crate::report::iobench::linux_io_2012::{NAME as LINUX_IO, compare};
use crate::report::{self, Outputs};
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::output::replace_file;

/// Bytes of the test files of linux-io-2012, by scale; `None` is the study's own size.
const STORAGE_BYTES: [Option<u64>; 3] = [Some(512 << 20), Some(4 << 30), None];

/// Runs `flifo experiment all`.
pub(super) fn run(args: &AllArgs) -> Result<Ended, Error> {
    let start = Start::now();
    check_places(args)?;
    for directory in [args.html.as_ref(), args.json.as_ref(), Some(&args.data)].into_iter().flatten() {
        std::fs::create_dir_all(directory).map_err(|error| cannot_create(directory, &error))?;
    }
    let mut entries = Vec::new();
    let mut first_error = None;
    for study in studies().iter().map(Some).chain([None]) {
        let name = study.map_or(LINUX_IO, |study| study.name);
        let done = match study {
            Some(study) => run_study(study, args),
            None => run_storage(args),
        };
        let is_over = matches!(done, Ok((_, Ended::Interrupted)) | Err(Error::Interrupted));
        match done {
            Ok((entry, _)) => entries.push(entry),
            Err(Error::Interrupted) => {}
            Err(error) => {
                // A closed output does not stop the run.
                let _ = writeln!(stdout(), "\n{name}: {error}");
                let failed = error.to_string();
                entries.push(Entry { name: name.into(), claims: Vec::new(), page: None, failed });
                first_error = first_error.or(Some(error));
            }
        }
        if is_over {
            write_index(args, &entries, &start)?;
            return Ok(Ended::Interrupted);
        }
    }
    write_index(args, &entries, &start)?;
    first_error.map_or(Ok(Ended::Done), Err)
}

/// `DIRECTORY/NAME.html`.
fn file(directory: Option<&PathBuf>, name: &str, extension: &str) -> Option<PathBuf> {
    directory.map(|directory| directory.join(format!("{name}.{extension}")))
}

fn run_study(study: &Study, args: &AllArgs) -> Result<(Entry, Ended), Error> {
    let (results, ended) =
        study::measure(study.name, &(study.parts)(Scale::of(&args.scale)), &args.scale, &args.data)?;
    let (json, html) = outputs(args, study.name);
    let outputs = Outputs { json: json.as_deref(), html: html.as_deref(), svg: None };
    report::keep(&ExperimentReport { results: &results }, outputs)?;
    let place = args.record.place(&record_name(study.name))?;
    record::keep(place.as_ref(), results.interrupted, || study::recorded(&results))?;
    let page = html.map(|_| format!("{}.html", study.name));
    let entry =
        Entry { name: study.name.into(), claims: results.claims.clone(), page, failed: String::new() };
    Ok((entry, ended?))
}

fn outputs(args: &AllArgs, name: &str) -> (Option<PathBuf>, Option<PathBuf>) {
    (file(args.json.as_ref(), name, "json"), file(args.html.as_ref(), name, "html"))
}

/// linux-io-2012 in the directory of the data, as short as the others.
fn run_storage(args: &AllArgs) -> Result<(Entry, Ended), Error> {
    let scale = Scale::of(&args.scale);
    let (json, html) = outputs(args, LINUX_IO);
    let [quick, default, full] = STORAGE_BYTES;
    let storage = LinuxIo2012Args {
        dir: args.data.clone(),
        scale: scale.pick(0.02, 0.1, 1.0),
        size: args.storage_size.or(scale.pick(quick, default, full)),
        time: args.scale.time.or(scale.pick(Some(0.25), None, None)),
        rounds: args.scale.rounds.unwrap_or(scale.pick(2, 3, 3)),
        device: None,
        json,
        html,
        record: args.record.clone(),
    };
    let (results, ended) = linux_io_2012::measured(&storage)?;
    let claims = compare(&results).unwrap_or_default();
    let page = storage.html.map(|_| format!("{LINUX_IO}.html"));
    Ok((Entry { name: LINUX_IO.into(), claims, page, failed: String::new() }, ended))
}

fn write_index(args: &AllArgs, entries: &[Entry], start: &Start) -> Result<(), Error> {
    let Some(directory) = &args.html else { return Ok(()) };
    let machine = sampler::machine(&args.data);
    let page = index(entries, &machine, &command_line(), &start.utc());
    let path = directory.join("index.html");
    replace_file(&path, page.as_bytes()).map_err(report::ReportError::from)?;
    // A closed output does not stop the run.
    let _ = writeln!(stdout(), "\nThe index of all pages: {}", path.display());
    Ok(())
}

/// One file is no place for several records.
fn check_places(args: &AllArgs) -> Result<(), Error> {
    let names =
        studies().iter().map(|study| study.name).chain([LINUX_IO]).map(record_name).collect::<Vec<_>>();
    for name in names {
        let place = args.record.place(&name)?;
        if place.is_some_and(|place| place.bench() != name) {
            return Err(Error::Usage(
                "all studies have a record each: --record=DIR names their folder".into(),
            ));
        }
    }
    Ok(())
}

fn cannot_create(directory: &Path, error: &std::io::Error) -> Error {
    Error::Data(format!(
        "cannot create {}: {error}; name a directory that this user may write to",
        directory.display()
    ))
}
