//! What becomes of a run's results: saved, printed, drawn.

use std::io::Write;
use std::path::Path;

use super::results::IoResults;
use super::{advise, page, text};
use crate::experiment::linux_io_2012;
use crate::output::replace_file;
use crate::report::{ReportError, Style};

/// What a run does at its end. One without a cell has nothing to keep.
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
    if let Some(path) = json_path {
        results.save(path)?;
    }
    show(results, html_path, with_advice, style, &mut std::io::stdout())
}

/// Prints everything that is told of a run, and draws its page.
pub(crate) fn show(
    results: &IoResults,
    html_path: Option<&Path>,
    with_advice: bool,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    out.write_all(text::report(results, style).as_bytes())?;
    if let Some(comparison) = linux_io_2012::text(results, style) {
        writeln!(out, "\n{comparison}")?;
    }
    if with_advice {
        writeln!(out, "\n{}", advise::text(results, style))?;
    }
    if let Some(path) = html_path {
        replace_file(path, page::html(results)?.as_bytes())?;
    }
    Ok(())
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
