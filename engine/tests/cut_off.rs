//! What an error, a panic or a wrong call cuts off in the middle leaves a whole, or what the next open makes one.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::{config, session};
use flifo_engine::disk::{DiskCall, Fault, MemoryDisk};
use flifo_engine::row::{Column, ColumnType, Index, Schema, Value, desc};
use flifo_engine::{CheckReport, Database, EngineConfig, Error, Isolation, Savepoint, TypedTable};

const ROWS: u64 = 1500;

fn small() -> EngineConfig {
    EngineConfig { buffer_pool_bytes: 256 << 10, buffer_pool_instances: 1, rollback_segments: 2, ..config() }
}

fn schema() -> Schema {
    Schema::builder()
        .column(Column::new("id", ColumnType::U64))
        .column(Column::new("name", ColumnType::Text))
        .primary_key(["id"])
        .index(Index::new("by_end", [desc("name")]))
        .index(Index::unique("by_name", ["name"]))
        .build()
        .unwrap()
}

fn row(id: u64) -> Vec<Value> {
    vec![id.into(), format!("row {id:0>200}").into()]
}

fn create(disk: &MemoryDisk) -> Database {
    Database::create_on(Arc::new(disk.clone()), small()).unwrap()
}

fn open(disk: &MemoryDisk) -> Database {
    Database::open_on(Arc::new(disk.clone()), small()).unwrap()
}

fn load(db: &Database, name: &str) -> TypedTable {
    let table = db.create_typed_table(name, schema()).unwrap();
    db.bulk_load_rows(&table, (0..ROWS).map(row), |_| {}).unwrap();
    table
}

/// The rows that a table has; each has its entry in the index.
fn count(db: &Database, name: &str) -> u64 {
    let (table, session) = (db.typed_table(name).unwrap(), session(db));
    db.check_typed_table(&table, &mut session.begin(Isolation::RepeatableRead)).unwrap()
}

fn check(disk: &MemoryDisk) -> CheckReport {
    Database::check_on(Arc::new(disk.clone()), small(), &mut |_| {}).unwrap()
}

fn is_sound(disk: &MemoryDisk) -> bool {
    let report = check(disk);
    report.findings.iter().for_each(|finding| println!("{finding:?}"));
    report.is_sound()
}

/// The user's closure panics when all rows are there, and a note still says that they are being loaded.
#[test]
fn a_load_whose_progress_panics_leaves_no_table_that_loses_rows_later() {
    let disk = MemoryDisk::default();
    let db = create(&disk);
    let table = db.create_typed_table("a", schema()).unwrap();
    let told = |rows| assert!(rows < ROWS, "the terminal is gone");
    let loaded = catch_unwind(AssertUnwindSafe(|| db.bulk_load_rows(&table, (0..ROWS).map(row), told)));
    assert!(loaded.is_err());
    {
        let session = session(&db);
        let inserted = table.insert(&mut session.begin(Isolation::ReadCommitted), row(ROWS));
        assert!(matches!(inserted, Err(Error::TableLoading { .. })), "{inserted:?}");
    }
    drop(table);
    db.close().unwrap();
    assert!(is_sound(&disk));
    let db = open(&disk);
    assert_eq!(count(&db, "a"), 0);
    db.drop_table("a").unwrap();
    assert_eq!(db.lost_pages().unwrap(), 0);
}

/// Without an index nothing is left for the next open: the table is empty at once, and leaks no page.
#[test]
fn a_load_whose_last_progress_panics_leaves_nothing() {
    let disk = MemoryDisk::default();
    let db = create(&disk);
    let one_tree = Schema::builder()
        .column(Column::new("id", ColumnType::U64))
        .column(Column::new("name", ColumnType::Text))
        .primary_key(["id"])
        .build()
        .unwrap();
    let typed = db.create_typed_table("typed", one_tree).unwrap();
    let table = db.create_table("plain").unwrap();
    let tree = db.create_tree("tree").unwrap();
    let plain = || (0..ROWS).map(|id| (id.to_be_bytes(), [7; 100]));
    let load = |progress: &dyn Fn(u64)| {
        let cut_off = |load: &dyn Fn() -> u64| catch_unwind(AssertUnwindSafe(load)).ok();
        [
            cut_off(&|| db.bulk_load_rows(&typed, (0..ROWS).map(row), progress).unwrap()),
            cut_off(&|| db.bulk_load_table(&table, plain(), progress).unwrap()),
            cut_off(&|| db.bulk_load(&tree, plain(), progress).unwrap()),
        ]
    };
    assert_eq!(load(&|rows| assert!(rows < ROWS, "the terminal is gone")), [None; 3]);
    let rows = || {
        let session = session(&db);
        let mut txn = session.begin(Isolation::RepeatableRead);
        let of_table = common::all(&mut txn, &table).len() as u64;
        [db.check_typed_table(&typed, &mut txn).unwrap(), of_table, db.check_tree(&tree).unwrap().rows]
    };
    assert_eq!((rows(), db.lost_pages().unwrap()), ([0; 3], 0));
    assert_eq!(load(&|_| {}), [Some(ROWS); 3]);
    assert_eq!(rows(), [ROWS; 3]);
    assert!(is_sound(&disk.kill()));
}

/// The second index has its last name twice, and what empties the first one, which the second drove out of memory, cannot read
/// it. What the table was is forgotten with it, so that the table that gets its pages next is not taken for it.
#[test]
fn a_load_that_could_not_tidy_up_goes_with_its_table() {
    let mut noted = 0;
    for call in 1.. {
        let disk = MemoryDisk::default();
        let db = create(&disk);
        let table = db.create_typed_table("a", schema()).unwrap();
        // Several times the pool. Reads fail only once all rows are in the table: there are few from there on.
        let twice = (0..=3 * ROWS).map(|id| match id < 3 * ROWS {
            true => row(id),
            false => {
                disk.fail_from(Some(DiskCall::Read), call, Fault::Io);
                vec![id.into(), row(id - 1)[1].clone()]
            }
        });
        let loaded = db.bulk_load_rows(&table, twice, |_| {});
        let last = disk.faults_to_come() > 0;
        disk.heal();
        assert!(loaded.is_err());
        assert!(is_sound(&disk.kill()), "call {call}: {loaded:?}");
        assert_eq!(count(&open(&disk.kill()), "a"), 0);
        let session = session(&db);
        let inserted = table.insert(&mut session.begin(Isolation::ReadCommitted), row(ROWS));
        noted += u64::from(matches!(inserted, Err(Error::TableLoading { .. })));
        drop((table, session));
        db.drop_table("a").unwrap();
        // One that does not look for what is noted of a load.
        let plain = db.create_table("plain").unwrap();
        db.bulk_load_table(&plain, (0..ROWS).map(|id| (id.to_be_bytes(), [7; 100])), |_| {}).unwrap();
        drop(plain);
        db.close().unwrap();
        let db = open(&disk);
        let (plain, session) = (db.table("plain").unwrap(), common::session(&db));
        assert_eq!(common::all(&mut session.begin(Isolation::ReadCommitted), &plain).len() as u64, ROWS);
        if last {
            break;
        }
    }
    assert!(noted > 10, "{noted}");
}

#[test]
fn a_load_that_the_disk_cuts_off_is_no_damage() {
    let mut cut_off = 0;
    for call in (1..).step_by(2) {
        let disk = MemoryDisk::with_power_cuts(call);
        let db = create(&disk);
        let table = db.create_typed_table("a", schema()).unwrap();
        disk.fail_from(None, call, Fault::Io);
        let loaded = db.bulk_load_rows(&table, (0..ROWS).map(row), |_| {});
        if disk.faults_to_come() > 0 {
            loaded.unwrap();
            break;
        }
        cut_off += 1;
        disk.heal();
        assert!(is_sound(&disk.kill()), "call {call}: {loaded:?}");
        drop(table);
        // The disk is well again, but a failed sync ends all.
        if db.drop_table("a").is_err() {
            continue;
        }
        drop(load(&db, "b"));
        db.close().unwrap();
        assert_eq!(count(&open(&disk), "b"), ROWS, "call {call}: {loaded:?}");
    }
    assert!(cut_off > 10);
}

#[test]
fn a_dropped_table_with_a_rotten_page_keeps_nobody_from_the_others() {
    let disk = MemoryDisk::default();
    let db = create(&disk);
    drop((load(&db, "a"), load(&db, "b")));
    db.close().unwrap();
    // A leaf of the table itself, which is read to take it down.
    let flip = |page: u64| disk.flip_bit("data0.flifo", page * small().page_size as u64 + 100, 1);
    let is_rotten = (1..500).any(|page| {
        flip(page);
        let report = Database::check_on(Arc::new(disk.clone()), small(), &mut |_| {});
        let found =
            report.is_ok_and(|report| report.findings.iter().any(|finding| finding.of == "table 'a'"));
        if !found {
            flip(page);
        }
        found
    });
    assert!(is_rotten);
    let db = open(&disk);
    db.drop_table("a").unwrap();
    assert!(matches!(db.typed_table("a"), Err(Error::UnknownTable { .. })));
    db.close().unwrap();
    for _ in 0..2 {
        let db = open(&disk);
        assert_eq!(count(&db, "b"), ROWS);
        db.close().unwrap();
    }
    // What cannot be reached is nobody's; and is not taken down once more after it has become somebody's.
    let report = check(&disk);
    assert!(report.is_sound() && report.space.leaked_pages > 0, "{report:?}");
    let report = Database::reclaim_on(Arc::new(disk.clone()), small(), &mut |_| {}).unwrap();
    assert!(report.is_sound() && report.space.leaked_pages == 0, "{report:?}");
    let db = open(&disk);
    drop((load(&db, "c"), load(&db, "d")));
    db.close().unwrap();
    let db = open(&disk);
    assert_eq!(["b", "c", "d"].map(|name| count(&db, name)), [ROWS; 3]);
    assert_eq!(db.lost_pages().unwrap(), 0);
}

/// A statement of a typed table writes a row and its entry; a savepoint that a rollback went back beyond could lie between.
#[test]
fn a_savepoint_that_is_gone_is_refused() {
    let db = create(&MemoryDisk::default());
    let (plain, table) = (db.create_table("plain").unwrap(), db.create_typed_table("a", schema()).unwrap());
    let (one, two) = (session(&db), session(&db));
    let mut txn = one.begin(Isolation::ReadCommitted);
    let first = txn.savepoint();
    assert!(txn.insert(&plain, b"k", b"v").unwrap());
    let (second, third) = (txn.savepoint(), {
        let mut other = two.begin(Isolation::ReadCommitted);
        assert!(other.insert(&plain, b"another", b"v").unwrap());
        other.savepoint()
    });
    txn.rollback_to(first).unwrap();
    table.insert(&mut txn, row(1)).unwrap();
    for gone in [second, third] {
        assert!(matches!(txn.rollback_to(gone), Err(Error::UnknownSavepoint)));
    }
    let last = txn.savepoint();
    table.insert(&mut txn, row(2)).unwrap();
    txn.rollback_to(last).unwrap();
    txn.rollback_to(last).unwrap();
    txn.commit().unwrap();
    assert_eq!(count(&db, "a"), 1);
    let mut txn = one.begin(Isolation::ReadCommitted);
    table.insert(&mut txn, row(3)).unwrap();
    txn.rollback_to(Savepoint::default()).unwrap();
    txn.commit().unwrap();
    assert_eq!(count(&db, "a"), 1);
}

#[test]
fn half_of_a_rollback_is_not_committed() {
    let disk = MemoryDisk::default();
    let db = create(&disk);
    let table = load(&db, "a");
    let session = session(&db);
    let mut failed = 0;
    for nth in (1..60).step_by(3) {
        let mut txn = session.begin(Isolation::ReadCommitted);
        let savepoint = txn.savepoint();
        for id in 0..ROWS {
            table.delete(&mut txn, id).unwrap();
        }
        disk.fail_nth(Some(DiskCall::Read), nth, Fault::Io);
        let undone = txn.rollback_to(savepoint);
        disk.heal();
        match undone {
            Ok(()) => txn.commit().unwrap(),
            Err(_) => {
                failed += 1;
                assert!(matches!(txn.commit(), Err(Error::TransactionEnded)));
            }
        }
    }
    assert!(failed > 0);
    // Purge's thread undoes what is left; who reads locks waits for that.
    let mut txn = session.begin(Isolation::Serializable);
    assert_eq!(table.count(&mut txn).unwrap(), ROWS);
    drop(txn);
    assert_eq!(count(&db, "a"), ROWS);
}

/// An iterator reads its transaction's changes where they are.
#[test]
fn an_iterator_does_not_go_on_when_changes_that_it_sees_were_undone() {
    let db = create(&MemoryDisk::default());
    let table = load(&db, "a");
    let session = session(&db);
    for end in 0..5 {
        let mut txn = session.begin(Isolation::ReadCommitted);
        let first = txn.savepoint();
        // From the index's beginning to its end.
        assert!(table.update(&mut txn, (0, "the last row")).unwrap());
        let mut rows = table.iter_index(&mut txn, "by_name", ..).unwrap();
        let unread = table.iter_index(&mut txn, "by_name", ..).unwrap();
        let second = txn.savepoint();
        assert!(table.delete(&mut txn, ROWS - 1).unwrap());
        assert_eq!(rows.next().unwrap().unwrap().get("id").unwrap().as_u64(), Some(1));
        match end {
            0 => txn.rollback_to(second).unwrap(),
            1 => txn.commit().unwrap(),
            2 => txn.rollback_to(first).unwrap(),
            3 => txn.rollback().unwrap(),
            _ => drop(txn),
        }
        assert_eq!(unread.map(Result::unwrap).count() as u64, ROWS, "it sees what is left");
        let rest: Result<Vec<_>, Error> = rows.collect();
        match end {
            0 => assert_eq!(rest.unwrap().len() as u64, ROWS - 1),
            1 => {
                assert_eq!(rest.unwrap().len() as u64, ROWS - 1);
                let mut txn = session.begin(Isolation::ReadCommitted);
                assert!(table.update(&mut txn, row(0)).unwrap());
                assert!(table.insert(&mut txn, row(ROWS - 1)).unwrap().is_none());
                txn.commit().unwrap();
            }
            _ => assert!(matches!(rest, Err(Error::ChangesUndone)), "{end}: {rest:?}"),
        }
    }
}
