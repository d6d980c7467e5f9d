//! The engine's face: what a stranger does with it, right and wrong.

mod common;

use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::{admission, config, key, rows, session, value, verify};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, Error, WaitReason};

fn in_memory() -> (MemoryDisk, Database) {
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    (disk, db)
}

fn reopened(disk: &MemoryDisk) -> Database {
    Database::open_on(Arc::new(disk.clone()), config()).unwrap()
}

#[test]
fn rows_are_inserted_updated_and_deleted() {
    let (_, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    let session = session(&db);
    let statement = session.statement().unwrap();
    let mut found = b"left over".to_vec();
    assert!(!statement.get(&tree, b"k", &mut found).unwrap());
    assert!(found.is_empty());
    assert!(statement.insert(&tree, b"k", b"1").unwrap());
    assert!(!statement.insert(&tree, b"k", b"2").unwrap());
    assert!(statement.update(&tree, b"k", b"3").unwrap());
    assert!(!statement.update(&tree, b"l", b"3").unwrap());
    assert!(statement.get(&tree, b"k", &mut found).unwrap());
    assert_eq!(found, b"3");
    assert!(!statement.upsert(&tree, b"k", b"4").unwrap());
    assert!(statement.upsert(&tree, b"l", b"5").unwrap());
    assert!(statement.delete(&tree, b"k").unwrap());
    assert!(!statement.delete(&tree, b"k").unwrap());
    assert!(!statement.get(&tree, b"k", &mut found).unwrap());
    assert!(statement.get(&tree, b"l", &mut found).unwrap());
    assert_eq!(found, b"5");
}

#[test]
fn a_scan_keeps_to_its_bounds_and_may_use_its_statement() {
    let (_, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(1000), |_| {}).unwrap();
    let session = session(&db);
    let statement = session.statement().unwrap();
    let mut seen = Vec::new();
    let (from, to) = (key(100), key(900));
    statement
        .scan(&tree, Bound::Excluded(&from), Bound::Included(&to), |found, _| {
            seen.push(u64::from_be_bytes(found.try_into().unwrap()));
            statement.upsert(&tree, found, b"seen").unwrap();
            if seen.len() == 300 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap();
    assert_eq!(seen, (101..401).collect::<Vec<_>>());
    let mut found = Vec::new();
    for (row, expected) in
        [(100, value(100)), (101, b"seen".to_vec()), (400, b"seen".to_vec()), (401, value(401))]
    {
        statement.get(&tree, &key(row), &mut found).unwrap();
        assert_eq!(found, expected, "row {row}");
    }
}

#[test]
fn trees_are_found_by_name_and_last() {
    let (disk, db) = in_memory();
    assert!(db.tree_names().unwrap().is_empty());
    for name in ["second", "first", "third"] {
        let tree = db.create_tree(name).unwrap();
        assert_eq!(tree.name(), name);
        session(&db).statement().unwrap().insert(&tree, b"name", name.as_bytes()).unwrap();
    }
    assert_eq!(db.tree_names().unwrap(), ["first", "second", "third"]);
    db.close().unwrap();

    let db = reopened(&disk);
    assert_eq!(db.tree_names().unwrap(), ["first", "second", "third"]);
    for name in db.tree_names().unwrap() {
        let mut found = Vec::new();
        session(&db).statement().unwrap().get(&db.tree(&name).unwrap(), b"name", &mut found).unwrap();
        assert_eq!(found, name.as_bytes());
    }
}

#[test]
fn wrong_uses_of_trees_are_errors() {
    let (_, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    assert!(matches!(db.create_tree("t"), Err(Error::TreeExists { name }) if name == "t"));
    assert!(matches!(db.tree("u"), Err(Error::UnknownTree { name }) if name == "u"));
    assert!(matches!(db.drop_tree("u"), Err(Error::UnknownTree { name }) if name == "u"));
    assert!(matches!(db.create_tree(""), Err(Error::BadName { .. })));
    assert!(matches!(db.tree(&"x".repeat(1000)), Err(Error::BadName { .. })));
    assert!(matches!(db.set_property("", "x"), Err(Error::BadName { .. })));
    let (_, other) = in_memory();
    let foreign = session(&other).statement().unwrap().insert(&tree, b"k", b"v").map(drop);
    assert!(matches!(foreign, Err(Error::ForeignTree { .. })));
}

#[test]
fn a_tree_is_dropped_when_nobody_has_it() {
    let (disk, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    let same = db.tree("t").unwrap();
    db.bulk_load(&tree, rows(5000), |_| {}).unwrap();
    drop(tree);
    assert!(matches!(db.drop_tree("t"), Err(Error::TreeInUse { .. })));
    verify(&db, &same, 5000).unwrap();
    drop(same);
    db.drop_tree("t").unwrap();
    assert!(matches!(db.tree("t"), Err(Error::UnknownTree { .. })));
    // Its pages are used again: the same load does not need more of them.
    db.checkpoint().unwrap();
    let bytes = db.stats().data_bytes;
    for _ in 0..3 {
        let tree = db.create_tree("t").unwrap();
        db.bulk_load(&tree, rows(5000), |_| {}).unwrap();
        drop(tree);
        db.drop_tree("t").unwrap();
    }
    assert_eq!(db.stats().data_bytes, bytes);
    db.close().unwrap();
    assert!(reopened(&disk).tree_names().unwrap().is_empty());
}

#[test]
fn properties_last() {
    let (disk, db) = in_memory();
    assert_eq!(db.property("rows").unwrap(), None);
    db.set_property("rows", "1000").unwrap();
    db.set_property("rows", "2000").unwrap();
    db.set_property("empty", "").unwrap();
    assert!(db.tree_names().unwrap().is_empty());
    db.close().unwrap();
    let db = reopened(&disk);
    assert_eq!(db.property("rows").unwrap().unwrap(), b"2000");
    assert_eq!(db.property("empty").unwrap().unwrap(), b"");
}

#[test]
fn a_bulk_load_reports_progress_and_lasts() {
    let (disk, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    let mut reported = vec![0];
    assert_eq!(db.bulk_load(&tree, rows(20_000), |rows| reported.push(rows)).unwrap(), 20_000);
    assert!(reported.is_sorted() && reported.len() > 2, "{reported:?}");
    verify(&db, &tree, 20_000).unwrap();
    assert_eq!(db.check_tree(&tree).unwrap().rows, 20_000);
    drop(tree);
    // Without a close: the drop of the last handle does the same.
    drop(db);
    let db = reopened(&disk);
    verify(&db, &db.tree("t").unwrap(), 20_000).unwrap();
}

#[test]
fn a_bulk_load_refuses_what_it_cannot_load() {
    let (_, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    let unsorted = [5, 6, 7, 7].map(|row| (key(row), value(row)));
    assert!(matches!(db.bulk_load(&tree, unsorted, |_| {}), Err(Error::Unsorted { row: 3 })));
    let other = db.create_tree("u").unwrap();
    let descending = [6, 5].map(|row| (key(row), value(row)));
    assert!(matches!(db.bulk_load(&other, descending, |_| {}), Err(Error::Unsorted { row: 1 })));
    let full = db.create_tree("v").unwrap();
    db.bulk_load(&full, rows(10), |_| {}).unwrap();
    assert!(matches!(db.bulk_load(&full, rows(10), |_| {}), Err(Error::TreeNotEmpty)));
    verify(&db, &full, 10).unwrap();
    db.checkpoint().unwrap();
}

#[test]
fn a_key_too_large_is_refused_and_the_largest_is_not() {
    let (_, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    let session = session(&db);
    let statement = session.statement().unwrap();
    let max = match statement.insert(&tree, &[1; 5000], &[1; 5000]) {
        Err(Error::KeyTooLarge { size: 5000, max }) => max,
        other => panic!("{other:?}"),
    };
    assert!(statement.insert(&tree, &vec![1; max], &[1; 5000]).unwrap());
    let key = vec![1; max + 1];
    assert!(matches!(statement.update(&tree, &key, &[1; 100]), Err(Error::KeyTooLarge { .. })));
    assert!(matches!(statement.upsert(&tree, &key, &[1; 100]), Err(Error::KeyTooLarge { .. })));
    assert!(statement.upsert(&tree, &key, &[1; 55]).unwrap());
    let other = db.create_tree("u").unwrap();
    let too_large = [(key, vec![1; 100])];
    assert!(matches!(db.bulk_load(&other, too_large, |_| {}), Err(Error::KeyTooLarge { .. })));
    // A property may be large.
    db.set_property("p", vec![1; 50_000]).unwrap();
    assert_eq!(db.property("p").unwrap(), Some(vec![1; 50_000]));
}

#[test]
fn a_closed_database_is_closed_for_every_handle() {
    let (disk, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    let session = session(&db);
    let clone = db.clone();
    db.close().unwrap();
    db.close().unwrap();
    assert!(matches!(session.statement().unwrap().get(&tree, b"k", &mut Vec::new()), Err(Error::Closed)));
    assert!(matches!(session.statement().unwrap().insert(&tree, b"k", b"v"), Err(Error::Closed)));
    let scan = session
        .statement()
        .unwrap()
        .scan(&tree, Bound::Unbounded, Bound::Unbounded, |_, _| ControlFlow::Break(()));
    assert!(matches!(scan, Err(Error::Closed)));
    assert!(matches!(clone.checkpoint(), Err(Error::Closed)));
    assert!(matches!(clone.tree("t"), Err(Error::Closed)));
    assert!(matches!(clone.create_tree("u"), Err(Error::Closed)));
    assert!(matches!(clone.drop_tree("t"), Err(Error::TreeInUse { .. } | Error::Closed)));
    assert!(matches!(clone.tree_names(), Err(Error::Closed)));
    assert!(matches!(clone.property("p"), Err(Error::Closed)));
    assert!(matches!(clone.set_property("p", ""), Err(Error::Closed)));
    assert!(matches!(clone.bulk_load(&tree, rows(1), |_| {}), Err(Error::Closed)));
    assert!(matches!(clone.check_tree(&tree), Err(Error::Closed)));
    // With all those handles still there, the files are free.
    assert_eq!(reopened(&disk).tree_names().unwrap(), ["t"]);
}

#[test]
fn closes_at_the_same_time_all_succeed() {
    for _ in 0..20 {
        let (disk, db) = in_memory();
        db.create_tree("t").unwrap();
        disk.set_latency(Duration::ZERO, Duration::from_micros(200));
        let at_once = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    at_once.wait();
                    db.close().unwrap();
                });
            }
        });
        assert_eq!(reopened(&disk).tree_names().unwrap(), ["t"]);
    }
}

#[test]
fn absurd_options_are_named() {
    let absurd = [
        (EngineConfig { buffer_pool_bytes: 0, ..config() }, "buffer_pool_bytes"),
        (EngineConfig { buffer_pool_bytes: u64::MAX, ..config() }, "buffer_pool_bytes"),
        (EngineConfig { buffer_pool_instances: 0, ..config() }, "buffer_pool_instances"),
        (EngineConfig { buffer_pool_instances: 65, ..config() }, "buffer_pool_instances"),
        (EngineConfig { data_files: 0, ..config() }, "data_files"),
        (EngineConfig { data_files: 1000, ..config() }, "data_files"),
        (EngineConfig { sort_buffer_bytes: 0, ..config() }, "sort_buffer_bytes"),
        (EngineConfig { page_size: 5000, ..config() }, "page_size"),
        (EngineConfig { page_size: 65536, ..config() }, "page_size"),
    ];
    for (config, name) in absurd {
        for outcome in [
            Database::create_on(Arc::new(MemoryDisk::default()), config.clone()).err(),
            Database::open_on(Arc::new(MemoryDisk::default()), config.clone()).err(),
            Database::create("/nowhere/near", config.clone()).err(),
            Database::open("/nowhere/near", config.clone()).err(),
        ] {
            let error = outcome.expect("an absurd option was taken");
            assert!(matches!(error, Error::BadOption { option, .. } if option == name), "{error}");
            assert!(error.to_string().starts_with(name), "{error}");
        }
    }
}

/// The smallest and the largest of everything that is quick to make.
#[test]
fn the_limits_of_the_options_work() {
    for page_size in EngineConfig::PAGE_SIZES {
        for (instances, files) in [(1, 1), (64, 64)] {
            let config = EngineConfig {
                buffer_pool_bytes: 64 << 20,
                buffer_pool_instances: instances,
                data_files: files,
                page_size,
                ..config()
            };
            let disk = MemoryDisk::default();
            let db = Database::create_on(Arc::new(disk.clone()), config).unwrap();
            let tree = db.create_tree("t").unwrap();
            db.bulk_load(&tree, rows(3000), |_| {}).unwrap();
            db.close().unwrap();
            // Opened with a page size and a number of files that are not its own.
            let db = reopened(&disk);
            assert_eq!((db.stats().page_size, db.stats().data_files), (page_size, files));
            verify(&db, &db.tree("t").unwrap(), 3000).unwrap();
        }
    }
}

#[test]
fn a_miss_is_a_wait_and_a_hit_is_not() {
    let (disk, db) = in_memory();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(1000), |_| {}).unwrap();
    drop(tree);
    db.close().unwrap();
    let db = reopened(&disk);
    let tree = db.tree("t").unwrap();
    let session = session(&db);
    let before = db.stats();
    session.statement().unwrap().get(&tree, &key(500), &mut Vec::new()).unwrap();
    let missed = db.stats();
    assert!(missed.waits.since(&before.waits).count(WaitReason::DiskRead) > 0);
    assert!(missed.pool.reads > before.pool.reads);
    for _ in 0..100 {
        session.statement().unwrap().get(&tree, &key(500), &mut Vec::new()).unwrap();
    }
    let hit = db.stats();
    assert_eq!(hit.waits.since(&missed.waits).count(WaitReason::DiskRead), 0);
    assert_eq!(hit.pool.reads, missed.pool.reads);
}

/// Changes on many threads, checkpoints and power cuts beside them: what is left can be opened, and is whole.
#[test]
fn checkpoints_beside_changes_are_whole() {
    let disk = MemoryDisk::with_power_cuts(3);
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    let admission = admission();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let session = db.session(&admission);
                let tree = tree.clone();
                scope.spawn(move || {
                    for row in 0..1500 {
                        let row = row * 4 + writer;
                        session.statement().unwrap().insert(&tree, &key(row), &value(row)).unwrap();
                    }
                })
            })
            .collect();
        let (db, disk, done) = (&db, &disk, &done);
        scope.spawn(move || {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                db.checkpoint().unwrap();
                let found = disk.power_cut();
                let found = Database::open_on(Arc::new(found), config()).unwrap();
                found.check_tree(&found.tree("t").unwrap()).unwrap();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    verify(&db, &tree, 6000).unwrap();
    db.close().unwrap();
}
