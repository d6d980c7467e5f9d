//! Rows with large values under transactions: what they see, rollbacks, and power cuts.
//!
//! `FLIFO_SEEDS` says how many histories of power cuts.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use common::{all, config, get, session};
use flifo_engine::disk::{Disk, DiskCall, Fault, MemoryDisk};
use flifo_engine::row::{Column, ColumnType, Index, Row, RowView, Schema, Value};
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Table, Transaction, TypedTable};

const MIB: usize = 1 << 20;

fn in_memory() -> Database {
    Database::create_on(Arc::new(MemoryDisk::default()), config()).unwrap()
}

/// Waits until purge has nothing left to do.
fn wait_for_purge(db: &Database) {
    while db.stats().txns.history > 0 {
        std::thread::yield_now();
    }
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
    // Refused writes wrote nothing.
    txn.commit().unwrap();
    assert_eq!(all(&mut session.begin(Isolation::ReadCommitted), &table).len(), 1);
}

/// The table can be dropped, which waits for a history that is empty.
#[test]
fn a_disk_that_was_full_leaves_no_history() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    let session = session(&db);
    let mut txn = session.begin(Isolation::ReadCommitted);
    txn.insert(&table, b"k", &value(1, 4 * MIB)).unwrap();
    txn.commit().unwrap();
    wait_for_purge(&db);
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    let mut txn = session.begin(Isolation::ReadCommitted);
    let full = txn.update(&table, b"k", b"small");
    assert!(matches!(full, Err(Error::DiskFull { .. })), "{full:?}");
    txn.rollback().unwrap();
    disk.heal();
    assert_eq!(db.stats().txns.history, 0);
    drop(table);
    db.drop_table("t").unwrap();
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
        wait_for_purge(&db);
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

/// What cannot be freed, since it cannot be read, belongs to nobody after a reclaim; nor when it can be read again.
#[test]
fn a_reclaim_takes_pages_that_cannot_be_read() {
    let disk = MemoryDisk::default();
    let config = || EngineConfig { data_files: 1, ..config() };
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    assert!(session(&db).statement().unwrap().insert(&tree, b"k", &value(1, 30_000)).unwrap());
    drop(tree);
    db.close().unwrap();
    // The first page of the value, as the catalog's pages come before it.
    let file = disk.open_cached("data0.flifo").unwrap();
    let (mut bytes, mut offset) = (vec![0; 4096], 64 << 10);
    while bytes[4] != 3 {
        offset += 4096;
        file.read_at(&mut bytes, offset).unwrap();
    }
    disk.make_unreadable("data0.flifo", offset);

    let open = || Database::open_on(Arc::new(disk.clone()), config()).unwrap();
    let db = open();
    let tree = db.tree("t").unwrap();
    assert!(session(&db).statement().unwrap().delete(&tree, b"k").unwrap());
    drop(tree);
    db.close().unwrap();
    let report = Database::check_on(Arc::new(disk.clone()), config(), &mut |_| {}).unwrap();
    assert!(report.is_sound() && report.space.leaked_pages > 0, "{report:?}");
    let report = Database::reclaim_on(Arc::new(disk.clone()), config(), &mut |_| {}).unwrap();
    assert!(report.is_sound() && report.space.leaked_pages == 0, "{report:?}");
    // The slots of the pending page, which is the third one.
    let mut pending = vec![0; 4096];
    file.read_at(&mut pending, (64 << 10) + 2 * 4096).unwrap();
    assert!(pending[64..64 + 120 * 32].iter().all(|&byte| byte == 0));
    file.write_at(&bytes, offset).unwrap();
    let db = open();
    assert_eq!(db.lost_pages().unwrap(), 0);
    let table = db.create_table("other").unwrap();
    let session = session(&db);
    for round in 0..200 {
        let mut txn = session.begin(Isolation::ReadCommitted);
        txn.upsert(&table, b"k", &value(round, 30_000)).unwrap();
        txn.commit().unwrap();
    }
    wait_for_purge(&db);
    assert_eq!(db.lost_pages().unwrap(), 0);
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
            let copy = disk.kill();
            let report = Database::check_on(Arc::new(copy), small(seed), &mut |_| {}).unwrap();
            assert!(report.is_sound(), "seed {seed}: {:?}", report.findings);
            db = Database::open_on(Arc::new(disk.clone()), small(seed)).unwrap();
            let table = db.table("t").unwrap();
            for pair in 0..PAIRS {
                let (number, least) = (found(&db, &table, seed, pair), least[pair as usize]);
                let most = done[pair as usize].load(Ordering::SeqCst) + 1;
                assert!((least..=most).contains(&number), "seed {seed}: {number} of {least} to {most}");
                numbers[pair as usize] = number;
            }
            wait_for_purge(&db);
            db.check_table(&table).unwrap();
        }
    }
}

fn documents() -> Schema {
    Schema::builder()
        .column(Column::new("id", ColumnType::U64))
        .column(Column::new("title", ColumnType::Text))
        .column(Column::new("body", ColumnType::Bytes))
        .primary_key(["id"])
        .index(Index::unique("by_title", ["title"]))
        .build()
        .unwrap()
}

/// What a transaction finds in a table, each way there is.
fn bodies(table: &TypedTable, txn: &mut Transaction<'_>) -> Vec<(u64, Vec<u8>)> {
    let row = |row: &RowView<'_>| {
        (row.get("id").unwrap().as_u64().unwrap(), row.get("body").unwrap().as_bytes().unwrap().to_vec())
    };
    let (mut scanned, mut by_title, mut got) = (Vec::new(), Vec::new(), Vec::new());
    let keep = |found: &RowView<'_>, rows: &mut Vec<_>| {
        rows.push(row(found));
        ControlFlow::Continue(())
    };
    table.scan(txn, .., |found| keep(found, &mut scanned)).unwrap();
    table.scan_index(txn, "by_title", .., |found| keep(found, &mut by_title)).unwrap();
    by_title.sort();
    for (id, _) in &scanned {
        got.push(table.get_with(txn, *id, row).unwrap().unwrap());
    }
    assert!(scanned == by_title && scanned == got);
    scanned
}

#[test]
fn typed_rows_under_serializable_may_be_large() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let table = db.create_typed_table("documents", documents()).unwrap();
    let sizes = [40_000, 100, 2 * MIB, 0, MIB, 20_000, 3000];
    let model: Vec<_> = (0..).zip(sizes).map(|(id, bytes)| (id, value(id, bytes + 8))).collect();
    let rows =
        model.iter().map(|(id, body)| vec![Value::from(*id), format!("title {id}").into(), body[..].into()]);
    assert_eq!(db.bulk_load_rows(&table, rows, |_| {}).unwrap(), 7);
    let (one, two) = (session(&db), session(&db));
    for isolation in [Isolation::Serializable, Isolation::RepeatableRead] {
        assert!(bodies(&table, &mut one.begin(isolation)) == model);
    }

    // What is rolled back, to a savepoint or wholly, is as before.
    let mut txn = one.begin(Isolation::Serializable);
    let locked = table.get_for_update(&mut txn, 2).unwrap().unwrap();
    assert!(locked.get("body").unwrap().as_bytes() == Some(&model[2].1[..]));
    let savepoint = txn.savepoint();
    let set = |body: Vec<u8>| move |row: &mut Row| Ok(row.set("body", body.clone())?);
    assert!(table.update_with(&mut txn, 2, set(value(20, 50_000))).unwrap());
    assert!(table.update_with(&mut txn, 0, set(value(21, 10))).unwrap());
    table.insert(&mut txn, (9, "title 9", &value(9, 30_000))).unwrap();
    assert!(table.delete(&mut txn, 4).unwrap());
    let duplicate = table.insert(&mut txn, (10, "title 9", &value(10, 30_000)));
    assert!(matches!(duplicate, Err(Error::DuplicateKey { .. })));
    let changed = [
        (0, value(21, 10)),
        model[1].clone(),
        (2, value(20, 50_000)),
        model[3].clone(),
        model[5].clone(),
        model[6].clone(),
        (9, value(9, 30_000)),
    ];
    assert!(bodies(&table, &mut txn) == changed);
    assert!(bodies(&table, &mut two.begin(Isolation::RepeatableRead)) == model);
    txn.rollback_to(savepoint).unwrap();
    assert!(bodies(&table, &mut txn) == model);
    assert!(table.update_with(&mut txn, 6, set(value(26, 90_000))).unwrap());
    txn.rollback().unwrap();
    assert!(bodies(&table, &mut one.begin(Isolation::Serializable)) == model);

    // Nobody adds a large row where one has read.
    let mut reader = one.begin(Isolation::Serializable);
    assert!(bodies(&table, &mut reader) == model);
    std::thread::scope(|scope| {
        let table = &table;
        let writer = scope.spawn(move || {
            let mut txn = two.begin(Isolation::Serializable);
            table.insert(&mut txn, (8, "title 8", &value(8, 60_000))).unwrap();
            txn.commit().unwrap();
        });
        while db.stats().locks.waits == 0 {
            std::thread::yield_now();
        }
        assert!(bodies(table, &mut reader) == model);
        reader.commit().unwrap();
        writer.join().unwrap();
    });
    let after: Vec<_> = model.iter().cloned().chain([(8, value(8, 60_000))]).collect();
    let mut txn = one.begin(Isolation::RepeatableRead);
    assert!(bodies(&table, &mut txn) == after);
    assert_eq!(db.check_typed_table(&table, &mut txn).unwrap(), 8);
    // A batch of an iterator ends by bytes, too.
    let rows = table.iter(&mut txn, ..).unwrap().map(|row| {
        let row = row.unwrap();
        (row.get("id").unwrap().as_u64().unwrap(), row.get("body").unwrap().as_bytes().unwrap().to_vec())
    });
    assert!(rows.eq(after.iter().cloned()));
    txn.commit().unwrap();

    // Dropped, a table leaves nothing.
    drop((table, one));
    while db.stats().txns.history > 0 {
        std::thread::yield_now();
    }
    db.truncate_table("documents").unwrap();
    assert_eq!(db.lost_pages().unwrap(), 0);
    db.drop_table("documents").unwrap();
    assert_eq!(db.lost_pages().unwrap(), 0);
    db.close().unwrap();
    Database::open_on(Arc::new(disk), config()).unwrap();
}
