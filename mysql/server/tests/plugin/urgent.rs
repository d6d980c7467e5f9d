//! What ends other work, frees what others wait for, or looks at the server, needs no free slot and is never refused. Most tests have one
//! slot, in use all the time, and a full queue.

use std::sync::atomic::AtomicBool;
use std::thread;

use flifo_mysql::PrivateServer;
use flifo_mysql::mysql::Conn;

use super::support::{
    Holder, INTERRUPTED, Queryable, REFUSED, Running, Test, app, code, crowd, execute, is_at_rest, run, set,
    times, until,
};

pub(crate) const TESTS: &[Test] = &[
    ("kill_of_every_kind", kill_of_every_kind),
    ("a_look_at_the_server", a_look_at_the_server),
    ("replicas_are_controlled", replicas_are_controlled),
    ("locks_are_freed", locks_are_freed),
    ("locks_that_no_event_shows_are_freed", locks_that_no_event_shows_are_freed),
    ("prepared_and_left_behind", prepared_and_left_behind),
    ("an_idle_transaction_before_a_definition", an_idle_transaction_before_a_definition),
    ("a_lock_that_all_need", a_lock_that_all_need),
];

const WORK: &str = "SELECT COUNT(*) FROM t";

/// One slot in use, a statement in the queue, and no room for another.
struct Full<'a> {
    server: &'a PrivateServer,
    holder: Holder<'a>,
    queued: Running,
}

impl<'a> Full<'a> {
    fn of(server: &'a PrivateServer) -> Full<'a> {
        let holder = Holder::of_the_only_slot(server);
        let queued = Running::start(server, WORK);
        holder.until_queued(1);
        set(server, "max_queue", 1);
        Full { server, holder, queued }
    }

    #[track_caller]
    fn refuses(&self, client: &mut Conn) {
        assert_eq!(code(run(client, WORK)), REFUSED);
    }

    /// Another statement in the queue, for which it has room.
    fn queue(&self) -> Running {
        set(self.server, "max_queue", 0);
        let statement = Running::start(self.server, WORK);
        self.holder.until_queued(2);
        set(self.server, "max_queue", 1);
        statement
    }

    #[track_caller]
    fn end(self) {
        assert!(self.holder.still_holds());
        drop(self.holder);
        set(self.server, "max_queue", 0);
        self.queued.end().0.unwrap();
        until("no slot is out", || is_at_rest(self.server));
    }
}

fn kill_of_every_kind(server: &PrivateServer) {
    let full = Full::of(server);
    let mut client = app(server);
    full.refuses(&mut client);
    for kill in ["KILL", "KILL CONNECTION", "/* a driver */ KILL QUERY", "DO 1; KILL QUERY", "kill query"] {
        let victim = full.queue();
        run(&mut client, &format!("{kill} {}", victim.id)).unwrap();
        assert!(victim.end().0.is_err(), "{kill}");
    }
    let victim = full.queue();
    execute(&mut client, &format!("KILL QUERY {}", victim.id)).unwrap();
    assert_eq!(code(victim.end().0), INTERRUPTED);
    full.refuses(&mut client);
    full.end();
}

/// What an administrator's tools, drivers and replicas send when they connect, and when the server is in trouble.
fn a_look_at_the_server(server: &PrivateServer) {
    let full = Full::of(server);
    let mut client = app(server);
    for statement in [
        "SHOW GLOBAL STATUS LIKE 'Threads%'",
        "SHOW FULL PROCESSLIST",
        "SHOW VARIABLES LIKE 'server_id'",
        "SHOW GRANTS",
        "SHOW CREATE TABLE t",
        "SET NAMES utf8mb4",
        "SET autocommit = 1, sql_mode = @@sql_mode",
        "SET @a = 1",
        "SET @source_heartbeat_period = 5",
        "USE test",
        "SELECT @@GLOBAL.server_id",
        "SELECT @@GLOBAL.GTID_MODE, @@GLOBAL.SERVER_UUID",
        "SELECT @@session.auto_increment_increment AS a, @@version_comment AS b",
        "SELECT 1",
        "SELECT UNIX_TIMESTAMP()",
        "SELECT CONNECTION_ID(), USER(), VERSION()",
        "DO 1",
        "EXPLAIN SELECT * FROM t",
        "DESCRIBE t",
        "HELP 'kill'",
    ] {
        assert_eq!(code(run(&mut client, statement)), 0, "{statement}");
        // The server prepares none of these.
        if !["HELP", "USE", "EXPLAIN", "DESCRIBE"].iter().any(|word| statement.starts_with(word)) {
            assert_eq!(code(execute(&mut client, statement)), 0, "{statement}, prepared");
        }
    }
    full.refuses(&mut client);
    full.end();
}

/// An account that may, but is no administrator, controls replication.
fn replicas_are_controlled(server: &PrivateServer) {
    for statement in [
        "CREATE USER IF NOT EXISTS controller@localhost",
        "GRANT REPLICATION_SLAVE_ADMIN, REPLICATION CLIENT, RELOAD ON *.* TO controller@localhost",
    ] {
        server.administer(statement).unwrap();
    }
    let full = Full::of(server);
    let mut controller = server.connect("controller").unwrap();
    for statement in [
        "SHOW REPLICA STATUS",
        "STOP REPLICA",
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 1",
        "RESET REPLICA ALL",
    ] {
        assert_ne!(code(run(&mut controller, statement)), REFUSED, "{statement}");
    }
    full.end();
}

/// The holder of each kind of lock frees it at once.
fn locks_are_freed(server: &PrivateServer) {
    server.administer("GRANT BACKUP_ADMIN, RELOAD ON *.* TO app@localhost").unwrap();
    for (lock, free) in [
        ("LOCK TABLES t WRITE", "UNLOCK TABLES"),
        ("DO GET_LOCK('a', 0)", "SELECT RELEASE_LOCK('a')"),
        ("DO GET_LOCK('a', 0)", "DO /* all */ RELEASE_ALL_LOCKS()"),
        ("LOCK INSTANCE FOR BACKUP", "UNLOCK INSTANCE"),
        ("HANDLER t OPEN", "HANDLER t CLOSE"),
        ("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1", "COMMIT"),
        ("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1", "ROLLBACK"),
        ("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE", "SET autocommit = 1; COMMIT"),
        ("XA START 'a'; UPDATE t SET k = k + 1 WHERE id = 1; XA END 'a'; XA PREPARE 'a'", "XA COMMIT 'a'"),
        ("XA START 'a'; UPDATE t SET k = k + 1 WHERE id = 1; XA END 'a'; XA PREPARE 'a'", "XA ROLLBACK 'a'"),
        ("SET autocommit = 0; UPDATE t SET k = k + 1 WHERE id = 1", "COMMIT"),
    ] {
        let mut client = app(server);
        run(&mut client, lock).unwrap();
        // The statement that holds the slot must not need the lock.
        let full = Full::of(server);
        let before = server.status_number("Flifo_admitted_by_force").unwrap();
        run(&mut client, free).unwrap();
        assert!(server.status_number("Flifo_admitted_by_force").unwrap() > before, "{free} needed no slot");
        drop(client);
        full.end();
    }
}

/// Taken where the server reports no statement: the session may be refused, but whatever frees the lock is not, so no one waits for long.
fn locks_that_no_event_shows_are_freed(server: &PrivateServer) {
    for statement in [
        "DROP FUNCTION IF EXISTS test.takes_a_lock",
        "CREATE FUNCTION test.takes_a_lock() RETURNS INT RETURN GET_LOCK('hidden', 60)",
        "DROP FUNCTION IF EXISTS test.frees_a_lock",
        "CREATE FUNCTION test.frees_a_lock() RETURNS INT BEGIN IF RELEASE_LOCK('hidden') THEN RETURN 1; END IF; RETURN 0; END",
        "DROP PROCEDURE IF EXISTS test.takes_a_lock_if",
        "CREATE PROCEDURE test.takes_a_lock_if() BEGIN IF GET_LOCK('hidden', 60) THEN SET @got = 1; END IF; END",
        "DROP PROCEDURE IF EXISTS test.takes_a_lock_while",
        "CREATE PROCEDURE test.takes_a_lock_while() BEGIN
         DECLARE n INT DEFAULT GET_LOCK('hidden', 60); CASE n WHEN 1 THEN SET @got = 1; ELSE SET @got = 0; END CASE; END",
        "DROP FUNCTION IF EXISTS test.takes_a_lock_inside",
        "CREATE FUNCTION test.takes_a_lock_inside() RETURNS INT BEGIN DO GET_LOCK('hidden', 60); RETURN 1; END",
    ] {
        server.administer(statement).unwrap();
    }
    for take in [
        "SELECT takes_a_lock()",
        "CALL takes_a_lock_if()",
        "CALL takes_a_lock_while()",
        "SELECT takes_a_lock_inside()",
        "SELECT COUNT(*) FROM t WHERE takes_a_lock() = 1 AND id = 1",
    ] {
        for free in ["DO RELEASE_LOCK('hidden')", "SELECT RELEASE_ALL_LOCKS()", "the connection's end"] {
            let mut owner = app(server);
            run(&mut owner, take).unwrap();
            let waiters: Vec<Running> = (0..3)
                .map(|_| Running::start(server, "DO GET_LOCK('hidden', 60); UPDATE t SET k = k + 1 WHERE id = 2; DO RELEASE_LOCK('hidden')"))
                .collect();
            // The waiters wait for the lock without a slot: others run.
            until("they wait", || named_waits(server) == 3);
            run(&mut app(server), WORK).unwrap();
            let full = Full::of(server);
            if free.starts_with("the") {
                drop(owner);
            } else {
                run(&mut owner, free).unwrap();
            }
            // The owner of the lock is one of the waiters now, and needs a slot for its work.
            full.end();
            for waiter in waiters {
                waiter.end().0.unwrap();
            }
        }
    }
    // Freed where the server reports no statement: the session still counts as a holder, which is never refused.
    let mut client = app(server);
    run(&mut client, "DO GET_LOCK('hidden', 0)").unwrap();
    run(&mut client, "SELECT frees_a_lock()").unwrap();
    let full = Full::of(server);
    run(&mut client, "SELECT RELEASE_ALL_LOCKS()").unwrap();
    full.refuses(&mut client);
    full.end();
}

fn named_waits(server: &PrivateServer) -> u64 {
    let text = "SELECT COUNT(*) FROM performance_schema.threads WHERE processlist_state = 'User lock'";
    server.connect("root").unwrap().query_first(text).unwrap().unwrap_or(0)
}

/// A prepared transaction without a client keeps its rows locked. The session that ends it has locked nothing, and is admitted
/// before those that wait for the rows.
fn prepared_and_left_behind(server: &PrivateServer) {
    server.administer("GRANT XA_RECOVER_ADMIN ON *.* TO app@localhost").unwrap();
    for end in
        ["XA COMMIT 'left'", "-- of a transaction manager\nxa\trollback 'left'", "DO 1; XA COMMIT 'left'"]
    {
        let mut left = app(server);
        for statement in
            ["XA START 'left'", "UPDATE t SET k = k + 1 WHERE id = 1", "XA END 'left'", "XA PREPARE 'left'"]
        {
            run(&mut left, statement).unwrap();
        }
        drop(left);
        let waiters: Vec<Running> =
            (0..2).map(|_| Running::start(server, "UPDATE t SET k = k + 1 WHERE id = 1")).collect();
        until("one waits for the row", || server.status_number("Flifo_lock_waiters").unwrap() > 0);
        set(server, "max_queue", 1);
        let mut manager = app(server);
        const NOT_LEFT_YET: u16 = 1397;
        until(end, || {
            let error = code(run(&mut manager, end));
            assert!([0, NOT_LEFT_YET].contains(&error), "{end}: {error}");
            error == 0
        });
        for waiter in waiters {
            waiter.end().0.unwrap();
        }
        set(server, "max_queue", 0);
    }
}

/// An open transaction has read a table, a definition waits for it, and readers wait for the definition. They hold no slots:
/// other tables are served. The KILL that ends the transaction enters, and then all go on.
fn an_idle_transaction_before_a_definition(server: &PrivateServer) {
    let readers = times(300);
    server.administer("CREATE TABLE test.blocked (id INT PRIMARY KEY, a INT)").unwrap();
    set(server, "thread_concurrency", 2);
    let mut idle = app(server);
    run(&mut idle, "BEGIN; SELECT * FROM blocked").unwrap();
    let alter = Running::start(server, "ALTER TABLE blocked ADD COLUMN b INT");
    let mut root = server.connect("root").unwrap();
    let mut waits = |what: &str| -> usize {
        let text = format!(
            "SELECT COUNT(*) FROM performance_schema.threads
             WHERE processlist_state = 'Waiting for table metadata lock' AND processlist_info LIKE '{what}%'"
        );
        root.query_first(text).unwrap().unwrap()
    };
    until("the definition waits", || waits("ALTER") == 1);
    let queued: Vec<Running> =
        (0..readers).map(|_| Running::start(server, "SELECT COUNT(*) FROM blocked")).collect();
    until("the readers wait", || waits("SELECT") == readers);
    for _ in 0..20 {
        run(&mut app(server), "UPDATE t SET k = k + 1 WHERE id = 2").unwrap();
    }
    run(&mut app(server), &format!("KILL CONNECTION {}", idle.connection_id())).unwrap();
    alter.end().0.unwrap();
    for reader in queued {
        reader.end().0.unwrap();
    }
    server.administer("DROP TABLE test.blocked").unwrap();
}

/// Hundreds of connections pass on one lock, of each kind.
fn a_lock_that_all_need(server: &PrivateServer) {
    let (clients, each) = (16, times(20));
    for packet in [
        "DO GET_LOCK('all', 1000); UPDATE t SET k = k + 1 WHERE id = 3; DO RELEASE_LOCK('all')",
        "LOCK TABLES t WRITE; UPDATE t SET k = k + 1 WHERE id = 3; UNLOCK TABLES",
        "BEGIN; UPDATE t SET k = k + 1 WHERE id = 3; DO 1; COMMIT",
    ] {
        for limit in [1, 2] {
            set(server, "thread_concurrency", limit);
            server.administer("UPDATE test.t SET k = 0 WHERE id = 3").unwrap();
            let client = |_: usize, _: &AtomicBool| {
                for _ in 0..each {
                    run(&mut app(server), packet).unwrap();
                    thread::yield_now();
                }
            };
            crowd(clients, client, || ());
            let sum: Option<usize> =
                server.connect("root").unwrap().query_first("SELECT k FROM test.t WHERE id = 3").unwrap();
            assert_eq!(sum, Some(clients * each), "{packet}");
        }
    }
}
