//! The run from its first line to its last.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use flifo::commands::common::{Ended, command_line};
use flifo::commands::record::keep as keep_record;
use flifo::measure::sampler::{self, Sampler, Server};
use flifo::results::Machine;
use flifo::support::error::Error;
use flifo::support::output::{check_all_writable, replace_file};
use flifo::support::progress::{Progress, SweepBar};
use flifo::support::size::Bytes;
use flifo::support::{clock, interrupt, limits};
use tempfile::TempDir;

use crate::args::Args;
use crate::cell::{self, Base, Rig};
use crate::memory;
use crate::plan::{Plan, Step};
use crate::record;
use crate::report::{self, Form};
use crate::results::{Peer, Results, Round, RunSettings};
use crate::row::{self, Row};
use crate::store::{Loaded, Store};
use crate::workload::Workload;

/// What a thread takes of memory: touched stack, kernel objects, a connection's cache.
const THREAD_BYTES: u64 = 2 << 20;
/// What a peer takes of the disk besides its rows: logs, tables that wait for compaction.
const LOGS_BYTES: u64 = 1 << 30;
/// Of a row on the disk, with older versions.
const ROW_BYTES: u64 = 800;
/// SQLite's connections: the database, its log.
const DESCRIPTORS_A_THREAD: u64 = 2;
/// Files of sorted tables that are open.
const DESCRIPTORS: u64 = 2_000;

/// Runs `flifo-peers`.
pub(crate) fn run(args: &Args) -> Result<Ended, Error> {
    let begun = Instant::now();
    let dir = directory(args);
    let machine = sampler::machine(&dir);
    let plan = Plan::new(args, machine.cores.max(1))?;
    check_all_writable([&args.json, &args.markdown].into_iter().flatten())?;
    let place = args.record.place(record::name(plan.settings.durability))?;
    check_limits(&plan, &dir)?;
    let progress = Progress::new();
    if machine.file_system == "tmpfs" {
        progress
            .note("the databases are in memory (tmpfs): nothing survives a power cut; use --dir on a disk");
    }
    if cfg!(debug_assertions) {
        progress.note("built without optimisation: the figures mean nothing ('make peers' builds it right)");
    }
    let temp = tempfile::Builder::new().prefix("flifo-peers-").tempdir_in(&dir).map_err(|error| {
        Error::Data(format!("cannot make a directory in {}: {error}; use another --dir", dir.display()))
    })?;

    let mut results = results(&plan, machine);
    let mut opening = String::new();
    report::stated(&mut opening, &results, Form::Terminal);
    print(&opening);
    let outcome = measure(&plan, &temp, &progress, &mut results);
    results.elapsed_s = begun.elapsed().as_secs_f64();
    results.interrupted = !matches!(outcome, Ok(Ended::Done));

    print(&report::text(&plan, &results, Form::Terminal));
    // The measurements are worth keeping after any error, which is still returned.
    let kept = keep(args, &plan, &results);
    let is_partial = results.interrupted || !results.failures.is_empty();
    let recorded = keep_record(place.as_ref(), is_partial, || record::of(&results));
    let ended = outcome?;
    kept?;
    recorded?;
    match ended {
        Ended::Interrupted if results.cells.is_empty() => Err(Error::Interrupted),
        Ended::Done if !results.failures.is_empty() => Err(Error::Unmeasured(format!(
            "{} went wrong, listed above; the other figures stand",
            match results.failures.len() {
                1 => "one thing".into(),
                n => format!("{n} things"),
            }
        ))),
        ended => Ok(ended),
    }
}

/// The requested directory; otherwise that of temporary files, or the current one if those are in memory.
fn directory(args: &Args) -> PathBuf {
    let temporary = std::env::temp_dir();
    match &args.dir {
        Some(dir) => dir.clone(),
        None if sampler::machine(&temporary).file_system == "tmpfs" => PathBuf::from("."),
        None => temporary,
    }
}

fn print(text: &str) {
    // A closed reader has read enough; the files are written all the same.
    let _ = write!(std::io::stdout(), "{text}");
}

pub(crate) fn results(plan: &Plan, machine: Machine) -> Results {
    let settings = &plan.settings;
    let peer = |driver: &crate::store::Driver| Peer {
        name: driver.about.name,
        version: (driver.about.version)(),
        durability_setting: driver.about.setting(settings.durability).ok(),
        writers: driver.about.writers,
        memory: driver.about.memory,
        load: driver.about.load,
        settle: driver.about.settle,
    };
    Results {
        schema: 1,
        command_line: command_line(),
        started_at: clock::utc_now(),
        elapsed_s: 0.0,
        interrupted: false,
        machine,
        settings: RunSettings {
            durability: settings.durability.name(),
            durability_promise: settings.durability.promise(),
            rows: plan.rows,
            cache_bytes: settings.cache_bytes,
            rounds: plan.rounds,
            round_s: plan.time.as_secs_f64(),
            warmup_s: plan.warmup.as_secs_f64(),
            seed: plan.seed,
            policy: settings.policy.to_string(),
            thread_concurrency: settings.thread_concurrency,
        },
        peers: plan.peers.iter().map(peer).collect(),
        left_out: plan.all_left_out(),
        cells: Vec::new(),
        failures: Vec::new(),
    }
}

/// Loads every peer, then all steps in the plan's order.
fn measure(plan: &Plan, temp: &TempDir, progress: &Progress, results: &mut Results) -> Result<Ended, Error> {
    let steps = plan.steps();
    let mut bar = progress.sweep(steps.len(), plan.warmup + plan.time);
    // In memory before, so that a load that is measured is the peer's time alone.
    let rows: Vec<Row> = row::rows(plan.seed, plan.rows).collect();
    let mut bases = Vec::new();
    for driver in &plan.peers {
        if interrupt::is_requested() {
            return Ok(Ended::Interrupted);
        }
        bar.running(&format!("loading {}", driver.about.name));
        let dir = temp.path().join(driver.about.name);
        let loaded = load(plan, bases.len(), &dir, &mut rows.iter().copied());
        bases.push(match loaded.and_then(|loaded| opened(plan, loaded)) {
            Ok(base) => Some(base),
            Err(text) => {
                failed(results, &bar, driver.about.name, "the load", &text);
                None
            }
        });
    }
    let mut kept: Option<Rig> = None;
    for step in &steps {
        bar.running(&describe(plan, step));
        let interrupted = match &mut bases[step.peer] {
            Some(base) if !base.is_stuck => match step.workload {
                Workload::Load => load_step(plan, step, temp.path(), &rows, results, &bar),
                _ => cell_step(plan, step, &mut kept, base, temp.path(), results, &bar)?,
            },
            _ => interrupt::is_requested(),
        };
        bar.advance();
        if interrupted {
            bar.finish();
            return Ok(Ended::Interrupted);
        }
    }
    bar.finish();
    // Handles first: a store closes with its last handle.
    drop(kept);
    count_again(plan, temp, bases, results);
    Ok(Ended::Done)
}

/// Checks that acknowledged updates exist at the end, after each peer was closed and opened again.
fn count_again(plan: &Plan, temp: &TempDir, bases: Vec<Option<Base>>, results: &mut Results) {
    // A thread that hangs in one peer has handles of all: the others stay open, and many stores do not open a second
    // time.
    let are_held = bases.iter().flatten().any(|base| base.is_stuck);
    if are_held {
        results.failures.push(
            "no peer was closed and opened again at the end, for a thread that hangs has handles of all: the \
             others' rows were counted as they are"
                .into(),
        );
    }
    for (peer, base) in bases.into_iter().enumerate() {
        let Some(base) = base.filter(|base| !base.is_stuck) else { continue };
        let name = plan.peers[peer].about.name;
        let (how, counted) = match are_held {
            true => ("counted at the end", counted(plan, &*base.store, base.updates)),
            false => ("closed and opened again", opened_again(plan, peer, base, &temp.path().join(name))),
        };
        if let Err(text) = counted {
            results.failures.push(format!("{name}, {how}: {text}"));
        }
    }
}

fn opened_again(plan: &Plan, peer: usize, base: Base, dir: &Path) -> Result<(), String> {
    let Base { store, updates, .. } = base;
    store.close().map_err(cell::text)?;
    drop(store);
    let store = (plan.peers[peer].open)(dir, &plan.settings_of(peer)).map_err(cell::text)?;
    counted(plan, &*store, updates)
}

/// Compares the rows with the acknowledged updates, and closes the peer.
fn counted(plan: &Plan, store: &dyn Store, updates: Option<u64>) -> Result<(), String> {
    let found = cell::counters(store, plan.rows).map_err(cell::text)?;
    store.close().map_err(cell::text)?;
    match updates {
        Some(updates) if found != updates => {
            Err(format!("UPDATES WERE LOST: {updates} were acknowledged, and the rows have {found}"))
        }
        _ => Ok(()),
    }
}

fn describe(plan: &Plan, step: &Step) -> String {
    let name = plan.peers[step.peer].about.name;
    let threads = report::threads(step.threads);
    format!("{} {name}, {threads}, round {} of {}", step.workload, step.round + 1, plan.rounds)
}

fn failed(results: &mut Results, bar: &SweepBar, peer: &str, what: &str, text: &str) {
    let failure = format!("{peer}, {what}: {text}");
    bar.note(&failure);
    results.failures.push(failure);
}

/// Loads a peer into a new directory.
fn load(plan: &Plan, peer: usize, dir: &Path, rows: &mut dyn Iterator<Item = Row>) -> Result<Loaded, String> {
    fs::create_dir(dir).map_err(|error| error.to_string())?;
    (plan.peers[peer].load)(dir, &plan.settings_of(peer), rows).map_err(cell::text)
}

/// Opens the loaded database, and reads it once: all rows exist, and are in the peer's cache.
fn opened(plan: &Plan, loaded: Loaded) -> Result<Base, String> {
    let store = loaded().map_err(cell::text)?;
    cell::counters(&*store, plan.rows).map_err(cell::text)?;
    Ok(Base { store, updates: Some(0), is_stuck: false })
}

/// A load that is measured, of a database that is thrown away; true if Ctrl-C came.
fn load_step(
    plan: &Plan,
    step: &Step,
    temp: &Path,
    rows: &[Row],
    results: &mut Results,
    bar: &SweepBar,
) -> bool {
    let name = plan.peers[step.peer].about.name;
    let dir = temp.join(format!("{name}-load"));
    memory::touch(memory::at_hand(touched_bytes(plan)));
    let sampler = Sampler::start(Server::RestOfThisProcess, Vec::new());
    // An empty database may write its log's files at once: a load begins when it requests the first row.
    let mut begun = None;
    let mut timed = rows.iter().inspect(|_| _ = begun.get_or_insert_with(Instant::now)).copied();
    let loaded = load(plan, step.peer, &dir, &mut timed);
    let (elapsed_s, host) = (begun.map_or(f64::NAN, |b| b.elapsed().as_secs_f64()), sampler.finish().totals);
    let checked = loaded
        .and_then(|loaded| opened(plan, loaded))
        .and_then(|base| base.store.close().map_err(cell::text));
    // The directory of all goes at the end in any case.
    let _ = fs::remove_dir_all(&dir);
    match checked {
        Ok(()) => {
            let operations_per_s = plan.rows as f64 / elapsed_s;
            let (round, operations) = (step.round, plan.rows);
            let round = Round { round, elapsed_s, operations, operations_per_s, host, ..Round::default() };
            measured(plan, step, round, results, bar);
        }
        Err(text) => failed(results, bar, name, &describe(plan, step), &text),
    }
    interrupt::is_requested()
}

/// A cell; true if Ctrl-C came.
fn cell_step(
    plan: &Plan,
    step: &Step,
    kept: &mut Option<Rig>,
    base: &mut Base,
    temp: &Path,
    results: &mut Results,
    bar: &SweepBar,
) -> Result<bool, Error> {
    let name = plan.peers[step.peer].about.name;
    if !kept.as_ref().is_some_and(|rig| rig.fits(step.threads)) {
        // The old threads are gone first: the limits were checked for the most at a time.
        *kept = None;
    }
    let rig = match kept {
        Some(rig) => rig,
        None => kept.insert(Rig::new(step.threads)?),
    };
    match cell::run(plan, step, rig, base)? {
        cell::Ended::Measured(round) => measured(plan, step, *round, results, bar),
        cell::Ended::Failed(text) => failed(results, bar, name, &describe(plan, step), &text),
        cell::Ended::Interrupted => return Ok(true),
    }
    if !base.is_stuck
        && let Err(fail) = cell::settle(step, base, temp)
    {
        failed(results, bar, name, &format!("after {}", describe(plan, step)), &cell::text(fail));
    }
    Ok(interrupt::is_requested())
}

fn measured(plan: &Plan, step: &Step, round: Round, results: &mut Results, bar: &SweepBar) {
    results.cell_mut(plan, step).rounds.push(round);
    let name = plan.peers[step.peer].about.name;
    let Some(cell) = results.cell(&step.workload.to_string(), step.threads, name) else { return };
    bar.cell_row(step.round, plan.rounds, || report::row(results, cell));
}

/// Writes the requested files, each even if the other fails.
fn keep(args: &Args, plan: &Plan, results: &Results) -> Result<(), Error> {
    let write = |path: &Path, text: String| -> Result<(), Error> { Ok(replace_file(path, text.as_bytes())?) };
    let json = || serde_json::to_string_pretty(results).expect("keys are text and figures are numbers");
    let saved = args.json.as_deref().map_or(Ok(()), |path| write(path, json()));
    let markdown = || report::text(plan, results, Form::Markdown);
    let shown = args.markdown.as_deref().map_or(Ok(()), |path| write(path, markdown()));
    saved.and(shown)
}

/// What a load has touched before: its own cache, and as much again.
fn touched_bytes(plan: &Plan) -> u64 {
    plan.settings.cache_bytes.saturating_mul(2)
}

/// Memory that the run takes. What a load has touched is given back before its own database is there, which takes less.
fn memory_bytes(plan: &Plan) -> u64 {
    let caches = plan.settings.cache_bytes.saturating_mul(plan.peers.len() as u64);
    let threads = u64::from(plan.settings.threads) * THREAD_BYTES;
    let rows = plan.rows * size_of::<Row>() as u64;
    let load = if plan.workloads.contains(&Workload::Load) { touched_bytes(plan) } else { 0 };
    caches.saturating_add(threads).saturating_add(rows).saturating_add(load)
}

/// What the run takes of the system, asked before anything is started.
fn check_limits(plan: &Plan, dir: &Path) -> Result<(), Error> {
    let (threads, peers) = (u64::from(plan.settings.threads), plan.peers.len() as u64);
    limits::descriptors(threads * DESCRIPTORS_A_THREAD + DESCRIPTORS, limits::FEWER_THREADS)?;
    limits::threads(threads, limits::FEWER_THREADS)?;
    limits::stacks(threads, cell::STACK_BYTES as u64, limits::FEWER_THREADS)?;
    let memory = memory_bytes(plan);
    if let Some(available) = limits::available_memory().filter(|available| *available < memory) {
        return Err(Error::Limits(format!(
            "{peers} peers with a cache of {} each, and {threads} threads, take {} of memory and {} are available; use fewer --rows, --peers or --threads, or a smaller --cache",
            Bytes(plan.settings.cache_bytes),
            Bytes(memory),
            Bytes(available)
        )));
    }
    let disk = (peers + 1) * (plan.rows * ROW_BYTES + LOGS_BYTES);
    match limits::free_disk(dir) {
        Some(free) if free < disk => Err(Error::Data(format!(
            "disk full: the databases may take {} and {} has {} free; use another --dir, fewer --rows or --peers",
            Bytes(disk),
            dir.display(),
            Bytes(free)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
