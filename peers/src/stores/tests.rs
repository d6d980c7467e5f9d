//! Every adapter: rows come back, transactions are whole, increments of four threads add up, and all is there after a
//! close.

use std::path::Path;
use std::sync::Arc;

use flifo_admission::Policy;

use super::ALL;
use crate::cell::counters;
use crate::row;
use crate::store::{Driver, Durability, Fail, Handle, Settings, Store};

const ROWS: u64 = 3_000;
const THREADS: u64 = 4;
const EACH: u64 = 50;

fn settings(durability: Durability) -> Settings {
    Settings { durability, cache_bytes: 64 << 20, threads: 16, policy: Policy::Flifo, thread_concurrency: 4 }
}

fn loaded(driver: &Driver, dir: &Path, durability: Durability) -> Arc<dyn Store> {
    let dir = dir.join(driver.about.name);
    std::fs::create_dir(&dir).unwrap();
    (driver.load)(&dir, &settings(durability), &mut row::rows(1, ROWS)).unwrap()().unwrap()
}

fn value_of(handle: &mut dyn Handle, id: u64) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    handle.get(id, &mut value).unwrap().then_some(value)
}

/// One more in a row's counter, retried until it succeeds.
fn increment(handle: &mut dyn Handle, id: u64) {
    let mut value = Vec::new();
    let mut attempt = || {
        handle.transact(&mut |txn| {
            assert!(txn.get_for_update(id, &mut value)?);
            row::update_k(&mut value);
            txn.update(id, &value)
        })
    };
    while let Err(fail) = attempt() {
        assert!(matches!(fail, Fail::Conflict), "{fail:?}");
    }
}

fn reads(driver: &Driver, handle: &mut dyn Handle) {
    let name = driver.about.name;
    assert_eq!(value_of(handle, 7).as_deref(), Some(row::value(1, 7).as_slice()), "{name}");
    assert_eq!(value_of(handle, ROWS), None, "{name}");
    let mut ids = Vec::new();
    handle.scan(ROWS - 3, 10, &mut |id, value| ids.push((id, value.len()))).unwrap();
    assert_eq!(ids, [(ROWS - 3, 188), (ROWS - 2, 188), (ROWS - 1, 188)], "{name}");
    let mut count = 0;
    handle.scan(0, 10, &mut |_, _| count += 1).unwrap();
    assert_eq!(count, 10, "{name}");
}

fn transactions(driver: &Driver, handle: &mut dyn Handle) {
    let name = driver.about.name;
    // A row goes and comes back with another value; reads inside see the writes.
    handle
        .transact(&mut |txn| {
            let mut value = Vec::new();
            txn.delete(5)?;
            assert!(!txn.get(5, &mut value)?, "{name}");
            txn.insert(5, &row::value(2, 5))?;
            assert!(txn.get(5, &mut value)?, "{name}");
            assert_eq!(value, row::value(2, 5), "{name}");
            if driver.about.no_scans.is_none() {
                let mut ids = Vec::new();
                txn.scan(4, 3, &mut |id, _| ids.push(id))?;
                assert_eq!(ids, [4, 5, 6], "{name}");
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(value_of(handle, 5).unwrap(), row::value(2, 5), "{name}");
    // One that fails leaves nothing.
    let failed = handle.transact(&mut |txn| {
        txn.update(6, &row::value(3, 6))?;
        txn.delete(7)?;
        Err(Fail::Store("as asked".into()))
    });
    assert!(matches!(failed, Err(Fail::Store(text)) if text == "as asked"), "{name}");
    assert_eq!(value_of(handle, 6).unwrap(), row::value(1, 6), "{name}");
    assert!(value_of(handle, 7).is_some(), "{name}");
}

fn whole(driver: &Driver, durability: Durability) {
    let name = driver.about.name;
    let temp = tempfile::tempdir().unwrap();
    let store = loaded(driver, temp.path(), durability);
    {
        let mut handle = store.handle().unwrap();
        reads(driver, handle.as_mut());
        transactions(driver, handle.as_mut());
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut handle = store.handle().unwrap();
            scope.spawn(move || (0..EACH).for_each(|n| increment(handle.as_mut(), n * thread % 3)));
        }
    });
    assert_eq!(counters(&*store, ROWS).unwrap(), THREADS * EACH, "{name}");
    store.settle().unwrap();
    store.close().unwrap();
    drop(store);

    let store = (driver.open)(&temp.path().join(name), &settings(durability)).unwrap();
    assert_eq!(counters(&*store, ROWS).unwrap(), THREADS * EACH, "{name} after a close");
    assert_eq!(value_of(store.handle().unwrap().as_mut(), 5).unwrap(), row::value(2, 5), "{name}");
    store.close().unwrap();
}

fn whole_of(name: &str) {
    // RocksDB can be left out of the build.
    let Some(driver) = ALL.iter().find(|driver| driver.about.name == name) else { return };
    for durability in [Durability::None, Durability::Written, Durability::Synced] {
        if driver.about.setting(durability).is_ok() {
            whole(driver, durability);
        }
    }
}

macro_rules! each {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            whole_of(stringify!($name));
        }
    )*};
}

each!(flifo redb lmdb fjall rocksdb sqlite sled);

/// What one transaction scans conflicts with what another one changes there, and with nothing else.
#[test]
fn an_optimistic_scan_reads_its_own_rows_alone() {
    let driver = ALL.iter().find(|driver| driver.about.name == "fjall").unwrap();
    let temp = tempfile::tempdir().unwrap();
    let store = loaded(driver, temp.path(), Durability::None);
    let (mut first, mut other) = (store.handle().unwrap(), store.handle().unwrap());
    let mut while_other_changes = |row: u64| {
        first.transact(&mut |txn| {
            let mut count = 0;
            txn.scan(0, 100, &mut |_, _| count += 1)?;
            assert_eq!(count, 100);
            increment(other.as_mut(), row);
            txn.update(1, &row::value(1, 1))
        })
    };
    for row in [100, 2_000, ROWS - 1] {
        assert!(while_other_changes(row).is_ok(), "row {row} was not read");
    }
    for row in [0, 99] {
        assert!(matches!(while_other_changes(row), Err(Fail::Conflict)), "row {row} was read");
    }
}

#[test]
fn versions_are_known() {
    for driver in ALL {
        let version = (driver.about.version)();
        assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{} {version}", driver.about.name);
    }
}

#[test]
fn a_missing_row_is_noticed() {
    let temp = tempfile::tempdir().unwrap();
    let store = loaded(&ALL[0], temp.path(), Durability::None);
    assert_eq!(counters(&*store, ROWS).unwrap(), 0);
    store.handle().unwrap().transact(&mut |txn| txn.delete(9)).unwrap();
    assert!(counters(&*store, ROWS).is_err());
    store.close().unwrap();
}
