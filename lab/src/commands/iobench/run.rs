//! `flifo iobench` from its first line to its last.

use super::args::IobenchArgs;
use super::cell::{self, Rig};
use super::plan::{Cell, Plan};
use super::test_area::TestArea;
use crate::commands::common::{Ended, command_line};
use crate::commands::record;
use crate::measure::sampler;
use crate::measure::storage::description::describe as describe_storage;
use crate::measure::storage::kinds::Carrier;
use crate::measure::storage::processes::Pool;
use crate::measure::storage::ring;
use crate::measure::storage::set::Set;
use crate::report::iobench::{IoReport, text};
use crate::report::{self, Outputs, Style};
use crate::results::Failure;
use crate::results::io::{IoResults, IoSettings, KIND, SCHEMA};
use crate::results::record::of_iobench;
use crate::support::clock::Start;
use crate::support::error::Error;
use crate::support::limits::{self, SMALLER_CONCURRENCY};
use crate::support::output::check_all_writable;
use crate::support::progress::{Progress, SweepBar, minutes};

/// Runs `flifo iobench`.
pub fn iobench(args: &IobenchArgs) -> Result<Ended, Error> {
    let plan = Plan::from_args(args)?;
    check_all_writable([&args.json, &args.html].into_iter().flatten())?;
    let place = args.record.place("iobench")?;
    let (results, ended) = measure(&plan)?;
    let report = IoReport { results: &results, with_advice: args.advise };
    let outputs = Outputs { json: args.json.as_deref(), html: args.html.as_deref(), svg: None };
    let kept = report::keep(&report, outputs);
    let recorded = record::keep(place.as_ref(), results.interrupted, || of_iobench(&results));
    kept?;
    recorded?;
    match (failures(&results), ended) {
        (_, Ended::Interrupted) if results.cells.is_empty() => Err(Error::Interrupted),
        (Some(error), Ended::Done) => Err(error),
        (_, ended) => Ok(ended),
    }
}

/// The failures, in one line, if any.
pub fn failures(results: &IoResults) -> Option<Error> {
    let failed: Vec<_> = results.cells.iter().filter(|cell| !cell.failures.is_empty()).collect();
    let first = failed.first()?;
    Some(Error::Unmeasured(format!(
        "{} of {} cells failed, first {}: {}",
        failed.len(),
        results.cells.len(),
        text::name(&first.key),
        first.failures[0].reason
    )))
}

/// Measures a plan. Test files are created, and removed at the end. A cell that fails is marked, and the run continues;
/// it is an error only if no cell could be measured. Ctrl-C (see [`crate::support::interrupt::install`]) ends the running cell,
/// and the measurements so far are returned.
pub fn measure(plan: &Plan) -> Result<(IoResults, Ended), Error> {
    let start = Start::now();
    let progress = &Progress::new();
    let mut plan = plan.clone();
    plan.notes.iter().for_each(|note| progress.note(note));
    let machine = sampler::machine(&plan.path);
    check_limits(&plan)?;
    let mut area = TestArea::open(&mut plan, machine.memory_bytes, progress)?;
    progress.note(&format!(
        "{} cells, {} rounds of {:?} after {:?} of load: {} besides the writing of files",
        plan.cells.len(),
        plan.rounds,
        plan.time,
        plan.warmup,
        minutes(plan.step_time() * plan.steps_total() as u32)
    ));
    let mut results = IoResults {
        schema: SCHEMA,
        kind: KIND.into(),
        command_line: command_line(),
        started_at: start.utc(),
        storage: describe_storage(&plan.path, None),
        settings: settings(&plan, area.size_bytes()),
        machine,
        ..IoResults::default()
    };
    let ended = run(&plan, &mut area, progress, &mut results)?;
    results.elapsed_s = start.elapsed_s();
    results.interrupted = ended == Ended::Interrupted;
    Ok((results, ended))
}

fn run(
    plan: &Plan,
    area: &mut TestArea,
    progress: &Progress,
    results: &mut IoResults,
) -> Result<Ended, Error> {
    let mut bar: Option<SweepBar> = None;
    let mut rig = Rig { plan, device: results.storage.device.clone(), pool: Pool::default() };
    for group in area.groups() {
        let cells: Vec<&Cell> = plan.cells.iter().filter(|cell| group.contains(&cell.files)).collect();
        let sets = match area.make(&group, progress) {
            Ok(sets) => sets,
            Err(Error::Interrupted) if !results.cells.is_empty() => return Ok(Ended::Interrupted),
            // Measurements on other files are kept.
            Err(error) if !results.cells.is_empty() => {
                cells.iter().for_each(|cell| {
                    results
                        .cell_mut(&cell.key())
                        .failures
                        .push(Failure { round: 0, reason: error.to_string() })
                });
                continue;
            }
            Err(error) => return Err(error),
        };
        results.storage = describe_storage(&plan.path, Some(sets[0].first()));
        rig.device.clone_from(&results.storage.device);
        let bar = bar.get_or_insert_with(|| {
            let bar = progress.sweep(plan.steps_total(), plan.step_time() + cell::OVERHEAD);
            bar.row(&text::heading(Style::stdout()));
            bar
        });
        for round in 0..plan.rounds {
            for cell in &cells {
                let set =
                    sets.iter().find(|set| set.files == cell.files).expect("a set for every cell's files");
                bar.running(&describe(cell, round, plan));
                if !step(&mut rig, cell, round, set, results, bar)? {
                    bar.finish();
                    return Ok(Ended::Interrupted);
                }
            }
        }
    }
    bar.iter().for_each(SweepBar::finish);
    Ok(Ended::Done)
}

/// One round of one cell; false if Ctrl-C cut it off.
fn step(
    rig: &mut Rig<'_>,
    cell: &Cell,
    round: u32,
    set: &Set,
    results: &mut IoResults,
    bar: &mut SweepBar,
) -> Result<bool, Error> {
    let measured = match rig.run(cell, round, set) {
        Ok(None) => return Ok(false),
        Ok(Some(measured)) => Ok(measured),
        Err(Error::Interrupted) => return Ok(false),
        // Threads that the system does not give may be given to the next cell, which has fewer.
        Err(error) => Err(error.to_string()),
    };
    let kept = results.cell_mut(&cell.key());
    match measured {
        Ok(round) => kept.push(round),
        Err(why) => {
            bar.note(&format!("{}: {why}", describe(cell, round, rig.plan)));
            kept.failures.push(Failure { round, reason: why });
        }
    }
    bar.advance();
    bar.cell_row(round, rig.plan.rounds, || text::line(kept));
    Ok(true)
}

fn settings(plan: &Plan, size_bytes: u64) -> IoSettings {
    IoSettings {
        size_bytes,
        rounds: plan.rounds,
        round_s: plan.time.as_secs_f64(),
        warmup_s: plan.warmup.as_secs_f64(),
        read_share_pct: plan.read_share_pct,
        batch_blocks: plan.batch_blocks,
        seed: plan.seed,
        quick: plan.quick,
    }
}

/// What the run takes of the system, asked before anything is touched.
fn check_limits(plan: &Plan) -> Result<(), Error> {
    let most = |figure: fn(&Cell) -> u64| plan.cells.iter().map(figure).max().unwrap_or(0);
    // A group's sets are open for as long as its cells run; groups are no more than all sets.
    let sets: u64 = plan.files().into_iter().map(u64::from).sum();
    limits::descriptors(sets + most(|cell| cell::needs(cell).0), "a smaller --concurrency or fewer --files")?;
    limits::threads(most(|cell| cell::needs(cell).1), SMALLER_CONCURRENCY)?;
    let memory = plan.cells.iter().map(|cell| cell::memory_bytes(cell, plan.batch_blocks)).max().unwrap_or(0);
    limits::thread_memory(most(|cell| cell.concurrency.into()), memory, SMALLER_CONCURRENCY)?;
    if plan.cells.iter().any(|cell| cell.carrier == Carrier::IoUring) {
        ring::check().map_err(|failed| Error::Limits(failed.0))?;
    }
    Ok(())
}

fn describe(cell: &Cell, round: u32, plan: &Plan) -> String {
    format!("{}, round {} of {}", text::name(&cell.key()), round + 1, plan.rounds)
}
