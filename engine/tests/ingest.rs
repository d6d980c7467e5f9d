//! Writers that never pause: the redo log at its limit, no free frame in the buffer pool, purge behind them.
//!
//! `FLIFO_INGEST_SECONDS=600 cargo test --release -p flifo-engine --test ingest` ingests for ten minutes.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{config, key, value};
use flifo_admission::{Admission, Config};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, EngineStats, FlushLog, Isolation, Result, Table, WaitReason};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

use Isolation::ReadCommitted;

const LOOK: Duration = Duration::from_millis(20);
/// Looks without a commit in between after which the database hangs. Counted in looks, so that a machine that stands still for
/// a while does not fail the test.
const LOOKS_MAX: u32 = 3000;

/// Ends the writers, also when an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks at the database again and again until `is_over`, and panics if nothing is committed any more.
fn watch(db: &Database, commits: &AtomicU64, mut is_over: impl FnMut(&EngineStats) -> bool) {
    let (mut before, mut looks) = (0, 0);
    loop {
        let now = commits.load(Ordering::Relaxed);
        looks = if now == before { looks + 1 } else { 0 };
        before = now;
        let stats = db.stats();
        assert!(
            looks < LOOKS_MAX,
            "it hangs after {now} commits: {} of {} frames free, {} dirty, redo {} to {} of {}",
            stats.pool.free_frames,
            stats.pool.frames,
            stats.pool.dirty_pages,
            stats.redo.checkpoint_lsn,
            stats.redo.next_lsn,
            stats.redo.capacity_bytes,
        );
        if is_over(&stats) {
            return;
        }
        thread::sleep(LOOK);
    }
}

/// The share of the redo log's capacity that recovery would read.
fn redo_age(stats: &EngineStats) -> f64 {
    (stats.redo.next_lsn - stats.redo.checkpoint_lsn) as f64 / stats.redo.capacity_bytes as f64
}

/// Half of the writers change few rows, whose pages stay in memory, and fill the log; the others change rows everywhere, and each
/// needs a frame. The disk is slow, so that page cleaners are behind.
#[test]
fn a_full_redo_log_and_a_pool_without_a_free_frame_at_once() {
    const ROWS: u64 = 40_000;
    let config = EngineConfig {
        buffer_pool_bytes: 256 << 10,
        buffer_pool_instances: 1,
        flush_log_at_trx_commit: FlushLog::EverySecond,
        ..config()
    };
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config).unwrap();
    let table = db.create_table("t").unwrap();
    db.bulk_load_table(&table, common::rows(ROWS), |_| {}).unwrap();
    let admission = Admission::new(Config { thread_concurrency: 4, ..Config::default() }).unwrap();
    disk.set_latency(Duration::ZERO, Duration::from_millis(2));
    let (commits, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut times_at_once = 0;
    thread::scope(|scope| {
        let _ends = Ends(&over);
        for thread in 0..16 {
            let (db, table, admission, commits, over) = (&db, &table, &admission, &commits, &over);
            scope.spawn(move || {
                let session = db.session(admission);
                let mut random = SplitMix64::seed_from_u64(thread);
                while !over.load(Ordering::Relaxed) {
                    let row = if thread < 8 { thread } else { random.next_u64() % ROWS };
                    let mut txn = session.begin(ReadCommitted);
                    // Others may have locked it: not a matter of this test.
                    let change =
                        txn.upsert(table, &key(row), &[thread as u8; 900]).and_then(|_| txn.commit());
                    commits.fetch_add(u64::from(change.is_ok()), Ordering::Relaxed);
                }
            });
        }
        watch(&db, &commits, |stats| {
            let is_full = redo_age(stats) > 0.75 && stats.pool.free_frames <= 1;
            times_at_once += u32::from(is_full);
            times_at_once >= 20
        });
    });
    let waits = db.stats().waits;
    let waited = [WaitReason::FreeFrame, WaitReason::RedoSpace].map(|reason| waits.count(reason));
    assert!(waited.iter().all(|&count| count > 0), "the test is none: {waited:?}");
    disk.set_latency(Duration::ZERO, Duration::ZERO);
    db.check_table(&table).unwrap();
    db.close().unwrap();
    assert_eq!(admission.snapshot().running, 0);
}

/// A window of the newest rows: each transaction adds some and deletes as many of the oldest, for as long as the test lasts.
struct Ingest<'a> {
    table: &'a Table,
    thread: u64,
    next: u64,
}

impl Ingest<'_> {
    const WINDOW: u64 = 5000;
    const BATCH: u64 = 20;

    fn key(&self, row: u64) -> Vec<u8> {
        [key(row), key(self.thread)].concat()
    }

    fn step(&mut self, session: &flifo_engine::Session) -> Result<()> {
        let mut txn = session.begin(ReadCommitted);
        for row in self.next..self.next + Self::BATCH {
            assert!(txn.insert(self.table, &self.key(row), &value(row))?);
            if let Some(old) = row.checked_sub(Self::WINDOW) {
                assert!(txn.delete(self.table, &self.key(old))?);
            }
        }
        txn.commit()?;
        self.next += Self::BATCH;
        Ok(())
    }
}

#[test]
fn constant_ingest_goes_on_in_bounded_room() {
    let seconds =
        std::env::var("FLIFO_INGEST_SECONDS").map_or(10, |seconds| seconds.parse().expect("a number"));
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig {
        buffer_pool_bytes: 4 << 20,
        redo_capacity_bytes: 16 << 20,
        flush_log_at_trx_commit: FlushLog::Write,
        ..config()
    };
    let db = Database::create(dir.path(), config).unwrap();
    let table = db.create_table("t").unwrap();
    let admission = Admission::new(Config::default()).unwrap();
    let (commits, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut looks = Vec::new();
    let rows = thread::scope(|scope| {
        let ends = Ends(&over);
        let writers: Vec<_> = (0..8)
            .map(|thread| {
                let (db, table, admission, commits, over) = (&db, &table, &admission, &commits, &over);
                scope.spawn(move || {
                    let session = db.session(admission);
                    let mut ingest = Ingest { table, thread, next: 0 };
                    while !over.load(Ordering::Relaxed) {
                        ingest.step(&session).unwrap();
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                    ingest.next.min(Ingest::WINDOW)
                })
            })
            .collect();
        let end = Instant::now() + Duration::from_secs(seconds);
        watch(&db, &commits, |stats| {
            looks.push((stats.data_bytes, stats.txns.history));
            Instant::now() >= end
        });
        drop(ends);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum::<u64>()
    });
    let found = common::all(&mut db.session(&admission).begin(ReadCommitted), &table).len() as u64;
    assert_eq!(found, rows);
    let stats = db.stats();
    eprintln!(
        "{} commits; data {:?} MiB, history {:?} at four times; hard stops {}, held back {}",
        commits.into_inner(),
        quarters(&looks).map(|(bytes, _)| bytes >> 20),
        quarters(&looks).map(|(_, history)| history),
        stats.redo.hard_stops,
        stats.waits.count(WaitReason::RedoSpace),
    );
    assert_eq!(stats.redo.hard_stops, 0, "the back-pressure has failed");
    // What is deleted is purged, and its pages are used again.
    let [_, half, _, end] = quarters(&looks).map(|(bytes, _)| bytes);
    assert!(end <= 3 * half, "{half} bytes became {end}");
    db.check_table(&table).unwrap();
    db.close().unwrap();
}

fn quarters<T: Copy>(looks: &[T]) -> [T; 4] {
    [1, 2, 3, 4].map(|quarter| looks[(looks.len() * quarter / 4).saturating_sub(1)])
}
