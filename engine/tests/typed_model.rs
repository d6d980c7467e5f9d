//! A typed table beside a map: any history of changes, rollbacks, savepoints and reopenings gives the same rows, by key
//! and by each index; and after a power cut rows and indexes agree.
//!
//! `PROPTEST_CASES` says how many histories; `FLIFO_SEEDS`, how many of power cuts.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{config, session};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::row::{Column, ColumnType, Index, Prefix, Row, Schema, Value, desc};
use flifo_engine::{Database, EngineConfig, Error, Isolation, PRIMARY_KEY, Session, Transaction, TypedTable};
use proptest::prelude::*;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

fn small() -> EngineConfig {
    EngineConfig { rollback_segments: 3, buffer_pool_bytes: 256 << 10, ..config() }
}

/// One index is unique and of a nullable column, the other descends.
fn schema() -> Schema {
    Schema::builder()
        .column(Column::new("group", ColumnType::U8))
        .column(Column::new("id", ColumnType::I16))
        .column(Column::new("mail", ColumnType::Text).nullable())
        .column(Column::new("score", ColumnType::I32))
        .primary_key(["group".into(), desc("id")])
        .index(Index::unique("by_mail", ["mail"]))
        .index(Index::new("by_score", [desc("score"), "group".into()]))
        .build()
        .unwrap()
}

type Key = (u8, i16);
type Rest = (Option<u8>, i32);
type Rows = BTreeMap<Key, Rest>;

fn mail(mail: Option<u8>) -> Option<String> {
    // As long as lets few fit a page, and with bytes that are escaped.
    mail.map(|mail| format!("{mail}\0\u{1}{}@a", "x".repeat(usize::from(mail) * 3)))
}

fn values((group, id): Key, (of_mail, score): Rest) -> Vec<Value> {
    vec![group.into(), id.into(), mail(of_mail).into(), score.into()]
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Key, Rest),
    Update(Key, Rest),
    Upsert(Key, Rest),
    Score(Key, i32),
    Delete(Key),
    Savepoint,
    RollbackTo,
    Commit,
    Rollback,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || (0..3_u8, 0..12_i16);
    let rest = || (proptest::option::of(0..40_u8), -3..4_i32);
    let step = prop_oneof![
        6 => (key(), rest()).prop_map(|(key, rest)| Step::Insert(key, rest)),
        4 => (key(), rest()).prop_map(|(key, rest)| Step::Update(key, rest)),
        4 => (key(), rest()).prop_map(|(key, rest)| Step::Upsert(key, rest)),
        3 => (key(), -3..4_i32).prop_map(|(key, score)| Step::Score(key, score)),
        4 => key().prop_map(Step::Delete),
        2 => Just(Step::Savepoint),
        2 => Just(Step::RollbackTo),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
        1 => Just(Step::Reopen),
    ];
    proptest::collection::vec(step, 1..120)
}

/// The rows as they are in the transaction, at its savepoint, and without it.
#[derive(Clone, Default)]
struct Model {
    now: Rows,
    saved: Rows,
    committed: Rows,
}

impl Model {
    fn has_mail(&self, key: Key, mail: Option<u8>) -> bool {
        mail.is_some() && self.now.iter().any(|(&other, row)| other != key && row.0 == mail)
    }

    /// What a write of the row must give, and does to the model.
    fn put(&mut self, key: Key, rest: Rest) -> Result<(), &'static str> {
        if self.has_mail(key, rest.0) {
            return Err("by_mail");
        }
        self.now.insert(key, rest);
        Ok(())
    }

    fn end(&mut self, committed: bool) {
        if committed {
            self.committed.clone_from(&self.now)
        } else {
            self.now.clone_from(&self.committed)
        }
        self.saved.clone_from(&self.now);
    }
}

fn index_of(error: Error) -> String {
    match error {
        Error::DuplicateKey { index } => index,
        other => panic!("{other}"),
    }
}

fn change(table: &TypedTable, txn: &mut Transaction<'_>, step: &Step, model: &mut Model) {
    match *step {
        Step::Insert(key, rest) => {
            let expected = match model.now.contains_key(&key) {
                true => Err(PRIMARY_KEY),
                false => model.put(key, rest),
            };
            let found = table.insert(txn, values(key, rest)).map(drop).map_err(index_of);
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        Step::Update(key, rest) => {
            let there = model.now.contains_key(&key);
            let expected = if there { model.put(key, rest).map(|()| true) } else { Ok(false) };
            let found = table.update(txn, values(key, rest)).map_err(index_of);
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        Step::Upsert(key, rest) => {
            let there = model.now.contains_key(&key);
            let expected = model.put(key, rest).map(|()| !there);
            let found = table.upsert(txn, values(key, rest)).map_err(index_of);
            assert_eq!(found, expected.map_err(str::to_owned));
        }
        Step::Score(key, score) => {
            let found = table.update_with(txn, key, |row| Ok(row.set("score", score)?)).unwrap();
            assert_eq!(found, model.now.contains_key(&key));
            model.now.entry(key).and_modify(|row| row.1 = score);
        }
        Step::Delete(key) => {
            assert_eq!(table.delete(txn, key).unwrap(), model.now.remove(&key).is_some());
        }
        _ => unreachable!("it is no change"),
    }
}

fn all(rows: flifo_engine::Rows) -> Vec<Vec<Value>> {
    rows.map(|row: flifo_engine::Result<Row>| row.unwrap().values().unwrap()).collect()
}

/// The rows, by key and by each index, are the model's.
fn compare(db: &Database, table: &TypedTable, txn: &mut Transaction<'_>, model: &Rows) {
    assert_eq!(db.check_typed_table(table, txn).unwrap(), model.len() as u64);
    let mut expected: Vec<_> = model.iter().collect();
    let give = |expected: &[(&Key, &Rest)]| -> Vec<Vec<Value>> {
        expected.iter().map(|&(&key, &rest)| values(key, rest)).collect()
    };
    expected.sort_by_key(|(key, _)| (key.0, std::cmp::Reverse(key.1)));
    assert_eq!(all(table.iter(txn, ..).unwrap()), give(&expected));
    expected.sort_by_key(|(key, rest)| (mail(rest.0), key.0, std::cmp::Reverse(key.1)));
    assert_eq!(all(table.iter_index(txn, "by_mail", ..).unwrap()), give(&expected));
    expected.sort_by_key(|(key, rest)| (std::cmp::Reverse(rest.1), key.0, std::cmp::Reverse(key.1)));
    assert_eq!(all(table.iter_index(txn, "by_score", ..).unwrap()), give(&expected));
    expected.retain(|(key, rest)| rest.1 == 2 && key.0 == 1);
    assert_eq!(all(table.iter_index(txn, "by_score", Prefix((2, 1))).unwrap()), give(&expected));
}

/// Runs steps in one transaction up to its end; what is left.
fn transaction<'s>(
    db: &Database,
    table: &TypedTable,
    session: &Session,
    mut steps: &'s [Step],
    model: &mut Model,
) -> &'s [Step] {
    let mut txn = session.begin(Isolation::ReadCommitted);
    let mut savepoint = txn.savepoint();
    while let [step, rest @ ..] = steps {
        match step {
            Step::Reopen => break,
            Step::Savepoint => {
                savepoint = txn.savepoint();
                model.saved.clone_from(&model.now);
            }
            Step::RollbackTo => {
                txn.rollback_to(savepoint).unwrap();
                model.now.clone_from(&model.saved);
            }
            Step::Commit | Step::Rollback => {
                compare(db, table, &mut txn, &model.now);
                let commit = matches!(step, Step::Commit);
                if commit {
                    txn.commit().unwrap()
                } else {
                    txn.rollback().unwrap()
                }
                model.end(commit);
                return rest;
            }
            change_step => change(table, &mut txn, change_step, model),
        }
        steps = rest;
    }
    compare(db, table, &mut txn, &model.now);
    drop(txn);
    model.end(false);
    steps
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").map_or(24, |cases| cases.parse().expect("a number"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn a_typed_table_is_what_its_model_says(steps in steps()) {
        let disk = MemoryDisk::default();
        let db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
        db.create_typed_table("t", schema()).unwrap();
        let (mut db, mut model, mut steps) = (Some(db), Model::default(), &steps[..]);
        while !steps.is_empty() {
            let open = db.take().unwrap();
            let (table, session) = (open.typed_table("t").unwrap(), session(&open));
            steps = transaction(&open, &table, &session, steps, &mut model);
            if let [Step::Reopen, rest @ ..] = steps {
                steps = rest;
                drop((table, session));
                open.close().unwrap();
                drop(open);
                db = Some(Database::open_on(Arc::new(disk.clone()), small()).unwrap());
            } else {
                db = Some(open);
            }
        }
    }
}

fn random_rest(random: &mut SplitMix64) -> Rest {
    let mail = (random.next_u64() % 200) as u8;
    (Some(mail).filter(|mail| *mail < 150), (random.next_u64() % 100) as i32)
}

/// Changes rows in transactions of a few statements, some of which are rolled back.
fn work(db: &Database, table: &TypedTable, seed: u64, thread: u64, committed: &AtomicU64, enough: u64) {
    let mut random = SplitMix64::seed_from_u64(seed * 31 + thread);
    let session = session(db);
    while committed.load(Ordering::Relaxed) < enough {
        let mut txn = session.begin(Isolation::ReadCommitted);
        let mut outcome = Ok(());
        for _ in 0..1 + random.next_u64() % 4 {
            let key = ((random.next_u64() % 4) as u8, (random.next_u64() % 60) as i16);
            let rest = random_rest(&mut random);
            let done = match random.next_u64() % 4 {
                0 => table.delete(&mut txn, key).map(drop),
                1 => table.insert(&mut txn, values(key, rest)).map(drop),
                2 => table.update_with(&mut txn, key, |row| Ok(row.set("score", rest.1)?)).map(drop),
                _ => table.upsert(&mut txn, values(key, rest)).map(drop),
            };
            match done {
                Ok(()) | Err(Error::DuplicateKey { .. }) => {}
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        match outcome {
            Ok(()) if random.next_u64().is_multiple_of(5) => txn.rollback().unwrap(),
            Ok(()) => {
                txn.commit().unwrap();
                committed.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Deadlock) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Rows and indexes agree after a power cut in the middle of the work of three threads, again and again.
#[test]
fn after_a_power_cut_rows_and_indexes_agree() {
    let seeds = std::env::var("FLIFO_SEEDS").map_or(4, |seeds| seeds.parse().expect("a number"));
    for seed in 0..seeds {
        let mut disk = MemoryDisk::with_power_cuts(seed);
        let db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
        db.create_typed_table("t", schema()).unwrap();
        drop(db);
        for round in 0..3 {
            let db = Database::open_on(Arc::new(disk.clone()), small()).unwrap();
            let table = db.typed_table("t").unwrap();
            {
                let session = session(&db);
                let mut txn = session.begin(Isolation::RepeatableRead);
                db.check_typed_table(&table, &mut txn)
                    .unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
            }
            let committed = AtomicU64::new(0);
            disk = std::thread::scope(|scope| {
                for thread in 0..3 {
                    let (db, table, committed) = (&db, &table, &committed);
                    scope.spawn(move || work(db, table, seed * 3 + round, thread, committed, 150));
                }
                while committed.load(Ordering::Relaxed) < 50 + seed % 80 {
                    std::thread::yield_now();
                }
                disk.power_cut()
            });
            // What the threads have made of it beside, agrees, too.
            let session = session(&db);
            db.check_typed_table(&table, &mut session.begin(Isolation::RepeatableRead)).unwrap();
        }
    }
}
