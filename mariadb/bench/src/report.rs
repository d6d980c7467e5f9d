//! The results as tables, in Markdown, which a terminal shows as well.

use std::fmt::Write as _;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{ContentArrangement, Table};
use flifo::support::format::{bytes, count};
use flifo::support::statistics::Spread;

use crate::measure::Figures;
use crate::plan::What;
use crate::results::{Results, RunHead, throughput};
use crate::targets::{Verdict, of_stock, verdicts};
use crate::variant::Kind;
use crate::workload::Workload;

/// The whole report.
pub fn markdown(results: &Results) -> String {
    if results.cells.is_empty() {
        return "Nothing was measured.\n".into();
    }
    let mut text = head(results);
    text += &demands(results);
    for workload in results.workloads() {
        text += &of_workload(results, workload);
    }
    text + &notes(&results.run)
}

/// The notes of a run, as a section.
pub(crate) fn notes(run: &RunHead) -> String {
    if run.notes.is_empty() {
        return String::new();
    }
    let lines: String = run.notes.iter().map(|note| format!("- {note}\n")).collect();
    format!("### Notes\n\n{lines}\n")
}

fn head(results: &Results) -> String {
    let settings = &results.settings;
    let rounds = results.cells.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    let title = match results.what {
        What::Table => "MariaDB with the plugin, without it, and with a pool of threads",
        What::Overhead => "What the plugin costs at one connection",
        What::SmallPool => "A buffer pool of a tenth of the data",
        What::Slices => "In short alternating slices",
    };
    let mut text = format!("## {title}\n\n`{}`\n\n", results.run.command_line);
    let _ = writeln!(
        text,
        "{}. Median of {rounds} interleaved rounds of {} s, of which the first {} do not count, \
         and the lowest and highest round. Ratios are of the same round. Throughput is what the server counts. \
         {} rows, {}, --rand-type={}{}{}{}{}.{}\n",
        results.run.described(),
        settings.time_s,
        settings.skip_s,
        settings.rows,
        bytes(settings.buffer_pool_bytes) + " of buffer pool",
        settings.distribution,
        if settings.text { ", statements as text" } else { "" },
        thinking(settings.think_us),
        if settings.reports > 0 {
            let of = settings.report_rows.map(|rows| format!(" of {rows} rows joined with as many"));
            format!(", {} reports{} beside the load", settings.reports, of.unwrap_or_default())
        } else {
            String::new()
        },
        if settings.transactions > 0 {
            format!(
                ", {} connections beside the load with transactions on ten rows that pause for {} us behind each statement",
                settings.transactions, settings.pause_us
            )
        } else {
            String::new()
        },
        if results.run.interrupted { " **Interrupted: not all rounds are there.**" } else { "" },
    );
    for variant in &results.variants {
        let _ = writeln!(text, "- `{}`: {}", variant.name, variant.described());
    }
    let options: Vec<String> =
        results.server_options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let _ = writeln!(text, "- all: {}; besides, the server's defaults\n", options.join(", "));
    text
}

/// A table in Markdown.
pub(crate) fn table(header: Vec<String>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table
}

/// What the issue wants.
fn demands(results: &Results) -> String {
    let verdicts = verdicts(results);
    if verdicts.is_empty() {
        return String::new();
    }
    let met = verdicts.iter().filter(|verdict| verdict.is_met()).count();
    let mut text = format!("### Target: {met} of {} met\n\n", verdicts.len());
    for variant in results.variants.iter().filter(|variant| variant.kind == Kind::Plugin) {
        let of: Vec<&Verdict> = verdicts.iter().filter(|v| v.variant == variant.name).collect();
        text += &against_stock(results, &variant.name);
        let others: Vec<&Verdict> = of.into_iter().filter(|v| v.demand != "throughput / stock").collect();
        if others.is_empty() {
            continue;
        }
        let columns = [variant.name.as_str(), "workload", "connections", "measured", "target", ""];
        let mut table = table(columns.map(str::to_owned).into());
        for verdict in others {
            table.add_row([
                verdict.demand.to_owned(),
                verdict.workload.name(),
                verdict.connections.to_string(),
                ratio(verdict.measured),
                verdict.target.text(),
                met_or_missed(verdict.is_met()).to_owned(),
            ]);
        }
        let _ = writeln!(text, "{table}\n");
    }
    text
}

fn against_stock(results: &Results, name: &str) -> String {
    let Some(stock) = results.first_of(Kind::Stock) else { return String::new() };
    let connections = results.connections();
    let mut header = vec![format!("{name} / {}", stock.name)];
    header.extend(connections.iter().map(u32::to_string));
    let mut table = table(header);
    for workload in results.workloads() {
        let mut row = vec![workload.title(results.settings.rows)];
        row.extend(connections.iter().map(|&connections| {
            let measured = results.ratio((workload, connections), (name, &stock.name), throughput);
            match (measured, of_stock(results.what, workload, connections)) {
                (None, _) => "-".into(),
                (Some(measured), None) => ratio(measured),
                (Some(measured), Some(bound)) => {
                    format!(
                        "{}, target {bound}: {}",
                        ratio(measured),
                        met_or_missed(measured.median >= bound)
                    )
                }
            }
        }));
        table.add_row(row);
    }
    format!("{table}\n\n")
}

fn met_or_missed(is_met: bool) -> &'static str {
    if is_met { "met" } else { "**missed**" }
}

/// Throughput, then what explains it.
fn of_workload(results: &Results, workload: Workload) -> String {
    let connections = results.connections();
    let mut header = vec![format!("{} per second", workload.counted())];
    header.extend(connections.iter().map(u32::to_string));
    let mut throughputs = table(header);
    for variant in &results.variants {
        let mut row = vec![variant.name.clone()];
        row.extend(connections.iter().map(|&n| {
            let cell = results.cell(workload, n, &variant.name);
            cell.and_then(|cell| cell.spread(throughput)).map_or_else(|| "-".into(), spread)
        }));
        throughputs.add_row(row);
    }
    if let Some(stock) = results.first_of(Kind::Stock) {
        for variant in results.variants.iter().filter(|variant| variant.name != stock.name) {
            let mut row = vec![format!("{} / {}", variant.name, stock.name)];
            row.extend(connections.iter().map(|&n| {
                let measured = results.ratio((workload, n), (&variant.name, &stock.name), throughput);
                measured.map_or_else(|| "-".into(), ratio)
            }));
            throughputs.add_row(row);
        }
    }
    let details = details(results, workload, &connections);
    format!("### {}\n\n{throughputs}\n\n{details}\n\n", workload.title(results.settings.rows))
}

fn details(results: &Results, workload: Workload, connections: &[u32]) -> Table {
    const COLUMNS: [&str; 14] = [
        "connections",
        "variant",
        "server CPU, us/statement",
        "switches/statement",
        "left to purge/statement",
        "server, % of CPU",
        "sysbench, % of CPU",
        "errors",
        "mean, ms",
        "p95, ms",
        "longest, ms",
        "longest / mean",
        "queue's cycle, ms",
        "variation",
    ];
    let mut table = table(COLUMNS.map(str::to_owned).into());
    for &n in connections {
        for variant in &results.variants {
            let Some(cell) = results.cell(workload, n, &variant.name) else { continue };
            let median = |figure: fn(&Figures) -> f64| {
                cell.spread(figure).map_or_else(|| "-".into(), |spread| count(spread.median))
            };
            let errors: u64 = cell.rounds.iter().map(|figures| figures.errors).sum();
            table.add_row([
                n.to_string(),
                variant.name.clone(),
                median(|figures| figures.server_cpu_us_per_statement),
                median(|figures| figures.switches_per_statement),
                median(|figures| figures.history_per_statement.unwrap_or(f64::NAN)),
                median(|figures| figures.server_cpu),
                median(|figures| figures.sysbench_cpu),
                errors.to_string(),
                median(|figures| figures.mean_ms),
                median(|figures| figures.p95_ms),
                median(|figures| figures.max_ms),
                median(|figures| figures.longest_in_means().unwrap_or(f64::NAN)),
                median(|figures| figures.queue_cycle_ms.unwrap_or(f64::NAN)),
                median(|figures| figures.connection_variation.unwrap_or(f64::NAN)),
            ]);
        }
    }
    table
}

/// `31,200 (30,100..32,000)`.
fn spread(spread: Spread) -> String {
    if spread.count < 2 {
        return count(spread.median);
    }
    format!("{} ({}..{})", count(spread.median), count(spread.min), count(spread.max))
}

/// `1.31 (1.28..1.35)`.
fn ratio(spread: Spread) -> String {
    if spread.count < 2 {
        return format!("{:.2}", spread.median);
    }
    format!("{:.2} ({:.2}..{:.2})", spread.median, spread.min, spread.max)
}

/// The clients' think time, where there is one.
pub(crate) fn thinking(think_us: u32) -> String {
    if think_us == 0 { String::new() } else { format!(", clients that think {think_us} us") }
}
