//! Buffer pool instances: DBT-2 with 1 and 8 of them, redo logs that are too small and large enough, both ways of
//! flushing, and writes that are held below the need; db_STRESS over all numbers of instances.
//!
//! The study's sizes fit its machine: the gigabytes of redo, and the pages a second that were needed and allowed. Here
//! the first part measures what this machine writes, and the later ones take their sizes from it: the
//! small log is what is written in [`FILL_S`], the large one is larger as in the study, and `io_capacity_max` is the
//! study's multiple of the pages that are needed.

use flifo_engine::FlushMode::{Adaptive, Sequential};

use super::scale::Scale;
use super::study::{Load, Part, Study, Work};
use crate::report::experiment::buffer_pool_instances_2012::{
    FREE, NAME, NEED, Pages, Redo, Setting, pages_needed_per_s, redo_bytes_per_s, stress,
};
use crate::results::experiment::ExperimentResults;
use crate::results::published::buffer_pool_instances_2012::BufferPoolInstances2012;

pub(super) const STUDY: Study = Study { name: NAME, parts };

/// Users, as published.
const USERS: u32 = 40;
/// The time in which the small redo log fills up, seconds, by scale.
const FILL_S: [f64; 3] = [1.5, 5.0, 20.0];
/// The redo log of the first part, MiB, by scale: it does not fill up.
const FREE_MIB: [u64; 3] = [256, 1024, 4096];
/// The smallest redo log, bytes: a little above the engine's.
const REDO_BYTES_MIN: f64 = (8 << 20) as f64;
/// The sizes without a measurement, for the announcement and after a part that failed.
const REDO_BYTES_PER_S: f64 = 10e6;
const PAGES_PER_S: f64 = 1_500.0;
/// Of the pages needed, published: 2,000 allowed or 1,000 where 1,500 are needed.
const ENOUGH: f64 = 2_000.0 / 1_500.0;
const BELOW: f64 = 1_000.0 / 1_500.0;
/// With fewer rows in `--table-size`, warehouses are small.
const SMALL_ROWS: u32 = 100_000;
/// Rows of an object of db_STRESS.
const HISTORY_ROWS: u32 = 20;
/// The least `io_capacity_max` of the engine.
const PAGES_MIN: f64 = 100.0;

fn parts(scale: Scale<'_>) -> Vec<Part> {
    let published = BufferPoolInstances2012::load();
    let both = |redo, mode, pages| [1, 8].map(|instances| Setting { instances, redo, mode, pages });
    // Sizes follow from the first two.
    let mut settings = vec![FREE, NEED];
    for pages in [Pages::Enough, Pages::Below] {
        settings.extend(both(Redo::Small, Sequential, pages));
    }
    settings.extend(both(Redo::Large, Sequential, Pages::Enough));
    settings.push(Setting { pages: Pages::Below, ..NEED });
    if !scale.is_quick() {
        settings.push(Setting { instances: 1, ..NEED });
        settings.push(Setting { instances: 1, pages: Pages::Below, ..NEED });
        settings.extend(both(Redo::Large, Adaptive, Pages::Enough));
    }
    let larger = f64::from(published.redo_gb[1]) / f64::from(published.redo_gb[0]);
    let mut parts: Vec<Part> = settings.into_iter().map(|setting| dbt2(setting, scale, larger)).collect();
    let all = published.instances.iter().copied();
    parts.extend(
        all.filter(|instances| !scale.is_quick() || [1, 8].contains(instances))
            .map(|instances| db_stress(instances, scale)),
    );
    parts
}

/// What both workloads have in common: one setting, so that every cell is a part.
fn common(scale: Scale<'_>, users: u32) -> String {
    format!(
        "--users {} --policy none --flush-log-at-trx-commit 2 --time {} --warmup {} --rounds {}",
        scale.given_threads().first().copied().unwrap_or(users),
        scale.time_s([3.0, 20.0, 300.0]),
        scale.pick(0.5, 2.0, 10.0),
        scale.rounds([2, 2, 2]),
    )
}

fn dbt2(setting: Setting, scale: Scale<'_>, larger: f64) -> Part {
    let (warehouses, pool) = scale.pick((2, "256M"), (8, "1G"), (50, "6G"));
    let population = match scale.given_rows() {
        Some(rows) if rows < SMALL_ROWS => "small",
        _ => "full",
    };
    let options = format!(
        "{} --warehouses {warehouses} --population {population} --buffer-pool {pool} --quirks --instances {} \
         --flush-mode {}",
        common(scale, USERS),
        setting.instances,
        setting.mode
    );
    let (free_mib, fill_s) = (scale.pick_of(FREE_MIB), scale.pick_of(FILL_S));
    let sized = move |earlier: &ExperimentResults| {
        let redo = redo_capacity(setting.redo, earlier, (free_mib, fill_s, larger));
        let pages = match setting.pages {
            Pages::Unbounded => String::new(),
            Pages::Enough => io_capacity(pages_max(earlier, ENOUGH)),
            Pages::Below => io_capacity(pages_max(earlier, BELOW)),
        };
        format!("--redo-capacity {redo}{pages}")
    };
    let folder = format!("dbt2-{warehouses}-{population}");
    let load = Load { command: "dbt2", folder, options, sized: Box::new(sized) };
    Part { name: setting.part(), work: Work::Load(load) }
}

/// The capacity of a redo log, bytes, from what was measured before.
fn redo_capacity(
    redo: Redo,
    earlier: &ExperimentResults,
    (free_mib, fill_s, larger): (u64, f64, f64),
) -> u64 {
    let rate = redo_bytes_per_s(earlier).unwrap_or(REDO_BYTES_PER_S);
    let small = (rate * fill_s).max(REDO_BYTES_MIN);
    match redo {
        Redo::Small => small as u64,
        Redo::Large => (small * larger) as u64,
        Redo::Free => free_mib << 20,
    }
}

/// Half of it while the database is idle, as in the engine's defaults.
fn io_capacity(max: u64) -> String {
    format!(" --io-capacity {} --io-capacity-max {max}", (max / 2).max(PAGES_MIN as u64))
}

/// A multiple of the pages per second that the small log needs, from what was measured before.
fn pages_max(earlier: &ExperimentResults, factor: f64) -> u64 {
    let need = pages_needed_per_s(earlier).unwrap_or(PAGES_PER_S);
    (need * factor).max(PAGES_MIN) as u64
}

fn db_stress(instances: u32, scale: Scale<'_>) -> Part {
    let (objects, pool) = scale.pick((20_000, "256M"), (100_000, "1G"), (1_000_000, "6G"));
    let objects = scale.given_rows().map_or(objects, |rows| (rows / HISTORY_ROWS).max(1));
    let users = scale.pick(64, 64, 256);
    let options = format!(
        "{} --objects {objects} --rw 1 --buffer-pool {pool} --redo-capacity 256M --instances {instances}",
        common(scale, users)
    );
    let sized = |_: &ExperimentResults| String::new();
    let load = Load {
        command: "db-stress",
        folder: format!("db-stress-{objects}"),
        options,
        sized: Box::new(sized),
    };
    Part { name: stress(instances), work: Work::Load(load) }
}
