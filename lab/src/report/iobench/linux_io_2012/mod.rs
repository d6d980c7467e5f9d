//! The Linux I/O study of 2012: one file or several, O_DIRECT or write and fsync, 1 to 256 processes.

mod claims;
mod figures;
mod verdict;

use std::fmt::Write as _;

use crate::report::Style;
use crate::report::claims as comparison;
use crate::report::claims::RATIOS_ONLY;
use crate::report::page::escape;
use crate::report::table::{bold, right_aligned, table};
use crate::results::claims::Claim;
use crate::results::io::IoResults;
use crate::results::published::linux_io_2012::LinuxIo2012;
use crate::support::format;

/// The name of this experiment in results.
pub const NAME: &str = "linux-io-2012";

/// Every claim with this run's figures; `None` for a run that is not this experiment.
pub fn compare(results: &IoResults) -> Option<Vec<Claim>> {
    (results.experiment == NAME).then(|| claims::compare(results, &LinuxIo2012::load()))
}

/// The comparison for a terminal; `None` for a run that is not this experiment.
pub fn text(results: &IoResults, style: Style) -> Option<String> {
    let comparisons = compare(results)?;
    let study = LinuxIo2012::load();
    let claims = comparison::text(&comparisons, style);
    let mut figures = table(style);
    figures.set_header([
        "highest, IOPS (MB/s where said)",
        "published",
        "here",
        "of 4K raw reads: published",
        "here",
    ]);
    for figure in figures::figures(results, &study) {
        figures.add_row([
            figure.name,
            format::count(figure.published),
            format::with_spread(figure.here),
            share(figure.published_share),
            share(figure.here_share),
        ]);
    }
    let mut text = String::new();
    let _ = writeln!(text, "{}", bold("Published, and here", style));
    let _ = writeln!(text, "{}\n{RATIOS_ONLY}\n{claims}\n\n{}", about(&study), right_aligned(figures, 1));
    Some(text)
}

/// The same for the page.
pub(crate) fn card(results: &IoResults) -> Option<String> {
    let comparisons = compare(results)?;
    let study = LinuxIo2012::load();
    let figure = |figure: &figures::Figure| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(&figure.name),
            format::count(figure.published),
            format::with_spread(figure.here),
            share(figure.published_share),
            share(figure.here_share)
        )
    };
    let claims = comparison::html(&comparisons, "here: middle lowest..highest setting");
    let figures: String = figures::figures(results, &study).iter().map(figure).collect();
    Some(format!(
        "<div class=\"card\"><h3>Published, and here</h3>\n\
         {claims}<ul class=\"plain\"><li>{}</li><li>{RATIOS_ONLY}</li></ul></div>\n\
         <div class=\"card\"><details><summary>The study's figures, and the same ones here</summary>\n\
         <div class=\"scroll\" tabindex=\"0\"><table class=\"words\"><thead><tr><th>highest, IOPS (MB/s where said)</th><th>published</th>\
         <th>here</th><th>of 4K raw reads: published</th><th>here</th></tr></thead>\n<tbody>\n{figures}</tbody></table></div></details></div>\n",
        escape(&about(&study))
    ))
}

fn share(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{share:.2}"))
}

fn about(study: &LinuxIo2012) -> String {
    format!("Source: {}, {}, with {}; {}.", study.title.name, study.title.year, study.tool, study.server)
}
