//! A made-up run with every key: for tests, and for viewing a page without measuring first. The shapes are those of a
//! small machine; no figure in it was measured.

use crate::results::{
    AdmissionFigures, CellKey, ChangeFigures, DiskFigures, EngineSecond, EntryFigures, Failure, Fairness,
    HostFigures, KindFigures, Machine, PerSecond, RefusalFigures, Results, Round, Samples, Second,
    ServerFigures, Settings, Variable,
};

const ROUNDS: u32 = 5;

/// Two workloads, three policies, 1 to 1024 connections, five rounds.
pub fn results() -> Results {
    let machine = Machine {
        cpu_model: "Made-up CPU @ 2.50GHz".into(),
        cores: 2,
        memory_bytes: 8 << 30,
        kernel: "Linux 6.1.0".into(),
        file_system: "ext4".into(),
        flifo_version: "0.1.0".into(),
    };
    let settings = Settings {
        rows: 2_000_000,
        range_size: 1000,
        seed: 1,
        rounds: ROUNDS,
        round_s: 2.0,
        warmup_s: 0.5,
        buffer_pool_bytes: 1 << 30,
        buffer_pool_instances: 4,
        data_files: 4,
        page_size_bytes: 16_384,
        direct_io: true,
        ..Settings::default()
    };
    let mut results = Results::new(
        machine,
        settings,
        "flifo sweep --policy none,fifo,flifo --rounds 5 <made up>".into(),
        "2026-01-31T12:00:00Z".into(),
    );
    results.elapsed_s = 330.5;
    for (workload, scale) in [("point-select", 1.0), ("read-only", 0.05)] {
        for round in 0..ROUNDS {
            for threads in (0..=10).map(|power| 1u32 << power) {
                for policy in ["none", "fifo", "flifo"] {
                    let key = CellKey {
                        target: "engine".into(),
                        workload: workload.into(),
                        front: "socket".into(),
                        policy: policy.into(),
                        concurrency: if policy == "none" { 0 } else { 4 },
                        tickets: 5000,
                        threads,
                        leave_on_read: true,
                        ..CellKey::default()
                    };
                    results.cell_mut(&key).push(measure(policy, threads, round, scale));
                }
            }
        }
    }
    results
}

/// A made-up sweep of a server: two workloads, two policies, three rounds, one of which failed.
pub fn server() -> Results {
    let made_up = results();
    let variable = |(name, value): (&str, &str)| Variable { name: name.into(), value: value.into() };
    let settings = Settings {
        data_files: 0,
        rounds: 3,
        round_s: 5.0,
        warmup_s: 2.5,
        read_write_range_size: 100,
        server_address: "unix:/made/up.sock?user=app&db=sbtest".into(),
        server_version: "10.11.6-MariaDB".into(),
        server_variables: [
            ("innodb_flush_log_at_trx_commit", "2"),
            ("thread_handling", "one-thread-per-connection"),
        ]
        .map(variable)
        .into(),
        client_threads: 2,
        ..made_up.settings
    };
    let mut results = Results::new(
        made_up.machine,
        settings,
        "flifo sweep --target unix:/made/up.sock <made up>".into(),
        "2026-01-31T12:00:00Z".into(),
    );
    results.elapsed_s = 180.5;
    for round in 0..3 {
        for threads in [16, 256, 1024] {
            for workload in ["hot-rows-100", "read-write"] {
                for policy in ["none", "quantum"] {
                    let key = CellKey {
                        target: "server".into(),
                        workload: workload.into(),
                        front: "prepared".into(),
                        policy: policy.into(),
                        concurrency: if policy == "none" { 0 } else { 4 },
                        tickets: 0,
                        threads,
                        leave_on_read: true,
                        ..CellKey::default()
                    };
                    let cell = results.cell_mut(&key);
                    if (round, threads, workload, policy) == (2, 256, "hot-rows-100", "quantum") {
                        let reason = "connection 7 was lost: the server closed it".into();
                        cell.failures.push(Failure { round, reason });
                    } else {
                        cell.push(server_round(policy, threads, round));
                    }
                }
            }
        }
    }
    results
}

fn server_round(policy: &str, threads: u32, round: u32) -> Round {
    let collapse = if policy == "none" { 1.0 + f64::from(threads) / 100.0 } else { 1.0 };
    let mut measured = measure("flifo", threads, round, 0.5 / collapse);
    let per_s = measured.throughput_per_s;
    measured.server = ServerFigures {
        server_elapsed_s: Some(5.01),
        server_statements_per_s: Some(per_s * 1.001),
        server_selects_per_s: Some(per_s * 0.7),
        server_updates_per_s: Some(per_s * 0.1),
        server_inserts_per_s: Some(per_s * 0.05),
        server_deletes_per_s: Some(per_s * 0.05),
        server_commits_per_s: Some(per_s * 0.05),
        server_row_lock_waits_per_s: Some(per_s * 0.02),
        server_cpu_us_per_statement: Some(40.0 * collapse),
        server_context_switches_per_statement: Some(2.0 * collapse),
        client_cpu_us_per_statement: Some(7.0),
    };
    measured.refusals = RefusalFigures {
        retries: Some(4),
        write_conflicts: None,
        deadlocks: Some(3),
        lock_wait_timeouts: Some(1),
        statement_timeouts: Some(0),
        queue_full_refusals: Some(0),
        other_refusals: Some(0),
    };
    // The plugin's counters, but no times of W and S.
    measured.admission = AdmissionFigures {
        admitted: measured.admission.admitted,
        admitted_from_queue: measured.admission.admitted_from_queue,
        ..AdmissionFigures::default()
    };
    measured.disk = DiskFigures::default();
    measured
}

/// Statements per second as a function of connections, and switches per statement.
fn shape(policy: &str, threads: u32) -> (f64, f64) {
    let n = f64::from(threads);
    let rise = 66_000.0 * n / (n + 1.1);
    let power = n.log2();
    match policy {
        "fifo" => (rise * (1.0 - 0.038 * (power - 4.0).max(0.0).powf(1.25)), 2.1 + 0.16 * power),
        "flifo" => (rise * (1.0 - 0.005 * (power - 4.0).max(0.0)), 1.9 - 0.03 * power),
        _ => (rise * (1.0 - 0.026 * (power - 5.0).max(0.0)), 2.0),
    }
}

fn measure(policy: &str, threads: u32, round: u32, scale: f64) -> Round {
    // Noise without a random generator: up to 3 % up or down, the same in every run.
    let mixed = (u64::from(threads) * 1000 + u64::from(round) * 10 + policy.len() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let jitter = ((mixed >> 40) % 1000) as f64 / 1000.0 - 0.5;
    let (shape_per_s, switches) = shape(policy, threads);
    let throughput = shape_per_s * scale * (1.0 + 0.06 * jitter);
    let elapsed_s = 2.0;
    let statements = (throughput * elapsed_s) as u64;
    let host = HostFigures {
        context_switches_per_s: Some(throughput * switches),
        cpu_user: Some(42.0 + 2.0 * jitter),
        cpu_system: Some(48.0 - 2.0 * jitter),
        cpu_idle: Some(7.0),
        cpu_iowait: Some(1.0),
        cpu_steal: Some(2.0),
        cpu_server: Some(58.0),
        cpu_client: Some(30.0),
        run_queue: Some(if policy == "none" { f64::from(threads).sqrt() + 2.0 } else { 5.0 }),
        run_queue_max: Some(threads.min(40)),
    };
    let seconds = (1..=2).map(|at| second(f64::from(at), &host)).collect();
    let mut measured = Round::new(round, elapsed_s, statements, 0, Samples { seconds, totals: host });
    let p50_ms = f64::from(threads) * 1000.0 / throughput;
    measured.p50_ms = Some(p50_ms);
    measured.p95_ms = Some(p50_ms * 1.9);
    measured.p99_ms = Some(p50_ms * 3.0);
    measured.max_ms = Some(p50_ms * if policy == "flifo" { 14.0 } else { 8.0 } + 2.0);
    measured.transactions = if scale < 1.0 { statements / 14 } else { statements };
    measured.transactions_per_s = measured.transactions as f64 / elapsed_s;
    measured.admission = admission(policy, threads, statements, jitter);
    let mean = statements / u64::from(threads);
    measured.fairness = Fairness {
        connection_statements_min: Some(mean * 8 / 10),
        connection_statements_max: Some(mean * 12 / 10),
        connection_fewest_share: Some(0.8),
        connection_most_share: Some(1.2),
        connection_variation: Some(if policy == "flifo" { 0.14 } else { 0.05 }),
    };
    measured.disk = DiskFigures {
        disk_reads_per_s: Some(120.0),
        disk_writes_per_s: Some(0.0),
        disk_read_p50_us: Some(90.0),
        disk_read_p99_us: Some(400.0),
        free_frame_waits_per_s: Some(0.0),
    };
    measured
}

fn second(at_s: f64, host: &HostFigures) -> Second {
    Second {
        at_s,
        throughput_per_s: None,
        transactions_per_s: None,
        context_switches_per_s: host.context_switches_per_s,
        cpu_user: host.cpu_user,
        cpu_system: host.cpu_system,
        cpu_idle: host.cpu_idle,
        cpu_iowait: host.cpu_iowait,
        cpu_steal: host.cpu_steal,
        cpu_server: host.cpu_server,
        cpu_client: host.cpu_client,
        run_queue: host.run_queue_max,
        engine: Some(EngineSecond {
            disk_reads_per_s: Some(900.0),
            purged_per_s: Some(80.0),
            ..EngineSecond::default()
        }),
    }
}

fn admission(policy: &str, threads: u32, statements: u64, jitter: f64) -> AdmissionFigures {
    let none = policy == "none";
    let waiting = !none && threads > 4;
    let wake = |us: f64| waiting.then_some(us * (1.0 + 0.1 * jitter));
    AdmissionFigures {
        admitted: Some(statements),
        admitted_at_once: Some(if waiting { statements / 2 } else { statements }),
        admitted_by_ticket: Some(0),
        admitted_by_barging: Some(if policy == "flifo" && waiting { statements / 3 } else { 0 }),
        admitted_from_queue: Some(if waiting { statements / 2 } else { 0 }),
        admitted_by_force: Some(0),
        handed_off: Some(if waiting { statements / 2 } else { 0 }),
        slots_reclaimed: Some(0),
        slots_max: Some(if none { threads } else { 6.min(threads) }),
        pending_max: Some(if waiting { 3 } else { 0 }),
        queued_max: Some(if none { 0 } else { threads.saturating_sub(4) }),
        woken_to_running_p50_us: wake(9.0 + f64::from(threads).log2()),
        woken_to_running_p95_us: wake(40.0),
        woken_to_running_p99_us: wake(95.0),
        running_p50_us: Some(16.0 * (1.0 + 0.05 * jitter)),
        running_p95_us: Some(31.0),
        running_p99_us: Some(60.0),
        queued_p50_us: wake(f64::from(threads) * 13.0),
        queued_p95_us: wake(f64::from(threads) * 24.0),
        queued_p99_us: wake(f64::from(threads) * 35.0),
        queued_max_us: wake(f64::from(threads) * 80.0),
    }
}

/// A made-up sweep of the engine with workloads that write.
pub fn writing() -> Results {
    let mut results = results();
    results.command_line = "flifo sweep --workload hot-rows-100,read-write <made up>".into();
    results.settings.flush_log_at_trx_commit = Some(2);
    results.settings.redo_capacity_bytes = Some(128 << 20);
    results.settings.rollback_segments = Some(16);
    results.settings.doublewrite = Some(true);
    for cell in &mut results.cells {
        let is_single = cell.key.workload == "point-select";
        cell.key.workload = if is_single { "hot-rows-100".into() } else { "read-write".into() };
        let rounds = std::mem::take(&mut cell.rounds);
        rounds.into_iter().for_each(|round| cell.push(with_changes(round)));
    }
    results
}

/// A made-up run of DBT-2: of five transactions four are new orders.
pub fn kinds() -> Results {
    let mut results = writing();
    results.command_line = "flifo dbt2 <made up>".into();
    results.cells.retain(|cell| cell.key.workload == "read-write");
    results.settings.warehouses = Some(10);
    results.settings.mix = "45,43,4,4,4".into();
    results.settings.think_time_factor = Some(0.0);
    results.settings.quirks = Some(false);
    (results.settings.range_size, results.settings.read_write_range_size) = (0, 0);
    results.settings.statement_work_us = 0;
    for cell in &mut results.cells {
        cell.key.workload = "dbt2".into();
        cell.key.front = "direct".into();
        for round in &mut cell.rounds {
            let kind = |name: &str, share: f64, p50_ms: f64| KindFigures {
                kind: name.into(),
                committed: (round.transactions as f64 * share) as u64,
                rolled_back: 3,
                retries: 2,
                transactions_per_s: round.transactions_per_s * share,
                share: Some(share),
                p50_ms: Some(p50_ms),
                p95_ms: Some(2.0 * p50_ms),
                p99_ms: Some(3.0 * p50_ms),
                max_ms: Some(9.0 * p50_ms),
            };
            round.kinds = vec![kind("new-order", 0.8, 4.0), kind("payment", 0.2, 1.0)];
            round.new_orders_per_minute = Some(round.transactions_per_s * 0.8 * 60.0);
        }
    }
    results
}

fn with_changes(mut round: Round) -> Round {
    let per_s = round.transactions_per_s;
    round.changes = ChangeFigures {
        commits_per_s: Some(per_s),
        rollbacks: Some(12),
        redo_bytes_per_s: Some(per_s * 900.0),
        log_syncs_per_s: Some(1.0),
        log_wait_p50_us: Some(80.0),
        log_wait_p99_us: Some(400.0),
        checkpoint_age_bytes: Some(60 << 20),
        checkpoint_age_share_max: Some(0.52),
        redo_hard_stops: Some(0),
        redo_holds: Some(3),
        history_length: Some(1500),
        row_lock_waits: Some(700),
        row_lock_wait_p50_us: Some(50.0),
        row_lock_wait_p99_us: Some(900.0),
        row_lock_deadlocks: Some(4),
        dirty_pages: Some(9000),
    };
    round.refusals = RefusalFigures {
        retries: Some(12),
        deadlocks: Some(4),
        lock_wait_timeouts: Some(0),
        write_conflicts: Some(8),
        ..RefusalFigures::default()
    };
    let second = (per_s * 0.95) as u64;
    let counted = [
        PerSecond { statements: second, transactions: second },
        PerSecond {
            statements: round.statements.saturating_sub(second),
            transactions: round.transactions.saturating_sub(second),
        },
    ];
    round.with_seconds(&counted)
}

/// A made-up bench: two loads, two policies and three peers, two limits, 16 to 4096 threads, three rounds.
pub fn bench() -> Results {
    let made_up = results();
    let settings = Settings { seed: 1, rounds: 3, round_s: 0.5, warmup_s: 0.125, ..Settings::default() };
    let mut results = Results::new(
        made_up.machine,
        settings,
        "flifo bench admission --concurrency 4,8 <made up>".into(),
        "2026-01-31T12:00:00Z".into(),
    );
    results.elapsed_s = 61.5;
    let variants = [
        ("admission", "fifo"),
        ("admission", "flifo"),
        ("peer", "tokio"),
        ("peer", "mutex-condvar"),
        ("peer", "none"),
    ];
    for round in 0..3 {
        for threads in [16, 256, 1024, 4096] {
            for load in ["work-20", "hot-row"] {
                for limit in [4, 8] {
                    for (target, policy) in variants {
                        let is_unlimited = policy == "none";
                        if is_unlimited && limit != 4 {
                            continue;
                        }
                        let key = CellKey {
                            target: target.into(),
                            load: load.into(),
                            front: "direct".into(),
                            policy: policy.into(),
                            concurrency: if is_unlimited { 0 } else { limit },
                            tickets: 1,
                            threads,
                            leave_on_read: true,
                            ..CellKey::default()
                        };
                        results.cell_mut(&key).push(bench_round(policy, target, threads, round));
                    }
                }
            }
        }
    }
    results
}

fn bench_round(policy: &str, target: &str, threads: u32, round: u32) -> Round {
    let scale = match policy {
        "tokio" => 0.85,
        "mutex-condvar" => 0.7,
        "none" => 1.2 / (1.0 + f64::from(threads) / 500.0),
        _ => 1.0,
    };
    // The made-up sweep ends at 1024 connections; its curves are smooth, so a quarter of the way serves.
    let shaped = if target == "peer" { "fifo" } else { policy };
    let mut measured = measure(shaped, threads / 4, round, scale);
    let wait_us = f64::from(threads) * 12.0;
    measured.entry = EntryFigures {
        enter_p50_us: Some(wait_us),
        enter_p95_us: Some(wait_us * 2.0),
        enter_p99_us: Some(wait_us * 3.0),
        enter_p999_us: Some(wait_us * 4.0),
        enter_max_us: Some(wait_us * if policy == "fifo" { 5.0 } else { 10.0 }),
        enter_max_rotations: (target == "admission").then_some(if policy == "fifo" { 1.25 } else { 2.5 }),
        limit: None,
        running_max: None,
    };
    measured.fairness.connection_fewest_share = Some(if policy == "flifo" { 0.4 } else { 0.9 });
    if target == "peer" {
        measured.admission = AdmissionFigures::default();
    }
    measured
}

/// A report holds these texts, and its tables are no wider than they may be.
#[cfg(test)]
pub(crate) fn assert_fits(report: &str, style: crate::report::Style) {
    let tables = report.lines().filter(|line| line.contains('─') || line.starts_with('│'));
    let widest = tables.map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= usize::from(style.width), "{widest}\n{report}");
}
