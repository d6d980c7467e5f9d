//! sled: a lock-free tree over a log-structured page cache, with serializable transactions.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use sled::transaction::{
    ConflictableTransactionError, TransactionError, TransactionalTree, UnabortableTransactionError,
};
use sled::{Batch, Config, Db, Mode};

use super::copy;
use crate::row::{self, Row};
use crate::store::{
    About, Done, Driver, Durability, Each, Fail, Handle, Loaded, Settings, Store, Txn, Work, crate_version,
    is_open,
};

/// Rows of a batch of a load.
const BATCH_ROWS: usize = 1_000;
/// As flifo's log, with --durability none.
const FLUSH_MS: u64 = 1_000;

pub(crate) const DRIVER: Driver = Driver { about: &ABOUT, load, open };

const ABOUT: About = About {
    name: "sled",
    version: || crate_version("sled"),
    none: Ok("flush_every_ms = 1000: in sled's buffers, written and synced about every second"),
    written: Err(
        "no such setting: a flush writes and syncs, and without one a commit is in sled's memory alone",
    ),
    synced: Ok("TransactionalTree::flush: all buffers are written and synced before a transaction returns"),
    writers: "one at a time: a transaction holds one lock of the process, which single reads share",
    memory: "a page cache of --cache",
    load: "batches of 1000 rows, ascending, then a flush",
    settle: "a flush",
    no_scans: Some("its transactions cannot scan"),
};

#[derive(Clone)]
struct Sled {
    database: Db,
    durability: Durability,
}

struct Open<'a>(&'a TransactionalTree);

impl From<sled::Error> for Fail {
    fn from(error: sled::Error) -> Self {
        Fail::store(error)
    }
}

impl From<UnabortableTransactionError> for Fail {
    fn from(error: UnabortableTransactionError) -> Self {
        match error {
            UnabortableTransactionError::Conflict => Fail::Conflict,
            UnabortableTransactionError::Storage(error) => Fail::store(error),
        }
    }
}

fn open_database(dir: &Path, settings: &Settings) -> Done<Sled> {
    let database = Config::new()
        .path(dir)
        .cache_capacity(settings.cache_bytes)
        .flush_every_ms(Some(FLUSH_MS))
        .mode(Mode::HighThroughput)
        .open()?;
    Ok(Sled { database, durability: settings.durability })
}

fn load(dir: &Path, settings: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let store = open_database(dir, settings)?;
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let mut batch = Batch::default();
        for (id, value) in rows.by_ref().take(BATCH_ROWS) {
            batch.insert(&row::key(id), value.as_slice());
        }
        store.database.apply_batch(batch)?;
    }
    store.close()?;
    is_open(store)
}

fn open(dir: &Path, settings: &Settings) -> Done<Arc<dyn Store>> {
    Ok(Arc::new(open_database(dir, settings)?))
}

impl Store for Sled {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }

    fn settle(&self) -> Done {
        self.close()
    }

    fn close(&self) -> Done {
        self.database.flush()?;
        Ok(())
    }
}

impl Handle for Sled {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        copy(self.database.get(row::key(id))?, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        for found in self.database.range(row::key(from)..).take(limit) {
            let (key, value) = found?;
            each(row::id(&key).unwrap_or(u64::MAX), &value);
        }
        Ok(())
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        // sled wants a closure that can be called by several; it calls this one from here alone.
        let work = RefCell::new(work);
        let outcome = self.database.transaction(|tree| {
            if self.durability == Durability::Synced {
                tree.flush();
            }
            (work.borrow_mut())(&mut Open(tree)).map_err(|fail| match fail {
                Fail::Conflict => ConflictableTransactionError::Conflict,
                Fail::Store(_) => ConflictableTransactionError::Abort(fail),
            })
        });
        outcome.map_err(|error| match error {
            TransactionError::Abort(fail) => fail,
            TransactionError::Storage(error) => Fail::store(error),
        })
    }
}

impl Txn for Open<'_> {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        copy(self.0.get(row::key(id))?, value)
    }

    fn scan(&mut self, _from: u64, _limit: usize, _each: &mut Each<'_>) -> Done {
        Err(Fail::Store("sled's transactions cannot scan".into()))
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        self.0.insert(&row::key(id), value)?;
        Ok(())
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        self.update(id, value)
    }

    fn delete(&mut self, id: u64) -> Done {
        self.0.remove(&row::key(id))?;
        Ok(())
    }
}
