//! What the next open does with what a crash, a bad medium or a careless hand has left: it recovers all that was
//! promised, or refuses and says why. Never is wrong data taken for good.

#[path = "../common/mod.rs"]
mod common;

mod log;
mod older_copies;
mod pages;

use std::sync::Arc;

use common::history::{Worker, check};
use common::{config, rows, session, verify};
use flifo_engine::disk::{ALIGNMENT_BYTES, Disk, DiskCall, Fault, MemoryDisk};
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Result};

const PAGE: u64 = 4096;
const DATA_FILES: u64 = 3;
const SEED: u64 = 5;

fn small() -> EngineConfig {
    // A pool much smaller than the data, so that pages are written all the time.
    EngineConfig { buffer_pool_bytes: 256 << 10, ..config() }
}

fn on(disk: &MemoryDisk) -> Arc<MemoryDisk> {
    Arc::new(disk.clone())
}

fn open(disk: &MemoryDisk) -> Result<Database> {
    Database::open_on(on(disk), small())
}

fn create(disk: &MemoryDisk) -> Database {
    let db = Database::create_on(on(disk), small()).unwrap();
    db.create_tree("t").unwrap();
    db
}

/// One worker makes `changes` more.
fn work(db: &Database, worker: &mut Worker, changes: u64) {
    let (session, tree) = (session(db), db.tree("t").unwrap());
    (0..changes).for_each(|_| worker.change(&session, &tree).unwrap());
}

/// All changes of the worker are there, and no other.
fn check_all(db: &Database, worker: &Worker) {
    check(db, &db.tree("t").unwrap(), SEED, &[worker.done], 0);
}

/// A database that a crash left after 2,000 changes, the first 1,500 of them checkpointed, and what was done.
fn crashed() -> (MemoryDisk, Worker) {
    let (disk, mut worker) = (MemoryDisk::with_power_cuts(SEED), Worker::new(SEED, 0));
    let db = create(&disk);
    work(&db, &mut worker, 1500);
    db.checkpoint().unwrap();
    work(&db, &mut worker, 500);
    (disk.power_cut(), worker)
}

/// The same, closed.
fn closed() -> (MemoryDisk, Worker) {
    let (disk, worker) = crashed();
    open(&disk).unwrap().close().unwrap();
    (disk, worker)
}

/// Bytes of a file, a multiple of what transfers must be.
fn read(disk: &MemoryDisk, name: &str, offset: u64, bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes + ALIGNMENT_BYTES];
    let skip = memory.as_ptr().align_offset(ALIGNMENT_BYTES);
    disk.open(name).unwrap().read_at(&mut memory[skip..skip + bytes], offset).unwrap();
    memory[skip..skip + bytes].to_vec()
}

fn write(disk: &MemoryDisk, name: &str, offset: u64, bytes: &[u8]) {
    let mut memory = vec![0; bytes.len() + ALIGNMENT_BYTES];
    let skip = memory.as_ptr().align_offset(ALIGNMENT_BYTES);
    memory[skip..skip + bytes.len()].copy_from_slice(bytes);
    disk.open(name).unwrap().write_at(&memory[skip..skip + bytes.len()], offset).unwrap();
}

/// Puts a file of one disk in the place of another disk's.
fn put_back(from: &MemoryDisk, name: &str, to: &MemoryDisk) {
    let bytes = from.open(name).unwrap().bytes().unwrap() as usize;
    let _ = to.remove(name);
    to.create(name).unwrap();
    write(to, name, 0, &read(from, name, 0, bytes));
}

/// All files whose names begin so.
fn put_all_back(from: &MemoryDisk, begin: &str, to: &MemoryDisk) {
    names(to, begin).iter().for_each(|name| put_back(from, name, to));
}

fn names(disk: &MemoryDisk, begin: &str) -> Vec<String> {
    disk.names().unwrap().into_iter().filter(|name| name.starts_with(begin)).collect()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Where the state blocks say that recovery begins.
fn checkpoint(disk: &MemoryDisk) -> u64 {
    of_state(disk, 56)
}

/// A number in the newer state block.
fn of_state(disk: &MemoryDisk, at: usize) -> u64 {
    [16 << 10, 32 << 10]
        .map(|at| read(disk, "data0.flifo", at, 4096))
        .iter()
        .max_by_key(|block| u64_at(block, 8))
        .map(|block| u64_at(block, at))
        .unwrap()
}

/// File and offset of a byte of the redo log.
fn place_of_lsn(disk: &MemoryDisk, lsn: u64) -> (String, u64) {
    let segment_bytes = u64_at(&read(disk, "redo0.flifo", 0, 4096), 24);
    (format!("redo{}.flifo", lsn / segment_bytes % 4), 4096 + lsn % segment_bytes)
}

fn place_of_page(page: u64) -> (String, u64) {
    let (stripe, within) = (page / 64, page % 64);
    (format!("data{}.flifo", stripe % DATA_FILES), 65536 + (stripe / DATA_FILES * 64 + within) * PAGE)
}

/// The pages in the doublewrite areas, with their LSN.
fn copies(disk: &MemoryDisk) -> Vec<(u64, u64)> {
    let mut copies = Vec::new();
    for name in names(disk, "doublewrite") {
        for at in [0, 4096 + 32 * PAGE] {
            let segment = read(disk, &name, at, 4096 + 32 * PAGE as usize);
            let count = if &segment[..7] == b"flifoDW" { segment[12] as usize } else { 0 };
            for index in 0..count {
                let page = &segment[4096 + index * PAGE as usize..];
                copies.push((u64_at(&segment, 32 + index * 8), u64_at(page, 16)));
            }
        }
    }
    copies
}

/// Half of a page is what it was long ago.
fn tear(disk: &MemoryDisk, page: u64) {
    let (name, offset) = place_of_page(page);
    let mut bytes = read(disk, &name, offset, PAGE as usize);
    bytes[PAGE as usize / 2..].fill(0x5a);
    write(disk, &name, offset, &bytes);
}

/// Changes are acknowledged, the process is killed, another recovers what it left, goes on, and then the power fails.
/// What the first one wrote and did not sync could be read by the second: nothing may rely on it.
#[test]
fn a_kill_and_then_a_power_cut_lose_nothing() {
    for seed in 0..12 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let mut worker = Worker::new(SEED, 0);
        let written = EngineConfig { flush_log_at_trx_commit: FlushLog::Write, ..small() };
        let db = Database::create_on(on(&disk), written.clone()).unwrap();
        db.create_tree("t").unwrap();
        work(&db, &mut worker, 400 + seed * 17);
        let killed = disk.kill();
        let db = Database::open_on(on(&killed), written).unwrap();
        // Now it is recovered, and shown; so it is there for good.
        check_all(&db, &worker);
        if seed % 3 > 0 {
            db.checkpoint().unwrap();
        }
        if seed % 3 > 1 {
            db.set_property("noted", "yes").unwrap();
        }
        check_all(&open(&killed.power_cut()).unwrap(), &worker);
    }
}

/// A sync fails: the database stops. The next open finds what was written, in memory and perhaps nowhere else.
#[test]
fn what_a_failed_sync_left_is_made_durable_by_the_next_open() {
    for nth in 1..20 {
        let (disk, mut worker) = (MemoryDisk::with_power_cuts(nth), Worker::new(SEED, 0));
        // Most syncs are of pages then.
        let written = EngineConfig { flush_log_at_trx_commit: FlushLog::Write, ..small() };
        let db = Database::create_on(on(&disk), written).unwrap();
        db.create_tree("t").unwrap();
        db.checkpoint().unwrap();
        disk.fail_nth(Some(DiskCall::Sync), nth, Fault::Io);
        let (of_worker, tree) = (session(&db), db.tree("t").unwrap());
        while worker.change(&of_worker, &tree).is_ok() {
            if worker.done % 20 == 0 && db.checkpoint().is_err() {
                break;
            }
        }
        drop((of_worker, tree, db));
        disk.heal();
        let db = open(&disk).unwrap();
        let worker = check(&db, &db.tree("t").unwrap(), SEED, &[worker.done], 1).remove(0);
        db.checkpoint().unwrap();
        check_all(&open(&disk.power_cut()).unwrap(), &worker);
    }
}

/// A sync of the data files or of a doublewrite area fails, and then each call from some call of the next opening on, and
/// then power: what reads well after a failed sync may be torn on the disk, or be a copy that is not there.
#[test]
fn a_failed_sync_then_an_opening_that_is_cut_off_and_a_power_cut_lose_nothing() {
    const WORKERS: u64 = 8;
    let one = || EngineConfig { buffer_pool_instances: 1, ..small() };
    for nth in 1..=4 {
        let disk = MemoryDisk::with_power_cuts(nth);
        let db = Database::create_on(on(&disk), one()).unwrap();
        let tree = db.create_tree("t").unwrap();
        let mut workers: Vec<_> = (0..WORKERS).map(|number| Worker::new(SEED, number)).collect();
        let of_workers = session(&db);
        let work = |workers: &mut [Worker], changes| {
            for _ in 0..changes {
                workers.iter_mut().for_each(|worker| worker.change(&of_workers, &tree).unwrap());
            }
        };
        work(&mut workers, 400);
        db.checkpoint().unwrap();
        work(&mut workers, 60);
        disk.fail_nth(Some(DiskCall::Sync), nth, Fault::Io);
        db.checkpoint().unwrap_err();
        drop((of_workers, tree, db));
        disk.heal();
        let done: Vec<_> = workers.iter().map(|worker| worker.done).collect();
        // Some of all, and each while the repair writes to places whose copies may not be there.
        for calls in (1..300).step_by(11).chain(60..80) {
            let disk = disk.kill();
            disk.fail_from(None, calls, Fault::Io);
            drop(Database::open_on(on(&disk), one()));
            let db = Database::open_on(on(&disk.power_cut()), one())
                .unwrap_or_else(|error| panic!("sync {nth}, {calls} calls: {error}"));
            check(&db, &db.tree("t").unwrap(), SEED, &done, 0);
        }
    }
}

/// What a setting below 1 may lose are the last changes, never others; and nothing that was written before a kill, with 2.
#[test]
fn what_is_found_is_always_a_prefix_of_what_was_done() {
    for flush in [FlushLog::EverySecond, FlushLog::Write] {
        for seed in 0..6 {
            let disk = MemoryDisk::with_power_cuts(seed);
            let config = EngineConfig { flush_log_at_trx_commit: flush, ..small() };
            let db = Database::create_on(on(&disk), config.clone()).unwrap();
            db.create_tree("t").unwrap();
            db.checkpoint().unwrap();
            let mut worker = Worker::new(SEED, 0);
            work(&db, &mut worker, 100 + seed * 151);
            let (killed, cut) = (disk.kill(), disk.power_cut());
            let least = if flush == FlushLog::Write { worker.done } else { 0 };
            for (disk, least) in [(killed, least), (cut, 0)] {
                let db = Database::open_on(on(&disk), config.clone()).unwrap();
                check(&db, &db.tree("t").unwrap(), SEED, &[least], worker.done - least);
            }
        }
    }
}
