//! Made-up experiments for tests; no figure in them was measured.

use super::{flifo_2009, kernel_mutex_2011, thread_concurrency_2009};
use crate::results::experiment::{ExperimentResults, Part};
use crate::results::{AdmissionFigures, CellKey, HostFigures, Machine, Results, Round, Settings};

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
