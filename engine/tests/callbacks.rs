//! What a callback may do: use another session, wait for other threads, iterate. A thread never waits for its own slot.

mod common;

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::mpsc::{self, sync_channel};
use std::thread;
use std::time::Duration;

use common::{config, get, key, value};
use flifo_admission::{Admission, Config, Policy};
use flifo_engine::disk::MemoryDisk;
use flifo_engine::row::{Column, ColumnType, Schema};
use flifo_engine::{Database, EngineConfig, FlushLog, Isolation, Session, Table};

use Isolation::{ReadCommitted, Serializable};

/// No test here takes that long, however busy the machine is: who is not done then hangs.
const HANGS: Duration = Duration::from_secs(120);
const NEVER: Option<Duration> = Some(Duration::from_secs(3600));

/// Runs `f` on a thread of its own, and panics if it hangs.
fn within(f: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let runs = thread::spawn(move || {
        f();
        let _ = done.send(());
    });
    assert_ne!(is_done.recv_timeout(HANGS), Err(mpsc::RecvTimeoutError::Timeout), "it hangs");
    if let Err(panic) = runs.join() {
        std::panic::resume_unwind(panic);
    }
}

fn database(rows: u64, flush_log: FlushLog) -> (Database, Table, Table) {
    let config =
        EngineConfig { flush_log_at_trx_commit: flush_log, redo_capacity_bytes: 64 << 20, ..config() };
    let db = Database::create_on(Arc::new(MemoryDisk::default()), config).unwrap();
    let (from, to) = (db.create_table("from").unwrap(), db.create_table("to").unwrap());
    db.bulk_load_table(&from, common::rows(rows), |_| {}).unwrap();
    (db, from, to)
}

fn scan(session: &Session, isolation: Isolation, table: &Table, mut each: impl FnMut(&[u8])) {
    let each = |key: &[u8], _: &[u8]| {
        each(key);
        ControlFlow::Continue(())
    };
    session.begin(isolation).scan(table, Bound::Unbounded, Bound::Unbounded, each).unwrap();
}

fn commit(session: &Session, table: &Table, key: &[u8]) {
    let mut txn = session.begin(ReadCommitted);
    txn.upsert(table, key, b"1").unwrap();
    txn.commit().unwrap();
}

fn one_slot(stall_limit: Option<Duration>) -> Arc<Admission> {
    let config = Config { policy: Policy::Fifo, thread_concurrency: 1, stall_limit, ..Config::default() };
    Admission::new(config).unwrap()
}

fn assert_drained(admission: &Admission) {
    let snapshot = admission.snapshot();
    assert_eq!((snapshot.running, snapshot.pending, snapshot.queued), (0, 0, 0), "{snapshot}");
}

/// As many threads as slots scan in one session, and commit each row in another.
fn copy_row_by_row(config: Config, threads: u64, flush_log: FlushLog) -> Arc<Admission> {
    const ROWS: u64 = 300;
    let admission = Admission::new(config).unwrap();
    let scheduler = Arc::clone(&admission);
    within(move || {
        let (db, from, to) = database(ROWS, flush_log);
        thread::scope(|scope| {
            for thread in 0..threads {
                let (reads, writes) = (db.session(&scheduler), db.session(&scheduler));
                let (from, to) = (&from, &to);
                scope.spawn(move || {
                    scan(&reads, ReadCommitted, from, |key| {
                        commit(&writes, to, &[key, &thread.to_be_bytes()].concat())
                    })
                });
            }
        });
        assert_eq!(
            common::all(&mut db.session(&scheduler).begin(ReadCommitted), &to).len() as u64,
            threads * ROWS
        );
    });
    assert_drained(&admission);
    admission
}

#[test]
fn threads_that_scan_commit_each_row_in_another_session() {
    for policy in [Policy::Quantum, Policy::Flifo, Policy::Fifo] {
        for stall_limit in [Config::default().stall_limit, NEVER, None] {
            for threads in [4, 1] {
                let config = Config { policy, thread_concurrency: threads, stall_limit, ..Config::default() };
                copy_row_by_row(config, threads.into(), FlushLog::Sync);
            }
        }
    }
}

/// Twice as many threads as slots, few tickets: they queue in the middle of both.
#[test]
fn more_threads_than_slots_with_few_tickets_do_so_too() {
    for policy in [Policy::Quantum, Policy::Flifo, Policy::Fifo] {
        let config = Config {
            policy,
            thread_concurrency: 2,
            concurrency_tickets: 3,
            stall_limit: NEVER,
            ..Config::default()
        };
        copy_row_by_row(config, 6, FlushLog::Sync);
    }
}

#[test]
fn a_second_session_counts_no_second_slot() {
    let (db, from, to) = database(3, FlushLog::EverySecond);
    let admission = one_slot(NEVER);
    let (outer, inner, innermost) = (db.session(&admission), db.session(&admission), db.session(&admission));
    let running = || (admission.snapshot().running, admission.snapshot().running_max);
    scan(&outer, ReadCommitted, &from, |key| {
        scan(&inner, Serializable, &from, |_| {
            commit(&innermost, &to, key);
            assert_eq!(running(), (1, 1));
        });
        assert_eq!(running(), (1, 1), "the slot has come back");
    });
    assert_drained(&admission);
    assert_eq!(admission.snapshot().admitted_by_force, 0);
}

/// Statements of two sessions, which end in any order.
#[test]
fn statements_of_several_sessions_share_the_slot_of_their_thread() {
    let (db, from, _) = database(3, FlushLog::EverySecond);
    let admission = one_slot(NEVER);
    let (one, two) = (db.session(&admission), db.session(&admission));
    let running = || admission.snapshot().running;
    let read = |session: &Session| assert!(get(&mut session.begin(ReadCommitted), &from, &key(1)).is_some());
    for round in 0..3 {
        let (first, second) = (one.statement().unwrap(), two.statement().unwrap());
        [&one, &two].into_iter().for_each(read);
        assert_eq!(running(), 1);
        if round == 0 {
            drop(first);
            [&one, &two].into_iter().for_each(read);
            let again = one.statement().unwrap();
            drop(second);
            read(&one);
            assert_eq!(running(), 1);
            drop(again);
        } else {
            drop(second);
            assert_eq!(running(), 1);
            read(&one);
        }
    }
    assert_drained(&admission);
    assert_eq!((admission.snapshot().running_max, admission.snapshot().admitted_by_force), (1, 0));
}

/// The inner session waits for a row, whose owner needs a slot before it commits.
#[test]
fn a_wait_of_the_inner_session_releases_the_slot() {
    within(|| {
        let (db, from, to) = database(1, FlushLog::Sync);
        let admission = one_slot(NEVER);
        let (outer, inner, owner) = (db.session(&admission), db.session(&admission), db.session(&admission));
        let mut owns = owner.begin(ReadCommitted);
        owns.insert(&to, b"row", b"1").unwrap();
        let locks_waited = || db.stats().locks.waiting;
        thread::scope(|scope| {
            let (from, to) = (&from, &to);
            scope.spawn(move || scan(&outer, ReadCommitted, from, |_| commit(&inner, to, b"row")));
            while locks_waited() == 0 {
                thread::yield_now();
            }
            owns.insert(to, b"another", b"1").unwrap();
            owns.commit().unwrap();
        });
        assert_drained(&admission);
    });
}

/// A callback that never ends, with statement after statement, has used up its slot's tickets some time.
#[test]
fn statements_of_an_inner_session_let_the_queue_go_first() {
    within(|| {
        let (db, from, to) = database(1, FlushLog::EverySecond);
        let config = Config { concurrency_tickets: 5, ..one_slot(NEVER).config() };
        let admission = Admission::new(config).unwrap();
        let (outer, inner, other) = (db.session(&admission), db.session(&admission), db.session(&admission));
        let (begin, begun) = mpsc::channel();
        thread::scope(|scope| {
            let to = &to;
            let waits = scope.spawn(move || {
                begun.recv().unwrap();
                commit(&other, to, b"other");
            });
            scan(&outer, ReadCommitted, &from, |key| {
                begin.send(()).unwrap();
                while !waits.is_finished() {
                    commit(&inner, to, key);
                }
            });
        });
        assert_drained(&admission);
    });
}

/// Each row of the scan is handed to another thread, which needs a slot for what it does, and is waited for.
fn hand_over(admission: &Arc<Admission>, scans: u32, declares: bool) -> Database {
    let (db, from, to) = database(1, FlushLog::EverySecond);
    let (producer, consumer) = (db.session(admission), db.session(admission));
    let (send, received) = sync_channel::<Vec<u8>>(0);
    let (reply, replied) = sync_channel(0);
    thread::scope(|scope| {
        let to = &to;
        scope.spawn(move || {
            for row in received {
                commit(&consumer, to, &row);
                reply.send(()).unwrap();
            }
        });
        let hand_over = |key: &[u8]| {
            send.send(key.to_vec()).unwrap();
            replied.recv().unwrap();
        };
        for _ in 0..scans {
            scan(&producer, ReadCommitted, &from, |key| match declares {
                true => producer.wait(|| hand_over(key)),
                false => hand_over(key),
            });
        }
        drop(send);
    });
    db
}

#[test]
fn a_callback_that_declares_its_wait_has_no_slot_meanwhile() {
    within(|| {
        let admission = one_slot(NEVER);
        let db = hand_over(&admission, 100, true);
        assert_eq!((admission.snapshot().slots_reclaimed, db.stats().stalled_callbacks), (0, 0));
        assert_drained(&admission);
    });
}

/// One that does not loses its slot after the stall limit, is counted, and noted in the log once. The callbacks after it run
/// without a slot, so that not each of them costs the others a stall limit.
#[test]
fn a_callback_that_waits_without_saying_so_is_bounded() {
    within(|| {
        static LOG: Log = Log(std::sync::Mutex::new(Vec::new()));
        log::set_logger(&LOG).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
        const SCANS: u32 = 200;
        let admission = one_slot(Some(Duration::from_millis(50)));
        let db = hand_over(&admission, SCANS, false);
        let (stalled, reclaimed) = (db.stats().stalled_callbacks, admission.snapshot().slots_reclaimed);
        assert!(stalled > 1, "the test is none: {stalled}");
        assert!(
            reclaimed < u64::from(SCANS / 8),
            "{reclaimed} of {SCANS} callbacks waited for the stall limit"
        );
        assert_drained(&admission);
        let lines = LOG.0.lock().unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("Session::wait"), "{lines:?}");
    });
}

struct Log(std::sync::Mutex<Vec<String>>);

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

/// An iterator reads its batches on the slot of its thread, whichever session has it.
#[test]
fn an_iterator_is_read_in_a_callback_of_another_session() {
    within(|| {
        let (db, from, _) = database(3, FlushLog::EverySecond);
        let schema = Schema::builder().column(Column::new("id", ColumnType::U64)).primary_key(["id"]).build();
        let numbers = db.create_typed_table("numbers", schema.unwrap()).unwrap();
        db.bulk_load_rows(&numbers, (0..500u64).map(|id| (id,)), |_| {}).unwrap();
        let admission = one_slot(NEVER);
        let (outer, inner) = (db.session(&admission), db.session(&admission));
        scan(&outer, ReadCommitted, &from, |_| {
            let rows = numbers.iter(&mut inner.begin(ReadCommitted), ..).unwrap();
            assert_eq!(rows.map(Result::unwrap).count(), 500);
            assert_eq!(admission.snapshot().running, 1);
        });
        assert_eq!((admission.snapshot().running_max, admission.snapshot().admitted_by_force), (1, 0));
        assert_drained(&admission);
    });
}

/// Of a statement that is leaked nothing is left behind when its session is gone.
#[test]
fn a_leaked_statement_is_in_nobodys_way() {
    within(|| {
        let (db, from, to) = database(1, FlushLog::Sync);
        let admission = one_slot(NEVER);
        let (moves, stays) = (db.session(&admission), db.session(&admission));
        std::mem::forget(moves.statement().unwrap());
        commit(&stays, &to, b"beside it");
        let moves = thread::spawn(move || {
            commit(&moves, &to, b"elsewhere");
            (moves, to)
        });
        let (moves, to) = moves.join().unwrap();
        drop(moves);
        scan(&stays, ReadCommitted, &from, |_| commit(&db.session(&admission), &to, b"within"));
        assert_drained(&admission);
    });
}

/// Serializable scans lock what they read; an inner session of the thread may read the same rows.
#[test]
fn a_scan_that_locks_has_callbacks_too() {
    within(|| {
        let (db, from, to) = database(50, FlushLog::Sync);
        let admission = one_slot(NEVER);
        let (outer, inner) = (db.session(&admission), db.session(&admission));
        let mut found = 0;
        scan(&outer, Serializable, &from, |key| {
            found += u64::from(get(&mut inner.begin(ReadCommitted), &from, key) == Some(value(found)));
            commit(&inner, &to, key);
        });
        assert_eq!(found, 50);
        assert_drained(&admission);
    });
}
