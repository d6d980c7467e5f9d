//! The catalog: the trees and the properties. It is a B+tree itself, whose root the state blocks name.
//!
//! A key is one byte for the kind, then the name; see `docs/format.md`.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::ddl::{self, Note};
use super::definition::Definition;
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

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        [Kind::Tree, Kind::Table, Kind::Undo].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What one row of the catalog says.
pub(super) enum Entry {
    /// A tree, and its root.
    Tree { kind: Kind, name: String, root: PageNo },
    /// A table, and its trees.
    Table { name: String, definition: Box<Definition> },
    /// What the engine notes about tables.
    Note(Note),
    /// A number that the engine keeps.
    Number { name: String, value: u64 },
    /// A note of the database's user.
    Property,
}

impl Entry {
    /// Decodes an untrusted row; the error describes the problem.
    pub(super) fn decode(key: &[u8], value: &[u8]) -> std::result::Result<Entry, String> {
        let (kind, name) = key.split_first().ok_or("it has an entry without a name")?;
        let text = || name.escape_ascii();
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("it has an entry whose name has {} bytes", name.len()));
        }
        let number = || {
            let number = value.try_into().map(u64::from_le_bytes);
            number.map_err(|_| format!("its entry '{}' has {} bytes, not 8", text(), value.len()))
        };
        let name = String::from_utf8_lossy(name).into_owned();
        match (*kind, Kind::of(*kind)) {
            (_, Some(Kind::Table)) => {
                let definition = Definition::decode(value);
                let definition =
                    definition.map_err(|what| format!("its entry of table '{}': {what}", text()))?;
                Ok(Entry::Table { name, definition: Box::new(definition) })
            }
            (_, Some(kind)) => Ok(Entry::Tree { kind, name, root: PageNo(number()?) }),
            (SYSTEM, _) => Ok(Entry::Number { name, value: number()? }),
            (PROPERTY, _) => Ok(Entry::Property),
            (kind, None) if ddl::NOTES.contains(&kind) => Note::decode(kind, &key[1..]).map(Entry::Note),
            (kind, None) => {
                Err(format!("its entry '{}' is of a kind that is not known ({kind:#04x})", text()))
            }
        }
    }

    /// By what entries are in the order of their keys.
    pub(super) fn order(&self) -> (u8, &str) {
        match self {
            Entry::Property | Entry::Note(_) => (PROPERTY, ""),
            Entry::Table { name, .. } => (Kind::Table as u8, name),
            Entry::Number { name, .. } => (SYSTEM, name),
            Entry::Tree { kind, name, .. } => (*kind as u8, name),
        }
    }
}

/// The catalog's tree, and the resources to open and create others.
pub(super) struct Catalog {
    pool: Arc<BufferPool>,
    alloc: Arc<PageAllocator>,
    pub(super) tree: Tree,
    /// A table may have two names, because notes of renames remain. Only a thread that keeps others from opening tables
    /// and from changing names changes this flag; for other threads it is a hint.
    pub(super) names_twice: AtomicBool,
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
        Ok(Catalog { pool: Arc::clone(pool), alloc, tree, names_twice: AtomicBool::new(false) })
    }

    /// Opens the catalog whose root is `root`.
    pub(super) fn open(pool: &Arc<BufferPool>, root: PageNo) -> Self {
        let alloc = PageAllocator::open(pool);
        let tree = Tree::open(pool, &alloc, root);
        Catalog { pool: Arc::clone(pool), alloc, tree, names_twice: AtomicBool::new(true) }
    }

    pub(super) fn root(&self) -> PageNo {
        self.tree.root()
    }

    /// The catalog itself.
    pub(super) fn whole(&self) -> &Tree {
        &self.tree
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

    /// The caller ensures that no other thread changes the trees' names at the same time.
    pub(super) fn create_tree(&self, waiter: &Waiter, kind: Kind, name: &str) -> Result<Tree> {
        let key = key(kind as u8, kind.what(), name)?;
        let created = self.tree.create_tree(waiter, |root| (key.clone(), root.0.to_le_bytes().to_vec()))?;
        created.ok_or_else(|| kind.exists(name))
    }

    /// Removes a tree's name, and frees its pages. The caller ensures that no other thread uses the tree.
    pub(super) fn drop_tree(&self, waiter: &Waiter, kind: Kind, name: &str, root: PageNo) -> Result<()> {
        let key = key(kind as u8, kind.what(), name)?;
        self.doom(waiter, [root])?;
        if !self.tree.delete(waiter, &key)? {
            return Err(kind.unknown(name));
        }
        ddl::defer_failure(self.drop_doomed(waiter, root))
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

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_refused(
            kind in proptest::sample::select(b"trupsxyimla\0\xff".to_vec()),
            name in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..250),
            value in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..12),
        ) {
            match Entry::decode(&[&[kind][..], &name].concat(), &value) {
                Ok(Entry::Tree { root, .. }) => proptest::prop_assert_eq!(&root.0.to_le_bytes()[..], &value[..]),
                Ok(Entry::Number { value: number, .. }) => {
                    proptest::prop_assert_eq!(&number.to_le_bytes()[..], &value[..]);
                }
                Ok(Entry::Table { definition, .. }) => {
                    proptest::prop_assert_eq!(&definition.root.0.to_le_bytes()[..], &value[..8]);
                }
                Ok(Entry::Note(_)) => proptest::prop_assert!(ddl::NOTES.contains(&kind)),
                Ok(Entry::Property) => proptest::prop_assert_eq!(kind, PROPERTY),
                Err(what) => proptest::prop_assert!(!what.contains('\n'), "{}", what),
            }
        }
    }

    #[test]
    fn an_entry_without_a_kind_is_refused() {
        assert!(Entry::decode(b"", b"").is_err());
    }
}
