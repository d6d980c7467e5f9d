//! Commits by many threads: the gain of group commit, and the cost of hot rows.
//!
//! `cargo bench -p flifo-engine --bench commit` measures in the current directory's file system (`DIR=...` for
//! another), `ROUNDS` rounds (5) of `SECONDS` each (2). A round is one pass over all cells, so that compared cells are
//! neighbours. The bench prints medians, and the median of the rounds' ratios with the lowest and highest. `ONLY`
//! selects the loads whose name contains it. `SYNC_US=2000` makes every sync that many microseconds longer, as on a
//! device whose syncs are the limit. `READS=1` reads each row for update first, and `STATEMENT=1` makes a transaction
//! one statement for admission. `POLICY`, `QUANTUM_US`, `LIMIT` (`thread_concurrency`) and `LOCK_WAITERS`
//! (`lock_waiters_max`) configure admission. `-- --record` writes the figures to figures/commit.json.

use std::io;
use std::os::fd::BorrowedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flifo_admission::{Admission, Config};
use flifo_base::CacheAligned;
use flifo_engine::disk::{Disk, DiskFile, DiskLock, FileDisk, SharedWords};
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Table};
use flifo_record::criterion::exit_code;
use flifo_record::place::Place;
use flifo_record::statistics::{Spread, median};
use flifo_record::{Key, Record, Row, Scale, Wanted};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

const ROWS: u64 = 100_000;
/// `THREADS=1,64` for others.
const THREADS: [usize; 4] = [1, 16, 256, 1024];

/// A load: the rows that are updated, and the durability of commits.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    rows: u64,
    flush: FlushLog,
}

const LOADS: [Load; 4] = [
    Load { name: "any of 100,000 rows, synced", rows: ROWS, flush: FlushLog::Sync },
    Load { name: "any of 100,000 rows, written", rows: ROWS, flush: FlushLog::Write },
    Load { name: "100 hot rows, written", rows: 100, flush: FlushLog::Write },
    Load { name: "1 hot row, written", rows: 1, flush: FlushLog::Write },
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn open(dir: &std::path::Path, flush: FlushLog) -> (Database, Table) {
    let config = EngineConfig {
        buffer_pool_bytes: 256 << 20,
        flush_log_at_trx_commit: flush,
        redo_capacity_bytes: 256 << 20,
        ..EngineConfig::default()
    };
    let disk = FileDisk::create(dir, config.direct_io).expect("a directory");
    let sync = Duration::from_micros(number("SYNC_US", 0));
    let db = Database::create_on(Arc::new(SlowDisk { disk, sync }), config).expect("a database");
    let table = db.create_table("t").expect("a table");
    let admission = Admission::new(Config::default()).expect("admission");
    let session = db.session(&admission);
    for first in (0..ROWS).step_by(1000) {
        let mut txn = session.begin(Isolation::ReadCommitted);
        (first..first + 1000).for_each(|row| {
            txn.insert(&table, &row.to_be_bytes(), &[7; 100]).expect("an insert");
        });
        txn.commit().expect("a commit");
    }
    (db, table)
}

/// A directory of files that takes longer for each sync.
struct SlowDisk {
    disk: FileDisk,
    sync: Duration,
}

struct SlowFile {
    file: Box<dyn DiskFile>,
    sync: Duration,
}

impl SlowDisk {
    fn slow(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(SlowFile { file, sync: self.sync })
    }
}

impl Disk for SlowDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.slow(self.disk.open(name)?))
    }
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.slow(self.disk.create(name)?))
    }
    fn open_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.slow(self.disk.open_cached(name)?))
    }
    fn create_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.slow(self.disk.create_cached(name)?))
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

impl DiskFile for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        if !self.sync.is_zero() {
            std::thread::sleep(self.sync);
        }
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
    // Only syncs are slow.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
}

/// The commits of one thread, on cache lines of its own: a shared counter would make the second CPU wait for the
/// counter instead of the engine.
type Commits = CacheAligned<AtomicU64>;

/// Commits a second, with `threads` threads.
fn run(db: &Database, table: &Table, rows: u64, threads: usize, time: Duration) -> f64 {
    let (reads, in_statement) = (number("READS", 0) != 0, number("STATEMENT", 0) != 0);
    let defaults = Config::default();
    let config = Config {
        policy: std::env::var("POLICY").map_or(defaults.policy, |name| name.parse().expect("a policy")),
        quantum: Duration::from_micros(number("QUANTUM_US", defaults.quantum.as_micros() as u64)),
        lock_waiters_max: number("LOCK_WAITERS", defaults.lock_waiters_max.into()) as u32,
        thread_concurrency: number("LIMIT", defaults.thread_concurrency.into()) as u32,
        ..defaults
    };
    let admission = Admission::new(config).expect("admission");
    let stop = AtomicBool::new(false);
    let commits: Vec<_> = (0..threads).map(|_| Commits::default()).collect();
    let committed = || commits.iter().map(|commits| commits.0.load(Ordering::Relaxed)).sum::<u64>();
    std::thread::scope(|scope| {
        for (thread, commits) in commits.iter().enumerate() {
            let (stop, admission) = (&stop, Arc::clone(&admission));
            std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || {
                    let session = db.session(&admission);
                    let mut random = SplitMix64::seed_from_u64(thread as u64);
                    let mut value = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let row = random.next_u64() % rows;
                        let mut txn = session.begin(Isolation::ReadCommitted);
                        let _statement =
                            in_statement.then(|| txn.statement().expect("the queue has no limit"));
                        let key = row.to_be_bytes();
                        let read = if reads { txn.get_for_update(table, &key, &mut value) } else { Ok(true) };
                        match read.and_then(|_| txn.update(table, &key, &[random.next_u64() as u8; 100])) {
                            Ok(_) => txn.commit().expect("a commit"),
                            Err(Error::Deadlock) => continue,
                            Err(error) => panic!("{error}"),
                        }
                        // No other thread writes it.
                        commits.store(commits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    }
                })
                .expect("a thread");
        }
        // The burst of the beginning does not count.
        std::thread::sleep(time / 4);
        let (begun, before) = (Instant::now(), committed());
        std::thread::sleep(time);
        let done = committed() - before;
        let elapsed = begun.elapsed();
        stop.store(true, Ordering::Relaxed);
        done as f64 / elapsed.as_secs_f64()
    })
}

/// The rows of a load: commits per second, and the ratios to one thread and to the peak.
fn rows(load: &str, numbers: &[usize], found: &[Vec<f64>]) -> Vec<Row> {
    let key = |threads: usize| Key::of(load).at(threads as u32);
    let mut rows: Vec<Row> = Vec::new();
    for (&threads, of) in numbers.iter().zip(found) {
        rows.extend(Spread::of(of.iter().copied()).map(|spread| key(threads).spread(spread, "commits/s")));
    }
    let commits = |of: &&Vec<f64>| median(of.iter().copied()).unwrap_or(0.0);
    let peak = found.iter().max_by(|a, b| commits(a).total_cmp(&commits(b)));
    let one = numbers.iter().position(|&threads| threads == 1).map(|at| &found[at]);
    for (base, other) in [("1 thread", one), ("peak", peak)] {
        for (&threads, of) in numbers.iter().zip(found) {
            let Some(other) = other.filter(|other| *other != of) else { continue };
            let ratios = of.iter().zip(other).map(|(this, base)| this / base);
            rows.extend(key(threads).relative_to(base).paired(ratios));
        }
    }
    rows
}

/// The load's name in the record: longer syncs are a load of its own.
fn recorded_name(load: &Load) -> String {
    match number("SYNC_US", 0) {
        0 => load.name.to_owned(),
        sync_us => format!("{}, syncs {sync_us} us longer", load.name),
    }
}

/// The figures to reach: hot rows keep nine tenths of the peak with 1,024 threads.
fn want(record: &mut Record) {
    for load in LOADS.iter().filter(|load| load.rows < ROWS) {
        record.want(Key::of(load.name).at(1024).relative_to("peak"), Wanted::AtLeast(0.9));
    }
}

/// The command with the variables of the environment that configure it.
fn command() -> String {
    let names = [
        "POLICY",
        "QUANTUM_US",
        "LIMIT",
        "LOCK_WAITERS",
        "ROUNDS",
        "SECONDS",
        "THREADS",
        "ONLY",
        "SYNC_US",
        "READS",
        "STATEMENT",
    ];
    let set = names.iter().filter_map(|name| Some(format!("{name}={} ", std::env::var(name).ok()?)));
    set.collect::<String>() + "cargo bench -p flifo-engine --bench commit -- --record"
}

fn main() -> ExitCode {
    exit_code(measure())
}

fn measure() -> flifo_record::Result<()> {
    let place = Place::from_args("commit")?;
    let mut record = Record::begin("commit", command(), Scale::Threads);
    let (rounds, time) = (number("ROUNDS", 5), Duration::from_secs(number("SECONDS", 2)));
    let home = std::env::var_os("DIR").map_or_else(|| ".".into(), std::path::PathBuf::from);
    let only = std::env::var("ONLY").unwrap_or_default();
    let numbers = std::env::var("THREADS").map_or(THREADS.to_vec(), |list| {
        list.split(',').map(|n| n.parse().expect("THREADS is a list of numbers")).collect()
    });
    for load in LOADS.into_iter().filter(|load| load.name.contains(&only)) {
        let dir = tempfile::tempdir_in(&home).expect("a directory");
        let (db, table) = open(&dir.path().join("db"), load.flush);
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); numbers.len()];
        let mut waits = vec![Vec::new(); numbers.len()];
        for _ in 0..rounds {
            for ((threads, found), waits) in numbers.iter().zip(&mut found).zip(&mut waits) {
                let before = db.stats();
                found.push(run(&db, &table, load.rows, *threads, time));
                let after = db.stats();
                let commits = (after.txns.commits - before.txns.commits) as f64;
                waits.push((after.locks.waits - before.locks.waits) as f64 / commits);
            }
        }
        println!("{}", load.name);
        record.rows.extend(rows(&recorded_name(&load), &numbers, &found));
        for ((threads, of), waits) in numbers.iter().zip(&found).zip(waits) {
            let Some(ratio) = Spread::of(of.iter().zip(&found[0]).map(|(this, one)| this / one)) else {
                continue;
            };
            println!(
                "  {threads:>5} threads {:>10.0} commits/s   {:.2} times the first's ({:.2} to {:.2}), {:.3} lock waits each",
                median(of.iter().copied()).unwrap_or(0.0),
                ratio.median,
                ratio.min,
                ratio.max,
                median(waits).unwrap_or(0.0),
            );
        }
        let stats = db.stats();
        println!(
            "  {} commits in {} syncs, {} overtakes of row locks, {} hard stops, history {}",
            stats.txns.commits,
            stats.redo.syncs,
            stats.locks.overtakes,
            stats.redo.hard_stops,
            stats.txns.history
        );
        drop(table);
        db.close().expect("a close");
    }
    want(&mut record);
    let Some(place) = place else { return Ok(()) };
    println!("{}", place.write(record)?);
    Ok(())
}
