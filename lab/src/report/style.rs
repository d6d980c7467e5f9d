//! The style of text, and the errors of reports.

use std::io::IsTerminal;

use crate::results::ResultsError;
use crate::support::error::{Error, WriteError};

/// The style of text output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Colours, for a terminal only.
    pub colour: bool,
    /// The width in columns.
    pub width: u16,
}

impl Style {
    /// Colour and width of standard output; without colour and 120 columns wide if it is no terminal.
    pub fn stdout() -> Self {
        let width = terminal_width().filter(|width| *width >= 60);
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style { colour: std::io::stdout().is_terminal() && !no_colour, width: width.unwrap_or(120) }
    }
}

/// Why a report could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("no cell was measured, so there is nothing to draw: let the run finish at least one round")]
    Empty,
    #[error("a run of iobench or of an experiment has no picture; --html draws its page")]
    NoPicture,
    #[error("results of '{0}', which this flifo does not know: use the version that wrote them")]
    Kind(String),
    #[error("cannot print: {0}")]
    Print(#[from] std::io::Error),
    #[error("cannot draw the picture: {0}")]
    Draw(String),
}

impl From<WriteError> for ReportError {
    fn from(error: WriteError) -> Self {
        ReportError::Results(error.into())
    }
}

impl From<ReportError> for Error {
    fn from(error: ReportError) -> Self {
        Error::Report(Box::new(error))
    }
}

/// Columns of the terminal on standard output.
fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}
