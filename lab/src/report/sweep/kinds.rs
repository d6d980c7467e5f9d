//! Report sections of a workload with several kinds of transactions.

use comfy_table::{Cell as Field, Table};

use super::analysis::{Curve, Panel};
use super::lines::of_figure;
use super::tables::label;
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::page::escape;
use crate::report::table::{right_aligned, table as plain_table};
use crate::results::{Cell, KindFigures, Results};
use crate::support::format;
use crate::support::statistics::Spread;

/// The settings of a load with kinds, in one line; `None` for another run.
pub(super) fn described(results: &Results) -> Option<String> {
    let settings = &results.settings;
    let objects = settings.objects.map(|objects| match settings.reads_per_write {
        Some(0) => format!("objects: {objects}, reads only"),
        reads => format!("objects: {objects}, reads for each write: {}", reads.unwrap_or_default()),
    });
    let warehouses = settings.warehouses.map(|warehouses| {
        let think_times = match settings.think_time_factor {
            Some(factor) if factor > 0.0 => format!("think times x {factor}"),
            _ => "no think times".into(),
        };
        let quirks = if settings.quirks == Some(true) { ", with DBT-2's quirks" } else { "" };
        format!("warehouses: {warehouses}, mix {}, {think_times}{quirks}", settings.mix)
    });
    warehouses.or(objects)
}

/// Whether a panel's workload has several kinds of transactions.
pub(super) fn are_in(panel: &Panel<'_>) -> bool {
    let has_kinds = |cell: &Cell| cell.rounds.iter().any(|round| !round.kinds.is_empty());
    panel.curves.iter().flat_map(|curve| &curve.cells).any(|cell| has_kinds(cell))
}

/// Whether new orders were counted.
pub(super) fn has_new_orders(panel: &Panel<'_>) -> bool {
    let are_counted = |cell: &Cell| cell.rounds.iter().any(|round| round.new_orders_per_minute.is_some());
    panel.curves.iter().flat_map(|curve| &curve.cells).any(|cell| are_counted(cell))
}

/// The names of a cell's kinds, in their order.
fn names(cell: &Cell) -> Vec<&str> {
    let first = cell.rounds.iter().find(|round| !round.kinds.is_empty());
    first.map_or_else(Vec::new, |round| round.kinds.iter().map(|kind| kind.kind.as_str()).collect())
}

/// The spread of a kind's figure over the rounds that have it.
fn spread(cell: &Cell, name: &str, figure: fn(&KindFigures) -> Option<f64>) -> Option<Spread> {
    cell.spread(|round| round.kinds.iter().find(|kind| kind.kind == name).and_then(figure))
}

/// The columns of a kind, after threads and policy.
const HEAD: [&str; 9] =
    ["kind", "transact/s", "share", "rolled back", "run again", "p50 ms", "p95 ms", "p99 ms", "longest"];

/// The fields of a cell's kind under [`HEAD`].
fn fields(cell: &Cell, name: &str) -> [String; 9] {
    let median = |figure| spread(cell, name, figure).map(|spread| spread.median);
    let count = |figure| median(figure).map_or("-".into(), |count| format!("{count:.0}"));
    [
        name.into(),
        format::maybe(median(|kind| Some(kind.transactions_per_s))),
        format::percent(median(|kind| kind.share.map(|share| 100.0 * share))),
        count(|kind| Some(kind.rolled_back as f64)),
        count(|kind| Some(kind.retries as f64)),
        format::maybe(median(|kind| kind.p50_ms)),
        format::maybe(median(|kind| kind.p95_ms)),
        format::maybe(median(|kind| kind.p99_ms)),
        format::maybe(spread(cell, name, |kind| kind.max_ms).map(|spread| spread.max)),
    ]
}

/// A row for each kind of each cell.
pub(super) fn table<'p>(rows: impl Iterator<Item = (&'p Curve<'p>, &'p Cell)>, style: Style) -> Table {
    let mut table = plain_table(style);
    table.set_header(["threads", "policy"].iter().chain(&HEAD));
    for (curve, cell) in rows {
        for name in names(cell) {
            let first = [Field::new(cell.key.threads), label(curve, &curve.label, style)];
            table.add_row(first.into_iter().chain(fields(cell, name).map(Field::new)));
        }
    }
    right_aligned(table, 3)
}

/// The same of all cells, for the page; empty without kinds.
pub(super) fn page_table(panel: &Panel<'_>) -> String {
    if !are_in(panel) {
        return String::new();
    }
    let head: String =
        ["threads", "policy"].iter().chain(&HEAD).map(|name| format!("<th>{name}</th>")).collect();
    let mut rows = String::new();
    for &threads in &panel.threads {
        for (curve, cell) in panel.curves.iter().filter_map(|curve| Some((curve, curve.at(threads)?))) {
            for (place, name) in names(cell).into_iter().enumerate() {
                let class = if place == 0 { " class=\"group\"" } else { "" };
                let fields = fields(cell, name).map(|field| format!("<td>{}</td>", escape(&field))).concat();
                rows +=
                    &format!("<tr{class}><td>{threads}</td><td>{}</td>{fields}</tr>\n", escape(&curve.label));
            }
        }
    }
    format!(
        "<div class=\"card\"><details open><summary>Transactions by kind: medians of the rounds, the longest response time of all</summary>\n\
         <div class=\"scroll\" tabindex=\"0\"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div></details></div>\n"
    )
}

/// The chart that only these panels have.
pub(super) fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    let note = "New orders committed per minute; median of the rounds, bars from the lowest to the highest.";
    of_figure(panel, "New orders (NOTPM)", note, "new orders per minute", |round| round.new_orders_per_minute)
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::sweep::{analysis, fixture};

    const PLAIN: Style = Style { colour: false, width: 120 };

    #[test]
    fn kinds_are_shown_where_there_are_some() {
        let (without, with) = (fixture::writing(), fixture::kinds());
        let (without, with) = (analysis::panels(&without), analysis::panels(&with));
        assert!(!are_in(&without[0]) && !has_new_orders(&without[0]) && charts(&without[0]).is_empty());
        assert!(are_in(&with[0]) && has_new_orders(&with[0]));
        assert_eq!(charts(&with[0])[0].title, "New orders (NOTPM)");
        assert_eq!(page_table(&without[0]), "");
        // A row for each of two kinds of each cell, and the head.
        let cells: usize = with[0].curves.iter().map(|curve| curve.cells.len()).sum();
        assert_eq!(page_table(&with[0]).matches("<tr").count(), 1 + 2 * cells);
    }

    #[test]
    fn settings_in_one_line() {
        let mut results = fixture::kinds();
        assert_eq!(described(&results).unwrap(), "warehouses: 10, mix 45,43,4,4,4, no think times");
        (results.settings.think_time_factor, results.settings.quirks) = (Some(0.5), Some(true));
        let line = described(&results).unwrap();
        assert!(line.ends_with("think times x 0.5, with DBT-2's quirks"), "{line}");
        results = fixture::writing();
        assert_eq!(described(&results), None);
        (results.settings.objects, results.settings.reads_per_write) = (Some(100), Some(1));
        assert_eq!(described(&results).unwrap(), "objects: 100, reads for each write: 1");
    }

    #[test]
    fn a_row_for_each_kind_of_a_cell() {
        let results = fixture::kinds();
        let panels = analysis::panels(&results);
        let curves = panels[0].curves.iter().take(2);
        let rows = curves.map(|curve| (curve, curve.cells[0]));
        golden("sweep-kinds", &table(rows, PLAIN).to_string());
    }
}
