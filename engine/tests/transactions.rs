//! Transactions: what they see of each other, who waits for whom, and what a crash leaves of them.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{all, config, get, session};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Session, Table, Transaction};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use Isolation::{ReadCommitted, RepeatableRead};

fn database() -> (Database, Table) {
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    (db, table)
}

/// Waits until purge has nothing left to do.
fn wait_for_purge(db: &Database) {
    while db.stats().txns.history > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn others_see_a_change_from_its_commit_on() {
    let (db, table) = database();
    let (one, two) = (session(&db), session(&db));
    let mut writer = one.begin(RepeatableRead);
    assert!(writer.insert(&table, b"a", b"1").unwrap());
    assert!(!writer.insert(&table, b"a", b"2").unwrap());
    assert_eq!(get(&mut writer, &table, b"a"), Some(b"1".to_vec()));
    let (mut stable, fresh) = (two.begin(RepeatableRead), session(&db));
    assert_eq!(get(&mut stable, &table, b"a"), None);
    let fresh = &mut fresh.begin(ReadCommitted);
    assert_eq!(get(fresh, &table, b"a"), None);
    writer.commit().unwrap();
    assert_eq!(get(fresh, &table, b"a"), Some(b"1".to_vec()));
    assert_eq!(get(&mut stable, &table, b"a"), None);
    assert!(all(&mut stable, &table).is_empty());
    assert_eq!(all(fresh, &table).len(), 1);
}

#[test]
fn the_first_updater_wins() {
    let (db, table) = database();
    let (one, two) = (session(&db), session(&db));
    let mut first = one.begin(RepeatableRead);
    first.insert(&table, b"a", b"0").unwrap();
    first.commit().unwrap();
    let (mut a, mut b) = (one.begin(RepeatableRead), two.begin(RepeatableRead));
    assert_eq!(get(&mut b, &table, b"a"), Some(b"0".to_vec()));
    a.update(&table, b"a", b"1").unwrap();
    a.commit().unwrap();
    assert!(matches!(b.update(&table, b"a", b"2"), Err(Error::WriteConflict)));
    assert!(matches!(b.delete(&table, b"a"), Err(Error::WriteConflict)));
    b.rollback().unwrap();
    let mut c = two.begin(ReadCommitted);
    assert_eq!(get(&mut c, &table, b"a"), Some(b"1".to_vec()));
    assert!(c.update(&table, b"a", b"3").unwrap());
    c.commit().unwrap();
}

#[test]
fn a_rollback_leaves_nothing_and_a_savepoint_what_was_before() {
    let (db, table) = database();
    let session = session(&db);
    let mut txn = session.begin(RepeatableRead);
    for key in [b"a", b"b", b"c"] {
        txn.insert(&table, key, b"before").unwrap();
    }
    txn.commit().unwrap();
    let mut reader = session.begin(ReadCommitted);
    let before = all(&mut reader, &table);
    drop(reader);

    let mut txn = session.begin(RepeatableRead);
    assert!(txn.delete(&table, b"a").unwrap());
    assert!(txn.insert(&table, b"a", b"again").unwrap());
    assert!(txn.update(&table, b"b", b"changed").unwrap());
    let (savepoint, then) = (txn.savepoint(), all(&mut txn, &table));
    assert!(txn.delete(&table, b"c").unwrap());
    assert!(txn.upsert(&table, b"d", b"new").unwrap());
    assert!(!txn.upsert(&table, b"b", b"changed again").unwrap());
    txn.rollback_to(savepoint).unwrap();
    assert_eq!(all(&mut txn, &table), then);
    txn.rollback().unwrap();
    assert_eq!(all(&mut session.begin(ReadCommitted), &table), before);

    // Dropped without an end.
    session.begin(RepeatableRead).delete(&table, b"a").unwrap();
    assert_eq!(all(&mut session.begin(ReadCommitted), &table), before);
    assert_eq!(db.stats().txns.active, 0);
    wait_for_purge(&db);
    assert_eq!(db.check_table(&table).unwrap().rows, 3);
}

#[test]
fn who_has_written_nothing_is_no_commit_and_no_rollback() {
    let (db, table) = database();
    let session = session(&db);
    let ended = || (db.stats().txns.commits, db.stats().txns.rollbacks);
    let locks = || {
        let mut txn = session.begin(Isolation::Serializable);
        assert_eq!(get(&mut txn, &table, b"a"), None);
        assert!(!txn.get_for_update(&table, b"b", &mut Vec::new()).unwrap());
        assert_eq!(db.stats().txns.active, 1);
        txn
    };
    locks().commit().unwrap();
    locks().rollback().unwrap();
    drop(locks());
    assert_eq!(ended(), (0, 0));
    let mut txn = locks();
    assert!(txn.insert(&table, b"a", b"1").unwrap());
    txn.rollback().unwrap();
    assert_eq!(ended(), (0, 1));
}

#[test]
fn rows_that_were_deleted_are_purged_once_nobody_sees_them() {
    let (db, table) = database();
    let (one, two) = (session(&db), session(&db));
    let mut txn = one.begin(RepeatableRead);
    for row in 0..500_u32 {
        txn.insert(&table, &row.to_be_bytes(), b"value").unwrap();
    }
    txn.commit().unwrap();
    let mut old = two.begin(RepeatableRead);
    assert_eq!(all(&mut old, &table).len(), 500);
    let mut txn = one.begin(RepeatableRead);
    for row in 0..400_u32 {
        assert!(txn.delete(&table, &row.to_be_bytes()).unwrap());
    }
    txn.commit().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(all(&mut old, &table).len(), 500);
    assert_eq!(all(&mut one.begin(ReadCommitted), &table).len(), 100);
    assert!(db.stats().txns.history >= 400);
    drop(old);
    wait_for_purge(&db);
    assert_eq!(db.check_table(&table).unwrap().rows, 100);
    drop(table);
    db.drop_table("t").unwrap();
    assert!(matches!(db.table("t"), Err(Error::UnknownTable { .. })));
}

/// When purge came to the deletion, there was a newer version, which was rolled back then.
#[test]
fn a_deleted_row_that_was_written_over_in_vain_is_purged() {
    let (db, table) = database();
    let sessions = [session(&db), session(&db), session(&db)];
    let mut txn = sessions[0].begin(ReadCommitted);
    txn.insert(&table, b"a", b"0").unwrap();
    txn.commit().unwrap();
    wait_for_purge(&db);
    // With a rollback segment of its own.
    let mut in_vain = sessions[2].begin(ReadCommitted);
    assert!(in_vain.insert(&table, b"b", b"1").unwrap());
    let mut old = sessions[1].begin(RepeatableRead);
    assert_eq!(get(&mut old, &table, b"a"), Some(b"0".to_vec()));
    let mut txn = sessions[0].begin(ReadCommitted);
    assert!(txn.delete(&table, b"a").unwrap());
    txn.commit().unwrap();
    assert!(in_vain.insert(&table, b"a", b"1").unwrap());
    drop(old);
    // All but its own records.
    while db.stats().txns.history > 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    in_vain.rollback().unwrap();
    wait_for_purge(&db);
    assert_eq!(db.check_table(&table).unwrap().rows, 0);
}

#[test]
fn a_deadlock_has_one_victim() {
    let (db, table) = database();
    let setup = session(&db);
    let mut txn = setup.begin(RepeatableRead);
    txn.insert(&table, b"a", b"0").unwrap();
    txn.insert(&table, b"b", b"0").unwrap();
    txn.commit().unwrap();
    let barrier = std::sync::Barrier::new(2);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = [(b"a", b"b"), (b"b", b"a")]
            .into_iter()
            .map(|(first, second)| {
                let (db, table, barrier) = (&db, &table, &barrier);
                scope.spawn(move || {
                    let session = session(db);
                    let mut txn = session.begin(ReadCommitted);
                    txn.update(table, first, b"1").unwrap();
                    barrier.wait();
                    match txn.update(table, second, b"1") {
                        Ok(updated) => {
                            assert!(updated);
                            txn.commit().unwrap();
                            true
                        }
                        Err(Error::Deadlock) => {
                            assert!(matches!(
                                txn.get(table, first, &mut Vec::new()),
                                Err(Error::TransactionEnded)
                            ));
                            false
                        }
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|&&committed| committed).count(), 1);
    assert_eq!(db.stats().locks.deadlocks, 1);
    assert_eq!(get(&mut setup.begin(ReadCommitted), &table, b"a"), Some(b"1".to_vec()));
    assert_eq!(get(&mut setup.begin(ReadCommitted), &table, b"b"), Some(b"1".to_vec()));
}

#[test]
fn a_row_is_waited_for_no_longer_than_allowed() {
    let impatient = EngineConfig { lock_wait_timeout: Duration::from_millis(30), ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), impatient).unwrap();
    let table = db.create_table("t").unwrap();
    let (one, two) = (session(&db), session(&db));
    let mut holder = one.begin(ReadCommitted);
    holder.insert(&table, b"a", b"1").unwrap();
    let mut other = two.begin(ReadCommitted);
    other.insert(&table, b"b", b"1").unwrap();
    assert!(matches!(other.upsert(&table, b"a", b"2"), Err(Error::LockWaitTimeout)));
    assert!(matches!(other.get_for_update(&table, b"a", &mut Vec::new()), Err(Error::LockWaitTimeout)));
    holder.commit().unwrap();
    assert!(!other.upsert(&table, b"a", b"2").unwrap());
    other.commit().unwrap();
    assert_eq!(db.stats().locks.locks, 0);
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

/// Many threads add to few counters; none of the additions is lost.
#[test]
fn no_update_is_lost() {
    let (db, table) = database();
    let setup = session(&db);
    let mut txn = setup.begin(RepeatableRead);
    (0..3_u8).for_each(|key| assert!(txn.insert(&table, &[key], &0_u64.to_le_bytes()).unwrap()));
    txn.commit().unwrap();
    const EACH: u64 = 60;
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                let (session, mut value) = (session(db), Vec::new());
                for n in 0..EACH {
                    let key = [((n + thread) % 3) as u8];
                    loop {
                        let added = if thread % 2 == 0 {
                            let mut txn = session.begin(ReadCommitted);
                            txn.get_for_update(table, &key, &mut value)
                                .and_then(|_| txn.update(table, &key, &(number(&value) + 1).to_le_bytes()))
                                .and_then(|_| txn.commit())
                        } else {
                            let mut txn = session.begin(RepeatableRead);
                            txn.get(table, &key, &mut value)
                                .and_then(|_| txn.update(table, &key, &(number(&value) + 1).to_le_bytes()))
                                .and_then(|_| txn.commit())
                        };
                        match added {
                            Ok(()) => break,
                            Err(Error::WriteConflict) if thread % 2 == 1 => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            });
        }
    });
    let mut txn = setup.begin(RepeatableRead);
    let sum: u64 = all(&mut txn, &table).values().map(|value| number(value)).sum();
    assert_eq!(sum, 8 * EACH);
    drop(txn);
    wait_for_purge(&db);
}

/// Purge stops at the first record of a transaction that is open: a thousand that waited for one row, each with a record of a
/// change that it had not been able to make, were a history of seconds.
#[test]
fn who_waits_for_a_row_has_no_undo_of_it() {
    let config = EngineConfig { flush_log_at_trx_commit: FlushLog::EverySecond, ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_table("t").unwrap();
    let put = |session: &Session, value: u64| {
        let mut txn = session.begin(ReadCommitted);
        txn.upsert(&table, b"hot", &value.to_le_bytes()).unwrap();
        txn.commit().unwrap();
    };
    put(&session(&db), 0);
    std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(|| (1..2000).for_each(|value| put(&session(&db), value)))));
    });
    wait_for_purge(&db);
    let stats = db.stats().txns;
    assert_eq!(stats.purged, 2 * stats.commits, "one for each change, and one for its commit");
}

/// One that somebody forgot holds up a rollback segment, and the others go to other ones, however many are open.
#[test]
fn what_is_forgotten_holds_up_no_history_but_for_a_moment() {
    let config = EngineConfig { rollback_segments: 4, ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_table("t").unwrap();
    let (forgetful, sessions) = (session(&db), Vec::from_iter((0..20).map(|_| session(&db))));
    let mut forgotten = forgetful.begin(ReadCommitted);
    forgotten.insert(&table, b"forgotten", b"1").unwrap();
    let mut before = db.stats().txns.history;
    for round in 0.. {
        assert!(round < 100, "{before} records stay");
        for n in 0..20_u8 {
            let open = sessions.iter().zip(0_u8..).map(|(session, key)| {
                let mut txn = session.begin(ReadCommitted);
                txn.upsert(&table, &[key], &[n]).unwrap();
                txn
            });
            Vec::from_iter(open).into_iter().for_each(|txn| txn.commit().unwrap());
        }
        let purged = (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            db.stats().txns.history <= before
        });
        if purged {
            break;
        }
        before = db.stats().txns.history;
    }
    forgotten.commit().unwrap();
    wait_for_purge(&db);
}

const ACCOUNTS: u64 = 40;
const MONEY: u64 = 1000;

/// Accounts with money on a new table; an account without any has no row.
fn open_accounts(db: &Database) -> Table {
    let table = db.create_table("bank").unwrap();
    let session = session(db);
    let mut txn = session.begin(RepeatableRead);
    for account in 0..ACCOUNTS {
        txn.insert(&table, &account.to_be_bytes(), &MONEY.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    table
}

/// Moves money from one account to another, in which rows come and go.
fn transfer(session: &Session, table: &Table, random: &mut SplitMix64) -> flifo_engine::Result<()> {
    let (from, to) = (random.next_u64() % ACCOUNTS, random.next_u64() % ACCOUNTS);
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let isolation = if random.next_u64().is_multiple_of(2) { RepeatableRead } else { ReadCommitted };
    let mut txn = session.begin(isolation);
    let mut value = Vec::new();
    let mut read = |txn: &mut Transaction<'_>, key: &[u8]| match isolation {
        RepeatableRead => txn.get(table, key, &mut value).map(|found| if found { number(&value) } else { 0 }),
        _ => txn.get_for_update(table, key, &mut value).map(|found| if found { number(&value) } else { 0 }),
    };
    let there = read(&mut txn, &from)?;
    let moved = match random.next_u64() % 3 {
        0 => there,
        _ => there.min(random.next_u64() % 500),
    };
    if moved == there {
        txn.delete(table, &from)?;
    } else {
        txn.upsert(table, &from, &(there - moved).to_le_bytes())?;
    }
    let there = read(&mut txn, &to)?;
    if there + moved > 0 {
        txn.upsert(table, &to, &(there + moved).to_le_bytes())?;
    }
    match random.next_u64() % 8 {
        0 => txn.rollback(),
        _ => txn.commit(),
    }
}

fn sum(session: &Session, table: &Table) -> u64 {
    all(&mut session.begin(RepeatableRead), table).values().map(|value| number(value)).sum()
}

fn is_to_be_tried_again(error: &Error) -> bool {
    matches!(error, Error::WriteConflict | Error::Deadlock)
}

#[test]
fn every_snapshot_has_all_the_money() {
    let (db, _) = database();
    let table = open_accounts(&db);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..6_u64)
            .map(|mover| {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let (session, mut random) = (session(db), SplitMix64::seed_from_u64(mover));
                    for _ in 0..300 {
                        match transfer(&session, table, &mut random) {
                            Ok(()) => {}
                            Err(error) => assert!(is_to_be_tried_again(&error), "{error}"),
                        }
                    }
                })
            })
            .collect();
        let (db, table, done) = (&db, &table, &done);
        scope.spawn(move || {
            let session = session(db);
            while !done.load(Ordering::Relaxed) {
                assert_eq!(sum(&session, table), ACCOUNTS * MONEY);
            }
        });
        movers.into_iter().for_each(|mover| mover.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    wait_for_purge(&db);
    let rows = all(&mut session(&db).begin(ReadCommitted), &table).len() as u64;
    assert_eq!(db.check_table(&table).unwrap().rows, rows, "what was deleted is gone");
    let stats = db.stats();
    assert_eq!((stats.txns.active, stats.locks.locks, stats.redo.hard_stops), (0, 0, 0));
}

/// The caller can keep its own threads from a table, but not purge, which frees its pages.
#[test]
fn a_table_is_checked_while_purge_empties_it() {
    let (db, table) = database();
    let session = session(&db);
    let mut txn = session.begin(ReadCommitted);
    (0..5000_u64).for_each(|row| assert!(txn.insert(&table, &row.to_be_bytes(), &[1; 100]).unwrap()));
    (0..5000_u64).for_each(|row| assert!(txn.delete(&table, &row.to_be_bytes()).unwrap()));
    txn.commit().unwrap();
    while db.check_table(&table).unwrap().rows > 0 {
        // A turn for purge.
        std::thread::sleep(Duration::from_millis(3));
    }
    assert_eq!(db.lost_pages().unwrap(), 0);
}

/// Power cuts in the middle of transfers: no money is lost or made, and each acknowledged commit is there.
#[test]
fn a_crash_leaves_whole_transactions() {
    for seed in 0..12 {
        let mut disk = MemoryDisk::with_power_cuts(seed);
        let small = || EngineConfig { buffer_pool_bytes: 256 << 10, buffer_pool_instances: 1, ..config() };
        let mut db = Database::create_on(Arc::new(disk.clone()), small()).unwrap();
        let mut table = open_accounts(&db);
        for round in 0..3 {
            let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
            let cut_at = (seed * 31 + round * 17) % 120;
            let (cut, at_least) = std::thread::scope(|scope| {
                for mover in 0..4_u64 {
                    let (db, table, acknowledged, stop) = (&db, &table, &acknowledged, &stop);
                    scope.spawn(move || {
                        let session = session(db);
                        let mut random = SplitMix64::seed_from_u64(seed * 100 + round * 10 + mover);
                        while !stop.load(Ordering::Relaxed) {
                            match transfer(&session, table, &mut random) {
                                Ok(()) => drop(acknowledged.fetch_add(1, Ordering::SeqCst)),
                                Err(error) => assert!(is_to_be_tried_again(&error), "{error}"),
                            }
                        }
                    });
                }
                let (db, table) = (&db, &table);
                let log = db.create_table(&format!("log{round}")).unwrap();
                let session = session(db);
                let mut logged = 0_u64;
                while acknowledged.load(Ordering::SeqCst) < cut_at {
                    let mut txn = session.begin(ReadCommitted);
                    txn.insert(&log, &logged.to_be_bytes(), b"acknowledged").unwrap();
                    txn.commit().unwrap();
                    logged += 1;
                }
                // One that is cut off.
                let mut unfinished = session.begin(ReadCommitted);
                unfinished.insert(&log, &logged.to_be_bytes(), b"not committed").unwrap();
                let cut = disk.power_cut();
                stop.store(true, Ordering::Relaxed);
                drop(unfinished);
                let _ = table;
                (cut, logged)
            });
            drop((table, db));
            disk = cut;
            db = Database::open_on(Arc::new(disk.clone()), small()).unwrap();
            table = db.table("bank").unwrap();
            let session = session(&db);
            assert_eq!(sum(&session, &table), ACCOUNTS * MONEY, "seed {seed}, round {round}");
            let log = all(&mut session.begin(ReadCommitted), &db.table(&format!("log{round}")).unwrap());
            assert!(log.len() as u64 == at_least, "seed {seed}: {} of {at_least}", log.len());
            assert!(log.values().all(|value| value == b"acknowledged"));
            db.check_table(&table).unwrap();
            wait_for_purge(&db);
            assert_eq!(db.stats().txns.active, 0);
        }
    }
}

/// The disk fails while a transaction is rolled back, and is well again later: then purge's thread does it.
#[test]
fn a_rollback_that_fails_is_made_up_for() {
    use flifo_engine::disk::{DiskCall, Fault};
    let disk = MemoryDisk::default();
    let db = Database::create_on(Arc::new(disk.clone()), config()).unwrap();
    let table = db.create_table("t").unwrap();
    let session = session(&db);
    // More than the pool holds, so that pages are read on the way back.
    let mut txn = session.begin(ReadCommitted);
    for row in 0..3000_u32 {
        txn.insert(&table, &row.to_be_bytes(), &[1; 700]).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = session.begin(ReadCommitted);
    for row in 0..3000_u32 {
        txn.update(&table, &row.to_be_bytes(), &[2; 10]).unwrap();
    }
    disk.fail_from(Some(DiskCall::Read), 1, Fault::Io);
    assert!(matches!(txn.rollback(), Err(Error::Io { .. })));
    assert_eq!(db.stats().txns.active, 1);
    disk.heal();
    while db.stats().txns.active > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let rows = all(&mut session.begin(ReadCommitted), &table);
    assert!(rows.len() == 3000 && rows.values().all(|value| value == &[1; 700]));
}
