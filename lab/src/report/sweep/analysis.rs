//! Arranges the cells of a run into panels and curves, and compares curves, for every kind of output.

use crate::results::{Cell, Results, Round};
use crate::support::statistics::{Spread, paired_ratio};

/// With fewer connections client and server share a CPU in ways that make figures bimodal. A peak is sought from here
/// on, if the run has such points.
const PEAK_THREADS_MIN: u32 = 8;

/// All curves of one target, workload, specimen and front; for a bench, of one load under one limit.
#[derive(Debug)]
pub struct Panel<'a> {
    pub target: &'a str,
    /// The workload, or the load.
    pub workload: &'a str,
    /// What the server's side does in addition; empty: nothing.
    pub specimen: &'a str,
    pub front: &'a str,
    /// For a bench: the limit of all its limited curves.
    pub limit: Option<u32>,
    /// Every number of connections that was measured, ascending.
    pub threads: Vec<u32>,
    /// In the order of their first round.
    pub curves: Vec<Curve<'a>>,
}

/// One setting over the numbers of connections.
#[derive(Debug)]
pub struct Curve<'a> {
    pub target: &'a str,
    pub policy: &'a str,
    pub concurrency: u32,
    pub tickets: u32,
    pub leave_on_read: bool,
    /// The policy, and the limit, tickets and waits where the panel has several.
    pub label: String,
    /// The index among the curves of the same policy, from 0: selects the dash.
    pub variant: usize,
    /// Ascending by connections; none is without rounds.
    pub cells: Vec<&'a Cell>,
}

/// Groups the measured cells; cells without rounds are left out.
pub fn panels(results: &Results) -> Vec<Panel<'_>> {
    let (loads, workloads): (Vec<&Cell>, Vec<&Cell>) = results
        .cells
        .iter()
        .filter(|cell| !cell.rounds.is_empty())
        .partition(|cell| !cell.key.load.is_empty());
    let mut panels = by_load(&loads);
    panels.extend(by_workload(&workloads));
    for panel in &mut panels {
        panel.finish();
    }
    panels
}

/// A panel for each load and limit; variants without a limit are in all panels of their load.
fn by_load<'a>(cells: &[&'a Cell]) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel<'a>> = Vec::new();
    let is_limited = |cell: &Cell| cell.key.concurrency > 0;
    for cell in cells {
        let load = |other: &&&Cell| other.key.load == cell.key.load;
        // Without limited variants, the unlimited ones form the panel.
        let stands_alone = !cells.iter().filter(load).any(|other| is_limited(other));
        if !is_limited(cell) && !stands_alone {
            continue;
        }
        let limit = Some(cell.key.concurrency).filter(|limit| *limit > 0);
        if panels.iter().any(|panel| (panel.workload, panel.limit) == (&cell.key.load, limit)) {
            continue;
        }
        let mut panel = Panel {
            target: "admission",
            workload: &cell.key.load,
            specimen: "",
            front: &cell.key.front,
            limit,
            threads: Vec::new(),
            curves: Vec::new(),
        };
        let belongs = |other: &&&Cell| limit == Some(other.key.concurrency) || !is_limited(other);
        let mut members: Vec<&'a Cell> = cells.iter().filter(load).filter(belongs).copied().collect();
        // Policies, specimens, peers, and variants without a limit, whatever the order of their first rounds.
        let rank = |cell: &Cell| match cell.key.target.as_str() {
            "peer" => 2,
            "specimen" => 1,
            _ => 0,
        };
        members.sort_by_key(|cell| (!is_limited(cell), rank(cell)));
        members.into_iter().for_each(|cell| panel.add(cell));
        panels.push(panel);
    }
    panels
}

fn by_workload<'a>(cells: &[&'a Cell]) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel<'a>> = Vec::new();
    for cell in cells {
        let key = &cell.key;
        let found = panels.iter().position(|p| {
            (p.target, p.workload, p.specimen, p.front)
                == (&key.target, &key.workload, &key.specimen, &key.front)
        });
        let index = found.unwrap_or_else(|| {
            panels.push(Panel {
                target: &key.target,
                workload: &key.workload,
                specimen: &key.specimen,
                front: &key.front,
                limit: None,
                threads: Vec::new(),
                curves: Vec::new(),
            });
            panels.len() - 1
        });
        panels[index].add(cell);
    }
    panels
}

impl<'a> Panel<'a> {
    fn add(&mut self, cell: &'a Cell) {
        let key = &cell.key;
        if !self.threads.contains(&key.threads) {
            self.threads.push(key.threads);
        }
        let name = (key.target.as_str(), key.policy.as_str());
        let setting = (name, key.concurrency, key.tickets, key.leave_on_read);
        let of = |c: &Curve<'a>| ((c.target, c.policy), c.concurrency, c.tickets, c.leave_on_read);
        match self.curves.iter_mut().find(|curve| of(curve) == setting) {
            Some(curve) => curve.cells.push(cell),
            None => self.curves.push(Curve {
                target: &key.target,
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
            let mut limited = self.curves.iter().filter(|curve| curve.is_limited()).map(figure);
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
            if curve.is_peer() && curve.policy == "none" {
                curve.label = "no limit".into();
            }
            if curve.is_limited() && limits_differ {
                curve.label += &format!(" {}", curve.concurrency);
            }
            if curve.is_limited() && tickets_differ {
                curve.label += &format!(" ({} tickets)", curve.tickets);
            }
            if curve.is_limited() && waits_differ && !curve.leave_on_read {
                curve.label += " (slot kept in reads)";
            }
        }
    }

    /// `point-select, socket: limit 4, 5000 tickets`.
    pub fn heading(&self) -> String {
        if self.is_bench() {
            let limit = self.limit.map_or("no limit".to_owned(), |limit| format!("limit {limit}"));
            return format!("{}, {limit}", self.workload);
        }
        let is_adaptive = |curve: &Curve<'_>| curve.policy != "none" && !curve.is_limited();
        let mut limited = self.curves.iter().filter(|curve| curve.is_limited());
        let setting = match limited.next() {
            None if self.curves.iter().any(is_adaptive) => "adaptive limit".to_owned(),
            None => "no limit".to_owned(),
            Some(_) if self.curves.iter().any(is_adaptive) => "several limits".to_owned(),
            Some(first)
                if limited.all(|c| (c.concurrency, c.tickets) == (first.concurrency, first.tickets)) =>
            {
                match first.tickets {
                    0 => format!("limit {}", first.concurrency),
                    tickets => format!("limit {}, {tickets} tickets", first.concurrency),
                }
            }
            Some(_) => "several limits".to_owned(),
        };
        let specimen = if self.specimen.is_empty() { String::new() } else { format!("{}, ", self.specimen) };
        format!("{}, {specimen}{}: {setting}", self.workload, self.front)
    }

    /// The quantity on the x axis.
    pub fn counted(&self) -> &'static str {
        if self.is_bench() { "threads" } else { "connections" }
    }

    /// Whether it shows a load, with policies and peers.
    pub fn is_bench(&self) -> bool {
        self.target == "admission"
    }

    /// Whether it shows a live server.
    pub fn is_server(&self) -> bool {
        self.target == "server"
    }

    /// Whether its workload reads only, as the published one did.
    pub fn is_reading(&self) -> bool {
        ["point-select", "read-only"].contains(&self.workload)
    }

    /// The unit of a latency: a whole transaction if it has several statements.
    pub fn timed(&self) -> &'static str {
        if self.has_transactions() { "transaction" } else { "statement" }
    }

    /// Whether transactions of its workload have several statements.
    pub fn has_transactions(&self) -> bool {
        ["read-only", "read-write", "ycsb-f", "dbt2", "db-stress"].contains(&self.workload)
            || self.workload.starts_with("hot-transaction")
    }

    /// The curve of `policy` that compares best with `curve`: same limit and tickets, otherwise same limit, otherwise
    /// any. `none` has no limit. Never `curve` itself.
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

    /// The curve of `policy` for the headline: the highest at its last point.
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
    /// Whether it has a limit; none and auto have not.
    pub fn is_limited(&self) -> bool {
        self.concurrency > 0
    }

    /// Whether it is a common alternative to the scheduler.
    pub fn is_peer(&self) -> bool {
        self.target == "peer"
    }

    /// Whether it is one of the scheduler's policies, not a peer or a specimen.
    pub fn is_own_policy(&self) -> bool {
        !matches!(self.target, "peer" | "specimen")
    }

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

    /// The cells among which a peak is sought: from 8 connections on, if there are any.
    fn steady(&self) -> &[&'a Cell] {
        match self.cells.iter().position(|cell| cell.key.threads >= PEAK_THREADS_MIN) {
            Some(first) => &self.cells[first..],
            None => &self.cells,
        }
    }

    /// The cell with the highest median throughput, from 8 connections on if there are such.
    pub fn peak(&self) -> &'a Cell {
        let median = |cell: &Cell| cell.throughput().map_or(0.0, |t| t.median);
        let steady = self.steady().iter().copied();
        steady.max_by(|a, b| median(a).total_cmp(&median(b))).expect("a curve has a cell")
    }

    /// Throughput at the last point against the peak, round by round; 1 if the last point is the peak.
    pub fn flatness(&self) -> Option<Spread> {
        self.flatness_at(self.last().key.threads)
    }

    /// Throughput at a number of connections against the peak; `None` if the peak was sought in a single cell.
    pub fn flatness_at(&self, threads: u32) -> Option<Spread> {
        if self.steady().len() < 2 {
            return None;
        }
        ratio(self.at(threads)?, self.peak(), throughput)
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

/// 1 + W/S of each round: the maximum gain from not waiting for a wake-up.
pub fn bound(cell: &Cell) -> Option<Spread> {
    cell.spread(|round| {
        let (w, s) = (round.admission.woken_to_running_p50_us?, round.admission.running_p50_us?);
        (s > 0.0).then(|| 1.0 + w / s)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::fixture;

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
        let kept = ["fifo (slot kept in reads)", "flifo (slot kept in reads)"];
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

    #[test]
    fn one_usable_cell_has_no_peak_to_fall_from() {
        let flatness = |threads: &[u32]| {
            let mut results = fixture::results();
            results.cells.retain(|cell| threads.contains(&cell.key.threads));
            panels(&results)[0].curves[1].flatness().is_some()
        };
        assert!(flatness(&[8, 16]) && flatness(&[1, 4]) && flatness(&[1, 8, 16]));
        assert!(!flatness(&[1024]) && !flatness(&[1, 8]) && !flatness(&[1, 4, 1024]));
    }
}
