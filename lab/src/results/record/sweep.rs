//! Records of `flifo sweep` and `flifo bench admission`.

use flifo_record::statistics::paired_ratios;
use flifo_record::{Key, Record, Row, Scale, Wanted};

use crate::results::{Cell, CellKey, Results, Round};

/// Ratios are of these policies, where they were measured.
const BASES: [&str; 2] = ["fifo", "none"];
/// Ratios of a policy to itself are of this number of connections.
const FEW: u32 = 16;

const SWITCHES: &str = "context switches per statement";
const LOWEST_SECOND: &str = "lowest second / mean";
const HARD_STOPS: &str = "hard stops on redo space";

type Figure = fn(&Round) -> Option<f64>;

/// The figures of a cell besides its throughput: name, unit, value.
const FIGURES: [(&str, &str, Figure); 9] = [
    ("p99", "ms", |round| round.p99_ms),
    ("longest wait", "ms", |round| round.entry.enter_max_us.map(|us| us / 1e3)),
    ("fewest statements of a thread, of the mean", "", |round| round.fairness.connection_fewest_share),
    (SWITCHES, "", |round| round.context_switches_per_statement),
    (LOWEST_SECOND, "", |round| round.lowest_second_share),
    (HARD_STOPS, "", |round| round.changes.redo_hard_stops.map(|stops| stops as f64)),
    ("new orders", "per minute", |round| round.new_orders_per_minute),
    ("redo per commit", "KiB", |round| {
        per_commit(round, round.changes.redo_bytes_per_s).map(|bytes| bytes / 1024.0)
    }),
    ("pages written per commit", "", |round| per_commit(round, round.disk.disk_writes_per_s)),
];

/// A rate, divided by the rate of the engine's commits.
fn per_commit(round: &Round, per_s: Option<f64>) -> Option<f64> {
    let commits_per_s = round.changes.commits_per_s.filter(|commits| *commits > 0.0)?;
    Some(per_s? / commits_per_s)
}

/// The record of a run.
pub(crate) fn of_results(results: &Results) -> Record {
    let is_bench = results.is_bench();
    let scale = if is_bench { Scale::Threads } else { Scale::Connections };
    let mut record = Record::begin("", results.command_line.clone(), scale);
    record.date = Some(results.started_at.clone());
    let settings = &results.settings;
    for (name, value) in [
        ("server", settings.server_version.clone()),
        ("rows", if settings.rows > 0 { format!("{} rows", settings.rows) } else { String::new() }),
        (
            "work",
            match settings.statement_work_us {
                0 => String::new(),
                us => format!("{us} us of statement work"),
            },
        ),
        ("limit", limit(&results.cells)),
    ] {
        if !value.is_empty() {
            record.settings.insert(name.into(), value);
        }
    }
    let names = Names::of(&results.cells);
    for cell in &results.cells {
        throughput(&names, cell, &mut record.rows);
    }
    for cell in &results.cells {
        ratios(&names, cell, &results.cells, &mut record.rows);
    }
    if !is_bench && results.settings.server_address.is_empty() {
        targets(&mut record);
    }
    record
}

/// The figures that the engine is to reach with 1,024 connections, as far as they were measured.
fn targets(record: &mut Record) {
    let flifo = |workload: &str| Key::of(workload).at(1024).variant("flifo");
    let select = || flifo("point-select");
    record.want(select().relative_to("fifo"), Wanted::AtLeast(1.3));
    record.want(select().relative_to("none"), Wanted::AtLeast(0.98));
    record.want(select().relative_to("flifo at 16"), Wanted::AtLeast(0.95));
    record.want(select().figure(SWITCHES).relative_to("fifo"), Wanted::AtMost(0.7));
    let transaction = || flifo("read-write");
    record.want(transaction().relative_to("flifo at 16"), Wanted::AtLeast(0.95));
    record.want(transaction().figure(LOWEST_SECOND), Wanted::AtLeast(0.8));
    record.want(transaction().figure(HARD_STOPS), Wanted::AtMost(0.0));
}

/// `limit 4`, if all cells with a limit have the same one.
fn limit(cells: &[Cell]) -> String {
    let mut limits = cells.iter().map(|cell| cell.key.concurrency).filter(|limit| *limit > 0);
    match limits.next() {
        Some(first) if limits.all(|limit| limit == first) => format!("limit {first}"),
        _ => String::new(),
    }
}

/// How variants are named: by their policy, and by whatever else differs in the run.
struct Names {
    has_limits: bool,
    has_reads: bool,
}

impl Names {
    fn of(cells: &[Cell]) -> Names {
        let limited = || cells.iter().map(|cell| &cell.key).filter(|key| key.concurrency > 0);
        let differs = |figure: fn(&CellKey) -> u32| {
            limited().any(|key| limited().next().is_some_and(|first| figure(first) != figure(key)))
        };
        Names {
            has_limits: differs(|key| key.concurrency),
            has_reads: differs(|key| key.leave_on_read.into()),
        }
    }

    fn variant(&self, key: &CellKey) -> String {
        let mut name = key.policy.clone();
        if self.has_limits && key.concurrency > 0 {
            name += &format!(", limit {}", key.concurrency);
        }
        if self.has_reads && !key.leave_on_read && key.concurrency > 0 {
            name += ", slot kept in disk reads";
        }
        name
    }

    fn key(&self, key: &CellKey) -> Key {
        Key::of(key.load_in_words()).at(key.threads).variant(self.variant(key))
    }
}

fn throughput(names: &Names, cell: &Cell, rows: &mut Vec<Row>) {
    let key = names.key(&cell.key);
    rows.extend(cell.throughput().map(|spread| key.clone().spread(spread, "statements/s")));
    for (name, unit, figure) in FIGURES {
        rows.extend(cell.spread(figure).map(|spread| key.clone().figure(name).spread(spread, unit)));
    }
}

/// A figure of each round, with its number.
fn by_round(cell: &Cell, figure: Figure) -> Vec<(u32, f64)> {
    cell.rounds.iter().filter_map(|round| Some((round.round, figure(round)?))).collect()
}

fn ratios(names: &Names, cell: &Cell, cells: &[Cell], rows: &mut Vec<Row>) {
    let key = names.key(&cell.key);
    let mut ratio = |base: &Cell, base_name: String, name: &str, figure: Figure| {
        let (own, other) = (by_round(cell, figure), by_round(base, figure));
        rows.extend(key.clone().figure(name).relative_to(base_name).paired(paired_ratios(&own, &other)));
    };
    let is_same_load = |other: &&Cell| other.key.load_in_words() == cell.key.load_in_words();
    for base in cells.iter().filter(is_same_load) {
        let is_here = base.key.threads == cell.key.threads;
        let is_same_limit = base.key.concurrency == cell.key.concurrency || base.key.concurrency == 0;
        let is_same_reads = base.key.leave_on_read == cell.key.leave_on_read || base.key.concurrency == 0;
        let base_name = names.variant(&base.key);
        let policies = (base.key.policy.as_str(), cell.key.policy.as_str());
        if is_here
            && policies.0 != policies.1
            && BASES.contains(&policies.0)
            && is_same_limit
            && is_same_reads
        {
            ratio(base, base_name.clone(), "", |round| Some(round.throughput_per_s));
            ratio(base, base_name, SWITCHES, |round| round.context_switches_per_statement);
        } else if is_here
            && policies.0 == policies.1
            && is_same_limit
            && cell.key.leave_on_read
            && !base.key.leave_on_read
        {
            ratio(base, base_name, "", |round| Some(round.throughput_per_s));
        } else if base.key.threads == FEW && cell.key.threads > FEW && names.variant(&cell.key) == base_name {
            ratio(base, format!("{base_name} at {FEW}"), "", |round| Some(round.throughput_per_s));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Machine, Settings};

    fn results(cells: &[(&str, u32, bool, u32, f64)]) -> Results {
        let mut results = Results::new(
            Machine::default(),
            Settings::default(),
            "flifo sweep".into(),
            "2026-01-31T12:00:00Z".into(),
        );
        for &(policy, concurrency, leave_on_read, threads, per_s) in cells {
            let key = CellKey {
                target: "engine".into(),
                workload: "point-select".into(),
                policy: policy.into(),
                concurrency,
                threads,
                leave_on_read,
                ..CellKey::default()
            };
            let cell = results.cell_mut(&key);
            for round in 0..6 {
                // The machine slows down, and the ratios stay.
                let throughput_per_s = per_s / f64::from(round + 1);
                cell.push(Round { round, throughput_per_s, ..Round::default() });
            }
        }
        results
    }

    #[test]
    fn policies_are_compared_with_fifo_none_and_few_connections() {
        let run = results(&[
            ("none", 0, true, 16, 100.0),
            ("fifo", 4, true, 1024, 50.0),
            ("flifo", 4, true, 16, 120.0),
            ("flifo", 4, true, 1024, 60.0),
            ("none", 0, true, 1024, 80.0),
        ]);
        let record = of_results(&run);
        let key = || Key::of("point-select").at(1024).variant("flifo");
        for (base, expected) in [("fifo", 1.2), ("none", 0.75), ("flifo at 16", 0.5)] {
            let row = record.row(&key().relative_to(base)).unwrap_or_else(|| panic!("{base}: {record:?}"));
            assert!((row.median.unwrap() - expected).abs() < 1e-9, "{row:?}");
            assert_eq!((row.n, row.bounds), (Some(6), flifo_record::Bounds::Interval95));
        }
        let target = record.target(&key().relative_to("fifo")).unwrap();
        assert!(!target.is_met(record.row(&target.key).unwrap()));
        assert_eq!(record.targets.len(), 3, "a target needs a row");
        let throughput = record.row(&key()).unwrap();
        assert_eq!((throughput.high, throughput.unit.as_str()), (Some(60.0), "statements/s"));
        assert_eq!((record.scale, record.settings["limit"].as_str()), (Scale::Connections, "limit 4"));
    }

    #[test]
    fn variants_have_the_names_that_tell_them_apart() {
        let run = results(&[
            ("fifo", 4, false, 256, 10.0),
            ("fifo", 4, true, 256, 12.0),
            ("fifo", 8, true, 256, 9.0),
        ]);
        let record = of_results(&run);
        let key = Key::of("point-select").at(256).variant("fifo, limit 4");
        let row = record.row(&key.relative_to("fifo, limit 4, slot kept in disk reads")).unwrap();
        assert!((row.median.unwrap() - 1.2).abs() < 1e-9);
        assert!(!record.settings.contains_key("limit"));
    }
}
