//! The best limit (2009): where the optimum lies, and what moves it.

use comfy_table::{Cell as Field, Table};

use super::Study;
use super::cells::{self, Which, by_round, median, throughput};
use super::flifo_2009::missing;
use super::kernel_mutex_2011::by_threads;
use super::lines::{self, chart};
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::table::{right_aligned, table};
use crate::results::claims::{Claim, Verdict};
use crate::results::experiment::ExperimentResults;
use crate::results::published::thread_concurrency_2009::ThreadConcurrency2009;
use crate::results::{Cell, Results};
use crate::support::statistics::{Spread, paired_ratio};

/// The name of the experiment.
pub(crate) const NAME: &str = "thread-concurrency-2009";
/// The part with one rollback segment.
pub(crate) const ONE_SEGMENT: &str = "1 rollback segment";
/// The part with the rollback segments' mutex split.
pub(crate) const SPLIT: &str = "128 rollback segments";
/// The part that has half of the CPUs.
pub(crate) const HALF_CPUS: &str = "128 rollback segments, half of the CPUs";

const READ_ONLY: &str = "read-only";
const READ_WRITE: &str = "read-write";
/// The threads of the third claim.
const THREADS: u32 = 256;
/// An optimum "hardly depends" on something that moves it by less than this factor.
const HARDLY: f64 = 1.5;
const MORE_ROUNDS: &str = "a single round has no spread: --rounds 3";

/// The study.
pub(super) struct Limits(ThreadConcurrency2009);

/// The cells of a workload at a number of threads, one for each limit.
fn by_limit<'r>(run: &'r Results, workload: &str, threads: u32) -> Vec<&'r Cell> {
    let limits = cells::values(run, |cell| cell.key.concurrency);
    let cell = |limit: u32| cells::at(run, Which { workload, specimen: "", limit }, threads);
    limits.into_iter().filter_map(cell).collect()
}

/// The limit that a cell ran under: without one, as many as there are threads.
fn limit_of(cell: &Cell) -> f64 {
    f64::from(if cell.key.concurrency == 0 { cell.key.threads } else { cell.key.concurrency })
}

/// `16`, `none`.
fn in_words(limit: u32) -> String {
    if limit == 0 { "none".into() } else { limit.to_string() }
}

/// The best limit of each round: that of the highest throughput among `cells`.
fn best_by_round(cells: &[&Cell]) -> Vec<(u32, f64)> {
    let rounds = cells.first().map_or(&[][..], |cell| &cell.rounds);
    let best = |round: u32| {
        let figures = cells.iter().filter_map(|cell| {
            let (_, per_s) = by_round(cell, throughput).into_iter().find(|(other, _)| *other == round)?;
            Some((limit_of(cell), per_s))
        });
        let (limit, _) = figures.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        Some((round, limit))
    };
    rounds.iter().filter_map(|round| best(round.round)).collect()
}

/// The limit with the highest median among `cells`, in words.
fn best(cells: &[&Cell]) -> String {
    let best = cells::highest(cells.iter().copied());
    best.map_or_else(|| "-".into(), |cell| in_words(cell.key.concurrency))
}

/// The best limit against none, with the highest median of all limits.
fn gain(cells: &[&Cell]) -> Option<Spread> {
    let none = cells.iter().find(|cell| cell.key.concurrency == 0)?;
    let limited = cells::highest(cells.iter().copied().filter(|cell| cell.key.concurrency > 0))?;
    cells::ratio(limited, none, throughput)
}

impl Limits {
    pub(super) fn load() -> Self {
        Limits(ThreadConcurrency2009::load())
    }

    /// A limit is best, not none: for both workloads with one rollback segment; and the highest throughput of all takes
    /// a higher limit.
    fn one_segment(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let claim = &self.0.claims[0];
        let found = experiment.run(ONE_SEGMENT).and_then(|run| Some((run, cells::most(run)?)));
        let Some((run, most)) = found else { return missing(std::slice::from_ref(claim)) };
        let mut claims: Vec<Claim> = [READ_ONLY, READ_WRITE]
            .map(|workload| {
                let cells = by_limit(run, workload, most);
                let gain = gain(&cells);
                let compared =
                    format!("{workload}, 1 segment, {most} threads: best limit / no limit, throughput");
                Claim::new(claim, compared, None, gain, Verdict::of_side(gain, true))
                    .because(format!("best: {}", best(&cells)))
            })
            .into();
        // The threads with the highest throughput of all, whatever the limit.
        let highest = cells::highest(run.cells.iter().filter(|cell| cell.key.workload == READ_WRITE));
        let at = highest.map(|cell| cell.key.threads);
        let cells_at = |threads| by_limit(run, READ_WRITE, threads);
        let moved =
            at.and_then(|at| paired_ratio(&best_by_round(&cells_at(at)), &best_by_round(&cells_at(most))));
        let published = ThreadConcurrency2009::BEST_SPLIT / ThreadConcurrency2009::BEST;
        let at = at.unwrap_or(most);
        claims.push(
            Claim::new(
                claim,
                format!("{READ_WRITE}, 1 segment: best limit at the top ({at} threads) / at {most} threads"),
                Some(published),
                moved,
                Verdict::of_ratio(moved, published),
            )
            .because(format!("best: {} and {}", best(&cells_at(at)), best(&cells_at(most)))),
        );
        claims
    }

    /// Splitting the mutex moves the optimum up.
    fn split(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let claim = &self.0.claims[1];
        let parts = experiment.run(ONE_SEGMENT).zip(experiment.run(SPLIT));
        let found = parts.and_then(|(one, split)| Some((one, split, cells::most(one)?)));
        let Some((one, split, most)) = found else { return missing(std::slice::from_ref(claim)) };
        let published = ThreadConcurrency2009::BEST_SPLIT / ThreadConcurrency2009::BEST;
        [READ_ONLY, READ_WRITE]
            .map(|workload| {
                let (one, split) = (by_limit(one, workload, most), by_limit(split, workload, most));
                let moved = paired_ratio(&best_by_round(&split), &best_by_round(&one));
                let compared = format!("{workload}, {most} threads: best limit, 128 segments / 1 segment");
                Claim::new(claim, compared, Some(published), moved, Verdict::of_ratio(moved, published))
                    .because(format!("best: {} and {}", best(&split), best(&one)))
            })
            .into()
    }

    /// How far the best limit is from none.
    fn gain(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let claim = &self.0.claims[2];
        let found = experiment.run(SPLIT).and_then(|run| Some((run, cells::nearest(run, THREADS)?)));
        let Some((run, threads)) = found else { return missing(std::slice::from_ref(claim)) };
        let cells = by_limit(run, READ_WRITE, threads);
        let (gain, published) = (gain(&cells), ThreadConcurrency2009::GAIN);
        let compared =
            format!("{READ_WRITE}, 128 segments, {threads} threads: best limit / no limit, throughput");
        vec![
            Claim::new(claim, compared, Some(published), gain, Verdict::of_ratio(gain, published))
                .because(format!("best: {}", best(&cells))),
        ]
    }

    /// The optimum on all CPUs and on half of them.
    fn cores(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let claim = &self.0.claims[3];
        let parts = experiment.run(SPLIT).zip(experiment.run(HALF_CPUS));
        let found = parts.and_then(|(all, half)| Some((all, half, cells::most(half)?)));
        let Some((all, half, most)) = found else {
            let because = "measured without --quick, on two CPUs or more";
            return missing(std::slice::from_ref(claim))
                .into_iter()
                .map(|claim| claim.because(because))
                .collect();
        };
        [READ_ONLY, READ_WRITE]
            .map(|workload| {
                let (all, half) = (by_limit(all, workload, most), by_limit(half, workload, most));
                let moved = paired_ratio(&best_by_round(&all), &best_by_round(&half));
                let compared = format!("{workload}, {most} threads: best limit, all CPUs / half of them");
                let verdict = Verdict::of_sameness(moved, HARDLY);
                let because = match verdict {
                    Verdict::Inconclusive => MORE_ROUNDS.into(),
                    _ => format!("best: {} and {}; hardly: by less than {HARDLY}", best(&all), best(&half)),
                };
                Claim::new(claim, compared, Some(1.0), moved, verdict).because(because)
            })
            .into()
    }

    fn by_threads(part: &str, workload: &'static str, run: &Results) -> Chart {
        let threads = cells::values(run, |cell| cell.key.threads);
        let limits = cells::values(run, |cell| cell.key.concurrency);
        let line = |(place, limit): (usize, u32)| {
            let which = Which { workload, specimen: "", limit };
            let name = if limit == 0 { "no limit".into() } else { format!("limit {limit}") };
            lines::measured(&name, &cells::points(&cells::cells(run, which)), "statements/s", place)
        };
        let data = limits.into_iter().enumerate().map(line).collect();
        let title = format!("{workload}, {part}");
        let note = "Throughput by threads, a line for each limit.";
        chart((&title, note), (&threads, "threads"), (data, "statements per second"), false)
    }
}

/// The measured parts with their runs.
fn parts(experiment: &ExperimentResults) -> impl Iterator<Item = (&'static str, &Results)> {
    [ONE_SEGMENT, SPLIT, HALF_CPUS].into_iter().filter_map(|part| Some((part, experiment.run(part)?)))
}

impl Study for Limits {
    fn about(&self) -> String {
        let title = &self.0.title;
        format!("{}, {}; {}; {}", title.name, title.year, self.0.server, self.0.workloads.join(" and "))
    }

    fn claims(&self) -> &[String] {
        &self.0.claims
    }

    fn judge(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        [self.one_segment(experiment), self.split(experiment), self.gain(experiment), self.cores(experiment)]
            .concat()
    }

    fn charts(&self, experiment: &ExperimentResults) -> Vec<Chart> {
        let mut charts = Vec::new();
        let mut optima = Vec::new();
        let mut threads = Vec::new();
        for (part, run) in parts(experiment) {
            for workload in [READ_ONLY, READ_WRITE] {
                let all = cells::values(run, |cell| cell.key.threads);
                let point = |threads: &u32| {
                    let best = best_by_round(&by_limit(run, workload, *threads));
                    Some((*threads, Spread::of(best.into_iter().map(|(_, limit)| limit))?))
                };
                let points: Vec<(u32, Spread)> = all.iter().filter_map(point).collect();
                optima.push(lines::measured(&format!("{workload}, {part}"), &points, "limit", optima.len()));
                threads.extend(all);
            }
        }
        if optima.is_empty() {
            return charts;
        }
        threads.sort_unstable();
        threads.dedup();
        let note = "The limit of the highest throughput in each round; median, lowest and highest. Without a limit it is \
                    the number of threads. Published: 16 with one segment, 24 with more.";
        charts.push(chart(("Where the optimum lies", note), (&threads, "threads"), (optima, "limit"), true));
        for (part, run) in parts(experiment) {
            for workload in [READ_ONLY, READ_WRITE] {
                charts.push(Self::by_threads(part, workload, run));
            }
        }
        charts
    }

    fn tables(&self, experiment: &ExperimentResults, style: Style) -> Vec<(String, Table)> {
        let mut optima = table(style);
        optima.set_header(["", "threads", "best limit", "of", "no limit"]);
        let mut tables = Vec::new();
        for (part, run) in parts(experiment) {
            for workload in [READ_ONLY, READ_WRITE] {
                for threads in cells::values(run, |cell| cell.key.threads) {
                    let cells = by_limit(run, workload, threads);
                    let highest = cells::highest(cells.iter().copied()).map_or(0.0, median);
                    let none = cells.iter().find(|cell| cell.key.concurrency == 0);
                    let count = crate::support::format::count;
                    optima.add_row([
                        Field::new(format!("{workload}, {part}")),
                        Field::new(threads),
                        Field::new(best(&cells)),
                        Field::new(count(highest)),
                        Field::new(none.map_or("-".into(), |cell| count(median(cell)))),
                    ]);
                }
                let which = |limit| Which { workload, specimen: "", limit };
                let limits = cells::values(run, |cell| cell.key.concurrency);
                let columns: Vec<(String, Which<'_>)> =
                    limits.into_iter().map(|limit| (in_words(limit), which(limit))).collect();
                let title = format!("Statements per second by limit: {workload}, {part}");
                tables.push((title, by_threads(run, &columns, style)));
            }
        }
        tables.insert(0, ("Where the optimum lies, statements per second".into(), right_aligned(optima, 1)));
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::experiment::fixture;

    fn verdicts(experiment: &ExperimentResults) -> Vec<Verdict> {
        Limits::load().judge(experiment).iter().map(|claim| claim.verdict).collect()
    }

    /// Throughput that is highest with the limit `best`.
    fn peak_at(best: u32, limit: u32, threads: u32) -> f64 {
        let limit = if limit == 0 { threads } else { limit };
        1_000.0 / (1.0 + (f64::from(limit) / f64::from(best)).ln().abs())
    }

    #[test]
    fn every_claim_can_hold_and_can_fail() {
        let holds = fixture::thread_concurrency_2009(|part, workload, limit, threads| {
            let best = match (part, workload, threads) {
                (ONE_SEGMENT, READ_WRITE, 64) => 24,
                (ONE_SEGMENT, ..) => 16,
                _ => 24,
            };
            // The top is at 64 threads.
            peak_at(best, limit, threads) * if threads == 64 { 2.0 } else { 1.0 }
        });
        let all = verdicts(&holds);
        assert_eq!(all, vec![Verdict::Holds; 8], "{:#?}", Limits::load().judge(&holds));
        let fails = fixture::thread_concurrency_2009(|part, _, limit, threads| match (part, limit) {
            (_, 0) => 5_000.0,
            (HALF_CPUS, _) => peak_at(1, limit, threads) * 6.0,
            _ => peak_at(16, limit, threads),
        });
        assert_eq!(verdicts(&fails), vec![Verdict::DoesNotHold; 8], "{:#?}", Limits::load().judge(&fails));
    }

    #[test]
    fn the_best_limit_is_sought_in_each_round() {
        let experiment = fixture::thread_concurrency_2009(|_, _, limit, threads| peak_at(8, limit, threads));
        let run = experiment.run(SPLIT).unwrap();
        let cells = by_limit(run, READ_ONLY, 256);
        assert_eq!(best(&cells), "8");
        assert!(best_by_round(&cells).iter().all(|(_, limit)| *limit == 8.0));
        assert_eq!(best_by_round(&cells).len(), 3);
        assert!(gain(&cells).unwrap().min > 1.0);
    }

    #[test]
    fn half_of_the_cpus_may_be_missing() {
        let mut experiment = fixture::thread_concurrency_2009(|_, _, _, _| 1.0);
        experiment.parts.retain(|part| part.name != HALF_CPUS);
        let judged = Limits::load().judge(&experiment);
        let last = judged.last().unwrap();
        assert!(last.verdict == Verdict::NotMeasured && last.because.contains("--quick"), "{last:?}");
        assert_eq!(Limits::load().charts(&experiment).len(), 1 + 2 * 2);
    }
}
