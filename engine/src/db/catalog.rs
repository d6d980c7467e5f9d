//! The catalog: which trees there are, and the properties. A B+tree itself, whose root the state blocks name.
//!
//! A key is one byte for the kind, then the name; see `docs/format.md`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use crate::buffer::BufferPool;
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::space::PageAllocator;
use crate::tree::Tree;
use crate::wait::Waiter;

const PROPERTY: u8 = b'p';
const SYSTEM: u8 = b's';

/// What a tree of the catalog is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(super) enum Kind {
    /// Rows as they are.
    Tree = b't',
    /// Rows in versions, for transactions.
    Table = b'r',
    /// A rollback segment's records.
    Undo = b'u',
}

impl Kind {
    pub(super) fn what(self) -> &'static str {
        if self == Kind::Table { "table" } else { "tree" }
    }

    pub(super) fn unknown(self, name: &str) -> Error {
        let name = name.to_owned();
        if self == Kind::Table { Error::UnknownTable { name } } else { Error::UnknownTree { name } }
    }

    pub(super) fn exists(self, name: &str) -> Error {
        let name = name.to_owned();
        if self == Kind::Table { Error::TableExists { name } } else { Error::TreeExists { name } }
    }
}

const NAME_BYTES_MAX: usize = 200;

/// The catalog's tree, and what it takes to open and make others.
pub(super) struct Catalog {
    pool: Arc<BufferPool>,
    alloc: Arc<PageAllocator>,
    pub(super) tree: Tree,
}

pub(super) fn key(kind: u8, what: &'static str, name: &str) -> Result<Vec<u8>> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::BadName { what, size: name.len(), max: NAME_BYTES_MAX });
    }
    Ok([&[kind], name.as_bytes()].concat())
}

impl Catalog {
    /// An empty one, in an empty tablespace.
    pub(super) fn create(pool: &Arc<BufferPool>, waiter: &Waiter) -> Result<Self> {
        let alloc = PageAllocator::create(pool, waiter)?;
        let tree = Tree::create(pool, &alloc, waiter)?;
        Ok(Catalog { pool: Arc::clone(pool), alloc, tree })
    }

    /// The one that begins at `root`.
    pub(super) fn open(pool: &Arc<BufferPool>, root: PageNo) -> Self {
        let alloc = PageAllocator::open(pool);
        let tree = Tree::open(pool, &alloc, root);
        Catalog { pool: Arc::clone(pool), alloc, tree }
    }

    pub(super) fn root(&self) -> PageNo {
        self.tree.root()
    }

    pub(super) fn alloc(&self) -> &Arc<PageAllocator> {
        &self.alloc
    }

    pub(super) fn tree(&self, waiter: &Waiter, kind: Kind, name: &str) -> Result<Tree> {
        let mut root = Vec::new();
        if !self.tree.get(waiter, &key(kind as u8, kind.what(), name)?, &mut root)? {
            return Err(kind.unknown(name));
        }
        let root = root.try_into().map_err(|root: Vec<u8>| Error::CorruptPage {
            page: self.root().0,
            what: format!("the catalog's entry of tree '{name}' has {} bytes, not 8", root.len()),
        })?;
        Ok(self.at(PageNo(u64::from_le_bytes(root))))
    }

    /// The tree whose root is that page.
    pub(super) fn at(&self, root: PageNo) -> Tree {
        Tree::open(&self.pool, &self.alloc, root)
    }

    /// The caller sees to it that nobody else changes the trees' names meanwhile.
    pub(super) fn create_tree(&self, waiter: &Waiter, kind: Kind, name: &str) -> Result<Tree> {
        let key = key(kind as u8, kind.what(), name)?;
        let planted = self.tree.plant(waiter, |root| (key.clone(), root.0.to_le_bytes().to_vec()))?;
        planted.ok_or_else(|| kind.exists(name))
    }

    /// Takes a tree's name out, and frees its pages. The caller sees to it that nobody else uses it.
    pub(super) fn drop_tree(&self, waiter: &Waiter, kind: Kind, name: &str, root: PageNo) -> Result<()> {
        let key = key(kind as u8, kind.what(), name)?;
        self.doom(waiter, [root])?;
        if !self.tree.delete(waiter, &key)? {
            return Err(kind.unknown(name));
        }
        self.fell(waiter, root)
    }

    pub(super) fn names(&self, waiter: &Waiter, kind: Kind) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let (from, to) = ([kind as u8], [kind as u8 + 1]);
        self.tree.scan(waiter, Bound::Included(&from), Bound::Excluded(&to), |key, _| {
            names.push(String::from_utf8_lossy(&key[1..]).into_owned());
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    /// A number that the engine keeps; `None` if it was never set.
    pub(super) fn number(&self, waiter: &Waiter, name: &str) -> Result<Option<u64>> {
        let mut value = Vec::new();
        if !self.tree.get(waiter, &key(SYSTEM, "number", name)?, &mut value)? {
            return Ok(None);
        }
        let value = value.try_into().map_err(|value: Vec<u8>| Error::CorruptPage {
            page: self.root().0,
            what: format!("the catalog's number '{name}' has {} bytes, not 8", value.len()),
        })?;
        Ok(Some(u64::from_le_bytes(value)))
    }

    pub(super) fn set_number(&self, waiter: &Waiter, name: &str, value: u64) -> Result<()> {
        self.tree.upsert(waiter, &key(SYSTEM, "number", name)?, &value.to_le_bytes()).map(drop)
    }

    pub(super) fn property(&self, waiter: &Waiter, name: &str) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = self.tree.get(waiter, &key(PROPERTY, "property", name)?, &mut value)?;
        Ok(found.then_some(value))
    }

    pub(super) fn set_property(&self, waiter: &Waiter, name: &str, value: &[u8]) -> Result<()> {
        self.tree.upsert(waiter, &key(PROPERTY, "property", name)?, value).map(drop)
    }
}
