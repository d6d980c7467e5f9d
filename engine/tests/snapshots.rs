//! Several transactions at a time under repeatable read, beside a model of snapshot isolation.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use common::{all, config, get, session};
use flifo_engine::Isolation::{ReadCommitted, RepeatableRead};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, Error, Savepoint, Session, Transaction};
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
