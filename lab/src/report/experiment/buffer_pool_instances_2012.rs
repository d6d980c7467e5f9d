//! Buffer pool instances (2012): what a sync flush that takes them one after another does to throughput over time.

use comfy_table::{Cell as Field, Table};
use flifo_engine::FlushMode;

use super::Study;
use super::cells::ratio;
use super::lines::{self, chart};
use crate::report::Style;
use crate::report::chart::Chart;
use crate::report::series::{self, Stack};
use crate::report::table::{right_aligned, table};
use crate::results::claims::{Claim, Verdict};
use crate::results::experiment::ExperimentResults;
use crate::results::published::buffer_pool_instances_2012::BufferPoolInstances2012;
use crate::results::{Cell, Results, Round, Series};
use crate::support::format;
use crate::support::statistics::Spread;

/// The name of the experiment.
pub(crate) const NAME: &str = "buffer-pool-instances-2012";

/// Sync-flush waits per second that the study shows with 8 instances, against none with 1.
const PUBLISHED_WAITS_PER_S: f64 = 3_000.0;
/// The study's gain of 8 instances with db_STRESS.
const PUBLISHED_GAIN: f64 = 1.5;
/// Pages flushed per second with the large redo log, against the small one.
const PUBLISHED_PAGES: f64 = 1_000.0 / 1_500.0;
/// The redo in use of 8 GB, at most.
const PUBLISHED_AGE: f64 = 4.5 / 8.0;
/// A lowest second of this share of the mean is no drop.
const LEVEL: f64 = 0.8;
/// CPUs from which on a machine may stand for the study's larger one.
const MANY_CPUS: u32 = 16;

/// A redo log's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redo {
    /// It does not fill up: measures what the machine writes.
    Free,
    /// As 3 GB in the study.
    Small,
    /// As 8 GB in the study.
    Large,
}

/// How many pages may be written per second for their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// As many as the engine allows by default.
    Unbounded,
    /// More than are needed, as in the study.
    Enough,
    /// Fewer than are needed.
    Below,
}

/// A setting of DBT-2, which is a part of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    pub instances: u32,
    pub redo: Redo,
    pub mode: FlushMode,
    pub pages: Pages,
}

/// The setting that shows how many pages the small redo log needs.
pub(crate) const NEED: Setting =
    Setting { instances: 8, redo: Redo::Small, mode: FlushMode::Adaptive, pages: Pages::Unbounded };
/// The setting that shows how much redo is written.
pub(crate) const FREE: Setting = Setting { redo: Redo::Free, ..NEED };

impl Setting {
    /// The name of its part.
    pub(crate) fn part(&self) -> String {
        format!("dbt2, {}, {}", instances(self.instances), self.without_instances())
    }

    fn without_instances(&self) -> String {
        let redo = match self.redo {
            Redo::Free => "redo log that does not fill up",
            Redo::Small => "small redo log",
            Redo::Large => "large redo log",
        };
        let pages = match self.pages {
            Pages::Unbounded | Pages::Enough => "",
            Pages::Below => ", io_capacity_max below the need",
        };
        format!("{redo}, {}{pages}", self.mode)
    }

    fn cell(self, experiment: &ExperimentResults) -> Option<&Cell> {
        only_cell(experiment.run(&self.part())?)
    }
}

/// The name of the part with db_STRESS and `count` instances.
pub(crate) fn stress(count: u32) -> String {
    format!("db-stress, {}", instances(count))
}

fn instances(count: u32) -> String {
    if count == 1 { "1 instance".into() } else { format!("{count} instances") }
}

/// Redo written per second where the log does not fill up, bytes.
pub(crate) fn redo_bytes_per_s(experiment: &ExperimentResults) -> Option<f64> {
    median(FREE.cell(experiment)?, |round| round.changes.redo_bytes_per_s)
}

/// Pages that the small redo log needs written per second.
pub(crate) fn pages_needed_per_s(experiment: &ExperimentResults) -> Option<f64> {
    median(NEED.cell(experiment)?, pages)
}

/// A part has one setting, so one cell.
fn only_cell(run: &Results) -> Option<&Cell> {
    run.cells.first().filter(|cell| !cell.rounds.is_empty())
}

fn median(cell: &Cell, figure: fn(&Round) -> Option<f64>) -> Option<f64> {
    cell.spread(figure).map(|spread| spread.median)
}

fn transactions(round: &Round) -> Option<f64> {
    Some(round.transactions_per_s)
}

fn lowest(round: &Round) -> Option<f64> {
    round.lowest_second_share
}

fn pages(round: &Round) -> Option<f64> {
    round.disk.disk_writes_per_s
}

fn age(round: &Round) -> Option<f64> {
    round.changes.checkpoint_age_share_max
}

fn waits(round: &Round) -> Option<f64> {
    round.changes.sync_flush_waits.map(|waits| waits as f64 / round.elapsed_s.max(1e-9))
}

/// So that none can be compared with some.
fn waits_and_one(round: &Round) -> Option<f64> {
    waits(round).map(|waits| waits + 1.0)
}

/// The study.
pub(super) struct Instances(BufferPoolInstances2012);

/// Two cells' ratio, round by round, if both were measured.
fn compared(
    experiment: &ExperimentResults,
    (above, below): (Setting, Setting),
    figure: fn(&Round) -> Option<f64>,
) -> Option<Spread> {
    ratio(above.cell(experiment)?, below.cell(experiment)?, figure)
}

/// For "stays under this".
fn under(measured: Option<Spread>, mark: f64) -> Verdict {
    match measured {
        None => Verdict::NotMeasured,
        Some(figure) if figure.count < 2 => Verdict::Inconclusive,
        Some(figure) if figure.max <= mark => Verdict::Holds,
        Some(figure) if figure.min <= mark => Verdict::NoClearDifference,
        Some(_) => Verdict::DoesNotHold,
    }
}

fn sequential(instances: u32, redo: Redo, pages: Pages) -> Setting {
    Setting { instances, redo, mode: FlushMode::Sequential, pages }
}

impl Instances {
    pub(super) fn load() -> Self {
        Instances(BufferPoolInstances2012::load())
    }

    fn stress(&self, experiment: &ExperimentResults) -> Claim {
        let cell = |count| experiment.run(&stress(count)).and_then(only_cell);
        let gain = cell(8).zip(cell(1)).and_then(|(eight, one)| ratio(eight, one, transactions));
        Claim::new(
            &self.0.claims[0],
            "db-stress, transactions/s, 8 instances / 1",
            Some(PUBLISHED_GAIN),
            gain,
            Verdict::of_ratio(gain, PUBLISHED_GAIN),
        )
    }

    fn small(&self, experiment: &ExperimentResults) -> [Claim; 2] {
        let both = (sequential(8, Redo::Small, Pages::Enough), sequential(1, Redo::Small, Pages::Enough));
        let (waited, dropped) =
            (compared(experiment, both, waits_and_one), compared(experiment, both, lowest));
        [
            Claim::new(
                &self.0.claims[1],
                "sequential, small redo log: sync-flush waits/s + 1, 8 instances / 1",
                Some(PUBLISHED_WAITS_PER_S),
                waited,
                Verdict::of_ratio(waited, PUBLISHED_WAITS_PER_S),
            )
            .because(self.waits_in_words(experiment, &[both.0, both.1])),
            Claim::new(
                &self.0.claims[1],
                "sequential, small redo log: lowest second as a share of the mean, 8 instances / 1",
                None,
                dropped,
                Verdict::of_side(dropped, false),
            ),
        ]
    }

    fn large(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let claim = &self.0.claims[2];
        let large = |instances| sequential(instances, Redo::Large, Pages::Enough);
        let spread = |setting: Setting, figure: fn(&Round) -> Option<f64>| {
            setting.cell(experiment).and_then(|cell| cell.spread(figure))
        };
        let mut claims: Vec<Claim> = [1, 8]
            .map(|count| {
                let level = spread(large(count), lowest);
                Claim::new(
                    claim,
                    format!("sequential, large redo log, {}: lowest second / mean", instances(count)),
                    None,
                    level,
                    Verdict::of_constancy(level, LEVEL),
                )
                .because(format!("no drop: {LEVEL} of the mean or more"))
            })
            .into();
        let fewer = compared(experiment, (large(8), sequential(8, Redo::Small, Pages::Enough)), pages);
        let used = spread(large(8), age);
        claims.push(Claim::new(
            claim,
            "sequential, 8 instances: pages written/s, large redo log / small",
            Some(PUBLISHED_PAGES),
            fewer,
            Verdict::of_ratio(fewer, PUBLISHED_PAGES),
        ));
        claims.push(Claim::new(
            claim,
            "sequential, 8 instances, large redo log: highest share in use",
            Some(PUBLISHED_AGE),
            used,
            under(used, PUBLISHED_AGE),
        ));
        claims
    }

    /// About another machine.
    fn larger_machine(&self, experiment: &ExperimentResults) -> Claim {
        let both = (sequential(8, Redo::Small, Pages::Enough), sequential(1, Redo::Small, Pages::Enough));
        let gain = compared(experiment, both, transactions);
        let cores = experiment.machine.cores;
        let (verdict, because) = match (gain, cores >= MANY_CPUS) {
            (None, _) => (Verdict::NotMeasured, String::new()),
            (_, true) => (Verdict::of_side(gain, true), String::new()),
            _ => (Verdict::Inconclusive, format!("the claim is about 32 cores; here are {cores}")),
        };
        let compared = "sequential, small redo log: transactions/s, 8 instances / 1";
        Claim::new(&self.0.claims[3], compared, None, gain, verdict).because(because)
    }

    fn below(&self, experiment: &ExperimentResults) -> [Claim; 2] {
        let both = (sequential(1, Redo::Small, Pages::Below), sequential(1, Redo::Small, Pages::Enough));
        let (waited, dropped) =
            (compared(experiment, both, waits_and_one), compared(experiment, both, lowest));
        [
            Claim::new(
                &self.0.claims[4],
                "sequential, 1 instance: sync-flush waits/s + 1, io_capacity_max below the need / enough",
                None,
                waited,
                Verdict::of_side(waited, true),
            )
            .because(self.waits_in_words(experiment, &[both.0, both.1])),
            Claim::new(
                &self.0.claims[4],
                "sequential, 1 instance: lowest second / mean, io_capacity_max below the need / enough",
                None,
                dropped,
                Verdict::of_side(dropped, false),
            ),
        ]
    }

    /// What the study wishes for, and the engine does.
    fn wanted(&self, experiment: &ExperimentResults) -> [Claim; 2] {
        let pairs = [
            (&self.0.wanted[0], Pages::Unbounded, sequential(8, Redo::Small, Pages::Enough), ""),
            (
                &self.0.wanted[1],
                Pages::Below,
                sequential(8, Redo::Small, Pages::Below),
                ", io_capacity_max below the need",
            ),
        ];
        pairs.map(|(wanted, pages, sequential, what)| {
            let adaptive = Setting { mode: FlushMode::Adaptive, pages, ..sequential };
            let steadier = compared(experiment, (adaptive, sequential), lowest);
            let stops = |cell: &Cell| cell.summary.redo_hard_stops_sum;
            let because = match adaptive.cell(experiment).and_then(stops) {
                None => String::new(),
                Some(stops) => {
                    format!(
                        "{}; hard stops with adaptive: {stops}",
                        self.waits_in_words(experiment, &[adaptive, sequential])
                    )
                }
            };
            Claim::new(
                format!("(wanted there) {wanted}"),
                format!("8 instances, small redo log{what}: lowest second / mean, adaptive / sequential"),
                None,
                steadier,
                Verdict::of_side(steadier, true),
            )
            .because(because)
        })
    }

    /// `sync-flush waits/s: 0 and 1,234`.
    fn waits_in_words(&self, experiment: &ExperimentResults, settings: &[Setting]) -> String {
        let each = settings
            .iter()
            .map(|setting| format::maybe(setting.cell(experiment).and_then(|cell| median(cell, waits))));
        format!("sync-flush waits/s: {}", each.collect::<Vec<_>>().join(" and "))
    }

    /// The settings that were measured, each number of instances after the other.
    fn settings(experiment: &ExperimentResults) -> Vec<Setting> {
        let mut settings = Vec::new();
        for redo in [Redo::Free, Redo::Small, Redo::Large] {
            // A part has the same name with unbounded writes and with enough.
            for pages in [Pages::Enough, Pages::Below] {
                for mode in [FlushMode::Sequential, FlushMode::Adaptive] {
                    settings.extend([1, 2, 4, 8].map(|instances| Setting { instances, redo, mode, pages }));
                }
            }
        }
        settings.retain(|setting| setting.cell(experiment).is_some());
        settings
    }

    /// The numbers of instances of db_STRESS, with their cells.
    fn stressed<'e>(&self, experiment: &'e ExperimentResults) -> Vec<(u32, &'e Cell)> {
        let cell = |&count: &u32| Some((count, only_cell(experiment.run(&stress(count))?)?));
        self.0.instances.iter().filter_map(cell).collect()
    }
}

impl Study for Instances {
    fn about(&self) -> String {
        let title = &self.0.title;
        format!("{}, {}; {}", title.name, title.year, self.0.workload)
    }

    fn claims(&self) -> &[String] {
        &self.0.claims
    }

    fn judge(&self, experiment: &ExperimentResults) -> Vec<Claim> {
        let mut claims = vec![self.stress(experiment)];
        claims.extend(self.small(experiment));
        claims.extend(self.large(experiment));
        claims.push(self.larger_machine(experiment));
        claims.extend(self.below(experiment));
        claims.extend(self.wanted(experiment));
        claims
    }

    fn charts(&self, experiment: &ExperimentResults) -> Vec<Chart> {
        let stressed = self.stressed(experiment);
        let points: Vec<(u32, Spread)> =
            stressed.iter().filter_map(|(count, cell)| Some((*count, cell.spread(transactions)?))).collect();
        if points.len() < 2 {
            return Vec::new();
        }
        let x: Vec<u32> = points.iter().map(|(count, _)| *count).collect();
        let data = vec![lines::measured("here", &points, "transactions/s", 3)];
        let note =
            "db_STRESS, a read for each write; median of the rounds, bars from the lowest to the highest.";
        vec![chart(
            ("By buffer pool instances", note),
            (&x, "instances"),
            (data, "transactions per second"),
            false,
        )]
    }

    fn over_time(&self, experiment: &ExperimentResults) -> Vec<(String, Vec<Stack>)> {
        let measured: Vec<(Setting, &Series)> = Self::settings(experiment)
            .into_iter()
            .filter_map(|setting| Some((setting, setting.cell(experiment)?.series()?)))
            .collect();
        let all: Vec<&Series> = measured.iter().map(|(_, series)| *series).collect();
        let mut groups: Vec<(String, Vec<Stack>)> = Vec::new();
        for ((setting, _), stack) in measured.iter().zip(series::stacks(&all)) {
            let title = setting.without_instances();
            let stack = (instances(setting.instances), stack);
            match groups.last_mut().filter(|(last, _)| *last == title) {
                Some((_, group)) => group.push(stack),
                None => groups.push((title, vec![stack])),
            }
        }
        groups
    }

    fn tables(&self, experiment: &ExperimentResults, style: Style) -> Vec<(String, Table)> {
        let mut dbt2 = table(style);
        dbt2.set_header([
            "DBT-2",
            "instances",
            "redo log",
            "pages/s max",
            "transact/s",
            "lowest second",
            "waits/s",
            "pages/s",
            "age",
            "hard stops",
        ]);
        let percent = |share: Option<f64>| format::percent(share.map(|share| 100.0 * share));
        for setting in Self::settings(experiment) {
            let Some(run) = experiment.run(&setting.part()) else { continue };
            let Some(cell) = only_cell(run) else { continue };
            dbt2.add_row([
                Field::new(setting.mode),
                Field::new(setting.instances),
                Field::new(run.settings.redo_capacity_bytes.map_or("-".into(), format::bytes)),
                Field::new(run.settings.io_capacity_max.map_or("-".into(), |max| format::whole(max.into()))),
                Field::new(format::maybe(median(cell, transactions))),
                Field::new(percent(cell.summary.lowest_second_share_min)),
                Field::new(format::maybe(median(cell, waits))),
                Field::new(format::maybe(median(cell, pages))),
                Field::new(percent(cell.spread(age).map(|age| age.max))),
                Field::new(cell.summary.redo_hard_stops_sum.map_or("-".into(), |stops| stops.to_string())),
            ]);
        }
        let mut stress = table(style);
        stress.set_header(["db-stress, instances", "transact/s", "pages/s"]);
        for (count, cell) in self.stressed(experiment) {
            stress.add_row([
                Field::new(count),
                Field::new(format::with_spread(cell.spread(transactions))),
                Field::new(format::maybe(median(cell, pages))),
            ]);
        }
        vec![
            (
                "Flushing: waits are for sync flushes, the age is the highest share of the redo log".into(),
                right_aligned(dbt2, 1),
            ),
            ("Instances".into(), right_aligned(stress, 0)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::golden;
    use crate::report::Report as _;
    use crate::report::experiment::{ExperimentReport, fixture};

    /// (transactions/s, lowest second, waits/s) as published.
    fn as_published(setting: Option<Setting>, count: u32) -> (f64, f64, u64) {
        let Some(setting) = setting else { return (1_000.0 + 72.0 * f64::from(count), 0.95, 0) };
        match (setting.mode, setting.redo, setting.pages, setting.instances) {
            (FlushMode::Adaptive, ..) => (6_000.0, 0.95, 0),
            (_, _, Pages::Below, _) => (4_000.0, 0.1, 2_000),
            (_, Redo::Small, _, 8) => (5_000.0, 0.2, 3_000),
            _ => (5_500.0, 0.95, 0),
        }
    }

    fn verdicts(experiment: &ExperimentResults) -> Vec<Verdict> {
        Instances::load().judge(experiment).iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn every_claim_can_hold_and_can_fail() {
        let holds = fixture::buffer_pool_instances_2012(as_published);
        let mut expected = [Verdict::Holds; 12];
        // Two CPUs are no large machine.
        expected[7] = Verdict::Inconclusive;
        assert_eq!(verdicts(&holds), expected, "{:#?}", holds.claims);
        let fails = fixture::buffer_pool_instances_2012(|setting, count| {
            let Some(setting) = setting else { return (2_000.0 - 72.0 * f64::from(count), 0.95, 0) };
            match (setting.mode, setting.redo, setting.pages, setting.instances) {
                (FlushMode::Adaptive, ..) => (6_000.0, 0.05, 7),
                (_, Redo::Large, ..) => (6_000.0, 0.3, 10),
                (_, _, Pages::Below, _) => (4_000.0, 0.9, 0),
                (_, Redo::Small, _, 8) => (5_000.0, 0.9, 0),
                _ => (5_500.0, 0.2, 50),
            }
        });
        let verdicts = verdicts(&fails);
        for (index, verdict) in verdicts.iter().enumerate().filter(|(index, _)| ![5, 6, 7].contains(index)) {
            assert_eq!(*verdict, Verdict::DoesNotHold, "{}: {:#?}", index, fails.claims[index]);
        }
    }

    #[test]
    fn sizes_follow_from_what_was_measured() {
        let experiment = fixture::buffer_pool_instances_2012(as_published);
        assert_eq!(redo_bytes_per_s(&experiment), Some(10e6));
        assert_eq!(pages_needed_per_s(&experiment), Some(1_500.0));
        assert_eq!(redo_bytes_per_s(&ExperimentResults::default()), None);
        assert!(
            verdicts(&ExperimentResults::default()).iter().all(|verdict| *verdict == Verdict::NotMeasured)
        );
    }

    #[test]
    fn graphs_stand_one_above_the_other_and_instances_beside_each_other() {
        let experiment = fixture::buffer_pool_instances_2012(as_published);
        let groups = Instances::load().over_time(&experiment);
        let small = groups.iter().find(|(title, _)| title == "small redo log, sequential").unwrap();
        let titles: Vec<&str> = small.1.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["1 instance", "8 instances"]);
        assert!(small.1.iter().all(|(_, stack)| stack.len() == 5));
        let report = ExperimentReport { results: &experiment };
        let page = report.html().unwrap();
        assert!(page.contains("Checkpoint age, MiB") && page.contains("class=\"stack\""));
        golden("experiment-buffer-pool-instances-2012", &report.text(Style { colour: false, width: 120 }));
    }
}
