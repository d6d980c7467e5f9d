//! The page of a sweep or a bench, in the [frame](super::frame).

use super::analysis::{Panel, bound, panels};
use super::charts::charts;
use super::conclusion::conclusion;
use super::published::{Comparison, Verdict, compare};
use super::{bench, changes, kinds, others, server};
use crate::report::page::{self, Page, escape};
use crate::report::{INTERRUPTED, ReportError};
use crate::results::published::Flifo2009;
use crate::results::{Cell, Results};
use crate::support::format;

/// The page as HTML.
pub fn html(results: &Results) -> Result<String, ReportError> {
    let panels = panels(results);
    if panels.is_empty() {
        return Err(ReportError::Empty);
    }
    let published = Flifo2009::load();
    let mut page = Page::default();
    let sections: String = panels.iter().map(|panel| section(panel, &published, &mut page)).collect();
    let head = head(results, &panels);
    Ok(page.document(&panels[0].heading(), &head, &sections, &results.machine.flifo_version))
}

fn head(results: &Results, panels: &[Panel<'_>]) -> String {
    let machine = &results.machine;
    let settings = &results.settings;
    let is_bench = panels.iter().any(Panel::is_bench);
    let ranges = match (settings.range_size, settings.read_write_range_size) {
        (0, _) => String::new(),
        (range, 0) => format!(", ranges of {range}"),
        (range, read_write) => format!(", ranges of {range} (read-write: {read_write})"),
    };
    let mut facts = vec![
        ("machine", format!("{}, {}", page::described(machine), machine.file_system)),
        (
            "data",
            format!(
                "{} rows{ranges}, buffer pool {} in {} instances, {} data files, {}, seed {}",
                format::count(settings.rows as f64),
                format::bytes(settings.buffer_pool_bytes),
                settings.buffer_pool_instances,
                settings.data_files,
                if settings.direct_io { "direct I/O" } else { "buffered I/O" },
                settings.seed
            ),
        ),
        (
            "statement",
            format!("{} us of CPU time per slot besides the engine's own", settings.statement_work_us),
        ),
        (
            "rounds",
            format!(
                "{} of {} s each after {} s of load, settings interleaved",
                settings.rounds, settings.round_s, settings.warmup_s
            ),
        ),
        ("started", format!("{}, took {:.0} s", results.started_at, results.elapsed_s)),
    ];
    if let Some(engine) = changes::described(results) {
        facts.insert(3, ("changes", engine));
    }
    if let Some(server) = server::described(results) {
        let data = format!("{} rows{ranges}, seed {}", format::count(settings.rows as f64), settings.seed);
        facts.splice(
            1..3,
            [
                ("server", server),
                ("data", data),
                ("clients", format!("{} event loops", settings.client_threads)),
            ],
        );
    }
    if let Some(load) = kinds::described(results) {
        facts.insert(1, ("load", load));
        facts.retain(|(name, _)| *name != "statement");
    }
    // A bench has no data, and what a statement does is its load's name.
    facts.retain(|(name, _)| !(is_bench && ["data", "statement"].contains(name)));
    let counted = panels.first().map_or("connections", Panel::counted);
    let leads: String = panels.iter().map(|panel| page::lead(&panel.heading(), &conclusion(panel))).collect();
    let failures = server::failures(results).into_iter();
    let mut warnings: String =
        failures.map(|failure| page::warning(&format!("Not measured: {failure}"))).collect();
    // With several panels, each conclusion names its panel.
    let of = |panel: &Panel<'_>| match panels {
        [_] => String::new(),
        _ => format!("{}: ", panel.heading()),
    };
    let redo = panels.iter().filter_map(|panel| Some((panel, changes::warning(panel)?)));
    let others =
        panels.iter().flat_map(|panel| others::notes(panel).into_iter().map(move |note| (panel, note)));
    for (panel, text) in redo.chain(others) {
        warnings += &page::warning(&format!("{}{text}", of(panel)));
    }
    if results.interrupted {
        warnings += &page::warning(INTERRUPTED);
    }
    let leads = format!("{leads}{warnings}\n");
    page::head(&format!("throughput against {counted}"), &leads, &results.command_line, &facts)
}

fn section(panel: &Panel<'_>, published: &Flifo2009, page: &mut Page) -> String {
    let card = published_card(&compare(panel, published), published);
    format!(
        "<section>\n<h2>{}</h2>\n{}{}{}</section>\n",
        escape(&panel.heading()),
        page.figures(charts(panel, published), &card),
        kinds::page_table(panel),
        cell_table(panel)
    )
}

fn published_card(comparisons: &[Comparison], published: &Flifo2009) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let row = |comparison: &Comparison| {
        let class = match comparison.verdict {
            Some(Verdict::Holds) => "holds",
            Some(Verdict::Fails) => "fails",
            _ => "between",
        };
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{class}\">{}</td></tr>\n",
            escape(comparison.claim),
            comparison.published.map_or("-".into(), |p| format!("{p:.2}")),
            escape(&format::ratio(comparison.measured)),
            comparison.verdict.map_or("", Verdict::words),
        )
    };
    let rows: String = comparisons.iter().map(row).collect();
    let sentences: String =
        comparisons.iter().map(|c| format!("<li>{}</li>\n", escape(&c.sentence))).collect();
    let unsaid: String =
        published.unsaid.iter().map(|text| format!("<li>Unsaid there: {}.</li>\n", escape(text))).collect();
    format!(
        "<div class=\"card\"><h3>Published, and here</h3>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"words\"><thead><tr>\
         <th>ratio</th><th>{} ({})</th><th>here: median lowest..highest</th><th></th></tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n\
         <ul class=\"plain\">{sentences}</ul>\n\
         <ul class=\"plain\"><li>Source: {}, {}, {}; {}. Other CPUs and another server: ratios only.</li>\n{unsaid}</ul></div>\n",
        published.year,
        escape(&published.server),
        escape(&published.source),
        published.year,
        escape(&published.server),
        escape(&published.workload),
    )
}

/// Every cell of the panel, in full.
fn cell_table(panel: &Panel<'_>) -> String {
    const HEAD: [&str; 19] = [
        "limit",
        "statements/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "longest ms",
        "switches/st",
        "W µs",
        "S µs",
        "1 + W/S",
        "run queue",
        "user",
        "system",
        "idle",
        "iowait",
        "server",
        "client",
        "variation",
        "disk reads/s",
    ];
    type Fields = fn(&Cell) -> Vec<String>;
    let (who, names, fields_of): (&str, &[&str], Fields) = match (panel.is_bench(), panel.is_server()) {
        (true, _) => ("variant", &bench::page::HEAD, bench::page::cell_fields),
        (_, true) => ("policy", &server::HEAD, server::cell_fields),
        _ => ("policy", &HEAD, cell_fields),
    };
    let first = ["threads", who];
    let more: &[&str] = if changes::are_in(panel) { &changes::HEAD } else { &[] };
    let head: String = first.iter().chain(names).chain(more).map(|name| format!("<th>{name}</th>")).collect();
    let mut rows = String::new();
    for &threads in &panel.threads {
        let mut class = " class=\"group\"";
        for curve in &panel.curves {
            let Some(cell) = curve.at(threads) else { continue };
            let mut fields = fields_of(cell);
            if !more.is_empty() {
                fields.extend(changes::cell_fields(cell));
            }
            let fields: String = fields.iter().map(|field| format!("<td>{field}</td>")).collect();
            rows += &format!("<tr{class}><td>{threads}</td><td>{}</td>{fields}</tr>\n", escape(&curve.label));
            class = "";
        }
    }
    format!(
        "<div class=\"card\"><details open><summary>All cells: medians of the rounds, % of all CPUs</summary>\n\
         <div class=\"scroll\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div></details></div>\n"
    )
}

fn cell_fields(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    let median = |figure: fn(&crate::results::Round) -> Option<f64>| cell.spread(figure).map(|s| s.median);
    let limit = if cell.key.concurrency == 0 { "-".into() } else { cell.key.concurrency.to_string() };
    let mut fields = vec![limit, format::with_spread(cell.throughput())];
    fields.extend(
        [
            summary.p50_median_ms,
            summary.p95_median_ms,
            summary.p99_median_ms,
            summary.longest_ms,
            summary.context_switches_median_per_statement,
            summary.woken_to_running_p50_median_us,
            summary.running_p50_median_us,
            bound(cell).map(|bound| bound.median),
            median(|r| r.host.run_queue),
        ]
        .map(format::maybe),
    );
    fields.extend(
        [
            median(|r| r.host.cpu_user),
            median(|r| r.host.cpu_system),
            median(|r| r.host.cpu_idle),
            median(|r| r.host.cpu_iowait),
            median(|r| r.host.cpu_server),
            median(|r| r.host.cpu_client),
        ]
        .map(format::percent),
    );
    fields.extend(
        [summary.connection_variation_median, median(|r| r.disk.disk_reads_per_s)].map(format::maybe),
    );
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::fixture;

    #[test]
    fn the_page_is_whole_and_fetches_nothing() {
        let page = html(&fixture::results()).unwrap();
        assert!(page.contains("plotly.js v") && page.ends_with("</html>\n"));
        assert!(!page.contains("MathJax.js") && !page.contains("tex-svg"), "MathJax is 2 MB without use");
        let own = page.replace(&crate::report::page::library(), "");
        assert!(!own.contains("http://") && !own.contains("https://"), "an address outside the library");
        assert!(!own.contains("<link") && !own.contains("src="));
    }

    #[test]
    fn what_a_user_typed_stays_text() {
        let mut results = fixture::results();
        results.command_line = "flifo --data '</script><script>alert(1)</script>'".into();
        results.cells[0].key.policy = "</script><b>".into();
        let page = html(&results).unwrap();
        assert!(!page.contains("<script>alert") && !page.contains("</script><b>"));
        assert!(page.contains("&lt;/script&gt;&lt;script&gt;alert(1)"));
    }

    #[test]
    fn a_warning_says_of_which_panel_it_is() {
        let mut results = fixture::results();
        let last = results.cells.last_mut().unwrap();
        last.rounds[0].seconds[1].cpu_server = Some(0.0);
        let workload = last.key.workload.clone();
        let page = html(&results).unwrap();
        assert!(page.contains(&format!("<p class=\"warning\">{workload}, ")), "{workload}");
        // With one panel, names are unnecessary.
        results.cells.retain(|cell| cell.key.workload == workload);
        assert!(html(&results).unwrap().contains("<p class=\"warning\">In 1 of "));
    }

    #[test]
    fn pages_read_as_their_golden_files() {
        let pages = [
            ("sweep-page", fixture::results()),
            ("sweep-page-writing", fixture::writing()),
            ("sweep-page-server", fixture::server()),
        ];
        for (name, results) in pages {
            golden(name, &crate::report::page::visible(&html(&results).unwrap()));
        }
    }

    #[test]
    fn nothing_measured_is_an_error_that_says_so() {
        let mut results = fixture::results();
        results.cells.clear();
        assert!(matches!(html(&results), Err(ReportError::Empty)));
    }
}
