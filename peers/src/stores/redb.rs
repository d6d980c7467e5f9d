//! redb: a copy-on-write B+tree in one file, one writer at a time.

use std::path::Path;
use std::sync::Arc;

use redb::{Builder, Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use crate::row::{self, Row};
use crate::store::{
    About, Done, Driver, Durability, Each, Fail, Handle, Loaded, Settings, Store, Txn, Work, crate_version,
    is_open,
};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

pub(crate) const DRIVER: Driver = Driver { about: &ABOUT, load, open };

const ABOUT: About = About {
    name: "redb",
    version: || crate_version("redb"),
    none: Ok("Durability::None: in redb's memory, until a later commit that is durable"),
    // https://github.com/cberner/redb/issues/751
    written: Err(
        "no such setting: a commit syncs (Durability::Immediate), or it is in redb's memory alone (None)",
    ),
    synced: Ok("Durability::Immediate (one phase, its default): written and synced at each commit"),
    writers: "one at a time: begin_write blocks until the one before has ended",
    memory: "a cache of --cache",
    load: "one transaction, ascending, synced",
    settle: "with --durability none an empty commit that is durable, without which its pages are never used again",
    no_scans: None,
};

#[derive(Clone)]
struct Redb {
    database: Arc<Database>,
    durability: Durability,
}

struct Open<'a>(Table<'a, &'static [u8], &'static [u8]>);

fn builder(settings: &Settings) -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(settings.cache_bytes as usize);
    builder
}

fn load(dir: &Path, settings: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let database = builder(settings).create(dir.join("redb")).map_err(Fail::store)?;
    let txn = database.begin_write().map_err(Fail::store)?;
    {
        let mut table = txn.open_table(ROWS).map_err(Fail::store)?;
        for (id, value) in rows {
            table.insert(row::key(id).as_slice(), value.as_slice()).map_err(Fail::store)?;
        }
    }
    txn.commit().map_err(Fail::store)?;
    is_open(Redb { database: Arc::new(database), durability: settings.durability })
}

fn open(dir: &Path, settings: &Settings) -> Done<Arc<dyn Store>> {
    let database = builder(settings).open(dir.join("redb")).map_err(Fail::store)?;
    Ok(Arc::new(Redb { database: Arc::new(database), durability: settings.durability }))
}

impl Store for Redb {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }

    fn settle(&self) -> Done {
        match self.durability {
            Durability::None => self.close(),
            _ => Ok(()),
        }
    }

    fn close(&self) -> Done {
        self.database.begin_write().map_err(Fail::store)?.commit().map_err(Fail::store)
    }
}

impl Handle for Redb {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        let txn = self.database.begin_read().map_err(Fail::store)?;
        get(&txn.open_table(ROWS).map_err(Fail::store)?, id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        let txn = self.database.begin_read().map_err(Fail::store)?;
        scan(&txn.open_table(ROWS).map_err(Fail::store)?, from, limit, each)
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        let mut txn = self.database.begin_write().map_err(Fail::store)?;
        if self.durability == Durability::None {
            txn.set_durability(redb::Durability::None).map_err(Fail::store)?;
        }
        work(&mut Open(txn.open_table(ROWS).map_err(Fail::store)?))?;
        txn.commit().map_err(Fail::store)
    }
}

fn get(table: &impl ReadableTable<&'static [u8], &'static [u8]>, id: u64, value: &mut Vec<u8>) -> Done<bool> {
    value.clear();
    let found = table.get(row::key(id).as_slice()).map_err(Fail::store)?;
    Ok(found.is_some_and(|found| {
        value.extend_from_slice(found.value());
        true
    }))
}

fn scan(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    from: u64,
    limit: usize,
    each: &mut Each<'_>,
) -> Done {
    let from = row::key(from);
    for found in table.range(from.as_slice()..).map_err(Fail::store)?.take(limit) {
        let (key, value) = found.map_err(Fail::store)?;
        each(row::id(key.value()).unwrap_or(u64::MAX), value.value());
    }
    Ok(())
}

impl Txn for Open<'_> {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        get(&self.0, id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        scan(&self.0, from, limit, each)
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        self.0.insert(row::key(id).as_slice(), value).map_err(Fail::store)?;
        Ok(())
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        self.update(id, value)
    }

    fn delete(&mut self, id: u64) -> Done {
        self.0.remove(row::key(id).as_slice()).map_err(Fail::store)?;
        Ok(())
    }
}
