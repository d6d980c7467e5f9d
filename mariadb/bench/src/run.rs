//! The run: interleaved variants, everything ended at the end, whatever was measured kept.

use std::io::Write;
use std::time::{Duration, Instant};

use flifo::support::format;
use flifo::support::interrupt;
use flifo_mariadb::Plugin;

use crate::dataset::{Dataset, dataset};
use crate::plan::{Plan, What};
use crate::product::{Launch, MARIADB};
use crate::results::{Results, RunHead};
use crate::running::{Measured, Running};
use crate::variant::Variant;
use crate::workload::Workload;
use crate::{Error, Result};

/// The least that a small pool may have: InnoDB's own needs, with some dozens of connections.
const POOL_BYTES_MIN: u64 = 16 << 20;
/// What a cell takes besides its load, before that is known.
const CELL_OVERHEAD: Duration = Duration::from_millis(1500);

/// Measures all cells. An interrupt is no error: the results say so.
pub fn run(mut plan: Plan, command_line: String) -> Result<Results> {
    let mut head = RunHead::begin(command_line)?;
    let dataset = dataset(&MARIADB, plan.settings.rows, say)?;
    if plan.pool_follows_data {
        plan.settings.buffer_pool_bytes = (dataset.bytes / 10).max(POOL_BYTES_MIN);
    }
    for variant in &plan.variants {
        say(&format!("{}: {}", variant.name, variant.described()));
    }
    let mut servers = start(&plan, &dataset)?;
    head.server_version = match servers.first_mut() {
        Some(server) => server.version()?,
        None => return Err(Error::Usage("no variant is left to measure".into())),
    };
    let mut results = Results::begin(&plan, head);
    measure(&plan, &dataset, servers, &mut results);
    results.run.end();
    Ok(results)
}

pub(crate) fn start(plan: &Plan, dataset: &Dataset) -> Result<Vec<Running>> {
    let warm = plan.what != What::SmallPool;
    let common = || plan.settings.launch();
    let target: Vec<(&str, Variant, Launch)> = if plan.one_server {
        vec![("all", Variant::stock(), common().plugin(Plugin::AtHand))]
    } else {
        plan.variants.iter().map(|c| (c.name.as_str(), c.clone(), c.launch(&MARIADB, common()))).collect()
    };
    let mut servers = Vec::new();
    for (whose, variant, launch) in target {
        say(&format!("starting a server for {whose}, on a copy of the data"));
        let server = Running::start(&MARIADB, &variant, launch, dataset, warm);
        servers.push(server.map_err(Error::of(whose))?);
        if interrupt::is_requested() {
            return Err(Error::Interrupted);
        }
    }
    Ok(servers)
}

/// Each round has servers of its own, unless they are to stay the same. A process keeps the memory that it was given, and
/// with it luck in how near and how whole that is: it would be a variant's for all rounds, and look like its merit.
fn measure(plan: &Plan, dataset: &Dataset, mut servers: Vec<Running>, results: &mut Results) {
    let cells = plan.cells();
    let mut progress = Progress::new(plan, cells.len() * plan.variants.len());
    for round in 0..plan.rounds {
        if round > 0 && !plan.same_servers {
            say(&format!("round {}/{}: new servers", round + 1, plan.rounds));
            // Their memory is free before the next ones take theirs.
            servers.clear();
            match start(plan, dataset) {
                Ok(started) => servers = started,
                Err(Error::Interrupted) => return,
                Err(error) => {
                    let note = format!("round {}: {error}", round + 1);
                    results.run.note(note);
                    return;
                }
            }
        }
        for &(workload, connections) in &cells {
            let mut order: Vec<_> = plan.variants.iter().enumerate().collect();
            if round % 2 == 1 {
                // A later variant finds a disk, and with one server a log, that still has the other's writes to do.
                order.reverse();
            }
            for (at, variant) in order {
                let server = &mut servers[if plan.one_server { 0 } else { at }];
                let measured = match server.turn_into(variant) {
                    Ok(()) => server.measure(round, workload, connections, &plan.settings),
                    Err(error) => Measured { figures: Err(error), notes: Vec::new() },
                };
                let cell = (workload, connections, variant.name.as_str());
                if matches!(measured.figures, Err(Error::Interrupted)) {
                    return;
                }
                progress.done(
                    round,
                    cell,
                    &measured.figures.as_ref().map(|figures| figures.throughput_per_s),
                );
                let mut notes = measured.notes;
                match measured.figures {
                    Ok(figures) => results.push(cell, figures),
                    Err(error) => notes.push(error.to_string()),
                }
                for note in notes {
                    let cell =
                        format!("{}, {connections}, {}, round {}", workload.name(), variant.name, round + 1);
                    results.run.note(format!("{cell}: {note}"));
                }
                if interrupt::is_requested() {
                    return;
                }
            }
        }
    }
    for (server, variant) in servers.iter_mut().zip(&plan.variants) {
        let left = match server.left_in_scheduler() {
            Ok(None) => continue,
            Ok(Some(left)) => format!("{}: after the last load {left}", variant.name),
            Err(error) => format!("{}: {error}", variant.name),
        };
        results.run.note(left);
    }
}

/// A line for each cell, with the time left.
struct Progress {
    begun: Instant,
    cells: u32,
    done: u32,
    rounds: u32,
}

impl Progress {
    fn new(plan: &Plan, cells_of_round: usize) -> Progress {
        let cells = plan.rounds * cells_of_round as u32;
        let each = Duration::from_secs(plan.settings.time_s.into()) + CELL_OVERHEAD;
        say(&format!("{cells} cells, about {}", minutes(each * cells)));
        Progress { begun: Instant::now(), cells, done: 0, rounds: plan.rounds }
    }

    fn done(
        &mut self,
        round: u32,
        (workload, connections, name): (Workload, u32, &str),
        throughput_per_s: &std::result::Result<f64, &Error>,
    ) {
        self.done += 1;
        let left = self.begun.elapsed() / self.done * (self.cells - self.done);
        let figure = match throughput_per_s {
            Ok(per_s) => format!("{:>9} {}/s", format::count(*per_s), workload.counted()),
            Err(_) => "   failed".to_owned(),
        };
        let line = format!(
            "{:>8} left  round {}/{}  {:<16} {connections:>5}  {name:<10} {figure}",
            minutes(left),
            round + 1,
            self.rounds,
            workload.name(),
        );
        // Nobody left to read it is no reason to stop.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "flifo: {text}");
}

pub(crate) fn minutes(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
