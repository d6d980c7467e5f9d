//! RocksDB: a log-structured merge tree with pessimistic transactions (TransactionDB).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBAccess, DBCompressionType, DBRawIteratorWithThreadMode, ErrorKind,
    IngestExternalFileOptions, MultiThreaded, Options, SstFileWriter, Transaction, TransactionDB,
    TransactionDBOptions, TransactionOptions, WriteOptions,
};

use super::copy;
use crate::row::{self, Row};
use crate::store::{
    About, Done, Driver, Durability, Each, Fail, Handle, Loaded, Settings, Store, Txn, Work, crate_version,
};

/// Only this kind reports its properties.
type Database = TransactionDB<MultiThreaded>;

/// As flifo's.
const LOCK_TIMEOUT_MS: i64 = 50_000;
/// Compactions are not waited for longer.
const SETTLE: Duration = Duration::from_secs(10);
const BACKGROUND: [&str; 4] = [
    "rocksdb.num-running-flushes",
    "rocksdb.num-running-compactions",
    "rocksdb.mem-table-flush-pending",
    "rocksdb.compaction-pending",
];

pub(crate) const DRIVER: Driver = Driver { about: &ABOUT, load, open };

const ABOUT: About = About {
    name: "rocksdb",
    version: || {
        let (sys, wrapper) = (crate_version("librocksdb-sys"), crate_version("rocksdb"));
        format!("{} (rocksdb {wrapper})", sys.split_once('+').map_or("unknown", |(_, version)| version))
    },
    none: Ok("WriteOptions::disableWAL: in memtables alone"),
    written: Ok("WriteOptions::sync = false (its default): the log is written at each commit"),
    synced: Ok("WriteOptions::sync = true: the log is written, then fdatasync, at each commit, in groups"),
    writers: "TransactionDB: row locks, deadlock_detect, lock timeout 50 s, write committed, no snapshot",
    memory: "a block cache (LRU) of --cache, memtables of its default size, bloom filters of 10 bits, no compression",
    load: "SstFileWriter and ingestion; then, not counted, opened as a TransactionDB",
    settle: "flushes and compactions are waited for, 10 s at the most",
    no_scans: None,
};

struct Rocks {
    database: Arc<Database>,
    durability: Durability,
}

struct Connection {
    database: Arc<Database>,
    write: WriteOptions,
    txn: TransactionOptions,
}

struct Open<'a>(Transaction<'a, Database>);

impl From<rocksdb::Error> for Fail {
    fn from(error: rocksdb::Error) -> Self {
        match error.kind() {
            ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::TryAgain => Fail::Conflict,
            _ => Fail::store(error),
        }
    }
}

fn options(settings: &Settings) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes as usize));
    blocks.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::None);
    options
}

fn load(dir: &Path, settings: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let options = options(settings);
    let file = dir.with_extension("sst");
    let database = DB::open(&options, dir)?;
    let mut writer = SstFileWriter::create(&options);
    writer.open(&file)?;
    for (id, value) in rows {
        writer.put(row::key(id), value)?;
    }
    writer.finish()?;
    let mut ingest = IngestExternalFileOptions::default();
    ingest.set_move_files(true);
    // Synced: the file and its metadata.
    database.ingest_external_file_opts(&ingest, vec![&file])?;
    let (dir, settings) = (dir.to_owned(), *settings);
    Ok(Box::new(move || {
        drop(database);
        // It is gone already where it could be moved.
        let _ = std::fs::remove_file(&file);
        open(&dir, &settings)
    }))
}

fn open(dir: &Path, settings: &Settings) -> Done<Arc<dyn Store>> {
    let mut txn_options = TransactionDBOptions::default();
    txn_options.set_txn_lock_timeout(LOCK_TIMEOUT_MS);
    txn_options.set_default_lock_timeout(LOCK_TIMEOUT_MS);
    let database = Database::open(&options(settings), &txn_options, dir)?;
    Ok(Arc::new(Rocks { database: Arc::new(database), durability: settings.durability }))
}

impl Store for Rocks {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        let mut write = WriteOptions::default();
        write.set_sync(self.durability == Durability::Synced);
        write.disable_wal(self.durability == Durability::None);
        let mut txn = TransactionOptions::default();
        txn.set_deadlock_detect(true);
        Ok(Box::new(Connection { database: Arc::clone(&self.database), write, txn }))
    }

    fn settle(&self) -> Done {
        let is_busy = || -> Done<bool> {
            let mut sum = 0;
            for property in BACKGROUND {
                sum += self.database.property_int_value(property)?.unwrap_or(0);
            }
            Ok(sum > 0)
        };
        let until = Instant::now() + SETTLE;
        while is_busy()? && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn close(&self) -> Done {
        Ok(self.database.flush()?)
    }
}

impl Handle for Connection {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        copy(self.database.get_pinned(row::key(id))?, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        scan(self.database.raw_iterator(), from, limit, each)
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        let mut open = Open(self.database.transaction_opt(&self.write, &self.txn));
        work(&mut open)?;
        Ok(open.0.commit()?)
    }
}

fn scan<D: DBAccess>(
    mut rows: DBRawIteratorWithThreadMode<'_, D>,
    from: u64,
    limit: usize,
    each: &mut Each<'_>,
) -> Done {
    rows.seek(row::key(from));
    for left in (0..limit).rev() {
        let Some((key, value)) = rows.item() else { break };
        each(row::id(key).unwrap_or(u64::MAX), value);
        // After the last requested row another block may have to be read.
        if left > 0 {
            rows.next();
        }
    }
    Ok(rows.status()?)
}

impl Txn for Open<'_> {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        copy(self.0.get_pinned(row::key(id))?, value)
    }

    fn get_for_update(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        copy(self.0.get_pinned_for_update(row::key(id), true)?, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        scan(self.0.raw_iterator(), from, limit, each)
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        Ok(self.0.put(row::key(id), value)?)
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        self.update(id, value)
    }

    fn delete(&mut self, id: u64) -> Done {
        Ok(self.0.delete(row::key(id))?)
    }
}
