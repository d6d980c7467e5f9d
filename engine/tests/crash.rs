//! Processes killed at any moment (kill -9), on real files.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{config, key, rows, session, value, verify};
use flifo_engine::{Database, EngineConfig, Error, FlushLog};

const ROWS: u64 = 5000;
const LOADED: u64 = 20_000;

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
fn a_load_that_was_killed_is_recovered() {
    let dir = tempfile::tempdir().unwrap();
    kill(child_until_now("loads", dir.path()));
    assert!(matches!(Database::create(dir.path(), config()).err().unwrap(), Error::DatabaseExists { .. }));
    let mut told = 0;
    let progress = &mut |progress: flifo_engine::RecoveryProgress| told = progress.replayed_bytes;
    let db = Database::open_with_progress(dir.path(), config(), progress).unwrap();
    assert!(told > 0);
    let tree = db.tree("t").unwrap();
    let rows = db.check_tree(&tree).unwrap().rows;
    assert!(rows >= LOADED, "{rows}");
    verify(&db, &tree, rows).unwrap();
}

#[test]
#[ignore = "the child of a_load_that_was_killed_is_recovered"]
fn loads() {
    let written = EngineConfig { flush_log_at_trx_commit: FlushLog::Write, ..config() };
    let db = Database::create(dir_of_child(), written).unwrap();
    let tree = db.create_tree("t").unwrap();
    let session = session(&db);
    let mut row = 0;
    let mut insert = || {
        session.statement().unwrap().insert(&tree, &key(row), &value(row)).unwrap();
        row += 1;
    };
    // More than the pool holds, so pages have been written.
    (0..LOADED).for_each(|_| insert());
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
fn a_change_that_returned_survives_the_kill() {
    let dir = tempfile::tempdir().unwrap();
    kill(child_until_now("changes_one_row", dir.path()));
    let db = Database::open(dir.path(), config()).unwrap();
    verify(&db, &db.tree("t").unwrap(), ROWS + 1).unwrap();
}

#[test]
#[ignore = "the child of a_change_that_returned_survives_the_kill"]
fn changes_one_row() {
    let db = Database::create(dir_of_child(), config()).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, rows(ROWS), |_| {}).unwrap();
    db.checkpoint().unwrap();
    session(&db).statement().unwrap().insert(&tree, &key(ROWS), &value(ROWS)).unwrap();
    now_and_until_killed(std::thread::yield_now);
}
