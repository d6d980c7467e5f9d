//! Rows with large values under transactions: what they see, rollbacks, and power cuts.
//!
//! `FLIFO_SEEDS` says how many histories of power cuts.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{all, config, get, session};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Table};

const MIB: usize = 1 << 20;

fn in_memory() -> Database {
    Database::create_on(Arc::new(MemoryDisk::default()), config()).unwrap()
}

/// Bytes that only this number has.
fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.extend((8..bytes).map(|at| (at as u64 / 5).wrapping_add(number.wrapping_mul(31)) as u8));
    value
}

#[test]
fn snapshots_see_the_versions_before() {
    let db = in_memory();
    let table = db.create_table("t").unwrap();
    let sessions: Vec<_> = (0..5).map(|_| session(&db)).collect();
    let sizes = [20_000, 10, 2 * MIB, 5000];
    let mut snapshots = Vec::new();
    for (number, &bytes) in sizes.iter().enumerate() {
        let mut txn = sessions[4].begin(Isolation::RepeatableRead);
        txn.upsert(&table, b"k", &value(number as u64, bytes)).unwrap();
        txn.upsert(&table, b"l", &value(number as u64, 7000)).unwrap();
        txn.commit().unwrap();
        let mut snapshot = sessions[number].begin(Isolation::RepeatableRead);
        assert_eq!(get(&mut snapshot, &table, b"l"), Some(value(number as u64, 7000)));
        snapshots.push(snapshot);
    }
    let mut delete = sessions[4].begin(Isolation::RepeatableRead);
    assert!(delete.delete(&table, b"k").unwrap());
    assert_eq!(get(&mut delete, &table, b"k"), None);
    delete.commit().unwrap();
    for (number, (snapshot, &bytes)) in snapshots.iter_mut().zip(&sizes).enumerate() {
        let (k, l) = (value(number as u64, bytes), value(number as u64, 7000));
        assert!(get(snapshot, &table, b"k") == Some(k.clone()), "snapshot {number}");
        assert!(all(snapshot, &table) == [(b"k".to_vec(), k), (b"l".to_vec(), l)].into());
    }
}

#[test]
fn rollbacks_and_savepoints_put_the_value_before_in_place_again() {
    let db = in_memory();
    let table = db.create_table("t").unwrap();
    let session = session(&db);
    let mut txn = session.begin(Isolation::RepeatableRead);
    txn.insert(&table, b"k", &value(1, 30_000)).unwrap();
    txn.commit().unwrap();

    let mut txn = session.begin(Isolation::RepeatableRead);
    let mut locked = Vec::new();
    assert!(txn.get_for_update(&table, b"k", &mut locked).unwrap());
    assert!(locked == value(1, 30_000));
    txn.update(&table, b"k", &value(2, 90_000)).unwrap();
    let savepoint = txn.savepoint();
    txn.update(&table, b"k", b"small").unwrap();
    txn.insert(&table, b"l", &value(3, 50_000)).unwrap();
    txn.delete(&table, b"k").unwrap();
    txn.rollback_to(savepoint).unwrap();
    assert!(get(&mut txn, &table, b"k") == Some(value(2, 90_000)));
    assert_eq!(get(&mut txn, &table, b"l"), None);
    txn.rollback().unwrap();
    let mut txn = session.begin(Isolation::ReadCommitted);
    assert!(all(&mut txn, &table) == [(b"k".to_vec(), value(1, 30_000))].into());
}

#[test]
fn what_is_too_large_is_one_clear_error() {
    let db = in_memory();
    let table = db.create_table("t").unwrap();
    let session = session(&db);
    let mut txn = session.begin(Isolation::ReadCommitted);
    let error = txn.insert(&table, b"k", &vec![0; 256 * MIB]).unwrap_err();
    let Error::ValueTooLarge { size, max } = error else { panic!("{error}") };
    assert_eq!((size, max), (256 * MIB, 256 * MIB - 38));
    assert!(matches!(txn.insert(&table, &[1; 905], &[1; 100]), Err(Error::KeyTooLarge { max: 904, .. })));
    assert!(txn.insert(&table, &[1; 904], &[1; 100]).unwrap());
    // Nothing was written by those that were refused.
    txn.commit().unwrap();
    assert_eq!(all(&mut session.begin(Isolation::ReadCommitted), &table).len(), 1);
}

#[test]
fn space_is_used_again_and_a_reopen_finds_all() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    let session = session(&db);
    let mut after_some = 0;
    for round in 0..40_u64 {
        let mut txn = session.begin(Isolation::ReadCommitted);
        txn.upsert(&table, b"k", &value(round, MIB / 4)).unwrap();
        if round % 4 == 3 {
            txn.rollback().unwrap()
        } else {
            txn.commit().unwrap()
        }
        while db.stats().txns.history > 0 {
            std::thread::yield_now();
        }
        if round == 10 {
            after_some = db.stats().data_bytes;
        }
    }
    assert_eq!(db.stats().data_bytes, after_some);
    let stats = db.check_table(&table).unwrap();
    assert_eq!((stats.rows, stats.overflow_pages), (1, (MIB as u64 / 4 + 17 - 32).div_ceil(4096 - 64)));
    drop((table, session));
    db.close().unwrap();
    let db = Database::open_on(Arc::new(disk), config()).unwrap();
    let session = common::session(&db);
    let mut txn = session.begin(Isolation::ReadCommitted);
    assert!(get(&mut txn, &db.table("t").unwrap(), b"k") == Some(value(38, MIB / 4)));
}

const PAIRS: u64 = 3;

fn small(seed: u64) -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: (256 << 10) << (seed % 3),
        buffer_pool_instances: 1 + seed as u32 % 2,
        flush_log_at_trx_commit: FlushLog::Sync,
        ..config()
    }
}

fn keys(pair: u64) -> [[u8; 2]; 2] {
    [[b'a', pair as u8], [b'b', pair as u8]]
}

fn bytes_of(seed: u64, pair: u64, number: u64) -> usize {
    [9000, 40, 30_000, 1200, 70_000][(seed + pair + number) as usize % 5]
}

/// Both rows of a pair get the next number's value, of their own sizes; now and then it is rolled back.
fn change(db: &Database, table: &Table, seed: u64, pair: u64, number: u64) {
    let session = session(db);
    if number % 5 == 2 {
        let mut txn = session.begin(Isolation::ReadCommitted);
        txn.upsert(table, &keys(pair)[1], &value(u64::MAX, 20_000)).unwrap();
        txn.rollback().unwrap();
    }
    let mut txn = session.begin(Isolation::ReadCommitted);
    for (at, key) in keys(pair).iter().enumerate() {
        if number % 7 == 6 {
            txn.delete(table, key).unwrap();
        }
        txn.upsert(table, key, &value(number, bytes_of(seed, pair + at as u64, number))).unwrap();
    }
    txn.commit().unwrap();
}

/// The number that both rows of a pair have.
fn found(db: &Database, table: &Table, seed: u64, pair: u64) -> u64 {
    let session = session(db);
    let mut txn = session.begin(Isolation::RepeatableRead);
    let rows = keys(pair).map(|key| get(&mut txn, table, &key));
    let Some(first) = &rows[0] else {
        assert!(rows[1].is_none());
        return 0;
    };
    let number = u64::from_le_bytes(first[..8].try_into().unwrap());
    for (at, row) in rows.into_iter().enumerate() {
        assert!(
            row == Some(value(number, bytes_of(seed, pair + at as u64, number))),
            "seed {seed}, pair {pair}"
        );
    }
    number
}

#[test]
fn large_rows_survive_every_power_cut() {
    let seeds = std::env::var("FLIFO_SEEDS").map_or(8, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        let mut disk = MemoryDisk::with_power_cuts(seed);
        let mut db = Database::create_on(Arc::new(disk.clone()), small(seed)).unwrap();
        drop(db.create_table("t").unwrap());
        let mut numbers = [0; PAIRS as usize];
        for round in 0..3 {
            let table = db.table("t").unwrap();
            let done = numbers.map(AtomicU64::new);
            let stop = AtomicBool::new(false);
            let total = AtomicU64::new(0);
            let cut = std::thread::scope(|scope| {
                for (pair, done) in done.iter().enumerate() {
                    let (db, table, stop, total) = (&db, &table, &stop, &total);
                    scope.spawn(move || {
                        while !stop.load(Ordering::Relaxed) {
                            let number = done.load(Ordering::SeqCst) + 1;
                            change(db, table, seed, pair as u64, number);
                            done.store(number, Ordering::SeqCst);
                            total.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
                while total.load(Ordering::SeqCst) < 3 + (seed * 31 + round * 17) % 40 {
                    std::thread::yield_now();
                }
                let least: Vec<u64> = done.iter().map(|done| done.load(Ordering::SeqCst)).collect();
                let cut = if (seed + round) % 3 == 0 { disk.kill() } else { disk.power_cut() };
                stop.store(true, Ordering::Relaxed);
                (cut, least)
            });
            let (cut, least) = cut;
            drop((table, db));
            disk = cut;
            db = Database::open_on(Arc::new(disk.clone()), small(seed)).unwrap();
            let table = db.table("t").unwrap();
            for pair in 0..PAIRS {
                let (number, least) = (found(&db, &table, seed, pair), least[pair as usize]);
                let most = done[pair as usize].load(Ordering::SeqCst) + 1;
                assert!((least..=most).contains(&number), "seed {seed}: {number} of {least} to {most}");
                numbers[pair as usize] = number;
            }
            while db.stats().txns.history > 0 {
                std::thread::yield_now();
            }
            db.check_table(&table).unwrap();
        }
    }
}
