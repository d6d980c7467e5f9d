//! Processes killed at any moment (kill -9), on real files.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{config, key, rows, session, value, verify};
use flifo_engine::{Database, Error};

const ROWS: u64 = 5000;

/// Runs the test `name` of this file in a process of its own, and waits until it says "now".
fn child_until_now(name: &str, dir: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture"])
        .env("FLIFO_TEST_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The test harness may have printed the test's name on the same line.
    let said_now = lines.map_while(|line| line.ok()).any(|line| line.ends_with("now"));
    assert!(said_now, "the child ended: {:?}", child.wait());
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
}

fn dir_of_child() -> PathBuf {
    PathBuf::from(std::env::var_os("FLIFO_TEST_DIR").unwrap())
}

/// Says "now", and goes on doing `more` until it is killed.
fn now_and_until_killed(mut more: impl FnMut()) -> ! {
    println!("now");
    loop {
        more();
    }
}

#[test]
fn a_load_that_was_killed_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    kill(child_until_now("loads", dir.path()));
    let error = Database::open(dir.path(), config()).err().unwrap();
    assert!(matches!(error, Error::NotClosedCleanly { .. }), "{error}");
    assert!(matches!(Database::create(dir.path(), config()).err().unwrap(), Error::DatabaseExists { .. }));
}

#[test]
#[ignore = "the child of a_load_that_was_killed_is_refused"]
fn loads() {
    let db = Database::create(dir_of_child(), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    let session = session(&db);
    let mut row = 0;
    let mut insert = || {
        session.statement().unwrap().insert(&tree, &key(row), &value(row)).unwrap();
        row += 1;
    };
    // More than the pool holds, so pages have been written.
    (0..20_000).for_each(|_| insert());
    now_and_until_killed(insert);
}

#[test]
fn a_database_that_was_closed_survives_the_kill() {
    let dir = tempfile::tempdir().unwrap();
    kill(child_until_now("closes", dir.path()));
    let db = Database::open(dir.path(), config()).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
}

#[test]
#[ignore = "the child of a_database_that_was_closed_survives_the_kill"]
fn closes() {
    let db = Database::create(dir_of_child(), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    db.close().unwrap();
    now_and_until_killed(std::thread::yield_now);
}

#[test]
fn reading_leaves_it_clean_even_when_killed() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::create(dir.path(), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    drop(tree);
    db.close().unwrap();
    let child = child_until_now("reads", dir.path());
    assert!(matches!(Database::open(dir.path(), config()), Err(Error::InUse { .. })));
    kill(child);
    let db = Database::open(dir.path(), config()).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS).unwrap();
}

#[test]
#[ignore = "the child of reading_leaves_it_clean_even_when_killed"]
fn reads() {
    let db = Database::open(dir_of_child(), config()).unwrap();
    let tree = db.tree("t").unwrap();
    verify(&db, &tree, ROWS).unwrap();
    now_and_until_killed(|| verify(&db, &tree, ROWS).unwrap());
}

#[test]
fn changes_after_a_checkpoint_that_never_left_memory_are_as_if_never_made() {
    let dir = tempfile::tempdir().unwrap();
    kill(child_until_now("changes_in_memory", dir.path()));
    match Database::open(dir.path(), config()) {
        Ok(db) => verify(&db, &db.tree("t").unwrap(), ROWS).unwrap(),
        // A cleaner may write a page at any time.
        Err(error) => assert!(matches!(error, Error::NotClosedCleanly { .. }), "{error}"),
    }
}

#[test]
#[ignore = "the child of changes_after_a_checkpoint_that_never_left_memory_are_as_if_never_made"]
fn changes_in_memory() {
    let db = Database::create(dir_of_child(), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    db.checkpoint().unwrap();
    session(&db).statement().unwrap().insert(&tree, &key(ROWS), &value(ROWS)).unwrap();
    now_and_until_killed(std::thread::yield_now);
}
