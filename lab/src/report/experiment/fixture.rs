//! Made-up experiments for tests; no figure in them was measured.

use super::{buffer_pool_instances_2012, flifo_2009, kernel_mutex_2011, thread_concurrency_2009};
use crate::report::sweep::fixture::series;
use crate::results::experiment::{ExperimentResults, Part};
use crate::results::{
    AdmissionFigures, CellKey, ChangeFigures, DiskFigures, HostFigures, Machine, Results, Round, Settings,
};

const ROUNDS: u32 = 3;

fn machine() -> Machine {
    Machine {
        cpu_model: "Made-up CPU @ 2.50GHz".into(),
        cores: 2,
        memory_bytes: 8 << 30,
        kernel: "Linux 6.1.0".into(),
        file_system: "ext4".into(),
        flifo_version: "0.1.0".into(),
    }
}

fn key(workload: &str, specimen: &str, limit: u32, threads: u32) -> CellKey {
    CellKey {
        target: "engine".into(),
        workload: workload.into(),
        specimen: specimen.into(),
        front: "socket".into(),
        policy: if limit == 0 { "none".into() } else { "fifo".into() },
        concurrency: limit,
        tickets: 500,
        threads,
        leave_on_read: true,
        ..CellKey::default()
    }
}

/// A run whose rounds scatter by a hundredth around `round`.
fn run(cells: Vec<(CellKey, Round)>) -> Results {
    let settings = Settings { rows: 200_000, rounds: ROUNDS, round_s: 0.4, ..Settings::default() };
    let mut results = Results::new(machine(), settings, "flifo sweep".into(), "2026-01-31T12:00:00Z".into());
    for (key, middle) in cells {
        for round in 0..ROUNDS {
            let jitter = 1.0 + 0.01 * (f64::from(round) - 1.0);
            let throughput_per_s = middle.throughput_per_s * jitter;
            results.cell_mut(&key).push(Round { round, throughput_per_s, ..middle.clone() });
        }
    }
    results
}

fn experiment(name: &str, parts: Vec<(&str, Results)>) -> ExperimentResults {
    let line = format!("flifo experiment {name} --quick");
    let mut experiment = ExperimentResults::new(name, "quick", line, "2026-01-31T12:00:00Z".into());
    experiment.machine = machine();
    experiment.elapsed_s = 60.0;
    experiment.parts =
        parts.into_iter().map(|(name, run)| Part { name: name.into(), run: Some(run) }).collect();
    experiment.claims = super::judge(&experiment);
    experiment
}

/// `figures` of (flifo or fifo, threads): statements/s, context switches/s, most slots in use.
pub fn flifo_2009(figures: impl Fn(bool, u32) -> (f64, f64, u32)) -> ExperimentResults {
    let mut cells = Vec::new();
    for specimen in ["", "kernel-mutex-20"] {
        for threads in [1, 16, 64, 256, 1024] {
            for (policy, limit) in [("fifo", 32), ("flifo", 16)] {
                let (throughput_per_s, switches, slots) = figures(policy == "flifo", threads);
                let host = HostFigures {
                    context_switches_per_s: Some(switches),
                    run_queue: Some(12.0),
                    cpu_user: Some(70.0),
                    cpu_system: Some(20.0),
                    cpu_idle: Some(10.0),
                    cpu_iowait: Some(0.0),
                    ..HostFigures::default()
                };
                let admission = AdmissionFigures { slots_max: Some(slots), ..AdmissionFigures::default() };
                let key = CellKey { policy: policy.into(), ..key("read-only", specimen, limit, threads) };
                cells.push((key, Round { throughput_per_s, host, admission, ..Round::default() }));
            }
        }
    }
    experiment(flifo_2009::NAME, vec![(flifo_2009::PART, run(cells))])
}

/// `figures` of (specimen, limit, threads): statements/s, context switches per statement.
pub fn kernel_mutex_2011(figures: impl Fn(&str, u32, u32) -> (f64, f64)) -> ExperimentResults {
    let cell = |specimen: &str, limit, threads| {
        let (throughput_per_s, switches) = figures(specimen, limit, threads);
        let context_switches_per_statement = Some(switches);
        let round = Round { throughput_per_s, context_switches_per_statement, ..Round::default() };
        (key("point-select", specimen, limit, threads), round)
    };
    let threads = [1, 16, 64, 256, 1024];
    let mut limits = Vec::new();
    let mut spins = Vec::new();
    for threads in threads {
        limits.extend([0, 4, 8, 16, 32, 64].map(|limit| cell("kernel-mutex-30", limit, threads)));
        for specimen in ["kernel-mutex-0", "kernel-mutex-30", "kernel-mutex-200", "kernel-futex"] {
            spins.extend([0, 8].map(|limit| cell(specimen, limit, threads)));
        }
    }
    let parts = vec![(kernel_mutex_2011::LIMITS, run(limits)), (kernel_mutex_2011::SPINS, run(spins))];
    experiment(kernel_mutex_2011::NAME, parts)
}

/// `figure` of (part, workload, limit, threads): statements/s.
pub fn thread_concurrency_2009(figure: impl Fn(&str, &str, u32, u32) -> f64) -> ExperimentResults {
    use thread_concurrency_2009::{HALF_CPUS, NAME, ONE_SEGMENT, SPLIT};
    let part = |part: &'static str| {
        let mut cells = Vec::new();
        for workload in ["read-only", "read-write"] {
            for threads in [16, 64, 256] {
                for limit in [0, 1, 2, 4, 8, 16, 24, 32] {
                    let throughput_per_s = figure(part, workload, limit, threads);
                    let round = Round { throughput_per_s, ..Round::default() };
                    cells.push((key(workload, "", limit, threads), round));
                }
            }
        }
        (part, run(cells))
    };
    experiment(NAME, [ONE_SEGMENT, SPLIT, HALF_CPUS].map(part).into())
}

/// `figures` of (setting of dbt2, or none for db-stress; instances): transactions/s, lowest second as a share of the mean,
/// sync-flush waits/s.
pub fn buffer_pool_instances_2012(
    figures: impl Fn(Option<buffer_pool_instances_2012::Setting>, u32) -> (f64, f64, u64),
) -> ExperimentResults {
    use buffer_pool_instances_2012::{FREE, NAME, NEED, Pages, Redo, Setting, stress};
    use flifo_engine::FlushMode::Sequential;
    let part = |setting: Option<Setting>, count: u32, workload: &str| {
        let (transactions_per_s, lowest, waits) = figures(setting, count);
        let is_large = setting.is_some_and(|setting| setting.redo == Redo::Large);
        let elapsed_s = 3.0;
        let round = Round {
            elapsed_s,
            throughput_per_s: transactions_per_s * 30.0,
            transactions_per_s,
            lowest_second_share: Some(lowest),
            disk: DiskFigures {
                disk_writes_per_s: Some(if is_large { 1_000.0 } else { 1_500.0 }),
                ..DiskFigures::default()
            },
            changes: ChangeFigures {
                commits_per_s: Some(transactions_per_s),
                redo_bytes_per_s: Some(10e6),
                sync_flush_waits: Some(waits * 3),
                checkpoint_age_share_max: Some(if is_large { 0.5 } else { 0.84 }),
                redo_hard_stops: Some(0),
                ..ChangeFigures::default()
            },
            series: Some(series(transactions_per_s as u64 / 5, waits)),
            ..Round::default()
        };
        let mut measured = run(vec![(CellKey { front: "direct".into(), ..key(workload, "", 0, 40) }, round)]);
        for cell in &mut measured.cells {
            let rounds = std::mem::take(&mut cell.rounds);
            rounds.into_iter().for_each(|round| cell.push(round));
        }
        measured.settings.redo_capacity_bytes = Some(if is_large { 40 << 20 } else { 15 << 20 });
        measured.settings.io_capacity_max = Some(2_000);
        measured
    };
    let mut settings =
        vec![FREE, NEED, Setting { instances: 1, ..NEED }, Setting { pages: Pages::Below, ..NEED }];
    for (redo, pages) in
        [(Redo::Small, Pages::Enough), (Redo::Small, Pages::Below), (Redo::Large, Pages::Enough)]
    {
        settings.extend([1, 8].map(|instances| Setting { instances, redo, mode: Sequential, pages }));
    }
    let mut parts: Vec<(String, Results)> = settings
        .into_iter()
        .map(|setting| (setting.part(), part(Some(setting), setting.instances, "dbt2")))
        .collect();
    parts.extend([1, 2, 4, 8].map(|count| (stress(count), part(None, count, "db-stress"))));
    let named = parts.iter().map(|(name, run)| (name.as_str(), run.clone())).collect();
    experiment(NAME, named)
}
