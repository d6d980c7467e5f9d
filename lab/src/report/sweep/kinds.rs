//! Report sections of a workload with several kinds of transactions.

use comfy_table::{Cell as Field, Table};

use super::analysis::{Curve, Panel};
use super::lines::of_figure;
use super::tables::label;
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::table::{right_aligned, table as plain_table};
use crate::results::{Cell, KindFigures, Results};
use crate::support::format;
use crate::support::statistics::Spread;

/// The settings of a load with kinds, in one line; `None` for another run.
pub(super) fn described(results: &Results) -> Option<String> {
    let settings = &results.settings;
    let objects = settings.objects.map(|objects| match settings.reads_per_write {
        Some(0) => format!("{} objects, reads only", format::count(objects.into())),
        reads => {
            format!("{} objects, {} reads for each write", format::count(objects.into()), reads.unwrap_or(0))
        }
    });
    let warehouses = settings.warehouses.map(|warehouses| {
        let think_times = match settings.think_time_factor {
            Some(factor) if factor > 0.0 => format!("think times x {factor}"),
            _ => "no think times".into(),
        };
        let quirks = if settings.quirks == Some(true) { ", with DBT-2's quirks" } else { "" };
        format!("{warehouses} warehouses, mix {}, {think_times}{quirks}", settings.mix)
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

/// A row for each kind of each cell.
pub(super) fn table<'p>(rows: impl Iterator<Item = (&'p Curve<'p>, &'p Cell)>, style: Style) -> Table {
    let mut table = plain_table(style);
    table.set_header([
        "threads",
        "policy",
        "kind",
        "transact/s",
        "share",
        "rolled back",
        "run again",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "longest",
    ]);
    for (curve, cell) in rows {
        for name in names(cell) {
            let median = |figure| spread(cell, name, figure).map(|spread| spread.median);
            let count = |figure| median(figure).map_or("-".into(), |count| format!("{count:.0}"));
            table.add_row([
                Field::new(cell.key.threads),
                label(curve, &curve.label, style),
                Field::new(name),
                Field::new(format::maybe(median(|kind| Some(kind.transactions_per_s)))),
                Field::new(format::percent(median(|kind| kind.share.map(|share| 100.0 * share)))),
                Field::new(count(|kind| Some(kind.rolled_back as f64))),
                Field::new(count(|kind| Some(kind.retries as f64))),
                Field::new(format::maybe(median(|kind| kind.p50_ms))),
                Field::new(format::maybe(median(|kind| kind.p95_ms))),
                Field::new(format::maybe(median(|kind| kind.p99_ms))),
                Field::new(format::maybe(spread(cell, name, |kind| kind.max_ms).map(|spread| spread.max))),
            ]);
        }
    }
    right_aligned(table, 3)
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
    }

    #[test]
    fn settings_in_one_line() {
        let mut results = fixture::kinds();
        assert_eq!(described(&results).unwrap(), "10 warehouses, mix 45,43,4,4,4, no think times");
        (results.settings.think_time_factor, results.settings.quirks) = (Some(0.5), Some(true));
        let line = described(&results).unwrap();
        assert!(line.ends_with("think times x 0.5, with DBT-2's quirks"), "{line}");
        results = fixture::writing();
        assert_eq!(described(&results), None);
        (results.settings.objects, results.settings.reads_per_write) = (Some(100), Some(1));
        assert_eq!(described(&results).unwrap(), "100 objects, 1 reads for each write");
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
