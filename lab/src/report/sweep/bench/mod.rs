//! The report of a bench: policies compared with common alternatives, a panel for each load and limit.
//!
//! A ratio to the best peer is a ratio to the peer with the highest median at that number of threads, paired round by
//! round. Choosing it after the fact favours the peers a little.

pub(super) mod charts;
mod conclusion;
pub(super) mod page;
pub(crate) mod text;

pub(super) use conclusion::conclusion;

use super::analysis::{Curve, Panel, ratio, throughput};
use crate::results::{Cell, Round};
use crate::support::statistics::Spread;

/// The number of threads from which on a table of flatness has a column for each number.
const MANY_THREADS: u32 = 1_024;

/// The policies, specimens among them, in their order.
fn policies<'p, 'a>(panel: &'p Panel<'a>) -> impl Iterator<Item = &'p Curve<'a>> {
    panel.curves.iter().filter(|curve| !curve.is_peer())
}

/// The curve of the highest median at a number of threads.
fn highest<'p, 'a: 'p>(
    curves: impl Iterator<Item = &'p Curve<'a>>,
    threads: u32,
) -> Option<(&'p Curve<'a>, &'a Cell)> {
    let median = |cell: &Cell| cell.throughput().map_or(0.0, |t| t.median);
    let at = curves.filter_map(|curve| Some((curve, curve.at(threads)?)));
    at.max_by(|(_, a), (_, b)| median(a).total_cmp(&median(b)))
}

/// The peer that is best at a number of threads.
fn best_peer<'p, 'a>(panel: &'p Panel<'a>, threads: u32) -> Option<(&'p Curve<'a>, &'a Cell)> {
    highest(panel.curves.iter().filter(|curve| curve.is_peer()), threads)
}

/// A policy's throughput at a number of threads against the best peer's there.
fn against_best_peer(panel: &Panel<'_>, curve: &Curve<'_>, threads: u32) -> Option<Spread> {
    ratio(curve.at(threads)?, best_peer(panel, threads)?.1, throughput)
}

/// The longest time from requesting a slot to running, against fifo's.
fn longest_against_fifo(panel: &Panel<'_>, curve: &Curve<'_>, threads: u32) -> Option<Spread> {
    let fifo = policies(panel).find(|curve| curve.policy == "fifo")?;
    ratio(curve.at(threads)?, fifo.at(threads)?, longest_us)
}

fn longest_us(round: &Round) -> Option<f64> {
    round.entry.enter_max_us
}

fn fewest_share(round: &Round) -> Option<f64> {
    round.fairness.connection_fewest_share
}

/// The numbers of threads for which flatness is reported: the large ones, or the last.
fn flat_threads(panel: &Panel<'_>) -> Vec<u32> {
    let large: Vec<u32> = panel.threads.iter().copied().filter(|threads| *threads >= MANY_THREADS).collect();
    if large.is_empty() { panel.threads.last().copied().into_iter().collect() } else { large }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::{analysis, fixture};

    #[test]
    fn a_panel_for_each_load_and_limit_and_no_limit_in_all() {
        let results = fixture::bench();
        let panels = analysis::panels(&results);
        let headings: Vec<String> = panels.iter().map(Panel::heading).collect();
        assert_eq!(
            headings,
            ["work-20, limit 4", "work-20, limit 8", "hot-row, limit 4", "hot-row, limit 8"]
        );
        for panel in &panels {
            let labels: Vec<&str> = panel.curves.iter().map(|curve| curve.label.as_str()).collect();
            assert_eq!(labels, ["fifo", "flifo", "tokio", "mutex-condvar", "no limit"]);
        }
    }

    #[test]
    fn the_best_peer_is_the_best_at_that_number_of_threads() {
        let results = fixture::bench();
        let panels = analysis::panels(&results);
        let panel = &panels[0];
        let name = |threads| best_peer(panel, threads).unwrap().0.label.as_str();
        // Without a limit the made-up machine is fastest with few threads, and collapses.
        assert_eq!((name(16), name(4096)), ("no limit", "tokio"));
        let flifo = &panel.curves[1];
        let by_hand = |round: usize| {
            flifo.at(4096).unwrap().rounds[round].throughput_per_s
                / panel.curves[2].at(4096).unwrap().rounds[round].throughput_per_s
        };
        let gain = against_best_peer(panel, flifo, 4096).unwrap();
        assert_eq!(gain.count, 3);
        assert!(gain.min <= by_hand(1) && by_hand(1) <= gain.max);
    }

    #[test]
    fn flatness_and_longest_waits() {
        let results = fixture::bench();
        let panels = analysis::panels(&results);
        let (panel, fifo) = (&panels[0], &panels[0].curves[0]);
        assert_eq!(flat_threads(panel), [1024, 4096]);
        assert_eq!(fifo.flatness_at(fifo.peak().key.threads).unwrap().median, 1.0);
        assert!(fifo.flatness_at(4096).unwrap().median < 0.9);
        assert_eq!(longest_against_fifo(panel, fifo, 4096).unwrap().median, 1.0);
        assert_eq!(longest_against_fifo(panel, &panel.curves[1], 4096).unwrap().median, 2.0);
    }
}
