//! fjall: a log-structured merge tree with optimistic transactions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, OptimisticWriteTx, PersistMode,
    Readable,
};

use super::copy;
use crate::row::{self, Row};
use crate::store::{
    About, Done, Driver, Durability, Each, Fail, Handle, Loaded, Settings, Store, Txn, Work, crate_version,
    is_open,
};

/// Compactions are not waited for longer.
const SETTLE: Duration = Duration::from_secs(10);

pub(crate) const DRIVER: Driver = Driver { about: &ABOUT, load, open };

const ABOUT: About = About {
    name: "fjall",
    version: || crate_version("fjall"),
    none: Ok("manual_journal_persist: in fjall's buffer, until that is full"),
    written: Ok("PersistMode::Buffer (its default): the journal is written at each commit"),
    synced: Ok("PersistMode::SyncData: the journal is written, then fdatasync, at each commit"),
    writers: "optimistic: the commit fails if what was read or written has changed since; retried and counted",
    memory: "a block cache of --cache, memtables of its default size",
    load: "its ingestion: sorted tables written directly",
    settle: "compactions are waited for, 10 s at the most",
    no_scans: None,
};

#[derive(Clone)]
struct Fjall {
    database: OptimisticTxDatabase,
    rows: OptimisticTxKeyspace,
    durability: Durability,
}

struct Open<'a> {
    txn: OptimisticWriteTx,
    rows: &'a OptimisticTxKeyspace,
}

impl From<fjall::Error> for Fail {
    fn from(error: fjall::Error) -> Self {
        Fail::store(error)
    }
}

fn open_database(dir: &Path, settings: &Settings) -> Done<Fjall> {
    let database = OptimisticTxDatabase::builder(dir)
        .cache_size(settings.cache_bytes)
        .manual_journal_persist(settings.durability == Durability::None)
        .open()?;
    let rows = database.keyspace("rows", KeyspaceCreateOptions::default)?;
    Ok(Fjall { database, rows, durability: settings.durability })
}

fn load(dir: &Path, settings: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let store = open_database(dir, settings)?;
    let mut ingestion = store.rows.inner().start_ingestion()?;
    for (id, value) in rows {
        ingestion.write(row::key(id), value.as_slice())?;
    }
    ingestion.finish()?;
    store.database.persist(PersistMode::SyncAll)?;
    is_open(store)
}

fn open(dir: &Path, settings: &Settings) -> Done<Arc<dyn Store>> {
    Ok(Arc::new(open_database(dir, settings)?))
}

impl Store for Fjall {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }

    fn settle(&self) -> Done {
        let (database, until) = (self.database.inner(), Instant::now() + SETTLE);
        while database.active_compactions() + database.outstanding_flushes() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn close(&self) -> Done {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

impl Handle for Fjall {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        copy(self.rows.get(row::key(id))?, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        scan(&self.database.read_tx(), &self.rows, from, limit, each)
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        let mode = match self.durability {
            Durability::None => None,
            Durability::Written => Some(PersistMode::Buffer),
            Durability::Synced => Some(PersistMode::SyncData),
        };
        let mut open = Open { txn: self.database.write_tx()?.durability(mode), rows: &self.rows };
        work(&mut open)?;
        open.txn.commit()?.map_err(|_| Fail::Conflict)
    }
}

fn scan(
    reader: &impl Readable,
    rows: &OptimisticTxKeyspace,
    from: u64,
    limit: usize,
    each: &mut Each<'_>,
) -> Done {
    // A transaction takes the whole range for read: without an end every commit behind it would be a conflict.
    let range = row::key(from)..row::key(from.saturating_add(limit as u64));
    for found in reader.range(rows, range) {
        let (key, value) = found.into_inner()?;
        each(row::id(&key).unwrap_or(u64::MAX), &value);
    }
    Ok(())
}

impl Txn for Open<'_> {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        copy(self.txn.get(self.rows, row::key(id))?, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        scan(&self.txn, self.rows, from, limit, each)
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        self.txn.insert(self.rows, row::key(id), value);
        Ok(())
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        self.update(id, value)
    }

    fn delete(&mut self, id: u64) -> Done {
        self.txn.remove(self.rows, row::key(id));
        Ok(())
    }
}
