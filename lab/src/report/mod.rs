//! Shows results: lines while cells finish, tables at the end, a page, a picture.

pub mod analysis;
#[doc(hidden)]
pub mod fixture;

use std::io::Write;
use std::path::Path;

use crate::results::{Cell, Results, ResultsError};

/// How text is dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours, for a terminal only.
    pub colour: bool,
    /// Columns at hand.
    pub width: u16,
}

impl Style {
    /// Colour and width of standard output; plain and 120 columns wide if it is no terminal.
    pub fn stdout() -> Self {
        Style { colour: false, width: 120 }
    }
}

/// The heading of the lines that [`cell_line`] gives, without newline.
pub fn cell_heading(_style: Style) -> String {
    String::new()
}

/// A cell as one line of fixed columns, without newline: to be printed as each cell finishes.
pub fn cell_line(_cell: &Cell, _style: Style) -> String {
    String::new()
}

/// Everything that is told at the end of a run.
pub fn final_report(_results: &Results, _style: Style) -> String {
    String::new()
}

/// The self-contained page.
pub fn html(_results: &Results) -> String {
    String::new()
}

/// The headline picture.
pub fn svg(_results: &Results) -> Result<String, ReportError> {
    Ok(String::new())
}

/// What `flifo report` does, and what `sweep` does at its end with the results at hand: prints the final
/// report to `out` and writes the files asked for.
pub fn show(
    results: &Results,
    html_path: Option<&Path>,
    svg_path: Option<&Path>,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let _ = (results, html_path, svg_path, style, out);
    Ok(())
}

/// [`show`] for a saved file.
pub fn run(
    json_path: &Path,
    html_path: Option<&Path>,
    svg_path: Option<&Path>,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    show(&Results::load(json_path)?, html_path, svg_path, style, out)
}

/// Why nothing could be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("no cell was measured, so there is nothing to draw: let the run finish at least one round")]
    Empty,
    #[error("cannot print: {0}")]
    Print(#[from] std::io::Error),
    #[error("cannot draw the picture: {0}")]
    Draw(String),
}
