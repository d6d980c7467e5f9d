//! Orders the cells of a run into panels and curves, and compares curves. What every way of showing shares.

use crate::results::{Cell, Results, Round};
use crate::statistics::{Spread, paired_ratio};

/// Below this many connections client and server share a processor in ways that make figures bimodal: a
/// peak is sought from here on, if the run has such points.
const PEAK_THREADS_MIN: u32 = 8;

/// All curves of one target, workload and front.
#[derive(Debug)]
pub struct Panel<'a> {
    pub target: &'a str,
    pub workload: &'a str,
    pub front: &'a str,
    /// Every number of connections that was measured, ascending.
    pub threads: Vec<u32>,
    /// In the order in which the run first met them.
    pub curves: Vec<Curve<'a>>,
}

/// One setting over the numbers of connections.
#[derive(Debug)]
pub struct Curve<'a> {
    pub policy: &'a str,
    pub concurrency: u32,
    pub tickets: u32,
    pub leave_on_read: bool,
    /// The policy, and the limit, tickets and waits where the panel has several.
    pub label: String,
    /// Among the curves of the same policy, counted from 0: tells them apart by dash.
    pub variant: usize,
    /// Ascending by connections; none is without rounds.
    pub cells: Vec<&'a Cell>,
}

/// Groups the measured cells; cells without rounds are left out.
pub fn panels(results: &Results) -> Vec<Panel<'_>> {
    let mut panels: Vec<Panel<'_>> = Vec::new();
    for cell in results.cells.iter().filter(|cell| !cell.rounds.is_empty()) {
        let key = &cell.key;
        let found = panels
            .iter()
            .position(|p| (p.target, p.workload, p.front) == (&key.target, &key.workload, &key.front));
        let index = found.unwrap_or_else(|| {
            panels.push(Panel {
                target: &key.target,
                workload: &key.workload,
                front: &key.front,
                threads: Vec::new(),
                curves: Vec::new(),
            });
            panels.len() - 1
        });
        panels[index].add(cell);
    }
    for panel in &mut panels {
        panel.finish();
    }
    panels
}

impl<'a> Panel<'a> {
    fn add(&mut self, cell: &'a Cell) {
        let key = &cell.key;
        if !self.threads.contains(&key.threads) {
            self.threads.push(key.threads);
        }
        let setting = (key.policy.as_str(), key.concurrency, key.tickets, key.leave_on_read);
        let of = |c: &Curve<'a>| (c.policy, c.concurrency, c.tickets, c.leave_on_read);
        match self.curves.iter_mut().find(|curve| of(curve) == setting) {
            Some(curve) => curve.cells.push(cell),
            None => self.curves.push(Curve {
                policy: &key.policy,
                concurrency: key.concurrency,
                tickets: key.tickets,
                leave_on_read: key.leave_on_read,
                label: String::new(),
                variant: 0,
                cells: vec![cell],
            }),
        }
    }

    fn finish(&mut self) {
        self.threads.sort_unstable();
        let differ = |figure: fn(&Curve<'a>) -> u32| {
            let mut limited = self.curves.iter().filter(|curve| curve.policy != "none").map(figure);
            let first = limited.next();
            limited.any(|value| Some(value) != first)
        };
        let (limits_differ, tickets_differ) = (differ(|c| c.concurrency), differ(|c| c.tickets));
        let waits_differ = differ(|c| u32::from(c.leave_on_read));
        let mut seen: Vec<&str> = Vec::new();
        for curve in &mut self.curves {
            curve.cells.sort_by_key(|cell| cell.key.threads);
            curve.variant = seen.iter().filter(|policy| **policy == curve.policy).count();
            seen.push(curve.policy);
            curve.label = curve.policy.to_owned();
            if curve.policy != "none" && limits_differ {
                curve.label += &format!(" {}", curve.concurrency);
            }
            if curve.policy != "none" && tickets_differ {
                curve.label += &format!(" ({} tickets)", curve.tickets);
            }
            if curve.policy != "none" && waits_differ && !curve.leave_on_read {
                curve.label += " (place kept in reads)";
            }
        }
    }

    /// `point-select, socket: limit 4, 5000 tickets`.
    pub fn heading(&self) -> String {
        let mut limited = self.curves.iter().filter(|curve| curve.policy != "none");
        let setting = match limited.next() {
            None => "no limit".to_owned(),
            Some(first)
                if limited.all(|c| (c.concurrency, c.tickets) == (first.concurrency, first.tickets)) =>
            {
                format!("limit {}, {} tickets", first.concurrency, first.tickets)
            }
            Some(_) => "several limits".to_owned(),
        };
        format!("{}, {}: {setting}", self.workload, self.front)
    }

    /// What a latency is of: `point-select` times each statement, the others a whole transaction.
    pub fn timed(&self) -> &'static str {
        if self.workload == "point-select" { "statement" } else { "transaction" }
    }

    /// The curve of `policy` that compares best with `curve`: same limit and tickets, else same limit, else
    /// any. `none` knows no limit. Never `curve` itself.
    pub fn reference(&self, curve: &Curve<'_>, policy: &str) -> Option<&Curve<'a>> {
        let candidates = self.curves.iter().filter(|other| other.policy == policy && curve.policy != policy);
        candidates.min_by_key(|other| {
            (
                other.concurrency != curve.concurrency,
                other.tickets != curve.tickets,
                other.leave_on_read != curve.leave_on_read,
                other.variant,
            )
        })
    }

    /// The curve of `policy` that stands for it in a headline: the highest at its last point.
    pub fn best(&self, policy: &str) -> Option<&Curve<'a>> {
        let curves = self.curves.iter().filter(|curve| curve.policy == policy);
        curves.max_by(|a, b| a.last_throughput().total_cmp(&b.last_throughput()))
    }

    /// The highest number of connections that both curves have.
    pub fn last_common(&self, a: &Curve<'_>, b: &Curve<'_>) -> Option<u32> {
        self.threads.iter().rev().copied().find(|&threads| a.at(threads).is_some() && b.at(threads).is_some())
    }
}

impl<'a> Curve<'a> {
    /// The cell at a number of connections.
    pub fn at(&self, threads: u32) -> Option<&'a Cell> {
        self.cells.iter().copied().find(|cell| cell.key.threads == threads)
    }

    /// The cell with most connections.
    pub fn last(&self) -> &'a Cell {
        self.cells.last().expect("a curve has a cell")
    }

    fn last_throughput(&self) -> f64 {
        self.last().throughput().map_or(0.0, |t| t.median)
    }

    /// The cell with the highest median throughput, from 8 connections on if there are such.
    pub fn peak(&self) -> &'a Cell {
        let steady: Vec<&Cell> =
            self.cells.iter().copied().filter(|cell| cell.key.threads >= PEAK_THREADS_MIN).collect();
        let among = if steady.is_empty() { &self.cells } else { &steady };
        let median = |cell: &Cell| cell.throughput().map_or(0.0, |t| t.median);
        among.iter().copied().max_by(|a, b| median(a).total_cmp(&median(b))).expect("a curve has a cell")
    }

    /// Throughput at the last point against the peak, round by round; 1 if the last point is the peak.
    pub fn flatness(&self) -> Option<Spread> {
        ratio(self.last(), self.peak(), throughput)
    }
}

/// Statements per second.
pub fn throughput(round: &Round) -> Option<f64> {
    Some(round.throughput_per_s)
}

/// Context switches per statement.
pub fn switches_per_statement(round: &Round) -> Option<f64> {
    round.context_switches_per_statement
}

/// Context switches per second.
pub fn switches_per_s(round: &Round) -> Option<f64> {
    round.host.context_switches_per_s
}

/// A figure of `a` against `b`, round by round.
pub fn ratio(a: &Cell, b: &Cell, figure: fn(&Round) -> Option<f64>) -> Option<Spread> {
    let values = |cell: &Cell| -> Vec<(u32, f64)> {
        cell.rounds.iter().filter_map(|round| Some((round.round, figure(round)?))).collect()
    };
    paired_ratio(&values(a), &values(b))
}

/// 1 + W/S of each round: the most that not waiting for a wake-up can gain.
pub fn bound(cell: &Cell) -> Option<Spread> {
    cell.spread(|round| {
        let (w, s) = (round.admission.woken_to_running_p50_us?, round.admission.inside_p50_us?);
        (s > 0.0).then(|| 1.0 + w / s)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn cells_fall_into_panels_and_curves() {
        let results = fixture::results();
        let panels = panels(&results);
        assert_eq!(panels.len(), 2);
        assert_eq!(panels[0].heading(), "point-select, socket: limit 4, 5000 tickets");
        assert_eq!(panels[0].threads.len(), 11);
        let labels: Vec<&str> = panels[0].curves.iter().map(|curve| curve.label.as_str()).collect();
        assert_eq!(labels, ["none", "fifo", "flifo"]);
    }

    #[test]
    fn several_limits_show_in_the_labels_and_are_compared_like_with_like() {
        let mut results = fixture::results();
        results.cells.retain(|cell| cell.key.workload == "point-select");
        let mut wider = results.cells.clone();
        wider.retain(|cell| cell.key.policy != "none");
        for cell in &mut wider {
            cell.key.concurrency = 8;
        }
        results.cells.extend(wider);
        let panels = panels(&results);
        let labels: Vec<&str> = panels[0].curves.iter().map(|curve| curve.label.as_str()).collect();
        assert_eq!(labels, ["none", "fifo 4", "flifo 4", "fifo 8", "flifo 8"]);
        let wide = &panels[0].curves[4];
        assert_eq!((wide.variant, panels[0].reference(wide, "fifo").unwrap().concurrency), (1, 8));
        assert_eq!(panels[0].reference(wide, "none").unwrap().label, "none");
        assert!(panels[0].reference(wide, "flifo").is_none());
    }

    #[test]
    fn leaving_and_staying_in_reads_are_curves_of_their_own() {
        let mut results = fixture::results();
        results.cells.retain(|cell| cell.key.workload == "point-select" && cell.key.policy != "none");
        let mut staying = results.cells.clone();
        staying.iter_mut().for_each(|cell| cell.key.leave_on_read = false);
        results.cells.extend(staying);
        let panels = panels(&results);
        let labels: Vec<&str> = panels[0].curves.iter().map(|curve| curve.label.as_str()).collect();
        let kept = ["fifo (place kept in reads)", "flifo (place kept in reads)"];
        assert_eq!(labels, ["fifo", "flifo", kept[0], kept[1]]);
        let reference = panels[0].reference(&panels[0].curves[3], "fifo").unwrap();
        assert_eq!(reference.label, kept[0]);
    }

    #[test]
    fn flatness_pairs_the_rounds_of_last_point_and_peak() {
        let results = fixture::results();
        let panels = panels(&results);
        let fifo = &panels[0].curves[1];
        assert_eq!((fifo.peak().key.threads, fifo.last().key.threads), (16, 1024));
        let flatness = fifo.flatness().unwrap();
        let by_hand = fifo.last().rounds[0].throughput_per_s / fifo.peak().rounds[0].throughput_per_s;
        assert!(flatness.min <= by_hand && by_hand <= flatness.max);
        assert_eq!(flatness.count, 5);
    }
}
