//! A sweep or a bench as a report.

use std::path::Path;

use super::{bench, page, picture, text};
use crate::report::{Report, ReportError, Style};
use crate::results::Results;
use crate::support::error::WriteError;
use crate::support::output::replace_file;

impl Report for Results {
    fn has_cells(&self) -> bool {
        !self.cells.is_empty()
    }

    fn has_rounds(&self) -> bool {
        self.cells.iter().any(|cell| !cell.rounds.is_empty())
    }

    fn save(&self, path: &Path) -> Result<(), ReportError> {
        Ok(Results::save(self, path)?)
    }

    fn text(&self, style: Style) -> String {
        match self.is_bench() {
            true => bench::text::report(self, style),
            false => text::final_report(self, style),
        }
    }

    fn html(&self) -> Result<String, ReportError> {
        page::html(self)
    }

    /// The pictures of a bench are one per load, and their path is a directory.
    fn draw(&self, path: &Path) -> Result<(), ReportError> {
        if !self.is_bench() {
            return Ok(replace_file(path, picture::svg(self)?.as_bytes())?);
        }
        let all = picture::of_loads(self)?.into_iter();
        std::fs::create_dir_all(path).map_err(|source| WriteError { path: path.to_owned(), source })?;
        let written = all.map(|(name, picture)| replace_file(&path.join(name), picture.as_bytes()));
        Ok(written.fold(Ok(()), Result::and)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::report::sweep::fixture;
    use crate::report::{Outputs, show};
    use crate::support::output::tests::Fails;

    const PLAIN: Style = Style { colour: false, width: 120 };

    #[test]
    fn what_cannot_be_printed_or_written_takes_nothing_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let (page, picture) = (temp.path().join("r.html"), temp.path().join("r.svg"));
        let (results, full) = (fixture::results(), &mut Fails(rustix::io::Errno::NOSPC));
        let error =
            show(&results, Outputs { json: None, html: Some(&page), svg: Some(&picture) }, PLAIN, full)
                .unwrap_err();
        assert!(matches!(error, ReportError::Print(_)), "{error}");
        assert!(page.exists() && picture.exists());

        let (nowhere, picture) = (temp.path().join("no/r.html"), temp.path().join("again.svg"));
        let error = show(
            &results,
            Outputs { json: None, html: Some(&nowhere), svg: Some(&picture) },
            PLAIN,
            &mut Vec::new(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("no/r.html"), "{error}");
        assert!(picture.exists());

        // A directory blocks the path of the first of a bench's pictures.
        fs::create_dir(temp.path().join("work-20-4.svg")).unwrap();
        let bench = fixture::bench();
        let error =
            show(&bench, Outputs { svg: Some(temp.path()), ..Outputs::default() }, PLAIN, &mut Vec::new())
                .unwrap_err();
        assert!(error.to_string().contains("work-20-4.svg"), "{error}");
        assert!(temp.path().join("hot-row-8.svg").exists());
    }
}
