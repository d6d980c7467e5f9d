//! The display of a run's results: saved, printed, drawn.

use std::io::Write;
use std::path::Path;

use super::results::IoResults;
use super::{advise, page, text};
use crate::experiment::linux_io_2012;
use crate::output::{print, replace_file};
use crate::report::{ReportError, Style};

/// Saves and shows a run at its end. A run without cells has nothing to save, and one whose rounds all failed nothing
/// to draw.
pub(crate) fn keep(
    results: &IoResults,
    json_path: Option<&Path>,
    html_path: Option<&Path>,
    with_advice: bool,
    style: Style,
) -> Result<(), ReportError> {
    if results.cells.is_empty() {
        return Ok(());
    }
    let saved: Result<(), ReportError> = json_path.map_or(Ok(()), |path| Ok(results.save(path)?));
    let is_drawn = results.cells.iter().any(|cell| !cell.rounds.is_empty());
    let html_path = html_path.filter(|_| is_drawn);
    let shown = show(results, html_path, with_advice, style, &mut std::io::stdout());
    saved.and(shown)
}

/// Prints the whole report of a run, and draws its page even if printing fails.
pub(crate) fn show(
    results: &IoResults,
    html_path: Option<&Path>,
    with_advice: bool,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let mut told = text::report(results, style);
    if let Some(comparison) = linux_io_2012::text(results, style) {
        told += &format!("\n{comparison}\n");
    }
    if with_advice {
        told += &format!("\n{}\n", advise::text(results, style));
    }
    let printed = print(out, &told).map_err(ReportError::Print);
    let drawn: Result<(), ReportError> =
        html_path.map_or(Ok(()), |path| Ok(replace_file(path, page::html(results)?.as_bytes())?));
    printed.and(drawn)
}

/// [`show`] for a saved file's text.
pub(crate) fn saved(
    json: &str,
    html_path: Option<&Path>,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let results = IoResults::from_json(json)?;
    if results.cells.iter().all(|cell| cell.rounds.is_empty()) {
        return Err(ReportError::Empty);
    }
    show(&results, html_path, true, style, out)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::iobench::fixture;
    use crate::output::tests::Fails;

    #[test]
    fn what_cannot_be_printed_takes_no_page_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let (page, style) = (temp.path().join("io.html"), Style { colour: false, width: 120 });
        let error = show(&fixture::full(), Some(&page), true, style, &mut Fails(Errno::NOSPC)).unwrap_err();
        assert!(matches!(error, ReportError::Print(_)) && page.exists(), "{error}");
    }

    #[test]
    fn a_run_whose_rounds_all_failed_is_saved_and_not_drawn() {
        let temp = tempfile::tempdir().unwrap();
        let [json, page] = ["io.json", "io.html"].map(|name| temp.path().join(name));
        let (mut results, style) = (fixture::full(), Style { colour: false, width: 120 });
        results.cells.iter_mut().for_each(|cell| cell.rounds.clear());
        keep(&results, Some(&json), Some(&page), false, style).unwrap();
        assert_eq!((json.exists(), page.exists()), (true, false));
    }
}
