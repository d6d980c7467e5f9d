//! The results as a record of the repository: each store's rate, and flifo's relative to it.

use flifo_record::statistics::paired_ratios;
use flifo_record::{Key, Record, Scale};

use crate::report::ENGINE;
use crate::results::{Cell, Results};
use crate::store::Durability;

/// The record's name: a durability is a bench of its own.
pub(crate) fn name(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "peers-none",
        Durability::Written => "peers",
        Durability::Synced => "peers-synced",
    }
}

/// The record of a run.
pub(crate) fn of(results: &Results) -> Record {
    let mut record = Record::begin("", results.command_line.clone(), Scale::Threads);
    record.date = Some(results.started_at.clone());
    record.settings.insert("rows".into(), format!("{} rows", results.settings.rows));
    for peer in &results.peers {
        record.notes.push(format!("{} {}", peer.name, peer.version));
    }
    let key = |cell: &Cell, variant: &str| Key::of(cell.workload.clone()).at(cell.threads).variant(variant);
    for cell in &results.cells {
        record.rows.extend(cell.per_s().map(|spread| key(cell, cell.peer).spread(spread, "operations/s")));
        let p99 = cell.spread(|round| round.p99_us);
        record.rows.extend(p99.map(|spread| key(cell, cell.peer).figure("p99").spread(spread, "us")));
    }
    let per_s = |cell: &Cell| cell.rounds_of(|round| Some(round.operations_per_s));
    for cell in results.cells.iter().filter(|cell| cell.peer != ENGINE) {
        let Some(engine) = results.cell(&cell.workload, cell.threads, ENGINE) else { continue };
        let (engine, peer) = (per_s(engine), per_s(cell));
        record.rows.extend(key(cell, ENGINE).relative_to(cell.peer).paired(paired_ratios(&engine, &peer)));
    }
    record
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use flifo::results::Machine;
    use flifo_record::Bounds;

    use super::*;
    use crate::args::Args;
    use crate::plan::{Plan, Step};
    use crate::results::Round;
    use crate::workload::Workload;

    #[test]
    fn a_store_has_its_rate_and_flifo_s_ratio_to_it() {
        let line = ["flifo-peers", "--peers", "flifo,lmdb", "--workloads", "update", "--threads", "16"];
        let plan = Plan::new(&Args::try_parse_from(line).unwrap(), 2).unwrap();
        let mut results = crate::run::results(&plan, Machine::default());
        for (peer, per_s) in [(0, 30.0), (1, 10.0)] {
            for round in 0..6 {
                let step = Step { workload: Workload::Update, threads: 16, peer, round };
                let operations_per_s = per_s / f64::from(round + 1);
                let round = Round { round, operations_per_s, ..Round::default() };
                results.cell_mut(&plan, &step).rounds.push(round);
            }
        }
        let record = of(&results);
        let key = || Key::of("update").at(16);
        let ratio = record.row(&key().variant("flifo").relative_to("lmdb")).unwrap();
        assert_eq!((ratio.median, ratio.bounds, ratio.n), (Some(3.0), Bounds::Interval95, Some(6)));
        assert_eq!(record.row(&key().variant("lmdb")).unwrap().high, Some(10.0));
    }
}
