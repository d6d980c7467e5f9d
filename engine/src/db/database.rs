//! A database: its life, its trees and properties, its clean states.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use flifo_admission::Admission;

use super::catalog::Catalog;
use super::gate::{Gate, Passing};
use super::tree::OpenTree;
use super::{EngineConfig, EngineStats, Session, Tree};
use crate::buffer::{BufferPool, PoolConfig};
use crate::disk::{Disk, FileDisk, Tablespace};
use crate::error::{Error, Result};
use crate::metrics::{WaitReason, Waits};
use crate::page::PageNo;
use crate::tree::{self, TreeStats};
use crate::wait::Waiter;

/// An open database. Clones are handles of the same one; it can be used by any number of threads.
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
/// let admission = Admission::new(Config::default())?;     // who may run now; one for all sessions
/// let session = db.session(&admission);                   // one per connection
/// {
///     let statement = session.statement()?;                // enters; leaves at the end of the block
///     statement.insert(&fruit, b"apple", b"red")?;
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
/// db.close()?;                                            // durable now, and not before
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

/// Tells open databases apart within this process.
static DATABASES_OPENED: AtomicU64 = AtomicU64::new(0);

pub(super) struct Inner {
    number: u64,
    disk: Arc<dyn Disk>,
    data_files: u32,
    running: Running,
    waits: Arc<Waits>,
    catalog: Catalog,
    /// Trees with their names. Also serialises whatever makes or drops one.
    trees: Mutex<HashMap<String, Arc<OpenTree>>>,
    gate: Gate,
    sessions: AtomicUsize,
    closed: AtomicBool,
    /// A change ended in a panic, perhaps half-way: the pages in memory are not to be trusted on disk.
    broken: AtomicBool,
}

/// The pool with its cleaners at work; ends them, and lets go of the files.
struct Running {
    pool: Arc<BufferPool>,
    space: Arc<Tablespace>,
}

impl Running {
    fn start(space: Arc<Tablespace>, config: &EngineConfig, waits: &Arc<Waits>) -> Result<Self> {
        let pool_config =
            PoolConfig { bytes: config.buffer_pool_bytes, instances: config.buffer_pool_instances };
        let pool = BufferPool::new(Arc::clone(&space), pool_config, Arc::clone(waits))?;
        let running = Running { pool, space };
        running.pool.start_cleaners()?;
        Ok(running)
    }

    fn stop(&self) {
        self.pool.stop_cleaners();
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
    const BULK_LOAD_FILL: f64 = 15.0 / 16.0;

    /// Creates a database in `dir`, which is made if it is not there, and must be empty if it is.
    pub fn create(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        config.check()?;
        let dir = dir.as_ref();
        let disk = FileDisk::create(dir, config.direct_io).map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => not_a_directory(dir),
            _ => Error::from_io("cannot create", dir.display().to_string(), source),
        })?;
        Self::create_on(Arc::new(disk), config)
    }

    /// Opens the database in `dir`.
    pub fn open(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        config.check()?;
        let dir = dir.as_ref();
        let disk = FileDisk::open(dir, config.direct_io).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::NoDatabase { path: dir.display().to_string() },
            io::ErrorKind::NotADirectory => not_a_directory(dir),
            _ => Error::from_io("cannot open", dir.display().to_string(), source),
        })?;
        Self::open_on(Arc::new(disk), config)
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
        Self::create_in(Arc::clone(&disk), space, &config).inspect_err(|_| Tablespace::remove(&*disk))
    }

    fn create_in(disk: Arc<dyn Disk>, space: Tablespace, config: &EngineConfig) -> Result<Self> {
        let waits = Waits::new();
        let running = Running::start(Arc::new(space), config, &waits)?;
        let catalog = Catalog::create(&running.pool, &Waiter::background().recording(&waits))?;
        running.space.set_catalog_root(catalog.root().0);
        let db = Self::assemble(disk, running, waits, catalog);
        db.checkpoint().inspect_err(|_| db.inner.broken.store(true, Ordering::Relaxed))?;
        Ok(db)
    }

    /// Opens the database on any [`Disk`].
    pub fn open_on(disk: Arc<dyn Disk>, config: EngineConfig) -> Result<Self> {
        config.check()?;
        let space = Arc::new(Tablespace::open(&*disk)?);
        let waits = Waits::new();
        let running = Running::start(Arc::clone(&space), &config, &waits)?;
        let catalog = Catalog::open(&running.pool, PageNo(space.catalog_root()));
        Ok(Self::assemble(disk, running, waits, catalog))
    }

    fn assemble(disk: Arc<dyn Disk>, running: Running, waits: Arc<Waits>, catalog: Catalog) -> Self {
        let inner = Inner {
            number: DATABASES_OPENED.fetch_add(1, Ordering::Relaxed),
            disk,
            data_files: running.space.data_files(),
            running,
            waits,
            catalog,
            trees: Mutex::default(),
            gate: Gate::default(),
            sessions: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
        };
        Database { inner: Arc::new(inner) }
    }

    /// Creates an empty tree.
    pub fn create_tree(&self, name: &str) -> Result<Tree> {
        let waiter = self.inner.waiter();
        let mut trees = self.inner.trees(&waiter);
        let tree = self.inner.change(&waiter, 0, || self.inner.catalog.create_tree(&waiter, name))?;
        Ok(self.inner.remember(&mut trees, name, tree))
    }

    /// The tree of that name.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        self.inner.check_open()?;
        let waiter = self.inner.waiter();
        let mut trees = self.inner.trees(&waiter);
        if let Some(open) = trees.get(name) {
            return Ok(Tree { open: Arc::clone(open) });
        }
        let tree = self.inner.catalog.tree(&waiter, name)?;
        Ok(self.inner.remember(&mut trees, name, tree))
    }

    /// Takes the tree out of the catalog and frees its pages. Nobody may have a handle of it, or it is
    /// [`Error::TreeInUse`].
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        let waiter = self.inner.waiter();
        let mut trees = self.inner.trees(&waiter);
        let tree = match trees.remove(name) {
            None => self.inner.catalog.tree(&waiter, name)?,
            // Handles are cloned from handles or from here, so a sole one stays so while the lock is held.
            Some(open) => match Arc::try_unwrap(open) {
                Ok(open) => open.tree,
                Err(open) => {
                    trees.insert(name.to_owned(), open);
                    return Err(Error::TreeInUse { name: name.to_owned() });
                }
            },
        };
        self.inner.change(&waiter, 0, || self.inner.catalog.drop_tree(&waiter, name, tree))
    }

    /// The names of all trees, ascending.
    pub fn tree_names(&self) -> Result<Vec<String>> {
        self.inner.check_open()?;
        self.inner.catalog.tree_names(&self.inner.waiter())
    }

    /// Reads the whole tree and checks the order of its rows, how its pages hang together, and every checksum.
    pub fn check_tree(&self, tree: &Tree) -> Result<TreeStats> {
        self.inner.tree(tree)?.check(&self.inner.waiter())
    }

    /// A small note kept with the database; `None` if it was never set.
    pub fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.inner.check_open()?;
        self.inner.catalog.property(&self.inner.waiter(), name)
    }

    /// Sets a small note. Like rows, it is durable after the next checkpoint or close.
    pub fn set_property(&self, name: &str, value: impl AsRef<[u8]>) -> Result<()> {
        let waiter = self.inner.waiter();
        self.inner.change(&waiter, 0, || self.inner.catalog.set_property(&waiter, name, value.as_ref()))
    }

    /// A session, under the admission that is given: one per connection.
    pub fn session(&self, admission: &Arc<Admission>) -> Session {
        let waiter = Waiter::session(admission.session()).recording(&self.inner.waits);
        let lane = self.inner.sessions.fetch_add(1, Ordering::Relaxed);
        Session::new(Arc::clone(&self.inner), waiter, lane)
    }

    /// Fills an empty tree from rows in strictly ascending order of their keys, and returns their number.
    /// `progress` is told the number of rows so far, now and then.
    ///
    /// A checkpoint waits until the load has ended; so neither `rows` nor `progress` may change this database or
    /// ask for a checkpoint. A load that fails leaves the tree for [`Database::drop_tree`].
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        rows: impl IntoIterator<Item = (K, V)>,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let waiter = self.inner.waiter();
        let tree = self.inner.tree(tree)?;
        self.inner.change(&waiter, 0, || tree.bulk_load(&waiter, rows, Self::BULK_LOAD_FILL, progress))
    }

    /// Makes everything durable: writes all changed pages, syncs, and marks the database clean. Changes wait
    /// meanwhile, reads do not. Not to be called within a bulk load. After an error nothing more is written: the database ends as
    /// [`Error::NotClosedCleanly`], or at its last clean state if no page had been written since.
    pub fn checkpoint(&self) -> Result<()> {
        let waiter = self.inner.waiter();
        let _shut = self.inner.gate.shut(&waiter);
        self.inner.check_open()?;
        self.inner.make_clean(&waiter)
    }

    /// Makes everything durable and lets go of the files. Other handles, sessions and trees are of no use
    /// afterwards ([`Error::Closed`]); closing again does nothing.
    ///
    /// After an error the database is still open, so that it can be read; the last handle's drop lets go of the files.
    pub fn close(&self) -> Result<()> {
        let waiter = self.inner.waiter();
        let _shut = self.inner.gate.shut(&waiter);
        if self.inner.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.inner.make_clean(&waiter)?;
        self.inner.closed.store(true, Ordering::Release);
        self.inner.running.stop();
        Ok(())
    }

    /// What was counted until now.
    pub fn stats(&self) -> EngineStats {
        let space = &self.inner.running.space;
        EngineStats {
            pool: self.inner.running.pool.stats(),
            waits: self.inner.waits.snapshot(),
            direct_io: self.inner.disk.direct_io(),
            page_size: space.page_size() as u32,
            data_files: self.inner.data_files,
            data_bytes: space.pages() * space.page_size() as u64,
        }
    }
}

fn not_a_directory(dir: &Path) -> Error {
    Error::NotADatabase { path: dir.display().to_string(), what: "it is not a directory".to_owned() }
}

impl Inner {
    fn waiter(&self) -> Waiter {
        Waiter::background().recording(&self.waits)
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// The tree behind a handle of this database.
    pub(super) fn tree<'a>(&self, tree: &'a Tree) -> Result<&'a tree::Tree> {
        self.check_open()?;
        if tree.open.database != self.number {
            return Err(Error::ForeignTree { name: tree.open.name.clone() });
        }
        Ok(&tree.open.tree)
    }

    /// Runs a change of pages, when no checkpoint is in progress.
    pub(super) fn change<T>(
        &self,
        waiter: &Waiter,
        lane: usize,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let was_panicking = std::thread::panicking();
        let _change = Change { database: self, was_panicking, _passing: self.gate.pass(waiter, lane) };
        self.check_open()?;
        change()
    }

    fn trees(&self, waiter: &Waiter) -> MutexGuard<'_, HashMap<String, Arc<OpenTree>>> {
        match self.trees.try_lock() {
            Ok(trees) => trees,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                waiter.wait(WaitReason::Catalog, || self.trees.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    fn remember(&self, trees: &mut HashMap<String, Arc<OpenTree>>, name: &str, tree: tree::Tree) -> Tree {
        let open = Arc::new(OpenTree { name: name.to_owned(), database: self.number, tree });
        trees.insert(name.to_owned(), Arc::clone(&open));
        Tree { open }
    }

    /// Writes all changed pages, syncs, and marks the database clean. The caller lets no change in meanwhile.
    fn make_clean(&self, waiter: &Waiter) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            return Err(Error::Stopped { what: "a change ended half-way".to_owned() });
        }
        self.running.pool.flush_all(waiter)?;
        waiter.wait(WaitReason::DiskSync, || self.running.space.mark_clean())
    }
}

impl Drop for Inner {
    /// As [`Database::close`], for those who did not; errors have nobody to go to.
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            let _ = self.make_clean(&self.waiter());
        }
    }
}

/// A change in progress. If it panics, what it leaves is never marked clean.
struct Change<'a> {
    database: &'a Inner,
    /// It runs in the drop of something, and did not cause the panic.
    was_panicking: bool,
    _passing: Passing<'a>,
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.was_panicking {
            self.database.broken.store(true, Ordering::Release);
        }
    }
}
