//! The kernel mutex (2011): what a limit gains where every statement takes one global mutex, and what the herd costs.

use comfy_table::{Cell as Field, Table};

use super::Study;
use super::cells::{self, Which, throughput};
use super::flifo_2009::missing;
use super::lines::{self, chart, of_peak, peak, shares};
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::table::{right_aligned, table};
use crate::results::claims::{Claim, Verdict};
use crate::results::experiment::ExperimentResults;
use crate::results::published::kernel_mutex_2011::KernelMutex2011;
use crate::results::{Cell, Results, Round};
use crate::support::format;
use crate::support::statistics::Spread;

/// The name of the experiment.
pub(crate) const NAME: &str = "kernel-mutex-2011";
/// The part that compares limits.
pub(crate) const LIMITS: &str = "limits by threads";
/// The part that compares rounds of spinning.
pub(crate) const SPINS: &str = "rounds of spinning";
/// The part that compares limits of a live server.
pub(crate) const SERVER: &str = "limits of a live server";

const WORKLOAD: &str = "point-select";
/// The specimen of the first part.
const SPECIMEN: &str = "kernel-mutex-30";
/// A server has none.
const NO_SPECIMEN: &str = "";
/// The same with a plain mutex.
const PLAIN: &str = "kernel-futex";
/// A peak is sought from this number of threads on, as the published curve with a limit begins there.
const PEAK_THREADS_MIN: u32 = 8;

/// The study.
pub(super) struct KernelMutex(KernelMutex2011);

/// The runs that compare limits: the part, its specimen, and what its claims and tables are called.
const RUNS: [(&str, &str, &str); 2] = [(LIMITS, SPECIMEN, ""), (SERVER, NO_SPECIMEN, "live server")];

/// The run of one of `RUNS`.
#[derive(Clone, Copy)]
struct Limits<'a> {
    run: &'a Results,
    specimen: &'a str,
    title: &'a str,
}

impl<'a> Limits<'a> {
    fn of(
        experiment: &'a ExperimentResults,
        (part, specimen, title): (&'a str, &'a str, &'a str),
    ) -> Option<Self> {
        Some(Limits { run: experiment.run(part)?, specimen, title })
    }

    /// Cells with a limit, 0 for none.
    fn with(self, limit: u32) -> Which<'a> {
        Which { workload: WORKLOAD, specimen: self.specimen, limit }
    }

    fn at(self, limit: u32, threads: u32) -> Option<&'a Cell> {
        cells::at(self.run, self.with(limit), threads)
    }

    /// `text`, or `live server: text`.
    fn titled(self, text: &str) -> String {
        if self.title.is_empty() { text.into() } else { format!("{}: {text}", self.title) }
    }

    /// The limit with the highest throughput at the study's number of threads, or nearest to it.
    fn best(self) -> Option<(u32, u32)> {
        let threads = cells::nearest(self.run, KernelMutex2011::THREADS)?;
        let limits =
            cells::values(self.run, |cell| cell.key.concurrency).into_iter().filter(|limit| *limit > 0);
        let cells = limits.filter_map(|limit| self.at(limit, threads));
        Some((cells::highest(cells)?.key.concurrency, threads))
    }

    /// The last point of a limit's curve against its peak.
    fn flatness(self, limit: u32) -> Option<Spread> {
        let all = cells::cells(self.run, self.with(limit));
        let steady: Vec<&Cell> =
            all.into_iter().filter(|cell| cell.key.threads >= PEAK_THREADS_MIN).collect();
        if steady.len() < 2 {
            return None;
        }
        cells::ratio(steady.last()?, cells::highest(steady.iter().copied())?, throughput)
    }
}

fn switches(round: &Round) -> Option<f64> {
    round.context_switches_per_statement
}

/// `no limit`, `limit 8`.
fn named(limit: u32) -> String {
    if limit == 0 { "no limit".into() } else { format!("limit {limit}") }
}

impl KernelMutex {
    pub(super) fn load() -> Self {
        KernelMutex(KernelMutex2011::load())
    }

    fn gains(&self, measured: Option<Limits<'_>>) -> Vec<Claim> {
        let claims = &self.0.claims;
        let found = measured.and_then(|limits| Some((limits, limits.best()?)));
        let Some((limits, (best, threads))) = found else { return missing(&claims[..2]) };
        let gain = limits
            .at(best, threads)
            .zip(limits.at(0, threads))
            .and_then(|(limited, none)| cells::ratio(limited, none, throughput));
        let most = cells::most(limits.run).unwrap_or(threads);
        let (level, fall) = (limits.flatness(best), limits.flatness(0));
        let none = &self.0.concurrency_0;
        let fallen = none[none.len() - 1] / none.iter().copied().fold(0.0, f64::max);
        vec![
            Claim::new(
                &claims[0],
                limits.titled(&format!("limit {best} / no limit, {threads} threads")),
                Some(self.0.gain()),
                gain,
                Verdict::of_ratio(gain, self.0.gain()),
            )
            .because(format!("the best limit here is {best}")),
            Claim::new(
                &claims[1],
                limits.titled(&format!("limit {best}, {most} threads / peak")),
                Some(self.0.flatness()),
                level,
                Verdict::of_constancy(level, self.0.flatness()),
            ),
            Claim::new(
                &claims[1],
                limits.titled(&format!("no limit, {most} threads / peak")),
                Some(fallen),
                fall,
                Verdict::of_fall(fall, fallen),
            )
            .because("from the published figures: without a limit it falls"),
        ]
    }

    /// The sync array beside a plain mutex, without a limit.
    fn herd(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let claim = &self.0.claims[2];
        let run = experiment.run(SPINS);
        let found = run.and_then(|run| Some((run, cells::most(run)?)));
        let Some((run, most)) = found else { return missing(std::slice::from_ref(claim)) };
        let at = |specimen| cells::at(run, Which { workload: WORKLOAD, specimen, limit: 0 }, most);
        let both = at(PLAIN).zip(at(SPECIMEN));
        let compared = |figure: fn(&Round) -> Option<f64>| {
            both.and_then(|(plain, array)| cells::ratio(plain, array, figure))
        };
        let (rate, each) = (compared(throughput), compared(switches));
        vec![
            Claim::new(
                claim,
                format!("no limit, {most} threads: throughput, one woken / all woken"),
                None,
                rate,
                Verdict::of_side(rate, true),
            )
            .because("a plain mutex wakes one waiter, the sync array all"),
            Claim::new(
                claim,
                format!("no limit, {most} threads: context switches per statement, one woken / all woken"),
                None,
                each,
                Verdict::of_side(each, false),
            ),
        ]
    }

    fn curves(&self, limits: Limits<'_>) -> Option<Chart> {
        let (best, _) = limits.best()?;
        let [none, limited] =
            [0, best].map(|limit| cells::points(&cells::cells(limits.run, limits.with(limit))));
        let highest = peak(&[&none, &limited]);
        let all: Vec<f64> =
            self.0.concurrency_0.iter().chain(&self.0.concurrency_8_from_8_threads).copied().collect();
        let year = self.0.title.year;
        let data = vec![
            lines::measured("no limit", &shares(&none, highest), "of the peak", 0),
            lines::published(
                &format!("{year}: no limit"),
                &self.0.threads,
                &of_peak(&self.0.concurrency_0, &all),
                0,
            ),
            lines::measured(&named(best), &shares(&limited, highest), "of the peak", 3),
            lines::published(
                &format!("{year}: limit 8"),
                self.0.threads_limited(),
                &of_peak(&self.0.concurrency_8_from_8_threads, &all),
                3,
            ),
        ];
        let note = "As shares of the highest point of both lines. Dashed and pale: as published.";
        let threads = cells::values(limits.run, |cell| cell.key.threads);
        let title = limits.titled("No limit and the best limit, by threads");
        Some(chart((&title, note), (&threads, "threads"), (data, "share of the peak"), true))
    }

    /// Throughput by limit at the study's number of threads. No limit stands at the left, as limit 1.
    fn by_limit(&self, limits: Limits<'_>) -> Option<Chart> {
        let threads = cells::nearest(limits.run, KernelMutex2011::THREADS)?;
        let place = |limit: u32| limit.max(1);
        let point = |limit: &u32| Some((place(*limit), limits.at(*limit, threads)?.throughput()?));
        let measured = cells::values(limits.run, |cell| cell.key.concurrency);
        let points: Vec<(u32, Spread)> = measured.iter().filter_map(point).collect();
        let by_limit = &self.0.at_256_threads;
        let x: Vec<u32> = by_limit.concurrency.iter().map(|limit| place(*limit)).collect();
        let published = of_peak(&by_limit.throughput, &by_limit.throughput);
        let data = vec![
            lines::measured("here", &shares(&points, peak(&[&points])), "of the peak", 3),
            lines::published(&self.0.title.year.to_string(), &x, &published, 3),
        ];
        let title = limits.titled(&format!("By limit, with {threads} threads"));
        let mut drawn = chart(
            (&title, "As shares of the best limit. Dashed and pale: as published, with 256 threads."),
            (&x, "limit"),
            (data, "share of the best"),
            false,
        );
        let labels: Vec<String> = by_limit
            .concurrency
            .iter()
            .map(|limit| if *limit == 0 { "none".into() } else { limit.to_string() })
            .collect();
        drawn.spec["layout"]["xaxis"]["ticktext"] = labels.into();
        Some(drawn)
    }

    fn spins(run: &Results) -> Vec<Chart> {
        let threads = cells::values(run, |cell| cell.key.threads);
        let limits = cells::values(run, |cell| cell.key.concurrency);
        let specimens = specimens(run);
        let line = |specimen: &str, limit, place| {
            let which = Which { workload: WORKLOAD, specimen, limit };
            lines::measured(specimen, &cells::points(&cells::cells(run, which)), "statements/s", place)
        };
        let of_limit = |limit: &u32| {
            let data = specimens.iter().enumerate().map(|(place, specimen)| line(specimen, *limit, place));
            let title = format!("Rounds of spinning, {}", named(*limit));
            let note = "The number is sync_spin_loops; kernel-futex wakes one waiter.";
            chart((&title, note), (&threads, "threads"), (data.collect(), "statements per second"), false)
        };
        limits.iter().map(of_limit).collect()
    }
}

/// The specimens of a run, those that spin less first.
fn specimens(run: &Results) -> Vec<String> {
    let mut specimens = cells::values(run, |cell| cell.key.specimen.clone());
    let spins = |name: &str| name.rsplit('-').next().and_then(|spins| spins.parse().ok()).unwrap_or(u32::MAX);
    specimens.sort_by_key(|name| spins(name));
    specimens
}

impl Study for KernelMutex {
    fn about(&self) -> String {
        let title = &self.0.title;
        format!("{}, {}; {}", title.name, title.year, self.0.server)
    }

    fn claims(&self) -> &[String] {
        &self.0.claims
    }

    fn judge(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let [engine, server] = RUNS.map(|run| Limits::of(experiment, run));
        let of_server = server.map(|limits| self.gains(Some(limits))).unwrap_or_default();
        [self.gains(engine), self.herd(experiment), of_server].concat()
    }

    fn charts(&self, experiment: &ExperimentResults) -> Vec<Chart> {
        let mut charts = Vec::new();
        for limits in RUNS.into_iter().filter_map(|run| Limits::of(experiment, run)) {
            charts.extend(self.curves(limits));
            charts.extend(self.by_limit(limits));
        }
        if let Some(run) = experiment.run(SPINS) {
            charts.extend(Self::spins(run));
        }
        charts
    }

    fn tables(&self, experiment: &ExperimentResults, style: Style) -> Vec<(String, Table)> {
        let mut tables = Vec::new();
        for limits in RUNS.into_iter().filter_map(|run| Limits::of(experiment, run)) {
            let columns: Vec<(String, Which<'_>)> = cells::values(limits.run, |cell| cell.key.concurrency)
                .into_iter()
                .map(|limit| (named(limit), limits.with(limit)))
                .collect();
            let what = if limits.title.is_empty() { SPECIMEN } else { limits.title };
            tables.push((format!("Statements per second, {what}"), by_threads(limits.run, &columns, style)));
        }
        if let Some(run) = experiment.run(SPINS) {
            let specimens = specimens(run);
            for limit in cells::values(run, |cell| cell.key.concurrency) {
                let which = |specimen| Which { workload: WORKLOAD, specimen, limit };
                let columns: Vec<(String, Which<'_>)> =
                    specimens.iter().map(|name| (name.clone(), which(name))).collect();
                let title = format!("Statements per second by rounds of spinning, {}", named(limit));
                tables.push((title, by_threads(run, &columns, style)));
            }
        }
        tables
    }
}

/// With more columns than these the spread does not fit a terminal.
const COLUMNS_WITH_SPREAD: usize = 6;

/// A row for each number of threads, a column for each selection: throughput with its spread, if there is room.
pub(super) fn by_threads(run: &Results, columns: &[(String, Which<'_>)], style: Style) -> Table {
    let mut table = table(style);
    table.set_header(std::iter::once("threads").chain(columns.iter().map(|(name, _)| name.as_str())));
    for threads in cells::values(run, |cell| cell.key.threads) {
        let figure = |(_, which): &(String, Which<'_>)| {
            let throughput = cells::at(run, *which, threads).and_then(Cell::throughput);
            Field::new(match columns.len() > COLUMNS_WITH_SPREAD {
                true => format::maybe(throughput.map(|throughput| throughput.median)),
                false => format::with_spread(throughput),
            })
        };
        table.add_row(std::iter::once(Field::new(threads)).chain(columns.iter().map(figure)));
    }
    right_aligned(table, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::experiment::fixture;

    fn verdicts(experiment: &ExperimentResults) -> Vec<Verdict> {
        KernelMutex::load().judge(experiment).iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn every_claim_can_hold_and_can_fail() {
        let holds = fixture::kernel_mutex_2011(|specimen, limit, threads| match (specimen, limit, threads) {
            ("kernel-futex", ..) => (900.0, 2.0),
            (_, 0, 1024) => (100.0, 20.0),
            (_, 0, 256) => (350.0, 10.0),
            _ => (1_000.0, 3.0),
        });
        assert_eq!(verdicts(&holds), [Verdict::Holds; 5]);
        let fails = fixture::kernel_mutex_2011(|specimen, limit, threads| match (specimen, limit, threads) {
            ("kernel-futex", ..) => (500.0, 20.0),
            (_, 0, _) => (1_000.0, 2.0),
            (_, _, 1024) => (100.0, 2.0),
            _ => (900.0, 2.0),
        });
        assert_eq!(verdicts(&fails), [Verdict::DoesNotHold; 5]);
    }

    #[test]
    fn the_best_limit_is_the_highest_at_256_threads() {
        let experiment = fixture::kernel_mutex_2011(|_, limit, threads| match (limit, threads) {
            (16, 256) => (2_000.0, 1.0),
            (4, 1024) => (9_000.0, 1.0),
            _ => (1_000.0, 1.0),
        });
        assert_eq!(Limits::of(&experiment, RUNS[0]).unwrap().best(), Some((16, 256)));
        let judged = KernelMutex::load().judge(&experiment);
        assert!(judged[0].compared.starts_with("limit 16 / no limit, 256 threads"), "{}", judged[0].compared);
    }

    #[test]
    fn graphs_have_the_published_curves_beside_the_measured_ones() {
        let experiment = fixture::kernel_mutex_2011(|_, _, _| (1_000.0, 1.0));
        let charts = KernelMutex::load().charts(&experiment);
        let names = |chart: &Chart| -> Vec<String> {
            let data = chart.spec["data"].as_array().unwrap();
            data.iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(charts.len(), 4);
        assert_eq!(names(&charts[0])[1], "2011: no limit");
        assert_eq!(names(&charts[1]), ["here", "2011"]);
        let spins = ["kernel-mutex-0", "kernel-mutex-30", "kernel-mutex-200", "kernel-futex"];
        assert_eq!(names(&charts[2]), spins);
        for chart in &charts {
            for line in chart.spec["data"].as_array().unwrap() {
                assert!(!line["y"].as_array().unwrap().is_empty(), "{}", chart.title);
            }
        }
    }

    #[test]
    fn a_live_server_has_claims_graphs_and_a_table_of_its_own() {
        let mut experiment = fixture::kernel_mutex_2011(|_, _, _| (1_000.0, 1.0));
        let study = KernelMutex::load();
        let (claims, charts) = (study.judge(&experiment).len(), study.charts(&experiment).len());
        let mut server = experiment.parts[0].clone();
        server.name = SERVER.into();
        for cell in &mut server.run.as_mut().unwrap().cells {
            cell.key.specimen = NO_SPECIMEN.into();
        }
        experiment.parts.push(server);
        let judged = study.judge(&experiment);
        assert_eq!((judged.len(), study.charts(&experiment).len()), (claims + 3, charts + 2));
        assert!(judged[claims..].iter().all(|claim| claim.compared.starts_with("live server: ")));
        let tables = study.tables(&experiment, Style { colour: false, width: 120 });
        assert_eq!(tables[1].0, "Statements per second, live server");
    }

    #[test]
    fn nothing_measured_is_said_for_every_claim() {
        let empty = ExperimentResults::new(NAME, "quick", String::new(), String::new());
        assert_eq!(verdicts(&empty), [Verdict::NotMeasured; 3]);
    }
}
