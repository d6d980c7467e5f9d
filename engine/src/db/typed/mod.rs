//! Tables of typed columns.
//!
//! The tree of rows has the primary key as its keys and the other columns as its values; each index is a tree whose
//! keys are its entries. All trees are versioned in the same way, so an index scan sees a consistent snapshot without
//! reading the rows, and undo and recovery handle all trees alike.
//!
//! # Protocol
//! A writer first locks the row by writing its version. Then it owns the row's entries in all indexes, and changes them
//! next. A statement that fails in between is undone to its beginning.

mod check;
mod index;
mod iter;
mod load;
mod numbers;
mod read;
mod sort;
mod write;

pub use iter::Rows;
pub(super) use sort::remove_leftovers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use numbers::Numbers;

use super::tree::OpenTree;
use crate::error::{Error, Result};
use crate::row::{IndexFormat, Schema};
use crate::scratch::ScratchPool;
use crate::tree;
use crate::txn::Txn;

/// A table of typed columns, with a primary key and indexes, read and changed by transactions. Clones are handles of
/// the same table.
///
/// ```
/// # use std::ops::ControlFlow;
/// # use flifo_admission::{Admission, Config};
/// # use flifo_engine::{Database, EngineConfig, Error, Isolation};
/// use flifo_engine::row::{Column, ColumnType, Index, Prefix, Schema, desc};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::create(dir.path(), EngineConfig::default())?;
/// # let admission = Admission::new(Config::default())?;
/// let schema = Schema::builder()
///     .column(Column::new("id", ColumnType::U64))
///     .column(Column::new("mail", ColumnType::Text))
///     .column(Column::new("town", ColumnType::Text))
///     .column(Column::new("born", ColumnType::I32).nullable())
///     .primary_key(["id"])
///     .index(Index::unique("by_mail", ["mail"]))
///     .index(Index::new("by_town", ["town".into(), desc("born")]))
///     .build()?;
/// let people = db.create_typed_table("people", schema)?;
///
/// let session = db.session(&admission);
/// let mut txn = session.begin(Isolation::RepeatableRead);
/// people.insert(&mut txn, (1, "ann@example.org", "Oslo", 1984))?;
/// people.insert(&mut txn, (2, "bob@example.org", "Oslo", 1990))?;
/// let again = people.insert(&mut txn, (3, "ann@example.org", "Bergen", None::<i32>));
/// assert!(matches!(again, Err(Error::DuplicateKey { index }) if index == "by_mail"));
///
/// people.update_with(&mut txn, 1, |row| Ok(row.set("mail", "ann@example.com")?))?;
/// let mut names = Vec::new();
/// people.scan_index(&mut txn, "by_town", Prefix("Oslo"), |row| {
///     names.push(row.get("id").unwrap().as_u64());
///     ControlFlow::Continue(())
/// })?;
/// assert_eq!(names, [Some(2), Some(1)], "the youngest first");
/// txn.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TypedTable {
    pub(super) open: Arc<OpenTree>,
    pub(super) typed: Arc<OpenTyped>,
}

/// What a table has besides the tree of its rows.
pub(super) struct OpenTyped {
    pub(super) schema: Arc<Schema>,
    /// The trees of the indexes, as the schema has them.
    pub(super) indexes: Vec<tree::Tree>,
    /// Counts the beginnings and ends of bulk loads: odd during a load, when no other session uses the table.
    ///
    /// Invariant: a load writes to the indexes between its two increments. A load that has written nothing there takes
    /// its first increment back. So a reader that finds the same even number before and after has seen no page of an
    /// unfinished load: a reader that sees a load's pages (validated, hence after their latch was released) sees its
    /// first increment as well.
    loads: AtomicU64,
    /// Of the column that the table numbers.
    numbers: Numbers,
}

impl OpenTyped {
    /// `next_number`: no row has this number, or a later one. `loading`: the table is unusable until the next open.
    pub(super) fn new(schema: Schema, indexes: Vec<tree::Tree>, next_number: u64, loading: bool) -> Self {
        OpenTyped {
            schema: Arc::new(schema),
            indexes,
            loads: AtomicU64::new(loading.into()),
            numbers: Numbers::new(next_number),
        }
    }

    /// The indexes and their trees.
    fn indexes(&self) -> impl Iterator<Item = (&IndexFormat, &tree::Tree)> {
        self.schema.indexes().iter().zip(&self.indexes)
    }
}

impl TypedTable {
    pub(super) fn of(open: Arc<OpenTree>) -> Result<Self> {
        match open.typed.clone() {
            Some(typed) => Ok(TypedTable { open, typed }),
            None => Err(Error::PlainTable { name: open.name.clone() }),
        }
    }

    /// The name in the catalog.
    pub fn name(&self) -> &str {
        &self.open.name
    }

    /// Columns, primary key and indexes.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.typed.schema
    }

    /// That no load is going on; how often one has begun or ended.
    fn check_loaded(&self) -> Result<u64> {
        let loads = self.typed.loads.load(Ordering::Acquire);
        match loads % 2 {
            0 => Ok(loads),
            _ => Err(Error::TableLoading { name: self.name().to_owned() }),
        }
    }

    /// Checks that no load has begun to write to the indexes since [`Self::check_loaded`] returned `loads`; otherwise
    /// the entries read may belong to a load, even to one that failed.
    fn check_still_loaded(&self, loads: u64) -> Result<()> {
        match self.typed.loads.load(Ordering::Acquire) == loads {
            true => Ok(()),
            false => Err(Error::TableLoading { name: self.name().to_owned() }),
        }
    }
}

impl TypedTable {
    /// As [`Self::check_loaded`], for a writer: it has to be seen by a load that begins, or to see it.
    fn check_loaded_to_write(&self, txn: &mut Txn<'_>) -> Result<()> {
        if !txn.has_written() {
            txn.begin_writing()?;
            // Pairs with the fence in `bulk_load_rows`: this transaction counts as active before it checks for a load,
            // and a load announces itself before it checks for active transactions. One of them sees the other.
            fence(Ordering::SeqCst);
        }
        self.check_loaded().map(drop)
    }
}

/// Buffers of a statement.
#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
    entry: Vec<u8>,
    old_entry: Vec<u8>,
}

/// A row's memory is kept for the next one up to this size.
const KEPT_BYTES: usize = 1 << 20;

/// One that is nested in another's callback has its own.
static SCRATCH: ScratchPool<Scratch> = ScratchPool::new();

fn with_scratch<T>(f: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.take();
    let result = f(&mut scratch);
    // That of a large value is not kept.
    if scratch.value.capacity() > KEPT_BYTES {
        scratch.value = Vec::new();
    }
    result
}
