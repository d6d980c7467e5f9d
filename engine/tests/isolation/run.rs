//! Threads that append and read, and write down what they saw.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use flifo_engine::{Database, EngineConfig, Error, Result, Session, Table, Transaction};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::Level;
use super::common;
use super::history::{Element, History, Key, List, Op, Txn};

const THREADS: u64 = 6;
const TXNS_EACH: u64 = 60;
/// Lists that are in use at the same time.
const KEYS: u64 = 4;
/// Transactions per list, after which a new one begins, so that none outgrows its page.
const TXNS_PER_KEY: u64 = 30;

/// How a list is appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Appends {
    /// `get`, then `upsert`.
    Plain,
    /// `get_for_update`, then `upsert`.
    ForUpdate,
}

/// A small pool, so that pages come and go; now and then few rollback segments.
pub(crate) fn config(seed: u64) -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: (256 << 10) << (seed % 3),
        buffer_pool_instances: 1,
        rollback_segments: 1 + seed as u32 % 4,
        lock_wait_timeout: Duration::from_secs(20),
        ..common::config()
    }
}

/// What is run, and what was seen so far.
pub(crate) struct Load<'l> {
    seed: u64,
    level: &'l Level,
    pub(crate) clock: AtomicU64,
    pub(crate) stop: AtomicBool,
    /// Transactions that were begun.
    pub(crate) begun: AtomicU64,
    next_element: AtomicU32,
    history: Mutex<History>,
}

impl<'l> Load<'l> {
    /// On lists that have what `before` says.
    pub(crate) fn new(seed: u64, level: &'l Level, before: History) -> Self {
        let elements = before.initial.values().flatten().copied().max().unwrap_or(0);
        Load {
            seed,
            level,
            clock: AtomicU64::new(1),
            stop: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            next_element: AtomicU32::new(elements + 1),
            history: Mutex::new(before),
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// The history, with a last transaction that reads all lists.
    pub(crate) fn end(self, db: &Database, table: &Table) -> History {
        let begun = self.tick();
        let ops = all_lists(db, table).into_iter().map(|(key, list)| Op::Read(key, list)).collect();
        let ended = self.tick();
        let mut history = self.history.into_inner().unwrap();
        history.txns.push(Txn { begun, ended, committed: true, ops });
        history
    }
}

/// What is in the table.
pub(crate) fn all_lists(db: &Database, table: &Table) -> Vec<(Key, List)> {
    let session = common::session(db);
    let rows = common::all(&mut session.begin(flifo_engine::Isolation::RepeatableRead), table);
    rows.iter().map(|(key, list)| (Key::from_be_bytes(key[..].try_into().unwrap()), decode(list))).collect()
}

fn decode(bytes: &[u8]) -> List {
    bytes.chunks(4).map(|element| Element::from_le_bytes(element.try_into().unwrap())).collect()
}

fn encode(list: &[Element]) -> Vec<u8> {
    list.iter().flat_map(|element| element.to_le_bytes()).collect()
}

/// Runs all threads to their end, or until the load is stopped.
pub(crate) fn append_and_read(db: &Database, table: &Table, load: &Load<'_>) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let session = common::session(db);
                let mut random = SplitMix64::seed_from_u64(load.seed * 100 + thread);
                for _ in 0..TXNS_EACH {
                    if load.stop.load(Ordering::SeqCst) {
                        break;
                    }
                    transaction(&session, table, load, &mut random);
                }
            });
        }
    });
}

fn transaction(session: &Session, table: &Table, load: &Load<'_>, random: &mut SplitMix64) {
    let number = load.begun.fetch_add(1, Ordering::SeqCst);
    let mut work = Work { table, load, ops: Vec::new(), first_key: number / TXNS_PER_KEY };
    let begun = load.tick();
    let mut txn = session.begin(load.level.isolation);
    let done = work.operations(&mut txn, random);
    let ended = match (done, random.next_u64() % 10) {
        (Ok(()), 1..) => txn.commit().map(|()| true),
        (Ok(()), 0) => txn.rollback().map(|()| false),
        // Dropped, it is rolled back.
        (Err(error), _) => Err(error),
    };
    let committed = ended.unwrap_or_else(|error| match error {
        Error::WriteConflict | Error::Deadlock => false,
        error => panic!("{error}"),
    });
    let txn = Txn { begun, ended: load.tick(), committed, ops: work.ops };
    load.history.lock().unwrap().txns.push(txn);
}

/// A transaction's work.
struct Work<'w> {
    table: &'w Table,
    load: &'w Load<'w>,
    ops: Vec<Op>,
    first_key: u64,
}

impl Work<'_> {
    fn operations(&mut self, txn: &mut Transaction<'_>, random: &mut SplitMix64) -> Result<()> {
        for _ in 0..1 + random.next_u64() % 5 {
            let key = (self.first_key + random.next_u64() % KEYS) as Key;
            match random.next_u64() % 10 {
                0..5 => {
                    let list = self.get(txn, key, Appends::Plain)?;
                    self.ops.push(Op::Read(key, list));
                }
                5 => {
                    let savepoint = txn.savepoint();
                    let (list, element) = self.append(txn, key)?;
                    // Before it is known: what is rolled back by an error was taken back, too.
                    self.ops.push(Op::Undone(key, list, element));
                    txn.rollback_to(savepoint)?;
                }
                _ => {
                    let (list, element) = self.append(txn, key)?;
                    self.ops.push(Op::Append(key, list, element));
                }
            }
            // Others come in between.
            match random.next_u64() % 4 {
                0 => std::thread::sleep(Duration::from_micros(random.next_u64() % 100)),
                _ => std::thread::yield_now(),
            }
        }
        Ok(())
    }

    fn get(&self, txn: &mut Transaction<'_>, key: Key, how: Appends) -> Result<List> {
        let mut value = Vec::new();
        match how {
            Appends::Plain => txn.get(self.table, &key.to_be_bytes(), &mut value)?,
            Appends::ForUpdate => txn.get_for_update(self.table, &key.to_be_bytes(), &mut value)?,
        };
        Ok(decode(&value))
    }

    fn append(&self, txn: &mut Transaction<'_>, key: Key) -> Result<(List, Element)> {
        let list = self.get(txn, key, self.load.level.appends)?;
        let element = self.load.next_element.fetch_add(1, Ordering::Relaxed);
        let value = encode(&[&list[..], &[element]].concat());
        txn.upsert(self.table, &key.to_be_bytes(), &value)?;
        Ok((list, element))
    }
}
