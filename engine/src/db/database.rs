//! A database: how it opens and closes, its trees and properties, its checkpoints.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use flifo_admission::Admission;
use flifo_base::{lock, try_lock};

use super::catalog::{Catalog, Kind};
use super::check::{Check, CheckProgress};
use super::config::FlushLog;
use super::directory::{not_a_directory, open_directory};
use super::live::Publisher;
use super::opening::{self, ToReplay};
use super::stats::Sources;
use super::tree::OpenTree;
use super::typed::{self, OpenTyped};
use super::{CheckReport, EngineConfig, EngineStats, Session, Tree};
use crate::buffer::{BufferPool, FlushConfig, PoolConfig, RecoveryProgress, doublewrite};
use crate::disk::{Disk, FileDisk, Tablespace};
use crate::error::{Error, Result};
use crate::lock::{Detector, TxnId};
use crate::metrics::{WaitReason, Waits};
use crate::page::{Lsn, PageNo};
use crate::process::{Process, ProcessOwned};
use crate::redo::{Durability, Log, LogBuffer, LogFiles};
use crate::tree::{self, TreeStats};
use crate::txn::{Purger, SystemConfig, TxnSystem};
use crate::wait::Waiter;

/// An open database. Clones are handles of the same database; any number of threads can use it.
///
/// ```
/// use std::ops::{Bound, ControlFlow};
///
/// use flifo_admission::{Admission, Config};
/// use flifo_engine::{Database, EngineConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path().join("fruit");
/// let db = Database::open_or_create(&dir, EngineConfig::default())?;
/// let fruit = db.create_tree("fruit")?;
///
/// let admission = Admission::new(Config::default())?;     // limits running threads; one for all sessions
/// let session = db.session(&admission);                   // one per connection
/// {
///     let statement = session.statement()?;                // enters; leaves at the end of the block
///     statement.insert(&fruit, b"apple", b"red")?;          // durable when it returns
///     statement.insert(&fruit, b"banana", b"yellow")?;
///     statement.insert(&fruit, b"cherry", b"dark red")?;
///
///     let mut value = Vec::new();
///     assert!(statement.get(&fruit, b"banana", &mut value)?);
///     assert_eq!(value, b"yellow");
///
///     statement.scan(&fruit, Bound::Included(b"b"), Bound::Unbounded, |key, value| {
///         println!("{} is {}", key.escape_ascii(), value.escape_ascii());
///         ControlFlow::Continue(())
///     })?;
/// }
/// db.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(super) inner: SharedInner,
}

/// The handle of an open database in everything that keeps one. In a forked child it is dropped without effect, so
/// [`Inner`] and all that it holds are left as they are there.
pub(super) type SharedInner = ProcessOwned<Arc<Inner>>;

/// The catalog's number: no transaction had this id yet, or a later one.
pub(super) const NEXT_TXN: &str = "next_transaction";

/// Numbers the open databases of this process.
static DATABASES_OPENED: AtomicU64 = AtomicU64::new(0);

pub(super) type OpenTrees = HashMap<(Kind, String), Arc<OpenTree>>;

pub(super) struct Inner {
    number: u64,
    /// That which opened it, and alone may use it.
    pub(super) process: Process,
    pub(super) disk: Arc<dyn Disk>,
    sources: Sources,
    pub(super) running: Running,
    pub(super) waits: Arc<Waits>,
    pub(super) catalog: Arc<Catalog>,
    txns: Arc<TxnSystem>,
    /// Open trees by kind and name. Also serialises whatever makes or drops one.
    trees: Mutex<OpenTrees>,
    sessions: AtomicUsize,
    pub(super) closed: AtomicBool,
    /// Held while it is closed.
    closing: Mutex<()>,
    flush_log: FlushLog,
    pub(super) sort_buffer_bytes: usize,
}

/// The pool with its background threads; its drop ends them, and closes the files.
pub(super) struct Running {
    pub(super) pool: Arc<BufferPool>,
    pub(super) space: Arc<Tablespace>,
}

impl Running {
    /// `replay_from`: where the log is going to be replayed from, if it is.
    fn start(
        disk: &dyn Disk,
        log: Arc<Log>,
        replay_from: Option<Lsn>,
        config: &EngineConfig,
        waits: &Arc<Waits>,
    ) -> Result<Self> {
        let pool_config = PoolConfig {
            bytes: config.buffer_pool_bytes,
            instances: config.buffer_pool_instances,
            doublewrite: config.doublewrite,
            flush: FlushConfig {
                mode: config.flush_mode,
                io_capacity: config.io_capacity,
                io_capacity_max: config.io_capacity_max,
            },
        };
        let space = Arc::clone(log.space());
        let pool = BufferPool::new(disk, log, pool_config, Arc::clone(waits))?;
        if let Some(start) = replay_from {
            pool.begin_replay(start);
        }
        let running = Running { pool, space };
        running.pool.start_background()?;
        Ok(running)
    }

    fn log(&self) -> &Arc<Log> {
        self.pool.log()
    }

    /// Writes all changed pages, syncs, and marks the database clean. The caller allows no change during the call.
    pub(super) fn make_clean(&self, waiter: &Waiter) -> Result<()> {
        self.pool.flush_all(waiter)?;
        waiter.wait(WaitReason::DiskSync, || self.log().make_checkpoint(self.log().next(), true))
    }

    fn stop(&self) {
        // Otherwise a background thread could wait forever for room in the log.
        self.log().refuse();
        self.pool.stop_background();
        self.log().close();
        self.space.close();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Database {
    /// Rows are loaded in bulk into leaves filled to this share, so that the first inserts afterwards find room.
    pub(super) const BULK_LOAD_FILL: f64 = 15.0 / 16.0;

    /// Creates a database in `dir`. The directory is created if it does not exist, and must be empty if it does.
    pub fn create(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        config.check()?;
        let dir = dir.as_ref();
        let disk = FileDisk::create(dir, config.direct_io).map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => not_a_directory(dir),
            _ => Error::from_io("cannot create", dir.display().to_string(), source),
        })?;
        Self::create_on(Arc::new(disk), config)
    }

    /// Opens the database in `dir`. If it was not closed, recovers the committed data from the redo log first.
    pub fn open(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        Self::open_with_progress(dir, config, &mut |_| {})
    }

    /// As [`Database::open`]; calls `progress` from time to time if the database needs recovery.
    pub fn open_with_progress(
        dir: impl AsRef<Path>,
        config: EngineConfig,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Self> {
        config.check()?;
        let disk = open_directory(dir.as_ref(), &config)?;
        Self::open_on_with_progress(Arc::new(disk), config, progress)
    }

    /// Opens the database in `dir`, or creates one there if `dir` is new or empty.
    pub fn open_or_create(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        let dir = dir.as_ref();
        match Self::open(dir, config.clone()) {
            Err(Error::NoDatabase { .. }) => Self::create(dir, config),
            other => other,
        }
    }

    /// Creates a database on any [`Disk`], such as one in memory.
    pub fn create_on(disk: Arc<dyn Disk>, config: EngineConfig) -> Result<Self> {
        config.check()?;
        let space = Tablespace::create(&*disk, config.data_files, config.page_size as usize)?;
        Self::create_in(Arc::clone(&disk), space, &config).inspect_err(|_| {
            LogFiles::remove(&*disk);
            LogBuffer::remove(&*disk);
            doublewrite::remove(&*disk);
            Tablespace::remove(&*disk);
        })
    }

    fn create_in(disk: Arc<dyn Disk>, space: Tablespace, config: &EngineConfig) -> Result<Self> {
        let waits = Waits::new();
        let log = opening::create_log(&*disk, &Arc::new(space), config)?;
        let running = Running::start(&*disk, log, None, config, &waits)?;
        let waiter = Waiter::background().recording(&waits);
        let catalog = Catalog::create(&running.pool, &waiter)?;
        running.space.set_catalog_root(catalog.root().0);
        (0..config.rollback_segments)
            .try_for_each(|index| catalog.create_tree(&waiter, Kind::Undo, &segment_name(index)).map(drop))?;
        let db = Self::assemble(disk, running, waits, catalog, config)?;
        let made = db.inner.running.make_clean(&db.inner.background_waiter());
        made.inspect_err(|error| db.inner.running.pool.stop(error.to_string()))?;
        Ok(db)
    }

    /// Opens the database on any [`Disk`].
    pub fn open_on(disk: Arc<dyn Disk>, config: EngineConfig) -> Result<Self> {
        Self::open_on_with_progress(disk, config, &mut |_| {})
    }

    /// As [`Database::open_on`]; calls `progress` from time to time if the database needs recovery.
    pub fn open_on_with_progress(
        disk: Arc<dyn Disk>,
        config: EngineConfig,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Self> {
        config.check()?;
        let space = Arc::new(Tablespace::open(&*disk)?);
        typed::remove_leftovers(&*disk);
        let found = opening::open_log(&*disk, &space, &config)?;
        let (running, waits) = Self::recover(&*disk, found, &config, progress)?;
        let catalog = Catalog::open(&running.pool, PageNo(running.space.catalog_root()));
        let waiter = Waiter::background().recording(&waits);
        catalog.alloc().free_pending(&waiter)?;
        catalog.tidy(&waiter)?;
        Self::assemble(disk, running, waits, catalog, &config)
    }

    /// Recovers the buffer pool of a database whose log was opened. Its pages are consistent afterwards.
    pub(super) fn recover(
        disk: &dyn Disk,
        (log, to_replay): (Arc<Log>, Option<ToReplay>),
        config: &EngineConfig,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(Running, Arc<Waits>)> {
        let waits = Waits::new();
        let running = Running::start(disk, log, to_replay.as_ref().map(ToReplay::start), config, &waits)?;
        if let Some(to_replay) = to_replay {
            let replayed = to_replay.replay(&running.pool, progress);
            replayed.inspect_err(|error| running.pool.stop(error.to_string()))?;
        }
        Ok((running, waits))
    }

    fn assemble(
        disk: Arc<dyn Disk>,
        running: Running,
        waits: Arc<Waits>,
        catalog: Catalog,
        config: &EngineConfig,
    ) -> Result<Self> {
        let catalog = Arc::new(catalog);
        let txns = open_transactions(&running, &catalog, &waits, config)?;
        let process = Process::current();
        let sources = Sources {
            process,
            pool: Arc::clone(&running.pool),
            space: Arc::clone(&running.space),
            txns: Arc::clone(&txns),
            waits: Arc::clone(&waits),
            disk: Arc::clone(&disk),
        };
        if config.publish_stats {
            running.pool.start_task("flifo-stats", Publisher::new(sources.clone(), &disk))?;
        }
        let inner = Inner {
            process,
            number: DATABASES_OPENED.fetch_add(1, Ordering::Relaxed),
            disk,
            sources,
            running,
            waits,
            catalog,
            txns,
            trees: Mutex::default(),
            sessions: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            closing: Mutex::default(),
            flush_log: config.flush_log_at_trx_commit,
            sort_buffer_bytes: config.sort_buffer_bytes as usize,
        };
        Ok(Database { inner: ProcessOwned::new(process, Arc::new(inner)) })
    }

    /// Creates an empty tree: rows without versions, where each operation is a transaction of its own.
    pub fn create_tree(&self, name: &str) -> Result<Tree> {
        Ok(Tree { open: self.inner.create(Kind::Tree, name)? })
    }

    /// The tree of that name.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        Ok(Tree { open: self.inner.open(Kind::Tree, name)? })
    }

    /// Removes the tree from the catalog and frees its pages. Fails with [`Error::TreeInUse`] if the tree has open
    /// handles.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.inner.drop_tree(name)
    }

    /// The names of all trees, ascending.
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.inner.check_open()?;
        self.inner.catalog.names(&self.inner.waiter()?, Kind::Tree)
    }

    /// Reads the whole tree and checks the order of its rows, the links of its pages, and every checksum. Do not change
    /// the tree during the call.
    pub fn check_tree(&self, tree: &Tree) -> Result<TreeStats> {
        self.inner.tree(tree)?.check(&self.inner.waiter()?)
    }

    /// Reads and checks the whole database: every page's checksum, that every page matches the reference to it, order
    /// and shape of every tree, that every row has the older versions that a reader may need, and that the bitmaps of
    /// free pages match the pages in use. The check records damage and continues.
    ///
    /// Do not change the database during the check, or changes appear as damage. Purge pauses for the check.
    pub fn check(&self, progress: &mut dyn FnMut(CheckProgress)) -> Result<CheckReport> {
        let inner = &*self.inner;
        inner.check_open()?;
        let waiter = inner.waiter()?;
        let _no_tree_comes_or_goes = inner.trees(&waiter);
        let _no_purge = inner.txns.pause_purge(&waiter);
        Check::run(&inner.running.pool, &inner.catalog, false, &waiter, progress)
    }

    /// Returns a property, a small value kept with the database; `None` if it was never set.
    pub fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.inner.check_open()?;
        self.inner.catalog.property(&self.inner.waiter()?, name)
    }

    /// Sets a property. It is durable when this returns.
    pub fn set_property(&self, name: &str, value: impl AsRef<[u8]>) -> Result<()> {
        let waiter = self.inner.waiter()?;
        self.inner.change_durably(&waiter, || self.inner.catalog.set_property(&waiter, name, value.as_ref()))
    }

    /// Creates a session under `admission`: one per connection.
    pub fn session(&self, admission: &Arc<Admission>) -> Session {
        let waiter = self.inner.session_waiter(admission);
        let lane = self.inner.sessions.fetch_add(1, Ordering::Relaxed);
        Session::new(self.inner.clone(), waiter, lane)
    }

    /// Fills an empty tree from rows in strictly ascending order of their keys, and returns their number. Calls
    /// `progress` with the number of rows so far, from time to time.
    ///
    /// If the load fails, or `rows` or `progress` panics, the tree stays empty.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        rows: impl IntoIterator<Item = (K, V)>,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let waiter = self.inner.waiter()?;
        let tree = self.inner.tree(tree)?;
        self.inner.change_durably(&waiter, || tree.bulk_load(&waiter, rows, Self::BULK_LOAD_FILL, progress))
    }

    /// Writes all changed pages, so that a recovery would have nothing to do. Reads and changes continue during the
    /// checkpoint; it may or may not include these changes. After an error the database writes neither pages nor redo;
    /// the next open recovers the committed data.
    pub fn checkpoint(&self) -> Result<()> {
        let waiter = self.inner.waiter()?;
        self.inner.check_open()?;
        let pool = &self.inner.running.pool;
        pool.flush_all(&waiter)?;
        waiter.wait(WaitReason::DiskSync, || pool.checkpoint()).map(drop)
    }

    /// Makes everything durable and closes the files. Other handles, sessions and trees return [`Error::Closed`]
    /// afterwards; closing again does nothing. The next open rolls back transactions that have not ended.
    ///
    /// After an error the database can still be read, but not changed. After a failed sync of the data files it reads
    /// no page that is not in memory ([`Error::Stopped`]). The last handle closes the files on drop.
    pub fn close(&self) -> Result<()> {
        let waiter = self.inner.waiter()?;
        // A second caller waits for the first, so that the files stay open while the first writes.
        let _one_at_a_time = waiter.wait(WaitReason::Close, || lock(&self.inner.closing));
        if self.inner.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.inner.running.log().seal(&waiter);
        self.inner.running.make_clean(&waiter)?;
        self.inner.closed.store(true, Ordering::Release);
        self.inner.running.stop();
        Ok(())
    }

    pub(super) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// The counters so far. In a forked child the counters of row locks are zero, because they are behind locks.
    pub fn stats(&self) -> EngineStats {
        self.inner.sources.stats()
    }
}

fn segment_name(index: u32) -> String {
    format!("segment{index:03}")
}

/// The transactions, and the background that purges after them.
fn open_transactions(
    running: &Running,
    catalog: &Arc<Catalog>,
    waits: &Arc<Waits>,
    config: &EngineConfig,
) -> Result<Arc<TxnSystem>> {
    let waiter = Waiter::background().recording(waits);
    let names = catalog.names(&waiter, Kind::Undo)?;
    let segments = names.iter().map(|name| catalog.tree(&waiter, Kind::Undo, name)).collect::<Result<_>>()?;
    let reserve = {
        let (catalog, waits) = (Arc::clone(catalog), Arc::clone(waits));
        move |to| catalog.set_number(&Waiter::background().recording(&waits), NEXT_TXN, to)
    };
    let system = SystemConfig {
        pool: Arc::clone(&running.pool),
        alloc: Arc::clone(catalog.alloc()),
        segments,
        next: TxnId(catalog.number(&waiter, NEXT_TXN)?.unwrap_or(1)),
        reserve: Box::new(reserve),
        lock_wait_timeout: config.lock_wait_timeout,
    };
    let txns = TxnSystem::open(system, &waiter)?;
    running.pool.start_task("flifo-purge", Purger::new(&txns, Waiter::background().recording(waits)))?;
    running.pool.start_task("flifo-deadlock", Detector::new(txns.locks()))?;
    Ok(txns)
}

impl Inner {
    /// The tree behind a handle of this database.
    pub(super) fn tree<'a>(&self, tree: &'a Tree) -> Result<&'a tree::Tree> {
        self.check_handle(&tree.open)
    }

    pub(super) fn check_handle<'a>(&self, open: &'a OpenTree) -> Result<&'a tree::Tree> {
        self.check_open()?;
        if open.database != self.number {
            return Err(Error::ForeignTree { name: open.name.clone() });
        }
        Ok(&open.tree)
    }

    fn create(&self, kind: Kind, name: &str) -> Result<Arc<OpenTree>> {
        let waiter = self.waiter()?;
        let mut trees = self.trees(&waiter);
        let tree = self.change(&waiter, || self.catalog.create_tree(&waiter, kind, name))?;
        Ok(self.remember(&mut trees, kind, self.open_tree(name, tree, None)))
    }

    pub(super) fn open(&self, kind: Kind, name: &str) -> Result<Arc<OpenTree>> {
        self.check_open()?;
        let waiter = self.waiter()?;
        let mut trees = self.trees(&waiter);
        if let Some(open) = trees.get(&(kind, name.to_owned())) {
            return Ok(Arc::clone(open));
        }
        let open = match kind {
            Kind::Table => {
                self.finish_renames(&waiter)?;
                self.open_table(name, self.catalog.table(&waiter, name)?, &waiter)?
            }
            _ => self.open_tree(name, self.catalog.tree(&waiter, kind, name)?, None),
        };
        Ok(self.remember(&mut trees, kind, open))
    }

    /// Ensures that a tree may be changed as a whole: it has no other handle, and gets none while the lock is held.
    pub(super) fn take_out(&self, trees: &mut OpenTrees, kind: Kind, name: &str) -> Result<()> {
        let key = (kind, name.to_owned());
        let Some(open) = trees.remove(&key) else { return Ok(()) };
        // Handles are cloned from handles or from here, so a sole one stays so while the lock is held.
        Arc::try_unwrap(open).map(drop).map_err(|open| {
            trees.insert(key, open);
            let name = name.to_owned();
            match kind {
                Kind::Table => Error::TableInUse { name },
                _ => Error::TreeInUse { name },
            }
        })
    }

    fn drop_tree(&self, name: &str) -> Result<()> {
        let waiter = self.waiter()?;
        let mut trees = self.trees(&waiter);
        self.take_out(&mut trees, Kind::Tree, name)?;
        let root = self.catalog.tree(&waiter, Kind::Tree, name)?.root();
        self.change(&waiter, || self.catalog.drop_tree(&waiter, Kind::Tree, name, root))
    }

    /// Runs a change of pages, and waits until it is as durable as the configuration says.
    pub(super) fn change<T>(&self, waiter: &Waiter, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.admit_change(false, waiter);
        self.check_open()?;
        let changed = change()?;
        self.make_durable(waiter)?;
        Ok(changed)
    }

    /// As [`Self::change`], of one that survives a power cut when this returns, whatever the configuration says.
    pub(super) fn change_durably<T>(&self, waiter: &Waiter, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let changed = self.change(waiter, change)?;
        self.sync(waiter)?;
        Ok(changed)
    }

    /// Waits until all frames appended so far are as durable as the configuration says.
    pub(super) fn make_durable(&self, waiter: &Waiter) -> Result<()> {
        let log = self.running.log();
        match self.flush_log {
            FlushLog::Sync => log.make_durable(log.next(), Durability::Synced, waiter),
            FlushLog::Write => log.make_durable(log.next(), Durability::Written, waiter),
            FlushLog::EverySecond => Ok(()),
        }
    }

    /// Waits until all frames appended so far survive a power cut.
    pub(super) fn sync(&self, waiter: &Waiter) -> Result<()> {
        let log = self.running.log();
        log.make_durable(log.next(), Durability::Synced, waiter)
    }

    /// Back-pressure before a change begins; `holds_locks` if others may wait for its transaction.
    pub(super) fn admit_change(&self, holds_locks: bool, waiter: &Waiter) {
        self.running.pool.admit_change(holds_locks, waiter);
    }

    pub(super) fn trees(&self, waiter: &Waiter) -> MutexGuard<'_, OpenTrees> {
        try_lock(&self.trees).unwrap_or_else(|| waiter.wait(WaitReason::Catalog, || lock(&self.trees)))
    }

    pub(super) fn open_tree(&self, name: &str, tree: tree::Tree, typed: Option<Arc<OpenTyped>>) -> OpenTree {
        OpenTree { name: name.to_owned(), database: self.number, tree, typed }
    }

    pub(super) fn remember(&self, trees: &mut OpenTrees, kind: Kind, open: OpenTree) -> Arc<OpenTree> {
        let open = Arc::new(open);
        trees.insert((kind, open.name.clone()), Arc::clone(&open));
        open
    }

    pub(super) fn txns(&self) -> &Arc<TxnSystem> {
        &self.txns
    }
}

impl Drop for Inner {
    /// As [`Database::close`], for embedders that did not call it; errors are lost.
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            let waiter = self.background_waiter();
            self.running.log().seal(&waiter);
            let _ = self.running.make_clean(&waiter);
        }
    }
}
