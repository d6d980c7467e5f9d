//! A run of `iobench` as a report.

use std::path::Path;

use super::{advise, linux_io_2012, page, text};
use crate::report::{Report, ReportError, Style};
use crate::results::io::IoResults;

/// A run, with or without the advice that follows from it.
pub struct IoReport<'a> {
    /// The run.
    pub results: &'a IoResults,
    /// Whether advice is printed.
    pub with_advice: bool,
}

impl Report for IoReport<'_> {
    fn has_cells(&self) -> bool {
        !self.results.cells.is_empty()
    }

    fn has_rounds(&self) -> bool {
        self.results.cells.iter().any(|cell| !cell.rounds.is_empty())
    }

    fn save(&self, path: &Path) -> Result<(), ReportError> {
        Ok(self.results.save(path)?)
    }

    fn text(&self, style: Style) -> String {
        let mut text = text::report(self.results, style);
        if let Some(comparison) = linux_io_2012::text(self.results, style) {
            text += &format!("\n{comparison}\n");
        }
        if self.with_advice {
            text += &format!("\n{}\n", advise::text(self.results, style));
        }
        text
    }

    fn html(&self) -> Result<String, ReportError> {
        page::html(self.results)
    }

    fn draw(&self, _: &Path) -> Result<(), ReportError> {
        Err(ReportError::NoPicture)
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::report::iobench::fixture;
    use crate::report::{Outputs, keep, show};
    use crate::support::output::tests::Fails;

    #[test]
    fn what_cannot_be_printed_takes_no_page_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let (page, style) = (temp.path().join("io.html"), Style { colour: false, width: 120 });
        let report = IoReport { results: &fixture::full(), with_advice: true };
        let outputs = Outputs { html: Some(&page), ..Outputs::default() };
        let error = show(&report, outputs, style, &mut Fails(Errno::NOSPC)).unwrap_err();
        assert!(matches!(error, ReportError::Print(_)) && page.exists(), "{error}");
    }

    #[test]
    fn a_run_whose_rounds_all_failed_is_saved_and_not_drawn() {
        let temp = tempfile::tempdir().unwrap();
        let [json, page] = ["io.json", "io.html"].map(|name| temp.path().join(name));
        let mut results = fixture::full();
        results.cells.iter_mut().for_each(|cell| cell.rounds.clear());
        let report = IoReport { results: &results, with_advice: false };
        keep(&report, Outputs { json: Some(&json), html: Some(&page), svg: None }).unwrap();
        assert_eq!((json.exists(), page.exists()), (true, false));
    }
}
