//! The adapter for benches that criterion runs: reads the `estimates.json` that criterion leaves for each function.
//!
//! A bench gives [`Recording::folder`] to criterion, measures, and calls [`Recording::finish`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;

use crate::place::Place;
use crate::{Bounds, Error, Key, Record, Result, Row, Scale};

/// criterion's file of a function: times in nanoseconds.
#[derive(Deserialize)]
struct Estimates {
    median: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    point_estimate: f64,
    confidence_interval: ConfidenceInterval,
}

#[derive(Deserialize)]
struct ConfidenceInterval {
    lower_bound: f64,
    upper_bound: f64,
}

/// criterion's file of a function's name and samples.
#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
}

#[derive(Deserialize)]
struct Sample {
    times: Vec<f64>,
}

/// A run of criterion that is recorded.
pub struct Recording {
    place: Place,
    folder: PathBuf,
    record: Record,
}

impl Recording {
    /// The recording that the program's arguments ask for with `--record`; `None` without the flag.
    pub fn from_args(bench: &str, command: &str) -> Result<Option<Recording>> {
        let Some(place) = Place::from_args(bench)? else { return Ok(None) };
        let folder = std::env::temp_dir().join(format!("flifo-{bench}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        Ok(Some(Recording { place, folder, record: Record::begin(bench, command, Scale::Threads) }))
    }

    /// An empty folder for criterion's output, so that no other bench's estimates are in it.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Adds criterion's estimates to the record, then what `complete` adds, and writes it.
    pub fn finish(mut self, complete: impl FnOnce(&mut Record)) -> Result<()> {
        self.record.rows.extend(rows(&self.folder)?);
        complete(&mut self.record);
        println!("{}", self.place.write(self.record)?);
        fs::remove_dir_all(&self.folder).map_err(Error::write(&self.folder))
    }
}

/// The exit code of a bench; an error is printed in one line.
pub fn exit_code(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// A row for each function under a folder, ordered by name: the median time and its 95% interval.
pub fn rows(folder: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    collect(folder, &mut rows)?;
    if rows.is_empty() {
        return Err(Error::NoEstimates(folder.to_owned()));
    }
    rows.sort_by(|a: &Row, b| a.key.workload.cmp(&b.key.workload));
    Ok(rows)
}

fn collect(folder: &Path, rows: &mut Vec<Row>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::read(folder))? {
        let path = entry.map_err(Error::read(folder))?.path();
        if !path.is_dir() {
            continue;
        }
        if path.file_name().is_some_and(|name| name == "new") && path.join("estimates.json").is_file() {
            rows.push(row(&path)?);
        } else {
            collect(&path, rows)?;
        }
    }
    Ok(())
}

fn row(folder: &Path) -> Result<Row> {
    let estimates: Estimates = parsed(&folder.join("estimates.json"))?;
    let benchmark: Benchmark = parsed(&folder.join("benchmark.json"))?;
    let sample: Sample = parsed(&folder.join("sample.json"))?;
    let Estimate { point_estimate, confidence_interval: ends } = estimates.median;
    Ok(Row {
        key: Key::of(benchmark.full_id),
        median: Some(point_estimate),
        low: Some(ends.lower_bound),
        high: Some(ends.upper_bound),
        bounds: Bounds::Interval95,
        n: u32::try_from(sample.times.len()).ok(),
        unit: "ns".into(),
    })
}

fn parsed<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = fs::read_to_string(path).map_err(Error::read(path))?;
    serde_json::from_str(&text).map_err(|error| Error::Record {
        path: path.to_owned(),
        problem: format!("not criterion's: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(folder: &Path, name: &str, median_ns: f64) {
        let new = folder.join(name).join("new");
        fs::create_dir_all(&new).unwrap();
        let ends = format!(
            "{{\"confidence_level\":0.95,\"lower_bound\":{},\"upper_bound\":{}}}",
            median_ns - 1.0,
            median_ns + 1.0
        );
        let estimate = |point: f64| {
            format!("{{\"confidence_interval\":{ends},\"point_estimate\":{point},\"standard_error\":0.1}}")
        };
        let estimates = format!("{{\"mean\":{},\"median\":{}}}", estimate(99.0), estimate(median_ns));
        fs::write(new.join("estimates.json"), estimates).unwrap();
        fs::write(new.join("benchmark.json"), format!("{{\"full_id\":\"{name}\",\"group_id\":\"g\"}}"))
            .unwrap();
        fs::write(new.join("sample.json"), "{\"iters\":[1.0,2.0],\"times\":[1.0,2.0]}").unwrap();
    }

    #[test]
    fn estimates_become_rows() {
        let temp = tempfile::tempdir().unwrap();
        function(temp.path(), "ticket/flifo", 12.5);
        function(temp.path(), "enter", 20.0);
        // What a run before left.
        fs::create_dir_all(temp.path().join("enter/base")).unwrap();
        fs::write(temp.path().join("enter/base/estimates.json"), "{}").unwrap();
        let rows = rows(temp.path()).unwrap();
        let found: Vec<_> =
            rows.iter().map(|row| (row.key.workload.as_str(), row.median, row.low, row.n)).collect();
        assert_eq!(
            found,
            [("enter", Some(20.0), Some(19.0), Some(2)), ("ticket/flifo", Some(12.5), Some(11.5), Some(2))]
        );
        fs::write(temp.path().join("enter/new/estimates.json"), "{").unwrap();
        let error = super::rows(temp.path()).unwrap_err().to_string();
        assert!(error.contains("enter/new/estimates.json: not criterion's"), "{error}");
    }

    #[test]
    fn a_folder_without_estimates_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        assert!(matches!(rows(temp.path()), Err(Error::NoEstimates(_))));
    }
}
