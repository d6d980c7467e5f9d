//! Statements that only read, past the limit.

use super::*;

/// Up to so many, and while nobody queues; nobody else.
pub(super) fn reads_past_the_limit(server: &PrivateServer) {
    let holder = Holder::of_the_only_place(server);
    set_number(server, "read_concurrency", 3);
    let mut client = app(server);
    execute(&mut client, "SELECT k FROM t WHERE id = 1").unwrap();
    for reads in [
        "SELECT COUNT(*) FROM t",
        "/* a comment */ select 1",
        "WITH x AS (SELECT id FROM t) SELECT COUNT(*) FROM x",
        "START TRANSACTION",
        "SELECT k FROM t WHERE id = 1",
        "COMMIT",
        "BEGIN",
        "ROLLBACK",
        "SET @a = 1",
        "SHOW TABLES",
        "USE test",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "BEGIN",
    ] {
        run(&mut client, reads).unwrap();
    }
    set_number(server, "queue_timeout", 1);
    for others in [
        "UPDATE t SET k = 1 WHERE id = 1",
        "SELECT k FROM t WHERE id = 1 FOR UPDATE",
        "SELECT k FROM t WHERE id = 1 LOCK IN SHARE MODE",
        "INSERT INTO t SELECT id + 5000, k, pad FROM t",
        "DO 1",
        "SELECT GET_LOCK('name', 0)",
        "/*!999999 SELECT 1 */ UPDATE t SET k = 1 WHERE id = 1",
        "SELECT k FROM t FOR UPDATE; SELECT 1 FROM t WHERE pad = 'as many letters as are looked at for the last words, which are ninety-six of them'",
        // Serializable, in a transaction.
        "SELECT k FROM t WHERE id = 1",
    ] {
        assert_eq!(code(run(&mut client, others)), 1969, "{others}");
    }
    run(&mut client, "ROLLBACK").unwrap();
    run(&mut client, "SELECT k FROM t WHERE id = 1").unwrap();
    set_number(server, "queue_timeout", 0);
    let mut reads: Vec<_> = (0..2).map(|_| Running::start(server, "SELECT SLEEP(1000)")).collect();
    until("two more are inside", || server.status_number("Flifo_inside").unwrap() == 3);
    reads.push(Running::on(client, "SELECT SLEEP(1000)"));
    holder.until_queued(1);
    set_number(server, "read_concurrency", 9);
    let late = Running::start(server, "SELECT 1");
    holder.until_queued(2);
    for read in &reads {
        run(&mut admin(server), &format!("KILL QUERY {}", read.id)).unwrap();
    }
    reads.into_iter().for_each(|read| assert_eq!(code(read.end()), INTERRUPTED));
    drop(holder);
    late.end().unwrap();
    empty(server);
}
