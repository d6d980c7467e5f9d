//! A database: its trees, its properties, its clean states.

use std::path::Path;
use std::sync::Arc;

use flifo_admission::Admission;

use super::{EngineConfig, EngineStats, Session};
use crate::disk::Disk;
use crate::error::Result;

/// An open database. Clones are handles of the same one.
#[derive(Clone)]
pub struct Database {
    _inner: Arc<()>,
}

/// A tree of a database: ordered rows of a key and a value. Clones are handles of the same one.
#[derive(Clone)]
pub struct Tree {
    _inner: Arc<()>,
}

impl Tree {
    /// The name in the catalog.
    pub fn name(&self) -> &str {
        unimplemented!()
    }
}

impl Database {
    /// Creates a database in `dir`, which is new or empty.
    pub fn create(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        let _ = (dir.as_ref(), config);
        unimplemented!()
    }

    /// Opens the database in `dir`.
    pub fn open(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        let _ = (dir.as_ref(), config);
        unimplemented!()
    }

    /// Opens the database in `dir`, or creates one there if `dir` is new or empty.
    pub fn open_or_create(dir: impl AsRef<Path>, config: EngineConfig) -> Result<Self> {
        let _ = (dir.as_ref(), config);
        unimplemented!()
    }

    /// Creates a database on any [`Disk`], such as one in memory.
    pub fn create_on(disk: Arc<dyn Disk>, config: EngineConfig) -> Result<Self> {
        let _ = (disk, config);
        unimplemented!()
    }

    /// Opens the database on any [`Disk`].
    pub fn open_on(disk: Arc<dyn Disk>, config: EngineConfig) -> Result<Self> {
        let _ = (disk, config);
        unimplemented!()
    }

    /// Creates an empty tree.
    pub fn create_tree(&self, name: &str) -> Result<Tree> {
        let _ = name;
        unimplemented!()
    }

    /// The tree of that name.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        let _ = name;
        unimplemented!()
    }

    /// Takes the tree out of the catalog. Nobody else may have a handle of it.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        let _ = name;
        unimplemented!()
    }

    /// The names of all trees, ascending.
    pub fn tree_names(&self) -> Result<Vec<String>> {
        unimplemented!()
    }

    /// A small note kept with the database; `None` if it was never set.
    pub fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let _ = name;
        unimplemented!()
    }

    /// Sets a small note. Like rows, it is durable after the next checkpoint or close.
    pub fn set_property(&self, name: &str, value: impl AsRef<[u8]>) -> Result<()> {
        let _ = (name, value.as_ref());
        unimplemented!()
    }

    /// A session, under the admission that is given: one per connection.
    pub fn session(&self, admission: &Arc<Admission>) -> Session {
        let _ = admission;
        unimplemented!()
    }

    /// Fills an empty tree from rows in strictly ascending order of their keys, and returns their number.
    /// `progress` is told the number of rows so far, now and then.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        rows: impl IntoIterator<Item = (K, V)>,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let _ = (tree, rows.into_iter(), progress);
        unimplemented!()
    }

    /// Makes everything durable: writes all changed pages, syncs, and marks the database clean.
    pub fn checkpoint(&self) -> Result<()> {
        unimplemented!()
    }

    /// Makes everything durable and lets go of the files. Other handles are of no use afterwards.
    pub fn close(&self) -> Result<()> {
        unimplemented!()
    }

    /// What was counted until now.
    pub fn stats(&self) -> EngineStats {
        unimplemented!()
    }
}
