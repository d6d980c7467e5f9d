//! A page that is rotten or cannot be read, and a disk that is full: what needs them stands still, and nothing else does.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{config, get, key, session};
use flifo_engine::Isolation::{ReadCommitted, RepeatableRead};
use flifo_engine::disk::{Disk as _, DiskCall, Fault, MemoryDisk};
use flifo_engine::{Database, EngineConfig, Error, Table, Transaction};

const ROWS: u64 = 1000;
/// The value of a row in the only page of table `a`, by which that is found on the disk.
const MARK: &[u8] = b"it is here that the medium fails";

/// Without a copy that an opening would put in the page's place.
fn small() -> EngineConfig {
    EngineConfig { doublewrite: false, ..config() }
}

fn wait_while(db: &Database, waits: impl Fn(&flifo_engine::TxnStats) -> bool) {
    while waits(&db.stats().txns) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two tables without a past: `a` has a row beside the mark.
fn create(disk: &MemoryDisk) -> (Database, Table, Table) {
    let db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
    let (a, b) = (db.create_table("a").unwrap(), db.create_table("b").unwrap());
    let session = session(&db);
    let mut txn = session.begin(ReadCommitted);
    assert!(txn.insert(&a, b"mark", MARK).unwrap() && txn.insert(&a, b"row", b"1").unwrap());
    (0..ROWS).for_each(|row| assert!(txn.insert(&b, &key(row), b"1").unwrap()));
    txn.commit().unwrap();
    drop(session);
    wait_while(&db, |txns| txns.history > 0);
    (db, a, b)
}

/// The disk of a database that is killed now; recovery needs no page. And where on it the mark is.
fn kill(db: &Database, disk: &MemoryDisk) -> (MemoryDisk, String, u64) {
    db.checkpoint().unwrap();
    let disk = disk.kill();
    let block = config().page_size as usize;
    for name in (0..config().data_files).map(|file| format!("data{file}.flifo")) {
        let file = disk.open(&name).unwrap();
        let mut buffer = vec![0; file.bytes().unwrap() as usize + block];
        let begin = buffer.as_ptr().align_offset(block);
        let end = buffer.len() - block + begin;
        let content = &mut buffer[begin..end];
        file.read_at(content, 0).unwrap();
        if let Some(at) = content.windows(MARK.len()).position(|bytes| bytes == MARK) {
            return (disk, name, at as u64);
        }
    }
    panic!("the mark is on no disk");
}

fn open(disk: &MemoryDisk) -> Database {
    Database::open_on(Arc::new(disk.clone()), small()).unwrap()
}

fn delete_all(db: &Database, table: &Table) {
    let session = session(db);
    let mut txn = session.begin(ReadCommitted);
    (0..ROWS).for_each(|row| assert!(txn.delete(table, &key(row)).unwrap()));
    txn.commit().unwrap();
}

#[test]
fn a_rollback_that_cannot_be_done_keeps_no_other_history() {
    let disk = MemoryDisk::default();
    let (disk, name, at) = {
        let (db, a, _b) = create(&disk);
        let session = session(&db);
        let mut txn = session.begin(ReadCommitted);
        assert!(txn.update(&a, b"row", b"2").unwrap());
        kill(&db, &disk)
    };
    disk.flip_bit(&name, at, 0);
    let db = open(&disk);
    let table = db.table("b").unwrap();
    delete_all(&db, &table);
    wait_while(&db, |txns| txns.history > 1);
    assert_eq!(db.stats().txns.active, 1);
    // Nor what others are going to do with their tables.
    drop(table);
    db.create_table("c").unwrap();
    ["b", "c"].into_iter().for_each(|name| db.drop_table(name).unwrap());
    assert!(matches!(db.drop_table("a"), Err(Error::TransactionsActive { .. })));
    assert_eq!(db.table_names().unwrap(), ["a"]);
    db.close().unwrap();
}

#[test]
fn a_deleted_row_in_a_rotten_page_stays_there() {
    let disk = MemoryDisk::default();
    let (disk, name, at) = {
        let (db, a, b) = create(&disk);
        let (one, two) = (session(&db), session(&db));
        let mut reads = one.begin(RepeatableRead);
        assert!(get(&mut reads, &b, &key(0)).is_some());
        let mut txn = two.begin(ReadCommitted);
        assert!(txn.delete(&a, b"row").unwrap());
        txn.commit().unwrap();
        delete_all(&db, &b);
        kill(&db, &disk)
    };
    disk.flip_bit(&name, at, 0);
    let db = open(&disk);
    wait_while(&db, |txns| txns.history > 0);
    let table = db.table("a").unwrap();
    let session = session(&db);
    let found = session.begin(ReadCommitted).get(&table, b"mark", &mut Vec::new());
    assert!(matches!(found, Err(Error::CorruptPage { .. })), "{found:?}");
    drop((table, session));
    // It is made anew.
    db.drop_table("a").unwrap();
    db.create_table("a").unwrap();
    db.close().unwrap();
}

#[test]
fn a_page_that_cannot_be_read_holds_up_one_segment() {
    let disk = MemoryDisk::default();
    let (disk, name, at) = {
        let (db, a, b) = create(&disk);
        let sessions = [(); 7].map(|()| session(&db));
        let mut reads = sessions[0].begin(RepeatableRead);
        assert!(get(&mut reads, &b, &key(0)).is_some());
        let mut first = sessions[1].begin(ReadCommitted);
        assert!(first.delete(&a, b"row").unwrap());
        // Beside each other, so in segments of their own; some come after the first one's.
        let mut others: Vec<_> = sessions[2..].iter().map(|session| session.begin(ReadCommitted)).collect();
        for (row, txn) in others.iter_mut().enumerate() {
            assert!(txn.delete(&b, &key(row as u64)).unwrap());
        }
        // More than purge does in one go.
        let count = others.len() as u64;
        (count..ROWS).for_each(|row| assert!(others[0].delete(&b, &key(row)).unwrap()));
        first.commit().unwrap();
        others.into_iter().for_each(|txn| txn.commit().unwrap());
        kill(&db, &disk)
    };
    disk.make_unreadable(&name, at);
    let db = open(&disk);
    // Whether or not purge has come by.
    db.drop_table("b").unwrap();
    // The record of the first one's deletion, and that of its commit.
    wait_while(&db, |txns| txns.history > 2);
    let dropped = db.drop_table("a");
    assert!(matches!(dropped, Err(Error::Io { .. })), "{dropped:?}");
    assert_eq!(db.stats().txns.history, 2);
    db.close().unwrap();
}

/// The rollback needs pages, and purge has them.
#[test]
fn a_rollback_on_a_full_disk_gets_what_purge_makes_free() {
    let disk = MemoryDisk::default();
    let (db, table, _b) = create(&disk);
    let sessions = [(); 3].map(|()| session(&db));
    let (large, larger) = (vec![1; 1 << 20], vec![2; 2 << 20]);
    let mut txn = sessions[0].begin(ReadCommitted);
    assert!(txn.insert(&table, b"large", &large).unwrap() && txn.insert(&table, b"larger", &larger).unwrap());
    txn.commit().unwrap();
    wait_while(&db, |txns| txns.history > 0);
    let mut txn = sessions[0].begin(ReadCommitted);
    assert!(txn.update(&table, b"large", b"small").unwrap());
    let mut reads = sessions[1].begin(RepeatableRead);
    assert!(get(&mut reads, &table, b"row").is_some());
    let mut deletes = sessions[2].begin(ReadCommitted);
    assert!(deletes.delete(&table, b"larger").unwrap());
    deletes.commit().unwrap();
    disk.fail_from(Some(DiskCall::Allocate), 1, Fault::DiskFull);
    let filled = (0..ROWS).try_for_each(|row| {
        let mut fills = sessions[2].begin(ReadCommitted);
        assert!(fills.insert(&table, &key(row), &[3; 64 << 10])?);
        fills.commit()
    });
    assert!(matches!(filled, Err(Error::DiskFull { .. })), "{filled:?}");
    assert!(matches!(txn.rollback(), Err(Error::DiskFull { .. })));
    drop(reads);
    wait_while(&db, |txns| txns.active > 0);
    assert!(get(&mut sessions[0].begin(ReadCommitted), &table, b"large") == Some(large));
}

/// A retry would go on forever: no transaction releases the row any more.
#[test]
fn who_waits_for_a_row_of_a_database_that_has_stopped_is_told_so() {
    let disk = MemoryDisk::default();
    let config = EngineConfig { lock_wait_timeout: Duration::from_millis(50), ..small() };
    let db = Database::create_on(Arc::new(disk.clone()), config).unwrap();
    let table = db.create_table("t").unwrap();
    let (one, two) = (session(&db), session(&db));
    let mut txn = one.begin(ReadCommitted);
    assert!(txn.insert(&table, b"row", b"1").unwrap());
    txn.commit().unwrap();
    let mut holds = one.begin(ReadCommitted);
    assert!(holds.update(&table, b"row", b"2").unwrap());
    let wants = |txn: &mut Transaction<'_>| txn.get_for_update(&table, b"row", &mut Vec::new());
    let waited = wants(&mut two.begin(ReadCommitted));
    assert!(matches!(waited, Err(Error::LockWaitTimeout)), "{waited:?}");
    disk.fail_from(Some(DiskCall::Sync), 1, Fault::Io);
    db.checkpoint().unwrap_err();
    disk.heal();
    assert!(matches!(holds.rollback(), Err(Error::Stopped { .. })));
    let waited = wants(&mut two.begin(ReadCommitted));
    assert!(matches!(waited, Err(Error::Stopped { .. })), "{waited:?}");
    // What nobody has locked can be read still.
    let mut reads = two.begin(ReadCommitted);
    assert_eq!(get(&mut reads, &table, b"row"), Some(b"1".to_vec()));
}
