//! Large values while the disk fails: what is found is what was done, and no page is in use that nothing refers to. Inside
//! the crate, since it counts pages.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use flifo_admission::{Admission, Config};

use super::catalog::Kind;
use super::{Database, EngineConfig};
use crate::disk::{DiskCall, Fault, MemoryDisk};
use crate::error::{Error, Result};

const STEPS: u32 = 18;
/// So few that the tree is one leaf: splits that a crash cuts off leave a page, and would be counted.
const KEYS: u32 = 9;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn config() -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 256 << 10,
        buffer_pool_instances: 1,
        data_files: 2,
        page_size: 4096,
        redo_capacity_bytes: 4 << 20,
        log_buffer_bytes: 256 << 10,
        rollback_segments: 1,
        ..EngineConfig::default()
    }
}

/// The step's key, and its value; `None` removes the row.
fn step(number: u32) -> (Vec<u8>, Option<Vec<u8>>) {
    let key = vec![(number * 5 % KEYS) as u8; 4];
    let bytes = [12_000, 50, 3000, 40_000, 1100][number as usize % 5];
    (key, (number % 7 != 6).then(|| (0..bytes).map(|at: u32| (at / 3 + number) as u8).collect()))
}

fn after(steps: u32) -> Rows {
    let mut rows = Rows::new();
    for (key, value) in (0..steps).map(step) {
        match value {
            Some(value) => drop(rows.insert(key, value)),
            None => drop(rows.remove(&key)),
        }
    }
    rows
}

/// Notes how many steps were acknowledged; `None`: not even the tree.
fn history(disk: &MemoryDisk, done: &mut Option<u32>) -> Result<()> {
    let db = Database::create_on(Arc::new(disk.clone()), config())?;
    let tree = db.create_tree("t")?;
    *done = Some(0);
    let session = db.session(&Admission::new(Config::default()).unwrap());
    for number in 0..STEPS {
        let (key, value) = step(number);
        match value {
            Some(value) => drop(session.statement()?.upsert(&tree, &key, &value)?),
            None => drop(session.statement()?.delete(&tree, &key)?),
        }
        *done = Some(number + 1);
        if number == STEPS / 2 {
            db.checkpoint()?;
            let dropped = db.create_tree("dropped")?;
            for key in 0..4 {
                session.statement()?.upsert(&dropped, &[key], &vec![key; 4000 * usize::from(key)])?;
            }
            drop(dropped);
            db.drop_tree("dropped")?;
        }
    }
    db.close()
}

fn rows(db: &Database, name: &str) -> Rows {
    let mut rows = Rows::new();
    let tree = db.tree(name).unwrap();
    let session = db.session(&Admission::new(Config::default()).unwrap());
    let each = |key: &[u8], value: &[u8]| {
        rows.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    };
    session.statement().unwrap().scan(&tree, Bound::Unbounded, Bound::Unbounded, each).unwrap();
    rows
}

/// Pages in use, and those that can be reached: page 0, the bitmap, the pending page, and all trees.
fn pages(db: &Database) -> (u64, u64) {
    let (inner, waiter) = (&db.inner, db.inner.waiter().unwrap());
    let mut reached = 3;
    reached += inner.catalog.tree.check(&waiter).unwrap().pages();
    for root in inner.catalog.roots(&waiter).unwrap() {
        reached += inner.catalog.at(root).check(&waiter).unwrap().pages();
    }
    (inner.catalog.alloc().used_pages(&waiter).unwrap(), reached)
}

fn check_left(disk: &MemoryDisk, done: Option<u32>, context: &str) {
    let db = match (Database::open_on(Arc::new(disk.clone()), config()), done) {
        (Ok(db), _) => db,
        (Err(Error::NoDatabase { .. } | Error::HalfCreated { .. }), None) => return,
        (Err(error), _) => panic!("{context}: {error}"),
    };
    let Some(done) = done else { return };
    let found = rows(&db, "t");
    // The step that failed may have happened.
    assert!(found == after(done) || found == after((done + 1).min(STEPS)), "{context}: not {done} steps");
    let (used, reached) = pages(&db);
    assert_eq!(used, reached, "{context}: {done} steps");
    db.close().unwrap();
}

fn each_failing(call: Option<DiskCall>, fault: Fault, lasting: bool) {
    for nth in (1..).step_by(if lasting { 3 } else { 1 }) {
        let disk = MemoryDisk::with_power_cuts(nth);
        match lasting {
            true => disk.fail_from(call, nth, fault),
            false => disk.fail_nth(call, nth, fault),
        }
        let mut done = None;
        let outcome = history(&disk, &mut done);
        let context =
            format!("{fault:?} at {call:?} {nth}, lasting {lasting}, gave {:?}", outcome.as_ref().err());
        let all_done = disk.faults_to_come() == 1 && outcome.is_ok();
        disk.heal();
        check_left(&disk.power_cut(), done, &context);
        check_left(&disk, done, &context);
        if all_done {
            println!("{fault:?} at {call:?}, lasting {lasting}: {nth} calls");
            assert_eq!(done, Some(STEPS));
            return;
        }
    }
}

#[test]
fn each_call_failing_leaves_whole_values_and_no_page_too_many() {
    each_failing(None, Fault::Io, false);
}

#[test]
fn the_disk_failing_for_good_at_each_call() {
    each_failing(None, Fault::Io, true);
}

#[test]
fn the_disk_full_at_each_growth() {
    each_failing(Some(DiskCall::Allocate), Fault::DiskFull, true);
}

#[test]
fn a_full_disk_leaves_the_tree_as_it_was() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    let session = db.session(&Admission::new(Config::default()).unwrap());
    let upsert = |value: &[u8]| session.statement().unwrap().upsert(&tree, b"k", value);
    upsert(&[1; 20_000]).unwrap();
    let before = pages(&db);
    assert_eq!(before.0, before.1);
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    assert!(matches!(upsert(&vec![2; 4 << 20]), Err(Error::DiskFull { .. })));
    assert_eq!(pages(&db), before);
    assert_eq!(rows(&db, "t"), Rows::from([(b"k".to_vec(), vec![1; 20_000])]));
    disk.heal();
    upsert(&vec![2; 4 << 20]).unwrap();
    assert_eq!(rows(&db, "t"), Rows::from([(b"k".to_vec(), vec![2; 4 << 20])]));
    let (used, reached) = pages(&db);
    assert_eq!(used, reached);
}

/// Deletes, updates and rollbacks of large rows: once purge is through, their pages are free.
#[test]
fn purge_frees_the_pages_of_large_rows() {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    let before = pages(&db);
    let session = db.session(&Admission::new(Config::default()).unwrap());
    for round in 0..3_u8 {
        let mut txn = session.begin(crate::Isolation::RepeatableRead);
        for key in 0..5_u8 {
            txn.upsert(&table, &[key], &vec![round; 30_000]).unwrap();
        }
        match round {
            1 => txn.rollback().unwrap(),
            _ => txn.commit().unwrap(),
        }
    }
    let mut txn = session.begin(crate::Isolation::RepeatableRead);
    (0..5_u8).for_each(|key| assert!(txn.delete(&table, &[key]).unwrap()));
    txn.commit().unwrap();
    while db.stats().txns.history > 0 {
        std::thread::yield_now();
    }
    assert_eq!(pages(&db), before);
    assert_eq!(before.0, before.1);
}

/// Without it a purge that is once behind what the buffer pool keeps never comes back.
#[test]
fn who_writes_purges_where_purge_does_not_keep_up() {
    let config = EngineConfig {
        buffer_pool_bytes: 16 << 20,
        redo_capacity_bytes: 64 << 20,
        rollback_segments: 2,
        ..config()
    };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_table("t").unwrap();
    let admission = Admission::new(Config::default()).unwrap();
    // Whichever session it is.
    let sessions: Vec<_> = (0..6).map(|_| db.session(&admission)).collect();
    let session = &sessions[5];
    db.inner.running.pool.stop_background();
    for round in 0..10_000_u32 {
        let mut txn = session.begin(crate::Isolation::ReadCommitted);
        txn.upsert(&table, b"k", &round.to_le_bytes()).unwrap();
        txn.commit().unwrap();
    }
    // 4096 in each segment that was written to: one for each CPU that the thread ran on, and there are two.
    let history = db.stats().txns.history;
    assert!((3900..2 * 4300).contains(&history), "{history} of 20,000");
}

/// A load has a stamp for each value, and logs next to nothing.
#[test]
fn stamps_do_not_come_again_after_a_reopening() {
    let disk = MemoryDisk::default();
    let mut last = 0;
    for round in 0..3 {
        let db = match round {
            0 => Database::create_on(Arc::new(disk.clone()), config()).unwrap(),
            _ => Database::open_on(Arc::new(disk.clone()), config()).unwrap(),
        };
        let (catalog, waiter) = (&db.inner.catalog, db.inner.waiter().unwrap());
        assert!(catalog.alloc().next_stamp() > last, "opening {round}");
        let tree = catalog.create_tree(&waiter, Kind::Tree, &round.to_string()).unwrap();
        let rows = (0..6000_u32).map(|id| (id.to_be_bytes(), [1; 1000]));
        assert_eq!(tree.bulk_load(&waiter, rows, 1.0, |_| {}).unwrap(), 6000);
        // After those of the tree's values.
        last = catalog.alloc().next_stamp();
        db.close().unwrap();
    }
}
