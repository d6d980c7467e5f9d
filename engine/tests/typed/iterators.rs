//! Typed iterators: their snapshot, their locks, and their slot.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use flifo_admission::{Admission, Config};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::row::{Prefix, RowView, Value};
use flifo_engine::{Database, EngineConfig, Error, Isolation, Transaction, TypedTable};

use crate::common::{config, session};
use crate::{begin, in_memory, people};

#[test]
fn an_iterator_has_its_own_snapshot() {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let row = |id: u64| (id, format!("{id}@a"), format!("town {}", id % 3));
    let rows = (0..1000).map(|id| {
        let (id, mail, town) = row(id);
        vec![id.into(), mail.into(), town.into(), Value::Null]
    });
    db.bulk_load_rows(&table, rows, |_| {}).unwrap();
    let (all, some, of_town) = {
        let session = session(&db);
        let mut txn = begin(&session);
        table.delete(&mut txn, 7).unwrap();
        let all = table.iter(&mut txn, ..).unwrap();
        let some = table.iter(&mut txn, 100..356).unwrap();
        (all, some, table.iter_index(&mut txn, "by_town", Prefix("town 1")).unwrap())
    };
    // Its transaction was rolled back, and another one has changed everything.
    let session = session(&db);
    let mut txn = begin(&session);
    for id in 0..1000 {
        table.update_with(&mut txn, id, |row| Ok(row.set("town", "elsewhere")?)).unwrap();
    }
    txn.commit().unwrap();
    let id = |row: flifo_engine::Result<flifo_engine::row::Row>| {
        let row = row.unwrap();
        assert!(row.get("town").unwrap().as_text().unwrap().starts_with("town "));
        row.get("id").unwrap().as_u64().unwrap()
    };
    assert_eq!(std::thread::scope(|scope| scope.spawn(|| all.map(id).count()).join().unwrap()), 1000);
    assert_eq!(some.map(id).collect::<Vec<_>>(), (100..356).collect::<Vec<_>>());
    assert_eq!(of_town.map(id).collect::<Vec<_>>(), (1..1000).step_by(3).collect::<Vec<_>>());
    let mut late = table.iter(&mut begin(&session), ..).unwrap();
    assert_eq!(db.check_typed_table(&table, &mut begin(&session)).unwrap(), 1000);
    db.close().unwrap();
    assert!(matches!(late.next(), Some(Err(Error::Closed))));
    assert!(late.next().is_none());
}

/// What its own transaction changes later an iterator does not see, whether it had written before or not: a loop may move the
/// rows that it goes over.
#[test]
fn an_iterator_sees_nothing_that_came_later() {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let row = |id: u64| vec![id.into(), format!("{id}@a").into(), "here".into(), (id as i32).into()];
    db.bulk_load_rows(&table, (0..1000_u64).map(row), |_| {}).unwrap();
    let session = session(&db);
    for has_written in [false, true] {
        let mut txn = begin(&session);
        let mut expected: Vec<u64> = (0..1000).collect();
        if has_written {
            table.delete(&mut txn, 500).unwrap();
            table.insert(&mut txn, row(1000)).unwrap();
            expected.remove(500);
            expected.push(1000);
        }
        let mut seen = Vec::new();
        for row in table.iter_index(&mut txn, "by_town", Prefix("here")).unwrap() {
            let row = row.unwrap();
            let (id, born) =
                (row.get(0).unwrap().as_u64().unwrap(), row.get("born").unwrap().as_i64().unwrap());
            assert_eq!(id, born as u64);
            seen.push(id);
            // To where the index has it once more before the iterator, and others away from it.
            match id % 3 {
                0 => drop(table.delete(&mut txn, id).unwrap()),
                _ => table
                    .update_with(&mut txn, id, |row| Ok(row.set("born", born as i32 - 2000)?))
                    .map(drop)
                    .unwrap(),
            }
            table
                .insert(&mut txn, vec![(id + 5000).into(), Value::Null, "here".into(), (id as i32).into()])
                .unwrap();
        }
        seen.sort_unstable();
        assert_eq!(seen, expected);
        txn.rollback().unwrap();
    }
}

/// Two who sum up a table, and then add to it what the other's sum forbids.
#[test]
fn an_iterator_locks_what_it_reads_where_reads_do() {
    let config = EngineConfig { lock_wait_timeout: Duration::from_millis(20), ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_typed_table("people", people()).unwrap();
    let row = |id: u64| vec![id.into(), format!("{id}@a").into(), "here".into(), Value::Null];
    db.bulk_load_rows(&table, (0..300_u64).map(row), |_| {}).unwrap();
    let (one, two) = (session(&db), session(&db));
    for by_index in [false, true] {
        let sum = |txn: &mut Transaction<'_>| match by_index {
            false => table.iter(txn, ..).unwrap().map(Result::unwrap).count(),
            true => table.iter_index(txn, "by_town", Prefix("here")).unwrap().map(Result::unwrap).count(),
        };
        let (mut first, mut second) =
            (one.begin(Isolation::Serializable), two.begin(Isolation::Serializable));
        assert_eq!((sum(&mut first), sum(&mut second)), (300, 300));
        for (id, txn) in [(400, &mut first), (401, &mut second)] {
            let inserted = table.insert(txn, row(id));
            assert!(matches!(inserted, Err(Error::LockWaitTimeout)), "{inserted:?}");
        }
    }
}

/// A table of 1000 people, and admission with one slot: a session that would queue is refused.
fn crowded() -> (Database, TypedTable, Arc<Admission>) {
    let (_, db) = in_memory();
    let table = db.create_typed_table("people", people()).unwrap();
    let row = |id: u64| vec![id.into(), Value::Null, "here".into(), Value::Null];
    db.bulk_load_rows(&table, (0..1000_u64).map(row), |_| {}).unwrap();
    let queue_timeout = Some(Duration::from_millis(1));
    let one = Config { thread_concurrency: 1, stall_limit: None, queue_timeout, ..Config::default() };
    (db, table, Admission::new(one).unwrap())
}

/// It would wait for the slot that its own thread holds. An iterator of another thread does wait.
#[test]
fn an_iterator_within_a_statement_takes_no_second_slot() {
    let (db, table, admission) = crowded();
    let session = db.session(&admission);
    let mut txn = begin(&session);
    let (here, mut elsewhere) = (table.iter(&mut txn, ..).unwrap(), table.iter(&mut txn, ..).unwrap());
    let _statement = txn.statement().unwrap();
    assert_eq!(here.map(Result::unwrap).count(), 1000);
    let of_another = std::thread::scope(|scope| scope.spawn(|| elsewhere.next()).join().unwrap());
    assert!(matches!(of_another, Some(Err(Error::Refused(_)))), "{of_another:?}");
}

/// Nor does one within an operation that calls the user, as in a join.
#[test]
fn an_iterator_within_a_callback_takes_no_second_slot() {
    let (db, table, admission) = crowded();
    let session = db.session(&admission);
    let mut txn = begin(&session);
    let mut others = table.iter(&mut txn, ..).unwrap();
    let mut joined = 0;
    let mut join = |row: &RowView<'_>| {
        let other = others.next().unwrap().unwrap();
        assert_eq!(other.get(0).unwrap().as_u64(), row.get(0).unwrap().as_u64());
        joined += 1;
        ControlFlow::Continue(())
    };
    table.scan(&mut txn, ..500, &mut join).unwrap();
    table
        .scan_index(&mut txn, "by_town", .., |row| match row.get(0).unwrap().as_u64() < Some(500) {
            true => ControlFlow::Continue(()),
            false => join(row),
        })
        .unwrap();
    assert_eq!(joined, 1000);
    let mut all = table.iter(&mut txn, ..).unwrap();
    table
        .update_with(&mut txn, 7, |row| {
            assert_eq!(all.by_ref().map(Result::unwrap).count(), 1000);
            Ok(row.set("town", "there")?)
        })
        .unwrap();
    assert_eq!(admission.snapshot().running, 0);
}
