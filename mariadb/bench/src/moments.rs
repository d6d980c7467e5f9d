//! Contestants by turns of a moment: each has a server and a load of its own, which stand still while it is another's turn.
//!
//! A shared host is faster and slower by a third from one second to the next. Turns of less than a second, a hundred and more, have
//! the same host, so that the median of their ratios tells some percent; rounds of twelve seconds do not. What a process was given for
//! its life, such as its memory, each keeps.

use std::fmt::Write;
use std::time::{Duration, Instant};

use flifo::clock;
use flifo::interrupt;
use flifo::report::format;
use flifo::sampler::Machine;
use flifo::statistics::Spread;
use serde::Serialize;

use crate::contestant::Contestant;
use crate::dataset::dataset;
use crate::measure::Edge;
use crate::plan::Plan;
use crate::results::by_name;
use crate::run::{minutes, say, start};
use crate::running::Running;
use crate::settings::Settings;
use crate::sysbench::{self, Load};
use crate::workload::Workload;
use crate::{Error, Result};

/// Of each turn, what does not count and is not set: the readings, and until all stands still.
const BESIDES: Duration = Duration::from_millis(60);
/// A line so often.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Moments {
    pub command_line: String,
    pub started_at: String,
    pub interrupted: bool,
    pub machine: Machine,
    pub mariadb_version: String,
    pub sysbench_version: String,
    pub settings: Settings,
    pub moment_ms: u128,
    pub settle_ms: u128,
    pub contestants: Vec<Contestant>,
    pub cells: Vec<Cell>,
    pub notes: Vec<String>,
}

/// One workload with so many connections.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    #[serde(serialize_with = "by_name")]
    pub workload: Workload,
    pub connections: u32,
    /// The turns of each contestant, in the order of the contestants.
    pub turns: Vec<Vec<Turn>>,
}

/// What counts of a contestant's turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Turn {
    pub throughput_per_s: f64,
    pub statements_per_s: f64,
    /// Of the server's processes, on average.
    pub server_processors: f64,
}

impl Turn {
    fn between(workload: Workload, (first, last): &(Edge, Edge)) -> Turn {
        let seconds = last.reading.seconds_since(&first.reading);
        let per_s = |name: &str| last.reading.counted_since(&first.reading, name) as f64 / seconds;
        Turn {
            throughput_per_s: per_s(workload.counter()),
            statements_per_s: per_s("QUESTIONS"),
            server_processors: last.server.processors_since(&first.server),
        }
    }
}

/// Measures all cells. An interrupt is no error: the results say so.
pub fn run(plan: &Plan, command_line: String) -> Result<Moments> {
    let started_at = clock::utc_now();
    let sysbench_version = sysbench::version()?;
    let dataset = dataset(plan.settings.rows, say)?;
    let mut servers = start(plan, &dataset)?;
    let mariadb_version = match servers.first_mut() {
        Some(server) => server.version()?,
        None => return Err(Error::Usage("nobody is left to be measured".into())),
    };
    let mut moments = Moments {
        command_line,
        started_at,
        interrupted: false,
        machine: Machine::detect(&std::env::temp_dir()),
        mariadb_version,
        sysbench_version,
        settings: plan.settings.clone(),
        moment_ms: plan.moment.as_millis(),
        settle_ms: plan.settle.as_millis(),
        contestants: plan.contestants.clone(),
        cells: Vec::new(),
        notes: Vec::new(),
    };
    let turn = plan.settle + plan.moment + BESIDES;
    let cells = plan.cells();
    let all = turn * plan.rounds * (plan.contestants.len() * cells.len()) as u32;
    say(&format!("{} cells, {} turns of each, about {}", cells.len(), plan.rounds, minutes(all)));
    for (workload, connections) in cells {
        let mut cell = Cell { workload, connections, turns: vec![Vec::new(); servers.len()] };
        let measured = measure(plan, turn, &mut servers, &mut cell);
        if cell.turns.iter().all(|turns| !turns.is_empty()) {
            moments.cells.push(cell);
        }
        match measured {
            Ok(notes) => moments.notes.extend(notes),
            Err(Error::Interrupted) => break,
            Err(error) => {
                let note = format!("{}, {connections}: {error}", workload.name());
                say(&note);
                moments.notes.push(note);
            }
        }
    }
    moments.interrupted = interrupt::is_asked();
    Ok(moments)
}

fn measure(plan: &Plan, turn: Duration, servers: &mut [Running], cell: &mut Cell) -> Result<Vec<String>> {
    let (workload, connections) = (cell.workload, cell.connections);
    // Twice as long as it takes: sysbench's time goes on while it stands still.
    let bound = (turn * plan.rounds + Duration::from_secs(30)) * 2 * servers.len() as u32;
    let stand_by = |server: &mut Running| server.stand_by(workload, connections, bound, &plan.settings);
    let loads: Vec<Load> = servers.iter_mut().map(stand_by).collect::<Result<_>>()?;
    let mut told = Instant::now();
    for round in 0..plan.rounds {
        let mut order: Vec<usize> = (0..servers.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let edges: Result<Vec<(usize, Turn)>> = order
            .into_iter()
            .map(|at| {
                let edges = servers[at].moment(&loads[at], workload, (plan.settle, plan.moment))?;
                Ok((at, Turn::between(workload, &edges)))
            })
            .collect();
        // A round is whole, or not at all.
        for (at, turn) in edges? {
            cell.turns[at].push(turn);
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let left = turn * (plan.rounds - round - 1) * servers.len() as u32;
            say(&format!("{}, {connections}: {} left", workload.name(), minutes(left)));
        }
    }
    drop(loads);
    let mut notes = Vec::new();
    for (server, contestant) in servers.iter_mut().zip(&plan.contestants) {
        let named = |note: String| format!("{}, {connections}, {}: {note}", workload.name(), contestant.name);
        notes.extend(server.is_over()?.into_iter().map(named));
    }
    notes.iter().for_each(|note| say(note));
    Ok(notes)
}

impl Cell {
    /// A contestant's throughput by the first one's, turn by turn.
    fn ratios(&self, at: usize) -> Vec<f64> {
        let by_first = |(turn, first): (&Turn, &Turn)| turn.throughput_per_s / first.throughput_per_s;
        self.turns[at].iter().zip(&self.turns[0]).map(by_first).collect()
    }
}

/// The standard error of a median of so many, by the one of the mean, as of a normal distribution.
fn error_of_median(values: &[f64]) -> f64 {
    const BY_THE_MEANS: f64 = 1.2533;
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let square = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    BY_THE_MEANS * (square / count).sqrt()
}

/// The tenth lowest and the tenth highest of a hundred.
fn most_of(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let beyond = sorted.len() / 10;
    (sorted[beyond], sorted[sorted.len() - 1 - beyond])
}

impl Moments {
    /// The tables.
    pub fn markdown(&self) -> String {
        if self.cells.is_empty() {
            return "Nothing was measured.\n".into();
        }
        let settings = &self.settings;
        let mut text = format!("## By turns of a moment\n\n`{}`\n\n", self.command_line);
        let _ = writeln!(
            text,
            "{}, {}; {}, {} cores, {}, {}. Each contestant has a server and a load, which stand still but for its turns; {} ms of a \
             turn count, after {} ms. {} rows, --rand-type={}{}. Throughput is what the server counts. Ratios are of turns beside each \
             other: the median, its standard error, and where the middle eight of ten are.\n",
            self.mariadb_version,
            self.sysbench_version,
            self.machine.cpu_model,
            self.machine.cores,
            self.machine.kernel,
            self.started_at,
            self.moment_ms,
            self.settle_ms,
            settings.rows,
            settings.distribution,
            if settings.text { ", statements as text" } else { "" },
        );
        for cell in &self.cells {
            self.of_cell(cell, &mut text);
        }
        if self.interrupted {
            text += "Interrupted: what was measured until then.\n\n";
        }
        for note in &self.notes {
            let _ = writeln!(text, "- {note}");
        }
        text
    }

    fn of_cell(&self, cell: &Cell, text: &mut String) {
        let first = &self.contestants[0].name;
        let title = cell.workload.title(self.settings.rows);
        let _ = writeln!(text, "### {title}, {} connections\n", cell.connections);
        let counted = cell.workload.counted();
        let _ = writeln!(text, "| | {counted} a second | server CPU, us a statement | / {first} | turns |");
        let _ = writeln!(text, "|---|--:|--:|---|--:|");
        for (at, contestant) in self.contestants.iter().enumerate() {
            let turns = &cell.turns[at];
            let median =
                |figure: fn(&Turn) -> f64| Spread::of(turns.iter().map(figure)).map_or(0.0, |s| s.median);
            let ratios = cell.ratios(at);
            let (low, high) = most_of(&ratios);
            let by_first = match (at, Spread::of(ratios.iter().copied())) {
                (0, _) | (_, None) => String::new(),
                (_, Some(spread)) => {
                    format!("{:.3} +- {:.3} ({low:.2} to {high:.2})", spread.median, error_of_median(&ratios))
                }
            };
            let _ = writeln!(
                text,
                "| {} | {} | {:.1} | {by_first} | {} |",
                contestant.name,
                format::count(median(|turn| turn.throughput_per_s)),
                median(|turn| 1e6 * turn.server_processors / turn.statements_per_s),
                turns.len(),
            );
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_median_by_hand() {
        // Deviation 1, four of them.
        assert_eq!(error_of_median(&[1.0, 3.0, 1.0, 3.0]), 1.2533 / 2.0);
        assert_eq!(error_of_median(&[2.0]), 0.0);
    }

    #[test]
    fn most_are_the_middle_eight_of_ten() {
        let values: Vec<f64> = (0..20).rev().map(f64::from).collect();
        assert_eq!(most_of(&values), (2.0, 17.0));
        assert_eq!(most_of(&[7.0]), (7.0, 7.0));
    }
}
