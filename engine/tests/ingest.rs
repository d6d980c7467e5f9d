//! Writers that never pause: the redo log at its limit, no free frame in the buffer pool, purge behind them.
//!
//! `FLIFO_INGEST_SECONDS=600 cargo test --release -p flifo-engine --test ingest` ingests for ten minutes.

mod common;

use std::io;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{config, key, value};
use flifo_admission::{Admission, Config};
use flifo_engine::disk::{Disk, DiskFile, DiskLock, MemoryDisk, SharedWords};
use flifo_engine::{
    Database, EngineConfig, EngineStats, FlushLog, Isolation, Result, Session, Table, Tree, WaitReason,
};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng};

use Isolation::ReadCommitted;

const ROWS: u64 = 40_000;
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

/// A disk whose data files take no writes while it is stopped; the redo log goes on.
struct Stoppable {
    disk: MemoryDisk,
    gate: Arc<Gate>,
}

struct GatedFile {
    file: Box<dyn DiskFile>,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set_closed(&self, closed: bool) {
        *self.is_closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }

    fn pass(&self) {
        drop(self.opened.wait_while(self.is_closed.lock().unwrap(), |closed| *closed).unwrap());
    }
}

impl Stoppable {
    fn gated(&self, name: &str, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        match name.starts_with("data") {
            true => Box::new(GatedFile { file, gate: Arc::clone(&self.gate) }),
            false => file,
        }
    }
}

impl Disk for Stoppable {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.gated(name, self.disk.open(name)?))
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.gated(name, self.disk.create(name)?))
    }
    fn open_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open_cached(name)
    }
    fn create_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create_cached(name)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(name)
    }
    fn path(&self, name: &str) -> String {
        self.disk.path(name)
    }
    fn direct_io(&self) -> bool {
        self.disk.direct_io()
    }
}

impl DiskFile for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.gate.pass();
        self.file.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
    fn map(&self, offset: u64, words: usize) -> io::Result<SharedWords> {
        self.file.map(offset, words)
    }
}

/// What the writers change: a table that is larger than the pool, and a tree of few rows, which stays in memory.
struct Hard<'a> {
    db: &'a Database,
    table: &'a Table,
    hot: &'a Tree,
    admission: &'a Arc<Admission>,
    commits: &'a AtomicU64,
    over: &'a AtomicBool,
}

impl Hard<'_> {
    /// Every second writer changes one row of the tree again and again, which needs no frame and fills the log; the others change
    /// rows of the table everywhere, and need frames. One in four writes in the callback of another session's scan.
    fn write(&self, thread: u64) {
        let (session, reads) = (self.db.session(self.admission), self.db.session(self.admission));
        let mut random = SplitMix64::seed_from_u64(thread);
        while !self.over.load(Ordering::Relaxed) {
            if thread % 8 < 6 {
                self.change(&session, thread, &mut random);
                continue;
            }
            let each = |_: &[u8], _: &[u8]| {
                self.change(&session, thread, &mut random);
                if self.over.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let mut txn = reads.begin(ReadCommitted);
            txn.scan(self.table, Bound::Unbounded, Bound::Included(&key(20)), each).unwrap();
        }
    }

    fn change(&self, session: &Session, thread: u64, random: &mut SplitMix64) {
        let changed = match thread.is_multiple_of(2) {
            true => self.upsert_hot(session, thread),
            false => self.update_cold(session, random.next_u64() % ROWS),
        };
        // A row that another writer has locked for long is not a matter of this test.
        self.commits.fetch_add(u64::from(changed.is_ok()), Ordering::Relaxed);
    }

    fn upsert_hot(&self, session: &Session, thread: u64) -> Result<()> {
        session.statement()?.upsert(self.hot, &key(thread), &[thread as u8; 200]).map(drop)
    }

    fn update_cold(&self, session: &Session, row: u64) -> Result<()> {
        let mut txn = session.begin(ReadCommitted);
        txn.update(self.table, &key(row), &value(row))?;
        txn.commit()
    }
}

/// The data files take no writes until both are there: a log that is full, since no page's change gets out of it, and writers that
/// wait for a frame. Then everything goes on.
#[test]
fn a_full_redo_log_and_a_pool_without_a_free_frame_at_once() {
    let config = EngineConfig {
        buffer_pool_bytes: 1 << 20,
        flush_log_at_trx_commit: FlushLog::EverySecond,
        ..config()
    };
    let gate = Arc::<Gate>::default();
    let disk = Stoppable { disk: MemoryDisk::default(), gate: Arc::clone(&gate) };
    let db = Database::create_on(Arc::new(disk), config).unwrap();
    let (table, hot) = (db.create_table("t").unwrap(), db.create_tree("hot").unwrap());
    db.bulk_load_table(&table, common::rows(ROWS), |_| {}).unwrap();
    let admission = Admission::new(Config { thread_concurrency: 4, ..Config::default() }).unwrap();
    let (commits, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let hard =
        Hard { db: &db, table: &table, hot: &hot, admission: &admission, commits: &commits, over: &over };
    thread::scope(|scope| {
        // Dropped in this order, so that everybody ends also when an assertion fails.
        let _opens = Opens(&gate);
        let _ends = Ends(&over);
        for thread in 0..16 {
            let hard = &hard;
            scope.spawn(move || hard.write(thread));
        }
        for _ in 0..3 {
            gate.set_closed(true);
            until_both_are_full(&db);
            gate.set_closed(false);
            let enough = commits.load(Ordering::Relaxed) + 200;
            watch(&db, &commits, |_| commits.load(Ordering::Relaxed) >= enough);
        }
    });
    db.check_table(&table).unwrap();
    db.close().unwrap();
    assert_eq!(admission.snapshot().running, 0);
}

/// Waits until the log has no room for most writers, and a writer waits for a frame.
fn until_both_are_full(db: &Database) {
    let waits_before = db.stats().pool.free_frame_waits;
    let mut looks = 0;
    loop {
        let stats = db.stats();
        if redo_age(&stats) > 0.85 && stats.pool.free_frame_waits > waits_before {
            return;
        }
        looks += 1;
        assert!(looks < LOOKS_MAX, "{:?} free frames, redo {}", stats.pool.free_frames, redo_age(&stats));
        thread::sleep(LOOK);
    }
}

/// Opens the gate at the end of a test.
struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.set_closed(false);
    }
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

    fn step(&mut self, session: &Session) -> Result<()> {
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
        stats.waits.count(WaitReason::RedoTokens),
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
