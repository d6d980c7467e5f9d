//! An experiment as text and as a page: the claims, then the study's graphs, then every cell.

use std::fmt::Write as _;
use std::path::Path;

use super::study;
use crate::report::claims::{self, RATIOS_ONLY};
use crate::report::page::{self, Page, escape};
use crate::report::sweep::{cell_tables, notes};
use crate::report::table::bold;
use crate::report::{INTERRUPTED, Report, ReportError, Style};
use crate::results::experiment::{ExperimentResults, Part};
use crate::support::format;

/// An experiment.
pub struct ExperimentReport<'a> {
    pub results: &'a ExperimentResults,
}

impl Report for ExperimentReport<'_> {
    fn has_cells(&self) -> bool {
        self.results.runs().any(|run| !run.cells.is_empty())
    }

    fn has_rounds(&self) -> bool {
        self.results.runs().flat_map(|run| &run.cells).any(|cell| !cell.rounds.is_empty())
    }

    fn save(&self, path: &Path) -> Result<(), ReportError> {
        Ok(self.results.save(path)?)
    }

    fn text(&self, style: Style) -> String {
        let results = self.results;
        let Some(study) = study(&results.experiment) else {
            return format!("The study '{}' is not known to this flifo.\n", results.experiment);
        };
        let judged = study.judge(results);
        let mut text = format!("\n{}\n", bold(&heading(results), style));
        let _ = writeln!(text, "Source: {}.", study.about());
        for part in &results.parts {
            let _ = writeln!(text, "{}", scale(part));
        }
        let _ = writeln!(text, "\n{}", claims::text(&judged, style));
        let _ = writeln!(text, "{}. {RATIOS_ONLY}", claims::count(&judged));
        for (title, table) in study.tables(results, style) {
            let _ = writeln!(text, "\n{title}\n{table}");
        }
        for note in warnings(results) {
            let _ = writeln!(text, "\n{note}");
        }
        text
    }

    fn html(&self) -> Result<String, ReportError> {
        let results = self.results;
        let Some(study) = study(&results.experiment) else {
            return Err(ReportError::Kind(results.experiment.clone()));
        };
        if !self.has_rounds() {
            return Err(ReportError::Empty);
        }
        let judged = study.judge(results);
        let lead = page::lead(&heading(results), &format!("{}.", claims::count(&judged)));
        let warnings: String = warnings(results).iter().map(|warning| page::warning(warning)).collect();
        let facts = [
            ("study", study.about()),
            ("machine", format!("{}, {}", page::described(&results.machine), results.machine.file_system)),
            ("started", format!("{}, took {:.0} s", results.started_at, results.elapsed_s)),
        ];
        let head = page::head("published study", &format!("{lead}{warnings}"), &results.command_line, &facts);
        let mut page = Page::default();
        let table = claims::html(&judged, "here: median lowest..highest round");
        let figures = page.figures(study.charts(results), "");
        let over_time: String = study
            .over_time(results)
            .into_iter()
            .map(|(title, stacks)| {
                format!("<h3 class=\"over\">{}</h3>\n{}", escape(&title), page.stacks(stacks))
            })
            .collect();
        let parts: String = results.parts.iter().map(part_section).collect();
        let sections = format!(
            "<section>\n<div class=\"card\"><h3>Published, and here</h3>\n{table}\
             <ul class=\"plain\"><li>{RATIOS_ONLY}</li></ul></div>\n{figures}{over_time}</section>\n{parts}"
        );
        Ok(page.document(&results.experiment, &head, &sections, &results.machine.flifo_version))
    }

    fn draw(&self, _: &Path) -> Result<(), ReportError> {
        Err(ReportError::NoPicture)
    }
}

fn heading(results: &ExperimentResults) -> String {
    format!("{}, scale {}", results.experiment, results.scale)
}

/// The size of a part, in a line.
fn scale(part: &Part) -> String {
    let Some(run) = &part.run else { return format!("{}: not measured.", part.name) };
    let settings = &run.settings;
    format!(
        "{}: {}, {} of {} s, {} rows.",
        part.name,
        format::counted(run.cells.len(), "cell"),
        format::counted(settings.rounds as usize, "round"),
        settings.round_s,
        format::count(settings.rows as f64)
    )
}

fn part_section(part: &Part) -> String {
    let Some(run) = &part.run else { return String::new() };
    format!(
        "<section>\n<h2>{}</h2>\n<p>{} To repeat it alone: <code>{}</code></p>\n{}</section>\n",
        escape(&part.name),
        escape(&scale(part)),
        escape(&run.command_line),
        cell_tables(run)
    )
}

/// What a reader must know before the figures.
fn warnings(results: &ExperimentResults) -> Vec<String> {
    let mut warnings: Vec<String> = results
        .parts
        .iter()
        .filter_map(|part| Some((part, part.run.as_ref()?)))
        .flat_map(|(part, run)| notes(run).into_iter().map(move |note| format!("{}: {note}", part.name)))
        .collect();
    if results.interrupted {
        warnings.push(INTERRUPTED.into());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::experiment::fixture;
    use crate::report::sweep::fixture::assert_fits;

    const PLAIN: Style = Style { colour: false, width: 120 };

    /// Some claims hold and some do not.
    fn experiments() -> [ExperimentResults; 3] {
        [
            fixture::flifo_2009(|is_flifo, threads| match (is_flifo, threads) {
                (false, 1024) => (700.0, 50_000.0, 32),
                (false, _) => (1_000.0, 40_000.0, 32),
                (true, _) => (1_100.0, 20_000.0, 30),
            }),
            fixture::kernel_mutex_2011(|specimen, limit, threads| match (specimen, limit, threads) {
                (_, 0, 1024) => (400.0, 9.0),
                (_, 0, 256) => (700.0, 6.0),
                (_, limit, _) => (1_000.0 + f64::from(limit), 2.0),
            }),
            fixture::thread_concurrency_2009(|_, workload, limit, threads| {
                let wide = f64::from(if limit == 0 { threads } else { limit });
                if workload == "read-only" { 1_000.0 } else { 2_000.0 / (1.0 + (wide / 8.0).ln().abs()) }
            }),
        ]
    }

    #[test]
    fn reports_and_pages_read_as_their_golden_files() {
        for experiment in experiments() {
            let report = ExperimentReport { results: &experiment };
            let text = report.text(PLAIN);
            assert_fits(&text, PLAIN);
            golden(&format!("experiment-{}", experiment.experiment), &text);
            let page = report.html().unwrap();
            let visible = page::visible(&page);
            assert!(visible.contains("Published, and here") && visible.contains("Made-up CPU"));
            assert!(page.contains("plotly.js v"));
        }
    }

    #[test]
    fn an_unknown_study_or_an_empty_one_has_no_page() {
        let mut experiment = experiments()[0].clone();
        experiment.parts[0].run.as_mut().unwrap().cells.clear();
        let report = ExperimentReport { results: &experiment };
        assert!(matches!(report.html(), Err(ReportError::Empty)) && !report.has_cells());
        experiment.experiment = "perpetual-motion-1812".into();
        let report = ExperimentReport { results: &experiment };
        assert!(matches!(report.html(), Err(ReportError::Kind(_))));
        assert!(report.text(PLAIN).contains("perpetual-motion-1812"));
    }
}
