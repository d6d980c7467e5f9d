//! Slots in admission: what a statement holds, and what enters above the limit because others wait for its rows.

mod common;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

use common::{all, config, get};
use flifo_admission::{Admission, Config, Policy};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::{Database, EngineConfig, Error, FlushLog, Isolation, Table};

use Isolation::{ReadCommitted, RepeatableRead, Serializable};

fn database() -> (Database, Table) {
    // A commit that waits for no sync keeps its slot.
    let config = EngineConfig { flush_log_at_trx_commit: FlushLog::EverySecond, ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let table = db.create_table("t").unwrap();
    (db, table)
}

fn one_slot() -> Config {
    // A queued session is refused, or waits until the slot is released: without a stall limit nothing admits it earlier.
    Config { policy: Policy::Fifo, thread_concurrency: 1, stall_limit: None, ..Config::default() }
}

fn can_enter(session: &flifo_admission::Session) -> bool {
    let entered = session.try_enter();
    session.exit();
    entered
}

/// A statement holds the only slot over all of its operations, a commit among them. Without a statement each operation
/// releases the slot.
#[test]
fn a_statement_of_several_operations_has_one_slot() {
    let (db, table) = database();
    let admission = Admission::new(one_slot()).unwrap();
    let (session, other) = (db.session(&admission), admission.session());
    let can_enter = || can_enter(&other);
    let mut txn = session.begin(RepeatableRead);
    txn.insert(&table, b"a", b"1").unwrap();
    assert!(can_enter(), "an operation has left");
    {
        let _statement = txn.statement().unwrap();
        txn.insert(&table, b"b", b"2").unwrap();
        assert_eq!(get(&mut txn, &table, b"a"), Some(b"1".to_vec()));
        assert!(!can_enter(), "the statement goes on");
    }
    assert!(can_enter(), "the statement has ended");
    let statement = txn.statement().unwrap();
    txn.commit().unwrap();
    assert!(!can_enter(), "the statement outlasts its transaction");
    drop(statement);
    assert!(can_enter());
    assert_eq!(all(&mut session.begin(RepeatableRead), &table).len(), 2);
    assert!(can_enter());
}

/// Other transactions wait for its rows: a transaction that holds locks ends without queueing. So does a rollback to a
/// savepoint, and the end of a prepared transaction.
#[test]
fn a_commit_that_others_may_wait_for_neither_queues_nor_is_refused() {
    let (db, table) = database();
    let queue_timeout = Some(Duration::from_millis(1));
    let admission = Admission::new(Config { queue_timeout, ..one_slot() }).unwrap();
    let (session, running) = (db.session(&admission), admission.session());
    for xid in [b"x", b"y"] {
        let mut txn = session.begin(ReadCommitted);
        txn.insert(&table, xid, b"1").unwrap();
        assert!(txn.prepare(xid).unwrap());
    }
    let mut txn = session.begin(ReadCommitted);
    txn.insert(&table, b"a", b"1").unwrap();
    let savepoint = txn.savepoint();
    txn.insert(&table, b"b", b"2").unwrap();
    running.enter().unwrap();
    assert!(matches!(txn.insert(&table, b"c", b"3"), Err(Error::Refused(_))), "an operation queues");
    txn.rollback_to(savepoint).unwrap();
    txn.commit().unwrap();
    session.commit_prepared(b"x").unwrap();
    session.rollback_prepared(b"y").unwrap();
    let mut empty = session.begin(ReadCommitted);
    assert!(
        matches!(empty.rollback_to(Default::default()), Err(Error::Refused(_))),
        "it has nothing to undo"
    );
    assert!(matches!(empty.commit(), Err(Error::Refused(_))), "it has nothing to end");
    running.exit();
    assert_eq!(admission.snapshot().running, 0);
    assert_eq!(all(&mut session.begin(ReadCommitted), &table).len(), 2);
}

/// The end of a wait brings the slot back with one ticket, so a statement that has waited mostly has no ticket left at its commit.
#[test]
fn nor_does_one_within_a_statement_that_has_no_tickets_left() {
    let (db, table) = database();
    let queue_timeout = Some(Duration::from_secs(1));
    let admission = Admission::new(Config { concurrency_tickets: 1, queue_timeout, ..one_slot() }).unwrap();
    let session = db.session(&admission);
    {
        let mut txn = session.begin(ReadCommitted);
        txn.insert(&table, b"x", b"1").unwrap();
        assert!(txn.prepare(b"x").unwrap());
    }
    let mut txn = session.begin(ReadCommitted);
    let statement = txn.statement().unwrap();
    txn.insert(&table, b"a", b"1").unwrap();
    let savepoint = txn.savepoint();
    txn.insert(&table, b"b", b"2").unwrap();
    std::thread::scope(|scope| {
        let (is_over, over) = std::sync::mpsc::channel::<()>();
        let admission = &admission;
        let other = scope.spawn(move || {
            let other = admission.session();
            let entered = other.enter();
            let _ = over.recv();
            entered
        });
        let queued = || admission.snapshot().queued;
        while queued() == 0 {
            std::thread::yield_now();
        }
        txn.rollback_to(savepoint).unwrap();
        txn.commit().unwrap();
        assert_eq!((queued(), admission.snapshot().running), (1, 1), "the statement has kept its slot");
        session.commit_prepared(b"x").unwrap();
        drop(statement);
        drop(is_over);
        other.join().unwrap().unwrap();
    });
    assert_eq!(admission.snapshot().running, 0);
    assert_eq!(all(&mut session.begin(ReadCommitted), &table).len(), 2);
}

/// A statement that was refused because it had no ticket left has lost its slot; it can still end its transaction.
#[test]
fn nor_does_one_within_a_statement_that_has_lost_its_slot() {
    let (db, table) = database();
    let queue_timeout = Some(Duration::from_millis(1));
    let admission = Admission::new(Config { concurrency_tickets: 1, queue_timeout, ..one_slot() }).unwrap();
    let (session, past) = (db.session(&admission), admission.session());
    let mut txn = session.begin(ReadCommitted);
    let statement = txn.statement().unwrap();
    txn.insert(&table, b"a", b"1").unwrap();
    past.enter_forced();
    assert!(matches!(txn.insert(&table, b"b", b"2"), Err(Error::Refused(_))), "its slot repays the other's");
    txn.commit().unwrap();
    drop(statement);
    past.exit();
    assert_eq!(admission.snapshot().running, 0);
    assert_eq!(all(&mut session.begin(ReadCommitted), &table).len(), 1);
}

/// An operation in the callback of another one takes a ticket of that one's slot, also if it belongs to another transaction
/// of the session. So does a statement. The slot is released when the outer operation ends.
#[test]
fn a_callback_uses_the_slot_of_its_operation() {
    let (db, table) = database();
    let admission = Admission::new(one_slot()).unwrap();
    let (session, other) = (db.session(&admission), admission.session());
    let can_enter = || can_enter(&other);
    let mut txn = session.begin(ReadCommitted);
    for key in [b"a", b"b", b"c", b"d"] {
        txn.insert(&table, key, b"1").unwrap();
    }
    txn.commit().unwrap();
    let (mut outer, mut inner) = (session.begin(RepeatableRead), session.begin(ReadCommitted));
    let (mut rows, mut statement) = (0, None);
    outer
        .scan(&table, Bound::Unbounded, Bound::Unbounded, |key, _| {
            rows += 1;
            match rows {
                1 => assert_eq!(get(&mut inner, &table, b"c"), Some(b"1".to_vec())),
                2 => assert!(inner.update(&table, key, b"2").unwrap()),
                3 => std::mem::replace(&mut inner, session.begin(ReadCommitted)).commit().unwrap(),
                _ => statement = Some(session.statement().unwrap()),
            }
            assert!(!can_enter(), "the scan goes on");
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(rows, 4);
    assert!(!can_enter(), "the statement has not ended");
    let second = session.statement().unwrap();
    drop(statement);
    assert!(!can_enter(), "nor has the statement begun within it");
    drop(second);
    assert!(can_enter());
    assert_eq!(get(&mut inner, &table, b"b"), Some(b"2".to_vec()));
    assert_eq!(admission.snapshot().running, 0);
}

/// As a commit: other transactions wait for its rows. A transaction that changed nothing has nothing to roll back.
#[test]
fn a_rollback_enters_above_the_limit() {
    let (db, table) = database();
    let queue_timeout = Some(Duration::from_millis(1));
    let admission = Admission::new(Config { queue_timeout, ..one_slot() }).unwrap();
    let (session, another, running) = (db.session(&admission), db.session(&admission), admission.session());
    let mut txns = [ReadCommitted; 2].map(|isolation| session.begin(isolation));
    txns[0].insert(&table, b"a", b"1").unwrap();
    txns[1].insert(&table, b"b", b"1").unwrap();
    running.enter().unwrap();
    let forced = || admission.snapshot().admitted_by_force;
    let [first, second] = txns;
    first.rollback().unwrap();
    assert_eq!((forced(), admission.snapshot().running), (1, 1));
    drop(second);
    assert_eq!((forced(), admission.snapshot().running), (2, 1));
    session.begin(ReadCommitted).rollback().unwrap();
    drop(session.begin(RepeatableRead));
    assert_eq!(forced(), 2);
    running.exit();
    assert!(all(&mut another.begin(ReadCommitted), &table).is_empty());
}

/// Also where it locks them.
#[test]
fn a_scan_takes_a_ticket_for_each_row() {
    let (db, table) = database();
    let queue_timeout = Some(Duration::from_millis(1));
    let admission = Admission::new(Config { concurrency_tickets: 1, queue_timeout, ..one_slot() }).unwrap();
    let (session, past) = (db.session(&admission), admission.session());
    let mut txn = session.begin(ReadCommitted);
    for key in [b"a", b"b", b"c"] {
        txn.insert(&table, key, b"1").unwrap();
    }
    txn.commit().unwrap();
    for isolation in [RepeatableRead, Serializable] {
        let mut txn = session.begin(isolation);
        let mut rows = 0;
        let scanned = txn.scan(&table, Bound::Unbounded, Bound::Unbounded, |_, _| {
            rows += 1;
            // The scan's own slot repays the forced entry.
            past.enter_forced();
            ControlFlow::Continue(())
        });
        assert!(matches!(scanned, Err(Error::Refused(_))), "{isolation:?}: {scanned:?}");
        assert_eq!(rows, 1, "{isolation:?}");
        past.exit();
        txn.commit().unwrap();
        assert_eq!(admission.snapshot().running, 0);
    }
}
