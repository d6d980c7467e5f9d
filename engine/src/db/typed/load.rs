//! Bulk loads of typed rows, with their indexes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::sort::Sorter;
use super::{Scratch, TypedTable};
use crate::Waiter;
use crate::db::Database;
use crate::error::{Error, Result};
use crate::row::IntoRow;
use crate::txn::load_versions;

/// Keeps others off the table while it lives; and to the next open, which empties the table, if at its end a note still says
/// that the trees are being filled.
struct Loading<'t> {
    loads: &'t AtomicU64,
    /// Its value before.
    before: u64,
    noted: Cell<bool>,
    /// A reader may have seen entries that were removed again, or whose rows came later.
    wrote_entries: Cell<bool>,
}

impl<'t> Loading<'t> {
    fn begin(table: &'t TypedTable) -> Result<Self> {
        let loads = &table.typed.loads;
        let before = loads.fetch_or(1, Ordering::AcqRel);
        match before % 2 {
            0 => Ok(Loading { loads, before, noted: Cell::new(false), wrote_entries: Cell::new(false) }),
            _ => Err(Error::TableLoading { name: table.name().to_owned() }),
        }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if !self.noted.get() {
            self.loads.store(self.before + if self.wrote_entries.get() { 2 } else { 0 }, Ordering::Release);
        }
    }
}

impl Database {
    /// Fills an empty table and its indexes from rows in strictly ascending order of their primary keys, and returns
    /// their number. Calls `progress` with the number of rows so far, from time to time. Every transaction sees the
    /// rows, including transactions that began before. An auto-increment column gets numbers where it is NULL.
    ///
    /// Until the load ends, other sessions get [`Error::TableLoading`]. The entries of each index are sorted in
    /// [`sort_buffer_bytes`](crate::EngineConfig::sort_buffer_bytes) of memory, and beyond that in files.
    ///
    /// If the load fails, if `progress` or `rows` panics, or after a crash, the table is empty. If it has indexes and
    /// cannot be emptied at once, or if the last call of `progress` panics, the next open empties it; until then the
    /// table is [`Error::TableLoading`].
    ///
    /// # Errors
    /// [`Error::TransactionsActive`] if the table has indexes and an active transaction has written or locked rows.
    pub fn bulk_load_rows<'v, R: IntoRow<'v>>(
        &self,
        table: &TypedTable,
        rows: impl IntoIterator<Item = R>,
        progress: impl FnMut(u64),
    ) -> Result<u64> {
        let waiter = self.inner.waiter()?;
        let tree = self.inner.check_handle(&table.open)?;
        let loading = Loading::begin(table)?;
        let indexed = !table.typed.indexes.is_empty();
        // See `check_loaded_to_write`.
        fence(Ordering::SeqCst);
        if indexed && self.inner.txns().stats().active > 0 {
            return Err(Error::TransactionsActive { name: table.name().to_owned() });
        }
        let mut load = Load { table, entries: table.typed.indexes().map(|_| self.sorter()).collect() };
        let (mut rows, mut scratch) = (rows.into_iter(), Scratch::default());
        // The root of the rows is written last: until then the table is empty.
        let next = |key: &mut Vec<u8>, version: &mut Vec<u8>| {
            let Some(row) = rows.next() else {
                if indexed {
                    // Purge may be done with the rows that were there, and not with their entries.
                    table.typed.indexes.iter().try_for_each(|tree| tree.check_empty(&waiter))?;
                    self.inner.catalog.begin_load(&waiter, tree.root())?;
                    loading.noted.set(true);
                    loading.wrote_entries.set(true);
                    load.load_indexes(&waiter)?;
                    #[cfg(test)]
                    tests::indexes_are_loaded();
                }
                return Ok(false);
            };
            row.with_values(|values| match table.typed.schema.auto_increment() {
                None => table.encode(values, &mut scratch),
                Some(column) => {
                    table.encode_numbered(&self.inner, values, column, &mut scratch, &waiter).map(drop)
                }
            })?;
            key.extend_from_slice(&scratch.key);
            version.extend_from_slice(&scratch.value);
            load.add_entries(&mut scratch, &waiter)?;
            Ok(true)
        };
        self.inner.change_durably(&waiter, || {
            let loaded = load_versions(tree, &waiter, Self::BULK_LOAD_FILL, progress, next);
            if loading.noted.get() {
                if loaded.is_err() {
                    // Keeps purge out of their trees.
                    let _no_purge = self.inner.txns().pause_purge(&waiter);
                    clear_indexes(table, &waiter)?;
                }
                self.inner.catalog.end_load(&waiter, tree.root())?;
                loading.noted.set(false);
            }
            loaded
        })
    }
}

impl Database {
    pub(super) fn sorter(&self) -> Sorter<'_> {
        Sorter::new(&*self.inner.disk, self.inner.sort_buffer_bytes)
    }
}

fn clear_indexes(table: &TypedTable, waiter: &Waiter) -> Result<()> {
    table.typed.indexes.iter().try_for_each(|tree| tree.free_nodes(waiter))
}

/// The indexes' part of a load.
struct Load<'t> {
    table: &'t TypedTable,
    /// Of each index.
    entries: Vec<Sorter<'t>>,
}

impl Load<'_> {
    /// The entries of the row that is in `scratch`.
    fn add_entries(&mut self, scratch: &mut Scratch, waiter: &Waiter) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let schema = &self.table.typed.schema;
        let row = schema.row().open(&scratch.value)?;
        for (index, entries) in schema.indexes().iter().zip(&mut self.entries) {
            index.entry_of(&scratch.key, &row, &mut scratch.entry)?;
            entries.push(&scratch.entry, waiter)?;
        }
        Ok(())
    }

    fn load_indexes(&mut self, waiter: &Waiter) -> Result<()> {
        self.table.typed.indexes().zip(self.entries.drain(..)).try_for_each(|((index, tree), entries)| {
            entries.load(index, tree, Database::BULK_LOAD_FILL, waiter)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ops::ControlFlow;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use flifo_admission::{Admission, Config, Policy};

    use super::*;
    use crate::db::EngineConfig;
    use crate::disk::MemoryDisk;
    use crate::row::{Column, ColumnType, Index, Schema};
    use crate::{Isolation, TypedTable};

    thread_local! {
        /// What happens when a load of this thread has written the indexes, and not the rows.
        static BETWEEN: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    pub(super) fn indexes_are_loaded() {
        if let Some(then) = BETWEEN.take() {
            then();
        }
    }

    /// A table with an index.
    fn loadable() -> (Database, TypedTable) {
        let config = EngineConfig { buffer_pool_bytes: 4 << 20, ..EngineConfig::default() };
        let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
        let schema = Schema::builder()
            .column(Column::new("id", ColumnType::U64))
            .column(Column::new("name", ColumnType::Text))
            .primary_key(["id"])
            .index(Index::new("by_name", ["name"]))
            .build()
            .unwrap();
        let table = db.create_typed_table("t", schema).unwrap();
        (db, table)
    }

    fn read(table: &TypedTable, txn: &mut crate::Transaction<'_>, look_up: bool) -> Result<u64> {
        let mut found = 0;
        match look_up {
            true => table.scan_index(txn, "by_name", .., |_| {
                found += 1;
                ControlFlow::Continue(())
            })?,
            false => table.scan_entries(txn, "by_name", .., |_| {
                found += 1;
                ControlFlow::Continue(())
            })?,
        }
        Ok(found)
    }

    /// Purge is done with a row, and not with its entry yet.
    #[test]
    fn a_load_touches_nothing_while_an_index_has_an_entry() {
        let (db, table) = loadable();
        let (index, waiter) = (&table.typed.indexes[0], Waiter::background());
        index.upsert(&waiter, b"an entry", b"").unwrap();
        let loaded = db.bulk_load_rows(&table, [(1, "a")], |_| {});
        assert!(matches!(loaded, Err(Error::TreeNotEmpty)), "{loaded:?}");
        assert!(index.delete(&waiter, b"an entry").unwrap());
        assert_eq!(db.bulk_load_rows(&table, [(1, "a")], |_| {}).unwrap(), 1);
    }

    /// They have found the table loaded, queue for a slot, and acquire it in the middle of a load.
    #[test]
    fn readers_that_a_load_overtakes_see_nothing_of_it() {
        let (db, table) = loadable();
        let config =
            Config { policy: Policy::Fifo, thread_concurrency: 1, stall_limit: None, ..Config::default() };
        let admission = Admission::new(config).unwrap();
        let session = db.session(&admission);
        let mut rows = table.iter_index(&mut session.begin(Isolation::ReadCommitted), "by_name", ..).unwrap();
        let (leave, left) = mpsc::channel::<()>();
        let (answer, answered) = mpsc::channel();
        thread::scope(|scope| {
            let holder = db.session(&admission);
            let (hold, held) = mpsc::channel();
            scope.spawn(move || {
                let _place = holder.statement().unwrap();
                hold.send(()).unwrap();
                left.recv().unwrap();
            });
            held.recv().unwrap();
            let told = answer.clone();
            scope.spawn(move || told.send(rows.next().map_or(Ok(0), |row| row.map(|_| 1))).unwrap());
            for look_up in [true, false] {
                let (table, session, told) = (&table, db.session(&admission), answer.clone());
                scope.spawn(move || {
                    let found = read(table, &mut session.begin(Isolation::ReadCommitted), look_up);
                    told.send(found).unwrap();
                });
            }
            drop(answer);
            while admission.snapshot().queued < 3 {
                thread::yield_now();
            }
            let (tell, all) = mpsc::channel();
            BETWEEN.set(Some(Box::new(move || {
                leave.send(()).unwrap();
                answered.iter().for_each(|found| tell.send(found).unwrap());
            })));
            assert_eq!(db.bulk_load_rows(&table, [(1, "a"), (2, "b")], |_| {}).unwrap(), 2);
            for found in all {
                assert!(matches!(found, Err(Error::TableLoading { .. })), "{found:?}");
            }
        });
        for look_up in [true, false] {
            let found = read(&table, &mut session.begin(Isolation::ReadCommitted), look_up);
            assert_eq!(found.unwrap(), 2);
        }
    }
}
