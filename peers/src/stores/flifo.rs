//! flifo's engine: a table with versions and row locks, a session a thread under one admission.

use std::ops::{Bound, ControlFlow, RangeInclusive};
use std::path::Path;
use std::sync::Arc;

use flifo_admission::{Admission, Config};
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Session, Table, Transaction};

use super::happened;
use crate::row::{self, Row};
use crate::store::{
    About, Done, Driver, Durability, Each, Fail, Handle, Loaded, Settings, Store, Txn, Work, crate_version,
    is_open,
};

const TABLE: &str = "rows";
/// The engine's default, and the bytes written when a database is created.
const REDO_BYTES: RangeInclusive<u64> = 128 << 20..=1 << 30;

pub(crate) const DRIVER: Driver = Driver { about: &ABOUT, load, open };

const ABOUT: About = About {
    name: "flifo",
    version: || crate_version("flifo-engine"),
    none: Ok("flush_log_at_trx_commit = 0: the redo log is written and synced about every second"),
    written: Ok("flush_log_at_trx_commit = 2: written at each commit, synced about every second"),
    synced: Ok("flush_log_at_trx_commit = 1: written and synced at each commit, in groups"),
    writers: "row locks with queues and deadlock detection, read committed; a session a thread, policy flifo, \
              --thread-concurrency slots",
    memory: "a buffer pool of --cache, O_DIRECT; a redo log of twice that, 128M to 1G",
    load: "its bulk load, then a checkpoint",
    settle: "a checkpoint: all changed pages are written",
    no_scans: None,
};

struct Flifo {
    database: Database,
    table: Table,
    admission: Arc<Admission>,
}

struct Connection {
    session: Session,
    table: Table,
}

struct Open<'a, 's> {
    txn: Transaction<'s>,
    table: &'a Table,
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        match error {
            error if error.is_retryable() => Fail::Conflict,
            error => Fail::store(error),
        }
    }
}

fn config(settings: &Settings) -> EngineConfig {
    EngineConfig {
        buffer_pool_bytes: settings.cache_bytes,
        redo_capacity_bytes: (2 * settings.cache_bytes).clamp(*REDO_BYTES.start(), *REDO_BYTES.end()),
        flush_log_at_trx_commit: match settings.durability {
            Durability::None => FlushLog::EverySecond,
            Durability::Written => FlushLog::Write,
            Durability::Synced => FlushLog::Sync,
        },
        ..EngineConfig::default()
    }
}

fn load(dir: &Path, settings: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let database = Database::create(dir, config(settings))?;
    let table = database.create_table(TABLE)?;
    let store = Flifo::new(database, table, settings)?;
    let rows = rows.map(|(id, value)| (row::key(id), value));
    store.database.bulk_load_table(&store.table, rows, |_| ())?;
    store.database.checkpoint()?;
    is_open(store)
}

fn open(dir: &Path, settings: &Settings) -> Done<Arc<dyn Store>> {
    let database = Database::open(dir, config(settings))?;
    let table = database.table(TABLE)?;
    Ok(Arc::new(Flifo::new(database, table, settings)?))
}

impl Flifo {
    fn new(database: Database, table: Table, settings: &Settings) -> Done<Self> {
        let config = Config {
            policy: settings.policy,
            thread_concurrency: settings.thread_concurrency,
            ..Config::default()
        };
        let admission = Admission::new(config).map_err(Fail::store)?;
        Ok(Flifo { database, table, admission })
    }
}

impl Store for Flifo {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        let session = self.database.session(&self.admission);
        Ok(Box::new(Connection { session, table: self.table.clone() }))
    }

    fn settle(&self) -> Done {
        Ok(self.database.checkpoint()?)
    }

    fn close(&self) -> Done {
        Ok(self.database.close()?)
    }
}

impl Connection {
    fn begin(&self) -> Open<'_, '_> {
        Open { txn: self.session.begin(Isolation::ReadCommitted), table: &self.table }
    }
}

impl Handle for Connection {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        self.begin().get(id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        self.begin().scan(from, limit, each)
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        let mut txn = self.begin();
        work(&mut txn)?;
        Ok(txn.txn.commit()?)
    }
}

impl Txn for Open<'_, '_> {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        Ok(self.txn.get(self.table, &row::key(id), value)?)
    }

    fn get_for_update(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        Ok(self.txn.get_for_update(self.table, &row::key(id), value)?)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        let mut left = limit;
        self.txn.scan(self.table, Bound::Included(&row::key(from)), Bound::Unbounded, |key, value| {
            each(row::id(key).unwrap_or(u64::MAX), value);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(())
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        happened(self.txn.update(self.table, &row::key(id), value)?, id)
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        happened(self.txn.insert(self.table, &row::key(id), value)?, id)
    }

    fn delete(&mut self, id: u64) -> Done {
        happened(self.txn.delete(self.table, &row::key(id))?, id)
    }
}
