//! A small history on a simulated disk, with a fault at every call in turn: no panic, and never wrong data taken
//! for good.

mod common;

use std::sync::Arc;

use common::{config, key, rows, session, value, verify, verify_some};
use flifo_engine::disk::{DiskCall, Fault, MemoryDisk};
use flifo_engine::{Database, EngineConfig, Error, Result};

const ROWS: u64 = 2000;
const MORE: u64 = 200;

fn small() -> EngineConfig {
    // A pool smaller than the data, so that reads and write-back happen within the history.
    EngineConfig { buffer_pool_bytes: 256 << 10, buffer_pool_instances: 1, ..config() }
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
    Grown,
}

/// Creates, loads, checkpoints, closes, opens, reads, inserts, closes; notes what must be found afterwards.
fn history(disk: &MemoryDisk, reached: &mut Reached) -> Result<()> {
    let db = Database::create_on(on(disk), small())?;
    *reached = Reached::Created;
    let tree = db.create_tree("t")?;
    db.bulk_load(&tree, rows(ROWS), |_| {})?;
    db.set_property("loaded", "yes")?;
    db.checkpoint()?;
    *reached = Reached::Loaded;
    drop(tree);
    db.close()?;

    let db = Database::open_on(on(disk), small())?;
    let tree = db.tree("t")?;
    verify_some(&db, &tree, ROWS, 50)?;
    let session = session(&db);
    for row in ROWS..ROWS + MORE {
        assert!(session.statement().unwrap().insert(&tree, &key(row), &value(row))?);
    }
    db.close()?;
    *reached = Reached::Grown;
    Ok(())
}

/// Opens what is left, and checks that it is one of the states that the history made durable, at least the one
/// it was told to be so; or that it is refused, which may be only while changes were being written.
fn check_left(disk: &MemoryDisk, reached: Reached, context: &str) {
    let db = match Database::open_on(on(disk), small()) {
        Ok(db) => db,
        Err(Error::NoDatabase { .. } | Error::HalfCreated { .. }) if reached == Reached::Nothing => return,
        Err(Error::NotClosedCleanly { .. }) if reached < Reached::Grown => return,
        Err(error) => panic!("{context}: {reached:?}, then {error}"),
    };
    let found = match db.tree("t") {
        Err(Error::UnknownTree { .. }) => Reached::Created,
        Err(error) => panic!("{context}: {error}"),
        Ok(tree) => {
            let loaded = db.property("loaded").unwrap().is_some();
            let grown =
                loaded && session(&db).statement().unwrap().get(&tree, &key(ROWS), &mut Vec::new()).unwrap();
            match (loaded, grown) {
                // The drop of a handle after a failed load: the tree is there, and whole as far as it goes.
                (false, _) => drop(db.check_tree(&tree).unwrap()),
                (true, false) => verify_some(&db, &tree, ROWS, 50).unwrap(),
                (true, true) => {
                    let rows = db.check_tree(&tree).unwrap().rows;
                    verify_some(&db, &tree, rows, 50).unwrap();
                }
            }
            match (loaded, grown) {
                (false, _) => Reached::Created,
                (true, false) => Reached::Loaded,
                (true, true) => Reached::Grown,
            }
        }
    };
    assert!(found >= reached, "{context}: {reached:?} was durable, {found:?} was found");
}

/// Runs the history with one call of a kind (or of any) failing, the first, the second, and so on to the last.
fn each_failing(call: Option<DiskCall>, fault: Fault, lasting: bool) {
    for nth in 1.. {
        let disk = MemoryDisk::with_power_cuts(nth);
        match lasting {
            true => disk.fail_from(call, nth, fault),
            false => disk.fail_nth(call, nth, fault),
        }
        let mut reached = Reached::Nothing;
        let outcome = history(&disk, &mut reached);
        let context =
            format!("{fault:?} at {call:?} {nth}, lasting {lasting}, gave {:?}", outcome.as_ref().err());
        let all_done = disk.faults_to_come() == 1 && outcome.is_ok();
        disk.heal();
        check_left(&disk.power_cut(), reached, &context);
        if !lasting {
            check_left(&disk, reached, &context);
        }
        if all_done {
            assert_eq!(reached, Reached::Grown);
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
    assert!(matches!(db.checkpoint(), Err(Error::Io { .. })));
    assert!(matches!(db.checkpoint(), Err(Error::Stopped { .. })));
    assert!(matches!(db.close(), Err(Error::Stopped { .. })));
    drop((tree, db));
    assert!(matches!(Database::open_on(on(&disk), small()), Err(Error::NotClosedCleanly { .. })));
}

#[test]
fn a_failed_write_stops_all_writing() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(on(&disk), small()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    // The first two are the state blocks'.
    disk.fail_nth(Some(DiskCall::Write), 3, Fault::Io);
    assert!(matches!(db.checkpoint(), Err(Error::Io { .. } | Error::Stopped { .. })));
    assert!(matches!(db.checkpoint(), Err(Error::Stopped { .. })));
    // What is in memory can still be read, to be saved elsewhere.
    verify(&db, &tree, ROWS).unwrap();
    assert!(matches!(db.close(), Err(Error::Stopped { .. })));
    drop((tree, db));
    assert!(matches!(Database::open_on(on(&disk), small()), Err(Error::NotClosedCleanly { .. })));
}

#[test]
fn a_change_that_panics_is_never_marked_clean() {
    let disk = MemoryDisk::default();
    let db = Database::create_on(on(&disk), small()).unwrap();
    let tree = db.create_tree("t").unwrap();
    let load = std::panic::AssertUnwindSafe(|| {
        db.bulk_load(&tree, rows(10).inspect(|(row, _)| assert_ne!(row, &key(5))), |_| {})
    });
    assert!(std::panic::catch_unwind(load).is_err());
    assert!(matches!(db.checkpoint(), Err(Error::Stopped { .. })));
    assert!(matches!(db.close(), Err(Error::Stopped { .. })));
}
