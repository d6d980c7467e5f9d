//! Histories that can be checked after a crash: each worker changes keys of its own, one change after the other, as a
//! seed says; so what must be found follows from how many of its changes have returned.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use flifo_engine::{Database, Result, Session, Tree};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

/// Keys of one worker: few, so that each is changed again and again, and many enough for splits and merges.
const KEYS: u64 = 600;

/// The changes of one worker, as a seed says, and what they lead to.
pub(crate) struct Worker {
    pub(crate) number: u64,
    random: SplitMix64,
    pub(crate) done: u64,
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

enum Change {
    Upsert(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
}

impl Worker {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let random = SplitMix64::seed_from_u64(seed * 1000 + number);
        Worker { number, random, done: 0, rows: BTreeMap::new() }
    }

    /// The same after its first `done` changes.
    pub(crate) fn after(seed: u64, number: u64, done: u64) -> Self {
        let mut worker = Worker::new(seed, number);
        for _ in 0..done {
            let change = worker.choose();
            worker.note(change);
        }
        worker
    }

    fn key(&self, row: u64) -> Vec<u8> {
        [self.number.to_be_bytes(), row.to_be_bytes()].concat()
    }

    fn choose(&mut self) -> Change {
        let (kind, row) = (self.random.next_u64() % 10, self.random.next_u64() % KEYS);
        // Waves of growth and decline, so that nodes are split, merged, and their pages used again.
        let deletes = if (self.done / KEYS).is_multiple_of(2) { 2 } else { 8 };
        match kind < deletes {
            true => Change::Delete(self.key(row)),
            false => {
                let mut value = format!("change {} of worker {}; ", self.done, self.number).into_bytes();
                value.resize(40 + (self.random.next_u64() % 400) as usize, self.done as u8);
                Change::Upsert(self.key(row), value)
            }
        }
    }

    fn note(&mut self, change: Change) {
        match change {
            Change::Upsert(key, value) => drop(self.rows.insert(key, value)),
            Change::Delete(key) => drop(self.rows.remove(&key)),
        }
        self.done += 1;
    }

    /// Makes the next change.
    pub(crate) fn change(&mut self, session: &Session, tree: &Tree) -> Result<()> {
        let change = self.choose();
        let statement = session.statement()?;
        match &change {
            Change::Upsert(key, value) => drop(statement.upsert(tree, key, value)?),
            Change::Delete(key) => drop(statement.delete(tree, key)?),
        }
        self.note(change);
        Ok(())
    }
}

/// Checks the tree, and that each worker's rows are those after at least `done` and at most `done + beyond` of its
/// changes; gives the workers as they are found.
pub(crate) fn check(db: &Database, tree: &Tree, seed: u64, done: &[u64], beyond: u64) -> Vec<Worker> {
    check_between(db, tree, seed, done, &done.iter().map(|done| done + beyond).collect::<Vec<_>>())
}

/// The same, with the most of each worker's changes.
pub(crate) fn check_between(
    db: &Database,
    tree: &Tree,
    seed: u64,
    done: &[u64],
    most: &[u64],
) -> Vec<Worker> {
    db.check_tree(tree).unwrap();
    let session = super::session(db);
    let find = |(number, &done): (usize, &u64)| {
        let number = number as u64;
        let (from, to) = (number.to_be_bytes(), (number + 1).to_be_bytes());
        let mut rows = BTreeMap::new();
        let each = |key: &[u8], value: &[u8]| {
            rows.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        };
        let statement = session.statement().unwrap();
        statement.scan(tree, Bound::Included(&from), Bound::Excluded(&to), each).unwrap();
        let (mut worker, most) = (Worker::after(seed, number, done), most[number as usize]);
        while worker.rows != rows {
            assert!(
                worker.done < most,
                "seed {seed}, worker {number}: what is found does not follow {done} to {most} changes"
            );
            let change = worker.choose();
            worker.note(change);
        }
        worker
    };
    done.iter().enumerate().map(find).collect()
}
