//! What the issue wants, beside what was measured.

use flifo::support::statistics::Spread;
use flifo_record::Wanted;

use crate::measure::Figures;
use crate::plan::What;
use crate::results::{Results, throughput};
use crate::variant::Kind;
use crate::workload::Workload;

/// At least this much of the throughput of a stock server, at 16, 256 and 1024 connections.
const OF_STOCK: [(Workload, [f64; 3]); 7] = [
    (Workload::HotRows100, [1.0, 5.0, 20.0]),
    (Workload::HotRows1, [1.0, 1.1, 1.5]),
    (Workload::UpdateIndex, [0.98, 1.1, 2.0]),
    (Workload::UpdateNonIndex, [0.98, 1.0, 1.1]),
    (Workload::ReadWrite, [0.98, 1.1, 1.5]),
    (Workload::PointSelect, [0.98, 1.0, 1.1]),
    (Workload::ReadOnly, [0.98, 1.0, 1.1]),
];
const AT: [u32; 3] = [16, 256, 1024];
const MANY: u32 = 1024;
/// Of its own peak, with 100 hot rows and many connections.
const OF_PEAK: f64 = 0.9;
/// Of a stock server, at one connection and with a small buffer pool.
const NO_WORSE: f64 = 0.98;
const CPU_NO_MORE: f64 = 1.02;
const VARIATION: f64 = 0.3;
const LONGEST_IN_CYCLES: f64 = 2.0;

/// One demand and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub variant: String,
    /// The demand, such as `of stock`.
    pub demand: &'static str,
    pub workload: Workload,
    pub connections: u32,
    pub target: Wanted,
    /// What decides is the median.
    pub measured: Spread,
}

impl Verdict {
    pub fn is_met(&self) -> bool {
        self.target.is_met(self.measured.median)
    }
}

/// The least share of a stock server's throughput that is target, if the issue says.
pub fn of_stock(what: What, workload: Workload, connections: u32) -> Option<f64> {
    match what {
        What::Table => {
            let (_, bounds) = OF_STOCK.iter().find(|(other, _)| *other == workload)?;
            Some(bounds[AT.iter().position(|at| *at == connections)?])
        }
        What::Overhead | What::SmallPool => Some(NO_WORSE),
        What::Slices => None,
    }
}

/// All demands on the variants that have the plugin, as far as they were measured.
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for variant in results.variants.iter().filter(|variant| variant.kind == Kind::Plugin) {
        for workload in results.workloads() {
            for connections in results.connections() {
                of_cell(results, &variant.name, (workload, connections), &mut verdicts);
            }
        }
    }
    verdicts
}

fn of_cell(results: &Results, name: &str, cell: (Workload, u32), verdicts: &mut Vec<Verdict>) {
    let (workload, connections) = cell;
    let mut add = |demand, target, measured: Option<Spread>| {
        if let Some(measured) = measured {
            let variant = name.to_owned();
            verdicts.push(Verdict { variant, demand, workload, connections, target, measured });
        }
    };
    let against = |kind, figure: fn(&Figures) -> f64| {
        results.ratio(cell, (name, &results.first_of(kind)?.name), figure)
    };
    if let Some(bound) = of_stock(results.what, workload, connections) {
        add("throughput / stock", Wanted::AtLeast(bound), against(Kind::Stock, throughput));
    }
    if results.what == What::Overhead {
        // Client and server sometimes share a CPU, which throughput shows and this figure does not.
        let cpu = against(Kind::Stock, |figures| figures.server_cpu_us_per_statement);
        add("server CPU per statement / stock", Wanted::AtMost(CPU_NO_MORE), cpu);
    }
    if results.what != What::Table || connections != MANY {
        return;
    }
    if workload == Workload::HotRows100 && results.connections().len() > 1 {
        let flat = results.against_its_peak(workload, connections, name);
        add("throughput / its own peak", Wanted::AtLeast(OF_PEAK), flat);
    }
    add("throughput / pool", Wanted::MoreThan(1.0), against(Kind::Pool, throughput));
    let switches = against(Kind::Stock, |figures| figures.switches_per_statement);
    add("context switches per statement / stock", Wanted::LessThan(1.0), switches);
    let own = results.cell(workload, connections, name);
    let of_own = |figure: fn(&Figures) -> f64| own.and_then(|cell| cell.spread(figure));
    let variation = of_own(|figures| figures.connection_variation.unwrap_or(f64::NAN));
    add("variation between connections", Wanted::AtMost(VARIATION), variation);
    let longest = of_own(|figures| figures.longest_in_cycles().unwrap_or(f64::NAN));
    add("longest wait / cycle of the queue", Wanted::AtMost(LONGEST_IN_CYCLES), longest);
}
