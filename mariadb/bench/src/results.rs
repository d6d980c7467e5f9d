//! All that a run found, as `--json` writes it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use flifo::results::Machine;
use flifo::support::clock;
use flifo::support::interrupt;
use flifo::support::statistics::{Spread, paired_ratio};
use serde::Serialize;

use crate::Result;
use crate::measure::Figures;
use crate::plan::{Plan, What};
use crate::run::say;
use crate::settings::Settings;
use crate::sysbench;
use crate::variant::{Kind, Variant};
use crate::workload::Workload;

/// The version of the layout. Keys may be added; a key that is renamed or dropped needs a new version.
pub const SCHEMA: u32 = 3;

/// The run behind a file of results: these keys are in each.
#[derive(Debug, Clone, Serialize)]
pub struct RunHead {
    pub schema: u32,
    pub command_line: String,
    pub started_at: String,
    pub elapsed_s: f64,
    pub interrupted: bool,
    pub machine: Machine,
    pub server_version: String,
    pub sysbench_version: String,
    pub notes: Vec<String>,
    #[serde(skip)]
    begun: Instant,
}

/// A run, whatever way it measured: `C` is what is kept of each workload and number of connections.
#[derive(Debug, Clone, Serialize)]
pub struct Results<C = Cell> {
    #[serde(flatten)]
    pub run: RunHead,
    pub what: What,
    pub settings: Settings,
    /// The server's options that all have, by name.
    pub server_options: Vec<(String, String)>,
    pub variants: Vec<Variant>,
    /// In the order in which they were first measured.
    pub cells: Vec<C>,
}

/// One variant at one workload and number of connections.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    #[serde(serialize_with = "by_name")]
    pub workload: Workload,
    pub connections: u32,
    pub variant: String,
    pub throughput_median_per_s: Option<f64>,
    pub rounds: Vec<Figures>,
}

pub(crate) fn by_name<S: serde::Serializer>(
    workload: &Workload,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&workload.name())
}

impl RunHead {
    /// A run that begins now.
    pub fn begin(command_line: String) -> Result<RunHead> {
        Ok(RunHead { sysbench_version: sysbench::version()?, ..RunHead::without_clients(command_line) })
    }

    /// The same without a look at sysbench.
    pub fn without_clients(command_line: String) -> RunHead {
        RunHead {
            schema: SCHEMA,
            command_line,
            started_at: clock::utc_now(),
            elapsed_s: 0.0,
            interrupted: false,
            machine: flifo::measure::sampler::machine(&std::env::temp_dir()),
            server_version: String::new(),
            sysbench_version: String::new(),
            notes: Vec::new(),
            begun: Instant::now(),
        }
    }

    /// Versions, machine and time, for the head of a report.
    pub(crate) fn described(&self) -> String {
        let Machine { cpu_model, cores, kernel, .. } = &self.machine;
        let versions = format!("{}, {}", self.server_version, self.sysbench_version);
        format!("{versions}; {cpu_model}, {cores} cores, {kernel}, {}", self.started_at)
    }

    /// Time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Notes the run's end. An interrupt is no error.
    pub(crate) fn end(&mut self) {
        self.interrupted = interrupt::is_requested();
        self.elapsed_s = self.elapsed().as_secs_f64();
    }

    /// Shows a note, and keeps it.
    pub(crate) fn note(&mut self, note: String) {
        say(&note);
        self.notes.push(note);
    }
}

impl<C> Results<C> {
    /// Before anything is measured.
    pub(crate) fn begin(plan: &Plan, run: RunHead) -> Results<C> {
        Results {
            run,
            what: plan.what,
            server_options: plan.settings.server(),
            settings: plan.settings.clone(),
            variants: plan.variants.clone(),
            cells: Vec::new(),
        }
    }

    /// The variant by which the others are divided.
    pub(crate) fn base(&self) -> usize {
        self.variants.iter().position(|variant| variant.kind == Kind::Stock).unwrap_or(0)
    }
}

impl Results {
    pub fn push(&mut self, (workload, connections, variant): (Workload, u32, &str), figures: Figures) {
        let found = self.cells.iter().position(|cell| cell.is(workload, connections, variant));
        let index = found.unwrap_or_else(|| {
            self.cells.push(Cell {
                workload,
                connections,
                variant: variant.to_owned(),
                throughput_median_per_s: None,
                rounds: Vec::new(),
            });
            self.cells.len() - 1
        });
        let cell = &mut self.cells[index];
        cell.rounds.push(figures);
        cell.throughput_median_per_s = cell.spread(throughput).map(|spread| spread.median);
    }

    pub fn cell(&self, workload: Workload, connections: u32, variant: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.is(workload, connections, variant))
    }

    /// What the others are compared with: the first of its kind.
    pub fn first_of(&self, kind: Kind) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.kind == kind)
    }

    /// In the order of the first round.
    pub fn workloads(&self) -> Vec<Workload> {
        let mut workloads = Vec::new();
        for cell in &self.cells {
            if !workloads.contains(&cell.workload) {
                workloads.push(cell.workload);
            }
        }
        workloads
    }

    /// Ascending.
    pub fn connections(&self) -> Vec<u32> {
        ascending(self.cells.iter().map(|cell| cell.connections))
    }

    /// A figure of one variant divided by another's, round by round.
    pub fn ratio(
        &self,
        (workload, connections): (Workload, u32),
        (name, base): (&str, &str),
        figure: impl Fn(&Figures) -> f64,
    ) -> Option<Spread> {
        let (a, b) = (self.cell(workload, connections, name)?, self.cell(workload, connections, base)?);
        paired_ratio(&a.by_round(&figure), &b.by_round(&figure))
    }

    /// A variant's throughput divided by that at its own peak, round by round.
    pub fn against_its_peak(&self, workload: Workload, connections: u32, name: &str) -> Option<Spread> {
        let own = |cell: &&Cell| cell.workload == workload && cell.variant == name;
        let median = |cell: &Cell| cell.throughput_median_per_s.unwrap_or(0.0);
        let peak = self.cells.iter().filter(own).max_by(|a, b| median(a).total_cmp(&median(b)))?;
        let cell = self.cell(workload, connections, name)?;
        paired_ratio(&cell.by_round(&throughput), &peak.by_round(&throughput))
    }
}

impl Cell {
    fn is(&self, workload: Workload, connections: u32, variant: &str) -> bool {
        self.workload == workload && self.connections == connections && self.variant == variant
    }

    pub fn spread(&self, figure: impl Fn(&Figures) -> f64) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(figure))
    }

    pub(crate) fn by_round(&self, figure: &impl Fn(&Figures) -> f64) -> Vec<(u32, f64)> {
        self.rounds.iter().map(|figures| (figures.round, figure(figures))).collect()
    }
}

/// The different numbers, ascending.
pub(crate) fn ascending(numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    numbers.collect::<BTreeSet<u32>>().into_iter().collect()
}

pub fn throughput(figures: &Figures) -> f64 {
    figures.throughput_per_s
}
