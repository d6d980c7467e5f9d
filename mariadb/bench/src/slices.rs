//! Variants in short alternating slices: each has a server and a load of its own, which are stopped in the slices of the others.
//!
//! The speed of a shared host changes by a third from one second to the next. A hundred slices of less than a second meet the same host, so
//! the median of their ratios resolves some percent between the servers of a run; rounds of twelve seconds do not. The interval does not
//! include what a process keeps for its life, such as the place of its memory: for that, repeat the run.

use std::fmt::Write;
use std::time::{Duration, Instant};

use flifo::support::format;
use flifo::support::interrupt;
use flifo::support::statistics::Spread;
use flifo_record::Key;
use flifo_record::format::figure;
use serde::Serialize;

use crate::dataset::dataset;
use crate::measure::Edge;
use crate::plan::Plan;
use crate::product::MARIADB;
use crate::results::{Results, RunHead, by_name};
use crate::run::{minutes, say, start};
use crate::running::Running;
use crate::workload::Workload;
use crate::{Error, Result};

/// The time of a slice that does not count and cannot be set: the readings, and the wait until all processes are stopped.
pub(crate) const SLICE_OVERHEAD: Duration = Duration::from_millis(60);
pub(crate) const SLICE_OVERHEAD_MAX: Duration = Duration::from_millis(500);
/// A larger share of a slice by which its length may be wrong is reported.
pub(crate) const UNCERTAIN: f64 = 0.02;
/// The time between two lines.
pub(crate) const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// One workload with a number of connections.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    #[serde(serialize_with = "by_name")]
    pub workload: Workload,
    pub connections: u32,
    /// The slices of each variant, in the order of the variants.
    pub slices: Vec<Vec<SliceFigures>>,
}

/// What counts of a variant's slice.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SliceFigures {
    pub window_s: f64,
    /// The window's length is known to this share of it.
    pub window_uncertainty: f64,
    pub throughput_per_s: f64,
    pub statements_per_s: f64,
    /// CPUs that the server uses, on average; the kernel counts hundredths of a second.
    pub server_cpus: f64,
}

impl SliceFigures {
    pub(crate) fn between(counter: &str, (first, last): &(Edge, Edge)) -> SliceFigures {
        let window_s = last.reading.seconds_since(&first.reading);
        let per_s = |name: &str| last.reading.counted_since(&first.reading, name) as f64 / window_s;
        SliceFigures {
            window_s,
            window_uncertainty: last.reading.uncertainty_since(&first.reading),
            throughput_per_s: per_s(counter),
            statements_per_s: per_s("QUESTIONS"),
            server_cpus: last.server.cpus_since(&first.server),
        }
    }
}

/// Measures all cells. An interrupt is no error: the results say so.
pub fn run(plan: &Plan, command_line: String) -> Result<Results<Cell>> {
    let mut head = RunHead::begin(command_line)?;
    let dataset = dataset(&MARIADB, plan.settings.rows, say)?;
    let mut servers = start(plan, &dataset)?;
    head.server_version = match servers.first_mut() {
        Some(server) => server.version()?,
        None => return Err(Error::Usage("no variant is left to measure".into())),
    };
    let mut results = Results::begin(plan, head);
    let slice_time = plan.settings.settle() + plan.settings.slice() + SLICE_OVERHEAD;
    let cells = plan.cells();
    let all = slice_time * plan.rounds * (plan.variants.len() * cells.len()) as u32;
    say(&format!("{} cells, {} slices of each, about {}", cells.len(), plan.rounds, minutes(all)));
    for (workload, connections) in cells {
        let mut cell = Cell { workload, connections, slices: vec![Vec::new(); servers.len()] };
        let measured = measure(plan, slice_time, &mut servers, &mut cell);
        let mut notes = doubts(plan, &cell);
        if let Err(error) = &measured
            && !matches!(error, Error::Interrupted)
        {
            notes.push(error.to_string());
        }
        if !interrupt::is_requested() {
            notes.extend(settle(plan, &mut servers));
        }
        for note in notes {
            results.run.note(format!("{}, {connections}: {note}", workload.name()));
        }
        if cell.slices.iter().all(|slices| !slices.is_empty()) {
            results.cells.push(cell);
        }
        if interrupt::is_requested() {
            break;
        }
    }
    results.run.end();
    Ok(results)
}

/// All slices of a cell, or those until something went wrong.
fn measure(plan: &Plan, slice_time: Duration, servers: &mut [Running], cell: &mut Cell) -> Result<()> {
    let (workload, connections) = (cell.workload, cell.connections);
    let of = |at: usize| Error::of(&plan.variants[at].name);
    for (at, server) in servers.iter_mut().enumerate() {
        server.is_there().map_err(of(at))?;
    }
    // sysbench's time goes on while it is stopped.
    let bound =
        ((slice_time + SLICE_OVERHEAD_MAX) * plan.rounds + Duration::from_secs(60)) * servers.len() as u32;
    let mut loads = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        loads.push(server.stand_by(workload, connections, bound, &plan.settings).map_err(of(at))?);
    }
    let mut reported_at = Instant::now();
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..servers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        // A round is whole, or not at all.
        let mut slices = Vec::new();
        for at in order {
            let edges = servers[at].slice(
                std::slice::from_mut(&mut loads[at]),
                &[workload.counter()],
                (plan.settings.settle(), plan.settings.slice()),
            );
            let slice = SliceFigures::between(workload.counter(), &edges.map_err(of(at))?);
            if slice.throughput_per_s <= 0.0 {
                return Err(of(at)(Error::Nothing));
            }
            slices.push((at, slice));
        }
        for (at, slice) in slices {
            cell.slices[at].push(slice);
        }
        if reported_at.elapsed() >= REPORT_INTERVAL {
            reported_at = Instant::now();
            let left = slice_time * (plan.rounds - round - 1) * servers.len() as u32;
            say(&format!("{}, {connections}: {} left", workload.name(), minutes(left)));
        }
    }
    Ok(())
}

/// What makes a cell's figures doubtful.
fn doubts(plan: &Plan, cell: &Cell) -> Vec<String> {
    let mut notes = Vec::new();
    for (slices, variant) in cell.slices.iter().zip(&plan.variants) {
        let uncertain = median(slices, |slice| slice.window_uncertainty);
        if uncertain > UNCERTAIN {
            notes.push(format!(
                "{}: a slice's length is known to {:.0}% only",
                variant.name,
                100.0 * uncertain
            ));
        }
        let one_takes_s = f64::from(cell.connections) / median(slices, |slice| slice.throughput_per_s);
        if one_takes_s > plan.settings.slice().as_secs_f64() {
            notes.push(format!(
                "{}: one of {} takes {one_takes_s:.1} s, longer than a slice: take a longer --slice",
                variant.name,
                cell.workload.counted(),
            ));
        }
    }
    notes
}

/// The loads have ended: waits until nothing is left of them.
fn settle(plan: &Plan, servers: &mut [Running]) -> Vec<String> {
    let mut notes = Vec::new();
    for (server, variant) in servers.iter_mut().zip(&plan.variants) {
        let found = server.is_there().and_then(|()| server.is_over());
        let found = found.unwrap_or_else(|error| vec![error.to_string()]);
        notes.extend(found.into_iter().map(|note| format!("{}: {note}", variant.name)));
    }
    notes
}

impl Cell {
    /// A variant's throughput by another's, round by round.
    pub(crate) fn ratios(&self, at: usize, base: usize) -> Vec<f64> {
        let by_base =
            |(slice, base): (&SliceFigures, &SliceFigures)| slice.throughput_per_s / base.throughput_per_s;
        self.slices[at].iter().zip(&self.slices[base]).map(by_base).collect()
    }

    /// A variant's throughput, per second.
    pub(crate) fn throughput(&self, at: usize) -> Option<Spread> {
        Spread::of(self.slices[at].iter().map(|slice| slice.throughput_per_s))
    }

    /// CPU time of the server over all slices, us a statement.
    pub(crate) fn cpu_us(&self, at: usize) -> f64 {
        let sum = |figure: fn(&SliceFigures) -> f64| self.slices[at].iter().map(figure).sum::<f64>();
        1e6 * sum(|slice| slice.server_cpus * slice.window_s)
            / sum(|slice| slice.statements_per_s * slice.window_s)
    }
}

fn median(slices: &[SliceFigures], figure: fn(&SliceFigures) -> f64) -> f64 {
    Spread::of(slices.iter().map(figure)).map_or(0.0, |spread| spread.median)
}

/// The tables.
pub fn markdown(results: &Results<Cell>) -> String {
    if results.cells.is_empty() {
        return "Nothing was measured.\n".into();
    }
    let settings = &results.settings;
    let mut text = format!("## In short alternating slices\n\n`{}`\n\n", results.run.command_line);
    let _ = writeln!(
        text,
        "{}. Each variant has a server and a load, which are stopped in the slices of the others; {} ms of a \
         slice count, after {} ms. {} rows, --rand-type={}{}{}. Throughput is what the server counts. Ratios are of the same round: \
         the median, with its 95% interval by order statistics; `=`: it spans 1.\n",
        results.run.described(),
        settings.slice().as_millis(),
        settings.settle().as_millis(),
        settings.rows,
        settings.distribution,
        if settings.text { ", statements as text" } else { "" },
        crate::report::thinking(settings.think_us),
    );
    for variant in &results.variants {
        let _ = writeln!(text, "- {}: {}", variant.name, variant.described());
    }
    text.push('\n');
    for cell in &results.cells {
        of_cell(results, cell, &mut text);
    }
    if results.run.interrupted {
        text += "Interrupted: what was measured until then.\n\n";
    }
    for note in &results.run.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn of_cell(results: &Results<Cell>, cell: &Cell, text: &mut String) {
    let base = results.base();
    let title = cell.workload.title(results.settings.rows);
    let _ = writeln!(text, "### {title}, {} connections\n", cell.connections);
    let counted = cell.workload.counted();
    let base_name = &results.variants[base].name;
    let _ = writeln!(text, "| | {counted} a second | server CPU, us a statement | / {base_name} | slices |");
    let _ = writeln!(text, "|---|--:|--:|---|--:|");
    for (at, variant) in results.variants.iter().enumerate() {
        let ratio = Key::default().relative_to(base_name.clone()).paired(cell.ratios(at, base));
        let by_base = ratio.filter(|_| at != base).map_or_else(String::new, |row| figure(&row));
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {by_base} | {} |",
            variant.name,
            format::count(median(&cell.slices[at], |slice| slice.throughput_per_s)),
            cell.cpu_us(at),
            cell.slices[at].len(),
        );
    }
    text.push('\n');
}
