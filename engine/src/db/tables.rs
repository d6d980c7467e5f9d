//! Tables by name: create, open, drop, load.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::catalog::{Catalog, Kind};
use super::database::Inner;
use super::definition::{Definition, Typed};
use super::tree::OpenTree;
use super::typed::OpenTyped;
use super::{Database, Table, TypedTable};
use crate::error::{Error, Result};
use crate::page::PageNo;
use crate::row::Schema;
use crate::tree::TreeStats;
use crate::txn::load_versions;
use crate::wait::Waiter;

impl Database {
    /// Creates an empty table of versioned rows, read and changed by transactions ([`Session::begin`](crate::Session)).
    pub fn create_table(&self, name: &str) -> Result<Table> {
        Ok(Table { open: self.inner.create_table(name, None)? })
    }

    /// Creates an empty table of typed columns, with the indexes of its schema. Typed and plain tables share one name
    /// space.
    pub fn create_typed_table(&self, name: &str, schema: Schema) -> Result<TypedTable> {
        TypedTable::of(self.inner.create_table(name, Some(schema))?)
    }

    /// Opens the table with that name.
    ///
    /// # Errors
    /// [`Error::TypedTable`] if it has typed columns.
    pub fn table(&self, name: &str) -> Result<Table> {
        let open = self.inner.open(Kind::Table, name)?;
        if open.typed.is_some() {
            return Err(Error::TypedTable { name: name.to_owned() });
        }
        Ok(Table { open })
    }

    /// Opens the typed table with that name.
    ///
    /// # Errors
    /// [`Error::PlainTable`] if it has none.
    pub fn typed_table(&self, name: &str) -> Result<TypedTable> {
        TypedTable::of(self.inner.open(Kind::Table, name)?)
    }

    /// Removes the table from the catalog and frees its pages, including those of its indexes. Purges older versions
    /// first, which may take a while.
    ///
    /// # Errors
    /// [`Error::TableInUse`] if the table has open handles. [`Error::TransactionsActive`] if an active transaction has
    /// written or locked rows, or needs an older version of any row. A rollback that fails, or a page that purge cannot
    /// read, blocks only its own table.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.inner.drop_table(name)
    }

    /// Renames the table. Conditions as for [`Database::drop_table`].
    pub fn rename_table(&self, old: &str, new: &str) -> Result<()> {
        self.inner.change_table(old, |catalog, waiter| catalog.rename_table(waiter, old, new))
    }

    /// Removes all rows and frees their pages; numbers start at 1 again. Conditions as for [`Database::drop_table`].
    pub fn truncate_table(&self, name: &str) -> Result<()> {
        self.inner.change_table(name, |catalog, waiter| catalog.truncate_table(waiter, name))
    }

    /// The names of all tables, ascending.
    pub fn table_names(&self) -> Result<Vec<String>> {
        self.inner.check_open()?;
        let waiter = self.inner.waiter()?;
        // Held, so that no rename is half done during the call.
        let _trees = self.inner.trees(&waiter);
        self.inner.finish_renames(&waiter)?;
        self.inner.catalog.names(&waiter, Kind::Table)
    }

    /// As [`Database::check_tree`], of a table; purge pauses for the check. The number of rows includes deleted rows
    /// that are not purged yet.
    pub fn check_table(&self, table: &Table) -> Result<TreeStats> {
        let waiter = self.inner.waiter()?;
        let _no_purge = self.inner.txns().pause_purge(&waiter);
        self.inner.check_handle(&table.open)?.check(&waiter)
    }

    /// The number of leaked pages: allocated, but part of neither the catalog, a tree, a table, an index nor a rollback
    /// segment. A crash in the middle of a split, a merge, a bulk load or purge leaks some; they only cost space. Reads
    /// all trees, which must not change during the call; purge pauses.
    pub fn lost_pages(&self) -> Result<u64> {
        self.inner.check_open()?;
        let waiter = self.inner.waiter()?;
        let _trees = self.inner.trees(&waiter);
        let _no_purge = self.inner.txns().pause_purge(&waiter);
        self.inner.catalog.lost_pages(&waiter)
    }

    /// Fills an empty table from rows in strictly ascending order of their keys, and returns their number. Calls
    /// `progress` with the number of rows so far, from time to time. Every transaction sees the rows, including
    /// transactions that began before.
    ///
    /// If the load fails, or `rows` or `progress` panics, the table stays empty.
    pub fn bulk_load_table<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        table: &Table,
        rows: impl IntoIterator<Item = (K, V)>,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let waiter = self.inner.waiter()?;
        let tree = self.inner.check_handle(&table.open)?;
        let mut rows = rows.into_iter();
        let next = |key: &mut Vec<u8>, value: &mut Vec<u8>| {
            let Some((next_key, next_value)) = rows.next() else { return Ok(false) };
            key.extend_from_slice(next_key.as_ref());
            value.extend_from_slice(next_value.as_ref());
            Ok(true)
        };
        self.inner
            .change_durably(&waiter, || load_versions(tree, &waiter, Self::BULK_LOAD_FILL, progress, next))
    }
}

impl Inner {
    fn create_table(&self, name: &str, schema: Option<Schema>) -> Result<Arc<OpenTree>> {
        let waiter = self.waiter()?;
        let mut trees = self.trees(&waiter);
        self.finish_renames(&waiter)?;
        let definition = self.change(&waiter, || self.catalog.create_table(&waiter, name, schema))?;
        let open = self.open_table(name, definition, &waiter)?;
        Ok(self.remember(&mut trees, Kind::Table, open))
    }

    fn drop_table(&self, name: &str) -> Result<()> {
        self.change_table(name, |catalog, waiter| catalog.drop_table(waiter, name))
    }

    /// Changes a table as a whole. The table has no open handles, and no transaction needs its older versions.
    pub(super) fn change_table(
        &self,
        name: &str,
        change: impl FnOnce(&Catalog, &Waiter) -> Result<()>,
    ) -> Result<()> {
        self.check_open()?;
        let waiter = self.waiter()?;
        let mut trees = self.trees(&waiter);
        self.finish_renames(&waiter)?;
        self.take_out(&mut trees, Kind::Table, name)?;
        let roots: Vec<PageNo> = self.catalog.table(&waiter, name)?.roots().collect();
        if !self.txns().forget_history(&roots, &waiter)? {
            return Err(Error::TransactionsActive { name: name.to_owned() });
        }
        self.change(&waiter, || change(&self.catalog, &waiter))
    }

    /// Sees to it that each table has one name, also after a rename that an error has cut off. The caller holds the lock of the
    /// open trees.
    pub(super) fn finish_renames(&self, waiter: &Waiter) -> Result<()> {
        if !self.catalog.names_twice.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.change(waiter, || self.catalog.finish_renames(waiter)) {
            // A database that has stopped changes nothing more under any name, and its readable tables must stay
            // readable.
            Err(error) if error.ends_all() => Ok(()),
            finished => finished,
        }
    }

    pub(super) fn open_table(&self, name: &str, definition: Definition, waiter: &Waiter) -> Result<OpenTree> {
        let typed = match definition.typed {
            None => None,
            Some(Typed { schema, indexes }) => {
                let indexes = indexes.iter().map(|&root| self.catalog.at(root)).collect();
                let next_number = self.catalog.next_number(waiter, definition.root)?.unwrap_or(1);
                let loading = self.catalog.is_loading(waiter, definition.root)?;
                Some(Arc::new(OpenTyped::new(schema, indexes, next_number, loading)))
            }
        };
        Ok(self.open_tree(name, self.catalog.at(definition.root), typed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::EngineConfig;
    use crate::disk::MemoryDisk;
    use crate::row::{Column, ColumnType};

    const ROWS: u64 = 300;

    /// A rename in which the disk has failed once, when the leaf with the old name was read again.
    fn half_renamed(disk: &MemoryDisk) -> Database {
        let config = EngineConfig { buffer_pool_bytes: 4 << 20, ..EngineConfig::default() };
        let db = Database::create_on(Arc::new(disk.clone()), config).unwrap();
        let id = Column::new("id", ColumnType::U64).auto_increment();
        let schema = Schema::builder().column(id).primary_key(["id"]).build().unwrap();
        let table = db.create_typed_table("a", schema).unwrap();
        db.bulk_load_rows(&table, (1..=ROWS).map(|id| (id,)), |_| {}).unwrap();
        drop(table);
        let renamed = db.inner.change_table("a", |catalog, waiter| {
            catalog.give_second_name(waiter, "a", "b")?;
            Err(Error::TransactionEnded)
        });
        assert!(renamed.is_err());
        db
    }

    fn is_unknown<T>(table: Result<T>) -> bool {
        matches!(table, Err(Error::UnknownTable { .. }))
    }

    /// Else its trees could be dropped by one name while they are used by the other.
    #[test]
    fn a_table_has_one_name_after_a_rename_that_was_cut_off() {
        let uses: [fn(&Database); 6] = [
            |db| assert!(is_unknown(db.typed_table("a"))),
            |db| {
                let _in_use = db.typed_table("b").unwrap();
                assert!(is_unknown(db.typed_table("a")));
                assert!(matches!(db.drop_table("b"), Err(Error::TableInUse { .. })));
            },
            |db| assert!(is_unknown(db.drop_table("a"))),
            |db| assert_eq!(db.table_names().unwrap(), ["b"]),
            |db| {
                db.create_table("a").unwrap();
                db.drop_table("a").unwrap();
            },
            |db| {
                db.rename_table("b", "a").unwrap();
                assert!(is_unknown(db.typed_table("b")));
                db.rename_table("a", "b").unwrap();
            },
        ];
        for first_use in uses {
            let disk = MemoryDisk::default();
            let db = half_renamed(&disk);
            first_use(&db);
            let table = db.typed_table("b").unwrap();
            let admission = flifo_admission::Admission::new(flifo_admission::Config::default()).unwrap();
            let session = db.session(&admission);
            assert_eq!(table.count(&mut session.begin(crate::Isolation::ReadCommitted)).unwrap(), ROWS);
            drop((table, session));
            db.drop_table("b").unwrap();
            assert_eq!(db.table_names().unwrap(), [""; 0]);
            assert_eq!(db.lost_pages().unwrap(), 0);
            db.close().unwrap();
        }
    }

    /// Nothing is changed any more, and what there is can be read still, by either name.
    #[test]
    fn a_table_with_two_names_can_be_read_when_the_disk_has_failed() {
        let disk = MemoryDisk::default();
        let db = half_renamed(&disk);
        disk.fail_from(Some(crate::disk::DiskCall::Sync), 1, crate::disk::Fault::Io);
        db.checkpoint().unwrap_err();
        disk.heal();
        for name in ["a", "b"] {
            db.typed_table(name).unwrap();
        }
        assert!(db.drop_table("a").is_err());
    }
}
