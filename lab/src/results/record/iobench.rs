//! The record of `flifo iobench`.

use flifo_record::{Key, Record, Scale};

use crate::results::io::{IoCell, IoKey, IoResults, IoRound};
use crate::support::format::bytes;
use crate::support::statistics::Spread;

/// The record of a run.
pub(crate) fn of_iobench(results: &IoResults) -> Record {
    let mut record = Record::begin("", results.command_line.clone(), Scale::Requests);
    record.date = Some(results.started_at.clone());
    let storage = &results.storage;
    for (name, value) in [
        ("file system", storage.filesystem.clone()),
        ("device", format!("{} {}", storage.device, storage.device_model).trim().to_owned()),
        ("size", bytes(results.settings.size_bytes)),
    ] {
        if !value.is_empty() {
            record.settings.insert(name.into(), value);
        }
    }
    for cell in &results.cells {
        let key = Key::of(workload(&cell.key)).at(cell.key.concurrency).variant(cell.key.carrier.clone());
        let mut push = |name: &str, unit: &str, figure: fn(&IoRound) -> Option<f64>| {
            let row = spread(cell, figure).map(|spread| key.clone().figure(name).spread(spread, unit));
            record.rows.extend(row);
        };
        push("", "IOPS", |round| Some(round.iops));
        push("p99", "us", IoRound::p99_us);
        push("CPU time per I/O", "us", |round| Some(round.cpu_us_per_io));
    }
    record
}

fn spread(cell: &IoCell, figure: fn(&IoRound) -> Option<f64>) -> Option<Spread> {
    Spread::of(cell.rounds.iter().filter_map(figure))
}

/// `random-read direct 16 KiB, 4 files`.
fn workload(key: &IoKey) -> String {
    let files = match key.files {
        0 => String::new(),
        1 => ", 1 file".into(),
        n => format!(", {n} files"),
    };
    let size = match key.block_bytes {
        b if b < 1024 => format!("{b} B"),
        b => bytes(b.into()),
    };
    format!("{} {} {size}{files}", key.workload, key.mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_a_row_for_each_figure() {
        let key = IoKey {
            workload: "random-read".into(),
            mode: "direct".into(),
            block_bytes: 16_384,
            files: 4,
            carrier: "threads".into(),
            concurrency: 16,
            ..IoKey::default()
        };
        let mut results = IoResults::default();
        for iops in [100.0, 300.0, 200.0] {
            results.cell_mut(&key).push(IoRound { iops, cpu_us_per_io: 5.0, ..IoRound::default() });
        }
        let record = of_iobench(&results);
        let key = Key::of("random-read direct 16 KiB, 4 files").at(16).variant("threads");
        let row = record.row(&key).unwrap();
        assert_eq!((row.median, row.low, row.high, row.n), (Some(200.0), Some(100.0), Some(300.0), Some(3)));
        assert_eq!(record.row(&key.figure("CPU time per I/O")).unwrap().median, Some(5.0));
        assert_eq!(record.rows.len(), 2, "without latencies there is no p99");
    }
}
