//! Results as the records of the repository (`--record`): throughput and CPU time of each variant, ratios to the base, targets.

use flifo_record::statistics::{geometric_mean, paired_ratios};
use flifo_record::{Key, Record, Row, Scale, Wanted};

use crate::measure::Figures;
use crate::product::Product;
use crate::results::{Cell, Results, RunHead, throughput};
use crate::slices;
use crate::targets::verdicts;
use crate::variant::Kind;
use crate::{matrix, plan::What};

const SERVER_CPU: &str = "server CPU per statement";

/// A figure of a round: name, unit, value.
type Figure = (&'static str, &'static str, fn(&Figures) -> f64);

/// The figures of a round besides its throughput.
const FIGURES: [Figure; 3] = [
    (SERVER_CPU, "us", |figures| figures.server_cpu_us_per_statement),
    ("context switches per statement", "", |figures| figures.switches_per_statement),
    ("p95", "ms", |figures| figures.p95_ms),
];

/// The name of the record of a measurement.
pub fn name(what: What) -> &'static str {
    match what {
        What::Table => "mariadb",
        What::Overhead => "mariadb-overhead",
        What::SmallPool => "mariadb-small-pool",
        What::Slices => "mariadb-slices",
    }
}

fn begin(run: &RunHead, rows: u32, distribution: &str) -> Record {
    let mut record = Record::begin("", run.command_line.clone(), Scale::Connections);
    record.date = Some(run.started_at.clone());
    record.notes.clone_from(&run.notes);
    for (name, value) in [
        ("server", run.server_version.clone()),
        ("clients", format!("{} on the same CPUs", run.sysbench_version)),
        ("rows", format!("{rows} rows, {distribution}")),
    ] {
        record.settings.insert(name.into(), value);
    }
    record
}

/// The record of a table of rounds.
pub fn of_rounds(results: &Results) -> Record {
    let settings = &results.settings;
    let mut record = begin(&results.run, settings.rows, &settings.distribution);
    let key = |cell: &Cell| {
        Key::of(cell.workload.title(settings.rows)).at(cell.connections).variant(cell.variant.clone())
    };
    for cell in &results.cells {
        let unit = format!("{}/s", cell.workload.counted());
        record.rows.extend(cell.spread(throughput).map(|spread| key(cell).spread(spread, unit)));
        for (name, unit, figure) in FIGURES {
            record.rows.extend(cell.spread(figure).map(|spread| key(cell).figure(name).spread(spread, unit)));
        }
    }
    for base in [Kind::Stock, Kind::Pool].into_iter().filter_map(|kind| results.first_of(kind)) {
        for cell in results.cells.iter().filter(|cell| cell.variant != base.name) {
            let Some(other) = results.cell(cell.workload, cell.connections, &base.name) else { continue };
            let (own, other) = (cell.by_round(&throughput), other.by_round(&throughput));
            let ratio = key(cell).relative_to(base.name.clone());
            record.rows.extend(ratio.paired(paired_ratios(&own, &other)));
        }
    }
    // Those of throughput relative to another variant: the others are no rows.
    let wanted = verdicts(results);
    for (demand, kind) in [("throughput / stock", Kind::Stock), ("throughput / pool", Kind::Pool)] {
        let Some(base) = results.first_of(kind) else { continue };
        for verdict in wanted.iter().filter(|verdict| verdict.demand == demand) {
            let key = Key::of(verdict.workload.title(settings.rows)).at(verdict.connections);
            let key = key.variant(verdict.variant.clone()).relative_to(base.name.clone());
            record.want(key, verdict.target);
        }
    }
    record
}

/// The record of short alternating slices.
pub fn of_slices(results: &Results<slices::Cell>) -> Record {
    let settings = &results.settings;
    let mut record = begin(&results.run, settings.rows, &settings.distribution);
    let base = results.base();
    for cell in &results.cells {
        let key = Key::of(cell.workload.title(settings.rows)).at(cell.connections);
        for (at, variant) in results.variants.iter().enumerate() {
            let key = key.clone().variant(variant.name.clone());
            let unit = format!("{}/s", cell.workload.counted());
            record.rows.extend(cell.throughput(at).map(|spread| key.clone().spread(spread, unit)));
            record.rows.push(single(key.clone().figure(SERVER_CPU), cell.cpu_us(at), "us"));
            if at != base {
                let ratio = key.relative_to(results.variants[base].name.clone());
                record.rows.extend(ratio.paired(cell.ratios(at, base)));
            }
        }
    }
    record
}

/// The record of the matrix of loads. Variants with the plugin are also divided by the one with a pool of threads.
pub fn of_matrix(product: &Product, results: &matrix::Results) -> Record {
    let mut record = begin(&results.run, results.rows, &results.distribution);
    let variants = || results.variants.iter().enumerate().filter(|(_, variant)| variant.name != results.base);
    let base = results.variants.iter().position(|variant| variant.name == results.base).unwrap_or(0);
    for cell in &results.cells {
        for (at, variant) in variants() {
            let key = Key::of(cell.title).at(cell.connections).variant(variant.name.clone());
            record.rows.extend(key.clone().relative_to(results.base.clone()).paired(cell.ratios(at, base)));
            let pool = results.variants.iter().position(|other| other.kind == Kind::Pool);
            if let (Kind::Plugin, Some(pool)) = (variant.kind, pool) {
                let ratio = key.relative_to(results.variants[pool].name.clone());
                record.rows.extend(ratio.paired(cell.ratios(at, pool)));
            }
        }
    }
    for variant in results.variants.iter().filter(|variant| variant.kind == Kind::Plugin) {
        for (load, connections, base, least) in product.wanted {
            if let Some(cell) =
                results.cells.iter().find(|cell| (cell.load, cell.connections) == (*load, *connections))
            {
                let key = Key::of(cell.title).at(*connections).variant(variant.name.clone());
                record.want(key.relative_to(*base), Wanted::AtLeast(*least));
            }
        }
    }
    for cell in &results.cells {
        for (at, summary) in cell.summaries.iter().enumerate() {
            let key = Key::of(cell.title).at(cell.connections).variant(summary.variant.clone());
            let unit = format!("{}/s", cell.unit);
            record.rows.extend(cell.throughput(at).map(|spread| key.clone().spread(spread, unit)));
            let figure = key.clone().figure(SERVER_CPU);
            record.rows.push(single(figure, summary.server_cpu_us_per_statement, "us"));
            if let (Some(per_s), Some(unit)) = (summary.background_per_s, cell.background_unit) {
                record.rows.push(single(key.figure("work beside it"), per_s, &format!("{unit}/s")));
            }
        }
    }
    for (_, variant) in variants() {
        means(results, &variant.name, &mut record.rows);
    }
    record
}

/// Geometric means, in which clients that think weigh as much as all other loads.
fn means(results: &matrix::Results, variant: &str, rows: &mut Vec<Row>) {
    let mut both = Vec::new();
    let mut push = |workload: &str, ratios: Vec<f64>| {
        let (count, mean) = (ratios.len(), geometric_mean(ratios)?);
        let key =
            Key::of(workload).figure("geometric mean").variant(variant).relative_to(results.base.clone());
        let n = u32::try_from(count).ok();
        rows.push(Row { n, ..single(key, mean, "ratio") });
        Some(mean)
    };
    for (name, thinks) in [("clients that think", true), ("all other loads", false)] {
        both.extend(push(name, results.medians(variant, thinks)));
    }
    if both.len() == 2 {
        push("both, with equal weight", both);
    }
}

/// A figure without ends.
fn single(key: Key, value: f64, unit: &str) -> Row {
    Row { key, median: Some(value), unit: unit.into(), ..Row::default() }
}
