//! SQLite in WAL mode, by way of rusqlite: a connection a thread, one writer at a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, OptionalExtension, params};

use super::happened;
use crate::row::Row;
use crate::store::{
    About, Done, Driver, Durability, Each, Fail, Handle, Loaded, Settings, Store, Txn, Work, crate_version,
    is_open,
};

/// The time that a connection waits for the writer before it gets "busy", which counts as a retry.
const BUSY: Duration = Duration::from_secs(5);

/// SQLite maps no more of a file, as it is built here and everywhere (SQLITE_MAX_MMAP_SIZE); the rest it reads.
const MAP_BYTES_MAX: u64 = 0x7fff_0000;

pub(crate) const DRIVER: Driver = Driver { about: &ABOUT, load, open };

const ABOUT: About = About {
    name: "sqlite",
    version: || format!("{} (rusqlite {})", rusqlite::version(), crate_version("rusqlite")),
    none: Ok("WAL, synchronous=OFF: the log is written at each commit, and never synced"),
    written: Ok("WAL, synchronous=NORMAL: the log is written at each commit, and synced at checkpoints"),
    synced: Ok("WAL, synchronous=FULL: the log is written and synced at each commit"),
    writers: "one at a time: BEGIN IMMEDIATE polls with growing sleeps (busy_timeout 5 s); a connection a thread",
    memory: "the mapped file (mmap_size = --cache, but 2 GiB at most: SQLite maps no more), in the page cache; 2 MB of cache a connection",
    load: "one transaction, ascending, then a checkpoint",
    settle: "a checkpoint that empties the log",
    no_scans: None,
};

struct Sqlite {
    file: PathBuf,
    settings: Settings,
}

struct OneConnection(Connection);

struct Open<'a>(&'a Connection);

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Fail::Conflict,
            _ => Fail::store(error),
        }
    }
}

fn load(dir: &Path, settings: &Settings, rows: &mut dyn Iterator<Item = Row>) -> Done<Loaded> {
    let store = Sqlite { file: dir.join("sqlite.db"), settings: *settings };
    let connection = store.connect()?;
    connection
        .execute_batch("CREATE TABLE rows (id INTEGER PRIMARY KEY, value BLOB NOT NULL); BEGIN IMMEDIATE")?;
    let mut all = Open(&connection);
    for (id, value) in rows {
        all.insert(id, &value)?;
    }
    connection.execute_batch("COMMIT; PRAGMA synchronous=FULL")?;
    store.checkpoint(&connection)?;
    is_open(store)
}

fn open(dir: &Path, settings: &Settings) -> Done<Arc<dyn Store>> {
    Ok(Arc::new(Sqlite { file: dir.join("sqlite.db"), settings: *settings }))
}

impl Sqlite {
    fn connect(&self) -> Done<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        let synchronous = match self.settings.durability {
            Durability::None => "OFF",
            Durability::Written => "NORMAL",
            Durability::Synced => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        map(&connection, self.settings.cache_bytes)?;
        Ok(connection)
    }

    fn checkpoint(&self, connection: &Connection) -> Done {
        // A row of three numbers: whether another connection was in the way, pages in the log, pages written.
        let _: i64 = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        Ok(())
    }
}

/// Maps this many bytes of the file, or SQLite's maximum. SQLite maps less without an error.
fn map(connection: &Connection, cache_bytes: u64) -> Done {
    let requested = cache_bytes.min(MAP_BYTES_MAX) as i64;
    let taken: i64 = connection.pragma_update_and_check(None, "mmap_size", requested, |row| row.get(0))?;
    match taken == requested {
        true => Ok(()),
        false => Err(Fail::Store(format!("SQLite maps {taken} bytes of its file, not {requested}"))),
    }
}

impl Store for Sqlite {
    fn handle(&self) -> Done<Box<dyn Handle>> {
        Ok(Box::new(OneConnection(self.connect()?)))
    }

    fn settle(&self) -> Done {
        self.checkpoint(&self.connect()?)
    }

    fn close(&self) -> Done {
        self.settle()
    }
}

impl Handle for OneConnection {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        Open(&self.0).get(id, value)
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        Open(&self.0).scan(from, limit, each)
    }

    fn transact(&mut self, work: &mut Work<'_>) -> Done {
        let mut open = Open(&self.0);
        open.prepared("BEGIN IMMEDIATE")?.execute([])?;
        let outcome = work(&mut open).and_then(|()| Ok(open.prepared("COMMIT")?.execute([])?));
        if outcome.is_err() && !self.0.is_autocommit() {
            open.prepared("ROLLBACK")?.execute([])?;
        }
        outcome.map(drop)
    }
}

impl<'a> Open<'a> {
    fn prepared(&self, sql: &str) -> Done<CachedStatement<'a>> {
        Ok(self.0.prepare_cached(sql)?)
    }

    fn change(&self, sql: &str, id: u64, value: &[u8]) -> Done {
        happened(self.prepared(sql)?.execute(params![id as i64, value])? == 1, id)
    }
}

impl Txn for Open<'_> {
    fn get(&mut self, id: u64, value: &mut Vec<u8>) -> Done<bool> {
        value.clear();
        let mut statement = self.prepared("SELECT value FROM rows WHERE id = ?1")?;
        let found = statement.query_row([id as i64], |row| {
            value.extend_from_slice(row.get_ref(0)?.as_blob()?);
            Ok(())
        });
        Ok(found.optional()?.is_some())
    }

    fn scan(&mut self, from: u64, limit: usize, each: &mut Each<'_>) -> Done {
        let mut statement =
            self.prepared("SELECT id, value FROM rows WHERE id >= ?1 ORDER BY id LIMIT ?2")?;
        let mut rows = statement.query([from as i64, limit as i64])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            each(id as u64, row.get_ref(1)?.as_blob().map_err(Fail::store)?);
        }
        Ok(())
    }

    fn update(&mut self, id: u64, value: &[u8]) -> Done {
        self.change("UPDATE rows SET value = ?2 WHERE id = ?1", id, value)
    }

    fn insert(&mut self, id: u64, value: &[u8]) -> Done {
        self.change("INSERT INTO rows (id, value) VALUES (?1, ?2)", id, value)
    }

    fn delete(&mut self, id: u64) -> Done {
        happened(self.prepared("DELETE FROM rows WHERE id = ?1")?.execute([id as i64])? == 1, id)
    }
}

#[cfg(test)]
mod tests {
    use flifo_admission::Policy;

    use super::*;

    #[test]
    fn the_file_is_mapped_as_far_as_is_said() {
        let temp = tempfile::tempdir().unwrap();
        for (cache_bytes, mapped) in [(64 << 20, 64 << 20), (8 << 30, MAP_BYTES_MAX)] {
            let settings = Settings {
                durability: Durability::None,
                cache_bytes,
                threads: 1,
                policy: Policy::Flifo,
                thread_concurrency: 1,
            };
            let connection = Sqlite { file: temp.path().join("sqlite.db"), settings }.connect().unwrap();
            let found: i64 = connection.pragma_query_value(None, "mmap_size", |row| row.get(0)).unwrap();
            assert_eq!(found as u64, mapped);
        }
        // SQLite's maximum.
        let connection = Connection::open(temp.path().join("sqlite.db")).unwrap();
        connection.pragma_update(None, "mmap_size", 8i64 << 30).unwrap();
        let found: i64 = connection.pragma_query_value(None, "mmap_size", |row| row.get(0)).unwrap();
        assert_eq!(found as u64, MAP_BYTES_MAX, "SQLite is built with another bound");
    }
}
