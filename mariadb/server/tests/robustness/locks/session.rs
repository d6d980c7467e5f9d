//! Locks that a session keeps whatever becomes of its transactions: of tables, of names, of a backup.

use super::*;

const NEEDS_A_SLOT: &str = "SELECT COUNT(*) FROM t";

/// A session has locked a name outside of a transaction. Another, which has locked a row, waits for the name, and has released
/// its slot to a statement that waits for the row.
pub(super) fn a_name_is_locked(server: &PrivateServer) {
    set(server, "thread_concurrency", "1");
    admin(server)
        .query_drop("CREATE OR REPLACE PROCEDURE test.locks_a_name() SELECT GET_LOCK('name', 0) INTO @got")
        .unwrap();
    for lock in
        ["DO GET_LOCK('name', 0)", "SELECT 1, get_lock /* it is free */ ('name', 0)", "CALL locks_a_name()"]
    {
        let (mut locker, mut holder) = (app(server), app(server));
        run(&mut locker, lock).unwrap();
        run(&mut holder, "BEGIN").unwrap();
        run(&mut holder, UPDATE_1).unwrap();
        let holder = Running::on(holder, "DO GET_LOCK('name', 1000)");
        until("the holder waits for the name", || {
            let text = format!(
                "SELECT state = 'User lock' FROM information_schema.processlist WHERE id = {}",
                holder.id
            );
            admin(server).query_first(text).unwrap().unwrap_or(false)
        });
        let waiters = [Running::start(server, UPDATE_1), Running::start(server, UPDATE_1)];
        until_row_waits(server, 1);
        let ended = gets_in(server, move || {
            ["SELECT COUNT(*) FROM t", "DO RELEASE_LOCK('name')"]
                .map(|statement| code(run(&mut locker, statement)))
        });
        assert_eq!(ended, Some([0, 0]), "{lock}");
        holder.end().unwrap();
        for waiter in waiters {
            waiter.end().unwrap();
        }
        empty(server);
    }
}

/// A session with locks that no transaction frees is not refused, since others wait for them; once they are free it is.
pub(super) fn locks_of_the_session(server: &PrivateServer) {
    type End = fn(&mut Conn) -> mysql::Result<()>;
    admin(server)
        .query_drop(
            "CREATE OR REPLACE PROCEDURE test.locks_in_an_expression()
             BEGIN DECLARE got INT; SET got = GET_LOCK('a', 0) + GET_LOCK('b', 0); END",
        )
        .unwrap();
    for (lock, end) in [
        ("LOCK TABLES t WRITE", (|client| run(client, "UNLOCK TABLES")) as End),
        ("FLUSH TABLES t WITH READ LOCK", |client| run(client, "UNLOCK TABLES")),
        ("FLUSH TABLES WITH READ LOCK", |client| run(client, "UNLOCK TABLES")),
        ("flush local tables with  read\nlock", |client| run(client, "unlock tables")),
        ("SET STATEMENT lock_wait_timeout = 5 FOR FLUSH TABLES WITH READ LOCK", |client| {
            run(client, "UNLOCK TABLES")
        }),
        (FOLLOWED, |client| run(client, "UNLOCK TABLES")),
        ("FLUSH TABLES t WITH READ LOCK", |client| run(client, "BEGIN; COMMIT")),
        ("SET STATEMENT max_statement_time = 0 FOR BACKUP STAGE START", |client| {
            run(client, "BACKUP STAGE END")
        }),
        ("SET STATEMENT max_statement_time = 0 FOR HANDLER t OPEN", |client| run(client, "HANDLER t CLOSE")),
        ("HANDLER t OPEN AS g; HANDLER t OPEN AS h; HANDLER g CLOSE", |client| {
            run(client, "HANDLER h CLOSE")
        }),
        ("SELECT `get_lock`('a', 1)", |client| run(client, "SELECT RELEASE_LOCK('a')")),
        ("CALL locks_in_an_expression()", |client| run(client, "SELECT RELEASE_ALL_LOCKS()")),
        (traced("FLUSH TABLES WITH READ LOCK").as_str(), |client| run(client, "UNLOCK TABLES")),
        ("BACKUP STAGE START", |client| run(client, "BACKUP STAGE END")),
        ("BACKUP LOCK t", |client| run(client, "BACKUP UNLOCK")),
        ("HANDLER t OPEN AS h", |client| run(client, "HANDLER h CLOSE")),
        ("HANDLER t OPEN; HANDLER t READ FIRST WHERE pad = 'closed'", |client| {
            run(client, "HANDLER t CLOSE")
        }),
        ("HANDLER t OPEN; HANDLER t READ FIRST WHERE pad = 'close'", |client| {
            run(client, "HANDLER t\nclose /* for good */ -- now")
        }),
        ("DO GET_LOCK('a', 0)", |client| run(client, "DO RELEASE_LOCK('a')")),
        // It fails with the name locked.
        ("INSERT INTO t VALUES (1, GET_LOCK('a', 0), '')", |client| run(client, "DO RELEASE_LOCK('a')")),
        ("SELECT GET_LOCK('a', 0), GET_LOCK('b', 0)", |client| execute(client, "SELECT RELEASE_ALL_LOCKS()")),
        ("DO GET_LOCK('a', 0)", Conn::reset),
        ("DO GET_LOCK('a', 0)", |client| client.change_user(mysql::ChangeUserOpts::DEFAULT)),
    ] {
        let (mut locker, holder) = (app(server), app(server));
        assert!(matches!(code(run(&mut locker, lock)), 0 | 1062), "{lock}");
        let holder = Holder::of_the_only_slot_on(server, holder);
        set_number(server, "queue_timeout", 1);
        assert_eq!(code(run(&mut locker, NEEDS_A_SLOT)), 0, "{lock}");
        assert_eq!(code(end(&mut locker)), 0, "the end of {lock}");
        assert_eq!(code(run(&mut locker, "SELECT COUNT(*) FROM test.t")), REFUSED, "{lock}");
        set_number(server, "queue_timeout", 0);
        drop(holder);
        empty(server);
    }
}

/// Followed by a comment that is longer than any statement's last words.
const FOLLOWED: &str = "FLUSH LOCAL TABLES WITH READ LOCK -- a comment that is longer than one hundred and twenty characters \
     .......................................................................................................";

/// A session that did not get the lock, or has freed it in another way, is refused like any other.
pub(super) fn no_locks_of_the_session(server: &PrivateServer) {
    let mut owner = app(server);
    run(&mut owner, "DO GET_LOCK('taken', 0)").unwrap();
    for statement in [
        "DO GET_LOCK('taken', 0)",
        "SELECT GET_LOCK('a', 0), RELEASE_LOCK('a')",
        "SELECT 'get_lock(', \"GET_LOCK('a')\" -- get_lock('a', 1)",
        "HANDLER t OPEN; HANDLER t CLOSE",
        "FLUSH TABLES",
        "LOCK TABLES t READ; BEGIN; COMMIT",
    ] {
        let mut client = app(server);
        run(&mut client, statement).unwrap();
        let holder = Holder::of_the_only_slot(server);
        set_number(server, "queue_timeout", 1);
        assert_eq!(code(run(&mut client, NEEDS_A_SLOT)), REFUSED, "{statement}");
        set_number(server, "queue_timeout", 0);
        drop(holder);
        empty(server);
    }
}

/// What frees a name is not refused, and needs no slot; what else is in the packet is.
pub(super) fn a_name_is_freed_in_a_packet(server: &PrivateServer) {
    let done = |replies: &[Reply]| replies.iter().filter(|reply| **reply == Reply::Done).count();
    let holder = Holder::of_the_only_slot(server);
    set_number(server, "queue_timeout", 1);
    let mut client = Wire::connect(server).unwrap();
    for (packet, expected) in [
        ("DO RELEASE_LOCK('a')", 1),
        ("DO RELEASE_LOCK('a'); DO release_all_locks()", 2),
        ("DO RELEASE_LOCK('a'); DO ABS(1); DO ABS(2)", 1),
        ("/* release_lock() */ DO ABS(1); DO ABS(2)", 0),
        ("DO 'release_lock(', ABS(1)", 0),
        ("DO ABS(1)", 0),
    ] {
        let replies = client.query(packet).unwrap();
        assert_eq!(done(&replies), expected, "{packet}: {replies:?}");
        let refused = matches!(replies.last(), Some(Reply::Error(REFUSED, _)));
        assert_eq!(refused, expected < packet.split(';').count(), "{packet}: {replies:?}");
    }
    set_number(server, "queue_timeout", 0);
    drop(holder);
    empty(server);
}

/// A name that was locked while admission did not look is as good. One that was not locked, because its statement was refused, is none.
pub(super) fn a_name_is_locked_while_admission_is_off(server: &PrivateServer) {
    for (name, value) in [("thread_concurrency", "0"), ("bypass", "ON")] {
        set(server, name, value);
        let mut locker = app(server);
        run(&mut locker, "DO GET_LOCK('a', 0)").unwrap();
        defaults(server);
        if name == "bypass" {
            run(&mut locker, "SET SESSION flifo_bypass = 0").unwrap();
        }
        let holder = Holder::of_the_only_slot(server);
        set_number(server, "queue_timeout", 1);
        assert_eq!(code(run(&mut locker, NEEDS_A_SLOT)), 0, "{name}");
        assert_eq!(code(run(&mut locker, "DO RELEASE_LOCK('a')")), 0, "{name}");
        for statement in [NEEDS_A_SLOT, "DO GET_LOCK('a', 0)", NEEDS_A_SLOT] {
            assert_eq!(code(run(&mut locker, statement)), REFUSED, "{name}: {statement}");
        }
        set_number(server, "queue_timeout", 0);
        drop(holder);
        empty(server);
    }
}
