//! All that a run of the matrix found, as `--json` writes it.

use flifo::support::statistics::{Spread, median};
use flifo_record::{Key, Row};
use serde::Serialize;

use super::plan::{Place, Plan, SliceTimes, Times};
use crate::results::RunHead;
use crate::slices::{SliceFigures, UNCERTAIN};
use crate::variant::Variant;

#[derive(Debug, Clone, Serialize)]
pub struct Results {
    #[serde(flatten)]
    pub run: RunHead,
    pub what: &'static str,
    pub product: &'static str,
    pub rows: u32,
    pub distribution: String,
    pub times: Times,
    pub variants: Vec<Variant>,
    /// The name of the variant by which the others are divided.
    pub base: String,
    pub servers: Vec<ServerOptions>,
    pub cells: Vec<Cell>,
}

/// The options of all variants' servers for some of the loads.
#[derive(Debug, Clone, Serialize)]
pub struct ServerOptions {
    pub title: &'static str,
    pub options: Vec<(String, String)>,
}

/// One load at one number of connections.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub load: &'static str,
    pub title: &'static str,
    pub unit: &'static str,
    pub connections: u32,
    /// The clients pause between their transactions.
    pub thinks: bool,
    /// What the work beside the load is counted in.
    pub background_unit: Option<&'static str>,
    pub settle_ms: u64,
    pub slice_ms: u64,
    /// In the order of the variants.
    pub summaries: Vec<Summary>,
    /// The slices of each variant, round by round.
    pub slices: Vec<Vec<Slice>>,
}

/// A variant's figures over all rounds of a cell.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub variant: String,
    pub throughput_per_s: f64,
    pub server_cpu_us_per_statement: f64,
    pub background_per_s: Option<f64>,
    /// Throughput divided by the base's of the same round; none for the base.
    pub ratio: Option<Row>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Slice {
    #[serde(flatten)]
    pub figures: SliceFigures,
    pub background_per_s: Option<f64>,
    /// The load that ran, where a cell changes between several.
    pub phase: Option<&'static str>,
}

impl Cell {
    pub(super) fn new(place: Place, slice: SliceTimes, variants: usize) -> Cell {
        let Place { load, connections } = place;
        Cell {
            load: load.name,
            title: load.title,
            unit: load.unit,
            connections,
            thinks: load.thinks(),
            background_unit: load.background.as_ref().map(|background| background.unit),
            settle_ms: slice.settle.as_millis() as u64,
            slice_ms: slice.counts.as_millis() as u64,
            summaries: Vec::new(),
            slices: vec![Vec::new(); variants],
        }
    }

    /// Whether there is a round.
    pub(super) fn is_measured(&self) -> bool {
        self.slices.iter().all(|slices| !slices.is_empty())
    }

    /// Computes the summaries of the slices.
    pub(super) fn summarize(&mut self, plan: &Plan) {
        let base = plan.base();
        let key = |variant: &Variant| {
            let key = Key::of(self.title).at(self.connections).variant(variant.name.clone());
            key.relative_to(plan.variants[base].name.clone())
        };
        let summary = |(at, variant): (usize, &Variant)| Summary {
            variant: variant.name.clone(),
            throughput_per_s: self.mean(at, |slice| slice.figures.throughput_per_s).unwrap_or(0.0),
            server_cpu_us_per_statement: self.cpu_us(at),
            background_per_s: self.mean(at, |slice| slice.background_per_s.unwrap_or(f64::NAN)),
            ratio: (at != base).then(|| key(variant).paired(self.ratios(at, base))).flatten(),
        };
        self.summaries = plan.variants.iter().enumerate().map(summary).collect();
    }

    /// What makes the figures doubtful.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for (summary, slices) in self.summaries.iter().zip(&self.slices) {
            let name = &summary.variant;
            if summary.throughput_per_s <= 0.0 {
                doubts.push(format!("{name}: nothing was counted"));
                continue;
            }
            let uncertain =
                median(slices.iter().map(|slice| slice.figures.window_uncertainty)).unwrap_or(0.0);
            if uncertain > UNCERTAIN {
                doubts.push(format!(
                    "{name}: the length of a slice is known to {:.0}% only",
                    100.0 * uncertain
                ));
            }
            let each_s = f64::from(self.connections) / summary.throughput_per_s;
            if each_s * 1e3 > self.slice_ms as f64 {
                doubts.push(format!(
                    "{name}: a connection completes one of the {} in {each_s:.1} s, longer than a slice; take a longer --slice",
                    self.unit
                ));
            }
        }
        doubts
    }

    /// Throughput by another variant's, round by round.
    pub(crate) fn ratios(&self, at: usize, base: usize) -> Vec<f64> {
        let ratio =
            |(slice, base): (&Slice, &Slice)| slice.figures.throughput_per_s / base.figures.throughput_per_s;
        self.slices[at].iter().zip(&self.slices[base]).map(ratio).collect()
    }

    /// A variant's throughput in its slices, per second.
    pub(crate) fn throughput(&self, at: usize) -> Option<Spread> {
        Spread::of(self.slices[at].iter().map(|slice| slice.figures.throughput_per_s))
    }

    /// Over the counted time of all slices. `None` of what was not counted.
    fn mean(&self, at: usize, per_s: impl Fn(&Slice) -> f64) -> Option<f64> {
        let slices = &self.slices[at];
        let time_s: f64 = slices.iter().map(|slice| slice.figures.window_s).sum();
        let count: f64 = slices.iter().map(|slice| per_s(slice) * slice.figures.window_s).sum();
        Some(count / time_s).filter(|mean| mean.is_finite())
    }

    fn cpu_us(&self, at: usize) -> f64 {
        let cpus = self.mean(at, |slice| slice.figures.server_cpus).unwrap_or(0.0);
        1e6 * cpus / self.mean(at, |slice| slice.figures.statements_per_s).unwrap_or(f64::NAN)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use flifo_record::statistics::Verdict;

    use super::super::loads::Load;
    use super::*;
    use std::time::Duration;

    /// A cell of three variants, whose last one has another throughput in every round.
    pub(crate) fn cell(plan: &Plan, name: &str, connections: u32, rounds: u32, last: fn(u32) -> f64) -> Cell {
        let load = Load::named(name).unwrap();
        let times = SliceTimes { settle: Duration::from_millis(120), counts: Duration::from_millis(400) };
        let mut cell = Cell::new(Place { load, connections }, times, plan.variants.len());
        for round in 0..rounds {
            for at in 0..plan.variants.len() {
                let throughput_per_s = if at + 1 == plan.variants.len() { last(round) } else { 1000.0 };
                let figures = SliceFigures {
                    window_s: 0.4,
                    window_uncertainty: 0.0,
                    throughput_per_s,
                    statements_per_s: 2.0 * throughput_per_s,
                    server_cpus: 0.5,
                };
                let background_per_s = load.background.as_ref().map(|_| 10.0 * (at + 1) as f64);
                cell.slices[at].push(Slice { figures, background_per_s, phase: None });
            }
        }
        cell.summarize(plan);
        cell
    }

    #[test]
    fn a_cell_is_summarized() {
        let plan = super::super::report::tests::plan("--load beside-dump,insert");
        // 900 and 1100 in alternation.
        let cell = cell(&plan, "beside-dump", 16, 10, |round| f64::from(900 + 200 * (round % 2)));
        let [stock, plugin] = cell.summaries.as_slice() else { panic!("{cell:?}") };
        assert!(stock.ratio.is_none());
        for (found, target) in [
            (Some(stock.throughput_per_s), 1000.0),
            (Some(plugin.throughput_per_s), 1000.0),
            (stock.background_per_s, 10.0),
            (plugin.background_per_s, 20.0),
        ] {
            assert!((found.unwrap() - target).abs() < 1e-9, "{found:?} {target}");
        }
        // Half a CPU for 2000 statements a second.
        assert!((stock.server_cpu_us_per_statement - 250.0).abs() < 1e-9);
        let ratio = plugin.ratio.as_ref().unwrap();
        assert_eq!((ratio.median, ratio.low, ratio.high), (Some(1.0), Some(0.9), Some(1.1)));
        assert_eq!(cell.doubts(), Vec::<String>::new());
        let alone = self::cell(&plan, "insert", 16, 1, |_| 900.0);
        assert_eq!(alone.summaries[1].background_per_s, None);
        assert_eq!(alone.summaries[1].ratio.as_ref().unwrap().verdict(), Verdict::Unknown);
    }
    #[test]
    fn doubtful_figures_are_named() {
        let plan = super::super::report::tests::plan("--load insert");
        // 2,000 connections at 1,000 a second: each waits for two seconds.
        let mut slow = cell(&plan, "insert", 2000, 6, |_| 1e9);
        let [doubt] = &slow.doubts()[..] else { panic!("{:?}", slow.doubts()) };
        assert!(doubt.starts_with("stock: a connection completes one of the inserts in 2.0 s"), "{doubt}");
        slow.slices[1].iter_mut().for_each(|slice| slice.figures.window_uncertainty = 0.03);
        assert!(slow.doubts()[1].contains("known to 3% only"), "{:?}", slow.doubts());
        let none = cell(&plan, "insert", 1, 6, |_| 0.0);
        assert_eq!(none.doubts(), ["plugin: nothing was counted"]);
        assert_eq!(none.summaries[1].ratio.as_ref().unwrap().median, Some(0.0));
    }
}
