//! What ends other work, frees what others wait for, or looks at the server, needs no free slot and is never refused.
//! Each test has one slot, in use all the time, and a full queue.

use super::support::rest::{empty, until};
use super::support::*;

pub(crate) fn subject() -> Subject {
    Subject { name: "urgent", options: with_plugin(), tests: tests() }
}

fn tests() -> Vec<Test> {
    vec![
        ("kill_of_every_kind", kill_of_every_kind),
        ("kill_of_what_has_the_slot", kill_of_what_has_the_slot),
        ("a_look_at_the_server", a_look_at_the_server),
        ("replicas_are_controlled", replicas_are_controlled),
        ("locks_are_freed", locks_are_freed),
        ("an_idle_transaction_before_a_definition", an_idle_transaction_before_a_definition),
        ("a_lock_that_all_need", a_lock_that_all_need),
    ]
}

/// One slot in use, a statement in the queue, and no room for another: whatever else queues is refused.
struct Full<'a> {
    server: &'a PrivateServer,
    holder: Holder<'a>,
    queued: Running,
}

impl<'a> Full<'a> {
    fn of(server: &'a PrivateServer) -> Full<'a> {
        Full::with(server, &[]).0
    }

    /// Waits until these queue, too, and makes the queue as long.
    fn with(server: &'a PrivateServer, statements: &[&str]) -> (Self, Vec<Running>) {
        let holder = Holder::of_the_only_slot(server);
        let queued = Running::start(server, "SELECT COUNT(*) FROM t");
        let others: Vec<Running> =
            statements.iter().map(|statement| Running::start(server, statement)).collect();
        holder.until_queued(1 + others.len() as u64);
        set_number(server, "max_queue", 1);
        (Full { server, holder, queued }, others)
    }

    fn refuses(&self, client: &mut Conn) {
        assert_eq!(code(run(client, "SELECT COUNT(*) FROM t")), REFUSED);
    }

    fn end(self) {
        assert!(self.holder.still_holds());
        drop(self.holder);
        set_number(self.server, "max_queue", 0);
        self.queued.end().unwrap();
        empty(self.server);
    }
}

const KILLS: [&str; 7] = ["", "QUERY", "CONNECTION", "HARD", "SOFT QUERY", "HARD CONNECTION", "QUERY ID"];

fn kill_of_every_kind(server: &PrivateServer) {
    let victims: Vec<&str> = KILLS.iter().map(|_| "SELECT COUNT(*) FROM t").collect();
    let (full, victims) = Full::with(server, &victims);
    let mut client = app(server);
    full.refuses(&mut client);
    for (kind, victim) in KILLS.into_iter().zip(victims) {
        let number: u64 = if kind == "QUERY ID" {
            let text =
                format!("SELECT query_id FROM information_schema.processlist WHERE id = {}", victim.id);
            admin(server).query_first(text).unwrap().unwrap()
        } else {
            victim.id.into()
        };
        run(&mut client, &format!("/* a driver */ KILL {kind} {number}")).unwrap();
        assert!(victim.end().is_err(), "KILL {kind}");
    }
    // As a prepared statement, with a setting, behind another statement.
    for kill in ["KILL QUERY", "SET STATEMENT max_statement_time = 9 FOR KILL QUERY", "DO 1; KILL QUERY"] {
        set_number(server, "max_queue", 0);
        let victim = Running::start(server, "SELECT COUNT(*) FROM t");
        full.holder.until_queued(2);
        set_number(server, "max_queue", 1);
        let kill = format!("{kill} {}", victim.id);
        if kill.contains(';') {
            run(&mut client, &kill).unwrap();
        } else {
            execute(&mut client, &kill).unwrap();
        }
        assert_eq!(code(victim.end()), INTERRUPTED, "{kill}");
    }
    full.end();
    // All of a user's, the killer among them.
    let mut root = admin(server);
    root.query_drop("CREATE OR REPLACE USER other@localhost").unwrap();
    root.query_drop("GRANT ALL ON test.* TO other@localhost").unwrap();
    let holder = Holder::of_the_only_slot(server);
    let connect = || Conn::new(server.connection("other").db_name(Some("test"))).unwrap();
    let victims: Vec<Running> = (0..5).map(|_| Running::on(connect(), "SELECT COUNT(*) FROM t")).collect();
    holder.until_queued(5);
    let _ = run(&mut connect(), "KILL USER other");
    for victim in victims {
        assert!(victim.end().is_err());
    }
    assert!(holder.still_holds());
}

/// The victim has the only slot, and loses it to the next.
fn kill_of_what_has_the_slot(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    let victim = Running::start(
        server,
        "SELECT COUNT(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b WHERE a.seq % 7 = b.seq",
    );
    until("it runs", || server.status_number("Flifo_running").unwrap() == 1);
    let next = Running::start(server, "SELECT COUNT(*) FROM t");
    until("the next queues", || server.status_number("Flifo_queued").unwrap() == 1);
    set_number(server, "max_queue", 1);
    set_number(server, "queue_timeout", 60_000);
    run(&mut app(server), &format!("KILL QUERY {}", victim.id)).unwrap();
    assert_eq!(code(victim.end()), INTERRUPTED);
    next.end().unwrap();
}

/// What an administrator's tools, drivers and replicas send when they connect, and when the server is in trouble.
fn a_look_at_the_server(server: &PrivateServer) {
    let full = Full::of(server);
    let mut client = app(server);
    set_number(server, "queue_timeout", 1);
    for statement in [
        "SHOW GLOBAL STATUS LIKE 'Threads%'",
        "SHOW FULL PROCESSLIST",
        "SHOW VARIABLES LIKE 'server_id'",
        "SHOW GRANTS",
        "SET NAMES utf8mb4",
        "SET autocommit = 1, sql_mode = CONCAT(@@sql_mode)",
        "SET @a = 1",
        "USE test",
        "SELECT @@GLOBAL.server_id",
        "SELECT @@session.auto_increment_increment AS a, @@version_comment AS b",
        "SELECT 1",
        "SELECT UNIX_TIMESTAMP()",
        "SELECT CONNECTION_ID(), USER(), VERSION()",
        "DO 1",
        "FLUSH STATUS",
        "EXPLAIN SELECT * FROM t",
        "HELP 'kill'",
    ] {
        if statement.contains("CONCAT") {
            // A call may take any time.
            assert_eq!(code(run(&mut client, statement)), REFUSED, "{statement}");
            continue;
        }
        assert_eq!(code(run(&mut client, statement)), 0, "{statement}");
        // The server prepares no HELP.
        if !statement.starts_with("HELP") && !statement.starts_with("USE") {
            assert_eq!(code(execute(&mut client, statement)), 0, "{statement}, prepared");
        }
    }
    full.refuses(&mut client);
    set_number(server, "queue_timeout", 0);
    full.end();
}

/// An account that may, but is no administrator, controls replication.
fn replicas_are_controlled(server: &PrivateServer) {
    let mut root = admin(server);
    root.query_drop("CREATE OR REPLACE USER operator@localhost").unwrap();
    root.query_drop("GRANT REPLICATION SLAVE ADMIN, REPLICA MONITOR, RELOAD ON *.* TO operator@localhost")
        .unwrap();
    let full = Full::of(server);
    let mut operator = Conn::new(server.connection("operator")).unwrap();
    for statement in ["SHOW REPLICA STATUS", "STOP REPLICA", "STOP ALL SLAVES", "RESET REPLICA ALL"] {
        assert_eq!(code(run(&mut operator, statement)), 0, "{statement}");
    }
    assert_eq!(code(run(&mut operator, "CHANGE MASTER TO master_host = '127.0.0.1', master_port = 1")), 0);
    assert_ne!(code(run(&mut operator, "START REPLICA SQL_THREAD")), REFUSED);
    for statement in ["STOP REPLICA", "RESET REPLICA ALL"] {
        run(&mut operator, statement).unwrap();
    }
    full.end();
}

/// The holder of each kind of lock frees it at once.
fn locks_are_freed(server: &PrivateServer) {
    for (lock, free) in [
        ("FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES"),
        ("LOCK TABLES t WRITE", "UNLOCK TABLES"),
        ("DO GET_LOCK('a', 0)", "SELECT RELEASE_LOCK('a')"),
        ("DO GET_LOCK('a', 0)", "DO /* all */ RELEASE_ALL_LOCKS()"),
        ("BACKUP STAGE START; BACKUP STAGE BLOCK_DDL", "BACKUP STAGE END"),
        ("BACKUP LOCK t", "BACKUP UNLOCK"),
        ("HANDLER t OPEN", "HANDLER t CLOSE"),
        ("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1", "COMMIT"),
        ("BEGIN; UPDATE t SET k = k + 1 WHERE id = 1", "ROLLBACK"),
        ("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE", "SET autocommit = 1; COMMIT"),
        ("XA START 'a'; UPDATE t SET k = k + 1 WHERE id = 1; XA END 'a'; XA PREPARE 'a'", "XA COMMIT 'a'"),
        ("XA START 'a'; UPDATE t SET k = k + 1 WHERE id = 1; XA END 'a'; XA PREPARE 'a'", "XA ROLLBACK 'a'"),
        ("SET autocommit = 0; UPDATE t SET k = k + 1 WHERE id = 1", "COMMIT"),
    ] {
        // Connected before the lock: the statement that holds the slot looks into no table.
        let mut client = app(server);
        let full = Full::of(server);
        set_number(server, "max_queue", 0);
        admin(server).query_drop("SET GLOBAL flifo_thread_concurrency = 2").unwrap();
        run(&mut client, lock).unwrap();
        admin(server).query_drop("SET GLOBAL flifo_thread_concurrency = 1").unwrap();
        let forced = || server.status_number("Flifo_admitted_by_force").unwrap();
        let before = forced();
        run(&mut client, free).unwrap();
        assert!(forced() > before, "{free} needed no slot");
        drop(client);
        full.end();
    }
}

/// An open transaction has read a table, a definition waits for it, and readers wait for the definition. They hold no slots:
/// other tables are served. The KILL that ends the transaction enters, and then all go on.
fn an_idle_transaction_before_a_definition(server: &PrivateServer) {
    let readers = times(1000);
    let mut root = admin(server);
    root.query_drop("CREATE OR REPLACE TABLE test.blocked (id INT PRIMARY KEY, a INT)").unwrap();
    root.query_drop("SET GLOBAL max_connections = 2000").unwrap();
    set(server, "thread_concurrency", "2");
    let mut idle = app(server);
    run(&mut idle, "BEGIN; SELECT * FROM blocked").unwrap();
    let alter = Running::start(server, "ALTER TABLE blocked ADD COLUMN b INT");
    let waits = |what: &str| -> u64 {
        let text = format!(
            "SELECT COUNT(*) FROM information_schema.processlist
             WHERE state = 'Waiting for table metadata lock' AND info LIKE '{what}%'"
        );
        admin(server).query_first(text).unwrap().unwrap()
    };
    until("the definition waits", || waits("ALTER") == 1);
    let queued: Vec<Running> =
        (0..readers).map(|_| Running::start(server, "SELECT COUNT(*) FROM blocked")).collect();
    until("the readers wait", || waits("SELECT") == readers as u64);
    for _ in 0..20 {
        run(&mut app(server), "UPDATE t SET k = k + 1 WHERE id = 2").unwrap();
    }
    run(&mut app(server), &format!("KILL CONNECTION {}", idle.connection_id())).unwrap();
    alter.end().unwrap();
    for reader in queued {
        reader.end().unwrap();
    }
    root.query_drop("SET GLOBAL max_connections = DEFAULT").unwrap();
}

/// A thousand connections pass on one lock, of each kind.
fn a_lock_that_all_need(server: &PrivateServer) {
    let connections = times(1000);
    let mut root = admin(server);
    root.query_drop("SET GLOBAL max_connections = 2000").unwrap();
    for limit in ["1", "2"] {
        for packet in [
            "DO GET_LOCK('all', 1000); UPDATE t SET k = k + 1 WHERE id = 3; DO RELEASE_LOCK('all')",
            "LOCK TABLES t WRITE; UPDATE t SET k = k + 1 WHERE id = 3; UNLOCK TABLES",
            "BEGIN; UPDATE t SET k = k + 1 WHERE id = 3; DO 1; COMMIT",
        ] {
            set(server, "thread_concurrency", limit);
            run(&mut root, "UPDATE test.t SET k = 0 WHERE id = 3").unwrap();
            let all: Vec<Running> = (0..connections).map(|_| Running::start(server, packet)).collect();
            for one in all {
                one.end().unwrap();
            }
            let sum: usize = root.query_first("SELECT k FROM test.t WHERE id = 3").unwrap().unwrap();
            assert_eq!(sum, connections, "{packet}");
        }
    }
    root.query_drop("SET GLOBAL max_connections = DEFAULT").unwrap();
}
