//! FLIFO against FIFO (2009), on the engine alone and with the kernel mutex of a server of then.

use comfy_table::{Cell as Field, Table};

use super::Study;
use super::cells::{self, Which};
use super::lines::{self, chart, of_peak, peak, shares};
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::sweep::analysis::{Panel, panels};
use crate::report::sweep::published::compare;
use crate::report::table::{right_aligned, table};
use crate::results::claims::{Claim, Verdict};
use crate::results::experiment::ExperimentResults;
use crate::results::published::{Flifo2009, PublishedCurve};
use crate::results::{Cell, Results, Round};
use crate::support::format;
use crate::support::statistics::Spread;

/// The name of the experiment.
pub(crate) const NAME: &str = "flifo-2009";
/// The name of its part.
pub(crate) const PART: &str = "the published settings";

/// The study.
pub(super) struct Flifo(Flifo2009);

impl Flifo {
    pub(super) fn load() -> Self {
        Flifo(Flifo2009::load())
    }

    /// The cells of both policies, fifo first, with their published curves.
    fn curves<'r>(&self, run: &'r Results, specimen: &str) -> [(&PublishedCurve, Vec<&'r Cell>); 2] {
        [&self.0.original, &self.0.flifo].map(|curve| {
            let which = Which { workload: "read-only", specimen, limit: curve.limit };
            (curve, cells::cells(run, which))
        })
    }
}

/// Where a panel was measured.
fn place(specimen: &str) -> String {
    if specimen.is_empty() { "engine".into() } else { format!("engine with {specimen}") }
}

impl Study for Flifo {
    fn about(&self) -> String {
        let title = &self.0.title;
        format!("{}, {}; {}; {}", title.name, title.year, self.0.server, self.0.workload)
    }

    fn claims(&self) -> &[String] {
        &self.0.claims
    }

    fn judge(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let Some(run) = experiment.run(PART) else { return missing(&self.0.claims) };
        let panels = panels(run);
        if panels.is_empty() {
            return missing(&self.0.claims);
        }
        let mut judged: Vec<Claim> = panels.iter().flat_map(|panel| self.judge_panel(panel)).collect();
        // By claim, and within it by panel.
        judged.sort_by_key(|judged| self.0.claims.iter().position(|claim| *claim == judged.claim));
        judged
    }

    fn charts(&self, experiment: &ExperimentResults) -> Vec<Chart> {
        let Some(run) = experiment.run(PART) else { return Vec::new() };
        let specimens = cells::values(run, |cell| cell.key.specimen.clone());
        let threads = cells::values(run, |cell| cell.key.threads);
        let mut charts = Vec::new();
        for specimen in &specimens {
            let (mut rates, mut switches) = (Vec::new(), Vec::new());
            for (place, (curve, cells)) in self.curves(run, specimen).into_iter().enumerate() {
                let points = cells::points(&cells);
                let own = shares(&points, peak(&[&points]));
                let published = of_peak(&curve.transactions_per_s, &curve.transactions_per_s);
                rates.push(lines::measured(&curve.label, &own, "of its peak", place));
                let name = format!("{}: {}", self.0.title.year, curve.label);
                rates.push(lines::published(&name, &self.0.threads, &published, place));
                let per_s = |cell: &&Cell| {
                    Some((cell.key.threads, cell.spread(|round| round.host.context_switches_per_s)?))
                };
                let points: Vec<(u32, Spread)> = cells.iter().filter_map(per_s).collect();
                switches.push(lines::measured(&curve.label, &points, "per second", place));
            }
            let (title, note) = (
                format!("Throughput, {}", place(specimen)),
                "Each line as a share of its own peak. Dashed and pale: as published; numbers of threads as assumed, \
                 since the source prints eleven values and no axis.",
            );
            charts.push(chart((&title, note), (&threads, "threads"), (rates, "share of its own peak"), true));
            let title = format!("Context switches per second, {}", place(specimen));
            let note = "Of the whole machine, as vmstat counts them.";
            charts.push(chart((&title, note), (&threads, "threads"), (switches, "per second"), false));
        }
        charts
    }

    fn tables(&self, experiment: &ExperimentResults, style: Style) -> Vec<(String, Table)> {
        let Some(run) = experiment.run(PART) else { return Vec::new() };
        let Some(most) = cells::most(run) else { return Vec::new() };
        let mut vmstat = table(style);
        vmstat.set_header(["", "runnable", "switches/s", "user", "system", "idle", "wait"]);
        for curve in [&self.0.original, &self.0.flifo] {
            let line = curve.vmstat;
            let name = format!("{}: {}", self.0.title.year, curve.label);
            let shares = [line.user, line.system, line.idle, line.wait].map(|share| format!("{share:.0}%"));
            let figures = [line.runnable.to_string(), format::count(line.context_switches_per_s)];
            vmstat.add_row(std::iter::once(name).chain(figures).chain(shares).map(Field::new));
        }
        for specimen in cells::values(run, |cell| cell.key.specimen.clone()) {
            for (curve, cells) in self.curves(run, &specimen) {
                let Some(cell) = cells.into_iter().find(|cell| cell.key.threads == most) else { continue };
                vmstat.add_row(vmstat_line(format!("{}: {}", place(&specimen), curve.label), cell));
            }
        }
        vec![(format!("vmstat during the test, here with {most} threads"), right_aligned(vmstat, 1))]
    }
}

impl Flifo {
    fn judge_panel(&self, panel: &Panel<'_>) -> Vec<Claim> {
        let place = place(panel.specimen);
        let claims = &self.0.claims;
        // In the order of `compare`: the gain, both shares of the peak, the switches per second.
        let of = [&claims[0], &claims[0], &claims[0], &claims[1]];
        let compared = compare(panel, &self.0).into_iter().zip(of);
        let mut judged: Vec<Claim> = compared
            .filter_map(|(found, claim)| {
                let compared = format!("{}: {}", place, found.claim);
                let claim = Claim::new(claim, compared, found.published, found.measured, found.verdict?);
                Some(claim.because(found.reason))
            })
            .collect();
        let limit = self.0.flifo.limit;
        let most = panel.best("flifo").map(|curve| curve.last());
        let slots = most.and_then(|cell| {
            let share = |round: &Round| Some(f64::from(round.admission.slots_max?) / f64::from(limit));
            cell.spread(share)
        });
        let compared = format!("{place}: most slots in use / limit {limit}, flifo");
        judged.push(
            Claim::new(&claims[2], compared, Some(2.0), slots, Verdict::of_ratio(slots, 2.0))
                .because("slots of running threads, and of woken threads that do not run yet"),
        );
        judged
    }
}

/// Claims of which nothing was measured.
pub(super) fn missing(claims: &[String]) -> Vec<Claim> {
    claims.iter().map(|claim| Claim::new(claim, "-", None, None, Verdict::NotMeasured)).collect()
}

fn vmstat_line(name: String, cell: &Cell) -> Vec<Field> {
    let median = |figure: fn(&Round) -> Option<f64>| cell.spread(figure).map(|spread| spread.median);
    let figures =
        [median(|r| r.host.run_queue), median(|r| r.host.context_switches_per_s)].map(format::maybe);
    let shares = [
        median(|r| r.host.cpu_user),
        median(|r| r.host.cpu_system),
        median(|r| r.host.cpu_idle),
        median(|r| r.host.cpu_iowait),
    ]
    .map(format::percent);
    std::iter::once(name).chain(figures).chain(shares).map(Field::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::experiment::fixture;

    /// Verdicts on the engine without and with a specimen: gain, level, fall, both; switches; slots.
    fn verdicts(experiment: &ExperimentResults) -> Vec<Verdict> {
        Flifo::load().judge(experiment).iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn every_claim_can_hold_and_can_fail() {
        let holds = fixture::flifo_2009(|is_flifo, threads| match (is_flifo, threads) {
            (true, _) => (1_000.0, 10.0, 30),
            (false, 1024) => (300.0, 100.0, 32),
            (false, _) => (1_000.0, 40.0, 32),
        });
        assert_eq!(verdicts(&holds), [Verdict::Holds; 10]);
        let fails = fixture::flifo_2009(|is_flifo, threads| match (is_flifo, threads) {
            (true, 1024) => (500.0, 100.0, 15),
            (true, _) => (1_000.0, 100.0, 15),
            (false, _) => (1_000.0, 10.0, 32),
        });
        assert_eq!(verdicts(&fails), [Verdict::DoesNotHold; 10]);
    }

    #[test]
    fn nothing_measured_is_said_for_every_claim() {
        let empty = ExperimentResults::new(NAME, "quick", String::new(), String::new());
        let study = Flifo::load();
        let judged = study.judge(&empty);
        assert_eq!(judged.len(), study.claims().len());
        assert!(judged.iter().all(|claim| claim.verdict == Verdict::NotMeasured));
        assert!(study.charts(&empty).is_empty());
    }
}
