//! Several transactions at a time under repeatable read, beside a model of snapshot isolation.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use common::{all, config, get, session};
use flifo_engine::Isolation::{ReadCommitted, RepeatableRead};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Savepoint, Session, Transaction};
use proptest::prelude::*;

/// What one of several transactions does next.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Get(u8),
    Scan,
    Commit,
    Rollback,
    RollbackToStart,
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let step = prop_oneof![
        6 => (0..6_u8, any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => (0..6_u8).prop_map(Step::Delete),
        4 => (0..6_u8).prop_map(Step::Get),
        2 => Just(Step::Scan),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::RollbackToStart),
    ];
    (0..4_usize, step)
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Snapshot isolation as a book would have it: what a transaction sees, and what it has written.
#[derive(Default)]
struct Model {
    committed: Rows,
    /// For each key, at which commit it was last changed.
    changed: BTreeMap<Vec<u8>, usize>,
    commits: usize,
    open: [Option<Open>; 4],
}

#[derive(Clone)]
struct Open {
    began: usize,
    rows: Rows,
    /// Rows when the transaction began.
    snapshot: Rows,
    /// Keys that it has written: locked by its id in the row.
    written: BTreeSet<Vec<u8>>,
    /// Those that another one ran into: locked to the end.
    explicit: BTreeSet<Vec<u8>>,
}

/// What becomes of a write.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Done(bool),
    Locked,
    Conflict,
}

impl Model {
    fn open(&mut self, index: usize) -> &mut Open {
        let (committed, began) = (self.committed.clone(), self.commits);
        self.open[index].get_or_insert_with(|| Open {
            began,
            rows: committed.clone(),
            snapshot: committed,
            written: BTreeSet::new(),
            explicit: BTreeSet::new(),
        })
    }

    fn write(&mut self, index: usize, key: &[u8], value: Option<&[u8]>) -> Outcome {
        self.open(index);
        let others = self.open.clone().into_iter().enumerate().filter(|(other, _)| *other != index);
        let others: Vec<(usize, Open)> = others.filter_map(|(other, open)| Some((other, open?))).collect();
        let holder = |holds: &dyn Fn(&Open) -> bool| {
            others.iter().find(|(_, open)| holds(open)).map(|(other, _)| *other)
        };
        let changed = self.changed.get(key).copied().unwrap_or(0);
        if let Some(writer) = holder(&|open| open.written.contains(key)) {
            self.open[writer].as_mut().unwrap().explicit.insert(key.to_vec());
            return Outcome::Locked;
        }
        let open = self.open[index].as_mut().unwrap();
        if changed > open.began && !open.written.contains(key) {
            // Whether it is locked or not: to wait would help nobody.
            return Outcome::Conflict;
        }
        if holder(&|open| open.explicit.contains(key)).is_some() {
            return Outcome::Locked;
        }
        let found = open.rows.contains_key(key);
        match value {
            Some(value) => drop(open.rows.insert(key.to_vec(), value.to_vec())),
            None => drop(open.rows.remove(key)),
        }
        if value.is_some() || found {
            open.written.insert(key.to_vec());
        }
        Outcome::Done(found)
    }

    fn commit(&mut self, index: usize) {
        let Some(open) = self.open[index].take() else { return };
        self.commits += 1;
        for key in open.written {
            let _ = match open.rows.get(&key) {
                Some(value) => self.committed.insert(key.clone(), value.clone()),
                None => self.committed.remove(&key),
            };
            self.changed.insert(key, self.commits);
        }
    }
}

fn outcome(result: flifo_engine::Result<bool>) -> Outcome {
    match result {
        Ok(found) => Outcome::Done(found),
        Err(Error::LockWaitTimeout) => Outcome::Locked,
        Err(Error::WriteConflict) => Outcome::Conflict,
        Err(error) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Up to four transactions at a time under repeatable read, which never wait, beside the model.
    #[test]
    fn snapshots_are_as_in_the_book(steps in prop::collection::vec(step(), 1..120)) {
        let impatient = EngineConfig { lock_wait_timeout: Duration::ZERO, ..config() };
        let db = Database::create_on(Arc::new(MemoryDisk::default()), impatient).unwrap();
        let table = db.create_table("t").unwrap();
        let sessions: Vec<Session> = (0..4).map(|_| session(&db)).collect();
        let mut open: Vec<Option<Transaction<'_>>> = (0..4).map(|_| None).collect();
        let mut model = Model::default();
        for (index, step) in steps {
            let txn = open[index].get_or_insert_with(|| sessions[index].begin(RepeatableRead));
            match step {
                Step::Put(key, value) => {
                    let expected = model.write(index, &[key], Some(&[value]));
                    let found = outcome(txn.upsert(&table, &[key], &[value]).map(|added| !added));
                    prop_assert_eq!(found, expected);
                }
                Step::Delete(key) => {
                    let expected = model.write(index, &[key], None);
                    prop_assert_eq!(outcome(txn.delete(&table, &[key])), expected);
                }
                Step::Get(key) => {
                    let expected = model.open(index).rows.get(&vec![key]).cloned();
                    prop_assert_eq!(get(txn, &table, &[key]), expected);
                }
                Step::Scan => {
                    let expected = model.open(index).rows.clone();
                    prop_assert_eq!(all(txn, &table), expected);
                }
                Step::Commit => {
                    model.commit(index);
                    open[index].take().unwrap().commit().unwrap();
                }
                Step::Rollback => {
                    model.open[index] = None;
                    open[index].take().unwrap().rollback().unwrap();
                }
                Step::RollbackToStart => {
                    if let Some(open) = &mut model.open[index] {
                        open.rows = open.snapshot.clone();
                        open.written.clear();
                    }
                    txn.rollback_to(Savepoint::default()).unwrap();
                }
            }
        }
        drop(open);
        prop_assert_eq!(all(&mut sessions[0].begin(ReadCommitted), &table), model.committed);
    }
}

/// So many transactions after which those before them have no slot in the engine's table any more.
const MANY: u32 = 70_000;

/// As a backup, or a report, beside a hot row; a transaction that somebody forgot to end; and one in doubt.
#[test]
fn what_stays_open_beside_many_transactions_stops_none_of_them() {
    let config = EngineConfig {
        lock_wait_timeout: Duration::ZERO,
        flush_log_at_trx_commit: FlushLog::EverySecond,
        redo_capacity_bytes: 16 << 20,
        ..config()
    };
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config.clone()).unwrap();
    let table = db.create_table("t").unwrap();
    let (reporter, forgetful, writer) = (session(&db), session(&db), session(&db));
    let put = |session: &Session, key: &[u8], value: u32| -> flifo_engine::Result<()> {
        let mut txn = session.begin(ReadCommitted);
        txn.upsert(&table, key, &value.to_le_bytes())?;
        txn.commit()
    };
    let value = |value: u32| Some(value.to_le_bytes().to_vec());
    for key in [&b"hot"[..], b"forgotten", b"in doubt"] {
        put(&writer, key, 0).unwrap();
    }
    let mut in_doubt = writer.begin(ReadCommitted);
    in_doubt.upsert(&table, b"in doubt", &1_u32.to_le_bytes()).unwrap();
    assert!(in_doubt.prepare(b"xid").unwrap());
    let mut forgotten = forgetful.begin(ReadCommitted);
    forgotten.upsert(&table, b"forgotten", &1_u32.to_le_bytes()).unwrap();
    let mut report = reporter.begin(RepeatableRead);
    assert_eq!(get(&mut report, &table, b"hot"), value(0));

    for n in 1..=MANY {
        put(&writer, b"hot", n).unwrap();
    }
    for key in [&b"hot"[..], b"forgotten", b"in doubt"] {
        assert_eq!(get(&mut report, &table, key), value(0));
    }
    assert_eq!(get(&mut writer.begin(ReadCommitted), &table, b"hot"), value(MANY));
    assert!(db.stats().txns.history > u64::from(MANY), "the report holds purge up");
    for key in [&b"forgotten"[..], b"in doubt"] {
        assert!(matches!(put(&writer, key, 2), Err(Error::LockWaitTimeout)));
    }
    forgotten.commit().unwrap();
    assert_eq!(get(&mut report, &table, b"forgotten"), value(0));
    assert!(matches!(report.upsert(&table, b"forgotten", b"2"), Err(Error::WriteConflict)));
    assert_eq!(get(&mut writer.begin(ReadCommitted), &table, b"forgotten"), value(1));
    drop(report);
    drop((reporter, forgetful, writer, table));
    db.close().unwrap();

    // What is in doubt is as old for the next one.
    let db = Database::open_on(Arc::new(disk), config).unwrap();
    let (table, session) = (db.table("t").unwrap(), session(&db));
    let mut txn = session.begin(ReadCommitted);
    assert!(matches!(txn.upsert(&table, b"in doubt", b"2"), Err(Error::LockWaitTimeout)));
    assert_eq!(get(&mut txn, &table, b"in doubt"), value(0));
    assert_eq!((get(&mut txn, &table, b"hot"), get(&mut txn, &table, b"forgotten")), (value(MANY), value(1)));
    session.commit_prepared(b"xid").unwrap();
    assert_eq!(get(&mut txn, &table, b"in doubt"), value(1));
    drop(txn);
    while db.stats().txns.history > 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(db.check_table(&table).unwrap().rows, 3);
}
