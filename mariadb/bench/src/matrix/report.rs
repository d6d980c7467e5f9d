//! The results as tables, in Markdown, and the list of the loads.

use std::fmt::Write as _;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use flifo::support::format::count;
use flifo_record::Row;
use flifo_record::format::figure;
use flifo_record::statistics::{Verdict, geometric_mean};

use super::loads::LOADS;
use super::results::{Cell, Results, Summary};
use crate::report::{notes, table};
use crate::results::ascending;

/// The whole report.
pub fn markdown(results: &Results) -> String {
    if results.cells.is_empty() {
        return "Nothing was measured.\n".into();
    }
    let mut text = head(results);
    for variant in results.variants.iter().filter(|variant| variant.name != results.base) {
        let _ =
            writeln!(text, "### {} / {}\n\n{}\n", variant.name, results.base, ratios(results, &variant.name));
        text += &means(results, &variant.name);
    }
    let _ = writeln!(text, "### Throughput and CPU time\n\n{}\n", details(results));
    if results.run.interrupted {
        text += "Interrupted: the cells measured until then.\n\n";
    }
    text + &notes(&results.run)
}

/// The loads, as `--list` prints them.
pub fn list() -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["load", "", "connections", "servers"]);
    for load in &LOADS {
        let connections: Vec<String> = load.connections.iter().map(u32::to_string).collect();
        table.add_row([load.name, load.title, &connections.join(","), load.servers.title()]);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

fn head(results: &Results) -> String {
    let times = &results.times;
    let mut text =
        format!("## {}: the matrix of loads\n\n`{}`\n\n", results.product, results.run.command_line);
    let _ = writeln!(
        text,
        "{}. {} rows, --rand-type={}.\n",
        results.run.described(),
        count(results.rows.into()),
        results.distribution,
    );
    let _ = writeln!(
        text,
        "- Each variant has a warm server, new for each load, and stopped except in its slices of {} ms and more. Each load first runs for {} s, from 64 connections on three times as long.\n\
         - **The clients run beside the server, on the same CPUs.** A ratio is of both together.\n\
         - A ratio is the median over the rounds, with its 95% interval by order statistics (binomial).\n\
         - `=`: the interval spans 1. `red`: all of it is below 0.95. `green`: all of it is above 1.05.\n\
         - Throughput is what the server counts. Instructions per statement are not available.",
        times.slice_ms, times.warm_up_s,
    );
    for variant in &results.variants {
        let _ = writeln!(text, "- `{}`: {}", variant.name, variant.described());
    }
    for servers in &results.servers {
        let options: Vec<String> =
            servers.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let _ = writeln!(text, "- {}: {}", servers.title, options.join(", "));
    }
    text.push('\n');
    text
}

/// Loads by connections.
fn ratios(results: &Results, variant: &str) -> Table {
    let connections = results.connections();
    let mut header = vec!["load".to_owned()];
    header.extend(connections.iter().map(u32::to_string));
    let mut table = table(header);
    for (load, title) in results.loads() {
        let mut row = vec![title.to_owned()];
        row.extend(
            connections.iter().map(|&connections| {
                results.ratio(load, connections, variant).map_or_else(|| "-".into(), ratio)
            }),
        );
        table.add_row(row);
    }
    table
}

/// `0.91 (0.88 to 0.93) **red**`.
pub(super) fn ratio(row: &Row) -> String {
    let mark = match row.verdict() {
        Verdict::Loss => " **red**",
        Verdict::Gain => " green",
        Verdict::Equal | Verdict::Between => "",
        Verdict::Unknown => " few rounds",
    };
    figure(row) + mark
}

/// Geometric means, in which a factor counts as 100 at most; clients that think count as much as the others.
fn means(results: &Results, variant: &str) -> String {
    let of = |thinks: bool| {
        let ratios = results.medians(variant, thinks);
        (ratios.len(), geometric_mean(ratios))
    };
    let mut text = String::new();
    let mut both = Vec::new();
    for (name, thinks) in [("clients that think", true), ("all other loads", false)] {
        if let (cells, Some(mean)) = of(thinks) {
            let _ = writeln!(text, "- Geometric mean, {name}: {mean:.3} (cells: {cells})");
            both.push(mean);
        }
    }
    if text.is_empty() {
        return text;
    }
    if let [_, _] = both.as_slice() {
        let mean = geometric_mean(both).unwrap_or(f64::NAN);
        let _ = writeln!(text, "- Both, with equal weight: {mean:.3}");
    }
    let decided = |target| {
        let all = results.cells.iter().filter_map(|cell| cell.ratio(variant));
        all.filter(|ratio| ratio.verdict() == target).count()
    };
    let (red, green) = (decided(Verdict::Loss), decided(Verdict::Gain));
    let _ = writeln!(text, "- Cells: {}, red {red}, green {green}\n", results.cells.len());
    text
}

fn details(results: &Results) -> Table {
    const COLUMNS: [&str; 9] = [
        "load",
        "connections",
        "variant",
        "per second",
        "unit",
        "server CPU, us/statement",
        "CPU, of the base's",
        "beside it, per second (of the base's)",
        "rounds",
    ];
    let mut table = table(COLUMNS.map(str::to_owned).into());
    for cell in &results.cells {
        let base = cell.summaries.iter().find(|summary| summary.variant == results.base);
        for (summary, slices) in cell.summaries.iter().zip(&cell.slices) {
            table.add_row([
                cell.load.to_owned(),
                cell.connections.to_string(),
                summary.variant.clone(),
                count(summary.throughput_per_s),
                cell.unit.to_owned(),
                format!("{:.1}", summary.server_cpu_us_per_statement),
                base.map_or_else(String::new, |base| of_base(summary, base)),
                background(cell, summary, base),
                slices.len().to_string(),
            ]);
        }
    }
    table
}

/// CPU time per statement, divided by the base's.
fn of_base(summary: &Summary, base: &Summary) -> String {
    let share = summary.server_cpu_us_per_statement / base.server_cpu_us_per_statement;
    if summary.variant == base.variant || !share.is_finite() { String::new() } else { format!("{share:.2}") }
}

/// `1,709 transactions (5.10)`: the rate, and its ratio to the base's.
fn background(cell: &Cell, summary: &Summary, base: Option<&Summary>) -> String {
    let (Some(per_s), Some(unit)) = (summary.background_per_s, cell.background_unit) else {
        return String::new();
    };
    let ratio = base.filter(|base| base.variant != summary.variant).and_then(|base| base.background_per_s);
    let ratio = ratio.map(|base| per_s / base).filter(|ratio| ratio.is_finite());
    format!("{} {unit}{}", count(per_s), ratio.map_or_else(String::new, |ratio| format!(" ({ratio:.2})")))
}

impl Results {
    /// Names and titles, in the order of the run.
    pub(super) fn loads(&self) -> Vec<(&'static str, &'static str)> {
        let mut loads: Vec<_> = self.cells.iter().map(|cell| (cell.load, cell.title)).collect();
        loads.dedup();
        loads
    }

    /// Ascending.
    pub(super) fn connections(&self) -> Vec<u32> {
        ascending(self.cells.iter().map(|cell| cell.connections))
    }

    pub(super) fn ratio(&self, load: &str, connections: u32, variant: &str) -> Option<&Row> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.load == load && cell.connections == connections)?.ratio(variant)
    }
}

impl Results {
    /// The median ratios of a variant, of clients that think or of all others.
    pub(crate) fn medians(&self, variant: &str, thinks: bool) -> Vec<f64> {
        let cells = self.cells.iter().filter(|cell| cell.thinks == thinks);
        cells.filter_map(|cell| cell.ratio(variant)?.median).collect()
    }
}

impl Cell {
    fn ratio(&self, variant: &str) -> Option<&Row> {
        self.summaries.iter().find(|summary| summary.variant == variant)?.ratio.as_ref()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;
    use flifo_record::Key;

    use super::super::plan::Plan;
    use super::super::results::ServerOptions;
    use super::super::results::tests::cell;
    use super::*;
    use crate::plan::{Cli, Command};
    use crate::product::MARIADB;
    use crate::results::RunHead;

    pub(crate) fn plan(arguments: &str) -> Plan {
        let words = ["bench", "matrix"].into_iter().chain(arguments.split_whitespace());
        match Cli::try_parse_from(words).unwrap().command {
            Some(Command::Matrix(arguments)) => Plan::of(&MARIADB, &arguments).unwrap(),
            None => panic!("{arguments}: no matrix"),
        }
    }

    /// Ratios 0.8, 1.2 and about 1, and a cell without an interval.
    pub(crate) fn results() -> Results {
        let plan = plan("");
        let cells = vec![
            cell(&plan, "point-select", 16, 10, |_| 1000.0),
            cell(&plan, "think-2ms", 16, 10, |_| 800.0),
            cell(&plan, "beside-dump", 16, 10, |_| 1200.0),
            cell(&plan, "beside-dump", 1024, 3, |_| 900.0),
        ];
        let mut run = RunHead::without_clients("flifo-mariadb-bench matrix".into());
        run.notes.push("insert, 64: something was odd".into());
        Results {
            run,
            what: "matrix",
            product: "MariaDB",
            rows: 5000,
            distribution: "uniform".into(),
            times: plan.times.clone(),
            variants: plan.variants.clone(),
            base: "stock".into(),
            servers: vec![ServerOptions { title: "TLS", options: vec![("ssl-key".into(), "k".into())] }],
            cells,
        }
    }

    #[test]
    fn the_tables_have_every_cell() {
        let mut results = results();
        let text = markdown(&results);
        for target in [
            "### plugin / stock",
            "1.00 (1.00 to 1.00) =",
            "0.80 (0.80 to 0.80) **red**",
            "1.20 (1.20 to 1.20) green",
            "0.90 (0.90 to 0.90) few rounds",
            "clients that think: 0.800 (cells: 1)",
            "Cells: 4, red 1, green 1",
            "| 20.0 rows (2.00) ",
            "- insert, 64: something was odd",
            "on the same CPUs",
            "- TLS: ssl-key=k",
        ] {
            assert!(text.contains(target), "{target} is missing in\n{text}");
        }
        // The mean of 1, 1.2 and 0.9 weighs as much as the single 0.8.
        let others = (1.2_f64 * 0.9).powf(1.0 / 3.0);
        assert!(text.contains(&format!("equal weight: {:.3}", (0.8 * others).sqrt())), "{text}");
        // Every row of a table has as many cells as its head.
        for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
            let bars: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(bars.iter().all(|n| *n == bars[0]), "{table}");
        }
        assert!(!text.contains("Interrupted"));
        results.run.interrupted = true;
        assert!(markdown(&results).contains("Interrupted"));
        results.cells.clear();
        assert_eq!(markdown(&results), "Nothing was measured.\n");
    }

    #[test]
    fn the_record_has_every_cell_and_draws_the_picture() {
        let record = crate::record::of_matrix(&MARIADB, &results());
        let key = |title: &str| Key::of(title).at(16).variant("plugin");
        let ratio = record.row(&key("point select beside a dump").relative_to("stock")).unwrap();
        assert_eq!((ratio.median, ratio.n), (Some(1.2), Some(10)));
        let beside = record.row(&key("point select beside a dump").figure("work beside it")).unwrap();
        assert!((beside.median.unwrap() - 20.0).abs() < 1e-9, "{beside:?}");
        assert_eq!(beside.unit, "rows/s");
        assert_eq!(record.row(&key("point select")).unwrap().unit, "selects/s");
        let mean = |workload: &str| {
            let key = Key::of(workload).figure("geometric mean").variant("plugin").relative_to("stock");
            record.row(&key).unwrap().median.unwrap()
        };
        let others = (1.2_f64 * 0.9).powf(1.0 / 3.0);
        assert!((mean("all other loads") - others).abs() < 1e-9);
        assert!((mean("both, with equal weight") - (0.8 * others).sqrt()).abs() < 1e-9);
        assert_eq!(record.notes, ["insert, 64: something was odd"]);
        let picture = flifo_record::blocks::matrix_picture(&record).unwrap();
        assert!(picture.contains(">0.80<") && picture.contains("point select beside a dump"), "{picture}");
    }

    #[test]
    fn the_list_names_every_load() {
        let list = list();
        assert_eq!(list.lines().count(), LOADS.len() + 1);
        for load in &LOADS {
            assert!(list.contains(&format!(" {} ", load.name)), "{}", load.name);
        }
    }
}
