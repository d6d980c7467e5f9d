//! Locks of the server, and one slot: the holder of a lock is admitted, and those that wait for it do not keep it out. The
//! server resolves deadlocks; admission adds none. No stall is broken, and no lock wait times out.

mod owners;
mod session;
mod waiters;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use self::owners::idle_between_statements;
use self::session::{
    a_name_is_freed_in_a_packet, a_name_is_locked, a_name_is_locked_while_admission_is_off,
    locks_of_the_session, no_locks_of_the_session,
};
use self::waiters::killed_while_waiting;
use super::support::random::Random;
use super::support::rest::{empty, until};
use super::support::wire::{Reply, Wire};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject {
        name: "locks",
        options: with_plugin().set("innodb-lock-wait-timeout", 1000).set("lock-wait-timeout", 1000),
        tests: tests(),
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("idle_while_holding", idle_while_holding),
        ("idle_between_statements", idle_between_statements),
        ("however_the_locks_were_taken", however_the_locks_were_taken),
        ("holders_go_before_others", holders_go_before_others),
        ("refused_in_a_transaction", refused_in_a_transaction),
        ("locked_while_admission_is_off", locked_while_admission_is_off),
        ("locked_before_an_error", locked_before_an_error),
        ("prepared_and_left_behind", prepared_and_left_behind),
        ("a_name_is_locked", a_name_is_locked),
        ("locks_of_the_session", locks_of_the_session),
        ("no_locks_of_the_session", no_locks_of_the_session),
        ("a_name_is_freed_in_a_packet", a_name_is_freed_in_a_packet),
        ("a_name_is_locked_while_admission_is_off", a_name_is_locked_while_admission_is_off),
        ("opposite_order", opposite_order),
        ("opposite_order_under_load", opposite_order_under_load),
        ("hot_rows", hot_rows),
        ("a_chain_of_holders", a_chain_of_holders),
        ("alter_table", alter_table),
        ("a_slow_reader_of_locked_rows", a_slow_reader_of_locked_rows),
        ("a_procedure_out_of_tickets", a_procedure_out_of_tickets),
        ("killed_while_waiting", killed_while_waiting),
    ]
}

const DEADLOCK: u16 = 1213;
pub(crate) const UPDATE_1: &str = "UPDATE t SET k = k + 1 WHERE id = 1";

#[track_caller]
pub(crate) fn until_row_waits(server: &PrivateServer, count: u64) {
    until(&format!("{count} wait for row locks"), || row_waits(server) >= count);
}

fn row_waits(server: &PrivateServer) -> u64 {
    server.status_number("Innodb_row_lock_current_waits").unwrap()
}

/// All that the others wait for is one COMMIT, which needs a slot, too.
fn idle_while_holding(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    for end in ["COMMIT", "ROLLBACK", "UPDATE t SET k = 0 WHERE id = 2", "the connection's end"] {
        let mut holder = app(server);
        run(&mut holder, "BEGIN").unwrap();
        run(&mut holder, UPDATE_1).unwrap();
        let waiters: Vec<Running> = (0..20).map(|_| Running::start(server, UPDATE_1)).collect();
        until_row_waits(server, 1);
        if end.contains("end") {
            drop(holder);
        } else {
            run(&mut holder, end).unwrap();
            if end.starts_with("UPDATE") {
                run(&mut holder, "COMMIT").unwrap();
            }
        }
        for waiter in waiters {
            waiter.end().unwrap();
        }
        empty(server);
    }
}

/// A session known to hold locks goes before others; here are the ways to take them.
fn however_the_locks_were_taken(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE PROCEDURE test.begins() BEGIN START TRANSACTION; UPDATE t SET k = k + 1 WHERE id = 1; END",
        "CREATE OR REPLACE PROCEDURE test.writes() UPDATE t SET k = k + 1 WHERE id = 1",
        "CREATE OR REPLACE FUNCTION test.writes() RETURNS INT
         BEGIN UPDATE t SET k = k + 1 WHERE id = 1; RETURN 1; END",
        "CREATE OR REPLACE TABLE test.triggered (id INT)",
        "CREATE TRIGGER test.locks AFTER INSERT ON test.triggered FOR EACH ROW UPDATE t SET k = k + 1 WHERE id = 1",
    ] {
        root.query_drop(statement).unwrap();
    }
    set(server, "thread_concurrency", "1");
    let mut kept_out = Vec::new();
    for ways in [
        &["BEGIN", UPDATE_1][..],
        &["START TRANSACTION WITH CONSISTENT SNAPSHOT", UPDATE_1],
        &["SET autocommit = 0", UPDATE_1],
        &["BEGIN; UPDATE t SET k = k + 1 WHERE id = 1"],
        &["BEGIN", "DELETE FROM t WHERE id = 1"],
        &["BEGIN", "INSERT IGNORE INTO t VALUES (1, 1, '')"],
        &["BEGIN", "INSERT INTO t VALUES (1, 1, '') ON DUPLICATE KEY UPDATE k = k + 1"],
        &["BEGIN", "REPLACE INTO t VALUES (1, 1, '')"],
        &["BEGIN", "SELECT * FROM t WHERE id = 1 FOR UPDATE"],
        &["BEGIN", "select * from t where id = 1 for update"],
        &["BEGIN", "SELECT * FROM t WHERE id = 1 LOCK IN SHARE MODE"],
        &["BEGIN", "SELECT * FROM t WHERE id = 1 FOR\n   UPDATE"],
        &["BEGIN", "(SELECT * FROM t WHERE id = 1 FOR UPDATE)"],
        &["BEGIN", "SELECT * FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED"],
        &["BEGIN", "SELECT * FROM (SELECT * FROM t WHERE id = 1 FOR UPDATE) x"],
        &["SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "BEGIN", "SELECT * FROM t WHERE id = 1"],
        &["BEGIN", "INSERT INTO triggered SELECT k FROM t WHERE id = 1 LOCK IN SHARE MODE"],
        &["BEGIN", "INSERT INTO triggered VALUES (1)"],
        &["BEGIN", "DO writes()"],
        &["BEGIN", "SELECT writes()"],
        &["BEGIN", "CALL writes()"],
        &["CALL begins()"],
        &["SET STATEMENT max_statement_time = 9 FOR CALL begins()"],
        &["PREPARE p FROM 'UPDATE t SET k = k + 1 WHERE id = 1'", "BEGIN", "EXECUTE p"],
        &["PREPARE p FROM 'SELECT * FROM t WHERE id = 1 FOR UPDATE'", "BEGIN", "EXECUTE p"],
        &["BEGIN", "EXECUTE IMMEDIATE 'SELECT * FROM t WHERE id = 1 FOR UPDATE'"],
        &["XA START 'x'", UPDATE_1, "XA END 'x'"],
        &["BEGIN NOT ATOMIC BEGIN START TRANSACTION; UPDATE t SET k = k + 1 WHERE id = 1; END; END"],
        &["BEGIN", UPDATE_1, "SELECT no_such_column"],
        &["BEGIN", UPDATE_1, "SAVEPOINT s", "UPDATE t SET k = 1 WHERE id = 2", "ROLLBACK TO s"],
        &["SET autocommit = 0", UPDATE_1, "SAVEPOINT s", "ROLLBACK TO s"],
        &["SET autocommit = 0", UPDATE_1, "SAVEPOINT s", "rollback work\nto savepoint s"],
        &["SET autocommit = 0", UPDATE_1, "SAVEPOINT s", "ROLLBACK/**/TO s"],
        &["SET autocommit = 0", UPDATE_1, "COMMIT TRANSACTION"],
        &["SET autocommit = 0", UPDATE_1, "ROLLBACK TRANSACTION"],
        &["SET autocommit = 0", UPDATE_1, "/*!999999 COMMIT */"],
        &["BEGIN", "UPDATE t SET k = 1 WHERE id = 3", "COMMIT AND CHAIN", UPDATE_1],
        &["BEGIN", "INSERT INTO t VALUES (1, 1, '')"],
        &["HANDLER t OPEN", "BEGIN", UPDATE_1],
    ] {
        let mut holder = app(server);
        for way in ways {
            // An error, too, may leave locks behind.
            let _ = run(&mut holder, way);
        }
        let waiter = Running::start(server, UPDATE_1);
        until(&format!("somebody waits for what {ways:?} locked"), || row_waits(server) == 1);
        // A second, so that the slot is taken whichever of them waits.
        let newcomer = Running::start(server, UPDATE_1);
        // One statement, and then the end.
        let id = holder.connection_id();
        let end = match ways {
            [first, ..] if first.starts_with("XA") => "XA ROLLBACK 'x'",
            [.., last] if last.starts_with("DELETE") => "ROLLBACK",
            _ => "COMMIT",
        };
        let ending = thread::spawn(move || {
            run(&mut holder, "SELECT 1").ok();
            run(&mut holder, end)
        });
        let deadline = std::time::Instant::now() + PATIENCE;
        while !ending.is_finished() && std::time::Instant::now() < deadline {
            thread::sleep(std::time::Duration::from_millis(2));
        }
        if !ending.is_finished() {
            kept_out.push(ways);
            // Or all would wait for a thousand seconds.
            root.query_drop(format!("KILL {id}")).unwrap();
        }
        let _ = ending.join();
        waiter.end().unwrap();
        newcomer.end().unwrap();
        empty(server);
    }
    assert!(kept_out.is_empty(), "their COMMIT was kept out by those who wait for it: {kept_out:#?}");
}

/// With what clients put behind each statement, so that it is known where it came from.
fn traced(statement: &str) -> String {
    let trace = "traceparent='00-5bd66ef5095369c7b0d1f8f4bd33716a-c532cb4098ac3dd2-01'";
    format!(
        "{statement} /* of the shop */ /*action='pay',controller='orders',route='%2Forders%2Fpay',{trace}*/ "
    )
}

/// A transaction that has locked rows goes before a session that queued earlier and holds nothing.
fn holders_go_before_others(server: &PrivateServer) {
    let select = "SELECT * FROM t WHERE id = 1 FOR UPDATE";
    for lock in [select, "SELECT * FROM t WHERE id = 1 LOCK IN SHARE MODE", UPDATE_1] {
        for lock in [lock.to_owned(), traced(lock)] {
            set(server, "thread_concurrency", "1");
            let mut locker = app(server);
            run(&mut locker, "BEGIN").unwrap();
            run(&mut locker, &lock).unwrap();
            let holder = Holder::of_the_only_slot(server);
            let other = Blocked::start(server);
            holder.until_queued(1);
            let locker = Running::on(locker, UPDATE_1);
            holder.until_queued(2);
            drop(holder);
            let deadline = std::time::Instant::now() + PATIENCE;
            while !locker.is_over() {
                assert!(std::time::Instant::now() < deadline, "kept out: {lock}");
                thread::yield_now();
            }
            drop(other);
            locker.end().unwrap();
            empty(server);
        }
    }
}

/// A statement that was refused in a transaction has locked nothing, and is refused again.
fn refused_in_a_transaction(server: &PrivateServer) {
    for begin in ["BEGIN", "SET autocommit = 0", "START TRANSACTION READ ONLY"] {
        let (mut client, other) = (app(server), app(server));
        run(&mut client, begin).unwrap();
        let holder = Holder::of_the_only_slot_on(server, other);
        set_number(server, "queue_timeout", 1);
        for statement in ["SELECT COUNT(*) FROM t", "SELECT 1 FROM t", UPDATE_1, "SELECT 1 FROM t"] {
            assert_eq!(code(run(&mut client, statement)), REFUSED, "{begin}: {statement}");
        }
        set_number(server, "queue_timeout", 0);
        drop(holder);
        run(&mut client, "COMMIT").unwrap();
        empty(server);
    }
}

/// Long enough on a busy machine, and a test that fails still ends.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Of a transaction that begins while admission does not look it is not known what it has locked, so it may hold all.
fn locked_while_admission_is_off(server: &PrivateServer) {
    type Way = fn(&PrivateServer) -> Conn;
    let begin = |mut holder: Conn| {
        run(&mut holder, "BEGIN").unwrap();
        run(&mut holder, UPDATE_1).unwrap();
        holder
    };
    let ways: [(&str, Way); 2] = [
        ("without a limit", |server| {
            set(server, "thread_concurrency", "0");
            app(server)
        }),
        ("bypassing", |server| {
            set(server, "bypass", "ON");
            app(server)
        }),
    ];
    for (name, way) in ways {
        let mut holder = begin(way(server));
        defaults(server);
        set(server, "thread_concurrency", "1");
        if name == "bypassing" {
            run(&mut holder, "SET SESSION flifo_bypass = 0").unwrap();
        }
        let waiter = Running::start(server, UPDATE_1);
        until_row_waits(server, 1);
        let newcomer = Running::start(server, UPDATE_1);
        for statement in ["SELECT 1", "COMMIT"] {
            assert_eq!(code(run(&mut holder, statement)), 0, "{name}: {statement}");
        }
        waiter.end().unwrap();
        newcomer.end().unwrap();
        empty(server);
    }
}

/// A file that cannot be loaded is read to its end all the same, and what was loaded before stays locked.
fn locked_before_an_error(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    let mut holder = Wire::connect(server).unwrap();
    assert_eq!(holder.query("BEGIN").unwrap(), [Reply::Done]);
    let load = "LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE t";
    assert_eq!(holder.query(load).unwrap(), [Reply::File]);
    holder.send_more(b"1\t5\tx\n2\t5\tx\n3\t\\N\tx\n").unwrap();
    empty(server);
    holder.send_more(&b"4\t5\tx\n".repeat(10_000)).unwrap();
    holder.send_more(b"").unwrap();
    const NULL_IN_COLUMN: u16 = 1263;
    let replies = holder.replies().unwrap();
    assert!(matches!(replies[..], [Reply::Error(NULL_IN_COLUMN, _)]), "{replies:?}");
    let waiter = Running::start(server, UPDATE_1);
    until_row_waits(server, 1);
    let ended = gets_in(server, move || {
        ["SELECT COUNT(*) FROM t", "ROLLBACK"].map(|statement| holder.query(statement).unwrap())
    });
    assert_eq!(ended, Some([vec![Reply::Rows(1)], vec![Reply::Done]]));
    waiter.end().unwrap();
    empty(server);
}

/// A prepared transaction without a client keeps its rows locked. The session that ends it has locked nothing, and is admitted
/// before those that wait for the rows.
fn prepared_and_left_behind(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    for end in [
        "XA COMMIT 'left'",
        "-- of a transaction manager\nxa\trollback 'left'",
        // The second of a packet needs a slot, too, and the first has released its own.
        "DO RELEASE_LOCK('nobody'); XA COMMIT 'left'",
    ] {
        let mut left = app(server);
        for statement in ["XA START 'left'", UPDATE_1, "XA END 'left'", "XA PREPARE 'left'"] {
            run(&mut left, statement).unwrap();
        }
        drop(left);
        let waiters = [Running::start(server, UPDATE_1), Running::start(server, UPDATE_1)];
        until_row_waits(server, 1);
        const NOT_LEFT_YET: u16 = 1397;
        let mut manager = app(server);
        let ended = gets_in(server, move || {
            loop {
                match code(run(&mut manager, end)) {
                    NOT_LEFT_YET => thread::yield_now(),
                    error => return error,
                }
            }
        });
        assert_eq!(ended, Some(0), "{end}");
        for waiter in waiters {
            waiter.end().unwrap();
        }
        empty(server);
    }
}

/// What this returns, if it is not kept out. Else the limit is lifted, so that a test that fails ends.
fn gets_in<R: Send + 'static>(
    server: &PrivateServer,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let work = thread::spawn(work);
    let deadline = std::time::Instant::now() + PATIENCE;
    while !work.is_finished() {
        if std::time::Instant::now() >= deadline {
            set(server, "thread_concurrency", "0");
            let _ = work.join();
            return None;
        }
        thread::sleep(std::time::Duration::from_millis(2));
    }
    Some(work.join().unwrap())
}

/// The server finds the deadlock, one of the two goes on.
fn opposite_order(server: &PrivateServer) {
    for limit in ["1", "2", "8"] {
        set(server, "thread_concurrency", limit);
        for _ in 0..times(20) {
            let (mut one, mut other) = (app(server), app(server));
            for (client, id) in [(&mut one, 1), (&mut other, 2)] {
                run(client, "BEGIN").unwrap();
                run(client, &format!("UPDATE t SET k = k + 1 WHERE id = {id}")).unwrap();
            }
            let cross = |mut client: Conn, id: u32| {
                move || {
                    let result = code(run(&mut client, &format!("UPDATE t SET k = k + 1 WHERE id = {id}")));
                    run(&mut client, "COMMIT").unwrap();
                    result
                }
            };
            let threads = [thread::spawn(cross(one, 2)), thread::spawn(cross(other, 1))];
            let mut codes = threads.map(|thread| thread.join().unwrap());
            codes.sort_unstable();
            assert_eq!(codes, [0, DEADLOCK]);
        }
        empty(server);
    }
}

/// Transactions that lock several rows in any order; each ends in a commit or a deadlock.
fn opposite_order_under_load(server: &PrivateServer) {
    for (limit, policy) in [("1", "quantum"), ("1", "fifo"), ("4", "flifo"), ("auto", "quantum")] {
        set(server, "thread_concurrency", limit);
        set(server, "policy", policy);
        let (commits, deadlocks) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for number in 0..16 {
                let (commits, deadlocks) = (&commits, &deadlocks);
                scope.spawn(move || {
                    let mut random = Random::new(number);
                    let mut client = app(server);
                    for _ in 0..times(25) {
                        run(&mut client, "BEGIN").unwrap();
                        let failed = (0..4).find_map(|_| {
                            let id = 1 + random.below(6);
                            let statement = match random.below(3) {
                                0 => format!("SELECT * FROM t WHERE id = {id} FOR UPDATE"),
                                _ => format!("UPDATE t SET k = k + 1 WHERE id = {id}"),
                            };
                            Some(code(run(&mut client, &statement))).filter(|&error| error != 0)
                        });
                        match failed {
                            None => commits.fetch_add(1, Ordering::Relaxed),
                            Some(DEADLOCK) => deadlocks.fetch_add(1, Ordering::Relaxed),
                            Some(error) => panic!("error {error}"),
                        };
                        run(&mut client, "COMMIT").unwrap();
                    }
                });
            }
        });
        let counts = (commits.into_inner(), deadlocks.into_inner());
        assert!(counts.0 > 0 && counts.1 > 0, "commits and deadlocks with limit {limit}: {counts:?}");
        empty(server);
    }
}

/// Each update is done, once.
fn hot_rows(server: &PrivateServer) {
    admin(server).query_drop("UPDATE test.t SET k = 0").unwrap();
    const LIMITS: [&str; 3] = ["1", "4", "auto"];
    for limit in LIMITS {
        set(server, "thread_concurrency", limit);
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| {
                    let mut client = app(server);
                    for _ in 0..times(10) {
                        run(&mut client, UPDATE_1).unwrap();
                    }
                });
            }
        });
        empty(server);
    }
    let sum: usize = app(server).query_first("SELECT k FROM t WHERE id = 1").unwrap().unwrap();
    assert_eq!(sum, LIMITS.len() * 64 * times(10));
}

/// Each holds a row that the next waits for; they end one after the other.
fn a_chain_of_holders(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    let mut holders: Vec<Conn> = (0..10).map(|_| app(server)).collect();
    for (id, holder) in holders.iter_mut().enumerate() {
        run(holder, "BEGIN").unwrap();
        run(holder, &format!("UPDATE t SET k = k + 1 WHERE id = {}", id + 1)).unwrap();
    }
    let first = holders.remove(0);
    let waiting: Vec<_> = holders
        .into_iter()
        .enumerate()
        .map(|(id, mut holder)| {
            thread::spawn(move || {
                run(&mut holder, &format!("UPDATE t SET k = k + 1 WHERE id = {}", id + 1))?;
                run(&mut holder, "COMMIT")
            })
        })
        .collect();
    until_row_waits(server, 9);
    let newcomers: Vec<Running> = (0..10).map(|_| Running::start(server, UPDATE_1)).collect();
    let mut first = first;
    run(&mut first, "COMMIT").unwrap();
    for thread in waiting {
        thread.join().unwrap().unwrap();
    }
    for newcomer in newcomers {
        newcomer.end().unwrap();
    }
}

/// A transaction has the table open, ALTER waits for it, and all others pile up behind ALTER.
fn alter_table(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    for how in ["ALGORITHM = COPY", "ALGORITHM = INPLACE"] {
        let mut holder = app(server);
        run(&mut holder, "BEGIN").unwrap();
        run(&mut holder, "SELECT COUNT(*) FROM t").unwrap();
        let alter = Running::start(server, &format!("ALTER TABLE t FORCE, {how}"));
        let waiting = |count: usize| {
            until(&format!("{count} wait for the table"), || {
                let text = "SELECT COUNT(*) FROM information_schema.processlist
                            WHERE state = 'Waiting for table metadata lock'";
                admin(server).query_first::<usize, _>(text).unwrap().unwrap() == count
            });
        };
        waiting(1);
        let others: Vec<Running> = (0..50)
            .map(|number| {
                Running::start(server, if number % 2 == 0 { UPDATE_1 } else { "SELECT COUNT(*) FROM t" })
            })
            .collect();
        waiting(51);
        // What needs another table is admitted, and so is the holder.
        run(&mut app(server), "SELECT COUNT(*) FROM seq_1_to_10").unwrap();
        run(&mut holder, "SELECT COUNT(*) FROM t").unwrap();
        run(&mut holder, "COMMIT").unwrap();
        alter.end().unwrap();
        for other in others {
            other.end().unwrap();
        }
        empty(server);
    }
}

/// A client that reads rows so slowly that the server waits for it, and has locked them, is admitted again while others wait.
fn a_slow_reader_of_locked_rows(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    let mut reader = Wire::connect(server).unwrap();
    reader
        .send_query("SELECT REPEAT('x', 20000) FROM t FORCE INDEX (PRIMARY) WHERE id > 0 FOR UPDATE")
        .unwrap();
    until("it waits for its reader", || {
        let text = format!("SELECT state FROM information_schema.processlist WHERE id = {}", reader.id);
        let state: Option<String> = admin(server).query_first(text).unwrap();
        state.is_some_and(|state| state == "Writing to net")
            && server.status_number("Flifo_running").unwrap() == 0
    });
    let waiter = Running::start(server, UPDATE_1);
    until_row_waits(server, 1);
    assert_eq!(reader.replies().unwrap(), [Reply::Rows(ROWS as u64)]);
    waiter.end().unwrap();
}

/// A procedure that holds locks and is out of tickets gets in before those who wait for them, or past them.
fn a_procedure_out_of_tickets(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop(
        "CREATE OR REPLACE PROCEDURE test.locks_two() BEGIN START TRANSACTION;
         UPDATE t SET k = k + 1 WHERE id = 1; CALL spends_tickets(); UPDATE t SET k = k + 1 WHERE id = 2; COMMIT; END",
    )
    .unwrap();
    spends_tickets(server);
    set(server, "thread_concurrency", "1");
    for policy in ["quantum", "flifo", "fifo"] {
        set(server, "policy", policy);
        thread::scope(|scope| {
            for number in 0..20 {
                scope.spawn(move || {
                    let mut client = app(server);
                    let statement = match number {
                        0 => "CALL locks_two()",
                        1 => "DO 1; CALL locks_two()",
                        _ => UPDATE_1,
                    };
                    for _ in 0..times(10) {
                        run(&mut client, statement).unwrap();
                    }
                });
            }
        });
        empty(server);
    }
}
