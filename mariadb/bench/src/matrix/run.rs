//! The run: cell after cell, slices in alternation, whatever was measured kept.

use std::time::{Duration, Instant};

use flifo::support::interrupt;

use super::clients::Clients;
use super::loads::Load;
use super::plan::{Place, Plan};
use super::report;
use super::results::{Cell, Results, ServerOptions, Slice};
use super::servers::{Files, Servers};
use crate::dataset::{Dataset, dataset};
use crate::results::RunHead;
use crate::run::{minutes, say};
use crate::running::Running;
use crate::slices::{REPORT_INTERVAL, SLICE_OVERHEAD_MAX, SliceFigures};
use crate::sysbench;
use crate::{Error, Result};

/// More than a load's start, warm-up and end take.
const LOAD_MAX: Duration = Duration::from_secs(120);

/// Measures all cells. An interrupt is no error: the results say so.
pub fn run(plan: &Plan, command_line: String) -> Result<Results> {
    let mut results = Results {
        run: RunHead::begin(command_line)?,
        what: "matrix",
        product: plan.product.name,
        rows: plan.settings.rows,
        distribution: plan.settings.distribution.clone(),
        times: plan.times.clone(),
        variants: plan.variants.clone(),
        base: plan.variants[plan.base()].name.clone(),
        servers: Vec::new(),
        cells: Vec::new(),
    };
    let dataset = dataset(plan.product, plan.settings.rows, say)?;
    let files = Files::new()?;
    let mut run = Run {
        plan,
        dataset: &dataset,
        files: &files,
        begun: Instant::now(),
        servers: None,
        failed: Vec::new(),
    };
    run.all(&mut results)?;
    results.run.end();
    Ok(results)
}

struct Run<'a> {
    plan: &'a Plan,
    dataset: &'a Dataset,
    files: &'a Files,
    begun: Instant,
    /// A load's name, and its server of each variant, stopped; none if they did not start. Each load has new ones, since two processes of
    /// one server differ by some percent for their life: that is not to favour one variant in all loads.
    servers: Option<(&'static str, Vec<Running>)>,
    /// Options with which the servers did not start.
    failed: Vec<Servers>,
}

impl Run<'_> {
    fn all(&mut self, results: &mut Results) -> Result<()> {
        let (plan, cells) = (self.plan, self.plan.places.len());
        let rounds = plan.rounds(0, self.left(), false);
        let all = plan.time_from(0, rounds, false);
        say(&format!("{cells} cells, {rounds} rounds each, about {}", minutes(all)));
        if plan.times.quick && all > plan.product.quick {
            say(&format!(
                "this is more than {}: the last cells will be left out",
                minutes(plan.product.quick)
            ));
        }
        for (at, place) in plan.places.iter().enumerate() {
            if plan.times.quick && self.left() < plan.time_of(*place, 1) {
                let limit = minutes(plan.product.quick);
                results.run.note(format!("{limit} are over: {} cells are left out", cells - at));
                break;
            }
            self.cell(at, results)?;
            if interrupt::is_requested() {
                break;
            }
        }
        Ok(())
    }

    /// What is left of the time of a quick run.
    fn left(&self) -> Duration {
        self.plan.product.quick.saturating_sub(self.begun.elapsed())
    }

    fn cell(&mut self, at: usize, results: &mut Results) -> Result<()> {
        let (plan, place) = (self.plan, self.plan.places[at]);
        let name = format!("{}, {}", place.load.name, place.connections);
        if self.failed.contains(&place.load.servers) {
            results.run.note(format!("{name}: its servers did not start"));
            return Ok(());
        }
        match self.start(place.load, results) {
            Ok(()) => {}
            Err(Error::Interrupted) => return Ok(()),
            // Nothing else will start either.
            Err(error) if results.servers.is_empty() => return Err(error),
            Err(error) => {
                results.run.note(format!("{name}: {error}"));
                self.failed.push(place.load.servers);
                return Ok(());
            }
        }
        let rounds = plan.rounds_of(place, plan.rounds(at, self.left(), true));
        let mut cell = Cell::new(place, plan.slice(place), plan.variants.len());
        let mut notes = self.measure(place, rounds, &mut cell);
        if cell.is_measured() {
            cell.summarize(plan);
            notes.extend(cell.doubts());
        }
        notes.into_iter().for_each(|text| results.run.note(format!("{name}: {text}")));
        let left = plan.time_from(at + 1, plan.rounds(at + 1, self.left(), true), true);
        let mut line = format!("{:>8} left  {:<22} {:>5}", minutes(left), place.load.name, place.connections);
        if cell.is_measured() {
            for summary in &cell.summaries {
                if let Some(ratio) = &summary.ratio {
                    line += &format!("  {} {}", summary.variant, report::ratio(ratio));
                }
            }
            results.cells.push(cell);
        } else {
            line += "  not measured";
        }
        say(&line);
        Ok(())
    }

    /// Starts the servers of this load, unless all of them run.
    fn start(&mut self, load: &Load, results: &mut Results) -> Result<()> {
        let options = load.servers;
        if let Some((started, servers)) = &mut self.servers
            && *started == load.name
            && servers.iter_mut().all(|server| server.is_there().is_ok())
        {
            return Ok(());
        }
        // Their memory is free before the next ones take theirs.
        self.servers = None;
        let mut servers = options.start(self.plan, self.dataset, self.files)?;
        if results.run.server_version.is_empty() {
            results.run.server_version = servers[0].version()?;
        }
        if !results.servers.iter().any(|known| known.title == options.title()) {
            let settings = options.settings(self.plan, self.dataset, self.files);
            results.servers.push(ServerOptions { title: options.title(), options: settings.server() });
        }
        self.servers = Some((load.name, servers));
        Ok(())
    }

    /// All rounds of a cell, or those until something failed; returns its doubts.
    fn measure(&mut self, place: Place, rounds: u32, cell: &mut Cell) -> Vec<String> {
        let plan = self.plan;
        let Some((_, servers)) = &mut self.servers else { return Vec::new() };
        let (has_phases, parts) = (!place.load.phases.is_empty(), place.load.parts());
        let at_once = if has_phases { plan.rounds_of_phase(place) } else { rounds };
        let mut notes = Vec::new();
        let mut done = 0;
        for load in parts.into_iter().cycle() {
            if done >= rounds || interrupt::is_requested() {
                break;
            }
            let clients = Clients {
                load,
                connections: place.connections,
                time_s: 0,
                settings: &plan.settings,
                files: self.files,
            };
            let mut part = Part { plan, place, clients, has_phases, servers: servers.as_mut_slice() };
            let measured = part.measure(at_once, cell);
            notes.extend(part.end());
            match measured {
                Ok(()) | Err(Error::Interrupted) => {}
                Err(error) => {
                    notes.push(error.to_string());
                    break;
                }
            }
            done += at_once;
        }
        notes
    }
}

/// A load on its servers, which is all of a cell or one of its phases.
struct Part<'a> {
    plan: &'a Plan,
    place: Place,
    clients: Clients<'a>,
    has_phases: bool,
    servers: &'a mut [Running],
}

impl Part<'_> {
    fn measure(&mut self, rounds: u32, cell: &mut Cell) -> Result<()> {
        let plan = self.plan;
        let of = |at: usize| Error::of(&plan.variants[at].name);
        let slice = plan.slice(self.place);
        let count = self.servers.len();
        let bound =
            ((slice.whole() + SLICE_OVERHEAD_MAX) * rounds + LOAD_MAX + self.plan.warm_up(self.place))
                * count as u32;
        self.clients.time_s = bound.as_secs() as u32;
        // A load that changes adapts while it is measured.
        let warm_up = if self.has_phases { Duration::ZERO } else { plan.warm_up(self.place) };
        let clients = self.clients;
        let mut loads = Vec::new();
        for at in 0..count {
            loads.push(started(&mut self.servers[at], clients, warm_up).map_err(of(at))?);
        }
        let mut reported_at = Instant::now();
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..count).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            // A round is whole, or not at all.
            let mut slices = Vec::new();
            for at in order {
                slices.push((at, self.slice(at, &mut loads[at]).map_err(of(at))?));
            }
            for (at, slice) in slices {
                cell.slices[at].push(slice);
            }
            if reported_at.elapsed() >= REPORT_INTERVAL {
                reported_at = Instant::now();
                let left = slice.whole() * (rounds - round - 1) * count as u32;
                let Place { load, connections } = self.place;
                say(&format!("{}, {connections}: {} left of this load", load.name, minutes(left)));
            }
        }
        Ok(())
    }

    fn slice(&mut self, at: usize, clients: &mut [sysbench::Load]) -> Result<Slice> {
        let (slice, load) = (self.plan.slice(self.place), self.clients.load);
        let edges = self.servers[at].slice(clients, &load.counters(), (slice.settle, slice.counts))?;
        let figures = SliceFigures::between(load.counter, &edges);
        let (first, last) = &edges;
        let counted = |counter| last.reading.counted_since(&first.reading, counter) as f64 / figures.window_s;
        Ok(Slice {
            figures,
            background_per_s: load.background.as_ref().map(|background| counted(background.counter)),
            phase: self.has_phases.then_some(load.name),
        })
    }

    /// The clients are gone: ends what they left, waits until the servers are at rest, and returns what is doubtful.
    fn end(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        for (server, variant) in self.servers.iter_mut().zip(&self.plan.variants) {
            if interrupt::is_requested() {
                break;
            }
            let is_over =
                server.is_there().and_then(|()| server.end_clients()).and_then(|()| server.is_over());
            let found = is_over.unwrap_or_else(|error| vec![error.to_string()]);
            notes.extend(found.into_iter().map(|note| format!("{}: {note}", variant.name)));
        }
        notes
    }
}

/// Starts a load's clients on a server, and stops all of them after the warm-up.
fn started(server: &mut Running, clients: Clients<'_>, warm_up: Duration) -> Result<Vec<sysbench::Load>> {
    clients.set_up(server)?;
    let loads = server.stand_by_with(warm_up, |running| clients.start(running.server()))?;
    if clients.load.servers == Servers::Tls && !uses_tls(server, clients.connections)? {
        return Err(Error::NoTls);
    }
    Ok(loads)
}

fn uses_tls(server: &mut Running, connections: u32) -> Result<bool> {
    let question = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                    WHERE VARIABLE_NAME = 'SSL_FINISHED_ACCEPTS'";
    Ok(server.number(question)?.is_some_and(|accepted| accepted >= u64::from(connections)))
}
