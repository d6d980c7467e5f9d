//! A simulated disk in memory: faults on chosen calls, latency, power cuts; all from a seed.
//!
//! With power cuts ([`MemoryDisk::with_power_cuts`]) a file keeps, with its content, the durable part and the writes
//! since the last sync. [`MemoryDisk::power_cut`] returns the disk after the power cut: each write since the last sync
//! is present, absent, or torn between 512-byte sectors, and a name created since the last `sync_directory` is present
//! or absent. A failed sync does the same to the writes before it: they look well until the power fails, and no later
//! sync makes them durable. Linux does the same with failed write-back. A length is kept: it is in the file system's
//! journal, which keeps it or stops the file system.

mod content;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::Duration;

use flifo_base::{lock, read, write};
use rustix::io::Errno;

use content::{Change, FileContent, Random, SECTOR_BYTES};

use super::{ALIGNMENT_BYTES, Disk, DiskFile, DiskLock, SharedWords, assert_aligned};

/// The kind of a call on a disk or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named after the methods of Disk and DiskFile")]
pub enum DiskCall {
    Open,
    Create,
    Remove,
    Names,
    SyncDirectory,
    Lock,
    Read,
    Write,
    Sync,
    Allocate,
    Bytes,
    Map,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// EIO.
    Io,
    /// ENOSPC.
    DiskFull,
    /// EACCES.
    NotPermitted,
    /// EMFILE.
    OutOfFileDescriptors,
    /// EOPNOTSUPP.
    Unsupported,
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Fault::Io => Errno::IO,
            Fault::DiskFull => Errno::NOSPC,
            Fault::NotPermitted => Errno::ACCESS,
            Fault::OutOfFileDescriptors => Errno::MFILE,
            Fault::Unsupported => Errno::OPNOTSUPP,
        }
        .into()
    }
}

/// A directory of files in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    directory: Mutex<Directory>,
    plan: Mutex<Plan>,
    power_cuts: bool,
    /// Files that are open, and how many may be; 0: any number.
    open_files: AtomicUsize,
    open_files_max: AtomicUsize,
    /// Held shared by every change of a file, and exclusively by a power cut, so that all files are consistent in time.
    changes: RwLock<()>,
}

#[derive(Default)]
struct Directory {
    files: BTreeMap<String, Content>,
    /// Names made since the last `sync_directory`.
    unsynced: BTreeSet<String>,
    locks: BTreeSet<String>,
}

/// What goes wrong when, and how long things take.
#[derive(Default)]
struct Plan {
    random: Random,
    faults: Vec<PlannedFault>,
    calls: u64,
    read_latency: Duration,
    write_latency: Duration,
}

struct PlannedFault {
    call: Option<DiskCall>,
    /// Calls of that kind until it strikes.
    countdown: u64,
    fault: Fault,
    lasting: bool,
}

type Content = Arc<RwLock<FileContent>>;

impl MemoryDisk {
    /// Creates a disk whose power can be cut; it keeps every file twice.
    pub fn with_power_cuts(seed: u64) -> Self {
        let plan = Mutex::new(Plan { random: Random::new(seed), ..Plan::default() });
        MemoryDisk { shared: Arc::new(Shared { plan, power_cuts: true, ..Shared::default() }) }
    }

    /// Makes the `n`-th call from now (1 is the next) fail, of one kind or of any.
    pub fn fail_nth(&self, call: Option<DiskCall>, n: u64, fault: Fault) {
        self.plan_fault(PlannedFault { call, countdown: n, fault, lasting: false });
    }

    /// Makes the `n`-th call from now and all later ones fail, of one kind or of any.
    pub fn fail_from(&self, call: Option<DiskCall>, n: u64, fault: Fault) {
        self.plan_fault(PlannedFault { call, countdown: n, fault, lasting: true });
    }

    /// Removes the pending and the repeating faults.
    pub fn heal(&self) {
        lock(&self.shared.plan).faults.clear();
    }

    /// The number of planned faults that have not struck yet.
    pub fn faults_to_come(&self) -> usize {
        lock(&self.shared.plan).faults.iter().filter(|planned| planned.countdown > 0).count()
    }

    /// Limits the number of open files, as `ulimit -n` does; 0: no limit.
    pub fn set_open_files_max(&self, files: usize) {
        self.shared.open_files_max.store(files, Ordering::Relaxed);
    }

    /// The number of open files.
    pub fn open_files(&self) -> usize {
        self.shared.open_files.load(Ordering::Relaxed)
    }

    /// Makes every read and every write take at least this long.
    pub fn set_latency(&self, read: Duration, write: Duration) {
        let mut plan = lock(&self.shared.plan);
        (plan.read_latency, plan.write_latency) = (read, write);
    }

    /// Calls so far, including failed ones.
    pub fn calls(&self) -> u64 {
        lock(&self.shared.plan).calls
    }

    /// Flips one bit of a file, as a failing medium would.
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u32) {
        let content = Arc::clone(&lock(&self.shared.directory).files[name]);
        let mut content = write(&content);
        content.bytes[offset as usize] ^= 1 << bit;
        if let Some(byte) = content.durable.get_mut(offset as usize) {
            *byte ^= 1 << bit;
        }
    }

    /// Makes reads of one byte of a file fail until it is written, as a failing medium would.
    pub fn make_unreadable(&self, name: &str, offset: u64) {
        let content = Arc::clone(&lock(&self.shared.directory).files[name]);
        let mut content = write(&content);
        content.unreadable.insert(offset as usize);
    }

    /// The disk as it is after a power cut now. This disk continues unharmed, so one history can be cut at many points.
    /// Panics without [`MemoryDisk::with_power_cuts`].
    pub fn power_cut(&self) -> MemoryDisk {
        assert!(self.shared.power_cuts, "a disk made without power cuts");
        let _change = write(&self.shared.changes);
        let directory = lock(&self.shared.directory);
        let mut random = lock(&self.shared.plan).random.clone();
        let mut files = BTreeMap::new();
        for (name, content) in &directory.files {
            if directory.unsynced.contains(name) && random.below(2) == 0 {
                continue;
            }
            let content = read(content);
            let mut durable = content.durable.clone();
            for change in content.unsynced.iter().chain(&content.stored()) {
                change.maybe_apply(&mut durable, &mut random);
            }
            let unreadable = content.unreadable.clone();
            let found = FileContent { bytes: durable.clone(), durable, unreadable, ..FileContent::default() };
            files.insert(name.clone(), Arc::new(RwLock::new(found)));
        }
        let plan = Mutex::new(Plan { random, ..Plan::default() });
        let directory = Mutex::new(Directory { files, ..Directory::default() });
        MemoryDisk { shared: Arc::new(Shared { directory, plan, power_cuts: true, ..Shared::default() }) }
    }

    /// The disk as it is after a kill of the process now: every write is there, and no more of it is durable than
    /// before. This disk continues unharmed, as with [`MemoryDisk::power_cut`].
    pub fn kill(&self) -> MemoryDisk {
        let _change = write(&self.shared.changes);
        let directory = lock(&self.shared.directory);
        let copy = |(name, content): (&String, &Content)| {
            let content = read(content);
            let mut unsynced = content.unsynced.clone();
            unsynced.extend(content.stored());
            let (bytes, durable) = (content.now(), content.durable.clone());
            let unreadable = content.unreadable.clone();
            let found = FileContent { bytes, durable, unsynced, unreadable, mapped: None };
            (name.clone(), Arc::new(RwLock::new(found)))
        };
        let (files, unsynced) = (directory.files.iter().map(copy).collect(), directory.unsynced.clone());
        let plan = Mutex::new(Plan { random: lock(&self.shared.plan).random.clone(), ..Plan::default() });
        let directory = Mutex::new(Directory { files, unsynced, locks: BTreeSet::new() });
        let power_cuts = self.shared.power_cuts;
        MemoryDisk { shared: Arc::new(Shared { directory, plan, power_cuts, ..Shared::default() }) }
    }

    fn plan_fault(&self, fault: PlannedFault) {
        assert!(fault.countdown > 0, "the next call is number 1");
        lock(&self.shared.plan).faults.push(fault);
    }

    fn open_for(&self, name: &str, alignment_bytes: usize) -> io::Result<Box<dyn DiskFile>> {
        self.shared.call(DiskCall::Open)?;
        let descriptor = Descriptor::new(&self.shared)?;
        let directory = lock(&self.shared.directory);
        let content = directory.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(self.file(content, alignment_bytes, descriptor))
    }

    fn create_for(&self, name: &str, alignment_bytes: usize) -> io::Result<Box<dyn DiskFile>> {
        self.shared.call(DiskCall::Create)?;
        let descriptor = Descriptor::new(&self.shared)?;
        let mut directory = lock(&self.shared.directory);
        if directory.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Content::default();
        directory.files.insert(name.to_owned(), Arc::clone(&content));
        directory.unsynced.insert(name.to_owned());
        Ok(self.file(&content, alignment_bytes, descriptor))
    }

    fn file(&self, content: &Content, alignment_bytes: usize, descriptor: Descriptor) -> Box<dyn DiskFile> {
        let (shared, content) = (Arc::clone(&self.shared), Arc::clone(content));
        Box::new(MemoryFile { shared, content, alignment_bytes, _descriptor: descriptor })
    }
}

impl Shared {
    /// Counts the call; fails if it was planned to.
    fn call(&self, call: DiskCall) -> io::Result<()> {
        let mut plan = lock(&self.plan);
        plan.calls += 1;
        let mut struck = None;
        for planned in &mut plan.faults {
            if planned.call.is_none_or(|of| of == call) {
                planned.countdown = planned.countdown.saturating_sub(1);
                if planned.countdown == 0 {
                    struck = struck.or(Some(planned.fault));
                }
            }
        }
        plan.faults.retain(|planned| planned.countdown > 0 || planned.lasting);
        struck.map_or(Ok(()), |fault| Err(fault.error()))
    }
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open_for(name, ALIGNMENT_BYTES)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.create_for(name, ALIGNMENT_BYTES)
    }

    fn open_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open_for(name, 1)
    }

    fn create_cached(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.create_for(name, 1)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.shared.call(DiskCall::Remove)?;
        let mut directory = lock(&self.shared.directory);
        directory.unsynced.remove(name);
        directory.files.remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.shared.call(DiskCall::Names)?;
        Ok(lock(&self.shared.directory).files.keys().cloned().collect())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.shared.call(DiskCall::SyncDirectory)?;
        lock(&self.shared.directory).unsynced.clear();
        Ok(())
    }

    fn lock(&self, name: &str) -> io::Result<Box<dyn DiskLock>> {
        self.shared.call(DiskCall::Lock)?;
        if !lock(&self.shared.directory).locks.insert(name.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { shared: Arc::clone(&self.shared), name: name.to_owned() }))
    }

    fn path(&self, name: &str) -> String {
        format!("memory:{name}")
    }

    fn direct_io(&self) -> bool {
        false
    }
}

struct MemoryLock {
    shared: Arc<Shared>,
    name: String,
}

impl DiskLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.shared.directory).locks.remove(&self.name);
    }
}

/// One of the files that may be open at a time.
struct Descriptor(Arc<Shared>);

impl Descriptor {
    fn new(shared: &Arc<Shared>) -> io::Result<Self> {
        let most = shared.open_files_max.load(Ordering::Relaxed);
        let open = shared.open_files.fetch_add(1, Ordering::Relaxed);
        let descriptor = Descriptor(Arc::clone(shared));
        match most == 0 || open < most {
            true => Ok(descriptor),
            false => Err(Fault::OutOfFileDescriptors.error()),
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

struct MemoryFile {
    shared: Arc<Shared>,
    content: Content,
    alignment_bytes: usize,
    _descriptor: Descriptor,
}

impl MemoryFile {
    fn change(&self, change: Change) {
        let _change = read(&self.shared.changes);
        let mut content = write(&self.content);
        change.apply(&mut content.bytes);
        if let Change::Write { offset, bytes } = &change {
            content.unreadable.retain(|at| !(*offset..offset + bytes.len()).contains(at));
        }
        if self.shared.power_cuts {
            content.unsynced.push(change);
        }
    }

    fn sleep(&self, latency: impl Fn(&Plan) -> Duration) {
        let latency = latency(&lock(&self.shared.plan));
        if !latency.is_zero() {
            thread::sleep(latency);
        }
    }
}

impl DiskFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.alignment_bytes, buf, offset);
        self.sleep(|plan| plan.read_latency);
        self.shared.call(DiskCall::Read)?;
        let content = read(&self.content);
        let offset = offset as usize;
        if content.unreadable.range(offset..offset + buf.len()).next().is_some() {
            return Err(Fault::Io.error());
        }
        let mapped;
        let bytes = match &content.mapped {
            Some(_) => {
                mapped = content.now();
                &mapped
            }
            None => &content.bytes,
        };
        let from = bytes.get(offset..offset + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(from);
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        assert_aligned(self.alignment_bytes, buf, offset);
        self.sleep(|plan| plan.write_latency);
        let called = self.shared.call(DiskCall::Write);
        // A write that fails has done any part of its work.
        let done = if called.is_ok() { buf.len() } else { torn(&self.shared, buf.len(), offset) };
        self.change(Change::Write { offset: offset as usize, bytes: buf[..done].to_vec() });
        called
    }

    fn sync(&self) -> io::Result<()> {
        let called = self.shared.call(DiskCall::Sync);
        let _change = read(&self.shared.changes);
        let mut content = write(&self.content);
        let FileContent { durable, unsynced, .. } = &mut *content;
        for change in mem::take(unsynced) {
            match (&called, &change) {
                (Ok(()), _) => change.apply(durable),
                (Err(_), Change::Length(_)) => unsynced.push(change),
                (Err(_), Change::Write { .. }) => {
                    change.maybe_apply(durable, &mut lock(&self.shared.plan).random);
                }
            }
        }
        called
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.shared.call(DiskCall::Allocate)?;
        self.change(Change::Length(bytes as usize));
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        self.shared.call(DiskCall::Bytes)?;
        Ok(read(&self.content).bytes.len() as u64)
    }

    /// Only one range of a file is ever mapped. Stores there are never durable: the engine does not sync such a file.
    fn map(&self, offset: u64, words: usize) -> io::Result<SharedWords> {
        self.shared.call(DiskCall::Map)?;
        let offset = offset as usize;
        let mut content = write(&self.content);
        if content.mapped.is_none() {
            let bytes = content.bytes.get(offset..offset + words * 8).ok_or(io::ErrorKind::UnexpectedEof)?;
            let words = bytes.as_chunks::<8>().0.iter().map(|word| AtomicU64::new(u64::from_ne_bytes(*word)));
            content.mapped = Some((offset, words.collect()));
        }
        let (at, mapped) = content.mapped.as_ref().expect("it was just mapped");
        assert_eq!((*at, mapped.len()), (offset, words), "another range was mapped before");
        Ok(SharedWords::in_memory(Arc::clone(mapped)))
    }
}

/// How many bytes of a failed write were written all the same.
fn torn(shared: &Shared, bytes: usize, offset: u64) -> usize {
    let before = offset as usize % SECTOR_BYTES;
    let sectors = (before + bytes) / SECTOR_BYTES;
    let whole = lock(&shared.plan).random.below(sectors as u64 + 1) as usize;
    (whole * SECTOR_BYTES).saturating_sub(before)
}

#[cfg(test)]
mod tests {
    use super::super::block::Block;
    use super::*;

    fn filled(byte: u8) -> Box<Block> {
        let mut block = Block::zeroed();
        block.bytes_mut().fill(byte);
        block
    }

    fn content(disk: &MemoryDisk, name: &str) -> Vec<u8> {
        let mut block = filled(0xee);
        disk.open(name).unwrap().read_at(block.bytes_mut(), 0).unwrap();
        block.bytes().to_vec()
    }

    fn synced_file(disk: &MemoryDisk) -> Box<dyn DiskFile> {
        let file = disk.create("f").unwrap();
        file.write_at(filled(1).bytes(), 0).unwrap();
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        file
    }

    #[test]
    fn only_the_planned_call_fails() {
        let disk = MemoryDisk::default();
        let file = synced_file(&disk);
        disk.fail_nth(Some(DiskCall::Write), 2, Fault::DiskFull);
        file.write_at(filled(2).bytes(), 0).unwrap();
        file.sync().unwrap();
        let error = file.write_at(filled(3).bytes(), 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        file.write_at(filled(4).bytes(), 0).unwrap();
        disk.fail_from(None, 1, Fault::Io);
        file.sync().unwrap_err();
        file.sync().unwrap_err();
        disk.heal();
        file.sync().unwrap();
    }

    #[test]
    fn a_failed_sync_drops_writes_and_no_length() {
        let mut dropped = 0;
        for seed in 0..10 {
            let disk = MemoryDisk::with_power_cuts(seed);
            let file = synced_file(&disk);
            file.allocate(8192).unwrap();
            file.write_at(filled(2).bytes(), 0).unwrap();
            disk.fail_nth(Some(DiskCall::Sync), 1, Fault::Io);
            file.sync().unwrap_err();
            file.sync().unwrap();
            let found = disk.power_cut();
            assert_eq!(found.open("f").unwrap().bytes().unwrap(), 8192);
            dropped += u32::from(content(&found, "f") != content(&disk, "f"));
        }
        assert!(dropped > 0);
    }

    #[test]
    fn synced_writes_survive_a_power_cut_and_others_in_part() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..40 {
            let disk = MemoryDisk::with_power_cuts(seed);
            let file = synced_file(&disk);
            assert_eq!(content(&disk.power_cut(), "f"), filled(1).bytes());
            file.write_at(filled(2).bytes(), 0).unwrap();
            let found = content(&disk.power_cut(), "f");
            assert!(found.chunks(SECTOR_BYTES).all(|sector| sector.iter().all(|&byte| byte == sector[0])));
            outcomes.insert(match found.iter().filter(|&&byte| byte == 2).count() {
                0 => "lost",
                4096 => "kept",
                _ => "torn",
            });
            assert_eq!(content(&disk, "f"), filled(2).bytes());
        }
        assert_eq!(outcomes.into_iter().collect::<Vec<_>>(), ["kept", "lost", "torn"]);
    }

    #[test]
    fn writes_before_a_failed_sync_stay_in_doubt() {
        let mut lost = 0;
        for seed in 0..40 {
            let disk = MemoryDisk::with_power_cuts(seed);
            let file = synced_file(&disk);
            file.write_at(filled(2).bytes(), 0).unwrap();
            disk.fail_nth(Some(DiskCall::Sync), 1, Fault::Io);
            file.sync().unwrap_err();
            file.sync().unwrap();
            lost += u32::from(content(&disk.power_cut(), "f") != filled(2).bytes());
        }
        assert!(0 < lost && lost < 40, "{lost} of 40");
    }

    #[test]
    fn a_seed_gives_the_same_disk_again() {
        let found = |seed| {
            let disk = MemoryDisk::with_power_cuts(seed);
            let file = synced_file(&disk);
            file.write_at(filled(2).bytes(), 0).unwrap();
            content(&disk.power_cut(), "f")
        };
        assert!((0..10).all(|seed| found(seed) == found(seed)));
    }
}
