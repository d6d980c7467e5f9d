//! Curves and ratios from cells, for page, advice and comparison.

use crate::results::io::{IoCell, IoKey, IoResults, IoRound};
use crate::support::statistics::{Spread, paired_ratio};

/// Cells of one workload, carried the same way: they share a chart.
pub(crate) struct Panel<'a> {
    pub(crate) workload: &'a str,
    pub(crate) carrier: &'a str,
    /// Ascending, of all curves.
    pub(crate) concurrency: Vec<u32>,
    pub(crate) curves: Vec<Curve<'a>>,
}

/// Cells that differ in concurrency alone.
pub(crate) struct Curve<'a> {
    /// Ascending by concurrency; never empty.
    pub(crate) cells: Vec<&'a IoCell>,
}

/// The panels in the order in which they were measured; cells without a round are in none.
pub(crate) fn panels(results: &IoResults) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for cell in results.cells.iter().filter(|cell| !cell.rounds.is_empty()) {
        let (workload, carrier) = (cell.key.workload.as_str(), cell.key.carrier.as_str());
        let index = panels.iter().position(|panel| (panel.workload, panel.carrier) == (workload, carrier));
        let index = index.unwrap_or_else(|| {
            panels.push(Panel { workload, carrier, concurrency: Vec::new(), curves: Vec::new() });
            panels.len() - 1
        });
        panels[index].add(cell);
    }
    for panel in &mut panels {
        panel.sort();
    }
    panels
}

impl<'a> Panel<'a> {
    fn add(&mut self, cell: &'a IoCell) {
        match self.curves.iter_mut().find(|curve| same_but_for_concurrency(curve.key(), &cell.key)) {
            Some(curve) => curve.cells.push(cell),
            None => self.curves.push(Curve { cells: vec![cell] }),
        }
    }

    fn sort(&mut self) {
        for curve in &mut self.curves {
            curve.cells.sort_by_key(|cell| cell.key.concurrency);
        }
        self.curves.sort_by(|a, b| order(a.key()).cmp(&order(b.key())));
        let of_curves =
            |curve: &Curve<'_>| -> Vec<u32> { curve.cells.iter().map(|cell| cell.key.concurrency).collect() };
        self.concurrency = self.curves.iter().flat_map(of_curves).collect();
        self.concurrency.sort_unstable();
        self.concurrency.dedup();
    }

    /// `random-read, by processes`.
    pub(crate) fn heading(&self) -> String {
        match self.carrier {
            "" => self.workload.into(),
            carrier => format!("{}, by {carrier}", self.workload),
        }
    }

    /// What the x axis counts.
    pub(crate) fn counted(&self) -> &'a str {
        if self.carrier == "io-uring" { "I/Os in flight" } else { self.carrier }
    }

    /// Different values of a key's part, ascending.
    pub(crate) fn distinct<T: Ord>(&self, part: impl Fn(&'a IoKey) -> T) -> Vec<T> {
        let mut values: Vec<T> = self.curves.iter().map(|curve| part(curve.key())).collect();
        values.sort();
        values.dedup();
        values
    }
}

fn same_but_for_concurrency(a: &IoKey, b: &IoKey) -> bool {
    order(a) == order(b) && (&a.workload, &a.carrier) == (&b.workload, &b.carrier)
}

/// The raw device first, then by block, mode and number of files.
fn order(key: &IoKey) -> (bool, u32, &str, u32) {
    (!is_raw(key), key.block_bytes, &key.mode, key.files)
}

/// No file system in between.
pub(crate) fn is_raw(key: &IoKey) -> bool {
    key.access == "device"
}

impl<'a> Curve<'a> {
    pub(crate) fn key(&self) -> &'a IoKey {
        &self.cells[0].key
    }

    pub(crate) fn at(&self, concurrency: u32) -> Option<&'a IoCell> {
        self.cells.iter().find(|cell| cell.key.concurrency == concurrency).copied()
    }

    /// The cell with the highest median.
    pub(crate) fn peak(&self) -> &'a IoCell {
        best(self.cells.iter().copied()).unwrap_or(self.cells[0])
    }

    /// `8 files, direct, 16K`.
    pub(crate) fn label(&self) -> String {
        name(self.key())
    }
}

/// What a key is besides its workload and its concurrency.
pub(crate) fn name(key: &IoKey) -> String {
    let what = match (is_raw(key), key.files) {
        (true, _) => "raw device".to_owned(),
        (false, files) => count_of_files(files),
    };
    format!("{what}, {}, {}", key.mode, size(key.block_bytes))
}

/// `1 file`, `8 files`.
pub(crate) fn count_of_files(files: u32) -> String {
    if files == 1 { "1 file".into() } else { format!("{files} files") }
}

/// `4K`; bytes where there is a rest.
pub(crate) fn size(bytes: u32) -> String {
    if bytes > 0 && bytes.is_multiple_of(1024) { format!("{}K", bytes / 1024) } else { bytes.to_string() }
}

/// `with 16 processes`, `with 64 I/Os in flight`.
pub(crate) fn with_carriers(key: &IoKey) -> String {
    let (one, many) = match key.carrier.as_str() {
        "io-uring" => ("I/O in flight", "I/Os in flight"),
        "threads" => ("thread", "threads"),
        _ => ("process", "processes"),
    };
    format!("with {} {}", key.concurrency, if key.concurrency == 1 { one } else { many })
}

/// The cell with the highest median of I/Os per second.
pub(crate) fn best<'a>(cells: impl Iterator<Item = &'a IoCell>) -> Option<&'a IoCell> {
    cells.filter(|cell| iops(cell).is_some()).max_by(|a, b| {
        let median = |cell| iops(cell).map_or(0.0, |spread| spread.median);
        median(a).total_cmp(&median(b))
    })
}

/// The spread of a figure over a cell's rounds.
pub(crate) fn spread(cell: &IoCell, figure: impl Fn(&IoRound) -> Option<f64>) -> Option<Spread> {
    Spread::of(cell.rounds.iter().filter_map(figure))
}

/// I/Os per second, as the application saw them.
pub(crate) fn iops(cell: &IoCell) -> Option<Spread> {
    spread(cell, |round| Some(round.iops))
}

/// How many times `b`'s I/Os per second `a` does, round by round.
pub(crate) fn ratio(a: &IoCell, b: &IoCell) -> Option<Spread> {
    let values = |cell: &IoCell| -> Vec<(u32, f64)> {
        cell.rounds.iter().map(|round| (round.round, round.iops)).collect()
    };
    paired_ratio(&values(a), &values(b))
}

/// Requests that reached the disk, flushes too, for each I/O of the application.
pub(crate) fn requests_per_io(round: &IoRound) -> Option<f64> {
    let layer = round.block_layer.as_ref()?;
    let ios = round.reads + round.writes;
    (ios > 0).then(|| (layer.reads + layer.writes + layer.flushes) as f64 / ios as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::iobench::fixture;

    #[test]
    fn curves_ascend_and_the_device_comes_first() {
        let results = fixture::study("ext4");
        let panels = panels(&results);
        let names: Vec<&str> = panels.iter().map(|panel| panel.workload).collect();
        assert_eq!(names, ["random-read", "random-write", "random-mixed"]);
        let read = &panels[0];
        assert_eq!(read.curves[0].label(), "raw device, direct, 4K");
        assert_eq!(read.concurrency, [1, 4, 16, 64, 128, 256]);
        for curve in &read.curves {
            assert!(curve.cells.is_sorted_by_key(|cell| cell.key.concurrency));
        }
        assert_eq!(read.distinct(|key| key.block_bytes), [4096, 16_384]);
        assert_eq!((read.heading().as_str(), read.counted()), ("random-read, by processes", "processes"));
    }

    #[test]
    fn a_cell_without_rounds_is_not_drawn() {
        let mut results = fixture::study("ext4");
        for cell in &mut results.cells {
            if cell.key.workload != "random-read" || cell.key.concurrency > 1 {
                cell.rounds.clear();
            }
        }
        let panels = panels(&results);
        assert_eq!((panels.len(), panels[0].concurrency.as_slice()), (1, &[1][..]));
    }

    #[test]
    fn words() {
        let key =
            |carrier: &str, concurrency| IoKey { carrier: carrier.into(), concurrency, ..IoKey::default() };
        assert_eq!(with_carriers(&key("processes", 1)), "with 1 process");
        assert_eq!(with_carriers(&key("threads", 1)), "with 1 thread");
        assert_eq!(with_carriers(&key("processes", 16)), "with 16 processes");
        assert_eq!(with_carriers(&key("io-uring", 64)), "with 64 I/Os in flight");
        assert_eq!((size(16_384), size(512), size(0)), ("16K".into(), "512".into(), "0".into()));
    }
}
