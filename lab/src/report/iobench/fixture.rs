//! Made-up runs with every key: for tests, and for viewing a page without measuring first. The shapes follow the study
//! of 2012; no figure in them was measured.

use crate::results::io::{
    BlockLayer, IoCell, IoKey, IoLatency, IoResults, IoRound, IoSettings, SCHEMA, Storage,
};
use crate::results::{Failure, Machine};

const ROUNDS: u32 = 3;

/// A run without cells on a disk that does not exist.
pub fn empty(filesystem: &str) -> IoResults {
    IoResults {
        schema: SCHEMA,
        kind: "iobench".into(),
        command_line: "flifo iobench /srv/made-up <made up>".into(),
        started_at: "2026-01-31T12:00:00Z".into(),
        elapsed_s: 432.1,
        machine: Machine {
            cpu_model: "Made-up CPU @ 2.50GHz".into(),
            cores: 8,
            memory_bytes: 64 << 30,
            kernel: "Linux 6.12.0".into(),
            file_system: filesystem.into(),
            flifo_version: "0.1.0".into(),
        },
        storage: Storage {
            path: "/srv/made-up".into(),
            filesystem: filesystem.into(),
            mount_options: "rw,noatime".into(),
            device: "nvme9n9".into(),
            device_model: "Made-up 2TB".into(),
            device_bytes: Some(2_000_398_934_016),
            scheduler: "none".into(),
            rotational: Some(false),
            write_cache: "write back".into(),
            requests_max: Some(1023),
            logical_block_bytes: Some(512),
            physical_block_bytes: Some(4096),
            atomic_write_min_bytes: Some(4096),
            atomic_write_max_bytes: Some(16_384),
        },
        settings: IoSettings {
            size_bytes: 128 << 30,
            rounds: ROUNDS,
            round_s: 5.0,
            warmup_s: 1.0,
            read_share_pct: 50,
            batch_blocks: 64,
            seed: 1,
            quick: false,
        },
        ..IoResults::default()
    }
}

/// The study's matrix: raw reads; 1, 2, 4, 8 files; 4K and 16K; direct and fsync. One file serialises direct
/// writes, eight come close to the device.
pub fn study(filesystem: &str) -> IoResults {
    let mut results = empty(filesystem);
    for workload in ["random-read", "random-write", "random-mixed"] {
        for block_bytes in [4096, 16_384] {
            for concurrency in [1, 4, 16, 64, 128, 256] {
                let key = |access: &str, mode: &str, files| IoKey {
                    workload: workload.into(),
                    access: access.into(),
                    mode: mode.into(),
                    block_bytes,
                    files,
                    carrier: "processes".into(),
                    concurrency,
                };
                if workload == "random-read" {
                    results.cells.push(cell(key("device", "direct", 0), shape));
                }
                for files in [1, 2, 4, 8] {
                    results.cells.push(cell(key("file", "direct", files), shape));
                    if workload != "random-read" {
                        results.cells.push(cell(key("file", "fsync", files), shape));
                    }
                }
            }
        }
    }
    results
}

/// [`study`] with the redo log's pattern and the doublewrite's, and a round that failed.
pub fn full() -> IoResults {
    let mut results = study("ext4");
    for (workload, block_bytes, modes) in
        [("log", 4096, &["fdatasync", "dsync"][..]), ("doublewrite", 16_384, &["fsync"][..])]
    {
        for mode in modes {
            for concurrency in [1, 4, 16] {
                let key = IoKey {
                    workload: workload.into(),
                    access: "file".into(),
                    mode: (*mode).into(),
                    block_bytes,
                    files: 1,
                    carrier: "processes".into(),
                    concurrency,
                };
                results.cells.push(cell(key, |key| 4000.0 * f64::from(key.concurrency).sqrt()));
            }
        }
    }
    let reason = "write of 4096 bytes: Input/output error (os error 5)".into();
    results.cells[40].failures.push(Failure { round: 2, reason });
    results.cells[40].rounds.pop();
    results.cells[40].summarise();
    results
}

/// I/Os per second of a key, as the study has them.
fn shape(key: &IoKey) -> f64 {
    let n = f64::from(key.concurrency);
    let small = key.block_bytes == 4096;
    let device = if small { 95_000.0 } else { 36_000.0 };
    let rising = |one: f64, most: f64| most * (1.0 - (-n * one / most).exp());
    let read = rising(7000.0, if key.access == "device" { device } else { device * 0.97 });
    let one_file = if small { 12_000.0 } else { 8500.0 };
    let files = f64::from(key.files);
    let write = match key.mode.as_str() {
        // Syncing one file is cheaper than waiting for its lock; more files do not help it.
        "fsync" => rising(2500.0, if key.files == 1 { one_file * 1.3 } else { one_file * 1.1 }),
        _ => rising(5000.0, (one_file * files).min(device * 0.92)),
    };
    match key.workload.as_str() {
        "random-read" => read,
        "random-write" => write,
        _ => 2.0 / (1.0 / read + 1.0 / write),
    }
}

/// A cell of three rounds around `iops_of` its key.
pub fn cell(key: IoKey, iops_of: impl Fn(&IoKey) -> f64) -> IoCell {
    let iops = iops_of(&key);
    cell_of(key, &[iops * 0.98, iops, iops * 1.03])
}

/// A cell whose rounds have these I/Os per second.
pub fn cell_of(key: IoKey, iops: &[f64]) -> IoCell {
    let rounds = (0..).zip(iops).map(|(number, &iops)| round(&key, number, iops)).collect();
    let mut cell = IoCell { key, rounds, ..IoCell::default() };
    cell.summarise();
    cell
}

fn round(key: &IoKey, number: u32, iops: f64) -> IoRound {
    let elapsed_s = 5.0;
    let ios = iops * elapsed_s;
    let reads = match key.workload.as_str() {
        "random-read" => ios,
        "random-mixed" => ios / 2.0,
        _ => 0.0,
    };
    let writes = ios - reads;
    let synced = key.mode.contains("sync");
    let mean_us = 1e6 * f64::from(key.concurrency) / iops;
    let latency = IoLatency {
        mean_us: Some(mean_us),
        p50_us: Some(mean_us * 0.9),
        p95_us: Some(mean_us * 1.6),
        p99_us: Some(mean_us * 2.5),
        p99_9_us: Some(mean_us * 6.0),
        max_us: mean_us * 40.0,
    };
    let block = f64::from(key.block_bytes);
    IoRound {
        round: number,
        elapsed_s,
        reads: reads as u64,
        writes: writes as u64,
        syncs: if synced { writes as u64 } else { 0 },
        iops,
        mb_per_s: iops * block / 1e6,
        read_latency: (reads > 0.0).then_some(latency),
        write_latency: (writes > 0.0).then_some(latency),
        user_s: ios * 1e-6,
        system_s: ios * 7e-6,
        cpu_us_per_io: 8.0,
        context_switches: ios as u64,
        block_layer: Some(BlockLayer {
            reads: reads as u64,
            writes: (writes * if synced { 1.6 } else { 1.01 }) as u64,
            flushes: if synced { writes as u64 } else { 0 },
            read_bytes: (reads * block) as u64,
            written_bytes: (writes * block) as u64,
            read_ms: mean_us / 1e3,
            write_ms: mean_us / 1e3,
            busy_pct: 99.0,
            in_flight: f64::from(key.concurrency).min(48.0),
        }),
    }
}
