//! Two-phase commit: what is prepared is kept until it is finished, whatever happens in between.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{all, config, get, session};
use flifo_engine::Isolation::{ReadCommitted, Serializable};
use flifo_engine::disk::{DiskCall, Fault, MemoryDisk};
use flifo_engine::{Database, EngineConfig, Error, Table};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

fn impatient() -> EngineConfig {
    EngineConfig { lock_wait_timeout: Duration::from_millis(20), ..config() }
}

fn prepare(db: &Database, table: &Table, key: &[u8], xid: &[u8]) {
    let session = session(db);
    let mut txn = session.begin(ReadCommitted);
    txn.upsert(table, key, xid).unwrap();
    assert!(txn.prepare(xid).unwrap());
}

#[test]
fn any_session_finishes_what_is_prepared() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), impatient()).unwrap();
    let table = db.create_table("t").unwrap();
    let other = session(&db);
    prepare(&db, &table, b"a", b"one");
    prepare(&db, &table, b"b", b"two");
    assert_eq!(db.prepared().unwrap(), [b"one", b"two"]);
    let mut txn = other.begin(ReadCommitted);
    assert_eq!(get(&mut txn, &table, b"a"), None);
    assert!(matches!(txn.upsert(&table, b"a", b"mine"), Err(Error::LockWaitTimeout)));
    other.commit_prepared(b"one").unwrap();
    other.rollback_prepared(b"two").unwrap();
    assert_eq!(get(&mut txn, &table, b"a"), Some(b"one".to_vec()));
    assert_eq!(get(&mut txn, &table, b"b"), None);
    assert!(txn.insert(&table, b"b", b"mine").unwrap());
    txn.commit().unwrap();
    assert!(db.prepared().unwrap().is_empty());
    assert_eq!((db.stats().txns.active, db.stats().locks.locks), (0, 0));
}

#[test]
fn what_cannot_be_prepared_or_finished_is_refused() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), impatient()).unwrap();
    let table = db.create_table("t").unwrap();
    let one = session(&db);
    assert!(!one.begin(ReadCommitted).prepare(b"nothing").unwrap());
    let mut reader = one.begin(Serializable);
    assert_eq!(get(&mut reader, &table, b"a"), None);
    assert!(!reader.prepare(b"nothing").unwrap());
    prepare(&db, &table, b"a", b"one");
    let mut txn = one.begin(ReadCommitted);
    txn.insert(&table, b"b", b"1").unwrap();
    assert!(matches!(txn.prepare(b"one"), Err(Error::XidExists { .. })));
    for bad in [&b""[..], &[7; 129]] {
        let mut txn = one.begin(ReadCommitted);
        txn.insert(&table, b"b", b"1").unwrap();
        assert!(matches!(txn.prepare(bad), Err(Error::BadName { .. })));
    }
    assert_eq!(get(&mut one.begin(ReadCommitted), &table, b"b"), None, "it was rolled back");
    assert!(matches!(one.commit_prepared(b"nothing"), Err(Error::UnknownXid { .. })));
    one.commit_prepared(b"one").unwrap();
    assert!(matches!(one.rollback_prepared(b"one"), Err(Error::UnknownXid { .. })));
    assert!(matches!(db.drop_table("t"), Err(Error::TableInUse { .. })));
    drop(table);
    db.drop_table("t").unwrap();
}

/// What is left of it is not to be committed.
#[test]
fn a_rollback_that_has_begun_is_brought_to_its_end() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    let session = session(&db);
    let large = vec![1; 4 << 20];
    let mut txn = session.begin(ReadCommitted);
    txn.insert(&table, b"a", &large).unwrap();
    txn.commit().unwrap();
    while db.stats().txns.history > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut txn = session.begin(ReadCommitted);
    txn.update(&table, b"a", b"small").unwrap();
    txn.insert(&table, b"b", b"1").unwrap();
    assert!(txn.prepare(b"one").unwrap());
    // Pages that were freed are taken first.
    let mut fills = session.begin(ReadCommitted);
    fills.insert(&table, b"c", &large).unwrap();
    fills.commit().unwrap();
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    assert!(matches!(session.rollback_prepared(b"one"), Err(Error::DiskFull { .. })));
    assert!(db.prepared().unwrap().is_empty());
    assert!(matches!(session.commit_prepared(b"one"), Err(Error::UnknownXid { .. })));
    disk.heal();
    while db.stats().txns.active > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut txn = session.begin(ReadCommitted);
    assert!(get(&mut txn, &table, b"a") == Some(large.clone()));
    assert_eq!(get(&mut txn, &table, b"b"), None);
}

#[test]
fn a_range_that_a_prepared_one_has_read_stays_locked() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), impatient()).unwrap();
    let table = db.create_table("t").unwrap();
    let (one, two) = (session(&db), session(&db));
    let mut txn = one.begin(Serializable);
    assert!(all(&mut txn, &table).is_empty());
    txn.insert(&table, b"m", b"1").unwrap();
    assert!(txn.prepare(b"x").unwrap());
    let mut writer = two.begin(ReadCommitted);
    assert!(matches!(writer.insert(&table, b"z", b"1"), Err(Error::LockWaitTimeout)));
    one.rollback_prepared(b"x").unwrap();
    assert!(writer.insert(&table, b"z", b"1").unwrap());
}

/// Accounts that a coordinator moves money between, each transfer prepared under its number; power is cut at any time.
#[test]
fn crashes_leave_what_is_prepared_as_it_is() {
    let seeds = std::env::var("FLIFO_SEEDS").ok().map_or(10, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut disk = MemoryDisk::with_power_cuts(seed);
        let mut db = Database::create_on(Arc::new(disk.clone()), impatient()).unwrap();
        let mut table = db.create_table("t").unwrap();
        // What is committed, and what is prepared: XID, key, value.
        let (mut rows, mut open) = (std::collections::BTreeMap::new(), Vec::<(Vec<u8>, Vec<u8>)>::new());
        for step in 0..60_u64 {
            match random.next_u64() % 8 {
                0..4 => {
                    let key = vec![b'a' + (random.next_u64() % 20) as u8];
                    let locked = open.iter().any(|(_, taken)| *taken == key);
                    let xid = format!("{step}").into_bytes();
                    if !locked {
                        prepare(&db, &table, &key, &xid);
                        open.push((xid, key));
                    }
                }
                4..6 if !open.is_empty() => {
                    let (xid, key) = open.swap_remove(random.next_u64() as usize % open.len());
                    session(&db).commit_prepared(&xid).unwrap();
                    rows.insert(key, xid);
                }
                6 if !open.is_empty() => {
                    let (xid, _) = open.swap_remove(random.next_u64() as usize % open.len());
                    session(&db).rollback_prepared(&xid).unwrap();
                }
                7 => {
                    // What the last power cut interrupted is rolled back in the background, and locks its row until then.
                    while db.stats().txns.active > open.len() as u64 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    let session = session(&db);
                    let mut lost = session.begin(ReadCommitted);
                    lost.upsert(&table, b"z", b"lost").unwrap();
                    if random.next_u64().is_multiple_of(3) {
                        drop(lost);
                        db.close().unwrap();
                    } else {
                        disk = disk.power_cut();
                        drop(lost);
                    }
                    drop(session);
                    drop((table, db));
                    db = Database::open_on(Arc::new(disk.clone()), impatient()).unwrap();
                    table = db.table("t").unwrap();
                }
                _ => {}
            }
            let mut xids: Vec<Vec<u8>> = open.iter().map(|(xid, _)| xid.clone()).collect();
            xids.sort();
            assert_eq!(db.prepared().unwrap(), xids, "seed {seed}, step {step}");
            assert_eq!(all(&mut session(&db).begin(ReadCommitted), &table), rows, "seed {seed}, step {step}");
        }
        for (xid, _) in open {
            session(&db).rollback_prepared(&xid).unwrap();
        }
        while db.stats().txns.active > 0 || db.stats().txns.history > 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(db.check_table(&table).unwrap().rows, rows.len() as u64);
    }
}
