//! LMDB, by way of heed: a copy-on-write B+tree in a mapped file, one writer at a time.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RoTxn, RwTxn, WithTls};

use super::copy;
use crate::row::{self, Row};
use crate::store::{
    About, Done, Driver, Durability, Each, Fail, Handle, Loaded, Settings, Store, Txn, Work, crate_version,
    is_open,
};

pub(crate) const DRIVER: Driver = Driver { about: &ABOUT, load, open };

const ABOUT: About = About {
    name: "lmdb",
    version: || {
        let lmdb = heed::lmdb_version();
        format!("{}.{}.{} (heed {})", lmdb.major, lmdb.minor, lmdb.patch, crate_version("heed"))
    },
    none: Ok("MDB_NOSYNC, as for written: it has nothing weaker"),
    written: Ok(
        "MDB_NOSYNC: written at each commit. Weaker than the others against a power cut, which may damage the \
                 database, not only lose the last commits",
    ),
    synced: Ok("no flags: data, then the meta page, written and synced at each commit"),
    writers: "one at a time: mdb_txn_begin blocks on a mutex until the one before has ended",
    memory: "the mapped file, in the page cache",
    load: "one transaction, MDB_APPEND, synced",
    settle: "mdb_env_sync",
    no_scans: None,
};

type Rows = Database<Bytes, Bytes>;

#[derive(Clone)]
struct Lmdb {
    env: Env<WithTls>,
    rows: Rows,
}

struct Open<'a> {
    txn: RwTxn<'a>,
    rows: Rows,
}

impl From<heed::Error> for Fail {
    fn from(error: heed::Error) -> Self {
        Fail::store(error)
    }
}

fn open_env(dir: &Path, settings: &Settings) -> Done<Lmdb> {
    let flags = match settings.durability {
        Durability::None | Durability::Written => EnvFlags::NO_SYNC,
        Durability::Synced => EnvFlags::empty(),
    };
    let mut options = EnvOpenOptions::new();
    // Address space alone. Pages that readers may still see are not used again, so it takes more than the rows.
    options.map_size((16 << 30).max(settings.cache_bytes as usize * 8));
    options.max_readers(settings.threads + 16);
    // SAFETY: NO_SYNC endangers the file in a crash of the system, and this process opens it no second time.
    unsafe { options.flags(flags) };
    // SAFETY: only this environment touches the file of the map, which is in a private directory.
    let env = unsafe { options.open(dir)? };
    let mut txn = env.write_txn()?;
    let rows = env.create_database(&mut txn, None)?;
    txn.commit()?;
    Ok(Lmdb { env, rows })
}

fn load(dir: &Path, settings: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let lmdb = open_env(dir, settings)?;
    let mut txn = lmdb.env.write_txn()?;
    for (id, value) in rows {
        lmdb.rows.put_with_flags(&mut txn, PutFlags::APPEND, &row::key(id), &value)?;
    }
    txn.commit()?;
    lmdb.env.force_sync()?;
    is_open(lmdb)
}

fn open(dir: &Path, settings: &Settings) -> Done<Arc<dyn Store>> {
    Ok(Arc::new(open_env(dir, settings)?))
}

impl Store for Lmdb {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        Ok(Box::new(self.clone()))
    }

    fn settle(&self) -> Done {
        self.close()
    }

    fn close(&self) -> Done {
        Ok(self.env.force_sync()?)
    }
}

impl Handle for Lmdb {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        let txn = self.env.read_txn()?;
        get(self.rows, &txn, id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        let txn = self.env.read_txn()?;
        scan(self.rows, &txn, from, limit, each)
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        let mut open = Open { txn: self.env.write_txn()?, rows: self.rows };
        work(&mut open)?;
        Ok(open.txn.commit()?)
    }
}

fn get(rows: Rows, txn: &RoTxn<'_>, id: u64, value: &mut Vec<u8>) -> Done<bool> {
    copy(rows.get(txn, &row::key(id))?, value)
}

fn scan(rows: Rows, txn: &RoTxn<'_>, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
    let from = row::key(from);
    let range = (Bound::Included(from.as_slice()), Bound::Unbounded);
    for found in rows.range(txn, &range)?.take(limit) {
        let (key, value) = found?;
        each(row::id(key).unwrap_or(u64::MAX), value);
    }
    Ok(())
}

impl Txn for Open<'_> {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        get(self.rows, &self.txn, id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        scan(self.rows, &self.txn, from, limit, each)
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        Ok(self.rows.put(&mut self.txn, &row::key(id), value)?)
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        self.update(id, value)
    }

    fn delete(&mut self, id: u64) -> Done {
        self.rows.delete(&mut self.txn, &row::key(id))?;
        Ok(())
    }
}
