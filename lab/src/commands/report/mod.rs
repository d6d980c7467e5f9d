//! `flifo report`: shows a saved run again.

pub mod args;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::common::Ended;
use crate::report::experiment::ExperimentReport;
use crate::report::iobench::IoReport;
use crate::report::{self, Outputs, Report, ReportError, Style};
use crate::results::experiment::{self, ExperimentResults};
use crate::results::io::{self, IoResults};
use crate::results::{Results, ResultsError, read_results};
use crate::support::error::Error;
use crate::support::output::check_different;
use args::ReportArgs;

/// Runs `flifo report`.
pub fn report(args: &ReportArgs) -> Result<Ended, Error> {
    let files = [Some(&args.json), args.html.as_ref(), args.svg.as_ref()];
    let files: Vec<&Path> = files.into_iter().flatten().map(PathBuf::as_path).collect();
    check_different(&files)?;
    run(&args.json, args.html.as_deref(), args.svg.as_deref(), Style::stdout(), &mut std::io::stdout())?;
    Ok(Ended::Done)
}

/// Prints the report of a saved file to `out`, and writes its page and picture.
pub fn run(
    json: &Path,
    html: Option<&Path>,
    svg: Option<&Path>,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let text = read_results(json)?;
    let outputs = Outputs { json: None, html, svg };
    match kind(&text)?.as_str() {
        "" => report::show(&Results::from_json(&text)?, outputs, style, out),
        io::KIND | experiment::KIND if svg.is_some() => Err(ReportError::NoPicture),
        io::KIND => {
            let results = IoResults::from_json(&text)?;
            let report = IoReport { results: &results, with_advice: true };
            if !report.has_rounds() {
                return Err(ReportError::Empty);
            }
            report::show(&report, outputs, style, out)
        }
        experiment::KIND => {
            let results = ExperimentResults::from_json(&text)?;
            let report = ExperimentReport { results: &results };
            if !report.has_rounds() {
                return Err(ReportError::Empty);
            }
            report::show(&report, outputs, style, out)
        }
        other => Err(ReportError::Kind(other.to_owned())),
    }
}

/// The kind of results file: empty for a sweep or a bench, whose files have none.
fn kind(json: &str) -> Result<String, ReportError> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        kind: String,
    }
    let head: Head = serde_json::from_str(json).map_err(ResultsError::from)?;
    Ok(head.kind)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::report::sweep::fixture;

    const PLAIN: Style = Style { colour: false, width: 120 };

    #[test]
    fn the_directory_of_a_bench_s_pictures_is_made() {
        let temp = tempfile::tempdir().unwrap();
        let (json, pictures) = (temp.path().join("r.json"), temp.path().join("new/pictures"));
        let bench = fixture::bench();
        bench.save(&json).unwrap();
        run(&json, None, Some(&pictures), PLAIN, &mut Vec::new()).unwrap();
        assert_eq!(fs::read_dir(&pictures).unwrap().count(), 4);
        // A file blocks its path.
        let error = run(&json, None, Some(&json), PLAIN, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("r.json"), "{error}");
    }

    #[test]
    fn a_run_whose_rounds_all_failed_is_saved_and_not_drawn() {
        let temp = tempfile::tempdir().unwrap();
        let [json, page, picture] = ["r.json", "r.html", "r.svg"].map(|name| temp.path().join(name));
        let mut results = fixture::server();
        results.cells.retain(|cell| !cell.failures.is_empty());
        results.cells.iter_mut().for_each(|cell| cell.rounds.clear());
        assert!(!results.cells.is_empty());
        let outputs = Outputs { json: Some(&json), html: Some(&page), svg: Some(&picture) };
        report::keep(&results, outputs).unwrap();
        assert_eq!((json.exists(), page.exists(), picture.exists()), (true, false, false));
        // A request for a picture of a saved run without one is an error.
        for (page, picture) in [(Some(page.as_path()), None), (None, Some(picture.as_path()))] {
            let error = run(&json, page, picture, PLAIN, &mut Vec::new()).unwrap_err();
            assert!(matches!(error, ReportError::Empty), "{error}");
        }
    }
}
