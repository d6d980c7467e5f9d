//! The catalog's tables: created, dropped, renamed, truncated, so that a crash at any point leaves each table complete
//! or gone, and leaks no page.
//!
//! # Protocol
//! A table is one entry, with the roots of all its trees. A change of a table takes effect when that entry is written
//! or removed, in one mini-transaction. Notes around it describe the state that a crash would leave. The next open
//! cleans up after them ([`Catalog::tidy`]). After an error, the next use of a name cleans up after its rename
//! ([`Catalog::finish_renames`]):
//!
//! - *Doomed* (`x`, by root): a tree to be freed unless an entry has it. A root is created together with its note,
//!   which is removed once the entry exists. A tree to be dropped gets a note before its entry is removed; the note is
//!   removed together with the root's page. In between, pages are freed in steps ([`Tree::free_nodes`]).
//! - *Renamed* (`m`, by the new name): the old name, whose entry is removed if it equals that of the new name.
//! - *Loading* (`l`, by the rows' root): the trees of that table are emptied. A bulk load of several trees writes the
//!   note before the first of their roots.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use super::catalog::{Catalog, Kind, key};
use super::definition::{Definition, Typed};
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::row::Schema;
use crate::wait::Waiter;

const DOOMED: u8 = b'x';
const RENAMED: u8 = b'm';
const LOADING: u8 = b'l';
const NUMBERS: u8 = b'a';
/// All kinds of notes in the catalog.
pub(super) const NOTES: [u8; 4] = [DOOMED, RENAMED, LOADING, NUMBERS];

/// The meaning of a note, for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Note {
    /// The trees of the table with these rows may not agree.
    Loading(PageNo),
    /// A table may have two names.
    Renamed,
    /// Nothing.
    Other,
}

impl Note {
    /// Reads one of [`NOTES`] without trust, by what comes after its kind.
    pub(super) fn decode(kind: u8, of: &[u8]) -> std::result::Result<Note, String> {
        match kind {
            LOADING => {
                let root =
                    of.try_into().map_err(|_| format!("it has a note of a load with {} bytes", of.len()))?;
                Ok(Note::Loading(PageNo(u64::from_be_bytes(root))))
            }
            RENAMED => Ok(Note::Renamed),
            _ => Ok(Note::Other),
        }
    }
}

/// Ignores a failed cleanup, since its note stays and the next open retries it; but not an error that ends all work.
pub(super) fn defer_failure(done: Result<()>) -> Result<()> {
    done.or_else(|error| if error.ends_all() { Err(error) } else { Ok(()) })
}

fn by_root(kind: u8, root: PageNo) -> Vec<u8> {
    [&[kind][..], &root.0.to_be_bytes()].concat()
}

fn table_key(name: &str) -> Result<Vec<u8>> {
    key(Kind::Table as u8, Kind::Table.what(), name)
}

impl Catalog {
    fn corrupt(&self, what: String) -> Error {
        Error::CorruptPage { page: self.root().0, what }
    }

    fn definition(&self, name: &str, bytes: &[u8]) -> Result<Definition> {
        let decoded = Definition::decode(bytes);
        decoded.map_err(|what| self.corrupt(format!("the catalog's entry of table '{name}': {what}")))
    }

    /// What the table of that name is.
    pub(super) fn table(&self, waiter: &Waiter, name: &str) -> Result<Definition> {
        let mut bytes = Vec::new();
        match self.tree.get(waiter, &table_key(name)?, &mut bytes)? {
            true => self.definition(name, &bytes),
            false => Err(Kind::Table.unknown(name)),
        }
    }

    /// The callers of this and the following functions keep other threads from changing names and from using the table.
    pub(super) fn create_table(
        &self,
        waiter: &Waiter,
        name: &str,
        schema: Option<Schema>,
    ) -> Result<Definition> {
        let key = table_key(name)?;
        if self.tree.get(waiter, &key, &mut Vec::new())? {
            return Err(Kind::Table.exists(name));
        }
        self.with_new_trees(waiter, 1 + schema.as_ref().map_or(0, |schema| schema.indexes().len()), |roots| {
            let typed = schema.map(|schema| Typed { schema, indexes: roots[1..].to_vec() });
            let definition = Definition { root: roots[0], typed };
            self.put(waiter, &key, &definition)?;
            Ok(definition)
        })
    }

    pub(super) fn drop_table(&self, waiter: &Waiter, name: &str) -> Result<()> {
        let definition = self.table(waiter, name)?;
        self.doom(waiter, definition.roots())?;
        self.tree.delete(waiter, &table_key(name)?)?;
        definition.roots().try_for_each(|root| defer_failure(self.drop_doomed(waiter, root)))
    }

    pub(super) fn rename_table(&self, waiter: &Waiter, old: &str, new: &str) -> Result<()> {
        self.give_second_name(waiter, old, new)?;
        self.finish_renames(waiter)
    }

    /// The table has both names, and a note says so, until [`Self::finish_renames`].
    pub(super) fn give_second_name(&self, waiter: &Waiter, old: &str, new: &str) -> Result<()> {
        let (old_key, new_key) = (table_key(old)?, table_key(new)?);
        let mut entry = Vec::new();
        if !self.tree.get(waiter, &old_key, &mut entry)? {
            return Err(Kind::Table.unknown(old));
        }
        if self.tree.get(waiter, &new_key, &mut Vec::new())? {
            return Err(Kind::Table.exists(new));
        }
        let (size, max) = (new_key.len() + entry.len(), self.tree.inline_bytes_max());
        if size > max {
            return Err(Error::SchemaTooLarge { size, max });
        }
        self.names_twice.store(true, Ordering::Relaxed);
        self.tree.upsert(waiter, &key(RENAMED, "table", new)?, old.as_bytes())?;
        self.tree.insert(waiter, &new_key, &entry).map(drop)
    }

    /// The table gets new, empty trees.
    pub(super) fn truncate_table(&self, waiter: &Waiter, name: &str) -> Result<()> {
        let mut definition = self.table(waiter, name)?;
        let old: Vec<PageNo> = definition.roots().collect();
        self.doom(waiter, old.iter().copied())?;
        self.with_new_trees(waiter, old.len(), |roots| {
            definition.root = roots[0];
            if let Some(typed) = &mut definition.typed {
                typed.indexes = roots[1..].to_vec();
            }
            self.put(waiter, &table_key(name)?, &definition)
        })?;
        old.into_iter().try_for_each(|root| defer_failure(self.drop_doomed(waiter, root)))
    }

    /// Adds an index. `fill` receives the table's future definition and the root, and fills the tree.
    pub(super) fn add_index(
        &self,
        waiter: &Waiter,
        name: &str,
        schema: Schema,
        fill: impl FnOnce(&Schema, PageNo) -> Result<()>,
    ) -> Result<()> {
        let mut definition = self.table(waiter, name)?;
        self.with_new_trees(waiter, 1, |roots| {
            fill(&schema, roots[0])?;
            let typed = definition.typed.as_mut().ok_or(Error::PlainTable { name: name.to_owned() })?;
            typed.indexes.push(roots[0]);
            typed.schema = schema;
            self.put(waiter, &table_key(name)?, &definition)
        })
    }

    /// Removes the index at a place among the table's.
    pub(super) fn drop_index(&self, waiter: &Waiter, name: &str, at: usize, schema: Schema) -> Result<()> {
        let mut definition = self.table(waiter, name)?;
        let typed = definition.typed.as_mut().ok_or(Error::PlainTable { name: name.to_owned() })?;
        let root = typed.indexes.remove(at);
        typed.schema = schema;
        self.doom(waiter, [root])?;
        self.put(waiter, &table_key(name)?, &definition)?;
        defer_failure(self.drop_doomed(waiter, root))
    }

    fn put(&self, waiter: &Waiter, key: &[u8], definition: &Definition) -> Result<()> {
        let bytes = definition.encode();
        let (size, max) = (key.len() + bytes.len(), self.tree.inline_bytes_max());
        match size <= max {
            true => self.tree.upsert(waiter, key, &bytes).map(drop),
            false => Err(Error::SchemaTooLarge { size, max }),
        }
    }

    /// Creates empty trees, which `enter` adds to the catalog. If it fails they are dropped again.
    fn with_new_trees<T>(
        &self,
        waiter: &Waiter,
        count: usize,
        enter: impl FnOnce(&[PageNo]) -> Result<T>,
    ) -> Result<T> {
        let mut roots = Vec::new();
        let create_and_enter = || -> Result<T> {
            while roots.len() < count {
                let created = self.tree.create_tree(waiter, |root| (by_root(DOOMED, root), Vec::new()))?;
                // A root that has a note is in use, or its page is not free.
                let root =
                    created.ok_or_else(|| self.corrupt("a free page is noted as a root".to_owned()))?;
                roots.push(root.root());
            }
            enter(&roots)
        };
        let entered = create_and_enter();
        match &entered {
            // If this fails, the next open does it.
            Ok(_) => roots.iter().try_for_each(|&root| self.undoom(waiter, root))?,
            Err(_) => roots.iter().for_each(|&root| drop(self.drop_doomed(waiter, root))),
        }
        entered
    }

    /// Notes that trees go with the entry that has them.
    pub(super) fn doom(&self, waiter: &Waiter, roots: impl IntoIterator<Item = PageNo>) -> Result<()> {
        roots.into_iter().try_for_each(|root| self.tree.upsert(waiter, &by_root(DOOMED, root), &[]).map(drop))
    }

    fn undoom(&self, waiter: &Waiter, root: PageNo) -> Result<()> {
        self.tree.delete(waiter, &by_root(DOOMED, root)).map(drop)
    }

    /// Takes a doomed tree down.
    pub(super) fn drop_doomed(&self, waiter: &Waiter, root: PageNo) -> Result<()> {
        self.tree.delete(waiter, &by_root(NUMBERS, root))?;
        self.tree.delete(waiter, &by_root(LOADING, root))?;
        self.at(root).free_nodes(waiter)?;
        self.tree.drop_tree(waiter, &by_root(DOOMED, root), root)
    }

    /// Notes that the trees of a table are being filled.
    pub(super) fn begin_load(&self, waiter: &Waiter, root: PageNo) -> Result<()> {
        self.tree.upsert(waiter, &by_root(LOADING, root), &[]).map(drop)
    }

    /// Whether a load has noted that and could not tidy up after itself.
    pub(super) fn is_loading(&self, waiter: &Waiter, root: PageNo) -> Result<bool> {
        self.tree.get(waiter, &by_root(LOADING, root), &mut Vec::new())
    }

    /// The trees are filled, or empty.
    pub(super) fn end_load(&self, waiter: &Waiter, root: PageNo) -> Result<()> {
        self.tree.delete(waiter, &by_root(LOADING, root)).map(drop)
    }

    /// The number that a table's column gets next at least; `None` if none was ever given.
    pub(super) fn next_number(&self, waiter: &Waiter, root: PageNo) -> Result<Option<u64>> {
        let mut value = Vec::new();
        if !self.tree.get(waiter, &by_root(NUMBERS, root), &mut value)? {
            return Ok(None);
        }
        let value =
            value.try_into().map_err(|_| self.corrupt("a table's next number has not 8 bytes".to_owned()))?;
        Ok(Some(u64::from_le_bytes(value)))
    }

    pub(super) fn set_next_number(&self, waiter: &Waiter, root: PageNo, next: u64) -> Result<()> {
        self.tree.upsert(waiter, &by_root(NUMBERS, root), &next.to_le_bytes()).map(drop)
    }

    /// Finishes changes that a crash or an error interrupted. A tree that cannot be freed does not block the others:
    /// its note stays.
    pub(super) fn tidy(&self, waiter: &Waiter) -> Result<()> {
        self.finish_renames(waiter)?;
        let (loading, doomed) = (self.notes(waiter, LOADING)?, self.notes(waiter, DOOMED)?);
        if loading.is_empty() && doomed.is_empty() {
            return Ok(());
        }
        let tables = self.definitions(waiter)?;
        for (note, _) in loading {
            let root = self.root_of(&note)?;
            let table = tables.iter().find(|table| table.root == root);
            let mut roots = table.into_iter().flat_map(Definition::roots);
            let emptied = roots.try_for_each(|root| self.at(root).free_nodes(waiter));
            defer_failure(emptied.and_then(|()| self.tree.delete(waiter, &note).map(drop)))?;
        }
        let used = self.roots(waiter)?;
        for (note, _) in doomed {
            let root = self.root_of(&note)?;
            if used.contains(&root) {
                self.undoom(waiter, root)?;
            } else {
                defer_failure(self.drop_doomed(waiter, root))?;
            }
        }
        Ok(())
    }

    /// Removes the notes of trees that could not be freed. Their pages leak.
    pub(super) fn abandon_doomed(&self, waiter: &Waiter) -> Result<()> {
        let doomed = self.notes(waiter, DOOMED)?;
        doomed.iter().try_for_each(|(note, _)| self.tree.delete(waiter, note).map(drop))
    }

    /// Removes the old names of renamed tables. Two handles of the same trees would give the same numbers twice, and
    /// would not keep other sessions from dropping the trees by the other name.
    pub(super) fn finish_renames(&self, waiter: &Waiter) -> Result<()> {
        if !self.names_twice.load(Ordering::Relaxed) {
            return Ok(());
        }
        for (note, old) in self.notes(waiter, RENAMED)? {
            let table = |name: &[u8]| [&[Kind::Table as u8], name].concat();
            let (old_key, mut old_entry, mut new_entry) = (table(&old), Vec::new(), Vec::new());
            let found = self.tree.get(waiter, &old_key, &mut old_entry)?
                && self.tree.get(waiter, &table(&note[1..]), &mut new_entry)?;
            // The same trees under two names: another table may have got the new name, if this one did not.
            if found && old_entry == new_entry {
                self.tree.delete(waiter, &old_key)?;
            }
            self.tree.delete(waiter, &note)?;
        }
        self.names_twice.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The roots of all trees that have an entry.
    pub(super) fn roots(&self, waiter: &Waiter) -> Result<HashSet<PageNo>> {
        let mut roots: HashSet<PageNo> =
            self.definitions(waiter)?.iter().flat_map(Definition::roots).collect();
        for kind in [Kind::Tree, Kind::Undo] {
            for name in self.names(waiter, kind)? {
                roots.insert(self.tree(waiter, kind, &name)?.root());
            }
        }
        Ok(roots)
    }

    /// Pages that are in use, and that no tree has.
    pub(super) fn lost_pages(&self, waiter: &Waiter) -> Result<u64> {
        let mut known = self.tree.check(waiter)?.pages();
        for root in self.roots(waiter)? {
            known += self.at(root).check(waiter)?.pages();
        }
        Ok(self.alloc().used_tree_pages(waiter)?.saturating_sub(known))
    }

    fn root_of(&self, note: &[u8]) -> Result<PageNo> {
        let root = note[1..].try_into().map_err(|_| self.corrupt("a note has no root".to_owned()))?;
        Ok(PageNo(u64::from_be_bytes(root)))
    }

    /// The entries of all tables.
    fn definitions(&self, waiter: &Waiter) -> Result<Vec<Definition>> {
        let entries = self.notes(waiter, Kind::Table as u8)?;
        let decode =
            |(key, bytes): &(Vec<u8>, Vec<u8>)| self.definition(&String::from_utf8_lossy(&key[1..]), bytes);
        entries.iter().map(decode).collect()
    }

    /// All rows of a kind.
    fn notes(&self, waiter: &Waiter, kind: u8) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut notes = Vec::new();
        self.tree.scan(waiter, Bound::Included(&[kind]), Bound::Excluded(&[kind + 1]), |key, value| {
            notes.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(notes)
    }
}
