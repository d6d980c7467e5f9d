//! Report sections of a live server: its own counters, its CPU time, errors.

use comfy_table::{Cell as Field, Table};

use super::analysis::{Curve, Panel, ratio, throughput};
use super::lines::of_figure;
use super::tables::label;
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::table::{right_aligned, table};
use crate::results::{Cell, Results, Round};
use crate::support::format::{self, compared};
use crate::support::statistics::Spread;

/// The server settings that matter most.
const VARIABLES: [&str; 5] = [
    "innodb_flush_log_at_trx_commit",
    "innodb_buffer_pool_size",
    "thread_handling",
    "sync_binlog",
    "log_bin",
];

/// The server in one line; `None` for the embedded engine.
pub(super) fn described(results: &Results) -> Option<String> {
    let settings = &results.settings;
    if settings.server_version.is_empty() {
        return None;
    }
    let variables: Vec<String> = VARIABLES
        .iter()
        .filter_map(|name| settings.server_variables.iter().find(|variable| variable.name == *name))
        .map(|variable| format!("{} {}", variable.name, variable.value))
        .collect();
    let tls = match settings.server_tls.as_str() {
        "" => String::new(),
        tls => format!(" with {tls}"),
    };
    Some(format!(
        "{} at {}{tls} ({})",
        settings.server_version,
        settings.server_address,
        variables.join(", ")
    ))
}

/// What failed, a line each.
pub(super) fn failures(results: &Results) -> Vec<String> {
    let each = |cell: &Cell| {
        let key = &cell.key;
        let name = format!("{} {} with {} connections", key.workload, key.policy, key.threads);
        cell.failures
            .iter()
            .map(|failure| format!("{name}, round {}: {}", failure.round + 1, failure.reason))
            .collect()
    };
    results.cells.iter().flat_map(|cell| -> Vec<String> { each(cell) }).collect()
}

/// Retried statements and transactions.
fn tried_again(round: &Round) -> Option<f64> {
    let refusals = &round.refusals;
    let all = [
        refusals.deadlocks,
        refusals.lock_wait_timeouts,
        refusals.statement_timeouts,
        refusals.queue_full_refusals,
        refusals.other_refusals,
    ];
    all.into_iter().flatten().map(|n| n as f64).reduce(|a, b| a + b)
}

fn median(cell: &Cell, figure: fn(&Round) -> Option<f64>) -> Option<f64> {
    cell.spread(figure).map(|spread| spread.median)
}

/// The panel's table of causes.
pub(super) fn counters<'p>(rows: impl Iterator<Item = (&'p Curve<'p>, &'p Cell)>, style: Style) -> Table {
    let mut table = table(style);
    table.set_header([
        "threads",
        "policy",
        "transact/s",
        "counted/s",
        "server us",
        "client us",
        "switches",
        "waits/s",
        "retried",
        "server",
        "client",
    ]);
    for (curve, cell) in rows {
        table.add_row([
            Field::new(cell.key.threads),
            label(curve, &curve.label, style),
            Field::new(format::maybe(cell.summary.transactions_median_per_s)),
            Field::new(format::maybe(cell.summary.server_statements_median_per_s)),
            Field::new(format::maybe(cell.summary.server_cpu_median_us_per_statement)),
            Field::new(format::maybe(cell.summary.client_cpu_median_us_per_statement)),
            Field::new(format::maybe(cell.summary.server_context_switches_median_per_statement)),
            Field::new(format::maybe(median(cell, |r| r.server.server_row_lock_waits_per_s))),
            Field::new(format::maybe(median(cell, tried_again))),
            Field::new(format::percent(median(cell, |r| r.host.cpu_server))),
            Field::new(format::percent(median(cell, |r| r.host.cpu_client))),
        ]);
    }
    right_aligned(table, 2)
}

/// The columns of the page's table after threads and policy.
pub(super) const HEAD: [&str; 19] = [
    "limit",
    "statements/s",
    "transact/s",
    "counted/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "longest ms",
    "fewest/mean",
    "most/mean",
    "variation",
    "server µs/st",
    "client µs/st",
    "its switches/st",
    "lock waits/s",
    "retries",
    "idle",
    "server",
    "client",
];

/// A cell's fields under [`HEAD`].
pub(super) fn cell_fields(cell: &Cell) -> Vec<String> {
    let summary = &cell.summary;
    let limit = match (cell.key.concurrency, median(cell, |r| r.entry.limit.map(f64::from))) {
        (0, Some(found)) if cell.key.policy != "none" => format!("found {found:.0}"),
        (0, _) => "-".into(),
        (limit, _) => limit.to_string(),
    };
    let mut fields = vec![limit, format::with_spread(cell.throughput())];
    let figures = [
        summary.transactions_median_per_s,
        summary.server_statements_median_per_s,
        summary.p50_median_ms,
        summary.p95_median_ms,
        summary.p99_median_ms,
        summary.longest_ms,
        summary.connection_fewest_share_median,
        median(cell, |r| r.fairness.connection_most_share),
        summary.connection_variation_median,
        summary.server_cpu_median_us_per_statement,
        summary.client_cpu_median_us_per_statement,
        summary.server_context_switches_median_per_statement,
        median(cell, |r| r.server.server_row_lock_waits_per_s),
        median(cell, tried_again),
    ];
    fields.extend(figures.map(format::maybe));
    let shares = [
        median(cell, |r| r.host.cpu_idle),
        median(cell, |r| r.host.cpu_server),
        median(cell, |r| r.host.cpu_client),
    ];
    fields.extend(shares.map(format::percent));
    fields
}

/// The charts that only a server has.
pub(super) fn charts(panel: &Panel<'_>) -> Vec<Chart> {
    type Figure = fn(&Round) -> Option<f64>;
    let expected: [(&str, &str, &str, Figure); 4] = [
        (
            "CPU time of the server per statement",
            "User and system time of the server's process.",
            "µs per statement",
            |r| r.server.server_cpu_us_per_statement,
        ),
        (
            "Context switches of the server per statement",
            "Of the server's threads alone, voluntary and not.",
            "switches per statement",
            |r| r.server.server_context_switches_per_statement,
        ),
        (
            "Fairness: variation",
            "Standard deviation of statements per connection over their mean; 0 is even.",
            "variation",
            |r| r.fairness.connection_variation,
        ),
        ("Tried again", "Deadlocks, timeouts and refusals in a round.", "errors", tried_again),
    ];
    let chart = |(title, note, unit, figure)| of_figure(panel, title, note, unit, figure);
    expected.into_iter().filter_map(chart).collect()
}

/// One or two sentences that a panel comes down to.
pub(super) fn conclusion(panel: &Panel<'_>) -> Option<String> {
    let limited = panel.curves.iter().filter(|curve| curve.policy != "none");
    let last = |curve: &Curve<'_>| curve.last().throughput().map_or(0.0, |t| t.median);
    let best = limited.max_by(|a, b| last(a).total_cmp(&last(b)))?;
    let none = panel.reference(best, "none")?;
    let threads = panel.last_common(best, none)?;
    let (flifo, unlimited) = (best.at(threads)?, none.at(threads)?);
    let gain: Spread = ratio(flifo, unlimited, throughput)?;
    let setting =
        if best.concurrency > 0 { format!("limit {}", best.concurrency) } else { "limit found".into() };
    let mut text = format!(
        "With {threads} connections, {} ({setting}) is {}",
        best.policy,
        compared(gain, "the server without a limit")
    );
    if let Some((flifo, unlimited)) = flifo
        .summary
        .server_cpu_median_us_per_statement
        .zip(unlimited.summary.server_cpu_median_us_per_statement)
    {
        text += &format!(
            ", with {} us of the server's CPU time per statement against {}",
            format::count(flifo),
            format::count(unlimited)
        );
    }
    text.push('.');
    if let Some(flatness) = best.flatness() {
        let (share, at) = (100.0 * flatness.median, best.peak().key.threads);
        text += &format!(" Of its peak, at {at} connections, it keeps {share:.0}%");
        match none.flatness() {
            Some(flatness) => text += &format!("; without a limit {:.0}% are left.", 100.0 * flatness.median),
            None => text.push('.'),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Cases;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn a_field_for_each_column() {
        assert!(fixture::server().cells.iter().all(|cell| cell_fields(cell).len() == HEAD.len()));
    }

    #[test]
    fn sentences_about_a_server() {
        let results = fixture::server();
        let mut cases = Cases::default();
        cases.add("conclusion", conclusion(&analysis::panels(&results)[0]).unwrap());
        cases.add("described", described(&results).unwrap());
        cases.add("failures", failures(&results).join("\n"));
        cases.check("server-sentences");
        assert_eq!(described(&fixture::results()), None);
    }

    #[test]
    fn what_was_not_measured_is_not_drawn() {
        let mut results = fixture::server();
        let titles = |results: &Results| charts(&analysis::panels(results)[0]).len();
        assert_eq!(titles(&results), 4);
        for cell in &mut results.cells {
            cell.rounds.iter_mut().for_each(|round| round.server.server_cpu_us_per_statement = None);
        }
        assert_eq!(titles(&results), 3);
    }
}
