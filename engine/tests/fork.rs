//! A child of fork(2) that has its parent's database: every operation is refused there, none hangs, and what the child drops is
//! the parent's as before. A program without a harness, so that the thread that forks is its first one.

mod common;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{config, key, rows, verify};
use flifo_admission::{Admission, Config};
use flifo_engine::row::{Column, ColumnType, Schema};
use flifo_engine::{Database, Error, Isolation, Result, Session, Table};

const ROWS: u64 = 1000;
/// A child that has not ended after this hangs.
const CHILD_MAX: Duration = Duration::from_secs(120);

/// Runs `f` in a forked child, which ends without running anything else of this program. Fails if it panics or hangs.
fn in_child(what: &str, f: impl FnOnce()) {
    // SAFETY: the child calls what a child of a program with threads may not call in general, such as the allocator. The
    // system's allocator can be used after a fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "cannot fork: {}", std::io::Error::last_os_error());
    if child == 0 {
        let ended = catch_unwind(AssertUnwindSafe(f));
        // SAFETY: ends this process.
        unsafe { libc::_exit(if ended.is_ok() { 0 } else { 1 }) };
    }
    let (begun, mut status) = (Instant::now(), 0);
    // SAFETY: a child of this process, and a place for its status.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed() > CHILD_MAX {
            // SAFETY: as above; it is not waited for yet, so the number is still its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("{what}: the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, 0, "{what}: the child has failed");
}

fn is_forked<T>(what: &str, result: Result<T>) {
    match result {
        Err(Error::Forked) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what}: it was not refused"),
    }
}

fn new_session(db: &Database) -> Session {
    db.session(&Admission::new(Config::default()).unwrap())
}

fn insert(session: &Session, table: &Table, row: u64) -> Result<()> {
    let mut txn = session.begin(Isolation::ReadCommitted);
    txn.insert(table, &key(row), b"value")?;
    txn.commit()
}

/// Everything that a handle can do is refused, and dropping it is without effect.
fn operations(db: Database) {
    let (tree, table) = (db.tree("t").unwrap(), db.table("table").unwrap());
    let id = Column::new("id", ColumnType::U64);
    let schema = Schema::builder().column(id).primary_key(["id"]).build().unwrap();
    let typed = db.create_typed_table("typed", schema).unwrap();
    db.bulk_load_rows(&typed, (0..500_u64).map(|id| (id,)), |_| {}).unwrap();
    let session = new_session(&db);
    let mut reader = session.begin(Isolation::RepeatableRead);
    let mut iterator = typed.iter(&mut reader, ..).unwrap();
    iterator.next().unwrap().unwrap();
    let mut writer = session.begin(Isolation::ReadCommitted);
    writer.insert(&table, &key(1), b"of the parent").unwrap();
    let mut dropped = session.begin(Isolation::ReadCommitted);
    dropped.insert(&table, &key(2), b"of the parent").unwrap();
    let statement = session.statement().unwrap();

    in_child("operations", || {
        let mut value = Vec::new();
        is_forked("get of a tree", statement.get(&tree, &key(1), &mut value));
        is_forked("insert into a tree", statement.insert(&tree, &key(ROWS), b"value"));
        is_forked("statement", session.statement());
        is_forked("get", reader.get(&table, &key(1), &mut value));
        is_forked("update", writer.update(&table, &key(1), b"value"));
        is_forked("rollback to the beginning", writer.rollback_to(Default::default()));
        is_forked("commit", writer.commit());
        is_forked("rollback", reader.rollback());
        is_forked("prepare", session.begin(Isolation::ReadCommitted).prepare(b"xid"));
        is_forked("commit by XID", session.commit_prepared(b"xid"));
        is_forked("a new transaction", insert(&session, &table, 3));
        is_forked("a new session", insert(&new_session(&db), &table, 3));
        is_forked("the iterator", iterator.by_ref().find(Result::is_err).expect("an error"));
        is_forked("a new tree", db.create_tree("new"));
        is_forked("a new table", db.create_table("new"));
        is_forked("a tree", db.tree("t"));
        is_forked("its end", db.drop_tree("t"));
        is_forked("the table's end", db.drop_table("table"));
        is_forked("names", db.tree_names());
        is_forked("a property", db.property("note"));
        is_forked("a new property", db.set_property("note", "value"));
        is_forked("a check", db.check(&mut |_| {}));
        is_forked("a check of a tree", db.check_tree(&tree));
        is_forked("lost pages", db.lost_pages());
        is_forked("prepared transactions", db.prepared());
        is_forked("a bulk load", db.bulk_load(&tree, rows(1), |_| {}));
        is_forked("a checkpoint", db.checkpoint());
        is_forked("close", db.close());
        assert_eq!(db.stats().locks.locks, 0);
        drop((dropped, statement, iterator));
        // SAFETY: the child's copies, which nobody uses or drops afterwards.
        drop(unsafe {
            (std::ptr::read(&tree), std::ptr::read(&typed), std::ptr::read(&session), std::ptr::read(&db))
        });
    });
}

/// The same handles go on in the parent, and its locks of files are held.
fn parent_goes_on(dir: &Path) {
    let db = Database::open(dir, config()).unwrap();
    let table = db.table("table").unwrap();
    let session = new_session(&db);
    let mut writer = session.begin(Isolation::ReadCommitted);
    writer.insert(&table, &key(10), b"of the parent").unwrap();
    // A borrow, of which the child drops copies.
    let copies = |db: &Database| drop((db.clone(), new_session(db)));
    in_child("drops", || {
        copies(&db);
        // SAFETY: the child's copies, which nobody uses or drops afterwards.
        drop(unsafe { (std::ptr::read(&session), std::ptr::read(&db)) });
    });
    assert!(matches!(Database::open(dir, config()), Err(Error::InUse { .. })), "the parent's lock is gone");
    writer.commit().unwrap();
    insert(&session, &table, 11).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
    drop((table, session));
    db.close().unwrap();
}

/// Locks that other threads hold at the moment of the fork stay locked in the child.
fn while_others_commit(dir: &Path) {
    let db = Database::open(dir, config()).unwrap();
    let table = db.table("table").unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let committers: Vec<_> = (0..4)
        .map(|thread| {
            let (db, table, done) = (db.clone(), table.clone(), Arc::clone(&done));
            thread::spawn(move || {
                let session = new_session(&db);
                let rows = (100 + thread..).step_by(4);
                rows.take_while(|_| !done.load(Ordering::Relaxed))
                    .map(|row| insert(&session, &table, row).unwrap())
                    .count()
            })
        })
        .collect();
    let session = new_session(&db);
    for _ in 0..20 {
        let mut txn = session.begin(Isolation::ReadCommitted);
        txn.upsert(&table, &key(12), b"of the parent").unwrap();
        in_child("beside commits", || {
            // SAFETY: the child's copies, which nobody uses or drops afterwards.
            let (txn, table, session, db) = unsafe {
                (std::ptr::read(&txn), std::ptr::read(&table), std::ptr::read(&session), std::ptr::read(&db))
            };
            is_forked("commit", txn.commit());
            is_forked("close", db.close());
            drop((table, session, db));
        });
        txn.commit().unwrap();
    }
    done.store(true, Ordering::Relaxed);
    let committed: usize = committers.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(committed > 0);
    drop((table, session));
    db.close().unwrap();
}

/// A scan whose callback forks ends in the child.
fn in_a_callback(dir: &Path) {
    let db = Database::open(dir, config()).unwrap();
    let tree = db.tree("t").unwrap();
    let session = new_session(&db);
    let (mut seen, mut child) = (0, -1);
    let unbounded = std::ops::Bound::Unbounded;
    let scanned = session.statement().unwrap().scan(&tree, unbounded, unbounded, |_, _| {
        seen += 1;
        if seen == 10 {
            // SAFETY: as in `in_child`.
            child = unsafe { libc::fork() };
        }
        ControlFlow::Continue(())
    });
    if child == 0 {
        let is_refused = matches!(scanned, Err(Error::Forked)) && seen == 10;
        drop((tree, session, db));
        // SAFETY: ends this process.
        unsafe { libc::_exit(if is_refused { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    scanned.unwrap();
    assert_eq!(seen, ROWS);
    db.close().unwrap();
}

/// A child may have databases of its own, and is then somebody's parent.
fn a_child_with_a_database_of_its_own(dir: &Path, new: &Path) {
    let db = Database::open(dir, config()).unwrap();
    in_child("a database of its own", || {
        let own = Database::create(new, config()).unwrap();
        let table = own.create_table("table").unwrap();
        let session = new_session(&own);
        insert(&session, &table, 1).unwrap();
        is_forked("the parent's", db.tree_names());
        in_child("a grandchild", || {
            is_forked("the child's", insert(&session, &table, 2));
            is_forked("the parent's", db.tree_names());
            is_forked("close", own.close());
        });
        insert(&session, &table, 2).unwrap();
        drop((table, session));
        own.close().unwrap();
    });
    db.close().unwrap();
    let own = Database::open(new, config()).unwrap();
    assert_eq!(own.check_table(&own.table("table").unwrap()).unwrap().rows, 2);
}

fn main() {
    // Without a harness there are no names to filter by, and nothing to list.
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let (dir, new) = (temp.path().join("db"), temp.path().join("new"));
    let db = Database::create(&dir, config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    db.create_table("table").unwrap();
    drop(tree);
    operations(db);
    parent_goes_on(&dir);
    while_others_commit(&dir);
    in_a_callback(&dir);
    a_child_with_a_database_of_its_own(&dir, &new);
    assert!(Database::check_in(&dir, config(), &mut |_| {}).unwrap().is_sound());
    println!("fork: ok");
}
