//! The outputs of a report: the file of results, the text, the page, the picture.
//!
//! Each output is tried even if others fail; the first error is returned.

use std::io::Write;
use std::path::Path;

use super::{ReportError, Style};
use crate::support::output::{print, replace_file};

/// Said of a run that did not come to its end.
pub(crate) const INTERRUPTED: &str = "The run was interrupted: some cells have fewer rounds, or none.";

/// A report in all its forms.
pub trait Report {
    /// Whether there is a cell, measured or not.
    fn has_cells(&self) -> bool;
    /// Whether a cell has a round, so that there is something to draw.
    fn has_rounds(&self) -> bool;
    /// Writes the file of results.
    fn save(&self, path: &Path) -> Result<(), ReportError>;
    /// The text for a terminal.
    fn text(&self, style: Style) -> String;
    /// The page.
    fn html(&self) -> Result<String, ReportError>;
    /// Writes the picture, or the pictures into a directory.
    fn draw(&self, path: &Path) -> Result<(), ReportError>;
}

/// The files that a report is written to, each if it is named.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outputs<'a> {
    /// The results.
    pub json: Option<&'a Path>,
    /// The page.
    pub html: Option<&'a Path>,
    /// The picture; of a bench a directory.
    pub svg: Option<&'a Path>,
}

/// Prints the text to `out`, and writes page and picture.
pub fn show(
    report: &dyn Report,
    outputs: Outputs<'_>,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let printed = print(out, &report.text(style)).map_err(ReportError::Print);
    let drawn: Result<(), ReportError> =
        outputs.html.map_or(Ok(()), |path| Ok(replace_file(path, report.html()?.as_bytes())?));
    let pictured = outputs.svg.map_or(Ok(()), |path| report.draw(path));
    printed.and(drawn).and(pictured)
}

/// Saves and shows a run at its end, on standard output. A run without cells has nothing to save. One whose rounds all
/// failed has nothing to draw, and has its own error.
pub fn keep(report: &dyn Report, outputs: Outputs<'_>) -> Result<(), ReportError> {
    if !report.has_cells() {
        return Ok(());
    }
    let saved = outputs.json.map_or(Ok(()), |path| report.save(path));
    let drawn = |path: Option<_>| path.filter(|_| report.has_rounds());
    let outputs = Outputs { html: drawn(outputs.html), svg: drawn(outputs.svg), ..outputs };
    let shown = show(report, outputs, Style::stdout(), &mut std::io::stdout());
    saved.and(shown)
}
