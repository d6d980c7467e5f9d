//! Variants in short alternating slices: each has a server and a load of its own, which stand still in the others' slices.
//!
//! A shared host is faster and slower by a third from one second to the next. Turns of less than a second, a hundred and more, have
//! the same host, so that the median of their ratios tells some percent between the servers of a run; rounds of twelve seconds do not.
//! What a process was given for its life, such as its memory, each keeps: of that the error says nothing, but another run does.

use std::fmt::Write;
use std::time::{Duration, Instant};

use flifo::support::clock;
use flifo::support::format;
use flifo::support::interrupt;
use flifo::support::statistics::Spread;
use serde::Serialize;

use crate::dataset::dataset;
use crate::measure::Edge;
use crate::plan::Plan;
use crate::results::{Results, by_name};
use crate::run::{minutes, say, start};
use crate::running::Running;
use crate::sysbench;
use crate::variant::Kind;
use crate::workload::Workload;
use crate::{Error, Result};

/// Of each turn, what does not count and is not set: the readings, and until all stands still; and how long that can be.
pub(crate) const BESIDES: Duration = Duration::from_millis(60);
pub(crate) const BESIDES_MOST: Duration = Duration::from_millis(500);
/// With fewer turns nothing is known of the error.
const TURNS_MIN: usize = 5;
/// A larger share of a slice by which its length may be wrong is reported.
pub(crate) const UNCERTAIN: f64 = 0.02;
/// The time between two lines.
pub(crate) const TELL_EVERY: Duration = Duration::from_secs(10);

/// One workload with a number of connections.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    #[serde(serialize_with = "by_name")]
    pub workload: Workload,
    pub connections: u32,
    /// The turns of each variant, in the order of the variants.
    pub turns: Vec<Vec<Turn>>,
}

/// What counts of a variant's turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn {
    pub window_s: f64,
    /// The window's length is known to this share of it.
    pub window_uncertainty: f64,
    pub throughput_per_s: f64,
    pub statements_per_s: f64,
    /// That the server uses, on average; the kernel tells it by hundredths of a second.
    pub server_cpus: f64,
}

impl Turn {
    pub(crate) fn between(counter: &str, (first, last): &(Edge, Edge)) -> Turn {
        let window_s = last.reading.seconds_since(&first.reading);
        let per_s = |name: &str| last.reading.counted_since(&first.reading, name) as f64 / window_s;
        Turn {
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
    let begun = Instant::now();
    let started_at = clock::utc_now();
    let sysbench_version = sysbench::version()?;
    let dataset = dataset(plan.settings.rows, say)?;
    let mut servers = start(plan, &dataset)?;
    let mariadb_version = match servers.first_mut() {
        Some(server) => server.version()?,
        None => return Err(Error::Usage("no variant is left to measure".into())),
    };
    let versions = (mariadb_version, sysbench_version);
    let mut results = Results::begin(plan, command_line, started_at, versions);
    let turn = plan.settings.settle() + plan.settings.moment() + BESIDES;
    let cells = plan.cells();
    let all = turn * plan.rounds * (plan.variants.len() * cells.len()) as u32;
    say(&format!("{} cells, {} turns of each, about {}", cells.len(), plan.rounds, minutes(all)));
    for (workload, connections) in cells {
        let mut cell = Cell { workload, connections, turns: vec![Vec::new(); servers.len()] };
        let measured = measure(plan, turn, &mut servers, &mut cell);
        let mut notes = odd(plan, &cell);
        if let Err(error) = &measured
            && !matches!(error, Error::Interrupted)
        {
            notes.push(error.to_string());
        }
        if !interrupt::is_requested() {
            notes.extend(settle(plan, &mut servers));
        }
        for note in notes {
            let note = format!("{}, {connections}: {note}", workload.name());
            say(&note);
            results.notes.push(note);
        }
        if cell.turns.iter().all(|turns| !turns.is_empty()) {
            results.cells.push(cell);
        }
        if interrupt::is_requested() {
            break;
        }
    }
    results.interrupted = interrupt::is_requested();
    results.elapsed_s = begun.elapsed().as_secs_f64();
    Ok(results)
}

/// All turns of a cell, or those until something went wrong.
fn measure(plan: &Plan, turn: Duration, servers: &mut [Running], cell: &mut Cell) -> Result<()> {
    let (workload, connections) = (cell.workload, cell.connections);
    let of = |at: usize| Error::of(&plan.variants[at].name);
    for (at, server) in servers.iter_mut().enumerate() {
        server.is_there().map_err(of(at))?;
    }
    // sysbench's time goes on while it stands still.
    let bound = ((turn + BESIDES_MOST) * plan.rounds + Duration::from_secs(60)) * servers.len() as u32;
    let mut loads = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        loads.push(server.stand_by(workload, connections, bound, &plan.settings).map_err(of(at))?);
    }
    let mut told = Instant::now();
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..servers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        // A round is whole, or not at all.
        let mut turns = Vec::new();
        for at in order {
            let edges = servers[at].moment(
                std::slice::from_mut(&mut loads[at]),
                &[workload.counter()],
                (plan.settings.settle(), plan.settings.moment()),
            );
            let turn = Turn::between(workload.counter(), &edges.map_err(of(at))?);
            if turn.throughput_per_s <= 0.0 {
                return Err(of(at)(Error::Nothing));
            }
            turns.push((at, turn));
        }
        for (at, turn) in turns {
            cell.turns[at].push(turn);
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let left = turn * (plan.rounds - round - 1) * servers.len() as u32;
            say(&format!("{}, {connections}: {} left", workload.name(), minutes(left)));
        }
    }
    Ok(())
}

/// What makes a cell's figures doubtful.
fn odd(plan: &Plan, cell: &Cell) -> Vec<String> {
    let mut notes = Vec::new();
    for (turns, variant) in cell.turns.iter().zip(&plan.variants) {
        let uncertain = median(turns, |turn| turn.window_uncertainty);
        if uncertain > UNCERTAIN {
            notes.push(format!(
                "{}: a turn's length is known to {:.0}% only",
                variant.name,
                100.0 * uncertain
            ));
        }
        let one_takes_s = f64::from(cell.connections) / median(turns, |turn| turn.throughput_per_s);
        if one_takes_s > plan.settings.moment().as_secs_f64() {
            notes.push(format!(
                "{}: one of {} takes {one_takes_s:.1} s, longer than a turn: take a longer --moment",
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
    fn ratios(&self, at: usize, base: usize) -> Vec<f64> {
        let by_base = |(turn, base): (&Turn, &Turn)| turn.throughput_per_s / base.throughput_per_s;
        self.turns[at].iter().zip(&self.turns[base]).map(by_base).collect()
    }

    /// Of the server, us a statement, over all turns.
    fn cpu_us(&self, at: usize) -> f64 {
        let sum = |figure: fn(&Turn) -> f64| self.turns[at].iter().map(figure).sum::<f64>();
        1e6 * sum(|turn| turn.server_cpus * turn.window_s) / sum(|turn| turn.statements_per_s * turn.window_s)
    }
}

fn median(turns: &[Turn], figure: fn(&Turn) -> f64) -> f64 {
    Spread::of(turns.iter().map(figure)).map_or(0.0, |spread| spread.median)
}

/// The standard error of a median, by the one of the mean, as of a normal distribution. `None` of few.
fn error_of_median(values: &[f64]) -> Option<f64> {
    const BY_THE_MEANS: f64 = 1.2533;
    if values.len() < TURNS_MIN {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some(BY_THE_MEANS * (variance / count).sqrt())
}

/// What a tenth of them is below, and a tenth above.
fn most_of(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let beyond = sorted.len() / 10;
    (sorted[beyond], sorted[sorted.len() - 1 - beyond])
}

/// The tables.
pub fn markdown(results: &Results<Cell>) -> String {
    if results.cells.is_empty() {
        return "Nothing was measured.\n".into();
    }
    let settings = &results.settings;
    let mut text = format!("## In short alternating slices\n\n`{}`\n\n", results.command_line);
    let _ = writeln!(
        text,
        "{}, {}; {}, {} cores, {}, {}. Each variant has a server and a load, which stand still but for its turns; {} ms of a \
         turn count, after {} ms. {} rows, --rand-type={}{}{}. Throughput is what the server counts. Ratios are of the same round: \
         the median, its standard error within these servers, and where the middle eight of ten are.\n",
        results.mariadb_version,
        results.sysbench_version,
        results.machine.cpu_model,
        results.machine.cores,
        results.machine.kernel,
        results.started_at,
        settings.moment().as_millis(),
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
    if results.interrupted {
        text += "Interrupted: what was measured until then.\n\n";
    }
    for note in &results.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn of_cell(results: &Results<Cell>, cell: &Cell, text: &mut String) {
    let base = results.variants.iter().position(|variant| variant.kind == Kind::Stock).unwrap_or(0);
    let title = cell.workload.title(results.settings.rows);
    let _ = writeln!(text, "### {title}, {} connections\n", cell.connections);
    let counted = cell.workload.counted();
    let base_name = &results.variants[base].name;
    let _ = writeln!(text, "| | {counted} a second | server CPU, us a statement | / {base_name} | turns |");
    let _ = writeln!(text, "|---|--:|--:|---|--:|");
    for (at, variant) in results.variants.iter().enumerate() {
        let ratios = cell.ratios(at, base);
        let by_base = match Spread::of(ratios.iter().copied()) {
            Some(spread) if at != base => {
                let error = error_of_median(&ratios).map_or(String::new(), |error| format!(" +- {error:.3}"));
                let (low, high) = most_of(&ratios);
                format!("{:.3}{error} ({low:.2} to {high:.2})", spread.median)
            }
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {by_base} | {} |",
            variant.name,
            format::count(median(&cell.turns[at], |turn| turn.throughput_per_s)),
            cell.cpu_us(at),
            cell.turns[at].len(),
        );
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_median_by_hand() {
        // Six of nine deviate by 2.
        let values = [0.0, 0.0, 0.0, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0];
        let error = error_of_median(&values).unwrap();
        assert!((error - 1.2533 * (24.0_f64 / 8.0 / 9.0).sqrt()).abs() < 1e-12);
        assert_eq!(error_of_median(&values[..4]), None);
    }

    #[test]
    fn most_are_the_middle_eight_of_ten() {
        let values: Vec<f64> = (0..20).rev().map(f64::from).collect();
        assert_eq!(most_of(&values), (2.0, 17.0));
        assert_eq!(most_of(&[7.0]), (7.0, 7.0));
    }
}
