//! Power cuts on a simulated disk, from a seed: writes since the last sync are there, or not, or torn, in any mixture.
//! What was acknowledged is there afterwards, as far as the setting promises it; what is found follows from the first so
//! many changes of each worker, and of no others; and the recovery can itself be cut off.
//!
//! `FLIFO_SEEDS` says how many histories.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::history::{Worker, check_between};
use common::{all, config, flush_mode, key, rows, session, value, verify};
use flifo_engine::disk::{Fault, MemoryDisk};
use flifo_engine::row::{Column, ColumnType, Index, Schema};
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

const WORKERS: u64 = 3;

fn small(seed: u64) -> EngineConfig {
    EngineConfig {
        // From a tenth of the data to all of it.
        buffer_pool_bytes: (256 << 10) << (seed % 4),
        buffer_pool_instances: 1 + seed as u32 % 3,
        flush_log_at_trx_commit: flush(seed),
        flush_mode: flush_mode(seed),
        ..config()
    }
}

/// Without a sync at each commit pages are often newer than what is durable of the log, if it is not seen to.
fn flush(seed: u64) -> FlushLog {
    [FlushLog::Sync, FlushLog::Write, FlushLog::Sync, FlushLog::EverySecond][seed as usize / 4 % 4]
}

/// What is found after a crash, and how many changes of each worker had been acknowledged before, and begun after it.
struct Crashed {
    disk: MemoryDisk,
    least: Vec<u64>,
    most: Vec<u64>,
}

/// Lets the workers change the tree; on the way, before they have made `changes` each, `crash` makes what is found then.
fn run_and_crash(
    db: &Database,
    seed: u64,
    workers: Vec<Worker>,
    changes: u64,
    crash: impl Fn() -> MemoryDisk,
) -> Crashed {
    let tree = db.tree("t").unwrap();
    let acknowledged: Vec<AtomicU64> = workers.iter().map(|worker| AtomicU64::new(worker.done)).collect();
    let (stop, total) = (AtomicBool::new(false), AtomicU64::new(0));
    let cut_at = seed * 7919 % (changes * WORKERS);
    std::thread::scope(|scope| {
        for (mut worker, acknowledged) in workers.into_iter().zip(&acknowledged) {
            let (tree, stop, total) = (&tree, &stop, &total);
            scope.spawn(move || {
                let session = session(db);
                while !stop.load(Ordering::Relaxed) {
                    worker.change(&session, tree).unwrap();
                    acknowledged.store(worker.done, Ordering::SeqCst);
                    total.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while total.load(Ordering::SeqCst) < cut_at {
            std::thread::yield_now();
        }
        let done = || acknowledged.iter().map(|done| done.load(Ordering::SeqCst));
        let least = done().collect();
        let disk = crash();
        // One of each may have been under way.
        let most = done().map(|done| done + 1).collect();
        stop.store(true, Ordering::Relaxed);
        Crashed { disk, least, most }
    })
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    0..std::env::var("FLIFO_SEEDS").map_or(default, |seeds| seeds.parse().expect("a number"))
}

#[test]
fn what_was_acknowledged_survives_every_power_cut() {
    for seed in seeds(20) {
        let mut disk = MemoryDisk::with_power_cuts(seed);
        let db = Database::create_on(Arc::new(disk.clone()), small(seed)).unwrap();
        db.create_tree("t").unwrap();
        db.checkpoint().unwrap();
        let mut db = Some(db);
        let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(seed, number)).collect();
        for round in 0..3 {
            let before = db.take().unwrap();
            // Now and then the process is killed, with the power on, before it fails at last.
            let killed = (seed + round) % 3 == 0;
            let base: Vec<u64> = workers.iter().map(|worker| worker.done).collect();
            let crash = || if killed { disk.kill() } else { disk.power_cut() };
            let crashed = run_and_crash(&before, seed + round, workers, 300, crash);
            drop(before);
            let promised = match flush(seed) {
                FlushLog::Sync => true,
                FlushLog::Write => killed && cut_recoveries_of(seed) == 0,
                FlushLog::EverySecond => false,
            };
            // What was once found after a crash is durable.
            let least = if promised { crashed.least } else { base };
            disk = cut_recoveries(crashed.disk, seed, round);
            let after = Database::open_on(Arc::new(disk.clone()), small(seed))
                .unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            workers = check_between(&after, &after.tree("t").unwrap(), seed, &least, &crashed.most);
            db = Some(after);
        }
    }
}

fn cut_recoveries_of(seed: u64) -> u64 {
    seed % 4
}

/// Recoveries that end at some call of the disk, each followed by another power cut.
fn cut_recoveries(mut disk: MemoryDisk, seed: u64, round: u64) -> MemoryDisk {
    for attempt in 0..cut_recoveries_of(seed) {
        disk.fail_from(None, 1 + (seed * 31 + round * 17 + attempt * 97) % 150, Fault::Io);
        match Database::open_on(Arc::new(disk.clone()), small(seed)) {
            Ok(db) => drop(db.checkpoint()),
            Err(Error::Io { .. } | Error::Stopped { .. } | Error::Closed) => {}
            Err(error) => panic!("seed {seed}, round {round}: {error}"),
        }
        disk = disk.power_cut();
    }
    disk
}

/// Whatever the setting says of commits.
#[test]
fn a_load_and_a_property_survive_a_power_cut_once_they_returned() {
    for seed in seeds(12) {
        let config = EngineConfig {
            flush_log_at_trx_commit: [FlushLog::Write, FlushLog::EverySecond][seed as usize % 2],
            ..small(0)
        };
        let disk = MemoryDisk::with_power_cuts(seed);
        let db = Database::create_on(Arc::new(disk.clone()), config.clone()).unwrap();
        let after_cut = || Database::open_on(Arc::new(disk.power_cut()), config.clone()).unwrap();
        let tree = db.create_tree("tree").unwrap();
        db.bulk_load(&tree, rows(500), |_| {}).unwrap();
        let found = after_cut();
        verify(&found, &found.tree("tree").unwrap(), 500).unwrap();
        let table = db.create_table("table").unwrap();
        db.bulk_load_table(&table, rows(500), |_| {}).unwrap();
        let found = after_cut();
        let read = session(&found);
        let loaded = all(&mut read.begin(Isolation::ReadCommitted), &found.table("table").unwrap());
        assert_eq!(loaded.len(), 500, "seed {seed}");
        let schema = Schema::builder()
            .column(Column::new("id", ColumnType::U64))
            .column(Column::new("size", ColumnType::U64))
            .primary_key(["id"])
            .index(Index::new("by_size", ["size"]))
            .build()
            .unwrap();
        let typed = db.create_typed_table("typed", schema).unwrap();
        db.bulk_load_rows(&typed, (0..500_u64).map(|id| (id, id % 7)), |_| {}).unwrap();
        let found = after_cut();
        let (read, typed) = (session(&found), found.typed_table("typed").unwrap());
        let loaded = found.check_typed_table(&typed, &mut read.begin(Isolation::ReadCommitted));
        assert_eq!(loaded.unwrap(), 500, "seed {seed}");
        db.set_property("p", b"v").unwrap();
        assert_eq!(after_cut().property("p").unwrap(), Some(b"v".to_vec()), "seed {seed}");
    }
}

/// Ids are reserved by a record of the redo log that nobody syncs. Pages with versions that bear them reach the disk all the
/// same, from a pool that is smaller than the data.
#[test]
fn no_version_is_newer_than_the_transaction_ids_that_are_given_next() {
    const ROWS: u64 = 3000;
    for seed in seeds(12) {
        let config = EngineConfig {
            flush_log_at_trx_commit: [FlushLog::Write, FlushLog::EverySecond][seed as usize % 2],
            ..small(0)
        };
        let mut disk = MemoryDisk::with_power_cuts(seed);
        let db = Database::create_on(Arc::new(disk.clone()), config.clone()).unwrap();
        let table = db.create_table("t").unwrap();
        let fills = session(&db);
        let mut txn = fills.begin(Isolation::ReadCommitted);
        rows(ROWS).for_each(|(key, value)| assert!(txn.insert(&table, &key, &value).unwrap()));
        txn.commit().unwrap();
        drop((fills, table));
        db.checkpoint().unwrap();
        let mut open = Some(db);
        let mut random = SplitMix64::seed_from_u64(seed);
        for round in 0..3 {
            let db = open.take().unwrap();
            let (table, updates) = (db.table("t").unwrap(), session(&db));
            for _ in 0..100 + random.next_u64() % 400 {
                let row = random.next_u64() % ROWS;
                let mut txn = updates.begin(Isolation::ReadCommitted);
                assert!(txn.update(&table, &key(row), &value(row)).unwrap());
                txn.commit().unwrap();
            }
            disk = disk.power_cut();
            drop((updates, table, db));
            let db = Database::open_on(Arc::new(disk.clone()), config.clone()).unwrap();
            let report = db.check(&mut |_| {}).unwrap();
            assert!(report.is_sound(), "seed {seed}, round {round}: {:?}", report.findings);
            open = Some(db);
        }
    }
}
