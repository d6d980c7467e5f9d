//! Typed tables: rows by primary key and by index, unique indexes, bulk loads.

#[path = "../common/mod.rs"]
mod common;
mod iterators;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use common::{config, session};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::row::{Column, ColumnType, Index, Prefix, RowError, Schema, Value, desc};
use flifo_engine::{Database, EngineConfig, Error, Isolation, PRIMARY_KEY, Session, Transaction, TypedTable};

fn in_memory() -> (MemoryDisk, Database) {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    (disk, db)
}

fn people() -> Schema {
    Schema::builder()
        .column(Column::new("id", ColumnType::U64))
        .column(Column::new("mail", ColumnType::Text).nullable())
        .column(Column::new("town", ColumnType::Text))
        .column(Column::new("born", ColumnType::I32).nullable())
        .primary_key(["id"])
        .index(Index::unique("by_mail", ["mail"]))
        .index(Index::new("by_town", ["town".into(), desc("born")]))
        .build()
        .unwrap()
}

fn begin(session: &Session) -> Transaction<'_> {
    session.begin(Isolation::RepeatableRead)
}

fn ids(table: &TypedTable, txn: &mut Transaction<'_>, town: &str) -> Vec<u64> {
    let mut ids = Vec::new();
    table
        .scan_index(txn, "by_town", Prefix(town), |row| {
            assert_eq!(row.get("town").unwrap().as_text(), Some(town));
            ids.push(row.get(0).unwrap().as_u64().unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
    ids
}

fn duplicate(result: Result<impl std::fmt::Debug, Error>) -> String {
    match result {
        Err(Error::DuplicateKey { index }) => index,
        other => panic!("{other:?}"),
    }
}

#[test]
fn rows_are_found_by_key_and_by_index() {
    let (disk, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let session = session(&db);
    let mut txn = begin(&session);
    table.insert(&mut txn, (1, "ann@a", "Oslo", 1984)).unwrap();
    table.insert(&mut txn, (2, "bob@a", "Oslo", 1990)).unwrap();
    table.insert(&mut txn, (3, None::<&str>, "Bergen", None::<i32>)).unwrap();
    table.insert(&mut txn, (4, None::<&str>, "Oslo", None::<i32>)).unwrap();
    assert_eq!(ids(&table, &mut txn, "Oslo"), [2, 1, 4], "the youngest first, NULL last");
    assert!(table.update(&mut txn, (2, "bob@a", "Bergen", 1990)).unwrap());
    assert!(!table.update(&mut txn, (9, "x", "Bergen", 1990)).unwrap());
    assert!(table.upsert(&mut txn, (5, "eve@a", "Bergen", 2000)).unwrap());
    assert!(!table.upsert(&mut txn, (5, "eve@b", "Bergen", 1980)).unwrap());
    assert_eq!(ids(&table, &mut txn, "Bergen"), [2, 5, 3]);
    assert!(table.delete(&mut txn, 1).unwrap());
    assert!(!table.delete(&mut txn, 1).unwrap());
    assert!(table.get(&mut txn, 1).unwrap().is_none());
    txn.commit().unwrap();
    drop((table, session));
    db.close().unwrap();

    let db = Database::open_on(Arc::new(disk), config()).unwrap();
    let table = db.typed_table("people").unwrap();
    assert_eq!(**table.schema(), people());
    let session = common::session(&db);
    let mut txn = begin(&session);
    let row = table.get(&mut txn, 2).unwrap().unwrap();
    assert_eq!(row.values().unwrap(), [2.into(), "bob@a".into(), "Bergen".into(), Value::from(1990)]);
    assert_eq!(
        table.get_with(&mut txn, 5, |row| row.get("born").unwrap().as_i64()).unwrap(),
        Some(Some(1980))
    );
    let mut found = Vec::new();
    let mut collect = |row: &flifo_engine::row::RowView<'_>| {
        found.push(row.get("id").unwrap().as_u64().unwrap());
        ControlFlow::Continue(())
    };
    table.scan(&mut txn, 3..5, &mut collect).unwrap();
    table.scan(&mut txn, .., &mut collect).unwrap();
    table.scan(&mut txn, (Bound::Excluded(4), Bound::<()>::Unbounded), &mut collect).unwrap();
    assert_eq!(found, [3, 4, 2, 3, 4, 5, 5]);
    let mut mails = Vec::new();
    table
        .scan_entries(&mut txn, "by_mail", .., |entry| {
            assert!(matches!(entry.get("town"), Err(RowError::NotInIndex { .. })));
            mails.push((entry.get("mail").unwrap().to_value(), entry.get("id").unwrap().as_u64().unwrap()));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(
        mails,
        [(Value::Null, 3), (Value::Null, 4), (Value::from("bob@a"), 2), (Value::from("eve@b"), 5)]
    );
}

#[test]
fn duplicates_are_refused_and_what_the_statement_did_is_undone() {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let session = session(&db);
    let mut txn = begin(&session);
    table.insert(&mut txn, (1, "ann@a", "Oslo", 1984)).unwrap();
    assert_eq!(duplicate(table.insert(&mut txn, (1, "x", "Oslo", 1984))), PRIMARY_KEY);
    assert_eq!(duplicate(table.insert(&mut txn, (2, "ann@a", "Oslo", 1984))), "by_mail");
    assert!(table.get(&mut txn, 2).unwrap().is_none());
    assert_eq!(ids(&table, &mut txn, "Oslo"), [1]);
    table.insert(&mut txn, (2, "bob@a", "Oslo", 1990)).unwrap();
    assert_eq!(duplicate(table.update(&mut txn, (2, "ann@a", "Bergen", 1990))), "by_mail");
    assert_eq!(ids(&table, &mut txn, "Oslo"), [2, 1]);
    // Its own mail is free once it is given up, and again after a rollback.
    let savepoint = txn.savepoint();
    table.update_with(&mut txn, 1, |row| Ok(row.set("mail", "ann@b")?)).unwrap();
    table.insert(&mut txn, (3, "ann@a", "Bergen", 1990)).unwrap();
    assert_eq!(duplicate(table.update_with(&mut txn, 1, |row| Ok(row.set("mail", "ann@a")?))), "by_mail");
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(table.get(&mut txn, 1).unwrap().unwrap().get("mail").unwrap().as_text(), Some("ann@a"));
    assert_eq!(duplicate(table.insert(&mut txn, (3, "ann@a", "Bergen", 1990))), "by_mail");
    txn.commit().unwrap();
}

#[test]
fn a_row_is_changed_column_by_column() {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let session = session(&db);
    let mut txn = begin(&session);
    table.insert(&mut txn, (1, "ann@a", "Oslo", 1984)).unwrap();
    let older = |row: &mut flifo_engine::row::Row| {
        let born = row.get("born")?.as_i64().unwrap();
        Ok(row.set("born", born - 10)?)
    };
    assert!(table.update_with(&mut txn, 1, older).unwrap());
    assert!(!table.update_with(&mut txn, 2, older).unwrap());
    let row = table.get_for_update(&mut txn, 1).unwrap().unwrap();
    assert_eq!(row.get("born").unwrap().as_i64(), Some(1974));
    let moved = table.update_with(&mut txn, 1, |row| Ok(row.set("id", 2)?));
    assert!(matches!(moved, Err(Error::PrimaryKeyChanged)));
    let wrong = table.update_with(&mut txn, 1, |row| Ok(row.set("born", "1974")?));
    assert!(matches!(wrong, Err(Error::Row(_))));
    let unknown = table.update_with(&mut txn, 1, |row| Ok(row.set("age", 1974)?));
    assert!(matches!(unknown, Err(Error::Row(_))));
    assert_eq!(ids(&table, &mut txn, "Oslo"), [1]);
}

#[test]
fn a_snapshot_sees_an_index_as_it_was() {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let (writer, reader) = (session(&db), session(&db));
    let mut txn = begin(&writer);
    table.insert(&mut txn, (1, "ann@a", "Oslo", 1984)).unwrap();
    table.insert(&mut txn, (2, "bob@a", "Oslo", 1990)).unwrap();
    txn.commit().unwrap();
    let mut before = begin(&reader);
    assert_eq!(ids(&table, &mut before, "Oslo"), [2, 1]);
    let mut txn = begin(&writer);
    table.update_with(&mut txn, 1, |row| Ok(row.set("town", "Bergen")?)).unwrap();
    table.delete(&mut txn, 2).unwrap();
    table.insert(&mut txn, (3, "bob@a", "Oslo", 2000)).unwrap();
    assert_eq!(ids(&table, &mut before, "Oslo"), [2, 1]);
    txn.commit().unwrap();
    assert_eq!(ids(&table, &mut before, "Oslo"), [2, 1]);
    // What it does not see is a duplicate all the same.
    let again = table.insert(&mut before, (4, "bob@a", "Oslo", 2000));
    assert_eq!(duplicate(again), "by_mail");
    drop(before);
    let mut after = begin(&reader);
    assert_eq!(ids(&table, &mut after, "Oslo"), [3]);
    assert_eq!(ids(&table, &mut after, "Bergen"), [1]);
}

#[test]
fn a_unique_entry_may_be_all_primary_key() {
    let (_, db) = in_memory();
    let schema = Schema::builder()
        .column(Column::new("a", ColumnType::U64))
        .column(Column::new("b", ColumnType::U64))
        .primary_key(["a", "b"])
        .index(Index::unique("turned", [desc("b"), desc("a")]))
        .build()
        .unwrap();
    let table = db.create_typed_table("pairs", schema).unwrap();
    let first = session(&db);
    let mut txn = begin(&first);
    table.insert(&mut txn, (1, 2)).unwrap();
    table.insert(&mut txn, (2, 1)).unwrap();
    txn.commit().unwrap();
    let mut txn = begin(&first);
    assert!(table.delete(&mut txn, (1, 2)).unwrap());
    table.insert(&mut txn, (1, 2)).unwrap();
    txn.commit().unwrap();
}

/// A value that another transaction gives up, and perhaps takes back, is waited for.
#[test]
fn what_is_being_given_up_is_waited_for() {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let first = session(&db);
    let mut txn = begin(&first);
    table.insert(&mut txn, (1, "ann@a", "Oslo", 1984)).unwrap();
    txn.commit().unwrap();
    for (id, taken_back) in [(2, true), (3, false)] {
        let waits = db.stats().locks.waits;
        let mut txn = begin(&first);
        assert!(table.delete(&mut txn, 1).unwrap());
        let inserted = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let session = session(&db);
                let mut txn = session.begin(Isolation::ReadCommitted);
                let inserted = table.insert(&mut txn, (id, "ann@a", "Oslo", 1984));
                txn.commit().unwrap();
                inserted
            });
            while db.stats().locks.waits == waits {
                std::thread::yield_now();
            }
            // It may add the same again while others wait for it.
            table.insert(&mut txn, (9, "ann@a", "Oslo", 1984)).unwrap();
            table.delete(&mut txn, 9).unwrap();
            if taken_back {
                txn.rollback().unwrap()
            } else {
                txn.commit().unwrap()
            }
            waiting.join().unwrap()
        });
        match taken_back {
            true => assert_eq!(duplicate(inserted), "by_mail"),
            false => drop(inserted.unwrap()),
        }
    }
}

/// A statement that fails has read what it fails on.
#[test]
fn what_a_serializable_statement_failed_on_stays_as_it_is() {
    let impatient = EngineConfig { lock_wait_timeout: Duration::from_millis(20), ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), impatient).unwrap();
    let table = db.create_typed_table("people", people()).unwrap();
    let (one, two) = (session(&db), session(&db));
    let mut txn = begin(&one);
    for id in 1..=3 {
        table.insert(&mut txn, (id, format!("{id}@a").as_str(), "Oslo", 1984)).unwrap();
    }
    txn.commit().unwrap();
    let mut reader = one.begin(Isolation::Serializable);
    assert_eq!(duplicate(table.insert(&mut reader, (1, "x", "Oslo", 1984))), PRIMARY_KEY);
    assert_eq!(duplicate(table.insert(&mut reader, (9, "2@a", "Oslo", 1984))), "by_mail");
    let fails = table.update_with(&mut reader, 3, |row| Ok(row.set("age", 1)?));
    assert!(matches!(fails, Err(Error::Row(_))));
    let mut writer = two.begin(Isolation::ReadCommitted);
    for id in 1..=3 {
        let deleted = table.delete(&mut writer, id);
        assert!(matches!(deleted, Err(Error::LockWaitTimeout)), "row {id}: {deleted:?}");
    }
    reader.commit().unwrap();
    assert!((1..=3).all(|id| table.delete(&mut writer, id).unwrap()));
}

#[test]
fn tables_of_both_kinds_have_one_name_space() {
    let (_, db) = in_memory();
    db.create_typed_table("people", people()).unwrap();
    db.create_table("plain").unwrap();
    assert!(matches!(db.create_table("people"), Err(Error::TableExists { .. })));
    assert!(matches!(db.create_typed_table("plain", people()), Err(Error::TableExists { .. })));
    assert!(matches!(db.table("people"), Err(Error::TypedTable { name }) if name == "people"));
    assert!(matches!(db.typed_table("plain"), Err(Error::PlainTable { name }) if name == "plain"));
    assert!(matches!(db.typed_table("none"), Err(Error::UnknownTable { .. })));
    assert_eq!(db.table_names().unwrap(), ["people", "plain"]);
    db.drop_table("people").unwrap();
    assert!(matches!(db.typed_table("people"), Err(Error::UnknownTable { .. })));
}

/// As the front page of the documentation has it.
#[test]
fn a_definition_has_a_quarter_of_a_page() {
    for (page_size, columns_max, indexes_max) in [(16384, 308, 64), (8192, 150, 64), (4096, 71, 36)] {
        let config = EngineConfig { page_size, ..config() };
        let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
        let create = |name: &str, columns: usize, indexes: usize| {
            let columns = (0..columns).map(|n| Column::new(format!("column {n:03}"), ColumnType::U64));
            let schema = columns.fold(Schema::builder(), |schema, column| schema.column(column));
            let indexes = (0..indexes).map(|n| Index::new(format!("index  {n:03}"), ["column 000"]));
            let schema = indexes.fold(schema, |schema, index| schema.index(index));
            db.create_typed_table(name, schema.primary_key(["column 000"]).build().unwrap()).map(drop)
        };
        create("a", columns_max, 0).unwrap();
        let max = page_size as usize / 4 - 64;
        let too_large = create("b", columns_max + 1, 0);
        let size = 26 + 1 + (columns_max + 1) * (3 + 10);
        assert!(
            matches!(too_large, Err(Error::SchemaTooLarge { size: is, max: most }) if (is, most) == (size, max)),
            "{too_large:?}"
        );
        create("c", 1, indexes_max).unwrap();
        if indexes_max < 64 {
            assert!(matches!(create("d", 1, indexes_max + 1), Err(Error::SchemaTooLarge { .. })));
        }
    }
}

#[test]
fn a_bulk_load_fills_the_indexes() {
    let (disk, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let row = |id: u64| {
        let mail =
            if id.is_multiple_of(3) { Value::Null } else { Value::from(format!("{}@a", id * 7919 % 5000)) };
        vec![id.into(), mail, format!("town {}", id % 10).into(), Value::from(1900 + id % 100)]
    };
    let mut told = 0;
    assert_eq!(db.bulk_load_rows(&table, (0..5000).map(row), |rows| told = rows).unwrap(), 5000);
    assert_eq!(told, 5000);
    assert!(matches!(db.bulk_load_rows(&table, (0..5).map(row), |_| {}), Err(Error::TreeNotEmpty)));
    let session_of_all = session(&db);
    let mut txn = begin(&session_of_all);
    for id in (0..5000).step_by(37) {
        assert_eq!(table.get(&mut txn, id).unwrap().unwrap().values().unwrap(), row(id));
    }
    assert_eq!(ids(&table, &mut txn, "town 3").len(), 500);
    assert_eq!(duplicate(table.insert(&mut txn, (5000, "2919@a", "x", 1))), "by_mail");
    assert!(table.delete(&mut txn, 1).unwrap());
    table.insert(&mut txn, (5001, "2919@a", "town 3", 1)).unwrap();
    assert_eq!(ids(&table, &mut txn, "town 3").len(), 501);
    txn.commit().unwrap();

    let plain = db.create_table("plain").unwrap();
    assert_eq!(db.bulk_load_table(&plain, common::rows(3000), |_| {}).unwrap(), 3000);
    let mut txn = begin(&session_of_all);
    assert_eq!(common::get(&mut txn, &plain, &common::key(7)), Some(common::value(7)));
    assert!(txn.update(&plain, &common::key(7), b"other").unwrap());
    txn.commit().unwrap();
    assert_eq!(common::all(&mut begin(&session_of_all), &plain).len(), 3000);

    drop((table, plain, session_of_all));
    db.close().unwrap();
    let db = Database::open_on(Arc::new(disk), config()).unwrap();
    let table = db.typed_table("people").unwrap();
    let session = session(&db);
    assert_eq!(ids(&table, &mut begin(&session), "town 3").len(), 501);
}

#[test]
fn a_bulk_load_that_fails_leaves_the_table_empty() {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let twice = [(1, "ann@a", "Oslo", 1), (2, "bob@a", "Oslo", 1), (3, "ann@a", "Oslo", 1)];
    assert_eq!(duplicate(db.bulk_load_rows(&table, twice, |_| {})), "by_mail");
    let unsorted = [(2, "ann@a", "Oslo", 1), (1, "bob@a", "Oslo", 1)];
    assert!(matches!(db.bulk_load_rows(&table, unsorted, |_| {}), Err(Error::Unsorted { row: 1 })));
    let wrong = [("2", "ann@a", "Oslo", 1)];
    assert!(matches!(db.bulk_load_rows(&table, wrong, |_| {}), Err(Error::Row(_))));
    let session = session(&db);
    let mut txn = begin(&session);
    assert!(ids(&table, &mut txn, "Oslo").is_empty());
    table.insert(&mut txn, (1, "ann@a", "Oslo", 1)).unwrap();
    txn.commit().unwrap();
}

fn notes() -> Schema {
    Schema::builder()
        .column(Column::new("id", ColumnType::I64).auto_increment())
        .column(Column::new("text", ColumnType::Text))
        .primary_key(["id"])
        .build()
        .unwrap()
}

#[test]
fn rows_are_numbered_and_no_number_is_given_twice() {
    let (disk, db) = in_memory();
    let table = db.create_typed_table("notes", notes()).unwrap();
    let one = session(&db);
    let mut txn = begin(&one);
    let next = None::<i64>;
    assert_eq!(table.insert(&mut txn, (next, "a")).unwrap(), Some(1));
    assert_eq!(table.insert(&mut txn, (next, "b")).unwrap(), Some(2));
    assert_eq!(table.insert(&mut txn, (10, "c")).unwrap(), None);
    assert_eq!(table.insert(&mut txn, (5, "d")).unwrap(), None);
    assert_eq!(table.insert(&mut txn, (-5, "e")).unwrap(), None);
    assert!(table.upsert(&mut txn, (next, "f")).unwrap());
    assert!(table.get(&mut txn, 11).unwrap().is_some());
    assert!(table.update(&mut txn, (next, "g")).is_err());
    txn.rollback().unwrap();
    let mut txn = begin(&one);
    assert_eq!(table.insert(&mut txn, (next, "a")).unwrap(), Some(12));
    txn.commit().unwrap();

    let found = disk.kill();
    let db = Database::open_on(Arc::new(found), config()).unwrap();
    let table = db.typed_table("notes").unwrap();
    let given = std::sync::Mutex::new(std::collections::BTreeSet::from([12]));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let session = session(&db);
                for _ in 0..200 {
                    let mut txn = session.begin(Isolation::ReadCommitted);
                    let number = table.insert(&mut txn, (next, "x")).unwrap().unwrap();
                    txn.commit().unwrap();
                    assert!(given.lock().unwrap().insert(number), "{number} was given twice");
                }
            });
        }
    });
    let one = session(&db);
    let mut txn = begin(&one);
    assert_eq!(table.count(&mut txn).unwrap(), 801);
    table.insert(&mut txn, (i64::MAX, "the last")).unwrap();
    assert!(matches!(table.insert(&mut txn, (next, "x")), Err(Error::NumbersExhausted { .. })));
    drop(txn);
    let other = db.create_typed_table("loaded", notes()).unwrap();
    db.bulk_load_rows(&other, (0..100).map(|_| (next, "x")), |_| {}).unwrap();
    assert_eq!(other.insert(&mut begin(&one), (next, "x")).unwrap(), Some(101));
}

/// Also of a column that holds more than the numbers that are given.
#[test]
fn after_the_highest_number_there_is_none_also_when_the_table_is_opened_again() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let id = Column::new("id", ColumnType::U64).auto_increment();
    let schema = Schema::builder().column(id).primary_key(["id"]).build().unwrap();
    let table = db.create_typed_table("t", schema).unwrap();
    let one = session(&db);
    let mut txn = begin(&one);
    table.insert(&mut txn, (u64::MAX,)).unwrap();
    txn.commit().unwrap();
    let db_again = Database::open_on(Arc::new(disk.kill()), config()).unwrap();
    let again = db_again.typed_table("t").unwrap();
    for (db, table) in [(&db, &table), (&db_again, &again)] {
        let next = table.insert(&mut begin(&session(db)), (None::<u64>,));
        assert!(matches!(next, Err(Error::NumbersExhausted { .. })), "{next:?}");
    }
}

#[test]
fn many_may_read_a_row_for_share_and_nobody_changes_it_meanwhile() {
    let config = EngineConfig { lock_wait_timeout: Duration::from_millis(20), ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_typed_table("people", people()).unwrap();
    let (one, two) = (session(&db), session(&db));
    let mut txn = begin(&one);
    table.insert(&mut txn, (1, "1@a", "here", None::<i32>)).unwrap();
    txn.commit().unwrap();
    let (mut first, mut second) = (one.begin(Isolation::ReadCommitted), two.begin(Isolation::ReadCommitted));
    for txn in [&mut first, &mut second] {
        assert!(
            table.get_for_share(txn, 1).unwrap().is_some() && table.get_for_share(txn, 2).unwrap().is_none()
        );
    }
    assert!(matches!(table.delete(&mut first, 1), Err(Error::LockWaitTimeout)));
    second.commit().unwrap();
    assert!(table.delete(&mut first, 1).unwrap());
}

/// Many threads add the same values: of each exactly one wins.
#[test]
fn of_those_who_add_the_same_one_wins() {
    const VALUES: u64 = 60;
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let wins = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6_u64 {
            let (db, table, wins) = (&db, &table, &wins);
            scope.spawn(move || {
                let session = session(db);
                for value in 0..VALUES {
                    let mail = format!("{value}@a");
                    let mut txn = session.begin(Isolation::ReadCommitted);
                    // Some give up what they have added, or what another has.
                    let id = value * 10 + thread;
                    match table.insert(&mut txn, (id, &mail, "x", 1)) {
                        Ok(_) if (value + thread).is_multiple_of(4) => {
                            table.delete(&mut txn, id).unwrap();
                            txn.commit().unwrap();
                        }
                        Ok(_) if (value + thread).is_multiple_of(5) => txn.rollback().unwrap(),
                        Ok(_) => {
                            wins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            txn.commit().unwrap();
                        }
                        Err(Error::DuplicateKey { index }) => assert_eq!(index, "by_mail"),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let session = session(&db);
    let mut txn = begin(&session);
    let rows = db.check_typed_table(&table, &mut txn).unwrap();
    assert_eq!(rows, wins.into_inner());
    assert!(rows > VALUES / 2 && rows <= VALUES, "{rows}");
}
