//! Lines and tables for a terminal.

use std::fmt::Write as _;

use comfy_table::{Cell as Field, Color, Table};

use super::analysis::{Curve, Panel, bound, panels, ratio, switches_per_statement, throughput};
use super::conclusion::conclusion;
use super::published::{Comparison, Verdict, compare};
use super::tables::{ansi, label, rate_table, throughput_table};
use super::{changes, kinds, others, server};
use crate::report::table::{bold, right_aligned, table};
use crate::report::{INTERRUPTED, Style};
use crate::results::published::Flifo2009;
use crate::results::{Cell, Results};
use crate::support::format;

/// The connections for which the long tables have rows: nearest to this, and the last.
const DETAIL_THREADS: u32 = 16;

/// The heading of the lines that [`cell_line`] gives, without newline.
pub fn cell_heading(style: Style) -> String {
    let heading = format!(
        "{:<16} {:<8} {:<12} {:>6} {:>8} {:>20} {:>9} {:>9} {:>11}",
        "workload", "front", "policy", "limit", "threads", "statements/s", "p50 ms", "p99 ms", "switches/st"
    );
    bold(&heading, style)
}

/// A cell as one line of fixed columns, without newline: printed as each cell finishes.
pub fn cell_line(cell: &Cell, style: Style) -> String {
    let key = &cell.key;
    let (from, to) = if style.colour { (ansi(&key.policy), "\x1b[0m") } else { ("", "") };
    let limit = if key.concurrency == 0 { "-".into() } else { key.concurrency.to_string() };
    format!(
        "{:<16} {:<8} {from}{:<12}{to} {limit:>6} {:>8} {:>20} {:>9} {:>9} {:>11}",
        key.workload,
        key.front,
        key.policy,
        key.threads,
        format::with_spread(cell.throughput()),
        format::maybe(cell.summary.p50_median_ms),
        format::maybe(cell.summary.p99_median_ms),
        format::maybe(cell.summary.context_switches_median_per_statement),
    )
}

/// The whole report at the end of a run.
pub(crate) fn final_report(results: &Results, style: Style) -> String {
    let mut text = String::new();
    let published = Flifo2009::load();
    let panels = panels(results);
    if panels.is_empty() {
        let failed =
            server::failures(results).into_iter().map(|failure| format!("Not measured: {failure}\n"));
        return std::iter::once("Nothing was measured: no cell has a round.\n".to_owned())
            .chain(failed)
            .collect();
    }
    let work_us = results.settings.statement_work_us;
    if work_us > 0 {
        text += &format!("Each statement spends {work_us} us of CPU time besides the engine's own.\n\n");
    }
    if let Some(server) = server::described(results) {
        text += &format!("Server: {server}\n\n");
    }
    if let Some(load) = kinds::described(results) {
        text += &format!("Load: {load}\n\n");
    }
    if let Some(engine) = changes::described(results).filter(|_| panels.iter().any(changes::are_in)) {
        text += &format!("Engine: {engine}\n\n");
    }
    for panel in &panels {
        let causes = if panel.is_server() {
            let title = "Why: statements the server counted; for each its time, the client's, its switches; row-lock waits; CPUs (% of all)";
            (title, server::counters(detail_rows(panel), style))
        } else {
            ("Why: wake-ups, work per slot, CPUs (% of all)", cause_table(panel, style))
        };
        let latency_title =
            format!("Latency of a {} (ms), and how evenly connections are served", panel.timed());
        let head = |curve: &Curve<'_>| label(curve, &curve.label, style);
        let mut sections = vec![(
            "Statements per second: median of the rounds, lowest and highest round",
            throughput_table(panel, head, style),
        )];
        if panel.has_transactions() {
            let per_s = |cell: &Cell| cell.spread(|round| Some(round.transactions_per_s));
            sections.push((
                "Transactions per second: median of the rounds, lowest and highest round",
                rate_table(panel, head, per_s, style),
            ));
        }
        sections.extend([
            ("Ratios to fifo and none, round by round: median, lowest..highest", ratio_table(panel, style)),
            (&*latency_title, latency_table(panel, style)),
            causes,
        ]);
        if changes::are_in(panel) {
            sections.extend([
                (
                    "Transactions: per second, the lowest second of all rounds against the mean, why some were run again",
                    changes::transactions(detail_rows(panel), style),
                ),
                (
                    "What the engine wrote; the highest checkpoint age (% of the redo log); changes held back",
                    changes::engine(detail_rows(panel), style),
                ),
            ]);
        }
        if kinds::has_new_orders(panel) {
            let per_minute = |cell: &Cell| cell.spread(|round| round.new_orders_per_minute);
            sections.push((
                "New orders committed per minute (NOTPM): median of the rounds, lowest and highest round",
                rate_table(panel, head, per_minute, style),
            ));
        }
        if kinds::are_in(panel) {
            sections.push((
                "Transactions by kind: medians of the rounds, the longest response time of all",
                kinds::table(detail_rows(panel), style),
            ));
        }
        let _ = writeln!(text, "\n{}", bold(&panel.heading(), style));
        let _ = writeln!(text, "{}", conclusion(panel));
        if let Some(warning) = changes::warning(panel) {
            let _ = writeln!(text, "{warning}");
        }
        for note in others::notes(panel) {
            let _ = writeln!(text, "{note}");
        }
        for (title, table) in sections {
            let _ = writeln!(text, "\n{title}\n{table}");
        }
        let comparisons = compare(panel, &published);
        if !comparisons.is_empty() {
            let _ = writeln!(
                text,
                "\nBeside the {}\n{}",
                published_title(&published),
                published_table(&comparisons, style)
            );
            for comparison in &comparisons {
                let _ = writeln!(text, "- {}", comparison.sentence);
            }
        }
    }
    for failure in server::failures(results) {
        let _ = writeln!(text, "\nNot measured: {failure}");
    }
    if results.interrupted {
        let _ = writeln!(text, "\n{INTERRUPTED}");
    }
    text
}

fn published_title(published: &Flifo2009) -> String {
    format!(
        "published curve ({}, {}, {}); other CPUs, so ratios only",
        published.source, published.year, published.server
    )
}

/// A row per curve: peak, last point, the share of the peak that remains, and the ratios at the last point.
fn ratio_table(panel: &Panel<'_>, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "policy",
        "peak/s",
        "at",
        "last/s",
        "at",
        "last / peak",
        "last vs fifo",
        "last vs none",
        "switches vs fifo",
    ]);
    for curve in &panel.curves {
        let against = |policy: &str, figure| {
            let other = panel.reference(curve, policy)?;
            let threads = panel.last_common(curve, other)?;
            ratio(curve.at(threads)?, other.at(threads)?, figure)
        };
        let (peak, last) = (curve.peak(), curve.last());
        let median = |cell: &Cell| format::maybe(cell.summary.throughput_median_per_s);
        table.add_row([
            label(curve, &curve.label, style),
            Field::new(median(peak)),
            Field::new(peak.key.threads),
            Field::new(median(last)),
            Field::new(last.key.threads),
            Field::new(format::ratio(curve.flatness())),
            Field::new(format::ratio(against("fifo", throughput))),
            Field::new(format::ratio(against("none", throughput))),
            Field::new(format::ratio(against("fifo", switches_per_statement))),
        ]);
    }
    right_aligned(table, 1)
}

fn detail_threads(panel: &Panel<'_>) -> Vec<u32> {
    let Some(&last) = panel.threads.last() else {
        return Vec::new();
    };
    let near = panel.threads.iter().copied().min_by_key(|threads| threads.abs_diff(DETAIL_THREADS));
    let mut detail: Vec<u32> = near.into_iter().chain([last]).collect();
    detail.dedup();
    detail
}

fn detail_rows<'p>(panel: &'p Panel<'p>) -> impl Iterator<Item = (&'p Curve<'p>, &'p Cell)> {
    let threads = detail_threads(panel);
    threads
        .into_iter()
        .flat_map(|threads| panel.curves.iter().filter_map(move |curve| Some((curve, curve.at(threads)?))))
}

fn latency_table(panel: &Panel<'_>, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "threads",
        "policy",
        "p50",
        "p95",
        "p99",
        "longest",
        "longest queued",
        "fewest/conn",
        "most/conn",
        "variation",
    ]);
    for (curve, cell) in detail_rows(panel) {
        let summary = &cell.summary;
        let queued = cell.spread(|r| r.admission.queued_max_us).map(|us| us.max / 1000.0);
        let fewest = cell.spread(|r| r.fairness.connection_statements_min.map(|n| n as f64)).map(|n| n.min);
        let most = cell.spread(|r| r.fairness.connection_statements_max.map(|n| n as f64)).map(|n| n.max);
        table.add_row([
            Field::new(cell.key.threads),
            label(curve, &curve.label, style),
            Field::new(format::maybe(summary.p50_median_ms)),
            Field::new(format::maybe(summary.p95_median_ms)),
            Field::new(format::maybe(summary.p99_median_ms)),
            Field::new(format::maybe(summary.longest_ms)),
            Field::new(format::maybe(queued)),
            Field::new(fewest.map_or("-".into(), |n| format!("{n:.0}"))),
            Field::new(most.map_or("-".into(), |n| format!("{n:.0}"))),
            Field::new(format::maybe(summary.connection_variation_median)),
        ]);
    }
    right_aligned(table, 2)
}

fn cause_table(panel: &Panel<'_>, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "threads",
        "policy",
        "switches/st",
        "W us",
        "S us",
        "1 + W/S",
        "run queue",
        "user",
        "system",
        "idle",
        "iowait",
        "server",
        "client",
    ]);
    for (curve, cell) in detail_rows(panel) {
        let median =
            |figure: fn(&crate::results::Round) -> Option<f64>| cell.spread(figure).map(|s| s.median);
        table.add_row([
            Field::new(cell.key.threads),
            label(curve, &curve.label, style),
            Field::new(format::maybe(cell.summary.context_switches_median_per_statement)),
            Field::new(format::maybe(cell.summary.woken_to_running_p50_median_us)),
            Field::new(format::maybe(cell.summary.running_p50_median_us)),
            Field::new(format::maybe(bound(cell).map(|b| b.median))),
            Field::new(format::maybe(median(|r| r.host.run_queue))),
            Field::new(format::percent(median(|r| r.host.cpu_user))),
            Field::new(format::percent(median(|r| r.host.cpu_system))),
            Field::new(format::percent(median(|r| r.host.cpu_idle))),
            Field::new(format::percent(median(|r| r.host.cpu_iowait))),
            Field::new(format::percent(median(|r| r.host.cpu_server))),
            Field::new(format::percent(median(|r| r.host.cpu_client))),
        ]);
    }
    right_aligned(table, 2)
}

fn published_table(comparisons: &[Comparison], style: Style) -> Table {
    let mut table = table(style);
    table.set_header(["", "published", "here", ""]);
    for comparison in comparisons {
        let verdict = comparison.verdict.map_or("", Verdict::words);
        let mut field = Field::new(verdict);
        if style.colour {
            field = match comparison.verdict {
                Some(Verdict::Holds) => field.fg(Color::Green),
                Some(Verdict::Fails) => field.fg(Color::Red),
                _ => field.fg(Color::Yellow),
            };
        }
        table.add_row([
            Field::new(comparison.claim),
            Field::new(comparison.published.map_or("-".into(), |p| format!("{p:.2}"))),
            Field::new(format::ratio(comparison.measured)),
            field,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::fixture;

    const PLAIN: Style = Style { colour: false, width: 120 };

    #[test]
    fn lines_stand_in_the_columns_of_their_heading() {
        let results = fixture::results();
        let heading = cell_heading(PLAIN);
        for cell in &results.cells {
            let line = cell_line(cell, PLAIN);
            assert_eq!(line.len(), heading.len(), "{line}");
            assert!(!line.contains('\x1b'));
        }
        let bare = Cell::new(results.cells[0].key.clone());
        assert_eq!(cell_line(&bare, PLAIN).len(), heading.len());
        let coloured = Style { colour: true, width: 120 };
        assert!(cell_line(&results.cells[2], coloured).contains("\x1b[1;34mflifo"));
    }

    #[test]
    fn reports_read_as_their_golden_files() {
        let reports = [
            ("sweep-report", fixture::results()),
            ("sweep-report-writing", fixture::writing()),
            ("sweep-report-server", fixture::server()),
            ("sweep-report-kinds", fixture::kinds()),
        ];
        for (name, results) in reports {
            let text = final_report(&results, PLAIN);
            fixture::assert_fits(&text, PLAIN);
            golden(name, &text);
        }
    }

    #[test]
    fn a_row_holds_the_medians_of_its_cell() {
        let results = fixture::results();
        let cell = results.cells.iter().find(|c| c.key.threads == 1024 && c.key.policy == "flifo").unwrap();
        let expected = format::with_spread(cell.throughput());
        let text = final_report(&results, PLAIN);
        let row = text.lines().find(|line| line.trim_start_matches(['│', ' ']).starts_with("1024 ")).unwrap();
        assert!(row.trim_end_matches(['│', ' ']).ends_with(&expected), "{expected} should end\n{row}");
    }

    #[test]
    fn an_interrupted_run_with_one_cell_is_told_too() {
        let mut results = fixture::results();
        results.cells.truncate(1);
        results.cells[0].rounds.truncate(1);
        results.interrupted = true;
        let text = final_report(&results, PLAIN);
        results.cells.clear();
        golden("sweep-report-interrupted", &(text + "\n# without cells\n" + &final_report(&results, PLAIN)));
    }

    #[test]
    fn colour_only_when_asked() {
        let results = fixture::results();
        assert!(final_report(&results, Style { colour: true, width: 120 }).contains("\x1b["));
    }
}
