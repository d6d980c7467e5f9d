//! Flushing under a redo log that is too small and an `io_capacity_max` that is too low: what each mode does to writers.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{admission, config, key};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, EngineStats, Error, FlushLog, FlushMode, Isolation, WaitReason};

const ROWS: u64 = 20_000;
const IO_CAPACITY_MAX: u32 = 150;

/// Eight instances, all data in memory, a log of 4 MiB.
fn throttled(flush_mode: FlushMode) -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 16 << 20,
        buffer_pool_instances: 8,
        io_capacity: 100,
        io_capacity_max: IO_CAPACITY_MAX,
        flush_mode,
        flush_log_at_trx_commit: FlushLog::EverySecond,
        ..config()
    }
}

/// Updates rows everywhere until the log has grown by this share of its capacity; what was counted, and the time.
fn write(flush_mode: FlushMode, capacities: f64) -> (EngineStats, Duration) {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), throttled(flush_mode)).unwrap();
    let tree = db.create_tree("t").unwrap();
    db.bulk_load(&tree, common::rows(ROWS), |_| {}).unwrap();
    let (begun, before, next) = (Instant::now(), db.stats(), AtomicU64::new(0));
    let end = before.redo.next_lsn + (capacities * before.redo.capacity_bytes as f64) as u64;
    let admission = admission();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let session = db.session(&admission);
                while db.stats().redo.next_lsn < end {
                    for _ in 0..20 {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let row = number * 7919 % ROWS;
                        let value = [number as u8; 100];
                        assert!(session.statement().unwrap().update(&tree, &key(row), &value).unwrap());
                    }
                }
            });
        }
    });
    let (stats, took) = (db.stats(), begun.elapsed());
    db.check_tree(&tree).unwrap();
    db.close().unwrap();
    (stats, took)
}

#[test]
fn adaptive_flushing_slows_writers_down_and_stops_none() {
    let (stats, took) = write(FlushMode::Adaptive, 1.2);
    let flush = stats.flush;
    assert_eq!((stats.redo.hard_stops, flush.sync_waits, flush.sync_pages), (0, 0, 0));
    assert_eq!(stats.waits.count(WaitReason::SyncFlush), 0);
    assert!(stats.waits.count(WaitReason::RedoTokens) > 0, "{flush:?}");
    assert!(stats.checkpoint_age_bytes() < stats.redo.capacity_bytes * 95 / 100);
    // With a burst, and a batch of each cleaner.
    let most = f64::from(IO_CAPACITY_MAX) * took.as_secs_f64() + 32.0 * 5.0;
    assert!(flush.adaptive_pages > 0 && flush.adaptive_pages as f64 <= most, "{most} {flush:?}");
}

#[test]
fn sequential_flushing_has_all_writers_wait_for_sync_flushes() {
    let (stats, _) = write(FlushMode::Sequential, 1.2);
    let flush = stats.flush;
    assert!(flush.sync_waits > 0 && flush.sync_pages > 0, "{flush:?}");
    assert_eq!(stats.waits.count(WaitReason::SyncFlush), flush.sync_waits);
    assert_eq!(stats.waits.count(WaitReason::RedoTokens), 0);
    let named = |name| stats.innodb_metrics().find(|&(of, _)| of == name).unwrap().1;
    assert_eq!(named("buffer_flush_sync_waits"), flush.sync_waits);
    assert_eq!(named("buffer_flush_sync_total_pages"), flush.sync_pages);
}

/// Its statements hold row locks, so they are slowed down late, but they are.
#[test]
fn a_transaction_larger_than_the_log_does_not_fill_it() {
    let config = EngineConfig { io_capacity_max: 1000, ..throttled(FlushMode::Adaptive) };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_table("t").unwrap();
    let session = db.session(&admission());
    let mut txn = session.begin(Isolation::ReadCommitted);
    let mut row = 0;
    while db.stats().redo.next_lsn < db.stats().redo.capacity_bytes * 5 / 4 {
        for _ in 0..20 {
            assert!(txn.upsert(&table, &key(row * 7919 % ROWS), &[1; 100]).is_ok());
            row += 1;
        }
    }
    txn.commit().unwrap();
    let stats = db.stats();
    assert_eq!(stats.redo.hard_stops, 0, "{:?}", stats.flush);
    drop((session, table));
    db.close().unwrap();
}

/// While nothing is changed, all pages are written in time.
#[test]
fn an_idle_database_becomes_clean() {
    let config = EngineConfig { io_capacity: 2000, io_capacity_max: 2000, ..throttled(FlushMode::Adaptive) };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let tree = db.create_tree("t").unwrap();
    let session = db.session(&admission());
    for row in 0..2000 {
        session.statement().unwrap().upsert(&tree, &key(row), &[1; 100]).unwrap();
    }
    assert!(db.stats().pool.dirty_pages > 0);
    let begun = Instant::now();
    while db.stats().pool.dirty_pages > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", db.stats().flush);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(db.stats().flush.background_pages > 0);
}

#[test]
fn bad_settings_are_refused_with_the_values_that_are_allowed() {
    let check = |config: EngineConfig| match config.check() {
        Err(error @ Error::BadOption { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let low = check(EngineConfig { io_capacity: 99, ..config() });
    assert_eq!(low, "io_capacity = 99 is not allowed; use 100 to 1073741824");
    let below = check(EngineConfig { io_capacity: 2000, io_capacity_max: 1999, ..config() });
    assert_eq!(below, "io_capacity_max = 1999 is not allowed; use 2000 to 1073741824");
    assert_eq!("sequential".parse(), Ok(FlushMode::Sequential));
    let unknown = "fuzzy".parse::<FlushMode>().unwrap_err();
    assert_eq!(unknown, "flush_mode = fuzzy is not allowed; use adaptive or sequential");
    assert!(FlushMode::ALL.into_iter().all(|mode| mode.to_string().parse() == Ok(mode)));
}
