//! Clients that are slow, locks of tables and names, sleep: a waiting statement holds no slot.

use super::*;

pub(super) fn load_data_local(server: &PrivateServer) {
    one_slot(server);
    admin(server).query_drop("CREATE OR REPLACE TABLE test.loaded (id INT PRIMARY KEY)").unwrap();
    const LOAD: &str = "LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded";
    let mut client = Wire::connect(server).unwrap();
    let begin = |client: &mut Wire| {
        client.send_query(LOAD).unwrap();
        assert_eq!(client.replies().unwrap(), [Reply::File]);
    };
    let lines = |from: u32, to: u32| (from..to).map(|id| format!("{id}\n")).collect::<String>().into_bytes();

    begin(&mut client);
    client.send_more(&lines(0, 1000)).unwrap();
    // A client that takes its time with the rest does not keep others out.
    check(server, &mut app(server), "SELECT COUNT(*) FROM t", 0);
    client.send_more(&lines(1000, 2000)).unwrap();
    client.send_more(b"").unwrap();
    assert_eq!(client.replies().unwrap(), [Reply::Done]);
    empty(server);
    for contents in [&b""[..], b"no number\n", b"1\n2\n3\n", b"1\t2\t3\t4"] {
        begin(&mut client);
        if !contents.is_empty() {
            client.send_more(contents).unwrap();
        }
        client.send_more(b"").unwrap();
        let replies = client.replies().unwrap();
        assert_eq!(replies.len(), 1, "{replies:?}");
        empty(server);
    }
    for (statement, error) in [
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE no_such_table", 1146),
        ("LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded (no_such_column)", 1054),
        ("LOAD DATA INFILE '/no/such/file' INTO TABLE loaded", 1290),
    ] {
        // The file is asked for before or after the error is found.
        client.send_query(statement).unwrap();
        let mut replies = client.replies().unwrap();
        if replies == [Reply::File] {
            client.send_more(b"").unwrap();
            replies = client.replies().unwrap();
        }
        assert_eq!(without_text(replies[0].clone()), failed(error), "{statement}");
        empty(server);
    }
    // Gone before the file, within it, and within a packet of it.
    for part in [&b""[..], b"5000\n5001\n"] {
        let mut client = Wire::connect(server).unwrap();
        begin(&mut client);
        if !part.is_empty() {
            client.send_more(part).unwrap();
        }
        client.vanish();
        empty(server);
    }
    let mut client = Wire::connect(server).unwrap();
    begin(&mut client);
    client.send_raw(&[100, 0, 0, 3, b'7']).unwrap();
    client.vanish();
    empty(server);
}

/// An error that a trigger catches is not the end of its statement, though the next wait is for the client: what the trigger
/// runs is not taken for statements of the client's, which could be refused with rows locked.
pub(super) fn load_data_with_caught_errors(server: &PrivateServer) {
    let mut root = admin(server);
    for statement in [
        "CREATE OR REPLACE TABLE test.log (id INT)",
        "CREATE OR REPLACE TABLE test.caught (id INT PRIMARY KEY)",
        "CREATE TRIGGER test.catches BEFORE INSERT ON test.caught FOR EACH ROW
         BEGIN DECLARE n INT; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET n = 0;
         INSERT INTO test.log VALUES (NEW.id); SET n = (SELECT 1 UNION SELECT 2); END",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    ] {
        root.query_drop(statement).unwrap();
    }
    one_slot(server);
    let mut client = Wire::connect(server).unwrap();
    client.send_query("LOAD DATA LOCAL INFILE 'x' INTO TABLE caught").unwrap();
    assert_eq!(client.replies().unwrap(), [Reply::File]);
    client.send_more(b"1\n2\n3\n").unwrap();
    let mut logged = || root.query_first::<u32, _>("SELECT COUNT(*) FROM test.log").unwrap();
    until("three rows are in", || logged() == Some(3));
    empty(server);
    let holder = Holder::of_the_only_slot(server);
    set_number(server, "queue_timeout", 1);
    client.send_more(b"4\n5\n6\n").unwrap();
    until("the others are, too", || logged() == Some(6));
    client.send_more(b"").unwrap();
    assert_eq!(client.replies().unwrap(), [Reply::Done]);
    set_number(server, "queue_timeout", 0);
    drop(holder);
    empty(server);
}

/// Nor is it the end of the packet: what follows asks.
pub(super) fn slow_reader_of_caught_errors(server: &PrivateServer) {
    admin(server)
        .query_drop(
            "CREATE OR REPLACE FUNCTION test.catches(a INT) RETURNS INT
             BEGIN DECLARE n INT; DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET n = 0;
             IF a % 1000 = 1 THEN SET n = (SELECT 1 UNION SELECT 2); END IF; RETURN a; END",
        )
        .unwrap();
    one_slot(server);
    let mut client = Wire::connect(server).unwrap();
    client.send_query("SELECT catches(seq), REPEAT('x', 4000) FROM seq_1_to_10000; SELECT 2").unwrap();
    until("it writes", || writes(server, client.id));
    empty(server);
    let holder = Holder::of_the_only_slot(server);
    let replies = thread::spawn(move || client.replies().unwrap());
    holder.until_queued(1);
    drop(holder);
    assert_eq!(replies.join().unwrap(), [Reply::Rows(10_000), Reply::Rows(1)]);
    empty(server);
}

/// A client that asks for much and does not read it keeps nobody out.
pub(super) fn slow_reader(server: &PrivateServer) {
    one_slot(server);
    const ROWS_READ: u64 = 40_000;
    let statement = format!("SELECT REPEAT('x', 1000) FROM seq_1_to_{ROWS_READ}");
    let (mut text, mut binary, gone) =
        (Wire::connect(server).unwrap(), Wire::connect(server).unwrap(), &mut Wire::connect(server).unwrap());
    let prepared = binary.prepare(&statement).unwrap().unwrap();
    text.send_query(&statement).unwrap();
    binary.send_execute(prepared, false).unwrap();
    gone.send_query(&statement).unwrap();
    // They fill their sockets and wait; others come and go.
    for _ in 0..20 {
        let rows: u64 = app(server).query_first("SELECT COUNT(*) FROM t").unwrap().unwrap();
        assert_eq!(rows, ROWS as u64);
    }
    for client in [&text, &binary, gone] {
        until("it writes", || writes(server, client.id));
    }
    until("the slow readers' slots are free", || server.status_number("Flifo_running").unwrap() == 0);
    std::mem::replace(gone, Wire::connect(server).unwrap()).vanish();
    thread::scope(|scope| {
        for mut client in [text, binary] {
            scope.spawn(move || assert_eq!(client.replies().unwrap(), [Reply::Rows(ROWS_READ)]));
        }
    });
    // A wait is counted when it ends.
    assert!(server.status_number("Flifo_wait_network_us").unwrap() > 0);
    empty(server);
}

fn writes(server: &PrivateServer, id: u32) -> bool {
    let text = format!(
        "SELECT state LIKE 'Writing to net' OR command = 'Sleep'
                        FROM information_schema.processlist WHERE id = {id}"
    );
    admin(server).query_first(text).unwrap().unwrap_or(true)
}

/// A statement that waits for a lock of tables, of names or of all tables makes room for the one that frees it.
pub(super) fn locks_of_tables_and_names(server: &PrivateServer) {
    one_slot(server);
    for (lock, wait, unlock, waiters) in [
        ("LOCK TABLES t WRITE", "UPDATE t SET k = k + 1 WHERE id = 1", "UNLOCK TABLES", 4),
        ("LOCK TABLES t READ", "LOCK TABLES t WRITE", "UNLOCK TABLES", 4),
        ("DO GET_LOCK('name', 0)", "DO GET_LOCK('name', 1000)", "DO RELEASE_LOCK('name')", 4),
        ("FLUSH TABLES WITH READ LOCK", "UPDATE t SET k = k + 1 WHERE id = 1", "UNLOCK TABLES", 4),
        // A second one waits for the first, which the server does not report.
        ("LOCK TABLES t WRITE", "FLUSH TABLES WITH READ LOCK", "UNLOCK TABLES", 1),
        ("HANDLER t OPEN", "ALTER TABLE t FORCE", "HANDLER t CLOSE", 4),
    ] {
        let mut locker = app(server);
        check(server, &mut locker, lock, 0);
        let waiters: Vec<Running> = (0..waiters).map(|_| Running::start(server, wait)).collect();
        until(&format!("{wait} waits"), || waiting(server) == waiters.len() as u64);
        // A third is admitted while they wait, and so is the one that frees it.
        assert_eq!(code(app(server).query_drop("SELECT 1")), 0);
        locker.query_drop(unlock).unwrap();
        for waiter in waiters {
            waiter.end().unwrap();
        }
        empty(server);
    }
    // Told to end while it waits.
    let mut locker = app(server);
    check(server, &mut locker, "DO GET_LOCK('name', 0)", 0);
    check(server, &mut locker, "LOCK TABLES t WRITE", 0);
    for wait in ["DO GET_LOCK('name', 1000)", "UPDATE t SET k = 1 WHERE id = 1"] {
        let waiter = Running::start(server, wait);
        until("it waits", || waiting(server) == 1);
        admin(server).query_drop(format!("KILL QUERY {}", waiter.id)).unwrap();
        let _ = waiter.end();
        empty(server);
    }
}

/// A statement that waits for the lock of all tables has no slot, and what frees the lock needs none.
pub(super) fn waits_for_all_tables(server: &PrivateServer) {
    one_slot(server);
    let mut locker = app(server);
    check(server, &mut locker, "LOCK TABLES t WRITE", 0);
    let waiters: Vec<Running> =
        (0..4).map(|_| Running::start(server, "FLUSH TABLES WITH READ LOCK; UNLOCK TABLES")).collect();
    until("the first two wait", || waiting(server) >= 2);
    locker.query_drop("UNLOCK TABLES").unwrap();
    for waiter in waiters {
        waiter.end().unwrap();
    }
}

/// Statements that wait for the server's locks of metadata, of names, or of all.
fn waiting(server: &PrivateServer) -> u64 {
    let text = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'
                AND (state = 'User lock' OR state LIKE 'Waiting %' AND state <> 'Waiting for admission')";
    admin(server).query_first(text).unwrap().unwrap()
}

pub(super) fn sleepers_give_way(server: &PrivateServer) {
    one_slot(server);
    let sleepers: Vec<Running> = (0..10).map(|_| Running::start(server, "SELECT SLEEP(1000)")).collect();
    for sleeper in &sleepers {
        until("it sleeps", || sleeps(server, sleeper.id));
    }
    assert_eq!(code(app(server).query_drop("SELECT COUNT(*) FROM t")), 0);
    until("no sleeper has a slot", || server.status_number("Flifo_running").unwrap() == 0);
    let mut root = admin(server);
    for (number, sleeper) in sleepers.into_iter().enumerate() {
        let what = if number % 2 == 0 { "QUERY" } else { "CONNECTION" };
        root.query_drop(format!("KILL {what} {}", sleeper.id)).unwrap();
        // The connection's end may be seen instead.
        assert!(sleeper.end().is_err());
    }
    empty(server);
}
