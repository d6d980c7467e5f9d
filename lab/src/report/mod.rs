//! Shows results: lines while cells finish, tables at the end, a page, a picture.

pub mod analysis;
mod changes;
mod charts;
mod conclusion;
#[doc(hidden)]
pub mod fixture;
pub mod format;
pub(crate) mod frame;
mod others;
mod page;
mod palette;
mod picture;
mod server;
pub(crate) mod text;
mod versus;

use std::io::{IsTerminal, Write};
use std::path::Path;

pub use conclusion::conclusion;
pub use page::html;
pub use picture::svg;
pub use text::{cell_heading, cell_line, final_report};
pub use versus::text::{entry_heading, entry_line};

use serde::Deserialize;

use crate::iobench;
use crate::output::{print, replace_file};
use crate::results::{Results, ResultsError, read_results};

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

/// Prints the final report of `flifo report`, or of `sweep` at its end, to `out`, and writes the requested files. Each
/// output is tried even if others fail; returns the first error. The pictures of a bench are one per load, and their
/// path is a directory.
pub fn show(
    results: &Results,
    html_path: Option<&Path>,
    svg_path: Option<&Path>,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let is_bench = analysis::is_bench(results);
    let text = if is_bench { versus::text::report(results, style) } else { final_report(results, style) };
    let printed = print(out, &text).map_err(ReportError::Print);
    let drawn: Result<(), ReportError> =
        html_path.map_or(Ok(()), |path| Ok(replace_file(path, html(results)?.as_bytes())?));
    let pictured = svg_path.map_or(Ok(()), |path| pictures(results, is_bench, path));
    printed.and(drawn).and(pictured)
}

fn pictures(results: &Results, is_bench: bool, path: &Path) -> Result<(), ReportError> {
    if !is_bench {
        return Ok(replace_file(path, svg(results)?.as_bytes())?);
    }
    let all = picture::of_loads(results)?.into_iter();
    std::fs::create_dir_all(path).map_err(|source| ResultsError::Write { path: path.to_owned(), source })?;
    let written = all.map(|(name, picture)| replace_file(&path.join(name), picture.as_bytes()));
    Ok(written.fold(Ok(()), Result::and)?)
}

/// Saves and shows a run at its end, as [`show`] does. A run without a cell has nothing to save. One whose rounds all
/// failed has nothing to draw, and has its own error.
pub fn keep(
    results: &Results,
    json_path: Option<&Path>,
    html_path: Option<&Path>,
    svg_path: Option<&Path>,
) -> Result<(), ReportError> {
    if results.cells.is_empty() {
        return Ok(());
    }
    let saved: Result<(), ReportError> = json_path.map_or(Ok(()), |path| Ok(results.save(path)?));
    let is_drawn = results.cells.iter().any(|cell| !cell.rounds.is_empty());
    let drawn = |path: Option<_>| path.filter(|_| is_drawn);
    let shown = show(results, drawn(html_path), drawn(svg_path), Style::stdout(), &mut std::io::stdout());
    saved.and(shown)
}

/// Runs [`show`] for a saved file.
pub fn run(
    json_path: &Path,
    html_path: Option<&Path>,
    svg_path: Option<&Path>,
    style: Style,
    out: &mut dyn Write,
) -> Result<(), ReportError> {
    let json = read_results(json_path)?;
    match kind(&json)?.as_str() {
        "" => show(&Results::from_json(&json)?, html_path, svg_path, style, out),
        iobench::results::KIND if svg_path.is_some() => Err(ReportError::NoPicture),
        iobench::results::KIND => iobench::show::saved(&json, html_path, style, out),
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

/// Why a report could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Results(#[from] ResultsError),
    #[error("no cell was measured, so there is nothing to draw: let the run finish at least one round")]
    Empty,
    #[error("a run of iobench has no picture; --html draws its page")]
    NoPicture,
    #[error("results of '{0}', which this flifo does not know: use the version that wrote them")]
    Kind(String),
    #[error("cannot print: {0}")]
    Print(#[from] std::io::Error),
    #[error("cannot draw the picture: {0}")]
    Draw(String),
}

/// Columns of the terminal on standard output.
fn terminal_width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::output::tests::Fails;

    const PLAIN: Style = Style { colour: false, width: 120 };

    #[test]
    fn what_cannot_be_printed_or_written_takes_nothing_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let (page, picture) = (temp.path().join("r.html"), temp.path().join("r.svg"));
        let (results, full) = (fixture::results(), &mut Fails(rustix::io::Errno::NOSPC));
        let error = show(&results, Some(&page), Some(&picture), PLAIN, full).unwrap_err();
        assert!(matches!(error, ReportError::Print(_)), "{error}");
        assert!(page.exists() && picture.exists());

        let (nowhere, picture) = (temp.path().join("no/r.html"), temp.path().join("again.svg"));
        let error = show(&results, Some(&nowhere), Some(&picture), PLAIN, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("no/r.html"), "{error}");
        assert!(picture.exists());

        // A directory blocks the path of the first of a bench's pictures.
        fs::create_dir(temp.path().join("work-20-4.svg")).unwrap();
        let bench = fixture::bench();
        let error = show(&bench, None, Some(temp.path()), PLAIN, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("work-20-4.svg"), "{error}");
        assert!(temp.path().join("hot-row-8.svg").exists());
    }

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
        keep(&results, Some(&json), Some(&page), Some(&picture)).unwrap();
        assert_eq!((json.exists(), page.exists(), picture.exists()), (true, false, false));
        // A request for a picture of a saved run without one is an error.
        for (page, picture) in [(Some(page.as_path()), None), (None, Some(picture.as_path()))] {
            let error = run(&json, page, picture, PLAIN, &mut Vec::new()).unwrap_err();
            assert!(matches!(error, ReportError::Empty), "{error}");
        }
    }
}
