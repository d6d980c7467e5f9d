//! Tables made, dropped, renamed, emptied, indexed; and the power cut at any point of that.
//!
//! `FLIFO_SEEDS` says how many histories of power cuts.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{config, session};
use flifo_engine::disk::{Disk as _, Fault, MemoryDisk};
use flifo_engine::row::{Column, ColumnType, Index, Prefix, Schema, Value};
use flifo_engine::{Database, EngineConfig, Error, Isolation, Result, TypedTable};

const ROWS: u64 = 400;

fn small() -> EngineConfig {
    EngineConfig { rollback_segments: 2, ..config() }
}

fn schema() -> Schema {
    Schema::builder()
        .column(Column::new("id", ColumnType::U64).auto_increment())
        .column(Column::new("name", ColumnType::Text))
        .column(Column::new("size", ColumnType::U32))
        .primary_key(["id"])
        .index(Index::unique("by_name", ["name"]))
        .index(Index::new("by_size", ["size"]))
        .build()
        .unwrap()
}

fn rows(count: u64) -> impl Iterator<Item = Vec<Value>> {
    (1..=count).map(|id| vec![id.into(), format!("the row of number {id:08}").into(), (id % 7).into()])
}

fn check(db: &Database, table: &TypedTable) -> u64 {
    let session = session(db);
    let mut txn = session.begin(Isolation::RepeatableRead);
    db.check_typed_table(table, &mut txn).unwrap()
}

fn open(disk: &MemoryDisk) -> Result<Database> {
    Database::open_on(Arc::new(disk.clone()), small())
}

#[test]
fn tables_are_renamed_and_emptied() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
    let table = db.create_typed_table("a", schema()).unwrap();
    db.bulk_load_rows(&table, rows(ROWS), |_| {}).unwrap();
    assert!(matches!(db.rename_table("a", "b"), Err(Error::TableInUse { .. })));
    assert!(matches!(db.truncate_table("a"), Err(Error::TableInUse { .. })));
    drop(table);
    db.create_table("c").unwrap();
    assert!(matches!(db.rename_table("a", "c"), Err(Error::TableExists { .. })));
    assert!(matches!(db.rename_table("x", "y"), Err(Error::UnknownTable { .. })));
    db.rename_table("a", "b").unwrap();
    assert_eq!(db.table_names().unwrap(), ["b", "c"]);
    let table = db.typed_table("b").unwrap();
    assert_eq!(check(&db, &table), ROWS);
    {
        let session = session(&db);
        let mut txn = session.begin(Isolation::RepeatableRead);
        assert!(table.insert(&mut txn, (None::<u64>, "x", 1)).unwrap() > Some(ROWS));
        drop(table);
        assert!(matches!(db.truncate_table("c"), Err(Error::TransactionsActive { .. })));
    }
    db.truncate_table("b").unwrap();
    assert_eq!(db.lost_pages().unwrap(), 0);
    let table = db.typed_table("b").unwrap();
    assert_eq!(check(&db, &table), 0);
    let one = session(&db);
    let mut txn = one.begin(Isolation::RepeatableRead);
    assert_eq!(table.insert(&mut txn, (None::<u64>, "x", 1)).unwrap(), Some(1));
    txn.commit().unwrap();
    drop((table, one));
    db.drop_table("b").unwrap();
    assert_eq!(db.lost_pages().unwrap(), 0);
    db.close().unwrap();
    assert_eq!(open(&disk).unwrap().table_names().unwrap(), ["c"]);
}

/// A reader that stays keeps only what there is of a past.
#[test]
fn tables_come_and_go_beside_readers() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), small()).unwrap();
    let kept = db.create_typed_table("kept", schema()).unwrap();
    db.bulk_load_rows(&kept, rows(ROWS), |_| {}).unwrap();
    let (reader, writer) = (session(&db), session(&db));
    let mut reads = reader.begin(Isolation::RepeatableRead);
    assert_eq!(kept.count(&mut reads).unwrap(), ROWS);
    db.create_table("a").unwrap();
    db.rename_table("a", "b").unwrap();
    db.truncate_table("b").unwrap();
    db.drop_table("b").unwrap();
    let mut txn = writer.begin(Isolation::ReadCommitted);
    assert!(kept.delete(&mut txn, 1).unwrap());
    txn.commit().unwrap();
    db.create_table("a").unwrap();
    assert!(matches!(db.drop_table("a"), Err(Error::TransactionsActive { .. })), "the row's version before");
    assert_eq!(kept.count(&mut reads).unwrap(), ROWS);
    reads.commit().unwrap();
    db.drop_table("a").unwrap();
    assert_eq!(check(&db, &kept), ROWS - 1);
}

/// A version committed just before stays until purge comes by; a reader that sees it needs none of the older ones.
#[test]
fn tables_come_and_go_beside_readers_that_purge_is_behind_of() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), small()).unwrap();
    let kept = db.create_table("kept").unwrap();
    db.bulk_load_table(&kept, plain(1), |_| {}).unwrap();
    let (reader, writer) = (session(&db), session(&db));
    for (done, (key, _)) in plain(1).take(100).enumerate() {
        db.create_table("a").unwrap();
        let mut txn = writer.begin(Isolation::ReadCommitted);
        assert!(txn.delete(&kept, &key).unwrap());
        txn.commit().unwrap();
        let mut reads = reader.begin(Isolation::RepeatableRead);
        assert!(common::get(&mut reads, &kept, &key).is_none());
        db.drop_table("a").unwrap_or_else(|error| panic!("after {done} times: {error}"));
        assert_eq!(common::all(&mut reads, &kept).len() as u64, ROWS - 1 - done as u64);
    }
}

#[test]
fn indexes_come_and_go() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), small()).unwrap();
    let table = db.create_typed_table("a", schema()).unwrap();
    db.bulk_load_rows(&table, rows(ROWS), |_| {}).unwrap();
    let new = Index::new("both", ["size", "name"]);
    assert!(matches!(db.create_index("a", new.clone()), Err(Error::TableInUse { .. })));
    drop(table);
    db.create_index("a", new.clone()).unwrap();
    assert!(matches!(db.create_index("a", new), Err(Error::Row(_))));
    let twice = db.create_index("a", Index::unique("one_size", ["size"]));
    assert!(matches!(twice, Err(Error::DuplicateKey { index }) if index == "one_size"));
    db.drop_index("a", "by_size").unwrap();
    assert!(matches!(db.drop_index("a", "by_size"), Err(Error::Row(_))));
    db.create_table("plain").unwrap();
    assert!(matches!(db.drop_index("plain", "x"), Err(Error::PlainTable { .. })));
    assert_eq!(db.lost_pages().unwrap(), 0);
    let table = db.typed_table("a").unwrap();
    let names: Vec<_> =
        table.schema().indexes().iter().map(|index| index.definition().name.clone()).collect();
    assert_eq!(names, ["by_name", "both"]);
    assert_eq!(check(&db, &table), ROWS);
    let session = session(&db);
    let mut txn = session.begin(Isolation::RepeatableRead);
    assert!(table.delete(&mut txn, 3).unwrap());
    let mut found = 0;
    table
        .scan_index(&mut txn, "both", Prefix(3), |_| {
            found += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(found, (1..=ROWS).filter(|id| id % 7 == 3).count() - 1);
}

/// Entries that do not fit the memory are sorted in files, of which none is left.
#[test]
fn an_index_larger_than_the_memory_for_it_is_sorted_in_files() {
    let disk = MemoryDisk::default();
    let config = EngineConfig { sort_buffer_bytes: 16 << 10, ..small() };
    let db = Database::create_on(Arc::new(disk.clone()), config).unwrap();
    let table = db.create_typed_table("a", schema()).unwrap();
    let names = disk.names().unwrap().len();
    // Two that are merged, and the one that they become.
    disk.set_open_files_max(disk.open_files() + 3);
    let shuffled = (1..=5000_u64).map(|id| {
        let name = format!("the row of number {:08}", id.wrapping_mul(7919) % 5003);
        vec![id.into(), name.into(), (id % 7).into()]
    });
    let mut twice: Vec<Vec<Value>> = shuffled.clone().collect();
    twice[4900][1] = twice[3][1].clone();
    let refused = db.bulk_load_rows(&table, twice, |_| {});
    assert!(matches!(refused, Err(Error::DuplicateKey { index }) if index == "by_name"));
    assert_eq!((check(&db, &table), db.lost_pages().unwrap()), (0, 0));
    let during = std::cell::Cell::new(0);
    let seen = shuffled.inspect(|_| during.set(disk.names().unwrap().len()));
    assert_eq!(db.bulk_load_rows(&table, seen, |_| {}).unwrap(), 5000);
    assert!(during.get() > names + 5, "it was sorted in memory");
    assert_eq!(disk.names().unwrap().len(), names);
    assert_eq!(check(&db, &table), 5000);
    drop(table);
    db.create_index("a", Index::new("more", ["size", "name"])).unwrap();
    assert_eq!((check(&db, &db.typed_table("a").unwrap()), db.lost_pages().unwrap()), (5000, 0));
    drop(db);
    // What a crash leaves of them goes at the next open.
    drop(disk.create("sort7.flifo").unwrap());
    drop(open(&disk).unwrap());
    assert_eq!(disk.names().unwrap().len(), names);
}

/// The steps of a history; the tables that must exist after that many steps.
const STEPS: [(&str, &[(&str, u64)]); 9] = [
    ("create", &[("a", 0)]),
    ("load", &[("a", ROWS)]),
    ("rename", &[("b", ROWS)]),
    ("create index", &[("b", ROWS)]),
    ("create plain", &[("b", ROWS), ("p", 0)]),
    ("drop index", &[("b", ROWS), ("p", 0)]),
    ("truncate", &[("b", 0), ("p", 0)]),
    ("drop", &[("p", 0)]),
    ("drop plain", &[]),
];

fn step(db: &Database, step: usize) -> Result<()> {
    match STEPS[step].0 {
        "create" => db.create_typed_table("a", schema()).map(drop),
        "load" => db.bulk_load_rows(&db.typed_table("a")?, rows(ROWS), |_| {}).map(drop),
        "rename" => db.rename_table("a", "b"),
        "create index" => db.create_index("b", Index::new("more", ["size", "name"])),
        "create plain" => db.create_table("p").map(drop),
        "drop index" => db.drop_index("b", "by_name"),
        "truncate" => db.truncate_table("b"),
        "drop" => db.drop_table("b"),
        _ => db.drop_table("p"),
    }
}

/// What is there is as after `done` steps, or one more; pages are lost only by a load that was cut off.
fn check_found(found: &MemoryDisk, done: usize, context: &str) {
    let db = open(found).unwrap_or_else(|error| panic!("{context}: {error}"));
    let tables: Vec<(String, u64)> = db
        .table_names()
        .unwrap()
        .into_iter()
        .map(|name| {
            let rows = match db.typed_table(&name) {
                Ok(table) => check(&db, &table),
                Err(Error::PlainTable { .. }) => 0,
                Err(error) => panic!("{context}: {error}"),
            };
            (name, rows)
        })
        .collect();
    let expected = |steps: usize| -> Vec<(String, u64)> {
        let tables = steps.checked_sub(1).map_or(&[][..], |last| STEPS[last].1);
        tables.iter().map(|&(name, rows)| (name.to_owned(), rows)).collect()
    };
    let next = (done + 1).min(STEPS.len());
    assert!(tables == expected(done) || tables == expected(next), "{context}: {tables:?}");
    let loading = next > done && matches!(STEPS[done].0, "load" | "create index");
    if !loading {
        assert_eq!(db.lost_pages().unwrap(), 0, "{context}");
    }
}

#[test]
fn a_power_cut_leaves_each_table_whole_or_gone() {
    let seeds = std::env::var("FLIFO_SEEDS").map(|seeds| seeds.parse().expect("a number"));
    // Without a word, at some calls only: it takes a while.
    let (seeds, step_by): (u64, usize) = seeds.map_or((1, 9), |seeds| (seeds, 1));
    let mut cuts = 0;
    for seed in 0..seeds {
        for call in (1..).step_by(step_by) {
            let disk = MemoryDisk::with_power_cuts(seed * 10_000 + call);
            let db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
            db.checkpoint().unwrap();
            disk.fail_from(None, call, Fault::Io);
            let mut done = 0;
            while done < STEPS.len() && step(&db, done).is_ok() {
                done += 1;
            }
            let finished = disk.faults_to_come() > 0 && done == STEPS.len();
            drop(db);
            let context = format!("seed {seed}, power cut at call {call}, after {done} steps");
            check_found(&disk.power_cut(), done, &context);
            cuts += 1;
            if finished {
                assert!(call > 20, "{context}: the history makes more calls");
                break;
            }
        }
    }
    println!("{cuts} power cuts");
}

/// One call of the disk fails during a load; what is committed to the table afterwards is there after a power cut.
#[test]
fn a_load_that_fails_takes_nothing_with_it() {
    let mut outcomes = [0; 3];
    for nth in 1.. {
        let disk = MemoryDisk::with_power_cuts(nth);
        let config = EngineConfig {
            buffer_pool_bytes: 256 << 10,
            buffer_pool_instances: 1,
            sort_buffer_bytes: 64 << 10,
            ..small()
        };
        let db = Database::create_on(Arc::new(disk.clone()), config).unwrap();
        let table = db.create_typed_table("a", schema()).unwrap();
        disk.fail_nth(None, nth, Fault::Io);
        let loaded = db.bulk_load_rows(&table, rows(2000), |_| {});
        let all_done = disk.faults_to_come() > 0;
        disk.heal();
        let added = {
            let session = session(&db);
            let mut txn = session.begin(Isolation::ReadCommitted);
            let inserted = table.insert(&mut txn, (100_000, "one more", 1));
            inserted.and_then(|_| txn.commit())
        };
        outcomes[usize::from(loaded.is_ok()) + usize::from(added.is_ok())] += 1;
        drop((table, db));
        let db = open(&disk.power_cut()).unwrap();
        let found = check(&db, &db.typed_table("a").unwrap());
        let least = if loaded.is_ok() { 2000 } else { 0 } + u64::from(added.is_ok());
        let context = format!("call {nth}: {loaded:?}, {added:?}");
        assert!(found == least || loaded.is_err() && found == 2000, "{context}: {found} rows");
        if all_done {
            assert!(nth > 10, "{context}: a load makes more calls");
            break;
        }
    }
    println!("{outcomes:?} times, by the number of transactions that succeeded");
}

/// A load takes pages of a table that was changed since the checkpoint, and dropped. The power cut tears them: the log has
/// records of their earlier life, and no image of them.
#[test]
fn a_load_over_pages_that_the_log_tells_of_survives_every_power_cut() {
    let (mut found, mut freed) = ([0; 2], 0);
    for (call, seed) in (1..).flat_map(|call| (0..2).map(move |seed| (call, seed))) {
        let disk = MemoryDisk::with_power_cuts(2 * call + seed);
        let db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
        let old = db.create_table("old").unwrap();
        db.bulk_load_table(&old, plain(1), |_| {}).unwrap();
        db.checkpoint().unwrap();
        {
            let session = session(&db);
            let mut txn = session.begin(Isolation::ReadCommitted);
            for (key, value) in plain(2) {
                assert!(txn.update(&old, &key, &value).unwrap());
            }
            txn.commit().unwrap();
        }
        drop(old);
        db.drop_table("old").unwrap();
        let new = db.create_table("new").unwrap();
        disk.fail_from(None, call, Fault::Io);
        let loaded = db.bulk_load_table(&new, plain(3), |_| {}).is_ok();
        let finished = disk.faults_to_come() > 0 && loaded;
        drop((new, db));
        let disk = disk.power_cut();
        let db = open(&disk).unwrap_or_else(|error| panic!("call {call}: {error}"));
        let (new, session) = (db.table("new").unwrap(), session(&db));
        let rows = common::all(&mut session.begin(Isolation::ReadCommitted), &new);
        assert!(rows.is_empty() && !loaded || rows == plain(3).collect(), "call {call}: {} rows", rows.len());
        found[usize::from(loaded)] += 1;
        // What is torn is nobody's: not looked at, and taken again as it is.
        db.lost_pages().unwrap();
        if rows.is_empty() {
            db.bulk_load_table(&new, plain(4), |_| {}).unwrap();
            assert_eq!(common::all(&mut session.begin(Isolation::ReadCommitted), &new), plain(4).collect());
        }
        drop((new, session));
        db.close().unwrap();
        let report = Database::reclaim_on(Arc::new(disk.clone()), small(), &mut |_| {}).unwrap();
        assert!(report.is_sound() && report.space.leaked_pages == 0, "call {call}: {:?}", report.findings);
        freed += u64::from(report.space.freed_pages > 0);
        let report = Database::check_on(Arc::new(disk), small(), &mut |_| {}).unwrap();
        assert!(report.is_sound() && report.space.leaked_pages == 0, "call {call}: {:?}", report.findings);
        if finished {
            break;
        }
    }
    assert!(
        found[0] > 20 && freed > 0,
        "{found:?} loads were cut off, or not; {freed} times pages were freed"
    );
}

fn plain(version: u8) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..ROWS).map(move |id| (id.to_be_bytes().to_vec(), vec![version; 900]))
}
