//! A small history on a simulated disk, with a fault at every call in turn: no panic, and never wrong data taken
//! for good.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{config, flush_mode, key, rows, session, value, verify, verify_some};
use flifo_engine::disk::{DiskCall, Fault, MemoryDisk};
use flifo_engine::{Database, EngineConfig, Error, Result};

const ROWS: u64 = 2000;
const MORE: u64 = 30;

fn small() -> EngineConfig {
    // A pool smaller than the data, so that reads and write-back happen within the history.
    EngineConfig { buffer_pool_bytes: 256 << 10, buffer_pool_instances: 1, rollback_segments: 2, ..config() }
}

/// One mode of flushing after the other.
fn small_in_mode(number: u64) -> EngineConfig {
    EngineConfig { flush_mode: flush_mode(number), ..small() }
}

fn on(disk: &MemoryDisk) -> Arc<MemoryDisk> {
    Arc::new(disk.clone())
}

/// What of the history is known to be durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Nothing,
    Created,
    Loaded,
    /// So many rows were inserted afterwards.
    Grown(u64),
}

/// Creates, loads, checkpoints, closes, opens, reads, inserts, closes; notes what must be found afterwards.
fn history(disk: &MemoryDisk, config: &EngineConfig, reached: &mut Reached) -> Result<()> {
    let db = Database::create_on(on(disk), config.clone())?;
    *reached = Reached::Created;
    let tree = db.create_tree("t")?;
    db.bulk_load(&tree, rows(ROWS), |_| {})?;
    db.set_property("loaded", "yes")?;
    db.checkpoint()?;
    *reached = Reached::Loaded;
    drop(tree);
    db.close()?;

    let db = Database::open_on(on(disk), config.clone())?;
    let tree = db.tree("t")?;
    verify_some(&db, &tree, ROWS, 50)?;
    let session = session(&db);
    for row in ROWS..ROWS + MORE {
        assert!(session.statement().unwrap().insert(&tree, &key(row), &value(row))?);
        *reached = Reached::Grown(row + 1 - ROWS);
    }
    db.close()
}

/// Opens the remaining files: they have everything that was acknowledged as durable, and are consistent.
fn check_left(disk: &MemoryDisk, reached: Reached, context: &str) {
    let db = match Database::open_on(on(disk), small()) {
        Ok(db) => db,
        Err(Error::NoDatabase { .. } | Error::HalfCreated { .. }) if reached == Reached::Nothing => return,
        Err(error) => panic!("{context}: {reached:?}, then {error}"),
    };
    let found = match db.tree("t") {
        Err(Error::UnknownTree { .. }) => Reached::Created,
        Err(error) => panic!("{context}: {error}"),
        Ok(tree) => {
            let rows = db.check_tree(&tree).unwrap().rows;
            verify_some(&db, &tree, rows, 50).unwrap();
            match (db.property("loaded").unwrap().is_some(), rows) {
                (false, 0 | ROWS) => Reached::Created,
                (true, ROWS) => Reached::Loaded,
                (true, _) if rows > ROWS => Reached::Grown(rows - ROWS),
                (loaded, _) => panic!("{context}: {rows} rows, loaded {loaded}"),
            }
        }
    };
    assert!(found >= reached, "{context}: {reached:?} was durable, {found:?} was found");
}

/// Runs the history with one call of a kind (or of any) failing, the first, the second, and so on to the last.
fn each_failing(call: Option<DiskCall>, fault: Fault, lasting: bool) {
    // One that lasts is much the same at neighbouring calls.
    for nth in (1..).step_by(if lasting { 3 } else { 1 }) {
        let disk = MemoryDisk::with_power_cuts(nth);
        match lasting {
            true => disk.fail_from(call, nth, fault),
            false => disk.fail_nth(call, nth, fault),
        }
        let mut reached = Reached::Nothing;
        let outcome = history(&disk, &small_in_mode(nth), &mut reached);
        let context =
            format!("{fault:?} at {call:?} {nth}, lasting {lasting}, gave {:?}", outcome.as_ref().err());
        let all_done = disk.faults_to_come() == 1 && outcome.is_ok();
        disk.heal();
        check_left(&disk.power_cut(), reached, &context);
        if !lasting {
            check_left(&disk, reached, &context);
        }
        if all_done {
            println!("{fault:?} at {call:?}, lasting {lasting}: {nth} calls");
            assert_eq!(reached, Reached::Grown(MORE));
            assert!(nth > 3, "{context}: the history makes more calls");
            return;
        }
    }
}

#[test]
fn each_call_failing_once() {
    each_failing(None, Fault::Io, false);
}

#[test]
fn the_disk_failing_for_good_at_each_call() {
    each_failing(None, Fault::Io, true);
}

#[test]
fn the_disk_full_at_each_write_and_each_growth() {
    each_failing(Some(DiskCall::Write), Fault::DiskFull, false);
    each_failing(Some(DiskCall::Allocate), Fault::DiskFull, true);
}

#[test]
fn each_sync_failing() {
    each_failing(Some(DiskCall::Sync), Fault::Io, false);
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(on(&disk), small()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    disk.fail_nth(Some(DiskCall::Sync), 1, Fault::Io);
    assert!((0..1000).any(|_| db.checkpoint().is_err()), "one of them syncs");
    assert!(matches!(db.checkpoint(), Err(Error::Stopped { .. })));
    let change = session(&db).statement().unwrap().insert(&tree, &key(ROWS), b"more");
    assert!(matches!(change, Err(Error::Stopped { .. })));
    assert!(matches!(db.close(), Err(Error::Stopped { .. })));
    drop((tree, db));
    let db = Database::open_on(on(&disk), small()).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
}

#[test]
fn a_failed_write_stops_all_writing() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(on(&disk), small()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    disk.fail_nth(Some(DiskCall::Write), 1, Fault::Io);
    assert!((0..1000).any(|_| db.checkpoint().is_err()), "one of them writes");
    assert!(matches!(db.checkpoint(), Err(Error::Stopped { .. })));
    // What is in memory can still be read, to be saved elsewhere.
    verify(&db, &tree, ROWS).unwrap();
    assert!(matches!(db.close(), Err(Error::Stopped { .. })));
    drop((tree, db));
    let db = Database::open_on(on(&disk), small()).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
}

#[test]
fn a_load_that_panics_leaves_an_empty_tree() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(on(&disk), small()).unwrap();
    let tree = db.create_tree("t").unwrap();
    let load = std::panic::AssertUnwindSafe(|| {
        db.bulk_load(&tree, rows(ROWS).inspect(|(row, _)| assert_ne!(row, &key(ROWS - 1))), |_| {})
    });
    assert!(std::panic::catch_unwind(load).is_err());
    verify(&db, &tree, 0).unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    drop(tree);
    db.close().unwrap();
    let db = Database::open_on(on(&disk), small()).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
}

/// A write fails in one batch while others wait for their turn: none of them uses the doublewrite area again, which has
/// the only whole copies of the pages that the failed one has torn. `FLIFO_SEEDS` says how many histories: it takes some
/// hundreds to meet that moment.
#[test]
fn no_batch_follows_one_that_failed() {
    let histories = std::env::var("FLIFO_SEEDS").map_or(40, |seeds| seeds.parse().expect("a number"));
    for nth in 1..=histories {
        let disk = MemoryDisk::with_power_cuts(nth);
        let of_db = Database::create_on(on(&disk), small_in_mode(nth)).unwrap();
        let of_tree = of_db.create_tree("t").unwrap();
        let (db, tree) = (&of_db, &of_tree);
        db.bulk_load(tree, rows(ROWS), |_| {}).unwrap();
        db.checkpoint().unwrap();
        disk.set_latency(Duration::ZERO, Duration::from_micros(100));
        disk.fail_nth(Some(DiskCall::Write), 1 + nth % 120, Fault::Io);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || while db.checkpoint().is_ok() {});
                scope.spawn(move || {
                    let session = session(db);
                    let mut rows = (thread..).map(|n| n * 7919 % ROWS);
                    let update = |row| session.statement().unwrap().update(tree, &key(row), &value(row));
                    while update(rows.next().unwrap_or_default()).is_ok() {}
                });
            }
        });
        drop((of_tree, of_db));
        disk.heal();
        let found = disk.power_cut();
        let db =
            Database::open_on(on(&found), small()).unwrap_or_else(|error| panic!("write {nth}: {error}"));
        let tree = db.tree("t").unwrap();
        db.check_tree(&tree).unwrap_or_else(|error| panic!("write {nth}: {error}"));
    }
}
