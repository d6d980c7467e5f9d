//! Serializable: what transactions saw and did is what they would have seen and done one after the other.

mod common;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{all, config, get, session};
use flifo_engine::Isolation::{ReadCommitted, RepeatableRead, Serializable};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, Error, Isolation, Session, Table, Transaction};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

fn impatient() -> (Database, Table) {
    let config = EngineConfig { lock_wait_timeout: Duration::from_millis(20), ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_table("t").unwrap();
    (db, table)
}

fn fill(session: &Session, table: &Table, keys: &[&[u8]]) {
    let mut txn = session.begin(ReadCommitted);
    keys.iter().for_each(|key| assert!(txn.insert(table, key, b"0").unwrap()));
    txn.commit().unwrap();
}

fn range(txn: &mut Transaction<'_>, table: &Table, from: &[u8], to: &[u8]) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    txn.scan(table, Bound::Included(from), Bound::Excluded(to), |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })
    .unwrap();
    keys
}

fn waits<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::LockWaitTimeout)), "{result:?}");
}

#[test]
fn who_has_read_a_row_keeps_it_as_it_is() {
    let (db, table) = impatient();
    let (one, two) = (session(&db), session(&db));
    fill(&one, &table, &[b"a", b"b"]);
    let (mut reader, mut writer) = (one.begin(Serializable), two.begin(ReadCommitted));
    assert_eq!(get(&mut reader, &table, b"a"), Some(b"0".to_vec()));
    assert_eq!(get(&mut reader, &table, b"c"), None);
    waits(writer.update(&table, b"a", b"1"));
    waits(writer.insert(&table, b"c", b"1"));
    assert!(writer.update(&table, b"b", b"1").unwrap());
    waits(reader.get(&table, b"b", &mut Vec::new()));
    assert_eq!(get(&mut two.begin(RepeatableRead), &table, b"b"), Some(b"0".to_vec()), "no lock is needed");
    reader.commit().unwrap();
    assert!(writer.update(&table, b"a", b"1").unwrap());
    writer.commit().unwrap();
    assert_eq!(db.stats().locks.locks, 0);
}

#[test]
fn a_change_that_found_nothing_to_do_keeps_that_so() {
    let (db, table) = impatient();
    let (one, two) = (session(&db), session(&db));
    fill(&one, &table, &[b"a"]);
    let (mut reader, mut writer) = (one.begin(Serializable), two.begin(Serializable));
    assert!(!reader.update(&table, b"b", b"1").unwrap());
    assert!(!reader.insert(&table, b"a", b"1").unwrap());
    waits(writer.insert(&table, b"b", b"1"));
    waits(writer.delete(&table, b"a"));
}

#[test]
fn nobody_puts_a_row_into_a_range_that_was_read() {
    let (db, table) = impatient();
    let (one, two) = (session(&db), session(&db));
    fill(&one, &table, &[b"b", b"d", b"f", b"h"]);
    let (mut reader, mut writer) = (one.begin(Serializable), two.begin(ReadCommitted));
    assert_eq!(range(&mut reader, &table, b"c", b"e"), [b"d"]);
    for key in [b"c", b"e"] {
        waits(writer.insert(&table, key, b"1"));
    }
    waits(writer.update(&table, b"d", b"1"));
    // The row after the range has its gap locked, not its record.
    assert!(writer.update(&table, b"f", b"1").unwrap());
    assert!(writer.insert(&table, b"g", b"1").unwrap());
    assert!(writer.insert(&table, b"a", b"1").unwrap());
    // The reader itself may, and others may not put rows beside its own.
    assert!(reader.insert(&table, b"dd", b"1").unwrap());
    waits(writer.insert(&table, b"dc", b"1"));
    waits(writer.insert(&table, b"de", b"1"));
    reader.commit().unwrap();
    assert!(writer.insert(&table, b"dc", b"1").unwrap());
}

#[test]
fn the_end_of_a_table_is_a_gap() {
    let (db, table) = impatient();
    let (one, two) = (session(&db), session(&db));
    fill(&one, &table, &[b"b"]);
    let (mut reader, mut writer) = (one.begin(Serializable), two.begin(ReadCommitted));
    assert!(range(&mut reader, &table, b"c", b"z").is_empty());
    waits(writer.insert(&table, b"zz", b"1"));
    assert!(writer.insert(&table, b"a", b"1").unwrap());
    drop((reader, writer));
    let empty = db.create_table("empty").unwrap();
    let (mut reader, mut writer) = (one.begin(Serializable), two.begin(Serializable));
    assert!(all(&mut reader, &empty).is_empty() && all(&mut writer, &empty).is_empty());
    waits(writer.insert(&empty, b"x", b"1"));
}

/// Purge has passed it while it was overwritten, and the record of its deletion is gone: no other record describes it.
#[test]
fn a_deleted_row_that_carries_a_gap_goes_when_it_was_written_over_in_vain() {
    let (db, table) = impatient();
    let (one, two, three) = (session(&db), session(&db), session(&db));
    fill(&one, &table, &[b"b", b"d", b"f"]);
    while db.stats().txns.history > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // With a rollback segment of its own.
    let mut reader = three.begin(Serializable);
    assert!(reader.insert(&table, b"z", b"1").unwrap());
    let mut holds_purge = two.begin(RepeatableRead);
    assert_eq!(get(&mut holds_purge, &table, b"d"), Some(b"0".to_vec()));
    let mut deletes = one.begin(ReadCommitted);
    deletes.delete(&table, b"d").unwrap();
    deletes.commit().unwrap();
    assert_eq!(range(&mut reader, &table, b"a", b"g"), [b"b", b"f"]);
    let savepoint = reader.savepoint();
    assert!(reader.insert(&table, b"d", b"1").unwrap());
    drop(holds_purge);
    // All but its own records.
    while db.stats().txns.history > 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    reader.rollback_to(savepoint).unwrap();
    waits(two.begin(ReadCommitted).insert(&table, b"c", b"1"));
    assert_eq!(db.check_table(&table).unwrap().rows, 4);
    reader.commit().unwrap();
    let begun = std::time::Instant::now();
    while db.check_table(&table).unwrap().rows > 3 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_gap_outlives_the_deleted_row_that_carries_it() {
    let (db, table) = impatient();
    let (one, two) = (session(&db), session(&db));
    fill(&one, &table, &[b"b", b"d", b"f"]);
    let mut deletes = one.begin(ReadCommitted);
    deletes.delete(&table, b"d").unwrap();
    let hold_purge = two.begin(RepeatableRead);
    let mut hold_purge = hold_purge;
    assert_eq!(get(&mut hold_purge, &table, b"d"), Some(b"0".to_vec()));
    deletes.commit().unwrap();
    let mut reader = one.begin(Serializable);
    assert_eq!(range(&mut reader, &table, b"a", b"c"), [b"b"]);
    drop(hold_purge);
    // Purge may not take the deleted row now; what comes after it, it may.
    std::thread::sleep(Duration::from_millis(80));
    let mut writer = two.begin(ReadCommitted);
    waits(writer.insert(&table, b"c", b"1"));
    assert!(writer.insert(&table, b"e", b"1").unwrap());
    writer.commit().unwrap();
    assert!(db.stats().txns.history > 0);
    reader.commit().unwrap();
    while db.stats().txns.history > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(db.check_table(&table).unwrap().rows, 3);
}

#[test]
fn a_gap_outlives_the_row_that_is_rolled_back() {
    let (db, table) = impatient();
    let (one, two) = (session(&db), session(&db));
    fill(&one, &table, &[b"b", b"h"]);
    let mut reader = one.begin(Serializable);
    assert_eq!(get(&mut reader, &table, b"x"), None);
    let start = reader.savepoint();
    assert!(reader.insert(&table, b"e", b"1").unwrap());
    assert_eq!(range(&mut reader, &table, b"c", b"f"), [b"e"]);
    reader.rollback_to(start).unwrap();
    let mut writer = two.begin(ReadCommitted);
    for key in [b"c", b"e"] {
        waits(writer.insert(&table, key, b"1"));
    }
    reader.rollback().unwrap();
    assert!(writer.insert(&table, b"c", b"1").unwrap());
}

/// The row that comes after it may vanish, too.
#[test]
fn a_gap_outlives_the_row_that_is_rolled_back_and_the_one_after_it() {
    let (db, table) = impatient();
    let (one, two, three) = (session(&db), session(&db), session(&db));
    fill(&one, &table, &[b"a", b"z"]);
    let (mut reader, mut other) = (one.begin(Serializable), two.begin(ReadCommitted));
    assert_eq!(get(&mut reader, &table, b"x"), None);
    let start = reader.savepoint();
    assert!(reader.insert(&table, b"m", b"1").unwrap());
    assert!(other.insert(&table, b"n", b"1").unwrap() && other.insert(&table, b"o", b"1").unwrap());
    let mut found = Vec::new();
    reader
        .scan(&table, Bound::Included(b"b"), Bound::Unbounded, |key, _| {
            found.push(key.to_vec());
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(found, [b"m"]);
    reader.rollback_to(start).unwrap();
    other.rollback().unwrap();
    let mut writer = three.begin(ReadCommitted);
    waits(writer.insert(&table, b"c", b"1"));
    reader.rollback().unwrap();
    assert!(writer.insert(&table, b"c", b"1").unwrap());
}

#[test]
fn who_waits_for_a_gap_has_no_undo_of_what_it_would_add() {
    let config = EngineConfig { rollback_segments: 1, ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_table("t").unwrap();
    let (one, other) = (session(&db), session(&db));
    fill(&one, &table, &[b"b", b"h"]);
    let mut reader = one.begin(Serializable);
    assert_eq!(range(&mut reader, &table, b"c", b"f").len(), 0);
    std::thread::scope(|scope| {
        let adds = scope.spawn(|| {
            let session = session(&db);
            let mut writer = session.begin(ReadCommitted);
            writer.insert(&table, b"d", b"1").and_then(|added| writer.commit().map(|()| added))
        });
        while db.stats().locks.waiting == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut writer = other.begin(ReadCommitted);
        assert!(writer.update(&table, b"h", b"1").unwrap());
        writer.commit().unwrap();
        while db.stats().txns.history > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(db.stats().locks.waiting, 1, "it waits all the while");
        reader.commit().unwrap();
        assert!(adds.join().unwrap().unwrap());
    });
}

#[test]
fn of_two_that_read_what_the_other_writes_one_is_a_victim() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    let setup = session(&db);
    fill(&setup, &table, &[b"a", b"b"]);
    let barrier = std::sync::Barrier::new(2);
    let skew = |mine: &'static [u8], isolation: Isolation| {
        let session = session(&db);
        let mut txn = session.begin(isolation);
        assert_eq!(all(&mut txn, &table).len(), 2);
        barrier.wait();
        txn.update(&table, mine, b"1").and_then(|_| txn.commit())
    };
    for (isolation, both) in [(RepeatableRead, true), (Serializable, false)] {
        let results: Vec<_> = std::thread::scope(|scope| {
            let skew = &skew;
            let threads = [b"a", b"b"].map(|mine| scope.spawn(move || skew(mine, isolation)));
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let committed = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(committed == 2, both, "{isolation:?}: {results:?}");
        assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(Error::Deadlock))));
    }
}

/// An operation of a transaction, and its result.
#[derive(Debug)]
enum Did {
    Get(Vec<u8>, Option<Vec<u8>>),
    Scan(Vec<u8>, Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>),
    Upsert(Vec<u8>, Vec<u8>, bool),
    Insert(Vec<u8>, Vec<u8>, bool),
    Delete(Vec<u8>, bool),
    Savepoint,
    RollbackTo,
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A few pages of rows, so that gaps reach over their ends.
const KEYS: u64 = 40;

fn some_key(random: &mut SplitMix64) -> Vec<u8> {
    format!("{:02}", random.next_u64() % KEYS).into_bytes()
}

/// Anything, and its result; `None` after an error that ended the transaction or means that it has to.
fn anything(txn: &mut Transaction<'_>, table: &Table, random: &mut SplitMix64) -> Option<Did> {
    let key = some_key(random);
    let value = vec![random.next_u64() as u8; 300 + (random.next_u64() % 600) as usize];
    let tried = match random.next_u64() % 10 {
        0..2 => {
            let mut value = Vec::new();
            txn.get(table, &key, &mut value).map(|found| Did::Get(key, found.then_some(value)))
        }
        2..4 => {
            let (mut to, mut rows) = (some_key(random), Vec::new());
            to.push(b'x');
            txn.scan(table, Bound::Included(&key), Bound::Excluded(&to), |key, value| {
                rows.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .map(|()| Did::Scan(key, to, rows))
        }
        4..6 => txn.upsert(table, &key, &value).map(|added| Did::Upsert(key, value, added)),
        6..8 => txn.insert(table, &key, &value).map(|added| Did::Insert(key, value, added)),
        _ => txn.delete(table, &key).map(|found| Did::Delete(key, found)),
    };
    match tried {
        Ok(did) => Some(did),
        Err(Error::Deadlock | Error::LockWaitTimeout) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Does it all again, alone; the results are the same.
fn replay(rows: &mut Rows, history: &[Did]) {
    let mut saved = rows.clone();
    for did in history {
        match did {
            Did::Get(key, found) => assert_eq!(rows.get(key), found.as_ref(), "{did:?}"),
            Did::Scan(from, to, found) => {
                let range = (from <= to).then(|| rows.range(from.clone()..to.clone()));
                let expected: Vec<_> =
                    range.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
                assert_eq!(&expected, found, "{did:?}");
            }
            Did::Upsert(key, value, added) => {
                assert_eq!(rows.insert(key.clone(), value.clone()).is_none(), *added, "{did:?}");
            }
            Did::Insert(key, value, added) => {
                assert_eq!(!rows.contains_key(key), *added, "{did:?}");
                rows.entry(key.clone()).or_insert_with(|| value.clone());
            }
            Did::Delete(key, found) => assert_eq!(rows.remove(key).is_some(), *found, "{did:?}"),
            Did::Savepoint => saved = rows.clone(),
            Did::RollbackTo => *rows = saved.clone(),
        }
    }
}

/// Strict two-phase locking: the order of the commits is one in which all could have run alone.
#[test]
fn what_committed_can_be_replayed_in_the_order_of_the_commits() {
    let seeds = std::env::var("FLIFO_SEEDS").ok().map_or(6, |seeds| seeds.parse().unwrap());
    let mut committed = 0;
    for seed in 0..seeds {
        let short = EngineConfig { lock_wait_timeout: Duration::from_millis(200), ..config() };
        let db = Database::create_on(Arc::new(MemoryDisk::default()), short).unwrap();
        let table = db.create_table("t").unwrap();
        let commits = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..5_u64 {
                let (db, table, commits) = (&db, &table, &commits);
                scope.spawn(move || {
                    let session = session(db);
                    let mut random = SplitMix64::seed_from_u64(seed * 100 + thread);
                    for _ in 0..40 {
                        let mut txn = session.begin(Serializable);
                        let (mut history, mut savepoint) = (Vec::new(), txn.savepoint());
                        let whole = (0..1 + random.next_u64() % 6).all(|_| {
                            let did = match random.next_u64() % 12 {
                                0 => {
                                    savepoint = txn.savepoint();
                                    Some(Did::Savepoint)
                                }
                                1 => txn.rollback_to(savepoint).ok().map(|()| Did::RollbackTo),
                                _ => anything(&mut txn, table, &mut random),
                            };
                            did.map(|did| history.push(did)).is_some()
                        });
                        if whole {
                            let mut commits = commits.lock().unwrap();
                            txn.commit().unwrap();
                            commits.push(history);
                        }
                    }
                });
            }
        });
        let commits = commits.into_inner().unwrap();
        let mut rows = Rows::new();
        commits.iter().for_each(|history| replay(&mut rows, history));
        assert_eq!(all(&mut session(&db).begin(ReadCommitted), &table), rows, "seed {seed}");
        assert_eq!(db.stats().locks.locks, 0);
        committed += commits.len();
    }
    assert!(committed as u64 > seeds * 20, "only {committed} committed");
}
