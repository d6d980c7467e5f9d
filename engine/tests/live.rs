//! Counters that an open database publishes for other processes.

mod common;

use std::io;
use std::time::{Duration, Instant, SystemTime};

use common::{admission, config, key};
use flifo_engine::{Database, EngineConfig, Isolation, LiveStats};

const PATIENCE: Duration = Duration::from_secs(60);

fn publishing() -> EngineConfig {
    EngineConfig { publish_stats: true, ..config() }
}

/// Reads until `is_it`; panics after a minute.
fn read_until(dir: &std::path::Path, is_it: impl Fn(&LiveStats) -> bool) -> LiveStats {
    let begun = Instant::now();
    loop {
        match LiveStats::read(dir) {
            Ok(live) if is_it(&live) => return live,
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(live: &LiveStats, name: &str) -> u64 {
    live.counters.iter().find(|(of, _)| of == name).unwrap_or_else(|| panic!("{name}: {live:?}")).1
}

#[test]
fn counters_are_published_until_the_close() {
    let temp = tempfile::tempdir().unwrap();
    let db = Database::create(temp.path(), publishing()).unwrap();
    let first = read_until(temp.path(), |_| true);
    assert_eq!(first.pid, std::process::id());
    assert!(!first.is_stale(SystemTime::now()));

    let table = db.create_table("t").unwrap();
    let session = db.session(&admission());
    for row in 0..10 {
        let mut txn = session.begin(Isolation::RepeatableRead);
        assert!(txn.insert(&table, &key(row), &[1; 50]).unwrap());
        txn.commit().unwrap();
    }
    let before = count(&first, "trx_rw_commits");
    let later = read_until(temp.path(), |live| count(live, "trx_rw_commits") >= before + 10);
    assert!(later.uptime > first.uptime);
    assert!(count(&later, "os_log_bytes_written") > 0);
    // All that a program in the same process sees.
    let own: Vec<String> = db.stats().counters().into_iter().map(|(name, _)| name).collect();
    let published: Vec<String> = later.counters.into_iter().map(|(name, _)| name).collect();
    assert_eq!(own, published);

    drop(session);
    db.close().unwrap();
    assert_eq!(LiveStats::read(temp.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn nothing_is_published_unless_it_was_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    let db = Database::create(temp.path(), config()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(LiveStats::read(temp.path()).unwrap_err().kind(), io::ErrorKind::NotFound);
    db.close().unwrap();
}

#[test]
fn what_a_killed_process_left_is_stale_and_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let (open, killed) = (temp.path().join("open"), temp.path().join("killed"));
    let db = Database::create(&open, publishing()).unwrap();
    let left = read_until(&open, |_| true);
    std::fs::create_dir(&killed).unwrap();
    for entry in std::fs::read_dir(&open).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), killed.join(entry.file_name())).unwrap();
    }
    db.close().unwrap();
    let found = LiveStats::read(&killed).unwrap();
    assert!(found.uptime >= left.uptime);
    assert!(found.is_stale(found.written + Duration::from_secs(60)));
    let db = Database::open(&killed, publishing()).unwrap();
    read_until(&killed, |live| live.written > found.written);
    db.close().unwrap();
    assert_eq!(LiveStats::read(&killed).unwrap_err().kind(), io::ErrorKind::NotFound);
}
