//! What the next open does with what a crash, a bad medium or a careless hand has left: it recovers all that was
//! promised, or refuses and says why. Never is wrong data taken for good.

mod common;

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

/// A bit of the log rots anywhere between the checkpoint and the end: all is there, or it is refused, unless it was in
/// the very last records, of which nothing else tells.
#[test]
fn a_rotten_log_is_refused_and_never_cut_short_in_silence() {
    let (disk, worker) = crashed();
    let start = checkpoint(&disk);
    let mut told = 0;
    let db = open(&disk.kill()).unwrap();
    let end = db.stats().redo.next_lsn;
    check_all(&db, &worker);
    drop(db);
    for step in 0..16 {
        let at = start + (end - start) * step / 16;
        let rotten = disk.kill();
        let (name, offset) = place_of_lsn(&rotten, at);
        rotten.flip_bit(&name, offset, 3);
        match open(&rotten) {
            Err(Error::CorruptRedo { .. }) => told += 1,
            Err(error) => panic!("{error}"),
            // Zeros between two frames.
            Ok(db) => check_all(&db, &worker),
        }
    }
    assert!(told > 12, "{told}");
}

/// A bit of the log rots after the end was looked for, and before it is replayed.
#[test]
fn a_log_that_rots_before_it_is_replayed_is_refused() {
    let (disk, _) = crashed();
    let start = checkpoint(&disk);
    let opened = Database::open_on_with_progress(on(&disk), small(), &mut |progress| {
        // Not all of them can lie between two frames.
        for bytes in [0, 50, 100].iter().filter(|_| progress.replayed_bytes == 0) {
            let (name, offset) = place_of_lsn(&disk, start + progress.total_bytes / 2 + bytes);
            disk.flip_bit(&name, offset, 3);
        }
    });
    match opened {
        Err(Error::CorruptRedo { .. }) => {}
        other => panic!("{:?}", other.map(drop)),
    }
}

/// The block with the last records is lost. That is what a crash may leave of records that were not synced; so they are
/// missed only up to what the last checkpoint knew to be durable, and by pages that have them.
#[test]
fn a_log_that_ends_before_the_pages_or_the_checkpoint_is_refused() {
    let (disk, mut worker) = crashed();
    let db = open(&disk).unwrap();
    db.checkpoint().unwrap();
    work(&db, &mut worker, 30);
    let end = db.stats().redo.next_lsn;
    let start = checkpoint(&disk);
    for (from, what) in [(start, "all of it"), (start - 8192, "more than that")] {
        let cut = disk.kill();
        for block in from / 4096..=end / 4096 {
            let (name, offset) = place_of_lsn(&cut, block * 4096);
            write(&cut, &name, offset, &[0; 4096]);
        }
        // Written pages are newer than that, or nothing was written and the records are gone.
        match open(&cut).and_then(|db| db.check_tree(&db.tree("t")?).map(|_| db)) {
            Err(Error::CorruptRedo { .. }) => {}
            Err(error) => panic!("{what}: {error}"),
            Ok(db) => drop(check(&db, &db.tree("t").unwrap(), SEED, &[worker.done - 30], 30)),
        }
    }
}

/// All is lost from the checkpoint on, and the state blocks have noted that it was durable.
#[test]
fn a_log_that_ends_before_what_the_checkpoint_noted_is_refused() {
    let (disk, mut worker) = (MemoryDisk::default(), Worker::new(SEED, 0));
    let db = create(&disk);
    let found = std::thread::scope(|scope| {
        let (stop, db) = (std::sync::atomic::AtomicBool::new(false), &db);
        let stop = Arc::new(stop);
        let stopped = Arc::clone(&stop);
        scope.spawn(move || {
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                work(db, &mut worker, 10);
            }
        });
        // A checkpoint that has durable records behind it.
        let found = loop {
            db.checkpoint().unwrap();
            let found = disk.kill();
            if of_state(&found, 72) > checkpoint(&found) {
                break found;
            }
        };
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        found
    });
    for index in 0..4 {
        let name = format!("redo{index}.flifo");
        write(&found, &name, 4096, &vec![0; (1 << 20) - 4096]);
    }
    let error = open(&found).err().unwrap();
    assert!(error.to_string().contains("was once durable"), "{error}");
}

#[test]
fn without_its_log_a_crashed_database_is_refused_and_a_closed_one_opened() {
    for name in names(&crashed().0, "redo") {
        let (disk, _) = crashed();
        disk.remove(&name).unwrap();
        match open(&disk).err().unwrap() {
            Error::MissingRedo { path } => assert!(path.ends_with(&name)),
            error => panic!("{error}"),
        }
        let (disk, mut worker) = closed();
        disk.remove(&name).unwrap();
        let db = open(&disk).unwrap();
        check_all(&db, &worker);
        work(&db, &mut worker, 100);
        check_all(&open(&disk.power_cut()).unwrap(), &worker);
    }
}

#[test]
fn a_log_of_another_database_or_version_is_refused() {
    for make in [crashed, closed] {
        let (other, _) = make();
        let (disk, _) = make();
        put_back(&other, "redo1.flifo", &disk);
        assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
        for name in names(&other, "redo") {
            put_back(&other, &name, &disk);
        }
        assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
        for name in ["redo3.flifo", "redobuffer.flifo"] {
            let (disk, _) = make();
            disk.flip_bit(name, 8, 5);
            assert!(matches!(open(&disk), Err(Error::FormatVersion { .. })));
            let (disk, _) = make();
            put_back(&other, name, &disk);
            assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
        }
        let (disk, _) = make();
        put_back(&disk.kill(), "redo0.flifo", &disk);
        let first = read(&disk, "redo0.flifo", 0, 4096);
        write(&disk, "redo2.flifo", 0, &first);
        assert!(matches!(open(&disk), Err(Error::MisplacedDataFile { .. })));
    }
}

#[test]
fn the_log_gets_another_size_after_a_clean_close_only() {
    let larger = EngineConfig { redo_capacity_bytes: 8 << 20, ..small() };
    let (disk, mut worker) = crashed();
    let db = Database::open_on(on(&disk), larger.clone()).unwrap();
    assert_eq!(db.stats().redo.capacity_bytes, 4 << 20);
    check_all(&db, &worker);
    db.close().unwrap();
    for (config, bytes) in [(larger, 8 << 20), (small(), 4 << 20)] {
        let db = Database::open_on(on(&disk), config).unwrap();
        assert_eq!(db.stats().redo.capacity_bytes, bytes);
        work(&db, &mut worker, 300);
        check_all(&open(&disk.power_cut()).unwrap(), &worker);
        db.close().unwrap();
    }
}

/// Each call fails while a log of another size is made, and the power fails then.
#[test]
fn a_change_of_the_logs_size_can_be_cut_off() {
    let larger = EngineConfig { redo_capacity_bytes: 8 << 20, ..small() };
    let (disk, worker) = closed();
    for nth in 1.. {
        let disk = disk.kill();
        disk.fail_from(None, nth, Fault::Io);
        let done = Database::open_on(on(&disk), larger.clone()).is_ok();
        if done || nth % 5 == 0 {
            check_all(&open(&disk.power_cut()).unwrap(), &worker);
        }
        if done {
            assert!(nth > 10);
            break;
        }
    }
}

/// Pages that were torn are put right from their copies, however many instances the pool has now.
#[test]
fn torn_pages_are_repaired_from_their_copies() {
    for instances in [1, 2, 7] {
        let (disk, worker) = crashed();
        let checkpoint = checkpoint(&disk);
        let torn: Vec<u64> =
            copies(&disk).iter().filter(|(_, lsn)| *lsn > checkpoint).map(|(page, _)| *page).collect();
        assert!(!torn.is_empty());
        torn.iter().for_each(|page| tear(&disk, *page));
        let config = EngineConfig { buffer_pool_instances: instances, ..small() };
        let db = Database::open_on(on(&disk), config).unwrap();
        check_all(&db, &worker);
    }
}

/// Pages whose copies are at hand cannot be read, until they are written.
#[test]
fn pages_that_cannot_be_read_are_repaired_from_their_copies() {
    let (disk, worker) = crashed();
    let checkpoint = checkpoint(&disk);
    for (page, _) in copies(&disk).into_iter().filter(|(_, lsn)| *lsn > checkpoint) {
        let (name, offset) = place_of_page(page);
        disk.make_unreadable(&name, offset);
    }
    // And one of the two state blocks.
    disk.make_unreadable("data0.flifo", 16 << 10);
    check_all(&open(&disk).unwrap(), &worker);
}

/// A copy of a page that was written again since, and not by way of the doublewrite area, must not be taken for the page.
#[test]
fn an_old_copy_is_never_taken_for_a_torn_page() {
    let (disk, mut worker) = crashed();
    let once = || EngineConfig { doublewrite: false, ..small() };
    let db = Database::open_on(on(&disk), once()).unwrap();
    work(&db, &mut worker, 1500);
    db.checkpoint().unwrap();
    work(&db, &mut worker, 50);
    let cut = disk.kill();
    let copies = copies(&cut);
    assert!(!copies.is_empty());
    let (mut refused, mut pages) = (0, 0);
    for (page, _) in copies {
        let torn = cut.kill();
        tear(&torn, page);
        pages += 1;
        let all = || -> Result<()> {
            let db = Database::open_on(on(&torn), once())?;
            let tree = db.tree("t")?;
            db.check_tree(&tree)?;
            check(&db, &tree, SEED, &[worker.done], 0);
            Ok(())
        };
        match all() {
            Ok(()) => {}
            Err(Error::CorruptPage { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > pages / 4, "{refused} of {pages}");
}

/// With pages that are written once, whatever a kill leaves is recovered.
#[test]
fn without_doublewrite_kills_are_survived() {
    for seed in 0..6 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let once = EngineConfig { doublewrite: false, ..small() };
        let (mut worker, db) = (Worker::new(SEED, 0), Database::create_on(on(&disk), once.clone()).unwrap());
        assert!(names(&disk, "doublewrite").is_empty());
        db.create_tree("t").unwrap();
        work(&db, &mut worker, 500 + seed * 31);
        check_all(&Database::open_on(on(&disk.kill()), once).unwrap(), &worker);
        // And it can be used again at any time.
        check_all(&open(&disk.kill()).unwrap(), &worker);
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

/// Data files of yesterday with today's log, and the other way round: refused, or found to be whole.
#[test]
fn files_put_back_from_an_older_copy_are_noticed() {
    let (disk, mut worker) = crashed();
    let old = disk.kill();
    let db = open(&disk).unwrap();
    work(&db, &mut worker, 4000);
    db.checkpoint().unwrap();
    work(&db, &mut worker, 300);
    let look = |disk: &MemoryDisk| -> Result<()> {
        let db = open(disk)?;
        let tree = db.tree("t")?;
        db.check_tree(&tree)?;
        check(&db, &tree, SEED, &[worker.done], 0);
        Ok(())
    };
    for begin in ["redo", "data"] {
        let mixed = disk.kill();
        names(&mixed, begin).iter().for_each(|name| put_back(&old, name, &mixed));
        match look(&mixed) {
            Err(Error::CorruptRedo { .. }) => {}
            // The log has all from the older checkpoint on, but a page may have been torn.
            Ok(()) | Err(Error::CorruptPage { .. }) if begin == "data" => {}
            other => panic!("{begin}: {other:?}"),
        }
    }
}

/// A database, a copy of it, closed or not, and the same one as a kill left it after changes in three more openings, with the
/// copy's data files. The log has the last changes in its buffer only.
fn with_older_data_files(copy_is_closed: bool, change: impl Fn(&Database)) -> (MemoryDisk, Worker) {
    let (disk, mut worker) = crashed();
    let db = open(&disk).unwrap();
    work(&db, &mut worker, 100);
    let copied_open = disk.kill();
    db.close().unwrap();
    let copied = if copy_is_closed { disk.kill() } else { copied_open };
    for _ in 0..2 {
        let db = open(&disk).unwrap();
        work(&db, &mut worker, 50);
        db.close().unwrap();
    }
    let written = EngineConfig { flush_log_at_trx_commit: FlushLog::Write, ..small() };
    let db = Database::open_on(on(&disk), written).unwrap();
    change(&db);
    work(&db, &mut worker, 50);
    let mixed = disk.kill();
    names(&mixed, "data").iter().for_each(|name| put_back(&copied, name, &mixed));
    (mixed, worker)
}

/// What the log has is rolled forward, and what comes then counts, though the data files know nothing of the openings since.
#[test]
fn older_data_files_are_rolled_forward_and_what_follows_is_recovered() {
    for copy_is_closed in [true, false] {
        let (disk, mut worker) = with_older_data_files(copy_is_closed, |_| {});
        let db = open(&disk).unwrap();
        check_all(&db, &worker);
        work(&db, &mut worker, 50);
        check_all(&open(&disk.kill()).unwrap(), &worker);
    }
}

/// A load's pages are in no log: what lies in their places may be rows of long ago.
#[test]
fn older_data_files_are_refused_if_rows_were_loaded_in_bulk_since() {
    for copy_is_closed in [true, false] {
        let (disk, _) = with_older_data_files(copy_is_closed, |db| {
            let tree = db.create_tree("loaded").unwrap();
            db.bulk_load(&tree, rows(1000), |_| {}).unwrap();
        });
        let error = open(&disk).err().unwrap();
        assert!(matches!(error, Error::CorruptRedo { .. }), "{error}");
        assert!(error.to_string().contains("loaded in bulk"), "{error}");
    }
}

/// A closed database was put back from an older copy, with its log, and the doublewrite areas were not. What they have of the
/// time after the copy is of other changes than those that come now.
#[test]
fn copies_of_another_time_are_never_taken_for_pages() {
    let (disk, first) = closed();
    let copied = disk.kill();
    let db = open(&disk).unwrap();
    work(&db, &mut Worker::after(SEED, 0, first.done), 100);
    db.checkpoint().unwrap();
    let mixed = disk.kill();
    for name in names(&mixed, "data").iter().chain(&names(&mixed, "redo")) {
        put_back(&copied, name, &mixed);
    }
    let start = checkpoint(&mixed);
    assert!(copies(&mixed).iter().any(|&(_, lsn)| lsn > start));
    // So that the areas stay as they are.
    let once = EngineConfig { doublewrite: false, ..small() };
    let (db, mut second) = (Database::open_on(on(&mixed), once).unwrap(), Worker::new(SEED, 1));
    work(&db, &mut second, 300);
    let db = open(&mixed.kill()).unwrap();
    check(&db, &db.tree("t").unwrap(), SEED, &[first.done, second.done], 0);
}

/// The power fails while the files grow, while a load is under way, after it: the tree is empty or full.
#[test]
fn a_load_that_the_power_cut_off_leaves_all_or_nothing() {
    for seed in 0..5 {
        let disk = MemoryDisk::with_power_cuts(seed);
        let db = create(&disk);
        let tree = db.tree("t").unwrap();
        let mut cut = None;
        let at = 700 * seed;
        let loaded = rows(3000).inspect(|(key, _)| {
            if u64::from_be_bytes(*key) == at {
                cut = Some(disk.power_cut());
            }
        });
        db.bulk_load(&tree, loaded, |_| {}).unwrap();
        let after = open(&disk.power_cut()).unwrap();
        verify(&after, &after.tree("t").unwrap(), 3000).unwrap();
        let during = open(&cut.unwrap()).unwrap();
        let tree = during.tree("t").unwrap();
        verify(&during, &tree, 0).unwrap();
        during.bulk_load(&tree, rows(3000), |_| {}).unwrap();
        verify(&during, &tree, 3000).unwrap();
    }
}

/// The last syncs of a close fail; what can be read says that the log is not needed, and the log gets another size.
#[test]
fn a_log_is_replaced_only_when_the_clean_state_is_durable() {
    let larger = EngineConfig { redo_capacity_bytes: 8 << 20, ..small() };
    let mut clean = 0;
    for seed in 0..3 {
        for nth in 4..9 {
            let (disk, mut worker) = (MemoryDisk::with_power_cuts(seed), Worker::new(SEED, 0));
            let db = create(&disk);
            work(&db, &mut worker, 20);
            disk.fail_nth(Some(DiskCall::Sync), nth, Fault::Io);
            let closed = db.close();
            disk.heal();
            drop(db);
            let db = Database::open_on(on(&disk), larger.clone()).unwrap();
            clean += u64::from(closed.is_err() && db.stats().redo.capacity_bytes == 8 << 20);
            check_all(&open(&disk.power_cut()).unwrap(), &worker);
        }
    }
    assert!(clean > 0, "no close failed so late");
}
