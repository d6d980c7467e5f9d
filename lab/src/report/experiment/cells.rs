//! Cells out of a run, and figures of them round by round.

use crate::results::{Cell, Results, Round};
use crate::support::statistics::{Spread, paired_ratio};

/// What selects cells of a run: all but the number of threads. Limit 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Which<'a> {
    pub(super) workload: &'a str,
    pub(super) specimen: &'a str,
    pub(super) limit: u32,
}

/// The measured cells that fit, ascending by threads.
pub(super) fn cells<'r>(run: &'r Results, which: Which<'_>) -> Vec<&'r Cell> {
    let fits = |cell: &&Cell| {
        let key = &cell.key;
        !cell.rounds.is_empty()
            && (key.workload.as_str(), key.specimen.as_str(), key.concurrency)
                == (which.workload, which.specimen, which.limit)
    };
    let mut cells: Vec<&Cell> = run.cells.iter().filter(fits).collect();
    cells.sort_by_key(|cell| cell.key.threads);
    cells
}

/// The cell with a number of threads.
pub(super) fn at<'r>(run: &'r Results, which: Which<'_>, threads: u32) -> Option<&'r Cell> {
    cells(run, which).into_iter().find(|cell| cell.key.threads == threads)
}

/// Every measured value of a key, ascending and once.
pub(super) fn values<T: Ord>(run: &Results, value: impl Fn(&Cell) -> T) -> Vec<T> {
    let measured = run.cells.iter().filter(|cell| !cell.rounds.is_empty());
    let mut values: Vec<T> = measured.map(value).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The measured number of threads that is nearest to `threads`.
pub(super) fn nearest(run: &Results, threads: u32) -> Option<u32> {
    values(run, |cell| cell.key.threads).into_iter().min_by_key(|measured| measured.abs_diff(threads))
}

/// The highest measured number of threads.
pub(super) fn most(run: &Results) -> Option<u32> {
    values(run, |cell| cell.key.threads).pop()
}

/// A figure of each round, with its number.
pub(super) fn by_round(cell: &Cell, figure: impl Fn(&Round) -> Option<f64>) -> Vec<(u32, f64)> {
    cell.rounds.iter().filter_map(|round| Some((round.round, figure(round)?))).collect()
}

/// A figure of `a` against `b`, round by round.
pub(super) fn ratio(a: &Cell, b: &Cell, figure: fn(&Round) -> Option<f64>) -> Option<Spread> {
    paired_ratio(&by_round(a, figure), &by_round(b, figure))
}

/// Median throughput, 0 without rounds.
pub(super) fn median(cell: &Cell) -> f64 {
    cell.throughput().map_or(0.0, |throughput| throughput.median)
}

/// The cell with the highest median throughput.
pub(super) fn highest<'r>(cells: impl IntoIterator<Item = &'r Cell>) -> Option<&'r Cell> {
    cells.into_iter().max_by(|a, b| median(a).total_cmp(&median(b)))
}

/// Statements per second of a round.
pub(super) fn throughput(round: &Round) -> Option<f64> {
    Some(round.throughput_per_s)
}

/// Points of a line: throughput by threads.
pub(super) fn points(cells: &[&Cell]) -> Vec<(u32, Spread)> {
    cells.iter().filter_map(|cell| Some((cell.key.threads, cell.throughput()?))).collect()
}
