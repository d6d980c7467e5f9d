//! The table `sbtest (id, k, c, pad)` with the index `k_1` on `k`: the operations that the workloads need.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use flifo_admission::{Admission, Config, Policy};
use flifo_engine::row::{Column, ColumnType, Index, RowError, RowView, Schema, Value};
use flifo_engine::{Database, Error as EngineError, Isolation, Transaction, TypedTable};

use super::row::{self, C_BYTES};
use crate::support::error::Error;

const TABLE: &str = "sbtest";
const INDEX: &str = "k_1";
/// The columns' places.
const ID: usize = 0;
const K: usize = 1;
const C: usize = 2;
/// Rows of a transaction that removes many.
const BATCH: usize = 1_000;

/// Handles of the table. Clones are handles of the same one.
#[derive(Clone)]
pub struct Sbtest {
    table: TypedTable,
}

/// The number of rows and the sum of their `k`, which every acknowledged change affects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows.
    pub rows: i64,
    /// The sum of all `k`.
    pub sum_k: i64,
}

impl Totals {
    /// With the changes added.
    pub fn plus(self, changes: Totals) -> Totals {
        Totals { rows: self.rows + changes.rows, sum_k: self.sum_k + changes.sum_k }
    }

    /// With a row more.
    fn with_row(self, k: u32) -> Totals {
        self.plus(Totals { rows: 1, sum_k: k.into() })
    }
}

fn schema() -> Result<Schema, RowError> {
    Schema::builder()
        .column(Column::new("id", ColumnType::U32))
        .column(Column::new("k", ColumnType::U32))
        .column(Column::new("c", ColumnType::Text))
        .column(Column::new("pad", ColumnType::Text))
        .primary_key(["id"])
        .index(Index::new(INDEX, ["k"]))
        .build()
}

impl Sbtest {
    /// Creates the empty table.
    pub fn create(database: &Database) -> Result<Self, Error> {
        let schema = schema().map_err(EngineError::from)?;
        Ok(Sbtest { table: database.create_typed_table(TABLE, schema)? })
    }

    /// Opens the existing table.
    pub fn open(database: &Database) -> Result<Self, Error> {
        Ok(Sbtest { table: database.typed_table(TABLE)? })
    }

    /// Fills the empty table with the rows 1 to `rows`, or until `goes_on`, called from time to time, returns false.
    /// Returns the totals.
    pub fn load(
        &self,
        database: &Database,
        (seed, rows): (u64, u32),
        goes_on: impl Fn() -> bool,
        progress: impl FnMut(u64),
    ) -> Result<Totals, Error> {
        let totals = Cell::new(Totals::default());
        // Every 4096 rows is often enough for Ctrl-C and costs nothing.
        let ids = (1..=rows).take_while(|id| !id.is_multiple_of(4096) || goes_on());
        let loaded = ids.map(|id| {
            let values = row::value(seed, id, rows);
            let (k, c, pad) = row::columns(&values).expect("a row's values are made as they are read");
            totals.set(totals.get().with_row(k));
            [Value::from(id), Value::from(k), Value::from(c.to_owned()), Value::from(pad.to_owned())]
        });
        database.bulk_load_rows(&self.table, loaded, progress)?;
        Ok(totals.get())
    }

    /// Appends the `c` of a row to `out`; false if there is no such row.
    pub fn read_c(&self, txn: &mut Transaction<'_>, id: u32, out: &mut Vec<u8>) -> Result<bool, Error> {
        let found = self.table.get_with(txn, id, |row| c_of(row).map(|c| out.extend_from_slice(c)))?;
        match found {
            Some(Some(())) => Ok(true),
            Some(None) => Err(Error::NotARow { id }),
            None => Ok(false),
        }
    }

    /// Passes `k` and `c` of the rows from `first` on to `each`, at most `most` of them and none after `last`; returns
    /// their number.
    pub fn scan(
        &self,
        txn: &mut Transaction<'_>,
        (first, last, most): (u32, u32, u32),
        mut each: impl FnMut(u32, &[u8; C_BYTES]),
    ) -> Result<u32, Error> {
        let (mut rows, mut wrong) = (0, None);
        self.table.scan(txn, first..=last, |row| {
            let Some((k, c)) = k_of(row).zip(c_of(row)) else {
                wrong = Some(id_of(row));
                return ControlFlow::Break(());
            };
            each(k, c);
            rows += 1;
            if rows < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        wrong.map_or(Ok(rows), |id| Err(Error::NotARow { id }))
    }

    /// `k = k + 1`; false if there is no such row.
    pub fn increment_k(&self, txn: &mut Transaction<'_>, id: u32) -> Result<bool, Error> {
        let increment = |row: &mut flifo_engine::row::Row| -> Result<(), EngineError> {
            let k = row.get(K)?.as_u64().unwrap_or(0);
            Ok(row.set(K, k + 1)?)
        };
        Ok(self.table.update_with(txn, id, increment)?)
    }

    /// Replaces `c`; false if there is no such row.
    pub fn update_c(&self, txn: &mut Transaction<'_>, id: u32, c: &[u8]) -> Result<bool, Error> {
        let c = row::text(c).ok_or(Error::NotARow { id })?;
        Ok(self.table.update_with(txn, id, |row| Ok(row.set(C, c.to_owned())?))?)
    }

    /// Removes a row; returns its `k`, or `None` if there is no such row. The transaction is of repeatable read: it
    /// removes the row that it reads, or gets a write conflict.
    pub fn delete(&self, txn: &mut Transaction<'_>, id: u32) -> Result<Option<u32>, Error> {
        let Some(k) = self.table.get_with(txn, id, k_of)? else { return Ok(None) };
        let k = k.ok_or(Error::NotARow { id })?;
        Ok(self.table.delete(txn, id)?.then_some(k))
    }

    /// Adds a row with these values, as [`row::value`] builds them; false if a row has that id.
    pub fn insert(&self, txn: &mut Transaction<'_>, id: u32, values: &[u8]) -> Result<bool, Error> {
        let (k, c, pad) = row::columns(values).ok_or(Error::NotARow { id })?;
        match self.table.insert(txn, (id, k, c, pad)) {
            Ok(_) => Ok(true),
            Err(EngineError::DuplicateKey { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the whole table and the whole index, which must agree. Calls `progress` with the number of rows so far,
    /// from time to time.
    pub fn totals(&self, database: &Database, mut progress: impl FnMut(u64)) -> Result<Totals, Error> {
        let session = database.session(&without_limit());
        let mut txn = session.begin(Isolation::RepeatableRead);
        let mut rows = Totals::default();
        self.scan(&mut txn, (0, u32::MAX, u32::MAX), |k, _| {
            rows = rows.with_row(k);
            if rows.rows % 4096 == 0 {
                progress(rows.rows as u64);
            }
        })?;
        let mut entries = Totals::default();
        self.table.scan_entries(&mut txn, INDEX, .., |entry| {
            let k = entry.get(K).ok().and_then(|k| k.as_u64());
            entries = entries.plus(Totals { rows: 1, sum_k: k.map_or(0, |k| k as i64) });
            ControlFlow::Continue(())
        })?;
        if rows != entries {
            return Err(Error::Data(format!(
                "the table sbtest has {} rows with a sum of k of {}, its index k_1 {} entries with {}: please report this",
                rows.rows, rows.sum_k, entries.rows, entries.sum_k
            )));
        }
        Ok(rows)
    }

    /// Removes the rows from `first` on; returns their totals.
    pub fn trim(&self, database: &Database, first: u32) -> Result<Totals, Error> {
        let session = database.session(&without_limit());
        let mut removed = Totals::default();
        loop {
            let mut txn = session.begin(Isolation::RepeatableRead);
            let mut ids = Vec::new();
            self.table.scan(&mut txn, first.., |row| {
                ids.push(id_of(row));
                if ids.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            if ids.is_empty() {
                return Ok(removed);
            }
            for id in ids {
                removed = self.delete(&mut txn, id)?.map_or(removed, |k| removed.with_row(k));
            }
            txn.commit()?;
        }
    }
}

fn id_of(row: &RowView<'_>) -> u32 {
    number(row, ID).unwrap_or(0)
}

fn k_of(row: &RowView<'_>) -> Option<u32> {
    number(row, K)
}

fn number(row: &RowView<'_>, column: usize) -> Option<u32> {
    row.get(column).ok()?.as_u64()?.try_into().ok()
}

/// The `c` of a row; `None` if the row is invalid.
fn c_of<'r>(row: &'r RowView<'_>) -> Option<&'r [u8; C_BYTES]> {
    row.get(C).ok()?.as_text()?.as_bytes().try_into().ok()
}

/// A scheduler without a limit, for work that is not measured.
pub(crate) fn without_limit() -> Arc<Admission> {
    Admission::new(Config { policy: Policy::None, ..Config::default() })
        .expect("a default configuration is possible")
}

#[cfg(test)]
mod tests {
    use flifo_engine::EngineConfig;
    use flifo_engine::disk::MemoryDisk;

    use super::*;

    fn empty() -> (Database, Sbtest) {
        let config =
            EngineConfig { buffer_pool_bytes: 8 << 20, buffer_pool_instances: 1, ..EngineConfig::default() };
        let database = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
        let table = Sbtest::create(&database).unwrap();
        (database, table)
    }

    fn loaded(rows: u32) -> (Database, Sbtest, Totals) {
        let (database, table) = empty();
        let totals = table.load(&database, (1, rows), || true, |_| {}).unwrap();
        (database, table, totals)
    }

    #[test]
    fn rows_are_what_was_loaded() {
        let (database, table, totals) = loaded(200);
        assert_eq!((totals.rows, table.totals(&database, |_| {}).unwrap()), (200, totals));
        let session = database.session(&without_limit());
        let mut txn = session.begin(Isolation::RepeatableRead);
        let mut c = Vec::new();
        assert!(table.read_c(&mut txn, 7, &mut c).unwrap());
        assert_eq!(Some(&c[..]), row::c(&row::value(1, 7, 200)).map(|c| &c[..]));
        assert!(!table.read_c(&mut txn, 201, &mut c).unwrap());
        let mut count = |range| table.scan(&mut txn, range, |_, _| {}).unwrap();
        assert_eq!([count((5, 14, 100)), count((195, u32::MAX, 100)), count((1, 200, 3))], [10, 6, 3]);
    }

    #[test]
    fn changes_show_in_rows_and_index() {
        let (database, table, totals) = loaded(50);
        let session = database.session(&without_limit());
        let mut txn = session.begin(Isolation::RepeatableRead);
        assert!(table.increment_k(&mut txn, 3).unwrap() && !table.increment_k(&mut txn, 51).unwrap());
        assert!(table.update_c(&mut txn, 4, &[b'7'; C_BYTES]).unwrap());
        let k = table.delete(&mut txn, 5).unwrap().unwrap();
        assert_eq!(table.delete(&mut txn, 5).unwrap(), None);
        let values = row::value(9, 5, 50);
        assert!(table.insert(&mut txn, 5, &values).unwrap() && !table.insert(&mut txn, 5, &values).unwrap());
        assert!(table.insert(&mut txn, 60, &values).unwrap());
        txn.commit().unwrap();
        let added = row::k(&values).map_or(0, i64::from);
        let changed = Totals { rows: 1, sum_k: 1 - i64::from(k) + 2 * added };
        assert_eq!(table.totals(&database, |_| {}).unwrap(), totals.plus(changed));
        assert_eq!(table.trim(&database, 51).unwrap(), Totals { rows: 1, sum_k: added });
        assert_eq!(table.trim(&database, 51).unwrap(), Totals::default());
    }

    #[test]
    fn a_load_may_be_broken_off() {
        let (database, table) = empty();
        let totals = table.load(&database, (1, 10_000), || false, |_| {}).unwrap();
        assert_eq!(totals.rows, 4_095);
    }
}
