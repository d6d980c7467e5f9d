//! Creating and opening a tablespace: checks that the files belong together, and that none is missing.
//!
//! The order of creation distinguishes an incomplete database from a damaged one: first data file 0, durably, with the
//! state *new*; then the other data files; then, by the caller, the first pages; *clean* comes last. A database in an
//! earlier state is [`Error::HalfCreated`].
//!
//! # Locks
//! A process that has the database open holds the lock of `flifo.lock`, and the locks of all data files. The first ends
//! with the process. But page writes that the kernel has accepted (`many.rs`) may still be in progress then, and would
//! overwrite the pages that a recovery writes. Each of them keeps its file open, and so that file's lock. A process
//! that only reads holds shared locks of the same files, or of the data files alone if the lock file is missing or
//! unreadable.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::block::Block;
use super::header::{BadHeader, FORMAT_VERSION, HEADER_AREA_BYTES, Header};
use super::state::{Checkpoint, Condition, EPOCH_MAX, State, StateBlocks, StateError};
use super::tablespace::{DataFile, Files};
use super::{Disk, DiskFile, DiskLock, Tablespace};
use crate::error::{Error, Result};

const LOCK_NAME: &str = "flifo.lock";
/// The maximum wait for the last writes of a dead process; after that they count as hanging.
const LAST_WRITES_WAIT: Duration = if cfg!(test) { Duration::from_secs(1) } else { Duration::from_secs(10) };
/// The interval between two polls for these writes.
const LAST_WRITES_POLL: Duration = Duration::from_millis(5);

fn data_name(index: u32) -> String {
    format!("data{index}.flifo")
}

fn data_index(name: &str) -> Option<u32> {
    let index = name.strip_prefix("data")?.strip_suffix(".flifo")?.parse().ok()?;
    // Another program's file may have a name like "data007.flifo".
    (data_name(index) == name).then_some(index)
}

impl Tablespace {
    /// Whether `disk` has data files, of a complete database or not.
    pub fn exists(disk: &dyn Disk) -> Result<bool> {
        let names = disk.names().map_err(|source| Error::from_io("cannot list", disk.path(""), source))?;
        Ok(names.iter().any(|name| data_index(name).is_some()))
    }

    /// Creates a tablespace of `files` data files on the empty disk `disk`. It is *new* until the first
    /// [`Tablespace::mark_clean`]. A failed creation leaves no files.
    pub fn create(disk: &dyn Disk, files: u32, page_size: usize) -> Result<Self> {
        check_vacant(disk)?;
        let lock = take_lock(disk)?;
        check_vacant(disk)?;
        let first = Header {
            database: Uuid::new_v4(),
            page_size: u32::try_from(page_size).expect("a page size that was checked"),
            files,
            index: 0,
            stripe_pages: Self::STRIPE_PAGES as u32,
        };
        create_files(disk, &first, lock).inspect_err(|_| Self::remove(disk))
    }

    /// Removes the data files of a database that could not be created, as far as possible.
    pub fn remove(disk: &dyn Disk) {
        let names = disk.names().unwrap_or_default();
        for name in names.iter().filter(|name| data_index(name).is_some()) {
            // The error that led to the removal is the one to report.
            let _ = disk.remove(name);
        }
        let _ = disk.sync_directory();
    }

    /// Opens the tablespace on `disk`, if it is complete; [`Tablespace::was_clean`] says whether it needs recovery.
    pub fn open(disk: &dyn Disk) -> Result<Self> {
        let directory = disk.path("");
        if !Self::exists(disk)? {
            return Err(Error::NoDatabase { path: directory });
        }
        let lock = take_lock(disk)?;
        let (mut found, bad) = find_files(disk)?;
        if is_new(&found) {
            return Err(Error::HalfCreated { path: directory });
        }
        if let Some(bad) = bad {
            return Err(bad);
        }
        let reference = reference(&found);
        check_belonging(disk, &found, &reference)?;
        let (blocks, state) = read_state(disk, &found[&0])?;
        if state.epoch == EPOCH_MAX {
            // What this opening would write could not be read by the next one.
            let what = "its last opening's number is the greatest there can be".to_owned();
            return Err(Error::CorruptHeader { path: disk.path(&data_name(0)), what });
        }
        let data = (0..reference.files).filter_map(|index| found.remove(&index)).map(|found| found.file);
        let space = Self::assemble(disk, &reference, data.collect(), lock, blocks, &state);
        space.check_lengths()?;
        if state.condition == Condition::Open {
            space.find_growth()?;
        }
        Ok(space)
    }

    fn assemble(
        disk: &dyn Disk,
        header: &Header,
        data: Vec<Box<dyn DiskFile>>,
        lock: Box<dyn DiskLock>,
        blocks: StateBlocks,
        state: &State,
    ) -> Self {
        Tablespace {
            directory: disk.path(""),
            paths: (0..header.files).map(|index| disk.path(&data_name(index))).collect(),
            page_size: header.page_size as usize,
            files: RwLock::new(Some(Files {
                // What a killed process wrote and did not sync can be read, and is lost with the next power cut.
                data: data
                    .into_iter()
                    .map(|file| DataFile::new(file, state.condition == Condition::Clean))
                    .collect(),
                _lock: lock,
            })),
            writing: RwLock::default(),
            state: Mutex::new(blocks),
            database: header.database,
            was_clean: state.condition == Condition::Clean,
            is_open: AtomicBool::new(state.condition == Condition::New),
            ended: AtomicBool::new(false),
            checkpoint: Mutex::new(state.checkpoint),
            durable_log: AtomicU64::new(state.durable_log),
            epoch: AtomicU32::new(state.epoch + 1),
            growing: Mutex::default(),
            pages: AtomicU64::new(state.pages),
            synced_pages: AtomicU64::new(state.pages),
            catalog_root: AtomicU64::new(state.catalog_root),
            syncs_begun: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            stopped: OnceLock::new(),
        }
    }

    /// The data files may have grown since their number of pages was last written down.
    fn find_growth(&self) -> Result<()> {
        let least = self.lengths()?.into_iter().map(|(_, bytes)| bytes).min();
        let least = least.unwrap_or(0).saturating_sub(HEADER_AREA_BYTES);
        let rows = least / (Self::STRIPE_PAGES * self.page_size as u64);
        self.pages.fetch_max(rows * self.row_pages(), Ordering::AcqRel);
        Ok(())
    }

    fn check_lengths(&self) -> Result<()> {
        let bytes_expected = self.file_bytes(self.pages());
        match self.lengths()?.into_iter().find(|&(_, bytes)| bytes < bytes_expected) {
            None => Ok(()),
            Some((path, bytes)) => Err(Error::TruncatedDataFile { path, bytes, bytes_expected }),
        }
    }
}

/// Refuses a directory with anything in it that creation did not put there.
fn check_vacant(disk: &dyn Disk) -> Result<()> {
    let path = disk.path("");
    let names = disk.names().map_err(|source| Error::from_io("cannot list", &*path, source))?;
    if names.iter().any(|name| data_index(name).is_some()) {
        return Err(Error::DatabaseExists { path });
    }
    // The root of a fresh ext4 file system has a lost+found.
    match names.iter().find(|name| *name != LOCK_NAME && *name != "lost+found") {
        None => Ok(()),
        Some(other) => {
            Err(Error::NotADatabase { path, what: format!("it holds other files, such as '{other}'") })
        }
    }
}

fn take_lock(disk: &dyn Disk) -> Result<Box<dyn DiskLock>> {
    disk.lock(LOCK_NAME).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => Error::InUse { path: disk.path("") },
        // The whole file system, not the lock alone.
        io::ErrorKind::ReadOnlyFilesystem => Error::from_io("cannot write to", disk.path(""), source),
        _ => Error::from_io("cannot lock", disk.path(LOCK_NAME), source),
    })
}

fn create_files(disk: &dyn Disk, first: &Header, lock: Box<dyn DiskLock>) -> Result<Tablespace> {
    let data0 = create_file(disk, first)?;
    let state = State {
        condition: Condition::New,
        pages: 0,
        catalog_root: 0,
        checkpoint: Checkpoint::default(),
        epoch: 0,
        durable_log: 0,
    };
    let blocks = StateBlocks::create(&*data0, first.database, &state).map_err(|error| match error {
        StateError::Write(source) | StateError::Sync(source) => creation_error(disk, 0, source),
    })?;
    let sync_names =
        || disk.sync_directory().map_err(|source| Error::from_io("cannot sync", disk.path(""), source));
    sync_names()?;
    let mut data = vec![data0];
    for index in 1..first.files {
        data.push(create_file(disk, &Header { index, ..*first })?);
    }
    for (index, file) in (0..).zip(&data) {
        lock_file(disk, &data_name(index), &**file)?;
    }
    sync_names()?;
    Ok(Tablespace::assemble(disk, first, data, lock, blocks, &state))
}

fn create_file(disk: &dyn Disk, header: &Header) -> Result<Box<dyn DiskFile>> {
    let create = || {
        let file = disk.create(&data_name(header.index))?;
        file.allocate(HEADER_AREA_BYTES)?;
        file.write_at(header.encode().bytes(), 0)?;
        file.sync()?;
        Ok(file)
    };
    create().map_err(|source| creation_error(disk, header.index, source))
}

fn creation_error(disk: &dyn Disk, index: u32, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::DiskFull { bytes_needed: HEADER_AREA_BYTES, path: disk.path("") }
        }
        _ => Error::from_io("cannot create", disk.path(&data_name(index)), source),
    }
}

/// Locks a data file, once what a process that is gone was writing to it has ended. The caller has the database's lock.
fn lock_file(disk: &dyn Disk, name: &str, file: &dyn DiskFile) -> Result<()> {
    let begun = Instant::now();
    loop {
        match file.lock() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(Error::from_io("cannot lock", disk.path(name), error));
            }
            Err(_) if begun.elapsed() < LAST_WRITES_WAIT => std::thread::sleep(LAST_WRITES_POLL),
            Err(_) => return Err(Error::InUse { path: disk.path(name) }),
            Ok(()) => return Ok(()),
        }
    }
}

/// A data file that was found, with what its header says.
struct FoundFile {
    file: Box<dyn DiskFile>,
    header: Header,
}

/// Opens every existing data file and reads its header; also returns the first defect.
fn find_files(disk: &dyn Disk) -> Result<(BTreeMap<u32, FoundFile>, Option<Error>)> {
    let names = disk.names().map_err(|source| Error::from_io("cannot list", disk.path(""), source))?;
    let indices: Vec<u32> = names.iter().filter_map(|name| data_index(name)).collect();
    let mut found = BTreeMap::new();
    let mut bad = None;
    for &index in &indices {
        let name = data_name(index);
        let file =
            disk.open(&name).map_err(|source| Error::from_io("cannot open", disk.path(&name), source))?;
        lock_file(disk, &name, &*file)?;
        let bytes =
            file.bytes().map_err(|source| Error::from_io("cannot examine", disk.path(&name), source))?;
        // Every database that was created to the end has pages.
        if indices == [0] && bytes <= HEADER_AREA_BYTES {
            return Err(Error::HalfCreated { path: disk.path("") });
        }
        match read_header(disk.path(&name), &*file, bytes) {
            Ok(header) => drop(found.insert(index, FoundFile { file, header })),
            Err(error) => drop(bad.get_or_insert(error)),
        }
    }
    Ok((found, bad))
}

fn read_header(path: String, file: &dyn DiskFile, bytes: u64) -> Result<Header> {
    if bytes < HEADER_AREA_BYTES {
        return Err(Error::TruncatedDataFile { path, bytes, bytes_expected: HEADER_AREA_BYTES });
    }
    let mut block = Block::zeroed();
    if let Err(source) = file.read_at(block.bytes_mut(), 0) {
        return Err(Error::from_io("cannot read", path, source));
    }
    let corrupt = |path: String, what: &str| Error::CorruptHeader { path, what: what.to_owned() };
    Header::decode(&block).map_err(|bad| match bad {
        BadHeader::Empty => corrupt(path, "it has only zeros"),
        BadHeader::Checksum => corrupt(path, "its checksum does not fit"),
        BadHeader::Values => corrupt(path, "it has impossible values"),
        BadHeader::Magic => {
            Error::NotADatabase { path, what: "the file does not begin as a data file does".to_owned() }
        }
        BadHeader::Version(found) => Error::FormatVersion { path, found, supported: FORMAT_VERSION },
    })
}

/// Whether data file 0 says that the creation did not get to its end.
fn is_new(found: &BTreeMap<u32, FoundFile>) -> bool {
    found.get(&0).is_some_and(|first| {
        let state = StateBlocks::open(&*first.file, first.header.database);
        matches!(state, Ok(Some((_, state))) if state.condition == Condition::New)
    })
}

/// The database that most of the files belong to, so that a single foreign file is reported even if it is file 0.
fn reference(found: &BTreeMap<u32, FoundFile>) -> Header {
    let votes = |database: Uuid| found.values().filter(|file| file.header.database == database).count();
    // On a tie the last one counts, so from the back: file 0.
    let most = found.values().rev().max_by_key(|file| votes(file.header.database));
    most.expect("there are data files").header
}

fn read_state(disk: &dyn Disk, first: &FoundFile) -> Result<(StateBlocks, State)> {
    let path = disk.path(&data_name(0));
    match StateBlocks::open(&*first.file, first.header.database) {
        Ok(Some(state)) => Ok(state),
        Ok(None) => Err(Error::CorruptHeader { path, what: "both state blocks are damaged".to_owned() }),
        Err(source) => Err(Error::from_io("cannot read", path, source)),
    }
}

/// Every data file of the database is there, in its own place, and no other.
fn check_belonging(disk: &dyn Disk, found: &BTreeMap<u32, FoundFile>, reference: &Header) -> Result<()> {
    for (&index, file) in found {
        let what = if file.header.database != reference.database {
            "it is of another database".to_owned()
        } else if file.header.index != index {
            format!("it is number {} of this database's data files", file.header.index)
        } else if file.header != (Header { index, ..*reference }) {
            "its page size or number of files differs from the others'".to_owned()
        } else {
            continue;
        };
        return Err(Error::MisplacedDataFile { path: disk.path(&data_name(index)), what });
    }
    match (0..reference.files).find(|index| !found.contains_key(index)) {
        None => Ok(()),
        Some(index) => {
            Err(Error::MissingDataFile { path: disk.path(&data_name(index)), index, files: reference.files })
        }
    }
}
