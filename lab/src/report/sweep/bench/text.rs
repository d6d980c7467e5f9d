//! Lines and tables for a terminal.

use std::fmt::Write as _;

use comfy_table::{Cell as Field, ColumnConstraint, Table};

use super::{against_best_peer, best_peer, conclusion, flat_threads, longest_against_fifo, policies};
use crate::report::sweep::analysis::{Curve, Panel, bound, panels};
use crate::report::sweep::others;
use crate::report::sweep::tables::{ansi, label, throughput_table};
use crate::report::table::{bold, right_aligned, table};
use crate::report::{INTERRUPTED, Style};
use crate::results::{Cell, Results, Round};
use crate::support::format;

/// The heading of the lines that [`entry_line`] gives, without newline.
pub fn entry_heading(style: Style) -> String {
    let heading = format!(
        "{:<15} {:<13} {:>5} {:>7} {:>20} {:>11} {:>11} {:>11} {:>11}",
        "load",
        "variant",
        "limit",
        "threads",
        "statements/s",
        "wait p50 us",
        "wait p99 us",
        "longest ms",
        "fewest/mean"
    );
    bold(&heading, style)
}

/// A cell as one line of fixed columns, without newline: printed as each cell finishes.
pub fn entry_line(cell: &Cell, style: Style) -> String {
    let key = &cell.key;
    let name = if key.target == "peer" && key.policy == "none" { "no limit" } else { &key.policy };
    let (from, to) = if style.colour { (ansi(&key.policy), "\x1b[0m") } else { ("", "") };
    let limit = if key.concurrency == 0 { "-".into() } else { key.concurrency.to_string() };
    let summary = &cell.summary;
    format!(
        "{:<15} {from}{name:<13}{to} {limit:>5} {:>7} {:>20} {:>11} {:>11} {:>11} {:>11}",
        key.load,
        key.threads,
        format::with_spread(cell.throughput()),
        format::maybe(summary.enter_p50_median_us),
        format::maybe(summary.enter_p99_median_us),
        format::maybe(summary.enter_longest_us.map(|us| us / 1e3)),
        format::maybe(summary.connection_fewest_share_median),
    )
}

/// The whole report at the end of a run.
pub(crate) fn report(results: &Results, style: Style) -> String {
    let panels = panels(results);
    let mut text = String::new();
    for panel in &panels {
        let last = panel.threads.last().copied().unwrap_or(0);
        let _ = writeln!(text, "\n{}\n{}", bold(&panel.heading(), style), conclusion(panel));
        for note in others::notes(panel) {
            let _ = writeln!(text, "{note}");
        }
        let sections = [
            (
                "Statements per second: median of the rounds, lowest and highest round".to_owned(),
                throughput_table(panel, |curve| head(curve, style), style),
            ),
            (
                "Against the best peer, round by round: median, lowest..highest".to_owned(),
                against(panel, style),
            ),
            (
                format!("Share of its own peak that each keeps, and how evenly {last} threads are served"),
                service(panel, last, style),
            ),
            (
                format!("Longest wait with {last} threads, also in rotations of the queue"),
                waits(panel, last, style),
            ),
            (
                format!("From requesting a slot to running, and why, with {last} threads"),
                causes(panel, last, style),
            ),
        ];
        for (title, table) in sections {
            let _ = writeln!(text, "\n{title}\n{table}");
        }
    }
    if results.interrupted {
        let _ = writeln!(text, "\n{INTERRUPTED}");
    }
    text
}

/// A long name may break where it has a hyphen, so that many columns fit.
fn head(curve: &Curve<'_>, style: Style) -> Field {
    label(curve, &curve.label.replace('-', "- "), style)
}

/// A table whose first column has names, which are not broken.
fn named(mut table: Table) -> Table {
    if let Some(names) = table.column_mut(0) {
        names.set_constraint(ColumnConstraint::ContentWidth);
    }
    right_aligned(table, 1)
}

fn against(panel: &Panel<'_>, style: Style) -> Table {
    let mut table = table(style);
    let names = ["threads", "best peer"].map(Field::new).into_iter();
    table.set_header(names.chain(policies(panel).map(|curve| head(curve, style))));
    for &threads in &panel.threads {
        let best = best_peer(panel, threads).map_or("-".to_owned(), |(curve, cell)| {
            format!("{} {}", curve.label, format::maybe(cell.summary.throughput_median_per_s))
        });
        let ratios = policies(panel).map(|curve| format::ratio(against_best_peer(panel, curve, threads)));
        table.add_row([threads.to_string(), best].into_iter().chain(ratios));
    }
    right_aligned(table, 2)
}

fn service(panel: &Panel<'_>, last: u32, style: Style) -> Table {
    let flat = flat_threads(panel);
    let mut table = table(style);
    let names = ["variant", "peak/s", "at"].map(str::to_owned).into_iter();
    let flat_names = flat.iter().map(|threads| format!("at {threads}"));
    let more = ["fewest / mean", "most / mean", "variation"].map(str::to_owned);
    table.set_header(names.chain(flat_names).chain(more));
    for curve in &panel.curves {
        let peak = curve.peak();
        let at_last = curve.at(last);
        let figure = |figure: fn(&Round) -> Option<f64>| {
            format::maybe(at_last.and_then(|cell| cell.spread(figure)).map(|spread| spread.median))
        };
        let mut row = vec![
            label(curve, &curve.label, style),
            Field::new(format::maybe(peak.summary.throughput_median_per_s)),
            Field::new(peak.key.threads),
        ];
        row.extend(flat.iter().map(|&threads| Field::new(format::ratio(curve.flatness_at(threads)))));
        row.extend([
            Field::new(figure(|r| r.fairness.connection_fewest_share)),
            Field::new(figure(|r| r.fairness.connection_most_share)),
            Field::new(figure(|r| r.fairness.connection_variation)),
        ]);
        table.add_row(row);
    }
    named(table)
}

fn waits(panel: &Panel<'_>, last: u32, style: Style) -> Table {
    let mut table = table(style);
    table.set_header(["variant", "longest ms", "rotations", "longest / fifo"]);
    for curve in &panel.curves {
        let Some(Cell { summary, .. }) = curve.at(last) else { continue };
        table.add_row([
            label(curve, &curve.label, style),
            Field::new(format::maybe(summary.enter_longest_us.map(|us| us / 1e3))),
            Field::new(format::maybe(summary.enter_longest_rotations)),
            Field::new(format::ratio(longest_against_fifo(panel, curve, last))),
        ]);
    }
    named(table)
}

fn causes(panel: &Panel<'_>, last: u32, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "variant",
        "p50 us",
        "p95 us",
        "p99 us",
        "p99.9 us",
        "switches/st",
        "W us",
        "S us",
        "1 + W/S",
        "user",
        "system",
        "idle",
    ]);
    for curve in &panel.curves {
        let Some(cell) = curve.at(last) else { continue };
        let median = |figure: fn(&Round) -> Option<f64>| cell.spread(figure).map(|s| s.median);
        let figures = [
            median(|r| r.entry.enter_p50_us),
            median(|r| r.entry.enter_p95_us),
            median(|r| r.entry.enter_p99_us),
            median(|r| r.entry.enter_p999_us),
            cell.summary.context_switches_median_per_statement,
            cell.summary.woken_to_running_p50_median_us,
            cell.summary.running_p50_median_us,
            bound(cell).map(|bound| bound.median),
        ];
        let shares =
            [median(|r| r.host.cpu_user), median(|r| r.host.cpu_system), median(|r| r.host.cpu_idle)];
        let fields = figures.map(format::maybe).into_iter().chain(shares.map(format::percent));
        table.add_row(std::iter::once(label(curve, &curve.label, style)).chain(fields.map(Field::new)));
    }
    named(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::fixture;

    const PLAIN: Style = Style { colour: false, width: 120 };

    #[test]
    fn lines_stand_in_the_columns_of_their_heading() {
        let results = fixture::bench();
        let heading = entry_heading(PLAIN);
        for cell in &results.cells {
            let line = entry_line(cell, PLAIN);
            assert_eq!(line.len(), heading.len(), "{line}");
        }
        let bare = Cell::new(results.cells[0].key.clone());
        assert_eq!(entry_line(&bare, PLAIN).len(), heading.len());
    }

    #[test]
    fn cpu_time_of_other_programs_is_reported() {
        let mut results = fixture::bench();
        let before = report(&results, PLAIN);
        let seconds = &mut results.cells[0].rounds[0].seconds;
        *seconds = fixture::results().cells[0].rounds[0].seconds.clone();
        seconds[0].cpu_server = Some(0.0);
        let after = report(&results, PLAIN);
        let added: Vec<&str> = after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
        golden("bench-report-other-programs", &added.join("\n"));
    }

    #[test]
    fn the_report_reads_as_its_golden_file() {
        let text = report(&fixture::bench(), PLAIN);
        fixture::assert_fits(&text, PLAIN);
        golden("bench-report", &text);
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        let mut results = fixture::bench();
        results.cells.truncate(1);
        results.cells[0].rounds.truncate(1);
        results.interrupted = true;
        golden("bench-report-interrupted", &report(&results, PLAIN));
    }
}
