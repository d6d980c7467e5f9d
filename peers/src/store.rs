//! The trait of every store: single reads, scans, and transactions.

use std::path::Path;
use std::sync::Arc;

use flifo_admission::Policy;

use crate::row::Row;

/// How durable a commit is when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Durability {
    /// No promise: each store's weakest setting.
    None,
    /// It survives a crash of the process; a power cut may lose it.
    Written,
    /// It survives a power cut.
    Synced,
}

impl Durability {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Durability::None => "none",
            Durability::Written => "written",
            Durability::Synced => "synced",
        }
    }

    pub(crate) fn promise(self) -> &'static str {
        match self {
            Durability::None => "no promise: each peer's weakest setting",
            Durability::Written => "a commit survives a crash of the process, not a power cut",
            Durability::Synced => "a commit survives a power cut",
        }
    }
}

/// The settings of every store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    /// Memory for pages or blocks, bytes: more than all rows take.
    pub(crate) cache_bytes: u64,
    /// Threads that will have a handle, at the most.
    pub(crate) threads: u32,
    /// flifo's.
    pub(crate) policy: Policy,
    /// Maximum number of threads running at once in flifo.
    pub(crate) thread_concurrency: u32,
}

/// Why an operation did not happen.
#[derive(Debug)]
pub(crate) enum Fail {
    /// A conflict with another transaction: retried and counted.
    Conflict,
    /// The store said no; it may have happened or not.
    Store(String),
}

impl Fail {
    pub(crate) fn store(error: impl std::fmt::Display) -> Self {
        Fail::Store(error.to_string())
    }
}

/// The result of an operation.
pub(crate) type Done<T = ()> = Result<T, Fail>;

/// Takes a row of a scan: key (8 bytes, big-endian) and value.
pub(crate) type Each<'a> = dyn FnMut(u64, &[u8]) + 'a;
/// What a transaction does. It may be called again if the store tries again by itself.
pub(crate) type Work<'a> = dyn FnMut(&mut dyn Txn) -> Done + 'a;

/// A database that is open.
pub(crate) trait Store: Send + Sync {
    /// What one thread works with.
    fn handle(&self) -> Done<Box<dyn Handle>>;

    /// Between two cells: brings the background's work to rest, within bounds, so that the next peer does not pay for
    /// it.
    fn settle(&self) -> Done {
        Ok(())
    }

    /// Makes everything durable. What can be closed is closed; no handle is there any more.
    fn close(&self) -> Done {
        Ok(())
    }
}

/// One thread's access.
pub(crate) trait Handle: Send {
    /// One read by itself; false if there is no such row.
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool>;
    /// One scan by itself: up to `limit` rows from `from`, ascending. Ids are dense, so a store may read only `limit`
    /// ids from `from` on, like a scan of a known range: a complete scan has the same rows.
    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done;
    /// One try of a transaction: all of `work`, committed as durably as the settings say, or no part of it.
    fn transact(&mut self, work: &mut Work<'_>) -> Done;
}

/// A transaction that writes.
pub(crate) trait Txn {
    /// Reads a row.
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool>;
    /// Reads a row for update: it does not change before the commit, or the commit fails.
    fn get_for_update(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        self.get(id, value)
    }
    /// Reads up to `limit` rows from `from`, ascending; see [`Handle::scan`].
    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done;
    /// Gives a row that is there another value.
    fn update(&mut self, id: u64, value: &[u8]) -> Done;
    /// Adds a row that is not there.
    fn insert(&mut self, id: u64, value: &[u8]) -> Done;
    /// Removes a row.
    fn delete(&mut self, id: u64) -> Done;
}

/// What the output says of a peer.
pub(crate) struct About {
    pub(crate) name: &'static str,
    /// The versions of the crate and of the library that it wraps, as far as known.
    pub(crate) version: fn() -> String,
    /// The setting behind each durability, or why there is none.
    pub(crate) none: Setting,
    pub(crate) written: Setting,
    pub(crate) synced: Setting,
    /// How transactions that write get by each other.
    pub(crate) writers: &'static str,
    /// Where rows lie in memory.
    pub(crate) memory: &'static str,
    /// How rows are loaded.
    pub(crate) load: &'static str,
    /// The actions between two cells.
    pub(crate) settle: &'static str,
    /// Why its transactions cannot scan, if they cannot.
    pub(crate) no_scans: Option<&'static str>,
}

/// A setting, or why there is none of that promise.
pub(crate) type Setting = Result<&'static str, &'static str>;

impl About {
    pub(crate) fn setting(&self, durability: Durability) -> Setting {
        match durability {
            Durability::None => self.none,
            Durability::Written => self.written,
            Durability::Synced => self.synced,
        }
    }
}

/// Fills an empty directory.
pub(crate) type Load = fn(&Path, &Settings, &mut dyn Iterator<Item = Row>) -> Done<Loaded>;

/// Opens a loaded database: that may take a close and another open, which do not count as load time.
pub(crate) type Loaded = Box<dyn FnOnce() -> Done<Arc<dyn Store>>>;

/// A loaded database that is already open.
pub(crate) fn is_open(store: impl Store + 'static) -> Done<Loaded> {
    Ok(Box::new(move || Ok(Arc::new(store))))
}

/// The functions of a store's file.
#[derive(Clone, Copy)]
pub(crate) struct Driver {
    pub(crate) about: &'static About,
    /// Makes a database in an empty directory and fills it with rows in ascending order of their ids, which are durable
    /// when it returns.
    pub(crate) load: Load,
    /// Opens it again.
    pub(crate) open: fn(&Path, &Settings) -> Done<Arc<dyn Store>>,
}

/// The version of a crate, as `Cargo.lock` has it.
pub(crate) fn crate_version(name: &str) -> String {
    let package = format!("name = \"{name}\"");
    let mut lines = include_str!("../Cargo.lock").lines().skip_while(|line| *line != package).skip(1);
    let version = lines.next().and_then(|line| line.split('"').nth(1));
    version.unwrap_or("unknown").to_owned()
}
