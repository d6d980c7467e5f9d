//! Databases with damaged pages and logs whose checksums fit the damage, so that it passes them and reaches the code
//! that reads nodes, bitmaps, the catalog, versions, undo, and records of the log. Every operation on such a database
//! ends, with a result or with an error: no panic in any thread, no infinite loop, no allocation of a damaged size.
//!
//! `FLIFO_SEEDS` is the number of databases of each kind.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use common::{config, key, rows, session, value};
use flifo_engine::disk::{Disk as _, MemoryDisk};
use flifo_engine::page::{PageNo, seal, verify};
use flifo_engine::{CheckProgress, Database, EngineConfig, Error, Isolation, Result};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

const PAGE: usize = 4096;
const FIRST_PAGE_AT: u64 = 64 << 10;
const BLOCK: usize = 4096;
/// No thread needs this long for one of these databases; a debug build on a busy machine takes a second.
const HANG_TIMEOUT: Duration = Duration::from_secs(240);
/// More than the engine takes for itself with this configuration.
const LARGE_BYTES: usize = 48 << 20;

struct Largest;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller has it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller has it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Largest = Largest;

fn small() -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: 256 << 10,
        buffer_pool_instances: 1,
        rollback_segments: 2,
        // A row may be of a transaction that never was, and never ends.
        lock_wait_timeout: Duration::from_millis(50),
        ..config()
    }
}

/// What panicked, in whatever thread.
fn panics() -> &'static Mutex<Vec<String>> {
    static PANICS: OnceLock<Mutex<Vec<String>>> = OnceLock::new();
    PANICS.get_or_init(|| {
        std::panic::set_hook(Box::new(move |info| {
            eprintln!("{info}");
            panics().lock().unwrap().push(info.to_string());
        }));
        Mutex::default()
    })
}

/// A tree of two levels, and a table with versions that somebody still sees, and with a transaction that goes on.
fn fill(disk: &MemoryDisk, at_the_end: impl FnOnce(&Database)) {
    let db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
    let tree = db.create_tree("words").unwrap();
    db.bulk_load(&tree, rows(700), |_| {}).unwrap();
    db.set_property("note", b"of the user").unwrap();
    let table = db.create_table("accounts").unwrap();
    let (one, two) = (session(&db), session(&db));
    let mut txn = one.begin(Isolation::ReadCommitted);
    (0..300).for_each(|row| assert!(txn.insert(&table, &key(row), &value(row)).unwrap()));
    txn.commit().unwrap();
    let mut reader = two.begin(Isolation::RepeatableRead);
    reader.get(&table, &key(0), &mut Vec::new()).unwrap();
    for round in 1..4 {
        let mut txn = one.begin(Isolation::ReadCommitted);
        (0..60).for_each(|row| assert!(txn.update(&table, &key(row * round), &value(row + round)).unwrap()));
        txn.delete(&table, &key(299 - round)).unwrap();
        txn.commit().unwrap();
    }
    let mut unfinished = one.begin(Isolation::ReadCommitted);
    (100..120).for_each(|row| assert!(unfinished.update(&table, &key(row), &value(row + 1)).unwrap()));
    at_the_end(&db);
}

/// Closed, with undo that the next open purges and rolls back.
fn closed() -> &'static MemoryDisk {
    static DISK: OnceLock<MemoryDisk> = OnceLock::new();
    DISK.get_or_init(|| {
        let disk = MemoryDisk::default();
        fill(&disk, |db| db.close().unwrap());
        disk.kill()
    })
}

/// As a kill left it, with all of it in the log.
fn killed() -> &'static MemoryDisk {
    static DISK: OnceLock<MemoryDisk> = OnceLock::new();
    DISK.get_or_init(|| {
        let (disk, mut found) = (MemoryDisk::default(), None);
        fill(&disk, |_| found = Some(disk.kill()));
        found.unwrap()
    })
}

/// A file's bytes, to be changed and written back.
struct File {
    name: String,
    bytes: Vec<u8>,
    begin: usize,
}

impl File {
    fn read(disk: &MemoryDisk, name: &str) -> File {
        let file = disk.open(name).unwrap();
        let length = file.bytes().unwrap() as usize / BLOCK * BLOCK;
        let mut bytes = vec![0; length + BLOCK];
        let begin = bytes.as_ptr().align_offset(BLOCK);
        file.read_at(&mut bytes[begin..begin + length], 0).unwrap();
        bytes.truncate(begin + length);
        File { name: name.to_owned(), bytes, begin }
    }

    fn content(&mut self) -> &mut [u8] {
        &mut self.bytes[self.begin..]
    }

    fn write(mut self, disk: &MemoryDisk) {
        disk.open(&self.name).unwrap().write_at(self.content(), 0).unwrap();
    }
}

/// Random choices that are likely to hurt.
struct Harm(SplitMix64);

impl Harm {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    /// Changes a few bytes.
    fn bytes(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        for _ in 0..1 + self.below(3) {
            let at = self.below(bytes.len());
            let end = (at + 1 + self.below(8)).min(bytes.len());
            match self.below(5) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => bytes[at..end].fill([0, 0xff][self.below(2)]),
                3 => {
                    let from = self.below(bytes.len() - (end - at) + 1);
                    bytes.copy_within(from..from + (end - at), at);
                }
                _ => bytes[at..end].iter_mut().for_each(|byte| *byte = self.0.next_u64() as u8),
            }
        }
    }

    /// Damages one page, and makes its checksum fit.
    fn page(&mut self, page: &mut [u8], others: &[Vec<u8>]) {
        let no: [u8; 8] = page[8..16].try_into().unwrap();
        match self.below(8) {
            // Header, fences, slots: where it hurts most.
            0..3 => self.bytes(&mut page[32..64]),
            3 => self.bytes(&mut page[64..300]),
            4 => self.bytes(&mut page[PAGE / 2..PAGE - 8]),
            5 => self.bytes(&mut page[4..8]),
            6 => {
                // Numbers of pages, and other things of eight bytes, become those of another page.
                let other: [u8; 8] = others[self.below(others.len())][8..16].try_into().unwrap();
                let at = [24, 48, 48, 48, self.below(PAGE - 16)][self.below(5)];
                page[at..at + 8].copy_from_slice(&other);
            }
            _ => {
                let other = &others[self.below(others.len())];
                page.copy_from_slice(other);
                page[8..16].copy_from_slice(&no);
            }
        }
        seal(page);
    }

    /// Damages one to three pages that are in use.
    fn pages(&mut self, disk: &MemoryDisk) {
        let mut files: Vec<File> =
            (0..3).map(|index| File::read(disk, &format!("data{index}.flifo"))).collect();
        let mut used = Vec::new();
        for (index, file) in files.iter_mut().enumerate() {
            let content = file.content();
            for at in (FIRST_PAGE_AT as usize..content.len()).step_by(PAGE) {
                if content[at + 4] != 0 {
                    used.push((index, at, content[at..at + PAGE].to_vec()));
                }
            }
        }
        let others: Vec<Vec<u8>> = used.iter().map(|(.., page)| page.clone()).collect();
        for _ in 0..1 + self.below(3) {
            let (file, at, _) = &used[self.below(used.len())];
            self.page(&mut files[*file].content()[*at..*at + PAGE], &others);
        }
        files.into_iter().for_each(|file| file.write(disk));
    }

    /// Damages one to three frames of the log; how many there were.
    fn frames(&mut self, disk: &MemoryDisk) -> usize {
        let mut files: Vec<File> =
            (0..4).map(|index| File::read(disk, &format!("redo{index}.flifo"))).collect();
        let segment = files[0].content().len() - BLOCK;
        let mut stream: Vec<u8> =
            files.iter_mut().flat_map(|file| file.content()[BLOCK..].to_vec()).collect();
        let word = |stream: &[u8], at: usize| u32::from_le_bytes(stream[at..at + 4].try_into().unwrap());
        let (mut at, mut frames) = (BLOCK, Vec::new());
        while at + 16 < stream.len() {
            let length = word(&stream, at) as usize;
            if length == 0 || at + 16 + length > stream.len() {
                break;
            }
            assert_eq!(
                checksum(&stream[at..at + 16 + length], at as u64),
                word(&stream, at + 4),
                "frame {at}"
            );
            frames.push((at, length));
            at += (16 + length).next_multiple_of(8);
        }
        for _ in 0..1 + self.below(3) {
            let (at, length) = frames[self.below(frames.len())];
            let frame = &mut stream[at..at + 16 + length];
            // The first record's head, or anything.
            let end = if self.below(2) == 0 { 32.min(frame.len()) } else { frame.len() };
            self.bytes(&mut frame[16..end]);
            let checksum = checksum(frame, at as u64);
            frame[4..8].copy_from_slice(&checksum.to_le_bytes());
        }
        for (file, part) in files.iter_mut().zip(stream.chunks(segment)) {
            file.content()[BLOCK..].copy_from_slice(part);
        }
        files.into_iter().for_each(|file| file.write(disk));
        frames.len()
    }
}

fn checksum(frame: &[u8], lsn: u64) -> u32 {
    let head = [&lsn.to_le_bytes()[..], &frame[..4], &frame[8..16]].concat();
    crc32c::crc32c_append(crc32c::crc32c(&head), &frame[16..])
}

/// What came of the cases, by what it was.
type Counts = BTreeMap<String, u64>;

/// Does all there is to do with a database; how it ended.
fn exercise(disk: &MemoryDisk) -> Counts {
    let mut counts = Counts::new();
    let mut note = |what: &str, result: Result<()>| {
        let result = result.map_or_else(|error| kind(&error), |()| "fine".to_owned());
        *counts.entry(format!("{what}: {result}")).or_default() += 1;
    };
    let ignore = &mut |_: CheckProgress| {};
    let found = match Database::check_on(Arc::new(disk.kill()), small(), ignore) {
        Ok(report) => Ok(report.is_sound()),
        Err(error) => {
            note("check of the files", Err(error));
            Err(())
        }
    };
    if let Ok(sound) = found {
        *counts
            .entry(format!("check of the files: {}", if sound { "sound" } else { "damage" }))
            .or_default() += 1;
    }
    let mut note = |what: &str, result: Result<()>| {
        let result = result.map_or_else(|error| kind(&error), |()| "fine".to_owned());
        *counts.entry(format!("{what}: {result}")).or_default() += 1;
    };
    match Database::open_on(Arc::new(disk.kill()), small()) {
        Err(error) => note("open", Err(error)),
        Ok(db) => {
            note("read", read_all(&db));
            note("check", db.check(ignore).map(drop));
            note("write", write_some(&db));
            note("close", db.close());
        }
    }
    counts
}

fn read_all(db: &Database) -> Result<()> {
    let session = session(db);
    let mut found = Vec::new();
    let mut result = Ok(());
    // An unreadable row says nothing about the next one.
    let mut first = |read: Result<()>| result = std::mem::replace(&mut result, Ok(())).and(read);
    for name in db.tree_names()? {
        let read = || {
            let (tree, statement) = (db.tree(&name)?, session.statement()?);
            (0..700).step_by(13).try_for_each(|row| statement.get(&tree, &key(row), &mut found).map(drop))?;
            statement.scan(&tree, Bound::Unbounded, Bound::Unbounded, |_, _| ControlFlow::Continue(()))?;
            db.check_tree(&tree).map(drop)
        };
        first({ read }());
    }
    for name in db.table_names()? {
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
            let mut txn = session.begin(isolation);
            let table = db.table(&name);
            let mut found = Vec::new();
            first(table.and_then(|table| {
                (0..300).step_by(7).try_for_each(|row| txn.get(&table, &key(row), &mut found).map(drop))?;
                txn.scan(&table, Bound::Unbounded, Bound::Unbounded, |_, _| ControlFlow::Continue(()))?;
                db.check_table(&table).map(drop)
            }));
        }
    }
    db.property("note")?;
    result
}

fn write_some(db: &Database) -> Result<()> {
    let session = session(db);
    let (tree, table) = (db.tree("words")?, db.table("accounts")?);
    let mut result = Ok(());
    let mut first = |wrote: Result<()>| result = std::mem::replace(&mut result, Ok(())).and(wrote);
    for row in 0..60 {
        let statement = session.statement()?;
        first(statement.upsert(&tree, &key(row * 11), &value(row + 3)).map(drop));
        first(statement.delete(&tree, &key(row * 7)).map(drop));
        first(statement.insert(&tree, &key(10_000 + row), &[5; 600]).map(drop));
        drop(statement);
        let mut txn = session.begin(Isolation::ReadCommitted);
        let wrote = txn.upsert(&table, &key(row * 5), &value(row)).map(drop);
        first(
            wrote
                .and_then(|()| txn.delete(&table, &key(row * 3)).map(drop))
                .and_then(|()| if row % 4 == 0 { txn.rollback() } else { txn.commit() }),
        );
    }
    drop((tree, table));
    first(db.create_table("another").map(drop));
    first(db.drop_tree("words"));
    result
}

/// The error's name; and each is one line.
fn kind(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.contains('\n') && text.len() < 1000, "{text}");
    let name = format!("{error:?}");
    name.split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}

/// All cases of a kind, and what went wrong in them.
#[derive(Default)]
struct Cases {
    counts: Counts,
    wrong: Vec<String>,
}

impl Cases {
    /// Runs one, and sees to it that it ends and that nobody panics.
    fn run(&mut self, seed: u64, kind: &str, disk: MemoryDisk) {
        let (done, ended) = channel();
        let thread = std::thread::spawn(move || {
            let counts = exercise(&disk);
            let _ = done.send(());
            counts
        });
        let case = format!("{kind}, seed {seed}");
        if ended.recv_timeout(HANG_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{case}: it never ends");
            self.wrong.push(format!("{case}: it never ends"));
            return;
        }
        let outcome = thread.join().unwrap_or_default();
        outcome.into_iter().for_each(|(what, times)| *self.counts.entry(what).or_default() += times);
        let panicked = std::mem::take(&mut *panics().lock().unwrap());
        self.wrong.extend(panicked.into_iter().map(|panic| format!("{case}: {panic}")));
        let largest = LARGEST.swap(0, Ordering::Relaxed);
        if largest > LARGE_BYTES {
            self.wrong.push(format!("{case}: an allocation of {largest} bytes"));
        }
    }
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<u64>().expect("a number"));
    let first = number("FLIFO_FIRST_SEED").unwrap_or(0);
    first..first + number("FLIFO_SEEDS").unwrap_or(default)
}

#[test]
fn damaged_databases_are_read_checked_and_written_without_harm() {
    panics();
    for undamaged in [closed(), killed()] {
        let counts = exercise(undamaged);
        let is_well = |what: &String| what.ends_with("fine") || what.ends_with("sound");
        assert!(counts.keys().all(is_well), "{counts:?}");
    }
    let (mut of_pages, mut of_frames, mut of_both) = (Cases::default(), Cases::default(), Cases::default());
    for seed in seeds(6) {
        let mut harm = Harm(SplitMix64::seed_from_u64(seed));
        let disk = closed().kill();
        harm.pages(&disk);
        of_pages.run(seed, "pages", disk);
        let disk = killed().kill();
        assert!(harm.frames(&disk) > 300);
        of_frames.run(seed, "frames", disk);
        let disk = killed().kill();
        harm.pages(&disk);
        of_both.run(seed, "pages to be recovered", disk);
    }
    for (kind, cases) in [("pages", &of_pages), ("frames", &of_frames), ("pages to be recovered", &of_both)] {
        println!("{kind}: {:#?}", cases.counts);
    }
    let wrong: Vec<&String> =
        [&of_pages, &of_frames, &of_both].iter().flat_map(|cases| &cases.wrong).collect();
    assert!(wrong.is_empty(), "{} went wrong: {wrong:#?}", wrong.len());
    assert!(of_pages.counts.contains_key("check of the files: damage"), "the damage is never met");
    let refused = of_frames.counts.keys().any(|what| what.starts_with("open: Corrupt"));
    assert!(refused, "the log's damage is never met");
}

/// What the test relies on: with the checksum made anew, damage passes the page's verification often enough.
#[test]
fn damage_gets_past_the_checksum() {
    let mut file = File::read(closed(), "data0.flifo");
    let content = file.content();
    let used: Vec<Vec<u8>> = (FIRST_PAGE_AT as usize..content.len())
        .step_by(PAGE)
        .map(|at| content[at..at + PAGE].to_vec())
        .filter(|page| page[4] != 0)
        .collect();
    let (mut harm, mut passed) = (Harm(SplitMix64::seed_from_u64(1)), 0);
    for _ in 0..500 {
        let mut page = used[harm.below(used.len())].clone();
        let no = PageNo(u64::from_le_bytes(page[8..16].try_into().unwrap()));
        harm.page(&mut page, &used);
        passed += u32::from(verify(&page, no).is_ok());
    }
    assert!((50..500).contains(&passed), "{passed} of 500");
}
